package migrating_test

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/phases"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
)

// later is an API server that has a satellite, or a Node's labels, that the cache does not show yet.
type later struct {
	step.Live
	pods  []corev1.Pod
	nodes []metav1.PartialObjectMetadata
}

func (l later) Satellites(context.Context) ([]corev1.Pod, error) { return l.pods, nil }

func (l later) Labelled(context.Context, string) ([]metav1.PartialObjectMetadata, error) {
	return l.nodes, nil
}

// TestASatelliteThatIsNotSeen: nothing is imported while the API server itself has a satellite at an address that the
// backup has for another node, or would get one. One that has ended, and those of other nodes, do not matter.
func TestASatelliteThatIsNotSeen(t *testing.T) {
	pod := func(node string, phase corev1.PodPhase) later {
		return later{pods: []corev1.Pod{{Spec: corev1.PodSpec{NodeName: node}, Status: corev1.PodStatus{Phase: phase}}}}
	}
	labelled := func(node string) later {
		o := metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: node}}
		o.Kind = "Node"
		return later{nodes: []metav1.PartialObjectMetadata{o}}
	}
	for name, tc := range map[string]struct {
		live   later
		writes int
	}{
		"its pod": {pod("n02", corev1.PodRunning), 0}, "its labels": {labelled("n02"), 0},
		"its pod has ended": {pod("n02", corev1.PodFailed), 1}, "another one's pod": {pod("n01", corev1.PodRunning), 1},
		"another one's labels": {labelled("n01"), 1},
	} {
		r := newRig(t)
		r.taken(atTaken)
		r.unlabelled("n02")
		in, w := r.Input()
		tc.live.Live = in.Live
		in.Live = tc.live
		if o := phases.Decide(t.Context(), in); len(w.Calls) != tc.writes || o.Err != nil {
			t.Errorf("%s: writes %q, outcome %+v", name, w.Calls, o)
		}
	}
}
