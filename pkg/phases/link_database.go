package phases

import (
	"context"
	"fmt"
	"strings"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
)

// databaseLink makes sure that LINSTOR's database can be used and is ours, and records it in the claim.
type databaseLink struct{}

func (databaseLink) State() fsm.State          { return fsm.Database }
func (databaseLink) Missing() fsm.Event        { return fsm.DatabaseMissing }
func (databaseLink) Condition() string         { return v1alpha1.ConditionDatabaseReady }
func (databaseLink) Hold() v1alpha1.HoldReason { return v1alpha1.HoldDatabaseUnreachable }

func (databaseLink) Evidence(s *Snapshot) Evidence {
	claim, claimed, err := s.Claim()
	if err != nil {
		return Evidence{State: Unknown, Reason: "ClaimUnreadable", Message: err.Error()}
	}
	if claimed {
		return claimedEvidence(s, claim)
	}
	switch db := s.Database; {
	case !db.Checked:
		return Evidence{State: Missing, Reason: "CheckingDatabase", Message: "the database has not been looked at yet", Lost: s.hadClaim()}
	case db.Err != nil:
		return Evidence{State: Missing, Reason: string(v1alpha1.HoldDatabaseUnreachable), Message: oneLine(db.Err.Error()), Lost: s.hadClaim()}
	case len(db.Nodes) > 0:
		return Evidence{State: Failed, Reason: string(v1alpha1.HoldForeignLinstorFound), Lost: s.hadClaim(),
			Message: "the database holds another LINSTOR's nodes", Hold: &HoldRequest{
				Reason: v1alpha1.HoldForeignLinstorFound,
				Message: fmt.Sprintf("the database %s already holds a LINSTOR cluster with the nodes %s, which this StorageCluster does not know; "+
					"starting would migrate it with no way back. Answer adopt to take it over, or use another database",
					s.Target.Spec.Database.Kind(), strings.Join(db.Nodes, ", ")),
			}}
	default:
		return Evidence{State: Missing, Reason: "Claiming", Message: "the database is empty and will be claimed", Lost: s.hadClaim()}
	}
}

// hadClaim is whether the cluster came past the Database phase before, so that the claim should be there.
func (s *Snapshot) hadClaim() bool {
	return s.Cluster.Status.Database != "" && s.Kube.Deployments[resources.ControllerName] != nil
}

func claimedEvidence(s *Snapshot, claim resources.ClaimData) Evidence {
	if want := resources.DatabaseURL(&s.Target.Spec.Database); claim.Backend != want && !sameDatabase(claim.Backend, want) {
		return Evidence{State: Failed, Reason: string(v1alpha1.HoldUnsupportedChange), Message: "the claim names another database",
			Hold: &HoldRequest{Reason: v1alpha1.HoldUnsupportedChange, Message: fmt.Sprintf(
				"spec.database.%s asks for %s, but this cluster's data is in %s (ConfigMap %s/%s); moving LINSTOR's data is not supported: set spec.database back",
				s.Target.Spec.Database.Kind(), want, claim.Backend, v1alpha1.WorkloadNamespace, resources.ClaimName)}}
	}
	if v := s.Linstor.View; v != nil && claim.LocalID != "" && v.LocalID != claim.LocalID {
		return Evidence{State: Failed, Reason: string(v1alpha1.HoldForeignLinstorFound), Message: "LINSTOR runs on another cluster's data",
			Hold: &HoldRequest{Reason: v1alpha1.HoldForeignLinstorFound, Message: fmt.Sprintf(
				"LINSTOR's Cluster/LocalID is %s, but this cluster's is %s: the database was emptied or replaced. Restore it, or answer adopt to take this one",
				v.LocalID, claim.LocalID)}}
	}
	return Evidence{State: Satisfied, Reason: "DatabaseClaimed", Message: "LINSTOR's database (" + claim.Backend + ") belongs to this cluster"}
}

// sameDatabase lets the parts of a connection URL change that do not name other data: parameters, and etcd's endpoints.
func sameDatabase(a, b string) bool {
	trim := func(s string) string { s, _, _ = strings.Cut(s, "?"); return s }
	if strings.HasPrefix(a, "etcd://") && strings.HasPrefix(b, "etcd://") {
		return true
	}
	return trim(a) == trim(b)
}

// Work claims the database. The claim is written before the controller starts for the first time, so that a crash between
// the two is not taken for a foreign LINSTOR afterwards.
func (databaseLink) Work(ctx context.Context, in *Input) error {
	claim, claimed, err := in.Claim()
	if err != nil {
		return fmt.Errorf("read the claim: %w", err)
	}
	before := claim
	if !claimed {
		if free := in.Database.Checked && in.Database.Err == nil && len(in.Database.Nodes) == 0; !free {
			return nil // the evidence says what is wrong with the database
		}
		claim.Backend = resources.DatabaseURL(&in.Target.Spec.Database)
	}
	if claim.Version == "" || claim.UpgradeTo == "" && neverStarted(claim) {
		claim.Version = in.Target.Release.Version
	}
	if in.upgrade == nil {
		claim.BackupConfirmed, claim.SkippedChecks = "", "" // they were for an upgrade that was taken back
	}
	if v := in.Linstor.View; v != nil && claim.LocalID == "" {
		claim.LocalID = v.LocalID
	}
	if in.Cluster.DeletionTimestamp == nil {
		// It was the answer to a deletion that is over. That deletion must not take it back itself: its last steps rest on it
		// until the finalizer is gone. A later one cannot use it, because this runs before any workload is started.
		claim.RemoveUnverified = false
	}
	if claimed && claim == before {
		return nil
	}
	return in.applyClaim(ctx, claim)
}

// applyClaim writes the claim, unless it changed since it was read: a claim made from an old one could lose what another
// writer has put there.
func (in *Input) applyClaim(ctx context.Context, data resources.ClaimData) error {
	cm := resources.Claim(in.Cluster.Name, data)
	if live := in.Kube.ConfigMaps[resources.ClaimName]; live != nil {
		cm.ResourceVersion = live.ResourceVersion
	}
	return in.Writer.Apply(ctx, cm)
}
