package satellites_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/satellites"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/work"
)

func zone(w *clustertest.World, node, zone string) {
	w.KubeNode(node).Labels[corev1.LabelTopologyZone] = zone
}

func names(ms []*cluster.Member) string {
	var out []string
	for _, m := range ms {
		out = append(out, m.Name)
	}
	return strings.Join(out, " ")
}

func TestRoll(t *testing.T) {
	maintained := func(w *clustertest.World, node string) {
		w.KubeNode(node).Annotations = map[string]string{v1alpha1.AnnotationMaintenance: "true"}
	}
	for _, tc := range []struct {
		name  string
		nodes int
		spoil func(w *clustertest.World)
		// next are the nodes to restart; waiting is part of why there are none.
		next, waiting string
		outdated      int
	}{
		{name: "at rest", nodes: 8, spoil: func(*clustertest.World) {}},
		{name: "one first", nodes: 8, spoil: func(w *clustertest.World) { w.Outdate() }, next: "n01", outdated: 8},
		{name: "then a quarter", nodes: 8, spoil: func(w *clustertest.World) { w.Outdate("n02", "n03", "n04") },
			next: "n02 n03", outdated: 3},
		{name: "one of few", nodes: 3, spoil: func(w *clustertest.World) { w.Outdate("n02", "n03") }, next: "n02",
			outdated: 2},
		{name: "the last is not back", nodes: 8, spoil: func(w *clustertest.World) {
			w.Outdate()
			w.Restarted("n01")
		}, waiting: "waiting for n01 to be ONLINE", outdated: 7},
		{name: "a pod is going", nodes: 8, spoil: func(w *clustertest.World) {
			w.Outdate()
			w.Satellite("n03").DeletionTimestamp = clustertest.At(clustertest.Begin)
		}, waiting: "waiting for n03", outdated: 7},
		{name: "a pod is gone", nodes: 8, spoil: func(w *clustertest.World) {
			w.Outdate()
			delete(w.Kube.Pods[v1alpha1.ComponentSatellite], "n03")
		}, waiting: "waiting for n03", outdated: 7},
		{name: "ready, not ONLINE", nodes: 8, spoil: func(w *clustertest.World) {
			w.Outdate("n02", "n03")
			w.Node("n01").Status = linstor.StatusOffline
		}, waiting: "waiting for n01", outdated: 2},
		{name: "what LINSTOR says may be about the pod before", nodes: 8, spoil: func(w *clustertest.World) {
			w.Outdate("n02", "n03")
			w.Satellite("n01").Status.Conditions[0].LastTransitionTime = metav1.NewTime(clustertest.Begin.Add(-2 * time.Second))
		}, waiting: "waiting for n01", outdated: 2},
		{name: "LINSTOR had time to notice", nodes: 8, spoil: func(w *clustertest.World) {
			w.Outdate("n02", "n03")
			w.Satellite("n01").Status.Conditions[0].LastTransitionTime = metav1.NewTime(clustertest.Begin.Add(-3 * time.Second))
		}, next: "n02 n03", outdated: 2},
		{name: "a dead node counts", nodes: 8, spoil: func(w *clustertest.World) {
			w.Outdate("n02", "n03", "n04")
			w.KubeNode("n08").Status.Conditions = nil
			w.Node("n08").Status = linstor.StatusOffline
		}, next: "n02", outdated: 3},
		{name: "dead nodes use up what may be down", nodes: 8, spoil: func(w *clustertest.World) {
			w.Outdate("n02", "n03", "n04")
			for _, n := range []string{"n03", "n08"} {
				w.KubeNode(n).Status.Conditions = nil
				w.Node(n).Status = linstor.StatusOffline
			}
		}, waiting: "2 nodes are down, but at most 2", outdated: 3},
		{name: "out of reach of LINSTOR", nodes: 8, spoil: func(w *clustertest.World) {
			w.Outdate("n02", "n03", "n04")
			w.Node("n02").Status = linstor.StatusOffline
		}, next: "n03", outdated: 3},
		{name: "only one left, and it is dead", nodes: 4, spoil: func(w *clustertest.World) {
			w.Outdate("n02")
			w.KubeNode("n02").Status.Conditions = nil
			w.Node("n02").Status = linstor.StatusOffline
		}, waiting: "cannot restart the satellite on n02", outdated: 1},
		{name: "what fails goes first", nodes: 8, spoil: func(w *clustertest.World) {
			w.Outdate("n02", "n03", "n07")
			w.FailPod(v1alpha1.ComponentSatellite, "n07", "no such image")
			w.Node("n07").Status = linstor.StatusOffline
		}, next: "n07", outdated: 3},
		{name: "one first of those that fail", nodes: 8, spoil: func(w *clustertest.World) {
			w.Outdate()
			for _, n := range w.Kube.Nodes {
				w.FailPod(v1alpha1.ComponentSatellite, n.Name, "no such image")
				w.Node(n.Name).Status = linstor.StatusOffline
			}
		}, next: "n01", outdated: 8},
		{name: "of another version, all at odds with the controller", nodes: 8, spoil: func(w *clustertest.World) {
			w.Outdate("n02", "n03", "n04", "n05", "n06", "n07", "n08")
			for _, n := range []string{"n02", "n03", "n04", "n05", "n06", "n07", "n08"} {
				w.Satellite(n).Spec.Containers[0].Image = "registry/piraeus-server:v1.0.0"
				w.Node(n).Status = linstor.StatusVersionMismatch
			}
		}, next: "n02 n03", outdated: 7},
		{name: "LINSTOR never knew them", nodes: 8, spoil: func(w *clustertest.World) {
			w.Outdate()
			w.Linstor.View.Nodes = map[string]*linstor.Node{}
		}, next: "n01 n02 n03 n04 n05 n06 n07 n08", outdated: 8},
		{name: "nothing is known", nodes: 8, spoil: func(w *clustertest.World) {
			w.Outdate()
			w.Silent(fmt.Errorf("no answer"))
		}, waiting: "LINSTOR does not respond", outdated: 8},
		{name: "nothing is known, and some do not serve anyway", nodes: 8, spoil: func(w *clustertest.World) {
			w.Outdate("n02", "n03")
			w.FailPod(v1alpha1.ComponentSatellite, "n02", "no such image")
			w.Silent(fmt.Errorf("no answer"))
		}, waiting: "LINSTOR does not respond", outdated: 2},
		{name: "maintenance is left alone", nodes: 8, spoil: func(w *clustertest.World) {
			w.Outdate("n01", "n02")
			maintained(w, "n01")
		}, next: "n02", outdated: 1},
		{name: "maintenance does not count as down", nodes: 3, spoil: func(w *clustertest.World) {
			w.Outdate("n02")
			maintained(w, "n01")
			w.Restarted("n01")
		}, next: "n02", outdated: 1},
		{name: "many nodes failed", nodes: 8, spoil: func(w *clustertest.World) {
			w.Outdate()
			for _, n := range []string{"n07", "n08"} {
				w.KubeNode(n).Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown,
					LastTransitionTime: metav1.NewTime(clustertest.Begin.Add(-time.Minute))}}
			}
		}, waiting: "many nodes failed", outdated: 8},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := clustertest.NewWorld(t, tc.nodes)
			tc.spoil(w)
			r := w.Snapshot().Roll
			checkRoll(t, &r, tc.next, tc.waiting)
			if len(r.Outdated) != tc.outdated {
				t.Errorf("outdated are %q, want %d", names(r.Outdated), tc.outdated)
			}
		})
	}
}

func checkRoll(t *testing.T, r *cluster.Roll, next, waiting string) {
	t.Helper()
	if got := names(r.Next); got != next {
		t.Errorf("next are %q, want %q (%s)", got, next, r.Waiting)
	}
	if !strings.Contains(r.Waiting, waiting) || (r.Waiting == "") != (waiting == "") {
		t.Errorf("waiting is %q, want %q", r.Waiting, waiting)
	}
}

func TestRollDeletesPods(t *testing.T) {
	want := func(t *testing.T, w *clustertest.World, calls ...string) {
		t.Helper()
		in, r := w.Input()
		r.Now = w.Linstor.View
		if err := satellites.Link().Work(t.Context(), in); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(calls, r.Calls); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
	}
	t.Run("the planned ones", func(t *testing.T) {
		w := clustertest.NewWorld(t, 8)
		w.Outdate("n02", "n03", "n04")
		want(t, w, "delete Pod/satellite-n02", "delete Pod/satellite-n03")
	})
	t.Run("not while LINSTOR is written to", func(t *testing.T) {
		w := clustertest.NewWorld(t, 8)
		w.Outdate("n02", "n03", "n04")
		w.Tasks["pool/n02/ssd"] = workState(true)
		want(t, w, "delete Pod/satellite-n03")
	})
	t.Run("not before the DaemonSet's change was seen", func(t *testing.T) {
		w := clustertest.NewWorld(t, 8)
		w.Outdate()
		w.Kube.DaemonSets[resources.SatelliteName].Generation = 2
		want(t, w)
	})
	t.Run("not before the DaemonSet was changed", func(t *testing.T) {
		w := clustertest.NewWorld(t, 8)
		w.Kube.DaemonSets[resources.SatelliteName].Annotations[resources.AnnotationSpecHash] = "old"
		w.Outdate()
		want(t, w, "apply DaemonSet/linstor-satellite")
	})
	t.Run("not while the cluster is deleted", func(t *testing.T) {
		w := clustertest.NewWorld(t, 8)
		w.Outdate()
		w.Cluster.DeletionTimestamp = clustertest.At(clustertest.Begin)
		want(t, w)
	})
	t.Run("on the pods' network after another look", func(t *testing.T) {
		w := clustertest.NewWorld(t, 3)
		onPodNetwork(w)
		w.Outdate("n02", "n03")
		w.Copies("a n01 n02")
		want(t, w, "delete Pod/satellite-n02")
		in, r := w.Input()
		r.Now = &linstor.View{Resources: []linstor.Resource{{Name: "a", Node: "n02", Diskful: true,
			States: []string{"UpToDate"}},
			{Name: "a", Node: "n01", Diskful: true, States: []string{"Outdated"}}}}
		if err := satellites.Link().Work(t.Context(), in); err != nil || len(r.Calls) > 0 {
			t.Errorf("calls %v, error %v: the last look shows that n02 has the only good copy", r.Calls, err)
		}
	})
}

func workState(running bool) work.State { return work.State{Running: running} }
