package status

import (
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/volumespec"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/canary"
	"github.com/linstor-dev/storagecluster-operator/pkg/status/notice"
)

// canaryPassed is the condition CanaryPassed. The link lets a cluster that was Ready go on although its volumes are
// being tried, or could not be used: the condition says so all the same. What nobody has seen is unknown.
func canaryPassed(st *v1alpha1.StorageClusterStatus, s *cluster.Snapshot) verdict {
	if s.Target == nil {
		return unknown(conditions.ReasonNotChecked, "the spec has not been accepted yet")
	}
	e := s.Evidence[fsm.Canary]
	switch e.Reason {
	case canary.ReasonFailed:
		if h := st.Hold; h != nil && h.Reason == v1alpha1.HoldCanaryFailed {
			return no(e.Reason, "see status.hold") // which has the whole sentence
		}
		return no(e.Reason, e.Message)
	case canary.ReasonRunning, canary.ReasonPutOff, canary.ReasonSkipped:
		return unknown(e.Reason, e.Message)
	default:
		return yes(e.Reason, e.Message)
	}
}

// canaryNotice is about volumes that could not be used.
func canaryNotice(st *v1alpha1.StorageClusterStatus) notice.Notice {
	if st.Canary == nil || !notice.Steady(st.Phase) {
		return notice.Notice{}
	}
	for i := range st.Canary.Classes {
		if c := &st.Canary.Classes[i]; c.Result == volumespec.CanaryFailed {
			return notice.Notice{Short: "CanaryFailed: StorageClass " + c.Name + ", " + string(c.Step)}
		}
	}
	return notice.Notice{}
}
