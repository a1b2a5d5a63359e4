package phases

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/work"
)

func (w *world) satellite(node string) *corev1.Pod {
	return w.kube.Pods[v1alpha1.ComponentSatellite][node]
}

// outdate makes the satellites' pods ones of an earlier template; all of them if none is named.
func (w *world) outdate(nodes ...string) {
	if len(nodes) == 0 {
		for _, n := range w.kube.Nodes {
			nodes = append(nodes, n.Name)
		}
	}
	for _, n := range nodes {
		w.satellite(n).Annotations = map[string]string{resources.AnnotationTemplateHash: "old"}
	}
}

// restarted makes a satellite's pod one that has just been replaced and is not ready.
func (w *world) restarted(node string) {
	p := w.readyPod(v1alpha1.ComponentSatellite, node)
	p.CreationTimestamp, p.Status.Conditions = metav1.NewTime(w.now.Add(-10*time.Second)), nil
	w.putPod(v1alpha1.ComponentSatellite, node, p)
	w.node(node).Status = linstor.StatusOffline
}

// onPodNetwork makes the satellites' pods ones without the host's network.
func (w *world) onPodNetwork() {
	for _, p := range w.kube.Pods[v1alpha1.ComponentSatellite] {
		p.Spec.HostNetwork = false
	}
}

func (w *world) zone(node, zone string) { w.kubeNode(node).Labels[corev1.LabelTopologyZone] = zone }

// copies are what LINSTOR knows of the volumes: "volume n01 n02" is one with UpToDate copies on those nodes.
func (w *world) copies(volumes ...string) {
	v := w.linstor.View
	v.Resources, v.ResourcesKnown = []linstor.Resource{}, true
	for _, text := range volumes {
		words := strings.Fields(text)
		for _, n := range words[1:] {
			v.Resources = append(v.Resources, linstor.Resource{Name: words[0], Node: n, Diskful: true, States: []string{"UpToDate"}})
		}
	}
}

func (w *world) copyState(volume, node, state string) {
	for i := range w.linstor.View.Resources {
		if r := &w.linstor.View.Resources[i]; r.Name == volume && r.Node == node {
			r.States = []string{state}
		}
	}
}

func names(ms []*Member) string {
	var out []string
	for _, m := range ms {
		out = append(out, m.Name)
	}
	return strings.Join(out, " ")
}

func TestRoll(t *testing.T) {
	maintained := func(w *world, node string) {
		w.kubeNode(node).Annotations = map[string]string{v1alpha1.AnnotationMaintenance: "true"}
	}
	for _, tc := range []struct {
		name  string
		nodes int
		spoil func(w *world)
		// next are the nodes to restart; waiting is part of why there are none.
		next, waiting string
		outdated      int
	}{
		{name: "at rest", nodes: 8, spoil: func(*world) {}},
		{name: "one first", nodes: 8, spoil: func(w *world) { w.outdate() }, next: "n01", outdated: 8},
		{name: "then a quarter", nodes: 8, spoil: func(w *world) { w.outdate("n02", "n03", "n04") }, next: "n02 n03", outdated: 3},
		{name: "one of few", nodes: 3, spoil: func(w *world) { w.outdate("n02", "n03") }, next: "n02", outdated: 2},
		{name: "the last is not back", nodes: 8, spoil: func(w *world) {
			w.outdate()
			w.restarted("n01")
		}, waiting: "waiting for n01 to be ONLINE", outdated: 7},
		{name: "a pod is going", nodes: 8, spoil: func(w *world) {
			w.outdate()
			w.satellite("n03").DeletionTimestamp = at(begin)
		}, waiting: "waiting for n03", outdated: 7},
		{name: "a pod is gone", nodes: 8, spoil: func(w *world) {
			w.outdate()
			delete(w.kube.Pods[v1alpha1.ComponentSatellite], "n03")
		}, waiting: "waiting for n03", outdated: 7},
		{name: "ready, not ONLINE", nodes: 8, spoil: func(w *world) {
			w.outdate("n02", "n03")
			w.node("n01").Status = linstor.StatusOffline
		}, waiting: "waiting for n01", outdated: 2},
		{name: "what LINSTOR says may be about the pod before", nodes: 8, spoil: func(w *world) {
			w.outdate("n02", "n03")
			w.satellite("n01").Status.Conditions[0].LastTransitionTime = metav1.NewTime(begin.Add(-2 * time.Second))
		}, waiting: "waiting for n01", outdated: 2},
		{name: "LINSTOR had time to notice", nodes: 8, spoil: func(w *world) {
			w.outdate("n02", "n03")
			w.satellite("n01").Status.Conditions[0].LastTransitionTime = metav1.NewTime(begin.Add(-3 * time.Second))
		}, next: "n02 n03", outdated: 2},
		{name: "a dead node counts", nodes: 8, spoil: func(w *world) {
			w.outdate("n02", "n03", "n04")
			w.kubeNode("n08").Status.Conditions = nil
			w.node("n08").Status = linstor.StatusOffline
		}, next: "n02", outdated: 3},
		{name: "dead nodes use up what may be down", nodes: 8, spoil: func(w *world) {
			w.outdate("n02", "n03", "n04")
			for _, n := range []string{"n03", "n08"} {
				w.kubeNode(n).Status.Conditions = nil
				w.node(n).Status = linstor.StatusOffline
			}
		}, waiting: "2 nodes are down, and no more than 2", outdated: 3},
		{name: "out of reach of LINSTOR", nodes: 8, spoil: func(w *world) {
			w.outdate("n02", "n03", "n04")
			w.node("n02").Status = linstor.StatusOffline
		}, next: "n03", outdated: 3},
		{name: "only one left, and it is dead", nodes: 4, spoil: func(w *world) {
			w.outdate("n02")
			w.kubeNode("n02").Status.Conditions = nil
			w.node("n02").Status = linstor.StatusOffline
		}, waiting: "n02 cannot be restarted", outdated: 1},
		{name: "what fails goes first", nodes: 8, spoil: func(w *world) {
			w.outdate("n02", "n03", "n07")
			w.failPod(v1alpha1.ComponentSatellite, "n07", "no such image")
			w.node("n07").Status = linstor.StatusOffline
		}, next: "n07", outdated: 3},
		{name: "one first of those that fail", nodes: 8, spoil: func(w *world) {
			w.outdate()
			for _, n := range w.kube.Nodes {
				w.failPod(v1alpha1.ComponentSatellite, n.Name, "no such image")
				w.node(n.Name).Status = linstor.StatusOffline
			}
		}, next: "n01", outdated: 8},
		{name: "of another version, all at odds with the controller", nodes: 8, spoil: func(w *world) {
			w.outdate("n02", "n03", "n04", "n05", "n06", "n07", "n08")
			for _, n := range []string{"n02", "n03", "n04", "n05", "n06", "n07", "n08"} {
				w.satellite(n).Spec.Containers[0].Image = "registry/piraeus-server:v1.0.0"
				w.node(n).Status = linstor.StatusVersionMismatch
			}
		}, next: "n02 n03", outdated: 7},
		{name: "LINSTOR never knew them", nodes: 8, spoil: func(w *world) {
			w.outdate()
			w.linstor.View.Nodes = map[string]*linstor.Node{}
		}, next: "n01 n02 n03 n04 n05 n06 n07 n08", outdated: 8},
		{name: "nothing is known", nodes: 8, spoil: func(w *world) {
			w.outdate()
			w.silent(fmt.Errorf("no answer"))
		}, waiting: "LINSTOR does not answer", outdated: 8},
		{name: "nothing is known, and some do not serve anyway", nodes: 8, spoil: func(w *world) {
			w.outdate("n02", "n03")
			w.failPod(v1alpha1.ComponentSatellite, "n02", "no such image")
			w.silent(fmt.Errorf("no answer"))
		}, waiting: "LINSTOR does not answer", outdated: 2},
		{name: "maintenance is left alone", nodes: 8, spoil: func(w *world) {
			w.outdate("n01", "n02")
			maintained(w, "n01")
		}, next: "n02", outdated: 1},
		{name: "maintenance does not count as down", nodes: 3, spoil: func(w *world) {
			w.outdate("n02")
			maintained(w, "n01")
			w.restarted("n01")
		}, next: "n02", outdated: 1},
		{name: "many nodes failed", nodes: 8, spoil: func(w *world) {
			w.outdate()
			for _, n := range []string{"n07", "n08"} {
				w.kubeNode(n).Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, LastTransitionTime: metav1.NewTime(begin.Add(-time.Minute))}}
			}
		}, waiting: "many nodes failed", outdated: 8},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, tc.nodes)
			tc.spoil(w)
			r := w.snapshot().Roll()
			checkRoll(t, &r, tc.next, tc.waiting)
			if len(r.Outdated) != tc.outdated {
				t.Errorf("outdated are %q, want %d", names(r.Outdated), tc.outdated)
			}
		})
	}
}

func checkRoll(t *testing.T, r *Roll, next, waiting string) {
	t.Helper()
	if got := names(r.Next); got != next {
		t.Errorf("next are %q, want %q (%s)", got, next, r.Waiting)
	}
	if !strings.Contains(r.Waiting, waiting) || (r.Waiting == "") != (waiting == "") {
		t.Errorf("waiting is %q, want %q", r.Waiting, waiting)
	}
}

func TestRollOnPodNetwork(t *testing.T) {
	for _, tc := range []struct {
		name          string
		spoil         func(w *world)
		next, waiting string
	}{
		{name: "copies are not known", spoil: func(*world) {}, waiting: "not known which copies"},
		{name: "one in each zone", spoil: func(w *world) { w.copies() }, next: "n03 n05 n07"},
		{name: "not two copies of a volume", spoil: func(w *world) { w.copies("a n03 n05", "b n07 n08") }, next: "n03 n06 n07"},
		{name: "a peer is not up to date", spoil: func(w *world) {
			w.copies("a n03 n08")
			w.copyState("a", "n08", "Inconsistent")
		}, next: "n04 n05 n07"},
		{name: "a peer's state is unknown", spoil: func(w *world) {
			w.copies("a n03 n04 n05 n06 n07 n08 n01")
			w.copyState("a", "n01", "")
		}, waiting: "copy on n01 is not UpToDate"},
		{name: "its own copy may be behind", spoil: func(w *world) {
			w.copies("a n03 n08")
			w.copyState("a", "n03", "Inconsistent")
		}, next: "n03 n05 n07"},
		{name: "without zones one at a time", spoil: func(w *world) {
			w.copies()
			for _, n := range w.kube.Nodes {
				delete(n.Labels, corev1.LabelTopologyZone)
			}
		}, next: "n03"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, 12)
			w.onPodNetwork()
			w.outdate("n03", "n04", "n05", "n06", "n07", "n08")
			for i, n := range w.kube.Nodes {
				w.zone(n.Name, fmt.Sprintf("z%d", i/2))
			}
			tc.spoil(w)
			r := w.snapshot().Roll()
			checkRoll(t, &r, tc.next, tc.waiting)
		})
	}
}

// TestRollOnPodNetworkDuringUpgrade: LINSTOR cannot tell the copies on satellites of another version.
func TestRollOnPodNetworkDuringUpgrade(t *testing.T) {
	behind := func(t *testing.T) *world {
		w := newWorld(t, 4)
		w.onPodNetwork()
		w.outdate("n02", "n03", "n04")
		w.copies("a n01 n02 n03")
		for _, n := range []string{"n02", "n03", "n04"} {
			w.satellite(n).Spec.Containers[0].Image = "registry/piraeus-server:v1.0.0"
			w.node(n).Status = linstor.StatusVersionMismatch
			w.copyState("a", n, "")
		}
		return w
	}
	w := behind(t)
	r := w.snapshot().Roll()
	checkRoll(t, &r, "n02", "")

	w = behind(t)
	w.linstor.View.Resources[0].Connected = map[string]bool{"n02": true, "n03": false}
	r = w.snapshot().Roll()
	checkRoll(t, &r, "n03", "") // n02 is the copy that n01 has left
}

func TestRollDeletesPods(t *testing.T) {
	want := func(t *testing.T, w *world, calls ...string) {
		t.Helper()
		in, r := w.input()
		r.now = w.linstor.View
		if err := (satelliteLink{}).Work(t.Context(), in); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(calls, r.calls); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
	}
	t.Run("the planned ones", func(t *testing.T) {
		w := newWorld(t, 8)
		w.outdate("n02", "n03", "n04")
		want(t, w, "delete Pod/satellite-n02", "delete Pod/satellite-n03")
	})
	t.Run("not while LINSTOR is written to", func(t *testing.T) {
		w := newWorld(t, 8)
		w.outdate("n02", "n03", "n04")
		w.tasks["pool/n02/ssd"] = workState(true)
		want(t, w, "delete Pod/satellite-n03")
	})
	t.Run("not before the DaemonSet's change was seen", func(t *testing.T) {
		w := newWorld(t, 8)
		w.outdate()
		w.kube.DaemonSets[resources.SatelliteName].Generation = 2
		want(t, w)
	})
	t.Run("not before the DaemonSet was changed", func(t *testing.T) {
		w := newWorld(t, 8)
		w.kube.DaemonSets[resources.SatelliteName].Annotations[resources.AnnotationSpecHash] = "old"
		w.outdate()
		want(t, w, "apply DaemonSet/linstor-satellite")
	})
	t.Run("not while the cluster is deleted", func(t *testing.T) {
		w := newWorld(t, 8)
		w.outdate()
		w.cluster.DeletionTimestamp = at(begin)
		want(t, w)
	})
	t.Run("on the pods' network after another look", func(t *testing.T) {
		w := newWorld(t, 3)
		w.onPodNetwork()
		w.outdate("n02", "n03")
		w.copies("a n01 n02")
		want(t, w, "delete Pod/satellite-n02")
		in, r := w.input()
		r.now = &linstor.View{Resources: []linstor.Resource{{Name: "a", Node: "n02", Diskful: true, States: []string{"UpToDate"}},
			{Name: "a", Node: "n01", Diskful: true, States: []string{"Outdated"}}}}
		if err := (satelliteLink{}).Work(t.Context(), in); err != nil || len(r.calls) > 0 {
			t.Errorf("calls %v, error %v: the last look shows that n02 has the only good copy", r.calls, err)
		}
	})
}

func TestRollIsNoTroubleAtFirst(t *testing.T) {
	w := newWorld(t, 4)
	w.outdate("n02", "n03", "n04")
	w.restarted("n01")
	s := w.snapshot()
	if h := s.Health(); h.Degraded {
		t.Errorf("health is %+v", h)
	}
	for _, l := range Links() {
		if e := l.Evidence(s); e.State != Satisfied {
			t.Errorf("%s: evidence is %+v", l.State(), e)
		}
	}
	e := (satelliteLink{}).Evidence(s)
	if e.Reason != v1alpha1.ReasonRollingSatellites || !strings.Contains(e.Message, "rolling 0/4: waiting for n01") {
		t.Errorf("evidence is %+v", e)
	}
	w.satellite("n01").CreationTimestamp = metav1.NewTime(begin.Add(-3 * time.Minute))
	if h := w.snapshot().Health(); !h.Degraded {
		t.Error("a satellite that does not come back is no trouble")
	}
}

// TestANodeThatWasNeverOnlineIsNotRestarting: the first start is work of the chain, which waits for it.
func TestANodeThatWasNeverOnlineIsNotRestarting(t *testing.T) {
	w := newWorld(t, 3)
	for _, n := range w.kube.Nodes {
		w.restarted(n.Name)
		delete(w.node(n.Name).Properties, propUname)
	}
	if e := (registrationLink{}).Evidence(w.snapshot()); e.OK() {
		t.Errorf("evidence is %+v", e)
	}
}

func TestStuckRollIsHeld(t *testing.T) {
	w := newWorld(t, 8)
	w.outdate("n02", "n03", "n04")
	w.restarted("n01")
	w.phase(v1alpha1.PhaseDegraded, time.Hour)
	decide := func() Outcome {
		in, r := w.input()
		o := Decide(t.Context(), in)
		if len(r.calls) > 0 {
			t.Errorf("calls %v although the roll is stuck", r.calls)
		}
		return o
	}
	if o := decide(); o.Kind() != KindWait {
		t.Fatalf("outcome is %+v before the deadline", o)
	}
	w.satellite("n01").CreationTimestamp = metav1.NewTime(begin.Add(-time.Hour))
	o := decide()
	if h := o.Hold(); h == nil || h.Reason != v1alpha1.HoldSatellitesFailed || len(h.Nodes) != 1 || !strings.Contains(h.Message, "3 outdated satellites") {
		t.Fatalf("outcome is %+v", o)
	}

	w.phase(v1alpha1.PhaseHumanIntervention, time.Minute)
	w.cluster.Status.Hold = &v1alpha1.Hold{ID: "h-1", Reason: v1alpha1.HoldSatellitesFailed}
	if o := decide(); o.Event() != "" {
		t.Errorf("the hold ended while n01 is away: %+v", o)
	}
	w.node("n01").Status = linstor.StatusOnline
	w.putPod(v1alpha1.ComponentSatellite, "n01", w.readyPod(v1alpha1.ComponentSatellite, "n01"))
	if o := decide(); o.Event() != fsm.Cleared {
		t.Errorf("outcome is %+v, want the hold to be cleared", o)
	}
}

func TestFilePoolWaitsForTheMount(t *testing.T) {
	w := newWorld(t, 3)
	w.outdate("n02")
	w.cluster.Spec.StoragePools = append(w.cluster.Spec.StoragePools,
		v1alpha1.StoragePoolSpec{Name: "files", FileThin: &v1alpha1.FilePool{Directory: "/srv/files"}})
	w.accept()
	s := w.snapshot()
	if p := s.MemberByName("n02").Problem; p == nil || p.Reason != "SatelliteOutdated" {
		t.Fatalf("problem is %+v", p)
	}
	in, r := w.input()
	if err := (poolLink{}).Work(t.Context(), in); err != nil || len(r.queued) > 0 {
		t.Errorf("tasks %v, error %v: the pool would be inside the container", r.keys(), err)
	}
}

func workState(running bool) work.State { return work.State{Running: running} }

// TestAdoptedNodesAreNotRestarting: the satellites of a cluster that is adopted are all new, and LINSTOR knows their nodes from
// before. Taking them for restarted ones once called such a cluster Ready while none of its nodes was online.
func TestAdoptedNodesAreNotRestarting(t *testing.T) {
	working := func(w *world) { w.phase(v1alpha1.PhaseNodeRegistration, time.Second) }
	for _, c := range []struct {
		name                string
		change              func(*world)
		registration, pools bool
	}{
		{"it was Ready", func(*world) {}, true, true},
		{"it is set up", working, false, false},
		{"it was Ready before this phase", func(w *world) {
			working(w)
			w.cluster.Status.History = []v1alpha1.Transition{{To: v1alpha1.PhaseAssessing}, {From: v1alpha1.PhaseSatellites, To: v1alpha1.PhaseReady}}
		}, true, true},
		{"a pool is missing", func(w *world) {
			for _, n := range w.kube.Nodes {
				clear(w.node(n.Name).Pools)
			}
		}, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, 3)
			for _, n := range w.kube.Nodes {
				w.restarted(n.Name)
			}
			c.change(w)
			s := w.snapshot()
			if e := (registrationLink{}).Evidence(s); e.OK() != c.registration {
				t.Errorf("registration: %+v", e)
			}
			if e := (poolLink{}).Evidence(s); e.OK() != c.pools {
				t.Errorf("pools: %+v", e)
			}
		})
	}
}
