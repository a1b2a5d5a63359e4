package placement_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/placement"
)

// TestTolerations: a controller may start on a node whose volumes are in trouble, since it is what repairs them, and
// leaves a node that does not answer within half a minute.
func TestTolerations(t *testing.T) {
	tolerations := placement.Tolerations([]v1alpha1.Toleration{{Key: "storage", Operator: corev1.TolerationOpExists}})
	for _, tc := range []struct {
		taint     corev1.Taint
		tolerated bool
		seconds   int64 // 0: without a limit
	}{
		{corev1.Taint{Key: "drbd.linbit.com/lost-quorum", Effect: corev1.TaintEffectNoSchedule}, true, 0},
		{corev1.Taint{Key: "drbd.linbit.com/force-io-error", Effect: corev1.TaintEffectNoSchedule}, true, 0},
		{corev1.Taint{Key: "drbd.linbit.com/lost-quorum", Effect: corev1.TaintEffectNoExecute}, true, 0},
		{corev1.Taint{Key: "node.kubernetes.io/unreachable", Effect: corev1.TaintEffectNoExecute}, true, 30},
		{corev1.Taint{Key: "node.kubernetes.io/not-ready", Effect: corev1.TaintEffectNoExecute}, true, 30},
		{corev1.Taint{Key: "node.kubernetes.io/unschedulable", Effect: corev1.TaintEffectNoSchedule}, false, 0},
		{corev1.Taint{Key: "storage", Value: "yes", Effect: corev1.TaintEffectNoSchedule}, true, 0},
		{corev1.Taint{Key: "other", Effect: corev1.TaintEffectNoSchedule}, false, 0},
	} {
		got, seconds := false, int64(0)
		for _, toleration := range tolerations {
			if matches(toleration, tc.taint) {
				got = true
				if toleration.TolerationSeconds != nil {
					seconds = *toleration.TolerationSeconds
				}
			}
		}
		if got != tc.tolerated || seconds != tc.seconds {
			t.Errorf("%s: tolerated %t for %d s", tc.taint.ToString(), got, seconds)
		}
	}
}

func matches(t corev1.Toleration, taint corev1.Taint) bool {
	return t.Operator == corev1.TolerationOpExists && (t.Key == "" || t.Key == taint.Key) &&
		(t.Effect == "" || t.Effect == taint.Effect)
}
