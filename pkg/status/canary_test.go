package status

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/volumespec"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/canary"
	"github.com/linstor-dev/storagecluster-operator/pkg/status/notice"
)

// TestCanaryPassed: what nobody has seen is unknown, although the link lets a cluster that was Ready go on.
func TestCanaryPassed(t *testing.T) {
	for _, tc := range []struct {
		reason string
		held   bool
		status metav1.ConditionStatus
		words  string
	}{
		{canary.ReasonPassed, false, metav1.ConditionTrue, "as judged"},
		{canary.ReasonNotWanted, false, metav1.ConditionTrue, "as judged"},
		{canary.ReasonNoClass, false, metav1.ConditionTrue, "as judged"},
		{canary.ReasonRunning, false, metav1.ConditionUnknown, "as judged"},
		{canary.ReasonPutOff, false, metav1.ConditionUnknown, "as judged"},
		{canary.ReasonSkipped, false, metav1.ConditionUnknown, "as judged"},
		{canary.ReasonFailed, false, metav1.ConditionFalse, "as judged"},
		{canary.ReasonFailed, true, metav1.ConditionFalse, "see status.hold"},
	} {
		s := judged(t, v1alpha1.PhaseReady, 2)
		s.Evidence = map[fsm.State]cluster.Evidence{
			fsm.Canary: {State: cluster.Satisfied, Reason: tc.reason, Message: "as judged"}}
		st := &v1alpha1.StorageClusterStatus{}
		if tc.held {
			st.Hold = &v1alpha1.Hold{Reason: v1alpha1.HoldCanaryFailed}
		}
		if v := canaryPassed(st, s); v.status != tc.status || v.reason != tc.reason || v.message != tc.words {
			t.Errorf("%s: %+v", tc.reason, v)
		}
	}
}

func TestCanaryNotice(t *testing.T) {
	st := &v1alpha1.StorageClusterStatus{Phase: v1alpha1.PhaseDegraded, Canary: &volumespec.CanaryStatus{
		Classes: []volumespec.CanaryClass{{Name: "fast", Result: volumespec.CanaryPassed},
			{Name: "slow", Result: volumespec.CanaryFailed, Step: volumespec.CanaryMount}}}}
	if got, want := canaryNotice(st).Short, "CanaryFailed: StorageClass slow, Mount"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	st.Canary.Classes[1].Result = volumespec.CanaryRunning
	if got := canaryNotice(st); got != (notice.Notice{}) {
		t.Errorf("%+v", got)
	}
}
