package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
)

// TestFullThinPool fills a thin pool of 180 GiB on one node and empties it again.
func TestFullThinPool(t *testing.T) {
	e := startReady(t, 3, harness.ThinPool)
	e.Run()
	e.WaitPhase(v1alpha1.PhaseReady)
	e.waitCondition(conditions.PoolsNearlyFull, "False/AsExpected")
	if err := e.Sim.World().Volumes().Create("pvc-1", 162<<20, "ssd", "n2"); err != nil {
		t.Fatal(err)
	}
	c := e.waitCondition(conditions.PoolsNearlyFull, "True/NearlyFull")
	if c.Status.Phase != v1alpha1.PhaseReady {
		t.Errorf("phase is %s: a full pool is no missing node", c.Status.Phase)
	}
	e.WaitEvent("PoolsNearlyFull", "ssd@n2 90 %")
	// The copies are counted by a later look than the one that found the pool full.
	e.Eventually("the volume is counted", func() error {
		if v := e.Get().Status.Volumes; v == nil || v.Total != 1 || v.Healthy != 1 {
			return fmt.Errorf("the volumes are %+v", v)
		}
		return nil
	})
	comeToRest(e)
	mark := e.AuditMark()
	e.During(2*time.Second, "a full pool is told once", func() error {
		if w := e.Writes(mark); len(w) > 0 {
			return errors.New(harness.Tally(w))
		}
		return nil
	})
	if err := e.Sim.World().Volumes().Delete("pvc-1"); err != nil {
		t.Fatal(err)
	}
	e.waitCondition(conditions.PoolsNearlyFull, "False/AsExpected")
	e.Eventually("the Event that it is over", func() error {
		return oneEvent(e.Events(), func(ev *eventsv1.Event) bool {
			return ev.Reason == "PoolsHaveSpace" && ev.Type == corev1.EventTypeNormal
		})
	})
	if err := oneEvent(e.Events(), func(ev *eventsv1.Event) bool {
		return ev.Reason == "PoolsNearlyFull" && ev.Type == corev1.EventTypeWarning &&
			strings.Contains(ev.Note, "storage-pools.md")
	}); err != nil {
		t.Error(err)
	}
}

// waitCondition waits for a condition's status and reason.
func (e poolEnv) waitCondition(kind, want string) *v1alpha1.StorageCluster {
	e.T.Helper()
	var c *v1alpha1.StorageCluster
	e.Eventually(kind+" "+want, func() error {
		c = e.Get()
		if got := harness.Condition(c, kind); got != want {
			return errors.New("it is " + got)
		}
		return nil
	})
	return c
}
