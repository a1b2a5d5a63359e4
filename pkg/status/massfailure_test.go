package status

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/hold"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
)

// The operator goes on with the nodes away that its hold listed, and with no others.
func TestContinueAcknowledgesWhatItsHoldListed(t *testing.T) {
	s := judged(t, v1alpha1.PhaseReady, 0)
	s.Members, s.Linstor = nil, cluster.Linstor{Asked: true, Err: fmt.Errorf("refused")} // Kubernetes alone tells
	var down []string
	for i := range 5 {
		name := fmt.Sprintf("n%d", i)
		down = append(down, name)
		s.Kube.Nodes = append(s.Kube.Nodes, &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1alpha1.LabelMember: s.Cluster.Name}},
			Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionFalse,
				LastTransitionTime: metav1.NewTime(begin.Add(-time.Minute))}}}})
	}
	s = phases.Judge(s.Facts)
	for read, want := range map[int]string{5: conditions.ReasonAcknowledged, 3: conditions.ReasonNodesFailed} {
		open := v1alpha1.Hold{ID: "h-1", Reason: v1alpha1.HoldMassFailure, Nodes: down[:read], Count: int32(read)}
		s.Cluster.Status.NodeHolds = []v1alpha1.Hold{open}
		st := Project(Input{Snapshot: s, Outcome: step.Wait("x", "x", time.Second),
			Released: &hold.Answer{Hold: &open, Option: v1alpha1.OptionContinue}})
		if c := meta.FindStatusCondition(st.Conditions, conditions.MassFailure); c == nil || c.Reason != want ||
			len(st.NodeHolds) > 0 {
			t.Errorf("%d of 5 were listed: %+v, holds %+v", read, c, st.NodeHolds)
		}
	}
}
