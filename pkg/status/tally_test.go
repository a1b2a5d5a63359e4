package status

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/volumespec"
)

func TestOnlyTallies(t *testing.T) {
	condition := func(st *v1alpha1.StorageClusterStatus) *metav1.Condition {
		return meta.FindStatusCondition(st.Conditions, conditions.Ready)
	}
	volumes := volumespec.VolumesStatus{Total: 3}
	for _, tc := range []struct {
		name   string
		change func(*v1alpha1.StorageClusterStatus)
		only   bool
	}{
		{"nothing", func(*v1alpha1.StorageClusterStatus) {}, true},
		{"one more node", func(st *v1alpha1.StorageClusterStatus) {
			st.Nodes.Online, st.Nodes.Summary, st.Nodes.States = 2, "2/3",
				[]v1alpha1.NodeStateCount{{State: v1alpha1.NodeOnline, Count: 2}}
			st.Progress, st.ProgressSince, st.Message = 2, &metav1.Time{Time: begin}, "2 of 3"
			st.Pools.Ready, condition(st).Message = 2, "2/3"
		}, true},
		{"a node's trouble", func(st *v1alpha1.StorageClusterStatus) {
			st.Nodes.Problems = []v1alpha1.NodeProblem{{Reason: "NodeNotReady"}}
		}, true},
		{"the phase", func(st *v1alpha1.StorageClusterStatus) { st.Phase = v1alpha1.PhaseDegraded }, false},
		{"a member more", func(st *v1alpha1.StorageClusterStatus) { st.Nodes.Members++ }, false},
		{"a leaving node", func(st *v1alpha1.StorageClusterStatus) { st.Nodes.LeavingCount++ }, false},
		{"volumes, which guard the deletion", func(st *v1alpha1.StorageClusterStatus) { st.Volumes = &volumes }, false},
		{"a condition's status", func(st *v1alpha1.StorageClusterStatus) { condition(st).Status = metav1.ConditionFalse },
			false},
		{"a condition's reason", func(st *v1alpha1.StorageClusterStatus) { condition(st).Reason = "Other" }, false},
		{"a hold", func(st *v1alpha1.StorageClusterStatus) { st.Hold = &v1alpha1.Hold{ID: "h-1"} }, false},
		{"a hold of nodes", func(st *v1alpha1.StorageClusterStatus) { st.NodeHolds = []v1alpha1.Hold{{ID: "h-1"}} }, false},
		{"the generation", func(st *v1alpha1.StorageClusterStatus) { st.ObservedGeneration++ }, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := Project(resting(judged(t, v1alpha1.PhaseReady, 3, "ssd")))
			b := a.DeepCopy()
			tc.change(b)
			before := b.DeepCopy()
			if got := OnlyTallies(a, b); got != tc.only {
				t.Errorf("got %t", got)
			}
			if b.Message != before.Message || b.Nodes.Summary != before.Nodes.Summary ||
				condition(b).Message != condition(before).Message {
				t.Error("comparing changed what was compared")
			}
		})
	}
}
