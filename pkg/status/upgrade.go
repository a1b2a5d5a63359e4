package status

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases"
)

// projectUpgrade shows the step of an upgrade. What it waits for stays while something else is said, such as why it is held.
func projectUpgrade(st *v1alpha1.StorageClusterStatus, in Input) {
	u, before := in.Snapshot.Upgrade(), st.Upgrade
	if u == nil {
		st.Upgrade = nil
		return
	}
	now := metav1.NewTime(in.Snapshot.Now)
	st.Upgrade = &v1alpha1.UpgradeStatus{From: u.From, To: u.To, Step: u.Step, Since: now, NodesDone: int32(u.Done), NodesTotal: int32(u.Total)}
	if before != nil && before.Step == u.Step && before.To == u.To {
		st.Upgrade.Since, st.Upgrade.Message, st.Upgrade.SkippedChecks = before.Since, before.Message, before.SkippedChecks
	}
	st.Upgrade.SkippedChecks = st.Upgrade.SkippedChecks || u.Skipped
	if in.Transition == nil && st.Phase == v1alpha1.PhaseUpgrading && in.Outcome.Kind() == phases.KindWait {
		st.Upgrade.Message = truncate(in.Outcome.Message(), 512)
	}
}

// upgradeProgress is whether an upgrade went on since the status before: another step, or one more satellite.
func upgradeProgress(before, after *v1alpha1.UpgradeStatus) bool {
	return after != nil && (before == nil || before.Step != after.Step || after.NodesDone > before.NodesDone)
}
