// Package database is the link that claims LINSTOR's database, so that no two clusters work on one.
package database

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/epoch"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/rollback"
	"github.com/linstor-dev/storagecluster-operator/pkg/database/connection"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

// Link is the link that makes sure that LINSTOR's database can be used and is ours, and records it in the claim.
func Link() step.Link {
	return step.Link{State: fsm.Database, Missing: fsm.DatabaseMissing, Condition: conditions.DatabaseReady,
		Hold: v1alpha1.HoldDatabaseUnreachable, Judge: judge, Work: act}
}

func judge(s *cluster.Snapshot) cluster.Evidence {
	if err := s.ClaimErr; err != nil {
		return cluster.Unknown.Because("ClaimUnreadable", err.Error())
	}
	waits, stops := etcdEvidence(&s.Facts)
	if claim, claimed := s.Claim(); claimed {
		e := claimedEvidence(&s.Facts, claim)
		switch {
		case e.State != cluster.Satisfied:
		case stops:
			return waits
		case waits.Message != "":
			e.Message += "; " + waits.Message
		}
		return e
	}
	if leftHalf(&s.Facts) {
		return cluster.Missing.Because("HalfImported", fmt.Sprintf("a StorageCluster was deleted while a backup was being "+
			"imported into this database, which may now contain only part of the backup: empty the database, then remove the "+
			"%s key from ConfigMap %s/%s",
			resources.RestoringKey, v1alpha1.WorkloadNamespace, resources.ClaimName))
	}
	if len(s.Kube.Restores) > 0 {
		return cluster.Missing.Because("ClaimMissing", fmt.Sprintf("the claim is missing, and LINSTOR's database may "+
			"contain only part of a backup: restore ConfigMap %s/%s, or delete the pods labeled %s=%s to continue without it",
			v1alpha1.WorkloadNamespace, resources.ClaimName, v1alpha1.LabelComponent, v1alpha1.ComponentRestore))
	}
	e := waits
	if !stops {
		e = unclaimedEvidence(&s.Facts)
	}
	// A cluster that came past the Database phase before should have its claim.
	e.Lost = s.Cluster.Status.Database != "" && s.Kube.Deployments[resources.ControllerName] != nil
	return e
}

func unclaimedEvidence(s *cluster.Facts) cluster.Evidence {
	switch db := s.Database; {
	case !db.Checked:
		return cluster.Missing.Because("CheckingDatabase", "the database has not been checked yet")
	case db.Err != nil:
		return cluster.Missing.Because(string(v1alpha1.HoldDatabaseUnreachable), text.OneLine(db.Err.Error()))
	case len(db.Nodes) > 0:
		return cluster.Asks("the database contains the nodes of another LINSTOR cluster", cluster.HoldRequest{
			Reason: v1alpha1.HoldForeignLinstorFound, Identities: []string{identity(&db)}, Message: fmt.Sprintf(
				"the %s database already contains a LINSTOR cluster (%s) that does not belong to this StorageCluster; "+
					"starting LINSTOR would migrate it, which cannot be undone. Resume with adopt to take it over, or use a "+
					"different database",
				connection.Kind(&s.Target.Spec.Database), &db)})
	default:
		return cluster.Missing.Because("Claiming", "the database is empty and will be claimed")
	}
}

// nodesIdentity begins the identity of a database that no LINSTOR runs on.
const nodesIdentity = "nodes:"

// identity identifies a database that was looked at before the first start: by the LINSTOR that it says it is, and by
// the nodes in it.
func identity(d *cluster.Database) string {
	nodes := slices.Clone(d.Nodes)
	slices.Sort(nodes)
	return nodesIdentity + text.Digest(append(nodes, d.LocalID))
}

func claimedEvidence(s *cluster.Facts, claim resources.ClaimData) cluster.Evidence {
	kind, want := connection.Kind(&s.Target.Spec.Database), connection.URL(&s.Target.Spec.Database)
	if !connection.Same(claim.Backend, want) {
		return cluster.Asks("the claim names a different database", cluster.HoldRequest{
			Reason: v1alpha1.HoldUnsupportedChange, Identities: []string{want}, Message: fmt.Sprintf(
				"spec.database.%s points to %s, but this cluster's data is in %s (ConfigMap %s/%s): "+
					"set spec.database to that database",
				kind, want, claim.Backend, v1alpha1.WorkloadNamespace, resources.ClaimName)})
	}
	if s.Linstor.Why == v1alpha1.HoldKubernetesRestored {
		return behind(s, claim)
	}
	if v := s.Linstor.Foreign; v != nil {
		way := fmt.Sprintf("Restore a backup (use the %s annotation if spec.backup stored it)", v1alpha1.AnnotationRestore)
		if claim.UpgradeTo != "" { // that is not followed during an upgrade
			way = fmt.Sprintf("The upgrade to %s may have caused this. Manually restore the database to its state before the "+
				"upgrade",
				claim.UpgradeTo)
		}
		return cluster.Asks("LINSTOR is running with another cluster's data", cluster.HoldRequest{
			Reason: v1alpha1.HoldForeignLinstorFound, Identities: []string{v.LocalID}, Message: fmt.Sprintf(
				"LINSTOR reports Cluster/LocalID %s, but this cluster's is %s: the database was emptied or replaced. "+
					"%s, or resume with adopt to use the current database", v.LocalID, claim.LocalID, way)})
	}
	return cluster.Satisfied.Because("DatabaseClaimed",
		"LINSTOR's database ("+string(kind)+") is claimed by this cluster")
}

// act claims the database. The claim is written before the controller starts for the first time, so that a crash
// between the two is not taken for a foreign LINSTOR afterwards.
func act(ctx context.Context, in *step.Input) error {
	s := in.Snapshot
	if err := s.ClaimErr; err != nil {
		return fmt.Errorf("read the claim: %w", err)
	}
	claim, claimed := s.Claim()
	before := claim
	if !claimed {
		if !free(s) {
			return nil // the evidence says what is wrong with the database
		}
		claim.Backend = connection.URL(&s.Target.Spec.Database)
	}
	if claim.Version == "" || claim.UpgradeTo == "" && cluster.NeverStarted(claim) {
		claim.Version = s.Target.Release.Version
	}
	claim.TLS = s.Target.Spec.TLS.Mode
	if s.Upgrade == nil {
		claim.BackupConfirmed, claim.SkippedChecks = "", "" // they were for an upgrade that was taken back
	}
	if v := s.Linstor.View; v != nil {
		claim.LocalID = cmp.Or(claim.LocalID, v.LocalID)
		claim.Epoch = epoch.Next(claim.Epoch, v, s.Now, s.Timing.Epoch)
	}
	if s.Cluster.DeletionTimestamp == nil {
		// It was the answer to a deletion that is over. That deletion must not take it back itself: its last steps rest on
		// it until the finalizer is gone. A later one cannot use it, because this runs before any workload is started.
		claim.RemoveUnverified = false
	}
	if claimed && claim == before {
		return nil
	}
	return in.ApplyClaim(ctx, claim)
}

// free reports whether the database is known to hold nothing. Where a restore has left pods and no claim, half of a
// backup may be in it, of which only the claim knew.
func free(s *cluster.Snapshot) bool {
	db := s.Database
	_, waits := etcdEvidence(&s.Facts)
	return db.Checked && db.Err == nil && len(db.Nodes) == 0 && len(s.Kube.Restores) == 0 && !leftHalf(&s.Facts) && !waits
}

// leftHalf reports whether an earlier cluster was deleted while a backup was being imported into the wanted database.
func leftHalf(s *cluster.Facts) bool {
	return s.Recorded.ReleasedBy != "" && s.Recorded.Restoring != "" &&
		connection.Same(s.Recorded.Backend, connection.URL(&s.Target.Spec.Database))
}

// forgetConsents takes out of the claim what somebody has agreed to, but no upgrade and no restore that has begun: it
// was said of other data, or before Kubernetes was restored.
func forgetConsents(c *resources.ClaimData) {
	c.BackupConfirmed, c.SkippedChecks, c.MoveTo, c.Moving, c.RestoreConfirmed = "", "", "", "", ""
	if rollback.UnderWay(*c) && c.Restoring == "" {
		c.RolledBack = ""
	}
}

// forgetDatabase takes out of the claim what was about another database: that has numbers of its own, and no backup of
// it takes an upgrade of this one back.
func forgetDatabase(c *resources.ClaimData) {
	c.Epoch = epoch.Forget(c.Epoch)
	forgetConsents(c)
	if c.Restoring == "" {
		c.UpgradeBackup = ""
	}
}

// Adopt claims the database that the hold named, and no other that came in its place: LINSTOR would migrate that one,
// or work on it, unseen. Where it is another one now, the next look asks anew. It waits while that is not known.
func Adopt(ctx context.Context, in *step.Input) (bool, error) {
	s := in.Snapshot
	if err := s.ClaimErr; err != nil {
		return false, fmt.Errorf("read the claim: %w", err)
	}
	claim, claimed := s.Claim()
	named, db := strings.Join(in.Answer.Hold.Identities, ""), s.Database
	switch unstarted := strings.HasPrefix(named, nodesIdentity); {
	case named == "", unstarted && claimed: // an older operator asked, or the claim is back, which may be by this answer
		return true, nil
	case claimed && claim.Adopted && claim.LocalID == named:
		return true, nil
	// the claimed database was restored: to claim the one that is gone would make it foreign
	case claimed && s.Linstor.Known():
		return true, nil
	case unstarted && (!db.Checked || db.Err != nil):
		return false, nil //nolint:nilerr // the database cannot be read now; the answer waits
	case unstarted && identity(&db) != named:
		return true, nil
	case unstarted:
		claim.LocalID = "" // it is recorded once LINSTOR has started
	default:
		claim.LocalID = named
	}
	forgetDatabase(&claim)
	claim.Backend, claim.Adopted = connection.URL(&s.Target.Spec.Database), true
	claim.Version = cmp.Or(claim.Version, s.Target.Release.Version)
	// Stored is what the cache shows: letting the hold go before would begin it anew, on the claim as it was.
	return false, in.ApplyClaim(ctx, claim)
}
