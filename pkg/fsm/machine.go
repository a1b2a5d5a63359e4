package fsm

import (
	"context"
	"errors"
	"fmt"

	looplab "github.com/looplab/fsm"
)

// ErrUnknownState is returned for a state that the table does not have: a newer operator wrote it, and guessing what it
// meant could undo what that one did.
var ErrUnknownState = errors.New("unknown state")

// IllegalEventError is returned for an event that the table does not have in the current state.
type IllegalEventError struct {
	State State
	Event Event
}

func (e *IllegalEventError) Error() string {
	return fmt.Sprintf("event %s is not legal in state %s", e.Event, e.State)
}

// Transition is one step of the machine.
type Transition struct {
	From  State
	Event Event
	To    State
}

// Machine is a state machine in one state. It is not kept between reconciles.
type Machine struct {
	table *Table
	fsm   *looplab.FSM
}

// Restore builds a machine in a state; an empty state is the table's initial one.
func Restore(t *Table, s State) (*Machine, error) {
	if s == "" {
		s = t.Initial
	}
	if _, ok := t.Info(s); !ok {
		return nil, fmt.Errorf("%w %q in machine %s", ErrUnknownState, s, t.Name)
	}
	return &Machine{table: t, fsm: looplab.NewFSM(string(s), t.looplabEvents(), nil)}, nil
}

// Current is the machine's state.
func (m *Machine) Current() State { return State(m.fsm.Current()) }

// Can says whether an event is legal now.
func (m *Machine) Can(e Event) bool { return m.fsm.Can(string(e)) }

// Fire moves the machine. It returns an *IllegalEventError, and stays, if the event is not legal now.
func (m *Machine) Fire(ctx context.Context, e Event) (Transition, error) {
	from := m.Current()
	if !m.Can(e) {
		return Transition{}, &IllegalEventError{State: from, Event: e}
	}
	// A context that is cancelled between observing and firing would leave looplab's machine stuck in transition.
	if err := m.fsm.Event(context.WithoutCancel(ctx), string(e)); err != nil {
		return Transition{}, fmt.Errorf("fire %s in %s: %w", e, from, err)
	}
	return Transition{From: from, Event: e, To: m.Current()}, nil
}

// looplabEvents are the table's rows in looplab's form, one description for each event and destination.
func (t *Table) looplabEvents() looplab.Events {
	out := make(looplab.Events, 0, len(t.Rows))
	for _, r := range t.Rows {
		out = append(out, looplab.EventDesc{Name: string(r.Event), Src: []string{string(r.From)}, Dst: string(r.To)})
	}
	return out
}
