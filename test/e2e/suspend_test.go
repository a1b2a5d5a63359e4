package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
	"github.com/linstor-dev/storagecluster-operator/test/sim"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster"
)

// workWrites are the writes with which the operator works: reports in the status are none.
func workWrites(e *env, from int) []simcluster.AuditEvent {
	return slices.DeleteFunc(e.Writes(from), func(ev simcluster.AuditEvent) bool {
		return ev.Resource == "storageclusters" && ev.Subresource == "status"
	})
}

func suspend(e *env, v bool) {
	e.T.Helper()
	e.Update(func(c *v1alpha1.StorageCluster) { c.Spec.Suspend = v })
}

// untouched checks that a suspended operator writes nothing for a while in which it looks several times.
func untouched(e *env, where string) {
	e.T.Helper()
	e.Eventually("suspended in "+where, func() error {
		if got := harness.Condition(e.Get(), conditions.Suspended); got != "True/Suspended" {
			return fmt.Errorf("condition is %s", got)
		}
		return nil
	})
	reported(e)
	mark, phase, since := e.AuditMark(), e.Get().Status.Phase, time.Now()
	e.During(800*time.Millisecond, "suspended in "+where, func() error {
		if w := workWrites(e, mark); len(w) > 0 {
			return fmt.Errorf("it wrote to Kubernetes:\n%s", harness.Tally(w))
		}
		for _, w := range e.Sim.World().Writes() {
			if w.Time.After(since) { // what had begun before may end
				return fmt.Errorf("it wrote to LINSTOR: %s %s", w.Method, w.Path)
			}
		}
		if got := e.Get().Status.Phase; got != phase {
			return fmt.Errorf("phase went from %s to %s", phase, got)
		}
		return nil
	})
}

// reported waits for the Event of the phase or hold in which the cluster was suspended. The operator writes it after
// the status that it tells of, in the background: it is no write of a suspended operator.
func reported(e *env) {
	e.T.Helper()
	s := e.Get().Status
	reason := string(s.Phase)
	if s.Phase == v1alpha1.PhaseHumanIntervention {
		reason = string(s.Hold.Reason)
	}
	e.WaitEvent(reason)
}

func TestSuspendInEveryPhase(t *testing.T) {
	e := start(t, harness.Nodes(12)) // more nodes than are written at once: some writes are waiting when it is suspended
	e.Sim.World().SetFault(func(r *http.Request) *sim.Fault {
		if r.Method == http.MethodPost {
			return &sim.Fault{Delay: 150 * time.Millisecond}
		}
		return nil
	})
	g := harness.NewGate()
	g.Install(e.Env)
	e.Apply(harness.Manifest(harness.ThinPool))
	phases := chainPhases()[1:]
	pinned, release := g.PinAt(phases[0])
	e.Run()
	for i, p := range phases {
		e.Await("phase "+string(p), pinned)
		suspend(e, true)
		release()
		if i+1 < len(phases) {
			pinned, release = g.PinAt(phases[i+1])
		}
		untouched(e, string(p))
		suspend(e, false)
	}
	c := e.WaitPhase(v1alpha1.PhaseReady)
	if got := harness.Condition(c, conditions.Suspended); got != "False/NotSuspended" {
		t.Errorf("Suspended is %s", got)
	}
	noDuplicates(e)
}

// TestSuspendAfterInstallation suspends a cluster that is repaired, held and deleted.
func TestSuspendAfterInstallation(t *testing.T) {
	e := start(t, harness.Nodes(3))
	e.Sim.World().Machine("n1").SetSignature("S4EV1", "xfs")
	e.Run()
	e.Apply(harness.Manifest(harness.ThinPool))
	e.WaitPhase(v1alpha1.PhaseReady)

	suspend(e, true)
	ds := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.WorkloadNamespace,
		Name: resources.SatelliteName}}
	if err := e.Client().Delete(e.Ctx, ds); err != nil {
		t.Fatal(err)
	}
	untouched(e, "Ready")
	suspend(e, false)
	e.Eventually("the DaemonSet is made again",
		func() error { return e.Client().Get(e.Ctx, client.ObjectKeyFromObject(ds), ds) })
	e.WaitStatus("all nodes", func(s *v1alpha1.StorageClusterStatus) bool {
		return s.Phase == v1alpha1.PhaseReady && s.Nodes.Online == 3
	})

	e.Update(func(c *v1alpha1.StorageCluster) {
		all := intstr.FromString("100%")
		c.Spec.Nodes.MinReady = &all
		c.Spec.StoragePools = append(c.Spec.StoragePools, v1alpha1.StoragePoolSpec{
			Name: "new", LVM: &v1alpha1.LVMPool{VolumeGroup: "vg_new"},
			Devices: &v1alpha1.DevicesSpec{Match: []v1alpha1.DeviceMatch{{Serial: "S4EV*"}}},
		})
	})
	hold := e.WaitHold(v1alpha1.HoldDeviceNotEmpty)
	comeToRest(e) // the pools of the other nodes are being made
	suspend(e, true)
	e.Resume(hold, v1alpha1.OptionSkip)
	untouched(e, "HumanIntervention")
	suspend(e, false)
	e.WaitPhase(v1alpha1.PhaseReady)

	suspend(e, true)
	e.Remove()
	e.WaitPhase(v1alpha1.PhaseDeleting)
	untouched(e, "Deleting")
	if err := e.Client().Get(e.Ctx, client.ObjectKeyFromObject(ds), ds); err != nil || ds.DeletionTimestamp != nil {
		t.Errorf("the DaemonSet went while the deletion was suspended: %v", err)
	}
	suspend(e, false)
	e.WaitGone()
}
