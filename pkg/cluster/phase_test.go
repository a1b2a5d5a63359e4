package cluster_test

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
)

// TestConnecting: what LINSTOR says of nodes that it is not connected to is not believed a moment after its start.
func TestConnecting(t *testing.T) {
	const yes, no = metav1.ConditionTrue, metav1.ConditionFalse
	offline := func(w *clustertest.World) { w.Node("n02").Status = linstor.StatusOffline }
	for name, tc := range map[string]struct {
		spoil     func(*clustertest.World)
		available metav1.ConditionStatus // "" if nothing was written yet
		age       time.Duration
		want      bool
	}{
		"it answers for the first time again": {offline, no, time.Minute, true},
		"it has answered for a moment":        {offline, yes, 2 * time.Second, true},
		"it has answered for a while":         {offline, yes, 30 * time.Second, false},
		"nothing was written yet":             {offline, "", 0, false},
		"all are ONLINE":                      {func(*clustertest.World) {}, yes, 2 * time.Second, false},
		"one is on its way": {func(w *clustertest.World) { w.Node("n02").Status = linstor.StatusConnected }, yes,
			2 * time.Second, true},
		"a node that LINSTOR never connects to": {func(w *clustertest.World) {
			offline(w)
			w.Node("n02").Type = linstor.TypeAuxiliary
		}, yes, 2 * time.Second, false},
		"the operator was away itself, and the controller's pod was not": {func(w *clustertest.World) {
			offline(w)
			controllerReady(w, time.Hour, time.Hour)
		}, yes, time.Hour, false},
		"the operator was away itself, and the controller's pod is young": {func(w *clustertest.World) {
			offline(w)
			controllerReady(w, 10*time.Second, 2*time.Second)
		}, yes, time.Hour, true},
		"a look at a controller that has run for long failed": {func(w *clustertest.World) {
			offline(w)
			controllerReady(w, time.Hour, time.Hour)
		}, yes, 2 * time.Second, false},
		"a controller that has run for long is ready again": {func(w *clustertest.World) {
			offline(w)
			controllerReady(w, time.Hour, 2*time.Second)
		}, yes, time.Hour, true},
		"it is silent": {func(w *clustertest.World) { w.Silent(errors.New("refused")) }, no, 2 * time.Second, false},
	} {
		w := clustertest.NewWorld(t, 3)
		if tc.available != "" {
			w.Condition(conditions.Available, tc.available, tc.age)
		}
		tc.spoil(w)
		if got := w.Snapshot().Connecting(); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// controllerReady makes the controller's pod one whose container runs, and which is ready, for as long.
func controllerReady(w *clustertest.World, runs, ready time.Duration) {
	p := w.ReadyPod(v1alpha1.ComponentController, "n01")
	p.Status.Conditions[0].LastTransitionTime = metav1.NewTime(w.Now.Add(-ready))
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{
		Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(w.Now.Add(-runs))}}}}
	w.Kube.ControllerPods = []*corev1.Pod{p}
}
