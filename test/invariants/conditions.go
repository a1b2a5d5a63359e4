package invariants

import (
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
)

// checkConditions judges what the conditions say of each other and of the counts. What they say of the world,
// [Serving] judges.
func checkConditions(st *v1alpha1.StorageClusterStatus, faults *faultList) {
	is := func(kind string) bool { return meta.IsStatusConditionTrue(st.Conditions, kind) }
	ready, reconciling := is(conditions.Ready), is(conditions.Reconciling)
	if ready && (st.Phase == v1alpha1.PhaseDeleting || st.Target == "" || st.FirstReady == nil || st.Nodes.Members == 0) {
		faults.add("Ready is True in phase %s with the accepted spec %q, firstReady %v and %d members: nothing was "+
			"installed that could serve",
			st.Phase, st.Target, st.FirstReady, st.Nodes.Members)
	}
	if ready && is(conditions.Available) && !reconciling && countsDecide(st) && st.Nodes.Online < st.Nodes.MinReady {
		faults.add("Ready is True with %d nodes online, %d are needed, and no satellite is being restarted", st.Nodes.Online,
			st.Nodes.MinReady)
	}
	satellites := meta.FindStatusCondition(st.Conditions, conditions.SatellitesReady)
	rolling := satellites != nil && satellites.Reason == conditions.ReasonRollingSatellites
	if rolling && !reconciling && mayReconcile(st) {
		faults.add("Reconciling is False in phase %s while %s says %s: %s", st.Phase, satellites.Type, satellites.Reason,
			satellites.Message)
	}
}

// mayReconcile reports whether the operator works: it neither waits for a human nor is it suspended.
func mayReconcile(st *v1alpha1.StorageClusterStatus) bool {
	return st.Phase != v1alpha1.PhaseHumanIntervention && !meta.IsStatusConditionTrue(st.Conditions, conditions.Suspended)
}

// countsDecide reports whether Ready follows from the counts: Reconciling says in this phase that satellites are
// restarted, and nothing else, and LINSTOR is connected to all that it can use.
func countsDecide(st *v1alpha1.StorageClusterStatus) bool {
	atRest := mayReconcile(st) && (st.Phase == v1alpha1.PhaseReady || st.Phase == v1alpha1.PhaseDegraded)
	return atRest && !reconnects(st)
}

// reconnects reports whether LINSTOR may be connecting to its satellites again in a cluster that was Ready when it was
// silent. For how long that excuses anything, [Serving] judges.
func reconnects(st *v1alpha1.StorageClusterStatus) bool {
	ready := meta.FindStatusCondition(st.Conditions, conditions.Ready)
	available := meta.FindStatusCondition(st.Conditions, conditions.Available)
	return st.Phase == v1alpha1.PhaseReady && available.LastTransitionTime.After(ready.LastTransitionTime.Time)
}
