package selection_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/nodespec"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/selection"
	"github.com/linstor-dev/storagecluster-operator/pkg/remembered"
)

// without picks all nodes but one.
func without(name string) *nodespec.NodeAffinity {
	return &nodespec.NodeAffinity{NodeSelectorTerms: []nodespec.NodeSelectorTerm{{
		MatchExpressions: []nodespec.NodeSelectorRequirement{
			{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpNotIn, Values: []string{name}}}}}}
}

func TestTaintsOfMembers(t *testing.T) {
	const retired = "example.com/retired"
	for _, tc := range []struct {
		name  string
		key   string
		since time.Duration
		spoil func(*clustertest.World)
		stays bool
		noted bool
	}{
		{name: "a moment ago", key: retired, since: time.Second, stays: true, noted: true},
		{name: "nearly ten minutes", key: retired, since: 10*time.Minute - time.Second, stays: true, noted: true},
		{name: "ten minutes", key: retired, since: 10 * time.Minute},
		{name: "tolerated", key: retired, since: time.Hour, stays: true, spoil: func(w *clustertest.World) {
			w.Cluster.Spec.Nodes.Tolerations = []v1alpha1.Toleration{{Key: retired, Operator: corev1.TolerationOpExists}}
			w.Accept()
		}},
		{name: "Cilium restarts", key: "node.cilium.io/agent-not-ready", since: time.Hour, stays: true},
		{name: "a key that begins alike", key: "node.cilium.io/agent-not-ready-2", since: time.Hour},
		{name: "the cloud's", key: "node.cloudprovider.kubernetes.io/shutdown", since: time.Hour, stays: true},
		{name: "drained by an operator", key: "medik8s.io/drain", since: time.Hour, stays: true},
		{name: "being scaled down", key: "ToBeDeletedByClusterAutoscaler", since: time.Hour, stays: true},
		{name: "Karpenter", key: "karpenter.sh/disrupted", since: time.Hour, stays: true},
		{name: "the operator was restarted while it left", key: retired, since: time.Second,
			spoil: func(w *clustertest.World) {
				w.TaintedAtStart = true
				w.Node("n01").Properties[remembered.Leaving] = clustertest.Ago(time.Hour)
			}},
		{name: "the operator was restarted while it was retained", key: retired, since: time.Second,
			spoil: func(w *clustertest.World) {
				w.TaintedAtStart = true
				w.Cluster.Status.Nodes.Leaving = []v1alpha1.LeavingNode{{Name: "n01", State: v1alpha1.LeavingRetained}}
			}},
		{name: "the operator was restarted, and it did not leave", key: retired, since: time.Second, stays: true,
			noted: true,
			spoil: func(w *clustertest.World) { w.TaintedAtStart = true }},
		{name: "it left for another cause", key: retired, since: time.Second, stays: true, noted: true,
			spoil: func(w *clustertest.World) {
				w.Node("n01").Properties[remembered.Leaving] = clustertest.Ago(time.Hour)
			}},
		{name: "it was retained for another cause", key: retired, since: time.Second, stays: true, noted: true,
			spoil: func(w *clustertest.World) {
				w.Cluster.Status.Nodes.Leaving = []v1alpha1.LeavingNode{{Name: "n01", State: v1alpha1.LeavingRetained}}
			}},
		{name: "an expression picks it no more", key: retired, since: time.Second, spoil: func(w *clustertest.World) {
			w.Cluster.Spec.Nodes.NodeAffinity = without("n01")
			w.Accept()
		}},
		{name: "an expression picks it still", key: retired, since: time.Second, stays: true, noted: true,
			spoil: func(w *clustertest.World) {
				w.Cluster.Spec.Nodes.NodeAffinity = without("n02")
				w.Accept()
			}},
		{name: "its label is gone as well", key: retired, since: time.Second, spoil: func(w *clustertest.World) {
			w.Cluster.Spec.Nodes.NodeSelector = map[string]string{"disk": "yes"}
			w.Accept()
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := clustertest.NewWorld(t, 6)
			w.KubeNode("n01").Spec.Taints = []corev1.Taint{{Key: tc.key, Effect: corev1.TaintEffectNoSchedule}}
			w.TaintedFor = tc.since
			if tc.spoil != nil {
				tc.spoil(w)
			}
			s := w.Snapshot()
			m := s.MemberByName("n01")
			if m.Selected != tc.stays {
				t.Errorf("a member still: %t", m.Selected)
			}
			told := clustertest.ToldOf(s)
			if noted := len(told) == 1 && told[0] == "NodeTainted n01"; noted != tc.noted {
				t.Errorf("told %v", told)
			}
		})
	}
}

func TestTaintsAreRemembered(t *testing.T) {
	w := clustertest.NewWorld(t, 3)
	w.KubeNode("n01").Spec.Taints = []corev1.Taint{{Key: "x", Effect: corev1.TaintEffectNoSchedule}}
	w.KubeNode("n02").Spec.Taints = []corev1.Taint{{Key: "medik8s.io/drain", Effect: corev1.TaintEffectNoSchedule}}
	n := w.KubeNode("n01")
	since := func(before map[cluster.TaintedNode]cluster.TaintSince) cluster.TaintSince {
		return selection.Remember(before, w.Raw())[cluster.TaintOf(n, &n.Spec.Taints[0])]
	}
	first := selection.Remember(nil, w.Raw())
	if len(first) != 1 || since(nil) != (cluster.TaintSince{Since: clustertest.Begin, AtStart: true}) {
		t.Errorf("tainted since %v", first)
	}
	w.Now = clustertest.Begin.Add(time.Minute)
	if later := since(first); later != (cluster.TaintSince{Since: clustertest.Begin, AtStart: true}) {
		t.Errorf("tainted since %v", later)
	}
	n.Spec.Taints[0].TimeAdded = &metav1.Time{Time: clustertest.Begin.Add(-time.Hour)}
	if told := since(nil); !told.Since.Equal(clustertest.Begin.Add(-time.Hour)) {
		t.Errorf("the API server says since when: %v", told)
	}
	n.Spec.Taints[0].TimeAdded = nil
	n.Spec.Taints = append([]corev1.Taint{{Key: "another", Effect: corev1.TaintEffectNoSchedule}}, n.Spec.Taints...)
	s := w.Raw()
	s.Tainted = selection.Remember(first, s)
	if got, was, _ := selection.DrivesAway(s, n); got == nil || got.Key != "x" ||
		was != (cluster.TaintSince{Since: clustertest.Begin, AtStart: true}) {
		t.Errorf("the second taint hides the first: %v since %v", got, was)
	}
	n.Spec.Taints = n.Spec.Taints[1:]
	for _, change := range []func(){ // one after the other, each begins anew
		func() { n.Spec.Taints[0].Key = "y" },
		func() { n.Spec.Taints[0].Key, n.Spec.Taints[0].Effect = "x", corev1.TaintEffectNoExecute },
		func() { n.Spec.Taints[0].Effect, n.UID = corev1.TaintEffectNoSchedule, "another" },
	} {
		change()
		if got := since(first); got != (cluster.TaintSince{Since: w.Now}) {
			t.Errorf("%s of %s has been there since %v", n.Spec.Taints[0].ToString(), n.UID, got)
		}
	}
	w.KubeNode("n01").Spec.Taints = nil
	if gone := selection.Remember(first, w.Raw()); len(gone) > 0 {
		t.Errorf("tainted since %v", gone)
	}
}

func TestWhyANodeLeaves(t *testing.T) {
	const evacuate, remove, retain = v1alpha1.NodesEvacuate, v1alpha1.NodesRemove, v1alpha1.NodesRetain
	for _, tc := range []struct {
		name   string
		policy v1alpha1.NodeRemovalPolicy
		spoil  func(*clustertest.World)
		says   []string
	}{
		{"a taint", evacuate, func(*clustertest.World) {},
			[]string{"taint example.com/retired:NoSchedule", "Evacuate", "in 30s"}},
		{"a taint, noted", evacuate, func(w *clustertest.World) {
			w.Node("n01").Properties[remembered.Leaving] = clustertest.Ago(10 * time.Second)
		},
			[]string{"taint example.com/retired:NoSchedule", "2026-03-01T12:00:20Z"}},
		{"a taint, to be removed", remove, func(*clustertest.World) {},
			[]string{"taint example.com/retired:NoSchedule", "once it is empty"}},
		{"a taint, retained", retain, func(*clustertest.World) {},
			[]string{"taint example.com/retired:NoSchedule", "its satellite and its data are kept"}},
		{"a label", retain, func(w *clustertest.World) {
			w.Cluster.Spec.Nodes.NodeSelector = map[string]string{"disk": "yes"}
			w.Accept()
			for _, n := range w.Kube.Nodes[1:] {
				n.Labels["disk"] = "yes"
			}
		}, []string{"nodeSelector (disk=yes)"}},
		{"being deleted",
			retain, func(w *clustertest.World) { w.KubeNode("n01").DeletionTimestamp = clustertest.At(clustertest.Begin) },
			[]string{"being deleted"}},
		{"gone", retain, func(w *clustertest.World) { clustertest.Dies(w, "n01") },
			[]string{"Node object has been deleted", "not rebuilt on other nodes"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := clustertest.NewWorld(t, 10)
			w.Leaves(tc.policy, "n01")
			tc.spoil(w)
			l := w.LeaveOf("n01")
			for _, want := range tc.says {
				if !strings.Contains(l.Message, want) {
					t.Errorf("message %q lacks %q", l.Message, want)
				}
			}
		})
	}
}

func TestSelects(t *testing.T) {
	taint := func(key, value string, effect corev1.TaintEffect) corev1.Taint {
		return corev1.Taint{Key: key, Value: value, Effect: effect}
	}
	with := func(f func(*corev1.Node)) *corev1.Node {
		n := clustertest.NewNode("n01")
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
		{"any Linux node", v1alpha1.NodesSpec{}, clustertest.NewNode("n01"), true},
		{"windows by its system", v1alpha1.NodesSpec{},
			with(func(n *corev1.Node) { n.Status.NodeInfo.OperatingSystem = "windows" }), false},
		{"windows by its label", v1alpha1.NodesSpec{},
			with(func(n *corev1.Node) { n.Labels[corev1.LabelOSStable] = "windows" }), false},
		{"being deleted", v1alpha1.NodesSpec{},
			with(func(n *corev1.Node) { n.DeletionTimestamp = clustertest.At(clustertest.Begin) }), false},
		{"selector matches", v1alpha1.NodesSpec{NodeSelector: map[string]string{"a": "b"}},
			with(func(n *corev1.Node) { n.Labels["a"] = "b" }), true},
		{"selector matches another value", v1alpha1.NodesSpec{NodeSelector: map[string]string{"a": "b"}},
			with(func(n *corev1.Node) { n.Labels["a"] = "c" }), false},
		{"selector without label", v1alpha1.NodesSpec{NodeSelector: map[string]string{"a": "b"}}, clustertest.NewNode("n01"),
			false},
		{"not ready stays", v1alpha1.NodesSpec{}, with(func(n *corev1.Node) { n.Status.Conditions = nil }), true},
		{"cordoned stays", v1alpha1.NodesSpec{}, tainted(taint(corev1.TaintNodeUnschedulable, "", noSchedule)), true},
		{"unreachable stays", v1alpha1.NodesSpec{}, tainted(taint(corev1.TaintNodeUnreachable, "", noExecute)), true},
		{"DRBD's own taint stays", v1alpha1.NodesSpec{}, tainted(taint("drbd.linbit.com/lost-quorum", "", noSchedule)),
			true},
		{"DRBD's taint for I/O errors stays", v1alpha1.NodesSpec{},
			tainted(taint("drbd.linbit.com/force-io-error", "", noSchedule)), true},
		{"preference is no taint", v1alpha1.NodesSpec{}, tainted(taint("x", "", corev1.TaintEffectPreferNoSchedule)), true},
		{"Cilium's agent is not there yet", v1alpha1.NodesSpec{},
			tainted(taint("node.cilium.io/agent-not-ready", "", noExecute)), false},
		{"control plane", v1alpha1.NodesSpec{}, tainted(taint("node-role.kubernetes.io/control-plane", "", noSchedule)),
			false},
		{"two taints, one tolerated",
			v1alpha1.NodesSpec{Tolerations: []v1alpha1.Toleration{{Key: "a", Operator: corev1.TolerationOpExists}}},
			tainted(taint("a", "", noSchedule), taint("b", "", noSchedule)), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := selection.Selects(&tc.spec, tc.node); got != tc.want {
				t.Errorf("selected: %t", got)
			}
		})
	}
}

func TestNoNodeMessage(t *testing.T) {
	for _, tc := range []struct {
		name  string
		spoil func(*clustertest.World)
		want  string
	}{
		{"labels", func(w *clustertest.World) {
			w.Cluster.Spec.Nodes.NodeSelector = map[string]string{"example.com/rack": "z"}
		},
			"none of the 2 nodes has the labels in spec.nodes.nodeSelector (example.com/rack=z)"},
		{"taints", func(w *clustertest.World) {
			for _, n := range w.Kube.Nodes {
				n.Spec.Taints = []corev1.Taint{{Key: "example.com/storage", Value: "only", Effect: corev1.TaintEffectNoSchedule}}
			}
		}, "spec.nodes.tolerations does not tolerate taint example.com/storage=only:NoSchedule on node n01"},
		{"Windows", func(w *clustertest.World) {
			for _, n := range w.Kube.Nodes {
				n.Status.NodeInfo.OperatingSystem = "windows"
			}
		}, "run Windows"},
		{"none", func(w *clustertest.World) { w.Kube.Nodes = nil }, "the cluster has no nodes"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := clustertest.NewWorld(t, 2)
			tc.spoil(w)
			s := w.Snapshot()
			s.Target = nil // judged by the wanted spec
			got := selection.NoNodeMessage(&s.Facts)
			if !strings.HasPrefix(got, "no nodes match spec.nodes") || !strings.Contains(got, tc.want) {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}
