package e2e

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
)

// TestFullThinPool fills a thin pool of 180 GiB on one node and empties it again.
func TestFullThinPool(t *testing.T) {
	e := start(t, nodes(3))
	e.run()
	e.apply(cluster(thinPool))
	e.waitPhase(v1alpha1.PhaseReady)
	e.waitCondition(v1alpha1.ConditionPoolsNearlyFull, "False/AsExpected")
	if err := e.c.World().CreateVolume("pvc-1", 162<<20, "ssd", "n2"); err != nil {
		t.Fatal(err)
	}
	c := e.waitCondition(v1alpha1.ConditionPoolsNearlyFull, "True/NearlyFull")
	if c.Status.Phase != v1alpha1.PhaseReady {
		t.Errorf("phase is %s: a full pool is no missing node", c.Status.Phase)
	}
	e.waitEvent("PoolsNearlyFull", "ssd@n2 90 %")
	comeToRest(e)
	mark := auditMark(e)
	e.during(2*time.Second, "a full pool is told once", func() error {
		if w := operatorWrites(e, mark); len(w) > 0 {
			return errors.New(tally(w))
		}
		return nil
	})
	if err := e.c.World().DeleteVolume("pvc-1"); err != nil {
		t.Fatal(err)
	}
	e.waitCondition(v1alpha1.ConditionPoolsNearlyFull, "False/AsExpected")
	e.eventually("the Event that it is over", func() error {
		return oneEvent(e.events(), func(ev *eventsv1.Event) bool {
			return ev.Reason == "PoolsHaveSpace" && ev.Type == corev1.EventTypeNormal
		})
	})
	if err := oneEvent(e.events(), func(ev *eventsv1.Event) bool {
		return ev.Reason == "PoolsNearlyFull" && ev.Type == corev1.EventTypeWarning && strings.Contains(ev.Note, "storage-pools.md")
	}); err != nil {
		t.Error(err)
	}
}

// waitCondition waits for a condition's status and reason.
func (e *env) waitCondition(kind, want string) *v1alpha1.StorageCluster {
	e.t.Helper()
	var c *v1alpha1.StorageCluster
	e.eventually(kind+" "+want, func() error {
		c = e.get()
		if got := condition(c, kind); got != want {
			return errors.New("it is " + got)
		}
		return nil
	})
	return c
}
