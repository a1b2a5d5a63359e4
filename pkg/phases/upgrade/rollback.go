package upgrade

import (
	"context"
	"fmt"
	"slices"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/holdkind"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/restore"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/rollback"
	"github.com/linstor-dev/storagecluster-operator/pkg/database/connection"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
)

// Offer adds the way back to a hold of an upgrade that has migrated the database, or why there is none.
func Offer(s *cluster.Snapshot, h *cluster.HoldRequest) {
	u, kind := s.Upgrade, holdkind.Of(h.Reason)
	if u == nil || !u.PastEdge() || !slices.Contains(kind.Special, v1alpha1.OptionRollBack) {
		return
	}
	if why := noWayBack(s); why != "" {
		h.Message += fmt.Sprintf("; the operator cannot roll LINSTOR back to %s: %s", u.From, why)
		return
	}
	h.Message += fmt.Sprintf("; resume with %s to roll back to LINSTOR %s with backup %s", v1alpha1.OptionRollBack,
		u.From, u.Claim.UpgradeBackup)
	h.Options = holdkind.Answers(slices.DeleteFunc(slices.Clone(kind.Options), func(o v1alpha1.HoldOption) bool {
		return h.Options != nil && !slices.Contains(append(h.Options, v1alpha1.OptionRollBack), o.Answer)
	}))
}

// noWayBack says why an upgrade cannot be taken back with the backup that was taken before it; "" if it can.
func noWayBack(s *cluster.Snapshot) string {
	claim := s.Upgrade.Claim
	kind := connection.Kind(&s.Target.Spec.Database)
	named := restore.Asked(s.Cluster)
	switch {
	case s.Cluster.DeletionTimestamp != nil:
		return "the cluster is being deleted"
	case kind != v1alpha1.DatabaseKubernetes:
		// Rows of before in tables of a later schema are never migrated again: its number stays (linstor-server 1.34).
		return fmt.Sprintf("an import does not replace the newer schema in a %s database, which must therefore be "+
			"emptied first", kind)
	case claim.UpgradeBackup == "":
		return "the operator did not take a backup before the upgrade"
	case s.Cluster.Spec.Backup == nil:
		return fmt.Sprintf("spec.backup is not set, so the location of backup %s is unknown", claim.UpgradeBackup)
	case claim.LocalID == "":
		return "the database's identity (Cluster/LocalID) is not recorded, so its backups cannot be found"
	case named != "" && named != claim.Restored && named != claim.UpgradeBackup:
		return fmt.Sprintf("the %s annotation names another backup, %s: remove the annotation, then resume with retry",
			v1alpha1.AnnotationRestore, named)
	default:
		return ""
	}
}

// RollBack keeps in the claim that the upgrade shall be taken back. From then on no controller is started before the
// backup was compared with the nodes, and somebody has said once more what becomes of the database.
func RollBack(ctx context.Context, in *step.Input) (stored bool, err error) {
	s := in.Snapshot
	if s.Upgrade == nil || !s.Upgrade.PastEdge() || rollback.UnderWay(s.Upgrade.Claim) || noWayBack(s) != "" {
		return true, nil // what does not hold any more is said by the next hold
	}
	claim := s.Upgrade.Claim
	claim.RolledBack, claim.RestoreConfirmed = pair(s.Upgrade), ""
	return false, in.ApplyClaim(ctx, claim)
}
