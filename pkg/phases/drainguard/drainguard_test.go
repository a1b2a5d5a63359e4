package drainguard_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/volumespec"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/drainguard"
	objects "github.com/linstor-dev/storagecluster-operator/pkg/resources/drainguard"
)

// guarded is a cluster of three nodes with guards, whose copies have just been looked at.
func guarded(t *testing.T) *clustertest.World {
	t.Helper()
	w := clustertest.NewWorld(t, 3)
	mode(w, volumespec.DrainGuardAuto)
	now := metav1.NewTime(w.Now)
	w.Cluster.Status.FirstReady = &now
	w.Linstor.View.ResourcesKnown = true
	for _, name := range []string{"n01", "n02", "n03"} {
		guard(w, name, "")
	}
	budgets(w, 2)
	return w
}

// mode makes the accepted spec one with this mode.
func mode(w *clustertest.World, m volumespec.DrainGuardMode) {
	w.Cluster.Spec.Volumes.DrainGuard = m
	w.Accept()
}

// guard puts a guard on a node.
func guard(w *clustertest.World, node, why string) {
	p := objects.Pod(w.Snapshot().SatelliteParams(), w.Cluster.UID,
		objects.Guard{Node: node, Why: why, Seen: types.UID("guard-" + node)})
	p.Status.Phase = corev1.PodRunning
	if w.Kube.Pods[objects.Component] == nil {
		w.Kube.Pods[objects.Component] = map[string]*corev1.Pod{}
	}
	w.Kube.Pods[objects.Component][node] = p
}

// budgets puts both budgets there; so many of the guards that allow a drain must run.
func budgets(w *clustertest.World, least int32) {
	p := w.Snapshot().SatelliteParams()
	w.Kube.Budgets = map[string]*policyv1.PodDisruptionBudget{}
	for drain, n := range map[string]int32{objects.Allowed: least, objects.Refused: objects.Never} {
		b := objects.Budget(p, drain, n)
		w.Kube.Budgets[b.Name] = b
	}
}

// written are the writes, with what budgets and guards say.
func written(t *testing.T, w *clustertest.World) []string {
	t.Helper()
	in, r := w.Input()
	drainguard.Ensure(in)
	if len(r.Queued) == 0 {
		return nil
	}
	if err := r.Run(t, "drain-guard"); err != nil {
		t.Fatal(err)
	}
	calls, applied := slices.Clone(r.Calls), r.Applied
	for i, call := range calls {
		if !strings.HasPrefix(call, "apply ") {
			continue
		}
		switch o := applied[0].(type) {
		case *policyv1.PodDisruptionBudget:
			if o.Name == objects.BudgetName(objects.Allowed) {
				calls[i] += fmt.Sprintf(" %d", o.Spec.MinAvailable.IntVal)
			}
		case *corev1.Pod:
			calls[i] += " " + o.Labels[objects.LabelDrain]
		}
		applied = applied[1:]
	}
	return calls
}

// volume has copies on these nodes, with the state of each.
func volume(w *clustertest.World, name string, inUse bool, on ...string) {
	for _, at := range on {
		node, state, _ := strings.Cut(at, " ")
		w.Linstor.View.Resources = append(w.Linstor.View.Resources, linstor.Resource{Name: name, Node: node, Diskful: true,
			States: []string{state}, InUse: ptr.To(inUse)})
	}
	w.Linstor.View.Volumes++
}

// TestGuards: what is written for each situation, in this order, and what the condition says.
func TestGuards(t *testing.T) {
	cordon := func(w *clustertest.World, node string) { w.KubeNode(node).Spec.Unschedulable = true }
	gone := func(w *clustertest.World, node string) { delete(w.Kube.Pods[objects.Component], node) }
	const prefix = "PodDisruptionBudget/linstor-drain-guard-"
	const allowed, refused = prefix + "allowed", prefix + "refused"
	for _, tc := range []struct {
		name   string
		change func(w *clustertest.World)
		calls  []string
		reason string
		words  []string
	}{
		{"nothing to do", func(*clustertest.World) {}, nil, conditions.ReasonAsExpected, []string{"one node at a time"}},
		{"not wanted", func(w *clustertest.World) { mode(w, volumespec.DrainGuardNone) },
			[]string{"delete " + allowed, "delete " + refused, "delete Pod/linstor-drain-guard-n01",
				"delete Pod/linstor-drain-guard-n02", "delete Pod/linstor-drain-guard-n03"},
			drainguard.ReasonMaking, []string{"spec.volumes.drainGuard is None"}},
		{"suspended", func(w *clustertest.World) {
			mode(w, volumespec.DrainGuardNone)
			w.Cluster.Spec.Suspend = true
		}, nil, drainguard.ReasonMaking, nil},
		{"not Ready yet", func(w *clustertest.World) {
			w.Phase(v1alpha1.PhaseStoragePools, 0)
			w.Cluster.Status.FirstReady, w.Kube.Budgets = nil, nil
			delete(w.Kube.Pods, objects.Component)
		}, nil, drainguard.ReasonNotReadyYet, nil},
		{"for the first time", func(w *clustertest.World) {
			w.Kube.Budgets = nil
			delete(w.Kube.Pods, objects.Component)
		}, []string{"apply " + refused, "apply " + allowed + " 2", "apply Pod/linstor-drain-guard-n01 allowed",
			"apply Pod/linstor-drain-guard-n02 allowed", "apply Pod/linstor-drain-guard-n03 allowed"},
			drainguard.ReasonMaking, nil},
		{"a last copy", func(w *clustertest.World) { volume(w, "pvc-1", false, "n01 UpToDate", "n02 Outdated") },
			[]string{"apply Pod/linstor-drain-guard-n01 refused", "apply " + allowed + " 1"}, drainguard.ReasonMaking, nil},
		{"a last copy that was seen", func(w *clustertest.World) {
			volume(w, "pvc-1", false, "n01 UpToDate", "n02 Outdated")
			guard(w, "n01", "it has the last up-to-date copy of 1 volume: pvc-1")
			budgets(w, 1)
		}, nil, conditions.ReasonAsExpected,
			[]string{"n01 must not be drained: it has the last up-to-date copy of 1 volume: pvc-1"}},
		{"a last copy on a node that is cordoned", func(w *clustertest.World) {
			volume(w, "pvc-1", false, "n01 UpToDate", "n02 Outdated")
			guard(w, "n01", "it has the last up-to-date copy of 1 volume: pvc-1")
			budgets(w, 1)
			cordon(w, "n01")
		}, nil, drainguard.ReasonHeldBack, []string{"n01 must not be drained"}},
		{"it is not the last any more", func(w *clustertest.World) {
			volume(w, "pvc-1", false, "n01 UpToDate", "n02 UpToDate")
			guard(w, "n01", "it has the last up-to-date copy of 1 volume: pvc-1")
			budgets(w, 1)
		}, []string{"apply " + allowed + " 2", "apply Pod/linstor-drain-guard-n01 allowed"}, drainguard.ReasonMaking, nil},
		{"a single copy by design", func(w *clustertest.World) { volume(w, "pvc-1", false, "n01 UpToDate") }, nil,
			conditions.ReasonAsExpected, nil},
		{"a single copy that is used", func(w *clustertest.World) { volume(w, "pvc-1", true, "n01 UpToDate") },
			[]string{"apply Pod/linstor-drain-guard-n01 refused", "apply " + allowed + " 1"}, drainguard.ReasonMaking, nil},
		{"the copies were not looked at", func(w *clustertest.World) {
			volume(w, "pvc-1", false, "n01 UpToDate", "n02 Outdated")
			w.Linstor.View.ResourcesKnown = false
		}, nil, conditions.ReasonAsExpected, nil},
		{"copies resync", func(w *clustertest.World) {
			volume(w, "pvc-1", false, "n01 UpToDate", "n02 UpToDate", "n03 SyncTarget(50%)")
		}, []string{"apply " + allowed + fmt.Sprintf(" %d", objects.Never)}, drainguard.ReasonMaking, nil},
		{"a node is down", func(w *clustertest.World) { w.Node("n03").Status = linstor.StatusOffline },
			[]string{"apply " + allowed + fmt.Sprintf(" %d", objects.Never)}, drainguard.ReasonMaking, nil},
		{"a node is down while another is cordoned", func(w *clustertest.World) {
			w.Node("n03").Status = linstor.StatusOffline
			budgets(w, objects.Never)
			cordon(w, "n01")
		}, nil, drainguard.ReasonHeldBack, []string{"no node may be drained now: n03 is not ONLINE in LINSTOR"}},
		{"it is back, and not looked at yet", func(w *clustertest.World) {
			volume(w, "pvc-1", false, "n01 UpToDate", "n02 UpToDate")
			w.Linstor.View.ResourcesKnown = false
			budgets(w, objects.Never)
		}, nil, conditions.ReasonAsExpected, []string{"it was not seen yet"}},
		{"it is back and well", func(w *clustertest.World) {
			volume(w, "pvc-1", false, "n01 UpToDate", "n02 UpToDate")
			budgets(w, objects.Never)
		}, []string{"apply " + allowed + " 2"}, drainguard.ReasonMaking, nil},
		{"LINSTOR is silent", func(w *clustertest.World) { w.Silent(nil) },
			[]string{"apply " + allowed + fmt.Sprintf(" %d", objects.Never)}, drainguard.ReasonMaking, nil},
		{"a node was drained", func(w *clustertest.World) {
			gone(w, "n01")
			cordon(w, "n01")
		}, nil, conditions.ReasonAsExpected, []string{"n01 has no guard: it is cordoned"}},
		{"a node was drained that has the last copy by now", func(w *clustertest.World) {
			gone(w, "n01")
			cordon(w, "n01")
			volume(w, "pvc-1", false, "n01 UpToDate", "n02 Outdated")
		}, nil, conditions.ReasonAsExpected, []string{"n01 has no guard: it is cordoned"}},
		{"a node is back", func(w *clustertest.World) { gone(w, "n01") },
			[]string{"apply Pod/linstor-drain-guard-n01 allowed"}, drainguard.ReasonMaking, nil},
		{"a node is back, and its copies are not", func(w *clustertest.World) {
			gone(w, "n01")
			volume(w, "pvc-1", false, "n01 SyncTarget(1%)", "n02 UpToDate")
		}, []string{"apply " + allowed + fmt.Sprintf(" %d", objects.Never), "apply Pod/linstor-drain-guard-n02 refused"},
			drainguard.ReasonMaking, nil},
		{"a guard that its kubelet refused", func(w *clustertest.World) {
			w.Kube.Pods[objects.Component]["n02"].Status.Phase = corev1.PodFailed
		}, []string{"delete Pod/linstor-drain-guard-n02"}, drainguard.ReasonMaking, nil},
		{"a node that LINSTOR has no more", func(w *clustertest.World) { delete(w.Linstor.View.Nodes, "n03") },
			[]string{"delete Pod/linstor-drain-guard-n03", "apply " + allowed + " 1"}, drainguard.ReasonMaking, nil},
		{"one node is left", func(w *clustertest.World) {
			delete(w.Linstor.View.Nodes, "n03")
			delete(w.Linstor.View.Nodes, "n02")
		}, []string{"delete " + allowed, "delete " + refused, "delete Pod/linstor-drain-guard-n01",
			"delete Pod/linstor-drain-guard-n02", "delete Pod/linstor-drain-guard-n03"}, drainguard.ReasonMaking, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := guarded(t)
			tc.change(w)
			s := w.Snapshot()
			calls := written(t, w)
			if !slices.Equal(calls, tc.calls) {
				t.Errorf("written are\n%s\nwant\n%s", strings.Join(calls, "\n"), strings.Join(tc.calls, "\n"))
			}
			ready, reason, message := drainguard.Condition(s)
			if reason != tc.reason || ready != (reason != drainguard.ReasonMaking) {
				t.Errorf("%t %s: %s", ready, reason, message)
			}
			for _, words := range tc.words {
				if !strings.Contains(message, words) {
					t.Errorf("%q lacks %q", message, words)
				}
			}
		})
	}
}

// TestWantsCopies: they are looked at more often only while that matters to a drain.
func TestWantsCopies(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(w *clustertest.World)
		want   bool
	}{
		{"at rest", func(*clustertest.World) {}, false},
		{"not wanted", func(w *clustertest.World) {
			mode(w, volumespec.DrainGuardNone)
			budgets(w, objects.Never)
		}, false},
		{"no node may be drained", func(w *clustertest.World) { budgets(w, objects.Never) }, true},
		{"a node waits", func(w *clustertest.World) {
			guard(w, "n01", "it has the last up-to-date copy of 1 volume: pvc-1")
			w.KubeNode("n01").Spec.Unschedulable = true
		}, true},
		{"a node is cordoned", func(w *clustertest.World) { w.KubeNode("n01").Spec.Unschedulable = true }, false},
		{"a node was drained", func(w *clustertest.World) {
			w.KubeNode("n01").Spec.Unschedulable = true
			delete(w.Kube.Pods[objects.Component], "n01")
		}, false},
		{"a node is back", func(w *clustertest.World) { delete(w.Kube.Pods[objects.Component], "n01") }, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := guarded(t)
			for _, n := range w.Kube.Nodes {
				n.Labels[v1alpha1.LabelMember] = w.Cluster.Name
			}
			tc.change(w)
			if got := drainguard.WantsCopies(&w.Snapshot().Facts); got != tc.want {
				t.Errorf("%t", got)
			}
		})
	}
}
