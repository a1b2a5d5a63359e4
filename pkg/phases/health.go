package phases

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
)

// Health is how well an installed cluster is.
type Health struct {
	Degraded bool
	Reason   string
	Message  string
}

// Health judges the snapshot. Nodes that have just joined are not trouble.
func (s *Snapshot) Health() Health {
	switch {
	case s.Target == nil:
		return Health{Reason: v1alpha1.ReasonNotChecked, Message: "the spec is not accepted yet"}
	case s.Staying() == 0:
		return Health{Degraded: true, Reason: v1alpha1.ReasonNoMatchingNodes, Message: s.NoNodeMessage()}
	case !s.Linstor.Known():
		return Health{Degraded: true, Reason: "ControllerUnreachable", Message: oneLine(fmt.Sprintf("LINSTOR does not answer: %s", s.whyUnknown()))}
	}
	if e := (controllerLink{}).Evidence(s); e.State != Satisfied && e.Reason != reasonSettingProperties && e.Reason != reasonTidyingUp {
		return Health{Degraded: true, Reason: e.Reason, Message: e.Message}
	}
	bad := s.count(func(m *Member) bool {
		return m.Counts() && m.State != v1alpha1.NodeOnline && !m.Joining && !m.restarting
	})
	if bad > 0 {
		return Health{Degraded: true, Reason: "NodesMissing", Message: s.missingMembers()}
	}
	return Health{Reason: v1alpha1.ReasonAsExpected, Message: fmt.Sprintf("%d of %d nodes are online", s.Online(), s.Counted())}
}

func (s *Snapshot) whyUnknown() string {
	if s.Linstor.Err != nil {
		return s.Linstor.Err.Error()
	}
	return s.controllerPodMessage()
}

// degradedFor is how long the condition Degraded has had the given value without a break, as far as it is recorded.
func (s *Snapshot) degradedFor(degraded bool) time.Duration {
	want := metav1.ConditionFalse
	if degraded {
		want = metav1.ConditionTrue
	}
	return s.conditionAge(v1alpha1.ConditionDegraded, want)
}

// unavailableFor is how long LINSTOR's API has not answered.
func (s *Snapshot) unavailableFor() time.Duration {
	if s.Linstor.Known() {
		return 0
	}
	return s.conditionAge(v1alpha1.ConditionAvailable, metav1.ConditionFalse)
}

func (s *Snapshot) conditionAge(kind string, status metav1.ConditionStatus) time.Duration {
	c := meta.FindStatusCondition(s.Cluster.Status.Conditions, kind)
	if c == nil || c.Status != status {
		return 0
	}
	return since(s.Now, c.LastTransitionTime.Time)
}
