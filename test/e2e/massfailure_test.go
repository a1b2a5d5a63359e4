package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
)

// others are the nodes on which LINSTOR's controller does not run.
func (e *env) others(names ...string) []string {
	e.t.Helper()
	controller := controllerNode(e)
	return slices.DeleteFunc(names, func(n string) bool { return n == controller })
}

func (e *env) kill(names ...string) {
	e.t.Helper()
	for _, n := range names {
		if err := e.c.KillNode(e.ctx, n); err != nil {
			e.t.Fatal(err)
		}
	}
}

func (e *env) revive(names ...string) {
	e.t.Helper()
	for _, n := range names {
		if err := e.c.ReviveNode(e.ctx, n); err != nil {
			e.t.Fatal(err)
		}
	}
}

// poolDeletions are the deletions of pools that LINSTOR was asked for.
func (e *env) poolDeletions() int {
	n := 0
	for _, r := range e.c.World().Writes() {
		if r.Method == http.MethodDelete && strings.Contains(r.Path, "/storage-pools/") {
			n++
		}
	}
	return n
}

// holdMassFailure: two of six nodes fail together. Everything destructive is frozen until they are back, or a human says so. What
// would be destructive is the repair of n6's pool, whose volume group is missing: it begins with deleting the pool.
func holdMassFailure(t *testing.T) {
	e := start(t, nodes(6))
	e.c.World().Machine("n6").RemoveVolumeGroup("vg_ssd0")
	e.run()
	e.apply(cluster(thinPool))
	e.waitPhase(v1alpha1.PhaseDegraded)
	e.waitCondition(v1alpha1.ConditionMassFailure, "False/AsExpected")
	e.repaired("at rest")
	down := e.others("n1", "n2", "n3", "n4", "n5")[:2]

	e.kill(down...)
	h := e.waitNodeHold(v1alpha1.HoldMassFailure)
	e.waitCondition(v1alpha1.ConditionMassFailure, "True/NodesFailed")
	e.checkHold(e.get(), h, down...)
	if !slices.Equal(h.Nodes, down) {
		t.Errorf("the hold is about %v, want %v", h.Nodes, down)
	}
	e.notRepaired("while they are down")
	e.stopOperator() // a restart neither ends it nor tells it again
	e.run()
	e.waitCondition(v1alpha1.ConditionMassFailure, "True/NodesFailed")
	e.notRepaired("after a restart")
	e.during(settle, "it goes on", func() error {
		if got := condition(e.get(), v1alpha1.ConditionMassFailure); got != "True/NodesFailed" {
			return errors.New(got)
		}
		return e.massFailureEvents(1)
	})
	e.revive(down...)
	e.waitCondition(v1alpha1.ConditionMassFailure, "False/AsExpected")
	e.repaired("when they are back")
	if holds := e.get().Status.NodeHolds; len(holds) > 0 {
		t.Errorf("holds %+v", holds)
	}

	// Again, and this time a human knows of it.
	e.kill(down...)
	h = e.waitNodeHold(v1alpha1.HoldMassFailure)
	e.notRepaired("the second time")
	e.resume(h, v1alpha1.OptionContinue)
	e.waitCondition(v1alpha1.ConditionMassFailure, "False/Acknowledged")
	e.noToken()
	e.repaired("because a human says so")
	e.stopOperator() // the word outlives the operator
	e.run()
	e.during(settle, "acknowledged", func() error {
		c := e.get()
		if got := condition(c, v1alpha1.ConditionMassFailure); got != "False/Acknowledged" || len(c.Status.NodeHolds) > 0 {
			return fmt.Errorf("%s with holds %v", got, c.Status.NodeHolds)
		}
		return e.massFailureEvents(2)
	})
	e.revive(down...)
	e.waitCondition(v1alpha1.ConditionMassFailure, "False/AsExpected")
	e.c.World().Machine("n6").AddVolumeGroup(machine(1).VolumeGroups[0])
	e.ready("6/6", "6/6")
}

func (e *env) repaired(when string) {
	e.t.Helper()
	before := e.poolDeletions()
	e.eventually("a pool is registered anew "+when, func() error {
		if e.poolDeletions() == before {
			return errors.New("no pool was deleted")
		}
		return nil
	})
}

func (e *env) notRepaired(when string) {
	e.t.Helper()
	before := -1
	e.eventually("what had begun is done", func() error {
		n := e.poolDeletions()
		if was := before; was != n {
			before = n
			return fmt.Errorf("%d pools were deleted", n)
		}
		return nil
	})
	e.during(settle, "no pool is touched "+when, func() error {
		if n := e.poolDeletions(); n != before {
			return fmt.Errorf("%d pools were deleted", n-before)
		}
		return nil
	})
}

// massFailureEvents wants so many Events MassFailure so far, one for each time.
func (e *env) massFailureEvents(want int) error {
	n := 0
	for _, ev := range e.events() {
		if ev.Reason == string(v1alpha1.HoldMassFailure) {
			n++
			if ev.Type != corev1.EventTypeWarning || ev.Series != nil {
				return fmt.Errorf("Event %+v", ev)
			}
		}
	}
	if n != want {
		return fmt.Errorf("%d Events MassFailure, want %d", n, want)
	}
	return nil
}

// Nodes that fail one after the other are no mass failure, and neither are restarts of satellites.
func TestNoMassFailure(t *testing.T) {
	e := start(t, nodes(5))
	e.timing.MassFailureWindow, e.timing.Straggler = 2*time.Second, 20*time.Second // LINSTOR reconnects every ten seconds
	e.run()
	e.apply(cluster(thinPool))
	e.ready("5/5", "5/5")
	quiet := func(when string, d time.Duration) {
		t.Helper()
		e.during(d, when, func() error {
			if got := condition(e.get(), v1alpha1.ConditionMassFailure); strings.HasPrefix(got, "True") {
				return errors.New(got)
			}
			return nil
		})
	}
	spare := e.others("n1", "n2", "n3", "n4", "n5")
	for _, n := range spare[:3] {
		if err := e.client().Delete(e.ctx, e.satellitePod(n)); err != nil {
			t.Fatal(err)
		}
	}
	quiet("satellites restart", settle)
	e.ready("5/5", "5/5")
	e.kill(spare[0])
	quiet("the first fails", 4*time.Second) // longer than the window
	e.kill(spare[1])
	quiet("the second fails", 2*settle)
	if err := oneEvent(e.events(), func(ev *eventsv1.Event) bool { return ev.Reason == string(v1alpha1.HoldMassFailure) }); err == nil {
		t.Error("an Event MassFailure")
	}
}
