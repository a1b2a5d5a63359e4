package phases

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/work"
)

// upgradeHandler moves the cluster to another LINSTOR version, step by step. Each step has a gate; what is behind the gate is
// done only once the gate is passed.
type upgradeHandler struct{}

func (upgradeHandler) Emits() []fsm.Event {
	return []fsm.Event{fsm.Advanced, fsm.Retreated, fsm.SpecChanged, fsm.HumanNeeded}
}

func (h upgradeHandler) Run(ctx context.Context, in *Input) Outcome {
	u := in.upgrade
	switch {
	case in.Target == nil:
		return Move(fsm.SpecChanged, "RevisionMissing", "the ControllerRevision "+in.Cluster.Status.Target+" with the accepted spec is missing")
	case u == nil:
		return Move(fsm.Advanced, "Upgraded", "LINSTOR "+in.Target.Release.Version+" runs everywhere")
	case in.SpecPending() && in.takesUpgradeBack():
		return Move(fsm.Retreated, "Retreated", fmt.Sprintf("spec.version is %s again, and nothing was changed", u.From))
	case in.SpecPending() && in.betweenBatches():
		return Move(fsm.SpecChanged, "SpecChanged", fmt.Sprintf("the spec changed (generation %d)", in.Cluster.Generation))
	}
	for _, l := range u.links() {
		if err := l.Work(ctx, in); err != nil {
			return Fail(err)
		}
	}
	if err := h.leave(ctx, in); err != nil {
		return Fail(err)
	}
	if hold := in.upgradeTrouble(); hold != nil {
		return NeedsHuman(*hold)
	}
	passed, reason, message := in.upgradeGate()
	if !passed {
		return Wait(reason, h.describe(u, message), in.poll())
	}
	if hold := in.backupNeeded(); hold != nil && !u.pastEdge() {
		return NeedsHuman(*hold)
	}
	if err := h.next(ctx, in); err != nil {
		return Fail(err)
	}
	return Wait(string(u.Step), h.describe(u, message), in.poll())
}

// leave ends what nodes have begun that leave, because the checks before the edge wait for it, and begins nothing. Beyond the edge
// LINSTOR knows too little of nodes whose satellites have not followed: what it never had, or has no more, goes all the same.
func (upgradeHandler) leave(ctx context.Context, in *Input) error {
	switch {
	case !in.upgrade.pastEdge():
		return in.leave(ctx, leaveNote, leaveAdmit, leaveEvacuate, leaveLose)
	case in.Linstor.Known():
		return in.forgetLeft(ctx)
	default:
		return nil
	}
}

// next writes down that the step is through. The claim shows it in the next reconcile.
func (upgradeHandler) next(ctx context.Context, in *Input) error {
	switch in.upgrade.Step {
	case v1alpha1.UpgradePrechecks:
		return in.crossEdge(ctx)
	case v1alpha1.UpgradeController:
		return in.recordBackup(ctx)
	case v1alpha1.UpgradeVerify:
		return in.finishUpgrade(ctx)
	default:
		return nil // the satellites themselves show it
	}
}

// describe says what goes on, and what does not work meanwhile.
func (upgradeHandler) describe(u *Upgrade, message string) string {
	text := fmt.Sprintf("%s → %s, %s: %s", u.From, u.To, u.Step, message)
	if no := u.Unavailable(); no != "" {
		text += ". Meanwhile " + no
	}
	return text
}

// links are those that are kept up in a step. Satellites are restarted in their own step only: in the one before, the new
// controller has not shown yet that it works.
func (u *Upgrade) links() []Link {
	if u.Step == v1alpha1.UpgradeController {
		return []Link{moduleLink{}, databaseLink{}, controllerLink{}}
	}
	return []Link{moduleLink{}, databaseLink{}, controllerLink{}, satelliteLink{}, registrationLink{}}
}

// betweenBatches is whether nothing is in motion that a changed spec would disturb: a migration, or satellites that restart.
func (s *Snapshot) betweenBatches() bool {
	if s.upgrade.Step == v1alpha1.UpgradeController {
		return s.takenTooFar(s.upgrade.claim) // nothing migrates then, and only another spec goes on from there
	}
	r := s.Roll()
	return len(r.Restarting) == 0
}

// upgradeTrouble is the hold for what does not pass by waiting; nil if there is none.
func (s *Snapshot) upgradeTrouble() *HoldRequest {
	for _, l := range []Link{databaseLink{}, controllerLink{}} {
		if e := l.Evidence(s); e.State == Failed {
			return e.Hold
		}
	}
	if s.upgrade.Step == v1alpha1.UpgradeSatellites {
		return s.rollStuck()
	}
	return nil
}

// upgradeGate is whether the step is through; else the reason and what it waits for.
func (in *Input) upgradeGate() (passed bool, reason, message string) {
	u := in.upgrade
	if u == nil {
		return true, "Upgraded", "nothing is left to do"
	}
	switch u.Step {
	case v1alpha1.UpgradePrechecks:
		why := in.upgradeBlockers()
		if len(why) == 0 || u.Skipped && in.Linstor.Known() {
			return true, string(u.Step), "the cluster is fit for the upgrade"
		}
		return false, string(v1alpha1.HoldUpgradeBlocked), "waiting: " + strings.Join(why, "; ")
	case v1alpha1.UpgradeController:
		if e := (controllerLink{}).Evidence(in.Snapshot); e.State != Satisfied {
			return false, e.Reason, e.Message
		}
		return in.backupGate()
	case v1alpha1.UpgradeSatellites:
		r := in.Roll()
		return false, v1alpha1.ReasonRollingSatellites, r.Message() // through when none is behind, which makes it the next step
	default:
		return in.verifyGate()
	}
}

// upgradeGoesOn is whether an upgrade that was held could go on now.
func (in *Input) upgradeGoesOn() bool {
	if u := in.upgrade; u != nil && u.Step == v1alpha1.UpgradeSatellites {
		r := in.Roll()
		return len(r.Next) > 0
	}
	passed, _, _ := in.upgradeGate()
	return passed
}

// backupTask reads the backup that the migration made.
const backupTask = "upgrade/backup"

// backupGate is whether the backup of the database was read back whole. A database that is not in Kubernetes was backed up by
// a human before; and where the two versions are of one line there may have been nothing to migrate, and then the image makes
// none.
func (in *Input) backupGate() (passed bool, reason, message string) {
	u := in.upgrade
	if in.Target.Spec.Database.Kind() != v1alpha1.DatabaseKubernetes || u.Skipped {
		return true, string(u.Step), "LINSTOR " + u.To + " answers"
	}
	since, err := time.Parse(time.RFC3339, u.claim.UpgradeSince)
	if err != nil {
		return false, "ClaimUnreadable", oneLine(fmt.Sprintf("the claim does not say when the upgrade began: %v", err))
	}
	input := u.pair() + u.claim.UpgradeSince
	if st := in.Tasks.State(backupTask); !st.DoneAt.IsZero() && st.Err == nil && st.Input == input {
		return true, string(u.Step), "LINSTOR " + u.To + " answers, and the backup of its database was read back"
	}
	optional := sameLine(u.From, u.To)
	in.Tasks.Ensure(work.Task{Key: backupTask, Input: input, Do: func(ctx context.Context) error {
		name, err := in.Backups.Read(ctx, u.To, since)
		if err == nil && name == "" && !optional {
			return fmt.Errorf("no Secret of type piraeus.io/linstor-backup was made by LINSTOR %s since %s", u.To, since.Format(time.RFC3339))
		}
		return err
	}})
	message = "reading the backup of the database"
	if st := in.Tasks.State(backupTask); st.Err != nil {
		message = oneLine("the backup of the database cannot be read: " + st.Err.Error())
	}
	return false, "ReadingBackup", message
}

// sameLine is whether two versions differ in their last number only.
func sameLine(a, b string) bool {
	cut := func(v string) string { return v[:strings.LastIndex(v, ".")+1] }
	return cut(a) == cut(b)
}

func (in *Input) recordBackup(ctx context.Context) error {
	claim := in.upgrade.claim
	switch {
	case in.Target.Spec.Database.Kind() != v1alpha1.DatabaseKubernetes:
		claim.BackupRead = "confirmed"
	case in.upgrade.Skipped:
		claim.BackupRead = "skipped"
	default:
		claim.BackupRead = "read"
	}
	return in.applyClaim(ctx, claim)
}

// verifyGate is whether all members run the new version and are ONLINE, or are held or under maintenance.
func (in *Input) verifyGate() (passed bool, reason, message string) {
	if !in.Linstor.Known() {
		return false, "ControllerUnreachable", "LINSTOR does not answer"
	}
	var missing []*Member
	for _, m := range in.Members {
		switch online := m.Linstor != nil && m.Linstor.Status == linstor.StatusOnline; {
		case m.State == v1alpha1.NodeHeld, inMaintenance(m.Node), m.Joining:
		case !online || !runs(m, in.Target.Release.Satellite) || !in.back(m):
			missing = append(missing, m)
		}
	}
	if len(missing) > 0 && !in.upgrade.Skipped {
		return false, "NodesMissing", fmt.Sprintf("%s: not ONLINE with LINSTOR %s yet", memberNames(missing), in.upgrade.To)
	}
	return true, "Upgraded", fmt.Sprintf("%d of %d satellites run LINSTOR %s", in.upgrade.Done, in.upgrade.Total, in.upgrade.To)
}
