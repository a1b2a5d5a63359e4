package harness

import (
	"fmt"
	"strings"

	eventsv1 "k8s.io/api/events/v1"
)

// Events are the StorageCluster's, in the order in which they came.
func (e *Env) Events() []eventsv1.Event {
	e.T.Helper()
	var list eventsv1.EventList
	if err := e.Client().List(e.Ctx, &list); err != nil {
		e.T.Fatal(err)
	}
	var out []eventsv1.Event
	for _, ev := range list.Items {
		if ev.Regarding.Kind == "StorageCluster" {
			out = append(out, ev)
		}
	}
	return out
}

// WaitEvent waits for an Event of a reason whose note contains some texts.
func (e *Env) WaitEvent(reason string, contains ...string) {
	e.T.Helper()
	e.Eventually("Event "+reason, func() error {
		for _, ev := range e.Events() {
			if ev.Reason != reason {
				continue
			}
			ok := true
			for _, c := range contains {
				ok = ok && strings.Contains(ev.Note, c)
			}
			if ok {
				return nil
			}
		}
		return fmt.Errorf("no such Event among %d", len(e.Events()))
	})
}
