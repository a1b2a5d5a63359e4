package phases_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
)

// TestAssessWaitsUntilLinstorHasConnected: a LINSTOR that was started a moment ago calls all nodes OFFLINE. Nothing is
// concluded from that, nor is a node excused whose satellite was restarted a moment before.
func TestAssessWaitsUntilLinstorHasConnected(t *testing.T) {
	const second = time.Second
	starts := func(w *clustertest.World) { // when they were started, a moment ago
		for _, p := range w.Kube.Pods[v1alpha1.ComponentSatellite] {
			p.CreationTimestamp = metav1.NewTime(w.Now.Add(-20 * time.Second))
		}
	}
	answersFor := func(d time.Duration) func(*clustertest.World) {
		return func(w *clustertest.World) { w.Condition(conditions.Available, metav1.ConditionTrue, d) }
	}
	for name, tc := range map[string]struct {
		nodes int
		spoil []func(*clustertest.World)
		event fsm.Event // "" for a wait
		says  string
	}{
		"none is connected": {3, []func(*clustertest.World){answersFor(2 * second)}, "",
			"LINSTOR is responding again, but is not yet connected to n01, n02, n03"},
		"LINSTOR answers for the first time after that": {3, []func(*clustertest.World){func(w *clustertest.World) {
			w.Condition(conditions.Available, metav1.ConditionFalse, 20*second)
		}}, "", "not yet connected to n01"},
		"the only one was restarted a moment before": {1, []func(*clustertest.World){starts, answersFor(2 * second)}, "",
			"LINSTOR is responding again, but is not yet connected to n01"},
		"LINSTOR has answered for a while": {3, []func(*clustertest.World){answersFor(30 * second)}, fsm.NodesMissing,
			"0 of 3 nodes are registered, ONLINE and configured as in spec.nodes"},
		"one is connected": {2, []func(*clustertest.World){answersFor(2 * second), func(w *clustertest.World) {
			w.Node("n01").Status = linstor.StatusOnline
		}}, "", "not yet connected to n02"},
		"all are connected": {1, []func(*clustertest.World){answersFor(2 * second), func(w *clustertest.World) {
			w.Node("n01").Status = linstor.StatusOnline
		}}, fsm.Converged, "all 1 nodes match the spec"},
		"no satellite runs": {1, []func(*clustertest.World){answersFor(2 * second), func(w *clustertest.World) {
			w.UnreadyPod(v1alpha1.ComponentSatellite, "n01")
		}}, fsm.SatellitesMissing, "0 of 1 satellites are ready"},
		"it is to be told another address": {1, []func(*clustertest.World){answersFor(2 * second),
			func(w *clustertest.World) { w.Node("n01").Interfaces[0].Address = "10.9.9.9" }}, fsm.NodesMissing, ""},
		"the satellite is to be restarted": {1, []func(*clustertest.World){answersFor(2 * second),
			func(w *clustertest.World) { w.Outdate("n01") }}, fsm.NodesMissing, ""},
		"it never was connected": {1, []func(*clustertest.World){answersFor(2 * second), func(w *clustertest.World) {
			delete(w.Node("n01").Properties, linstor.PropUname)
		}}, fsm.NodesMissing, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := clustertest.NewWorld(t, tc.nodes)
			w.Phase(v1alpha1.PhaseAssessing, 5*second)
			w.Cluster.Status.FirstReady = clustertest.At(w.Now.Add(-time.Hour))
			for _, n := range w.Linstor.View.Nodes {
				n.Status = linstor.StatusOffline
			}
			for _, spoil := range tc.spoil {
				spoil(w)
			}
			in, _ := w.Input()
			o := phases.Decide(t.Context(), in)
			if o.Event != tc.event || tc.event == "" && o.Kind != step.KindWait || !strings.Contains(o.Message, tc.says) {
				t.Errorf("%s %s (%s)", o.Kind, o.Event, o.Message)
			}
		})
	}
}
