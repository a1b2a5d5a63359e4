// Package upgrade takes LINSTOR from one version to another: prechecks, controller with its backup, satellites,
// verification.
package upgrade

import (
	"context"
	"fmt"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/rollback"
	"github.com/linstor-dev/storagecluster-operator/pkg/decisiontable"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/controller"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/database"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/databasebackup"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/leaving"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/module"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/registration"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/satellites"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/remembered"
)

// Judge finds the step: before the claim names the new version nothing has happened; from then on no old controller
// may touch the database; once the backup has been read the satellites follow.
func Judge(s *cluster.Snapshot) *cluster.Upgrade {
	claim, claimed := s.Claim()
	to := s.Target.Release
	if !claimed || claim.Version == "" || claim.UpgradeTo == "" &&
		(claim.Version == to.Version || cluster.NeverStarted(claim)) {
		return nil
	}
	before, ok := s.Catalogue.Release(claim.Version)
	if !ok {
		return nil // the observer refuses to work on such a claim
	}
	u := &cluster.Upgrade{From: claim.Version, To: to.Version, Before: before, Claim: claim, Total: len(s.Members),
		Done: s.Count(func(m *cluster.Member) bool { return m.Runs(to.Satellite) })}
	u.Skipped = waivers(u, v1alpha1.UpgradeSatellites) // the step is not known yet
	progress.Decide(&progressOf{u: u, behind: !waives(u, nodes(behind(s))...)})
	u.Skipped = waivers(u, u.Step)
	u.RollsBack = s.Restore != nil && s.Restore.BackTo != ""
	return u
}

// behind are the members whose satellite runs the old version and could be restarted.
func behind(s *cluster.Snapshot) []*cluster.Member {
	return s.Where(func(m *cluster.Member) bool {
		return m.SatellitePod != nil && !m.Runs(s.Target.Release.Satellite) && !m.Maintenance && m.NodeReady
	})
}

// TakesUpgradeBack reports whether the spec asks for the version again that the database has.
func TakesUpgradeBack(s *cluster.Snapshot) bool {
	u := s.Upgrade
	return u != nil && !u.PastEdge() && s.WantedVersion() == u.From
}

func pair(u *cluster.Upgrade) string { return rollback.Upgrade(u.From, u.To) }

// Unavailable says what the cluster cannot do in a step of an upgrade; "" if it can do everything.
func Unavailable(u *cluster.Upgrade) string {
	if u == nil || !u.PastEdge() {
		return ""
	}
	return "volumes keep working, but they cannot be created, changed or moved on a node until its satellite is " +
		"running LINSTOR " + u.To
}

// crossEdge makes the upgrade irreversible but by a restore, before the new controller is started. Which backup that
// takes is known now alone: the status forgets it.
func crossEdge(ctx context.Context, in *step.Input) error {
	s := in.Snapshot
	claim := s.Upgrade.Claim
	claim.UpgradeTo, claim.UpgradeSince, claim.BackupRead = s.Upgrade.To, remembered.Stamp(s.Now), ""
	claim.UpgradeBackup, claim.UpgradeSchema, claim.RolledBack = "", "", ""
	if inKubernetes(s) {
		var err error
		if claim.UpgradeSchema, err = in.Backups.SchemaVersion(ctx); err != nil {
			return err
		}
	}
	if taken, _ := databasebackup.ForUpgrade(s); taken {
		claim.UpgradeBackup = s.Cluster.Status.Backup.Upgrade
	}
	return in.ApplyClaim(ctx, claim)
}

func finish(ctx context.Context, in *step.Input) error {
	s := in.Snapshot
	claim := s.Upgrade.Claim
	claim.Version, claim.RolledBack = s.Upgrade.To, ""
	rollback.End(&claim)
	return in.ApplyClaim(ctx, claim)
}

// Run moves the cluster to another LINSTOR version, step by step: it leaves the phase, or keeps up what belongs to the
// step and goes through its gate. What is behind a gate waits until it is passed.
func Run(ctx context.Context, in *step.Input) step.Outcome {
	c := situationOf(in)
	if ends.Decide(c) != "" {
		return c.outcome
	}
	s, u := c.s, c.u
	for _, l := range links(u) {
		if err := l.Work(ctx, in); err != nil {
			return step.Fail(err)
		}
	}
	if err := leave(ctx, in); err != nil {
		return step.Fail(err)
	}
	if trouble.Decide(c) != "" {
		return c.outcome
	}
	readBackup(in)
	gate.Decide(c)
	if c.hold != nil {
		return step.NeedsHuman(*c.hold)
	}
	if c.next != nil {
		if err := c.next(ctx, in); err != nil {
			return step.Fail(err)
		}
	}
	message := fmt.Sprintf("%s → %s, %s: %s", u.From, u.To, u.Step, c.message)
	if no := Unavailable(u); no != "" {
		message += ". Meanwhile, " + no
	}
	return step.Wait(c.reason, message, s.Timing.PollWorking)
}

// leave ends what nodes have begun that leave, because the checks before the edge wait for it, and begins nothing.
// Beyond the edge LINSTOR knows too little of nodes whose satellites have not followed; what it lacks still goes.
func leave(ctx context.Context, in *step.Input) error {
	s := in.Snapshot
	switch {
	case !s.Upgrade.PastEdge():
		return leaving.Finish(ctx, in)
	case s.Linstor.Known():
		return leaving.ForgetLeft(ctx, in)
	default:
		return nil
	}
}

// links are those that are kept up in a step. Nothing is done with satellites while the controller changes: it has not
// shown yet that it works.
func links(u *cluster.Upgrade) []step.Link {
	if u.Step == v1alpha1.UpgradeController {
		return []step.Link{module.Link(), database.Link(), controller.Link()}
	}
	return []step.Link{module.Link(), database.Link(), controller.Link(), satellites.Link(), registration.Link()}
}

// betweenBatches reports whether a changed spec would disturb nothing: no migration, no satellite that restarts.
func betweenBatches(s *cluster.Snapshot) bool {
	if s.Upgrade.Step == v1alpha1.UpgradeController {
		return controller.TakenTooFar(s, s.Upgrade.Claim) // nothing migrates then, and only another spec goes on from there
	}
	return len(s.Roll.Restarting) == 0
}

// GoesOn reports whether an upgrade that was held could go on now.
func GoesOn(in *step.Input) bool {
	s := in.Snapshot
	if u := s.Upgrade; u != nil && u.Step == v1alpha1.UpgradeSatellites {
		return len(s.Roll.Next) > 0
	}
	readBackup(in)
	c := situationOf(in)
	gate.Decide(c)
	return c.passed
}

// notVerified are the members that do not run the new version, or are not ONLINE, without those that are excused or
// that somebody goes on without.
func notVerified(s *cluster.Snapshot) []*cluster.Member {
	return s.Where(func(m *cluster.Member) bool {
		excused := m.State == v1alpha1.NodeHeld || m.Maintenance || m.Joining
		return !excused && !waives(s.Upgrade, onNode+m.Name) &&
			(!m.Online || !m.Runs(s.Target.Release.Satellite) || !s.Back(m))
	})
}

// Markdown is the page about an upgrade, made from the tables.
func Markdown() string {
	return decisiontable.Page("An upgrade of LINSTOR", "pkg/phases/upgrade", "Each reconcile decides from scratch, "+
		"based on the observed state and the records in the claim. In each table, the first row that applies decides.",
		progress.Markdown(), ends.Markdown(), trouble.Markdown(), gate.Markdown())
}
