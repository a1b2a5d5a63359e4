package judge_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/judge"
)

// Each member that is not Online is named with a cause once it has waited for a while, pods that do not exist
// included.
func TestMembersThatWaitAreNamed(t *testing.T) {
	for _, tc := range []struct {
		name   string
		spoil  func(*clustertest.World)
		reason string
		says   string
	}{
		{"no satellite's pod", func(w *clustertest.World) { delete(w.Kube.Pods[v1alpha1.ComponentSatellite], "n02") },
			"SatelliteNotCreated", "kubectl -n linstor-storage describe daemonset linstor-satellite"},
		{"no satellite's pod, LINSTOR misses it", func(w *clustertest.World) {
			delete(w.Kube.Pods[v1alpha1.ComponentSatellite], "n02")
			w.LinkDown("n02", time.Hour)
		}, "SatelliteNotCreated", "quota"},
		{"no loader's pod", func(w *clustertest.World) { delete(w.Kube.Pods[v1alpha1.ComponentModuleLoader], "n02") },
			"LoaderNotCreated", "describe daemonset linstor-module-loader-noble"},
		{"a loader that takes long", func(w *clustertest.World) { w.UnreadyPod(v1alpha1.ComponentModuleLoader, "n02") },
			"LoaderNotReady", "not ready"},
		{"a satellite that is not scheduled", func(w *clustertest.World) {
			w.UnreadyPod(v1alpha1.ComponentSatellite, "n02")
			p := w.Kube.Pods[v1alpha1.ComponentSatellite]["n02"]
			p.Status.Conditions = append(p.Status.Conditions,
				corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "Too many pods"})
		}, "SatelliteNotReady", "Too many pods"},
		{"no labels", func(w *clustertest.World) {
			clear(w.KubeNode("n02").Labels)
			clustertest.RemovePods(w, "n02")
			delete(w.Linstor.View.Nodes, "n02")
		}, "WaitingForLabels", "labels"},
		{"not registered", func(w *clustertest.World) { delete(w.Linstor.View.Nodes, "n02") }, "NodeRegistering",
			"registered"},
		{"pools", func(w *clustertest.World) { clear(w.Node("n02").Pools) }, "PoolsPending", "ssd"},
		{"LINSTOR refuses", func(w *clustertest.World) { w.Node("n02").Status = linstor.StatusFullSyncFailed },
			"FullSyncFailed", "error-reports"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := clustertest.NewWorld(t, 3)
			tc.spoil(w)
			first := w.Snapshot()
			w.States = judge.RememberStates(nil, first)
			w.Now = w.Now.Add(cluster.DefaultTiming().HealthLost)
			s := w.Snapshot()
			m := s.MemberByName("n02")
			if m.State == v1alpha1.NodeOnline || m.Problem == nil || m.Problem.Reason != tc.reason ||
				!strings.Contains(m.Problem.Message, tc.says) {
				t.Errorf("%s, problem %+v", m.State, m.Problem)
			}
			if tc.reason != "FullSyncFailed" && slices.ContainsFunc(first.MemberByName("n02").Problems(),
				func(p *cluster.Problem) bool { return p.Reason == tc.reason }) {
				t.Error("told at once")
			}
		})
	}
}

func TestStatesAreRemembered(t *testing.T) {
	w := clustertest.NewWorld(t, 1)
	first := judge.RememberStates(nil, w.Snapshot())
	w.Now = clustertest.Begin.Add(time.Minute)
	if again := judge.RememberStates(first,
		w.Snapshot()); again["n01"] != (cluster.StateSince{State: v1alpha1.NodeOnline, Since: clustertest.Begin}) {
		t.Errorf("%+v", again)
	}
	w.UnreadyPod(v1alpha1.ComponentSatellite, "n01")
	if changed := judge.RememberStates(first, w.Snapshot()); !changed["n01"].Since.Equal(w.Now) {
		t.Errorf("%+v", changed)
	}
}
