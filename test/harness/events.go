package harness

import (
	"fmt"
	"strings"

	eventsv1 "k8s.io/api/events/v1"
)

// Events are the StorageCluster's, in the order in which they came.
func (a *Administrator) Events() []eventsv1.Event {
	a.T.Helper()
	var list eventsv1.EventList
	if err := a.Client().List(a.Ctx, &list); err != nil {
		a.T.Fatal(err)
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
func (a *Administrator) WaitEvent(reason string, contains ...string) {
	a.T.Helper()
	a.Eventually("Event "+reason, func() error {
		for _, ev := range a.Events() {
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
		return fmt.Errorf("no such Event among %d", len(a.Events()))
	})
}
