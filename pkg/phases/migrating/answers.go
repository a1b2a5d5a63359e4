package migrating

import (
	"cmp"
	"context"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/restore"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/rollback"
	"github.com/linstor-dev/storagecluster-operator/pkg/database/connection"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/controller"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/databasebackup"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
)

// Confirm keeps the consent to replace LINSTOR's database by the backup that the hold named, at the differences that
// it showed. It is stored once the cache shows it: letting the hold go before would begin it anew.
func Confirm(ctx context.Context, in *step.Input) (stored bool, err error) {
	claim, _ := in.Snapshot.Claim()
	h := in.Answer.Hold
	if Ended(in.Snapshot, h) || len(h.Identities) == 0 || claim.RestoreConfirmed == h.Identities[0] {
		return true, nil
	}
	claim.RestoreConfirmed = h.Identities[0]
	return false, in.ApplyClaim(ctx, claim)
}

// Abandon keeps that the restore is not wanted after all. It has no effect on one that has touched rows: what is in
// the database then may be half of a backup.
func Abandon(ctx context.Context, in *step.Input) (stored bool, err error) {
	r := in.Snapshot.Restore
	if Ended(in.Snapshot, in.Answer.Hold) || r == nil || r.Importing.ID != "" {
		return true, nil
	}
	claim, _ := in.Snapshot.Claim()
	claim.RestoreConfirmed = ""
	if r.BackTo != "" { // the new LINSTOR is started on the database that it has migrated
		claim.RolledBack = ""
	} else {
		claim.Restored = string(r.ID)
	}
	return false, in.ApplyClaim(ctx, claim)
}

// Retry removes the pod that did not import the backup, so that another one is made.
func Retry(ctx context.Context, in *step.Input) (stored bool, err error) {
	pods := in.Snapshot.Kube.Restores
	if len(pods) == 0 {
		in.Tasks.Forget("")
	}
	return len(pods) == 0, databasebackup.RemovePods(ctx, in, pods)
}

// Forget lets the claim forget which backup was restored last once the annotation is gone, so that the same one can be
// asked for again; from which version LINSTOR was taken back, once the spec asks for another one; and what somebody
// has consented to that is not to be restored any more: nothing is imported later or moved later because of an answer
// that was given to another question.
func Forget(ctx context.Context, in *step.Input) error {
	s := in.Snapshot
	claim, claimed := s.Claim()
	if !claimed || s.Cluster.Spec.Suspend || s.Phase() == v1alpha1.PhaseMigrating { // which writes the claim itself
		return nil
	}
	before := claim
	if s.Phase() != v1alpha1.PhaseDeleting {
		if s.Restore == nil && restore.Asked(s.Cluster) == "" {
			claim.Restored = ""
		}
		if about, _ := restore.ParseConsent(claim.RestoreConfirmed); s.Restore == nil || about.ID != s.Restore.ID {
			claim.RestoreConfirmed = ""
		}
	}
	forgetMove(s, &claim)
	forgetTakenBack(s, &claim)
	if claim == before {
		return nil
	}
	// A cache that lags behind may show the spec of before the move, or of before the upgrade.
	if before.MoveTo != claim.MoveTo || before.RolledBack != claim.RolledBack {
		if err := in.Stands(ctx); err != nil {
			return step.IgnoreOutdated(err)
		}
	}
	return in.ApplyClaim(ctx, claim)
}

// forgetTakenBack takes out of the claim from which version LINSTOR was taken back, once the spec asks for another
// one. An upgrade takes it out itself.
func forgetTakenBack(s *cluster.Snapshot, claim *resources.ClaimData) {
	v := cmp.Or(s.Cluster.Spec.Version, s.Cluster.Status.Version)
	if s.Phase() != v1alpha1.PhaseUpgrading && claim.UpgradeTo == "" && !rollback.Done(*claim, v) {
		claim.RolledBack = ""
	}
}

// forgetMove takes out of the claim what it says of a move that is not wanted, or is over.
func forgetMove(s *cluster.Snapshot, claim *resources.ClaimData) {
	if s.Target == nil {
		return
	}
	if s.Move == nil { // the change of the spec was taken back, or the cluster is being deleted
		claim.MoveTo, claim.Moving = "", ""
	}
	if connection.Same(claim.Backend, s.AcceptedDatabase()) { // it has been followed, whatever was accepted since
		claim.MovedSpec = ""
	}
}

// KeepStopped stops a controller of LINSTOR that somebody else has started, in whatever phase and hold, as long as its
// database may hold half of a backup, or a human is asked about a backup that was compared while none ran. Beside a
// move it may run, and the move begins anew.
func KeepStopped(ctx context.Context, in *step.Input) error {
	s := in.Snapshot
	switch r := s.Restore; {
	case s.Phase() == v1alpha1.PhaseMigrating: // which does it itself
		return nil
	case ranBeside(s):
		return spoil(ctx, in)
	case r == nil || r.Stopped:
		return nil
	}
	_, err := controller.Stop(ctx, in)
	return err
}
