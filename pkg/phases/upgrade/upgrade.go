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
	behind := s.Count(func(m *cluster.Member) bool {
		return m.SatellitePod != nil && !m.Runs(to.Satellite) && !m.Maintenance && m.NodeReady
	})
	progress.Decide(&progressOf{u: u, behind: behind})
	u.RollsBack = s.Restore != nil && s.Restore.BackTo != ""
	// Who lets satellites stay behind has answered: nobody is asked about them again.
	u.Skipped = claim.SkippedChecks == skipToken(u) || u.Step == v1alpha1.UpgradeVerify && behind > 0
	return u
}

// TakesUpgradeBack reports whether the spec asks for the version again that the database has.
func TakesUpgradeBack(s *cluster.Snapshot) bool {
	u := s.Upgrade
	return u != nil && !u.PastEdge() && s.WantedVersion() == u.From
}

func pair(u *cluster.Upgrade) string { return rollback.Upgrade(u.From, u.To) }

func skipToken(u *cluster.Upgrade) string { return pair(u) + ":" + string(u.Step) }

// Unavailable says what the cluster cannot do in a step of an upgrade; "" if it can do everything.
func Unavailable(u *cluster.Upgrade) string {
	if u == nil || !u.PastEdge() {
		return ""
	}
	return "volumes keep working, but until all satellites run LINSTOR " + u.To +
		" none can be created, changed or moved on the nodes that are left"
}

// Hold is the reason of the hold when the deadline of the upgrade's step passes.
func Hold(s *cluster.Snapshot) v1alpha1.HoldReason {
	if u := s.Upgrade; u != nil && !u.PastEdge() {
		return v1alpha1.HoldUpgradeBlocked
	}
	return v1alpha1.HoldUpgradeStuck
}

// Keep keeps an answer about the upgrade in the claim. It is for this upgrade, or its step.
func Keep(ctx context.Context, in *step.Input) (bool, error) {
	u := in.Snapshot.Upgrade
	if u == nil {
		return true, nil // there is nothing to waive any more
	}
	claim := u.Claim
	if in.Answer.Option == v1alpha1.OptionBackupConfirmed {
		claim.BackupConfirmed = pair(u)
	} else {
		claim.SkippedChecks = skipToken(u)
	}
	if claim == u.Claim {
		return true, nil
	}
	return false, in.ApplyClaim(ctx, claim)
}

// crossEdge makes the upgrade irreversible but by a restore, before the new controller is started. Which backup that
// takes is known now alone: the status forgets it.
func crossEdge(ctx context.Context, in *step.Input) error {
	s := in.Snapshot
	claim := s.Upgrade.Claim
	claim.UpgradeTo, claim.UpgradeSince, claim.BackupRead = s.Upgrade.To, remembered.Stamp(s.Now), ""
	claim.UpgradeBackup, claim.RolledBack = "", ""
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
		message += ". Meanwhile " + no
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

// notVerified are the members that do not run the new version, or are not ONLINE, without those that are excused.
func notVerified(s *cluster.Snapshot) []*cluster.Member {
	return s.Where(func(m *cluster.Member) bool {
		excused := m.State == v1alpha1.NodeHeld || m.Maintenance || m.Joining
		return !excused && (!m.Online || !m.Runs(s.Target.Release.Satellite) || !s.Back(m))
	})
}

// Markdown is the page about an upgrade, made from the tables.
func Markdown() string {
	return decisiontable.Page("An upgrade of LINSTOR", "pkg/phases/upgrade", "Each reconcile decides anew, from what is "+
		"observed and from what the claim remembers. In each table the first row that holds decides.",
		progress.Markdown(), ends.Markdown(), trouble.Markdown(), gate.Markdown())
}
