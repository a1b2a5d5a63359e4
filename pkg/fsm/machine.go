// Package fsm holds the state machine of a StorageCluster: the transition table, which is the only truth about what
// may follow what, and a machine that moves along it.
//
// A state names work in progress. The handler of the state does that work on every reconcile until the evidence says
// done; nothing happens on entering a state, so that a crash, a restart and a new leader are the same as reconciling
// again.
//
// The package imports nothing of Kubernetes. looplab/fsm is used here only: a Machine is built anew for every
// reconcile, because an FSM of looplab v1.0.3 that was fired with a cancelled context refuses every later event.
package fsm

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	looplab "github.com/looplab/fsm"
)

// State is a phase of the cluster.
type State string

// Event moves the machine from one state to another.
type Event string

// StateInfo is what the table knows of a state.
type StateInfo struct {
	State State
	// Deadline is how long a working state may go without progress by default, before HumanNeeded; 0 for others.
	Deadline time.Duration
	// Meaning is one sentence for the diagrams.
	Meaning string
}

// Row is one edge of the machine.
type Row struct {
	From  State
	Event Event
	To    State
	// Evidence is what must have been seen for the event to fire.
	Evidence string
}

// Table is a state machine as data.
type Table struct {
	Initial State
	States  []StateInfo
	Rows    []Row
}

// Next is where an event leads from a state; false if it is not legal there.
func (t *Table) Next(from State, e Event) (State, bool) {
	for _, r := range t.Rows {
		if r.From == from && r.Event == e {
			return r.To, true
		}
	}
	return "", false
}

// Events lists the events that are legal in a state, in the table's order.
func (t *Table) Events(from State) []Event {
	var out []Event
	for _, r := range t.Rows {
		if r.From == from {
			out = append(out, r.Event)
		}
	}
	return out
}

// ErrUnknownState is returned for a state that the table does not have: a newer operator wrote it, and guessing what
// it meant could undo what that one did.
var ErrUnknownState = errors.New("unknown state")

// IllegalEventError is returned for an event that the table does not have in the current state.
type IllegalEventError struct {
	State State
	Event Event
}

func (e *IllegalEventError) Error() string {
	return fmt.Sprintf("event %s is not allowed in state %s", e.Event, e.State)
}

// Transition is one step of the machine.
type Transition struct {
	From  State
	Event Event
	To    State
}

// Machine is a state machine in one state. It is not kept between reconciles.
type Machine struct{ fsm *looplab.FSM }

// Restore builds a machine in a state; an empty state is the table's initial one.
func Restore(t *Table, s State) (*Machine, error) {
	if s == "" {
		s = t.Initial
	}
	if !slices.ContainsFunc(t.States, func(i StateInfo) bool { return i.State == s }) {
		return nil, fmt.Errorf("%w %q in the state machine of the cluster", ErrUnknownState, s)
	}
	events := make(looplab.Events, 0, len(t.Rows))
	for _, r := range t.Rows {
		events = append(events, looplab.EventDesc{Name: string(r.Event), Src: []string{string(r.From)}, Dst: string(r.To)})
	}
	return &Machine{fsm: looplab.NewFSM(string(s), events, nil)}, nil
}

// Current is the machine's state.
func (m *Machine) Current() State { return State(m.fsm.Current()) }

// Fire moves the machine. It returns an *IllegalEventError, and stays, if the event is not legal now.
func (m *Machine) Fire(ctx context.Context, e Event) (Transition, error) {
	from := m.Current()
	if !m.fsm.Can(string(e)) {
		return Transition{}, &IllegalEventError{State: from, Event: e}
	}
	// A context that is cancelled between observing and firing would leave looplab's machine stuck in transition.
	if err := m.fsm.Event(context.WithoutCancel(ctx), string(e)); err != nil {
		return Transition{}, fmt.Errorf("fire %s in %s: %w", e, from, err)
	}
	return Transition{From: from, Event: e, To: m.Current()}, nil
}

// Mermaid draws the table as a Mermaid state diagram, with a note for each state. Events that many states share and
// that all lead to the same state are drawn once, from a note, so that the picture stays readable; the table below it
// is whole.
func (t *Table) Mermaid() string {
	var b strings.Builder
	b.WriteString("stateDiagram-v2\n")
	fmt.Fprintf(&b, "    [*] --> %s\n", t.Initial)
	shared := t.sharedEvents()
	for _, r := range t.merged(shared) {
		fmt.Fprintf(&b, "    %s --> %s: %s\n", r.From, r.To, r.Event)
	}
	for _, s := range t.States {
		if len(t.Events(s.State)) == 0 {
			fmt.Fprintf(&b, "    %s --> [*]\n", s.State)
		}
	}
	for _, s := range t.States {
		fmt.Fprintf(&b, "    note right of %s\n        %s\n", s.State, s.Meaning)
		if s.Deadline > 0 {
			fmt.Fprintf(&b, "        Without progress for %s: %s\n", s.Deadline, HumanNeeded)
		}
		for _, e := range t.Events(s.State) {
			if to, ok := shared[e]; ok && to != s.State {
				fmt.Fprintf(&b, "        %s leads to %s\n", e, to)
			}
		}
		b.WriteString("    end note\n")
	}
	return b.String()
}

// sharedEvents are the events of four states and more that lead to one and the same state.
func (t *Table) sharedEvents() map[Event]State {
	count, to := map[Event]int{}, map[Event]State{}
	for _, r := range t.Rows {
		count[r.Event]++
		to[r.Event] = r.To
	}
	for _, r := range t.Rows {
		if count[r.Event] < 4 || to[r.Event] != r.To {
			delete(to, r.Event)
		}
	}
	return to
}

// merged are the rows without the shared events, with the events between the same two states joined.
func (t *Table) merged(shared map[Event]State) []Row {
	var out []Row
	at := map[[2]State]int{}
	for _, r := range t.Rows {
		if _, ok := shared[r.Event]; ok {
			continue
		}
		k := [2]State{r.From, r.To}
		if i, ok := at[k]; ok {
			out[i].Event += " / " + r.Event
			continue
		}
		at[k] = len(out)
		out = append(out, r)
	}
	return out
}

// Markdown is the page for docs/state-diagrams: the diagram and the whole table.
func (t *Table) Markdown(title string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n<!-- Generated from pkg/fsm by `make generate`; do not edit. -->\n\n", title)
	fmt.Fprintf(&b, "```mermaid\n%s```\n\n## States\n\n", t.Mermaid())
	b.WriteString("| state | kind | meaning | deadline | then |\n|---|---|---|---|---|\n")
	for _, s := range t.States {
		kind, deadline, then := "steady", "–", "–"
		switch {
		case s.Deadline > 0:
			kind, deadline, then = "working", s.Deadline.String(), string(HumanNeeded)
		case len(t.Events(s.State)) == 0:
			kind = "terminal"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", s.State, kind, s.Meaning, deadline, then)
	}
	b.WriteString("\n## Transitions\n\n| from | event | to | evidence |\n|---|---|---|---|\n")
	for _, r := range t.Rows {
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", r.From, r.Event, r.To, r.Evidence)
	}
	return b.String()
}
