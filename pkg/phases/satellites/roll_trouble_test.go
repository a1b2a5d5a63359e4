package satellites_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/pools"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/registration"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/satellites"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
)

func TestRollIsNoTroubleAtFirst(t *testing.T) {
	w := clustertest.NewWorld(t, 4)
	w.Outdate("n02", "n03", "n04")
	w.Restarted("n01")
	s := w.Snapshot()
	if h := s.Health; h.Degraded {
		t.Errorf("health is %+v", h)
	}
	for _, l := range phases.Links() {
		if e := l.Judge(s); e.State != cluster.Satisfied {
			t.Errorf("%s: evidence is %+v", l.State, e)
		}
	}
	e := satellites.Link().Judge(s)
	if e.Reason != conditions.ReasonRollingSatellites || !strings.Contains(e.Message, "rolling 0/4: waiting for n01") {
		t.Errorf("evidence is %+v", e)
	}
	w.Satellite("n01").CreationTimestamp = metav1.NewTime(clustertest.Begin.Add(-3 * time.Minute))
	if h := w.Snapshot().Health; !h.Degraded {
		t.Error("a satellite that does not come back is no trouble")
	}
}

// TestANodeThatWasNeverOnlineIsNotRestarting: the first start is work of the chain, which waits for it.
func TestANodeThatWasNeverOnlineIsNotRestarting(t *testing.T) {
	w := clustertest.NewWorld(t, 3)
	for _, n := range w.Kube.Nodes {
		w.Restarted(n.Name)
		delete(w.Node(n.Name).Properties, linstor.PropUname)
	}
	if e := registration.Link().Judge(w.Snapshot()); e.OK() {
		t.Errorf("evidence is %+v", e)
	}
}

func TestStuckRollIsHeld(t *testing.T) {
	w := clustertest.NewWorld(t, 8)
	w.Outdate("n02", "n03", "n04")
	w.Restarted("n01")
	w.Phase(v1alpha1.PhaseDegraded, time.Hour)
	decide := func() step.Outcome {
		in, r := w.Input()
		o := phases.Decide(t.Context(), in)
		if len(r.Calls) > 0 {
			t.Errorf("calls %v although the roll is stuck", r.Calls)
		}
		return o
	}
	if o := decide(); o.Kind != step.KindWait {
		t.Fatalf("outcome is %+v before the deadline", o)
	}
	w.Satellite("n01").CreationTimestamp = metav1.NewTime(clustertest.Begin.Add(-time.Hour))
	o := decide()
	if h := o.Hold; h == nil || h.Reason != v1alpha1.HoldSatellitesFailed || len(h.Nodes) != 1 ||
		!strings.Contains(h.Message, "3 outdated satellites") {
		t.Fatalf("outcome is %+v", o)
	}

	w.Phase(v1alpha1.PhaseHumanIntervention, time.Minute)
	w.Cluster.Status.Hold = &v1alpha1.Hold{ID: "h-1", Reason: v1alpha1.HoldSatellitesFailed}
	if o := decide(); o.Event != "" {
		t.Errorf("the hold ended while n01 is away: %+v", o)
	}
	w.Node("n01").Status = linstor.StatusOnline
	w.PutPod(v1alpha1.ComponentSatellite, "n01", w.ReadyPod(v1alpha1.ComponentSatellite, "n01"))
	if o := decide(); o.Event != fsm.Cleared {
		t.Errorf("outcome is %+v, want the hold to be cleared", o)
	}
}

func TestFilePoolWaitsForTheMount(t *testing.T) {
	w := clustertest.NewWorld(t, 3)
	w.Outdate("n02")
	w.Cluster.Spec.StoragePools = append(w.Cluster.Spec.StoragePools,
		v1alpha1.StoragePoolSpec{Name: "files", FileThin: &v1alpha1.FilePool{Directory: "/srv/files"}})
	w.Accept()
	s := w.Snapshot()
	if p := s.MemberByName("n02").Problem; p == nil || p.Reason != "SatelliteOutdated" {
		t.Fatalf("problem is %+v", p)
	}
	in, r := w.Input()
	if err := pools.Link().Work(t.Context(), in); err != nil || len(r.Queued) > 0 {
		t.Errorf("tasks %v, error %v: the pool would be inside the container", r.Keys(), err)
	}
}

// TestAdoptedNodesAreNotRestarting: the satellites of a cluster that is adopted are all new, and LINSTOR knows their
// nodes from before. Taking them for restarted ones once called such a cluster Ready while none of its nodes was
// online.
func TestAdoptedNodesAreNotRestarting(t *testing.T) {
	working := func(w *clustertest.World) { w.Phase(v1alpha1.PhaseNodeRegistration, time.Second) }
	for _, c := range []struct {
		name                string
		change              func(*clustertest.World)
		registration, pools bool
	}{
		{"it was Ready", func(*clustertest.World) {}, true, true},
		{"it is set up", working, false, false},
		{"it was Ready before this phase", func(w *clustertest.World) {
			working(w)
			w.Cluster.Status.FirstReady = clustertest.At(clustertest.Begin)
		}, true, true},
		{"a pool is missing", func(w *clustertest.World) {
			for _, n := range w.Kube.Nodes {
				clear(w.Node(n.Name).Pools)
			}
		}, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := clustertest.NewWorld(t, 3)
			for _, n := range w.Kube.Nodes {
				w.Restarted(n.Name)
			}
			c.change(w)
			s := w.Snapshot()
			if e := registration.Link().Judge(s); e.OK() != c.registration {
				t.Errorf("registration: %+v", e)
			}
			if e := pools.Link().Judge(s); e.OK() != c.pools {
				t.Errorf("pools: %+v", e)
			}
		})
	}
}
