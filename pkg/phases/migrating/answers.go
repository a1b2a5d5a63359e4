package migrating

import (
	"context"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/restore"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
)

// Confirm keeps the consent to replace LINSTOR's database by the backup that the hold named, at the differences that
// it showed. It is stored once the cache shows it: letting the hold go before would begin it anew.
func Confirm(ctx context.Context, in *step.Input) (stored bool, err error) {
	claim, _ := in.Snapshot.Claim()
	h := in.Answer.Hold
	if in.Snapshot.Restore == nil || len(h.Identities) == 0 || claim.RestoreConfirmed == h.Identities[0] {
		return true, nil
	}
	claim.RestoreConfirmed = h.Identities[0]
	return false, in.ApplyClaim(ctx, claim)
}

// Abandon keeps that the restore is not wanted after all. It has no effect on one that has touched rows: what is in
// the database then may be half of a backup.
func Abandon(ctx context.Context, in *step.Input) (stored bool, err error) {
	r := in.Snapshot.Restore
	if r == nil || r.Importing.ID != "" {
		return true, nil
	}
	claim, _ := in.Snapshot.Claim()
	claim.Restored, claim.RestoreConfirmed = string(r.ID), ""
	return false, in.ApplyClaim(ctx, claim)
}

// Retry removes the pod that did not import the backup, so that another one is made.
func Retry(ctx context.Context, in *step.Input) (stored bool, err error) {
	pods := in.Snapshot.Kube.Restores
	for _, p := range pods {
		if p.DeletionTimestamp == nil {
			if err := in.Writer.DeleteOwnPod(ctx, p); err != nil {
				return false, err
			}
		}
	}
	if len(pods) == 0 {
		in.Tasks.Forget("")
	}
	return len(pods) == 0, nil
}

// Forget lets the claim forget which backup was restored last once the annotation is gone, so that the same one can be
// asked for again.
func Forget(ctx context.Context, in *step.Input) error {
	s := in.Snapshot
	claim, claimed := s.Claim()
	if !claimed || s.Restore != nil || claim.Restored == "" || restore.Asked(s.Cluster) != "" || s.Cluster.Spec.Suspend ||
		s.Phase() == v1alpha1.PhaseMigrating { // which writes the claim itself as it ends
		return nil
	}
	claim.Restored = ""
	return in.ApplyClaim(ctx, claim)
}
