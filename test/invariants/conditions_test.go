package invariants

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
)

// served is a status at rest in which everything is well.
func served() *v1alpha1.StorageClusterStatus {
	first := at(1)
	c := version(accepted, step(1, v1alpha1.PhaseAssessing, "Converged", v1alpha1.PhaseReady))
	st := &c.Status
	st.Target, st.FirstReady = "r", &first
	st.Nodes = v1alpha1.NodesStatus{Members: 3, MinReady: 2, Online: 3}
	set(st, conditions.Ready, metav1.ConditionTrue)
	set(st, conditions.Reconciling, metav1.ConditionFalse)
	return st
}

func set(st *v1alpha1.StorageClusterStatus, kind string, status metav1.ConditionStatus) {
	c := meta.FindStatusCondition(st.Conditions, kind)
	c.Status, c.LastTransitionTime = status, at(0)
}

func TestConditions(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(st *v1alpha1.StorageClusterStatus)
		want   string
	}{
		"all is well":  {func(*v1alpha1.StorageClusterStatus) {}, ""},
		"enough nodes": {func(st *v1alpha1.StorageClusterStatus) { st.Nodes.Online = 2 }, ""},
		"too few nodes": {func(st *v1alpha1.StorageClusterStatus) { st.Nodes.Online = 1 },
			"1 nodes online, 2 are needed"},
		"too few nodes, and LINSTOR has just come back": {func(st *v1alpha1.StorageClusterStatus) {
			st.Nodes.Online = 1
			meta.FindStatusCondition(st.Conditions, conditions.Available).LastTransitionTime = at(1)
		}, ""},
		"too few nodes, LINSTOR has just come back, and Degraded": {func(st *v1alpha1.StorageClusterStatus) {
			st.Nodes.Online, st.Phase = 1, v1alpha1.PhaseDegraded
			meta.FindStatusCondition(st.Conditions, conditions.Available).LastTransitionTime = at(1)
		}, "1 nodes online, 2 are needed"},
		"ready while it is deleted": {func(st *v1alpha1.StorageClusterStatus) { st.Phase = v1alpha1.PhaseDeleting },
			"nothing was installed"},
		"ready before it was": {func(st *v1alpha1.StorageClusterStatus) { st.FirstReady = nil },
			"nothing was installed"},
		"ready without members": {func(st *v1alpha1.StorageClusterStatus) { st.Nodes.Members = 0 },
			"nothing was installed"},
		"ready without accepted spec": {func(st *v1alpha1.StorageClusterStatus) { st.Target = "" }, "nothing was installed"},
		"too few while satellites are restarted": {func(st *v1alpha1.StorageClusterStatus) {
			st.Nodes.Online = 1
			set(st, conditions.Reconciling, metav1.ConditionTrue)
		}, ""},
		"not reconciling in a rollout": {func(st *v1alpha1.StorageClusterStatus) {
			meta.FindStatusCondition(st.Conditions, conditions.SatellitesReady).Reason = conditions.ReasonRollingSatellites
		}, "Reconciling is False in phase Ready while SatellitesReady says RollingSatellites"},
		"a rollout that is suspended": {func(st *v1alpha1.StorageClusterStatus) {
			meta.FindStatusCondition(st.Conditions, conditions.SatellitesReady).Reason = conditions.ReasonRollingSatellites
			set(st, conditions.Suspended, metav1.ConditionTrue)
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			st, faults := served(), &faultList{}
			tt.change(st)
			checkConditions(st, faults)
			if got := strings.Join(faults.list, "\n"); (tt.want == "") != (got == "") || !strings.Contains(got, tt.want) {
				t.Errorf("got %q, want something with %q", got, tt.want)
			}
		})
	}
}
