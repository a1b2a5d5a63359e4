package fsm

import (
	"fmt"
	"slices"
	"time"
)

// State is a phase of the cluster.
type State string

// Event moves the machine from one state to another.
type Event string

// Class says what kind of state a state is.
type Class string

// Classes of states.
const (
	// Working states do something and have a deadline.
	Working Class = "working"
	// Steady states stay until something changes.
	Steady Class = "steady"
	// Terminal states end with the object.
	Terminal Class = "terminal"
)

// StateInfo is what the table knows of a state.
type StateInfo struct {
	State State
	Class Class
	// Meaning is one sentence for the diagrams.
	Meaning string
	// Deadline is how long a working state may go without progress by default; 0 for others.
	Deadline time.Duration
	// Escalation is the event that fires when the deadline passes; "" for states without one.
	Escalation Event
}

// Row is one edge of the machine.
type Row struct {
	From  State
	Event Event
	To    State
	// Evidence is what must have been seen for the event to fire.
	Evidence string
	// OneWay marks an edge that no event undoes.
	OneWay bool
}

// Table is a state machine as data.
type Table struct {
	Name    string
	Initial State
	States  []StateInfo
	Rows    []Row
}

// Info is what the table knows of a state; false if it does not know it.
func (t *Table) Info(s State) (StateInfo, bool) {
	i := slices.IndexFunc(t.States, func(i StateInfo) bool { return i.State == s })
	if i < 0 {
		return StateInfo{}, false
	}
	return t.States[i], true
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

// Validate says what is wrong with the table, as a list of sentences; nothing if it is sound.
func (t *Table) Validate() []string {
	var faults []string
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	seen := map[State]bool{}
	for _, s := range t.States {
		if seen[s.State] {
			fault("state %s is listed twice", s.State)
		}
		seen[s.State] = true
		if (s.Class == Working) != (s.Deadline > 0 && s.Escalation != "") {
			fault("state %s is %s: a working state needs a deadline and an escalation, no other has one", s.State, s.Class)
		}
		if s.Escalation != "" {
			if _, ok := t.Next(s.State, s.Escalation); !ok {
				fault("the escalation %s of %s is no edge", s.Escalation, s.State)
			}
		}
		if s.Meaning == "" {
			fault("state %s has no meaning", s.State)
		}
	}
	type key struct {
		s State
		e Event
	}
	edges := map[key]bool{}
	for _, r := range t.Rows {
		k := key{r.From, r.Event}
		if edges[k] {
			fault("row %s --%s--> is there twice: looplab would take the last one silently", r.From, r.Event)
		}
		edges[k] = true
		if !seen[r.From] || !seen[r.To] {
			fault("row %s --%s--> %s names an unknown state", r.From, r.Event, r.To)
		}
		if r.From == r.To {
			fault("row %s --%s--> %s goes nowhere: staying is no event", r.From, r.Event, r.To)
		}
		if r.Evidence == "" {
			fault("row %s --%s--> %s has no evidence", r.From, r.Event, r.To)
		}
	}
	for _, s := range t.unreachable() {
		fault("state %s cannot be reached from %s", s, t.Initial)
	}
	return faults
}

func (t *Table) unreachable() []State {
	reached := map[State]bool{t.Initial: true}
	for grew := true; grew; {
		grew = false
		for _, r := range t.Rows {
			if reached[r.From] && !reached[r.To] {
				reached[r.To], grew = true, true
			}
		}
	}
	var out []State
	for _, s := range t.States {
		if !reached[s.State] {
			out = append(out, s.State)
		}
	}
	return out
}
