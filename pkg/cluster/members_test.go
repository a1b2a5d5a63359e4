package cluster_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/module"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/pools"
	"github.com/linstor-dev/storagecluster-operator/pkg/remembered"
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
			s := &cluster.Snapshot{Facts: cluster.Facts{Cluster: &v1alpha1.StorageCluster{}}, Members: picked(n)}
			if tc.spec != "" {
				s.Cluster.Spec.Nodes.MinReady = ptr.To(intstr.Parse(tc.spec))
			}
			if got := s.MinReady(); got != want {
				t.Errorf("minReady %q of %d nodes = %d, want %d", tc.spec, n, got, want)
			}
		}
	}
}

// TestNodesThatJoinRaiseMinReadyLater: a node that is added takes nothing from those that serve, until it was ONLINE
// once. In an installation all nodes join, and all count.
func TestNodesThatJoinRaiseMinReadyLater(t *testing.T) {
	w := clustertest.NewWorld(t, 3)
	for i := range 4 {
		w.Kube.Nodes = append(w.Kube.Nodes, clustertest.NewNode(fmt.Sprintf("n%02d", 10+i)))
	}
	check := func(when string, want int) {
		t.Helper()
		if s := w.Snapshot(); s.MinReady() != want {
			t.Errorf("%s: minReady is %d, want %d", when, s.MinReady(), want)
		}
	}
	check("four join three", 2)
	view := w.Linstor
	w.Silent(nil)
	check("while LINSTOR does not answer", 6)
	w.Linstor = view
	w.Phase(v1alpha1.PhaseSatellites, 0)
	w.Cluster.Status.FirstReady = nil
	check("in the first installation", 6)
	w.Cluster.Status.FirstReady = clustertest.At(clustertest.Begin)
	check("in a later change", 2)
	w.Settle()
	for i := range 4 {
		w.Node(fmt.Sprintf("n%02d", 10+i)).Status = linstor.StatusOffline
	}
	check("when they were ONLINE once", 6)
}

// picked are n members of which nothing is known but that the spec picks them.
func picked(n int) []*cluster.Member {
	out := make([]*cluster.Member, n)
	for i := range out {
		out[i] = &cluster.Member{Selected: true}
	}
	return out
}

func TestMinReadyIsPossibleAndAboveZero(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 6000).Draw(t, "nodes")
		s := &cluster.Snapshot{Facts: cluster.Facts{Cluster: &v1alpha1.StorageCluster{}}, Members: picked(n)}
		switch rapid.IntRange(0, 2).Draw(t, "kind") {
		case 1:
			s.Cluster.Spec.Nodes.MinReady = ptr.To(intstr.FromInt(rapid.IntRange(1, 10000).Draw(t, "number")))
		case 2:
			s.Cluster.Spec.Nodes.MinReady = ptr.To(intstr.FromString(fmt.Sprintf("%d%%",
				rapid.IntRange(1, 100).Draw(t, "percent"))))
		}
		if got := s.MinReady(); got < 1 || got > max(n, 1) {
			t.Fatalf("minReady of %d nodes = %d", n, got)
		}
	})
}

func TestMemberStates(t *testing.T) {
	for _, tc := range []struct {
		name    string
		spoil   func(*clustertest.World)
		state   v1alpha1.NodeState
		problem string // its reason
		hold    v1alpha1.HoldReason
		joining bool
	}{
		{name: "all there", spoil: func(*clustertest.World) {}, state: v1alpha1.NodeOnline},
		{name: "loader starting", spoil: func(w *clustertest.World) { w.UnreadyPod(v1alpha1.ComponentModuleLoader, "n01") },
			state: v1alpha1.NodeLoadingModule},
		{name: "no pods and not registered: new", spoil: func(w *clustertest.World) {
			w.Kube.Pods = nil
			delete(w.Linstor.View.Nodes, "n01")
		}, state: v1alpha1.NodeLoadingModule, joining: true},
		{name: "loader fails",
			spoil:   func(w *clustertest.World) { w.FailPod(v1alpha1.ComponentModuleLoader, "n01", "no luck") },
			state:   v1alpha1.NodeLoadingModule,
			problem: "KernelModuleFailed", hold: v1alpha1.HoldKernelModuleFailed},
		{name: "satellite starting", spoil: func(w *clustertest.World) { w.UnreadyPod(v1alpha1.ComponentSatellite, "n01") },
			state: v1alpha1.NodeStartingSatellite},
		{name: "satellite fails",
			spoil:   func(w *clustertest.World) { w.FailPod(v1alpha1.ComponentSatellite, "n01", "boom") },
			state:   v1alpha1.NodeStartingSatellite,
			problem: "SatelliteFailing", hold: v1alpha1.HoldSatellitesFailed},
		{name: "satellite of another version", spoil: func(w *clustertest.World) {
			w.Kube.Pods[v1alpha1.ComponentSatellite]["n01"].Spec.Containers[0].Image = "registry/piraeus-server:v1.0.0"
		}, state: v1alpha1.NodeStartingSatellite, problem: "SatelliteVersionMismatch",
			hold: v1alpha1.HoldSatelliteVersionMismatch},
		{name: "not registered, old pod", spoil: func(w *clustertest.World) { delete(w.Linstor.View.Nodes, "n01") },
			state: v1alpha1.NodeRegistering},
		{name: "not registered, young pod", spoil: func(w *clustertest.World) {
			delete(w.Linstor.View.Nodes, "n01")
			pod := w.Kube.Pods[v1alpha1.ComponentSatellite]["n01"]
			pod.CreationTimestamp = metav1.NewTime(clustertest.Begin.Add(-time.Minute))
		}, state: v1alpha1.NodeRegistering, joining: true},
		{name: "offline in LINSTOR", spoil: func(w *clustertest.World) { w.Node("n01").Status = linstor.StatusOffline },
			state: v1alpha1.NodeUnreachable, problem: "NodeOffline"},
		{name: "node and satellite gone", spoil: func(w *clustertest.World) {
			w.KubeNode("n01").Status.Conditions = nil
			w.Node("n01").Status = linstor.StatusOffline
		}, state: v1alpha1.NodeUnreachable, problem: "NodeNotReady"},
		{name: "DRBD not seen", spoil: func(w *clustertest.World) {
			w.Node("n01").Layers = []string{"STORAGE"}
			w.Node("n01").Unsupported = map[string][]string{"DRBD": {"no module"}}
		}, state: v1alpha1.NodeUnreachable, problem: "KernelModuleFailed", hold: v1alpha1.HoldKernelModuleFailed},
		{name: "version mismatch",
			spoil:   func(w *clustertest.World) { w.Node("n01").Status = linstor.StatusVersionMismatch },
			state:   v1alpha1.NodeUnreachable,
			problem: "SatelliteVersionMismatch", hold: v1alpha1.HoldSatelliteVersionMismatch},
		{name: "another controller",
			spoil:   func(w *clustertest.World) { w.Node("n01").Status = linstor.StatusOtherController },
			state:   v1alpha1.NodeUnreachable,
			problem: "OtherController"},
		{name: "evicted", spoil: func(w *clustertest.World) {
			w.Node("n01").Status = linstor.StatusOffline
			w.Node("n01").Flags = []string{linstor.FlagEvicted, linstor.FlagDelete}
		}, state: v1alpha1.NodeUnreachable, problem: "NodeEvicted"},
		{name: "pool missing", spoil: func(w *clustertest.World) { delete(w.Node("n01").Pools, "ssd") },
			state: v1alpha1.NodeCreatingPools},
		{name: "pool broken", spoil: func(w *clustertest.World) { w.Node("n01").Pools["ssd"].TotalKiB = nil },
			state: v1alpha1.NodeCreatingPools, problem: "PoolBackendLost"},
		{name: "LINSTOR silent", spoil: func(w *clustertest.World) { w.Silent(errors.New("refused")) },
			state: v1alpha1.NodeRegistering},
		{name: "pool held", spoil: func(w *clustertest.World) {
			delete(w.Node("n01").Pools, "ssd")
			w.Cluster.Status.NodeHolds = []v1alpha1.Hold{{ID: "h-1", Reason: v1alpha1.HoldDeviceNotEmpty, Pool: "ssd",
				Nodes: []string{"n01"}, Count: 1}}
		}, state: v1alpha1.NodeHeld},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := clustertest.NewWorld(t, 2)
			tc.spoil(w)
			m := w.Snapshot().MemberByName("n01")
			if m.State != tc.state || m.Joining != tc.joining {
				t.Errorf("state %s joining %t, want %s %t", m.State, m.Joining, tc.state, tc.joining)
			}
			got := cluster.Problem{}
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
	w := clustertest.NewWorld(t, 3)
	w.KubeNode("n02").Spec.Taints = []corev1.Taint{{Key: "maintenance", Effect: corev1.TaintEffectNoExecute}}
	delete(w.KubeNode("n03").Labels, v1alpha1.LabelMember)
	w.KubeNode("n03").Spec.Taints = []corev1.Taint{{Key: "maintenance", Effect: corev1.TaintEffectNoExecute}}
	delete(w.Linstor.View.Nodes, "n03")
	s := w.Snapshot()
	var got []string
	for _, m := range s.Members {
		got = append(got, fmt.Sprintf("%s selected=%t labelled=%t", m.Name, m.Selected, m.Labelled))
	}
	want := []string{"n01 selected=true labelled=true", "n02 selected=false labelled=true"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if m := s.MemberByName("N02"); m == nil || m.Name != "n02" { // as LINSTOR may show it
		t.Errorf("N02 is %+v", m)
	}
	if s.MemberByName("n03") != nil {
		t.Error("a node without label that the spec does not pick is a member")
	}
	// Whoever removes the label by hand does not remove the node from LINSTOR.
	delete(w.KubeNode("n02").Labels, v1alpha1.LabelMember)
	if m := w.Snapshot().MemberByName("n02"); m == nil || m.Labelled || m.State != v1alpha1.NodeLeaving {
		t.Errorf("registered, without label: %+v", m)
	}
}

func TestBlockedNamesTheWorstTrouble(t *testing.T) {
	w := clustertest.NewWorld(t, 10)
	w.FailPod(v1alpha1.ComponentModuleLoader, "n01", "required key not available")
	if e := module.Link().Judge(w.Snapshot()); e.State != cluster.Enough || e.Waiting != 1 {
		t.Fatalf("one of ten stuck: %s, %d wait", e.State, e.Waiting)
	}
	for _, n := range []string{"n02", "n03"} {
		w.FailPod(v1alpha1.ComponentModuleLoader, n, "nothing known")
	}
	e := module.Link().Judge(w.Snapshot())
	want := &cluster.HoldRequest{Reason: v1alpha1.HoldKernelModuleFailed, Nodes: []string{"n02", "n03"},
		Message: "2 of 10 nodes (n02, n03): container init: CrashLoopBackOff: nothing known"}
	if d := cmp.Diff(want, e.Hold); d != "" || e.State != cluster.Failed {
		t.Errorf("state %s: %s", e.State, d)
	}
}

// Evidence is pure: equal troubles of two pools must not give one hold now and another one a moment later.
func TestBlockedIsDeterministic(t *testing.T) {
	w := clustertest.NewWorld(t, 2)
	w.Cluster.Spec.StoragePools = []v1alpha1.StoragePoolSpec{clustertest.OnDevices("aaa", "A*"),
		clustertest.OnDevices("bbb", "B*")}
	w.Settle()
	w.Node("n01").Pools, w.Node("n02").Pools = map[string]*linstor.Pool{}, map[string]*linstor.Pool{}
	w.Node("n02").Pools["aaa"] = &linstor.Pool{Name: "aaa", Node: "n02", Provider: "LVM", Backing: "vg_aaa",
		TotalKiB:   ptr.To[int64](1 << 20),
		Properties: linstor.Initial(map[string]string{remembered.Entry: "aaa"})}
	s := w.Snapshot()
	first := pools.Link().Judge(s)
	if first.Hold == nil {
		t.Fatalf("not failed: %+v", first)
	}
	for range 200 {
		if d := cmp.Diff(first, pools.Link().Judge(s)); d != "" {
			t.Fatalf("the same snapshot gives another hold: %s", d)
		}
	}
}
