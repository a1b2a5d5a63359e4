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
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
	"github.com/linstor-dev/storagecluster-operator/test/machine"
)

// others are the nodes on which LINSTOR's controller does not run.
func (e nodeEnv) others(names ...string) []string {
	e.T.Helper()
	controller := e.controllerNode()
	return slices.DeleteFunc(names, func(n string) bool { return n == controller })
}

func (e nodeEnv) kill(names ...string) {
	e.T.Helper()
	for _, n := range names {
		if err := e.Sim.KillNode(e.Ctx, n); err != nil {
			e.T.Fatal(err)
		}
	}
}

func (e nodeEnv) revive(names ...string) {
	e.T.Helper()
	for _, n := range names {
		if err := e.Sim.ReviveNode(e.Ctx, n); err != nil {
			e.T.Fatal(err)
		}
	}
}

// poolDeletions are the deletions of pools that LINSTOR was asked for.
func (e poolEnv) poolDeletions() int {
	n := 0
	for _, r := range e.Sim.World().Writes() {
		if r.Method == http.MethodDelete && strings.Contains(r.Path, "/storage-pools/") {
			n++
		}
	}
	return n
}

// holdMassFailure: two of six nodes fail together. Everything destructive is frozen until they are back, or a human
// says so. What would be destructive is the repair of n6's pool, whose volume group is missing: it begins with
// deleting the pool.
func holdMassFailure(t *testing.T) {
	e := start(t, harness.Nodes(6))
	e.Sim.World().Machine("n6").LVM().Remove("vg_ssd0")
	e.Run()
	e.Apply(harness.Manifest(harness.ThinPool))
	e.WaitPhase(v1alpha1.PhaseDegraded)
	e.waitCondition(conditions.MassFailure, "False/AsExpected")
	e.repaired("at rest")
	down := e.others("n1", "n2", "n3", "n4", "n5")[:2]

	e.kill(down...)
	h := e.WaitNodeHold(v1alpha1.HoldMassFailure)
	e.waitCondition(conditions.MassFailure, "True/NodesFailed")
	e.checkHold(e.Get(), h, down...)
	if !slices.Equal(h.Nodes, down) {
		t.Errorf("the hold is about %v, want %v", h.Nodes, down)
	}
	e.notRepaired("while they are down")
	e.StopOperator() // a restart neither ends it nor tells it again
	e.Run()
	e.waitCondition(conditions.MassFailure, "True/NodesFailed")
	e.notRepaired("after a restart")
	e.During(settle, "it goes on", func() error {
		if got := harness.Condition(e.Get(), conditions.MassFailure); got != "True/NodesFailed" {
			return errors.New(got)
		}
		return e.massFailureEvents(1)
	})
	e.revive(down...)
	e.waitCondition(conditions.MassFailure, "False/AsExpected")
	e.repaired("when they are back")
	if holds := e.Get().Status.NodeHolds; len(holds) > 0 {
		t.Errorf("holds %+v", holds)
	}

	// Again, and this time a human knows of it.
	e.kill(down...)
	h = e.WaitNodeHold(v1alpha1.HoldMassFailure)
	e.notRepaired("the second time")
	e.Resume(h, v1alpha1.OptionContinue)
	e.waitCondition(conditions.MassFailure, "False/Acknowledged")
	e.noToken()
	e.repaired("because a human says so")
	e.StopOperator() // the word outlives the operator
	e.Run()
	e.During(settle, "acknowledged", func() error {
		c := e.Get()
		if got := harness.Condition(c, conditions.MassFailure); got != "False/Acknowledged" || len(c.Status.NodeHolds) > 0 {
			return fmt.Errorf("%s with holds %v", got, c.Status.NodeHolds)
		}
		return e.massFailureEvents(2)
	})
	e.revive(down...)
	e.waitCondition(conditions.MassFailure, "False/AsExpected")
	e.Sim.World().Machine("n6").LVM().Add(harness.Machine(1).VolumeGroups[0])
	e.ready("6/6", "6/6")
}

func (e *env) repaired(when string) {
	e.T.Helper()
	before := e.poolDeletions()
	e.Eventually("a pool is registered anew "+when, func() error {
		if e.poolDeletions() == before {
			return errors.New("no pool was deleted")
		}
		return nil
	})
}

func (e *env) notRepaired(when string) {
	e.T.Helper()
	before := -1
	e.Quiet(time.Second, "what had begun is done", func() string {
		n := e.poolDeletions()
		if was := before; was != n {
			before = n
			return fmt.Sprintf("%d pools were deleted", n)
		}
		return ""
	})
	e.During(settle, "no pool is touched "+when, func() error {
		if n := e.poolDeletions(); n != before {
			return fmt.Errorf("%d pools were deleted", n-before)
		}
		return nil
	})
}

// massFailureEvents wants so many Events MassFailure so far, one for each time.
func (e *env) massFailureEvents(want int) error {
	n := 0
	for _, ev := range e.Events() {
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
	e := startReady(t, 5, harness.ThinPool)
	e.Timing.MassFailureWindow = machine.Slow(2 * time.Second)
	e.Timing.Straggler = machine.Slow(20 * time.Second) // LINSTOR reconnects every ten seconds
	e.Run()
	e.ready("5/5", "5/5")
	quiet := func(when string, d time.Duration) {
		t.Helper()
		e.During(d, when, func() error {
			if got := harness.Condition(e.Get(), conditions.MassFailure); strings.HasPrefix(got, "True") {
				return errors.New(got)
			}
			return nil
		})
	}
	spare := e.others("n1", "n2", "n3", "n4", "n5")
	for _, n := range spare[:3] {
		if err := e.Client().Delete(e.Ctx, e.satellitePod(n)); err != nil {
			t.Fatal(err)
		}
	}
	quiet("satellites restart", settle)
	e.ready("5/5", "5/5")
	e.kill(spare[0])
	quiet("the first fails", 4*time.Second) // longer than the window
	e.kill(spare[1])
	quiet("the second fails", 2*settle)
	if err := oneEvent(e.Events(),
		func(ev *eventsv1.Event) bool { return ev.Reason == string(v1alpha1.HoldMassFailure) }); err == nil {
		t.Error("an Event MassFailure")
	}
}
