package status

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases"
)

// mostFull is how many full pools a message names.
const mostFull = 3

// nearlyFull is the condition PoolsNearlyFull. How full pools are moves all the time, so it changes together with the sizes
// in the status, no more often than Timing.Capacity says. While LINSTOR does not answer, an alarm stays.
func nearlyFull(st *v1alpha1.StorageClusterStatus, s *phases.Snapshot) verdict {
	before := meta.FindStatusCondition(s.Cluster.Status.Conditions, v1alpha1.ConditionPoolsNearlyFull)
	switch {
	case s.Target == nil:
		return unknown(v1alpha1.ReasonNotChecked, "the spec is not accepted yet")
	case !s.Linstor.Known() && before != nil && before.Status == metav1.ConditionTrue:
		return verdict{before.Status, before.Reason, before.Message}
	case !s.Linstor.Known():
		return unknown(v1alpha1.ReasonUnknown, "LINSTOR does not answer")
	}
	now := no(v1alpha1.ReasonAsExpected, "no pool is fuller than its warnUsedPercent")
	if full := s.FullPools(); len(full) > 0 {
		now = yes("NearlyFull", fullMessage(full))
	}
	if before == nil || before.Status == metav1.ConditionUnknown || now == (verdict{before.Status, before.Reason, before.Message}) {
		return now
	}
	written := s.Cluster.Status.Pools.Updated
	if due := written == nil || !written.Equal(st.Pools.Updated) || s.Now.Sub(written.Time) >= s.Timing.Capacity; !due {
		return verdict{before.Status, before.Reason, before.Message}
	}
	at := metav1.NewTime(s.Now)
	st.Pools.Updated = &at
	return now
}

func fullMessage(full []phases.FullPool) string {
	var names []string
	for _, p := range full[:min(len(full), mostFull)] {
		names = append(names, fmt.Sprintf("%s@%s %d %% (limit %d %%)", p.Entry, p.Node, p.UsedPercent, p.LimitPercent))
	}
	more := ""
	if n := len(full) - mostFull; n > 0 {
		more = fmt.Sprintf(" and %d more", n)
	}
	what := "1 pool is"
	if len(full) > 1 {
		what = fmt.Sprintf("%d pools are", len(full))
	}
	return fmt.Sprintf("%s nearly full: %s%s", what, strings.Join(names, ", "), more)
}
