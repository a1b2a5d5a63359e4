package phases

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
)

func TestMinReady(t *testing.T) {
	for _, tc := range []struct {
		spec string // "" is the default
		want map[int]int
	}{
		{"", map[int]int{0: 1, 1: 1, 2: 1, 3: 2, 10: 9, 19: 18, 20: 18, 100: 90, 5000: 4500}},
		{"90%", map[int]int{0: 1, 1: 1, 3: 3, 10: 9, 11: 10, 100: 90}},
		{"1%", map[int]int{1: 1, 100: 1, 101: 2}},
		{"100%", map[int]int{1: 1, 7: 7}},
		{"7%", map[int]int{100: 7, 200: 14}},
		{"3", map[int]int{0: 1, 1: 1, 2: 2, 3: 3, 10: 3}},
		{"nonsense", map[int]int{10: 10}}, // refused by the schema; if it comes all the same, nothing is left out
	} {
		for n, want := range tc.want {
			s := &Snapshot{Cluster: &v1alpha1.StorageCluster{}, Members: picked(n)}
			if tc.spec != "" {
				s.Cluster.Spec.Nodes.MinReady = ptr.To(intstr.Parse(tc.spec))
			}
			if got := s.MinReady(); got != want {
				t.Errorf("minReady %q of %d nodes = %d, want %d", tc.spec, n, got, want)
			}
		}
	}
}

// picked are n members of which nothing is known but that the spec picks them.
func picked(n int) []*Member {
	out := make([]*Member, n)
	for i := range out {
		out[i] = &Member{Selected: true}
	}
	return out
}

func TestMinReadyIsPossibleAndAboveZero(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 6000).Draw(t, "nodes")
		s := &Snapshot{Cluster: &v1alpha1.StorageCluster{}, Members: picked(n)}
		switch rapid.IntRange(0, 2).Draw(t, "kind") {
		case 1:
			s.Cluster.Spec.Nodes.MinReady = ptr.To(intstr.FromInt(rapid.IntRange(1, 10000).Draw(t, "number")))
		case 2:
			s.Cluster.Spec.Nodes.MinReady = ptr.To(intstr.FromString(fmt.Sprintf("%d%%", rapid.IntRange(1, 100).Draw(t, "percent"))))
		}
		if got := s.MinReady(); got < 1 || got > max(n, 1) {
			t.Fatalf("minReady of %d nodes = %d", n, got)
		}
	})
}

func TestSelects(t *testing.T) {
	taint := func(key, value string, effect corev1.TaintEffect) corev1.Taint {
		return corev1.Taint{Key: key, Value: value, Effect: effect}
	}
	with := func(f func(*corev1.Node)) *corev1.Node {
		n := newNode("n01")
		f(n)
		return n
	}
	tainted := func(ts ...corev1.Taint) *corev1.Node {
		return with(func(n *corev1.Node) { n.Spec.Taints = ts })
	}
	const noSchedule, noExecute = corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute
	for _, tc := range []struct {
		name string
		spec v1alpha1.NodesSpec
		node *corev1.Node
		want bool
	}{
		{"any Linux node", v1alpha1.NodesSpec{}, newNode("n01"), true},
		{"windows by its system", v1alpha1.NodesSpec{}, with(func(n *corev1.Node) { n.Status.NodeInfo.OperatingSystem = "windows" }), false},
		{"windows by its label", v1alpha1.NodesSpec{}, with(func(n *corev1.Node) { n.Labels[corev1.LabelOSStable] = "windows" }), false},
		{"being deleted", v1alpha1.NodesSpec{}, with(func(n *corev1.Node) { n.DeletionTimestamp = at(begin) }), false},
		{"selector matches", v1alpha1.NodesSpec{NodeSelector: map[string]string{"a": "b"}}, with(func(n *corev1.Node) { n.Labels["a"] = "b" }), true},
		{"selector matches another value", v1alpha1.NodesSpec{NodeSelector: map[string]string{"a": "b"}}, with(func(n *corev1.Node) { n.Labels["a"] = "c" }), false},
		{"selector without label", v1alpha1.NodesSpec{NodeSelector: map[string]string{"a": "b"}}, newNode("n01"), false},
		{"not ready stays", v1alpha1.NodesSpec{}, with(func(n *corev1.Node) { n.Status.Conditions = nil }), true},
		{"cordoned stays", v1alpha1.NodesSpec{}, tainted(taint(corev1.TaintNodeUnschedulable, "", noSchedule)), true},
		{"unreachable stays", v1alpha1.NodesSpec{}, tainted(taint(corev1.TaintNodeUnreachable, "", noExecute)), true},
		{"DRBD's own taint stays", v1alpha1.NodesSpec{}, tainted(taint("drbd.linbit.com/lost-quorum", "", noSchedule)), true},
		{"preference is no taint", v1alpha1.NodesSpec{}, tainted(taint("x", "", corev1.TaintEffectPreferNoSchedule)), true},
		{"control plane", v1alpha1.NodesSpec{}, tainted(taint("node-role.kubernetes.io/control-plane", "", noSchedule)), false},
		{"two taints, one tolerated", v1alpha1.NodesSpec{Tolerations: []v1alpha1.Toleration{{Key: "a", Operator: corev1.TolerationOpExists}}},
			tainted(taint("a", "", noSchedule), taint("b", "", noSchedule)), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := Selects(&tc.spec, tc.node); got != tc.want {
				t.Errorf("selected: %t", got)
			}
		})
	}
}

func TestTolerated(t *testing.T) {
	taint := &corev1.Taint{Key: "role", Value: "storage", Effect: corev1.TaintEffectNoSchedule}
	for _, tc := range []struct {
		toleration corev1.Toleration
		want       bool
	}{
		{corev1.Toleration{}, false},
		{corev1.Toleration{Operator: corev1.TolerationOpExists}, true},
		{corev1.Toleration{Key: "role", Operator: corev1.TolerationOpExists}, true},
		{corev1.Toleration{Key: "other", Operator: corev1.TolerationOpExists}, false},
		{corev1.Toleration{Key: "role", Value: "storage"}, true},
		{corev1.Toleration{Key: "role", Operator: corev1.TolerationOpEqual, Value: "storage"}, true},
		{corev1.Toleration{Key: "role", Operator: corev1.TolerationOpEqual, Value: "compute"}, false},
		{corev1.Toleration{Key: "role", Value: "storage", Effect: corev1.TaintEffectNoSchedule}, true},
		{corev1.Toleration{Key: "role", Value: "storage", Effect: corev1.TaintEffectNoExecute}, false},
		{corev1.Toleration{Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}, false},
	} {
		if got := tolerated([]v1alpha1.Toleration{v1alpha1.Toleration(tc.toleration)}, taint); got != tc.want {
			t.Errorf("%+v: tolerated %t", tc.toleration, got)
		}
		if want := tc.toleration.ToleratesTaint(logr.Discard(), taint, false); tc.want != want {
			t.Errorf("%+v: the table says %t, Kubernetes %t", tc.toleration, tc.want, want)
		}
	}
}

func TestMemberStates(t *testing.T) {
	for _, tc := range []struct {
		name    string
		spoil   func(*world)
		state   v1alpha1.NodeState
		problem string // its reason
		hold    v1alpha1.HoldReason
		joining bool
	}{
		{name: "all there", spoil: func(*world) {}, state: v1alpha1.NodeOnline},
		{name: "loader starting", spoil: func(w *world) { w.unreadyPod(v1alpha1.ComponentModuleLoader, "n01") }, state: v1alpha1.NodeLoadingModule},
		{name: "no pods and not registered: new", spoil: func(w *world) {
			w.kube.Pods = nil
			delete(w.linstor.View.Nodes, "n01")
		}, state: v1alpha1.NodeLoadingModule, joining: true},
		{name: "loader fails", spoil: func(w *world) { w.failPod(v1alpha1.ComponentModuleLoader, "n01", "no luck") }, state: v1alpha1.NodeLoadingModule,
			problem: "KernelModuleFailed", hold: v1alpha1.HoldKernelModuleFailed},
		{name: "satellite starting", spoil: func(w *world) { w.unreadyPod(v1alpha1.ComponentSatellite, "n01") }, state: v1alpha1.NodeStartingSatellite},
		{name: "satellite fails", spoil: func(w *world) { w.failPod(v1alpha1.ComponentSatellite, "n01", "boom") }, state: v1alpha1.NodeStartingSatellite,
			problem: "SatelliteFailing", hold: v1alpha1.HoldSatellitesFailed},
		{name: "satellite of another version", spoil: func(w *world) {
			w.kube.Pods[v1alpha1.ComponentSatellite]["n01"].Spec.Containers[0].Image = "registry/piraeus-server:v1.0.0"
		}, state: v1alpha1.NodeStartingSatellite, problem: "SatelliteVersionMismatch", hold: v1alpha1.HoldSatelliteVersionMismatch},
		{name: "not registered, old pod", spoil: func(w *world) { delete(w.linstor.View.Nodes, "n01") }, state: v1alpha1.NodeRegistering},
		{name: "not registered, young pod", spoil: func(w *world) {
			delete(w.linstor.View.Nodes, "n01")
			w.kube.Pods[v1alpha1.ComponentSatellite]["n01"].CreationTimestamp = metav1.NewTime(begin.Add(-time.Minute))
		}, state: v1alpha1.NodeRegistering, joining: true},
		{name: "offline in LINSTOR", spoil: func(w *world) { w.node("n01").Status = linstor.StatusOffline }, state: v1alpha1.NodeUnreachable, problem: "NodeOffline"},
		{name: "node and satellite gone", spoil: func(w *world) {
			w.kubeNode("n01").Status.Conditions = nil
			w.node("n01").Status = linstor.StatusOffline
		}, state: v1alpha1.NodeUnreachable, problem: "NodeNotReady"},
		{name: "DRBD not seen", spoil: func(w *world) {
			w.node("n01").Layers = []string{"STORAGE"}
			w.node("n01").Unsupported = map[string][]string{"DRBD": {"no module"}}
		}, state: v1alpha1.NodeUnreachable, problem: "KernelModuleFailed", hold: v1alpha1.HoldKernelModuleFailed},
		{name: "version mismatch", spoil: func(w *world) { w.node("n01").Status = linstor.StatusVersionMismatch }, state: v1alpha1.NodeUnreachable,
			problem: "SatelliteVersionMismatch", hold: v1alpha1.HoldSatelliteVersionMismatch},
		{name: "another controller", spoil: func(w *world) { w.node("n01").Status = linstor.StatusOtherController }, state: v1alpha1.NodeUnreachable,
			problem: "OtherController"},
		{name: "evicted", spoil: func(w *world) {
			w.node("n01").Status = linstor.StatusOffline
			w.node("n01").Flags = []string{linstor.FlagEvicted, linstor.FlagDelete}
		}, state: v1alpha1.NodeUnreachable, problem: "NodeEvicted"},
		{name: "pool missing", spoil: func(w *world) { delete(w.node("n01").Pools, "ssd") }, state: v1alpha1.NodeCreatingPools},
		{name: "pool broken", spoil: func(w *world) { w.node("n01").Pools["ssd"].TotalKiB = nil }, state: v1alpha1.NodeCreatingPools, problem: "PoolBackendLost"},
		{name: "LINSTOR silent", spoil: func(w *world) { w.silent(errors.New("refused")) }, state: v1alpha1.NodeRegistering},
		{name: "pool held", spoil: func(w *world) {
			delete(w.node("n01").Pools, "ssd")
			w.cluster.Status.NodeHolds = []v1alpha1.Hold{{ID: "h-1", Reason: v1alpha1.HoldDeviceNotEmpty, Pool: "ssd", Nodes: []string{"n01"}, Count: 1}}
		}, state: v1alpha1.NodeHeld},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, 2)
			tc.spoil(w)
			m := w.snapshot().MemberByName("n01")
			if m.State != tc.state || m.Joining != tc.joining {
				t.Errorf("state %s joining %t, want %s %t", m.State, m.Joining, tc.state, tc.joining)
			}
			got := Problem{}
			if m.Problem != nil {
				got = *m.Problem
				if got.Message == "" {
					t.Error("a problem without a message")
				}
			}
			if got.Reason != tc.problem || got.Hold != tc.hold {
				t.Errorf("problem %s hold %q (%s), want %s %q", got.Reason, got.Hold, got.Message, tc.problem, tc.hold)
			}
		})
	}
}

func TestMembersThatTheSpecNoLongerPicksStay(t *testing.T) {
	w := newWorld(t, 3)
	w.kubeNode("n02").Spec.Taints = []corev1.Taint{{Key: "maintenance", Effect: corev1.TaintEffectNoExecute}}
	delete(w.kubeNode("n03").Labels, v1alpha1.LabelMember)
	w.kubeNode("n03").Spec.Taints = []corev1.Taint{{Key: "maintenance", Effect: corev1.TaintEffectNoExecute}}
	delete(w.linstor.View.Nodes, "n03")
	s := w.snapshot()
	var got []string
	for _, m := range s.Members {
		got = append(got, fmt.Sprintf("%s selected=%t labelled=%t", m.Name, m.Selected, m.Labelled))
	}
	want := []string{"n01 selected=true labelled=true", "n02 selected=false labelled=true"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if s.MemberByName("n03") != nil {
		t.Error("a node without label that the spec does not pick is a member")
	}
	// Whoever removes the label by hand does not remove the node from LINSTOR.
	delete(w.kubeNode("n02").Labels, v1alpha1.LabelMember)
	if m := w.snapshot().MemberByName("n02"); m == nil || m.Labelled || m.State != v1alpha1.NodeLeaving {
		t.Errorf("registered, without label: %+v", m)
	}
}

func TestBlockedNamesTheWorstTrouble(t *testing.T) {
	w := newWorld(t, 10)
	w.failPod(v1alpha1.ComponentModuleLoader, "n01", "required key not available")
	if e := (moduleLink{}).Evidence(w.snapshot()); e.State != Enough || e.Waiting != 1 {
		t.Fatalf("one of ten stuck: %s, %d wait", e.State, e.Waiting)
	}
	for _, n := range []string{"n02", "n03"} {
		w.failPod(v1alpha1.ComponentModuleLoader, n, "nothing known")
	}
	e := moduleLink{}.Evidence(w.snapshot())
	want := &HoldRequest{Reason: v1alpha1.HoldKernelModuleFailed, Nodes: []string{"n02", "n03"},
		Message: "2 nodes: container init: CrashLoopBackOff: nothing known (on n02)"}
	if d := cmp.Diff(want, e.Hold); d != "" || e.State != Failed {
		t.Errorf("state %s: %s", e.State, d)
	}
}

// Evidence is pure: equal troubles of two pools must not give one hold now and another one a moment later.
func TestBlockedIsDeterministic(t *testing.T) {
	w := newWorld(t, 2)
	w.cluster.Spec.StoragePools = []v1alpha1.StoragePoolSpec{onDevices("aaa", "A*"), onDevices("bbb", "B*")}
	w.settle()
	w.node("n01").Pools, w.node("n02").Pools = map[string]*linstor.Pool{}, map[string]*linstor.Pool{}
	w.node("n02").Pools["aaa"] = &linstor.Pool{Name: "aaa", Node: "n02", Provider: "LVM", Backing: "vg_aaa", TotalKiB: ptr.To[int64](1 << 20),
		Properties: linstor.Diff(nil, map[string]string{auxEntry: "aaa"}).Set}
	s := w.snapshot()
	first := poolLink{}.Evidence(s)
	if first.Hold == nil {
		t.Fatalf("not failed: %+v", first)
	}
	for range 200 {
		if d := cmp.Diff(first, poolLink{}.Evidence(s)); d != "" {
			t.Fatalf("the same snapshot gives another hold: %s", d)
		}
	}
}
