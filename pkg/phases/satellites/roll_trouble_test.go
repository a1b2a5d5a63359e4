package satellites_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/tlsspec"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/certificates"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/pools"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/registration"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/satellites"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/netcomtls"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/tlssecret"
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
	if e.Reason != conditions.ReasonRollingSatellites ||
		!strings.Contains(e.Message, "restarting satellites: 0 of 4 done; waiting for n01") {
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
	w.Condition(conditions.Available, metav1.ConditionTrue, 2*time.Second)
	if o := decide(); o.Kind != step.KindWait {
		t.Fatalf("outcome is %+v while LINSTOR connects", o)
	}
	w.Condition(conditions.Available, metav1.ConditionTrue, time.Hour)
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
			w := clustertest.NewWorld(t, 1) // of more, they would be more than are restarted at a time
			w.Restarted(w.Kube.Nodes[0].Name)
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

// cutOffWorld is locked, and its satellites run with certificates of before, so that LINSTOR has not reached any for
// that long.
func cutOffWorld(t *testing.T, ago time.Duration) *clustertest.World {
	t.Helper()
	w := clustertest.NewWorld(t, 8)
	w.Cluster.Spec.TLS.Mode = tlsspec.Managed
	w.Accept()
	in, r := w.Input()
	in.Failures = &step.Failures{}
	certificates.Work(t.Context(), in)
	for _, o := range r.Applied {
		w.Kube.Secrets[o.GetName()] = o.(*corev1.Secret)
	}
	for _, p := range w.Kube.ControllerPods {
		p.Annotations = netcomtls.Kind.Annotate(tlssecret.Ref{Secret: "s", Leaf: "leaf", Trust: "trust"}, p.Annotations)
	}
	for _, ds := range satellites.DaemonSets(w.Snapshot()) {
		w.Kube.DaemonSets[ds.Name] = ds
	}
	w.Outdate()
	for _, n := range w.Names() {
		runsWith(w, n, tlssecret.Ref{Secret: "s", Leaf: "old", Trust: "old"})
		w.LinkDown(n, ago)
	}
	return w
}

func runsWith(w *clustertest.World, node string, r tlssecret.Ref) {
	p := w.Satellite(node)
	delete(p.Annotations, netcomtls.Kind.Annotation)
	p.Annotations = netcomtls.Kind.Annotate(r, p.Annotations)
}

// back makes LINSTOR reach a satellite, which is as it shall be if it is not outdated.
func back(w *clustertest.World, node string, outdated bool) {
	if !outdated {
		w.PutPod(v1alpha1.ComponentSatellite, node, w.ReadyPod(v1alpha1.ComponentSatellite, node))
	}
	w.Node(node).Status = linstor.StatusOnline
	delete(w.Linstor.Down, node)
}

// TestCutOffByCertificates: where LINSTOR reaches no satellite, since the certificates of all have expired, one after
// the other is restarted all the same, although that looks like a failure of all nodes.
func TestCutOffByCertificates(t *testing.T) {
	for name, tc := range map[string]struct {
		ago    time.Duration
		spoil  func(*clustertest.World)
		frozen bool
		next   []string
	}{
		"for long":     {3 * time.Minute, func(*clustertest.World) {}, true, []string{"n01"}},
		"for a moment": {time.Minute, func(*clustertest.World) {}, true, nil},
		"one is back, of eight": {3 * time.Minute, func(w *clustertest.World) { back(w, "n01", false) }, true,
			[]string{"n02", "n03"}},
		"they are plain": {3 * time.Minute, func(w *clustertest.World) {
			for _, n := range w.Names() {
				runsWith(w, n, tlssecret.Ref{})
			}
		}, true, []string{"n01"}},
		"with the certificates that they are to have": {3 * time.Minute, func(w *clustertest.World) {
			for _, n := range w.Names() {
				runsWith(w, n, w.Snapshot().Netcom.Satellite)
			}
		}, true, nil},
		"on the pods' network": {3 * time.Minute, func(w *clustertest.World) {
			for _, n := range w.Names() {
				w.Satellite(n).Spec.HostNetwork = false
			}
		}, true, nil},
		// It may be the network: those that serve go first, and the others do not wait for it.
		"one of eight": {3 * time.Minute, func(w *clustertest.World) {
			back(w, "n01", false)
			for _, n := range w.Names()[2:] {
				back(w, n, true)
			}
		}, false, []string{"n03"}},
		// With three of them down no serving one could be restarted for ever.
		"three of eight": {3 * time.Minute, func(w *clustertest.World) {
			back(w, "n01", false)
			for _, n := range w.Names()[4:] {
				back(w, n, true)
			}
		}, true, []string{"n02", "n03"}},
		"two of eight, at once": {3 * time.Minute, func(w *clustertest.World) {
			back(w, "n01", false)
			w.LinkDown("n02", 20*time.Minute)
			for _, n := range w.Names()[3:] {
				back(w, n, true)
			}
		}, false, []string{"n02", "n03"}},
		"the last one": {3 * time.Minute, func(w *clustertest.World) {
			for _, n := range w.Names()[1:] {
				back(w, n, false)
			}
		}, false, []string{"n01"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := cutOffWorld(t, tc.ago)
			tc.spoil(w)
			s := w.Snapshot()
			if s.Frozen() != tc.frozen {
				t.Fatalf("many nodes fail: %t", s.Frozen())
			}
			var next []string
			for _, m := range s.Roll.Next {
				next = append(next, m.Name)
			}
			if !slices.Equal(next, tc.next) {
				t.Errorf("%v are restarted, %q", next, s.Roll.Waiting)
			}
		})
	}
}

// hungWorld is one whose controller reaches no satellite, though n01 runs with what it is to have.
func hungWorld(t *testing.T) *clustertest.World {
	t.Helper()
	w := cutOffWorld(t, 3*time.Minute)
	back(w, "n01", false)
	w.LinkDown("n01", 3*time.Minute)
	for _, n := range w.Names() {
		w.Node(n).Interfaces[0].TLS = true
	}
	readySince(w.Kube.ControllerPods[0], w.Now.Add(-time.Hour))
	return w
}

// TestHung: a controller that reaches no satellite with TLS is restarted, and no other one is.
func TestHung(t *testing.T) {
	for name, tc := range map[string]struct {
		spoil func(*clustertest.World)
		hung  bool
	}{
		"for long":               {func(*clustertest.World) {}, true},
		"for a moment":           {func(w *clustertest.World) { w.LinkDown("n01", time.Second) }, false},
		"another one for less":   {func(w *clustertest.World) { w.LinkDown("n05", time.Minute) }, false},
		"another one is reached": {func(w *clustertest.World) { back(w, "n02", true) }, false},
		"it was restarted lately": {func(w *clustertest.World) {
			readySince(w.Kube.ControllerPods[0], w.Now.Add(-5*time.Minute))
		}, false},
		"all are outdated": {func(w *clustertest.World) { w.Outdate("n01") }, false},
		"LINSTOR connects plainly": {func(w *clustertest.World) {
			for _, n := range w.Names() {
				w.Node(n).Interfaces[0].TLS = false
			}
		}, false},
		"the node is not ready": {func(w *clustertest.World) { w.NodeDown("n01", time.Minute) }, false},
		"the handshake succeeded": {func(w *clustertest.World) {
			w.Node("n01").Status = linstor.StatusVersionMismatch
		}, false},
		"the controller is plain": {func(w *clustertest.World) { w.Kube.ControllerPods[0].Annotations = nil }, false},
		"LINSTOR does not answer": {func(w *clustertest.World) { w.Silent(errors.New("x")) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := hungWorld(t)
			tc.spoil(w)
			if got := satellites.HungController(w.Snapshot()); (got != nil) != tc.hung {
				t.Errorf("hung: %t", got != nil)
			}
		})
	}
	w := hungWorld(t)
	in, r := w.Input()
	if err := satellites.Link().Work(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	if want := "delete Pod/" + w.Kube.ControllerPods[0].Name; !slices.ContainsFunc(r.Calls,
		func(call string) bool { return strings.HasPrefix(call, want) }) {
		t.Errorf("calls %v, without %s", r.Calls, want)
	}
}

func readySince(p *corev1.Pod, at time.Time) {
	for i := range p.Status.Conditions {
		if c := &p.Status.Conditions[i]; c.Type == corev1.PodReady {
			c.LastTransitionTime = metav1.NewTime(at)
		}
	}
}
