package phases

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/catalogue"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
)

// Upgrade is a change of LINSTOR's version. All of it follows from the accepted spec and the claim, so that a lost status or a
// killed operator takes up the step where it was.
type Upgrade struct {
	From, To string
	Step     v1alpha1.UpgradeStep
	// Done and Total count the members whose satellite runs the new version, and all.
	Done, Total int
	// Skipped is whether a human has waived the checks of the step.
	Skipped bool

	before catalogue.Release
	claim  resources.ClaimData
}

// Upgrade is the change of version that is pending or going on; nil if none is.
func (s *Snapshot) Upgrade() *Upgrade { return s.upgrade }

// judgeUpgrade finds the step: before the claim names the new version nothing has happened; from then on no old controller may
// touch the database; once the backup has been read the satellites follow.
func (s *Snapshot) judgeUpgrade() *Upgrade {
	claim, claimed, _ := s.Claim()
	to := s.Target.Release
	if !claimed || claim.Version == "" || claim.UpgradeTo == "" && (claim.Version == to.Version || neverStarted(claim)) {
		return nil
	}
	before, ok := s.Catalogue.Release(claim.Version)
	if !ok {
		return nil // the observer refuses to work on such a claim
	}
	u := &Upgrade{From: claim.Version, To: to.Version, Step: v1alpha1.UpgradePrechecks, Total: len(s.Members), before: before, claim: claim}
	current := s.count(func(m *Member) bool { return runs(m, to.Satellite) })
	behind := s.count(func(m *Member) bool {
		return m.SatellitePod != nil && !runs(m, to.Satellite) && !inMaintenance(m.Node) && nodeReady(m.Node)
	})
	switch {
	case claim.UpgradeTo == "":
	case claim.BackupRead == "":
		u.Step = v1alpha1.UpgradeController
	case behind > 0 && claim.SkippedChecks != u.pair()+":"+string(v1alpha1.UpgradeSatellites):
		u.Step = v1alpha1.UpgradeSatellites
	default:
		u.Step = v1alpha1.UpgradeVerify
	}
	u.Done = current
	// Who lets satellites stay behind does not want to be asked about them again.
	u.Skipped = claim.SkippedChecks == u.skipToken() || u.Step == v1alpha1.UpgradeVerify && behind > 0
	return u
}

// neverStarted is whether LINSTOR has not run on the database yet: then there is nothing to upgrade.
func neverStarted(claim resources.ClaimData) bool { return claim.LocalID == "" && !claim.Adopted }

// takesUpgradeBack is whether the spec asks for the version again that the database has.
func (s *Snapshot) takesUpgradeBack() bool {
	u := s.upgrade
	return u != nil && !u.pastEdge() && s.WantedVersion() == u.From
}

// pair names the upgrade in the claim.
func (u *Upgrade) pair() string { return u.From + ">" + u.To }

func (u *Upgrade) skipToken() string { return u.pair() + ":" + string(u.Step) }

// pastEdge is whether there is no way back any more.
func (u *Upgrade) pastEdge() bool { return u.Step != v1alpha1.UpgradePrechecks }

// controllerRelease is the release that the controller shall run now.
func (s *Snapshot) controllerRelease() catalogue.Release {
	if u := s.upgrade; u != nil && !u.pastEdge() {
		return u.before
	}
	return s.Target.Release
}

// satelliteRelease is the release that satellites shall run now.
func (s *Snapshot) satelliteRelease() catalogue.Release {
	if u := s.upgrade; u != nil && (u.Step == v1alpha1.UpgradePrechecks || u.Step == v1alpha1.UpgradeController) {
		return u.before
	}
	return s.Target.Release
}

// runs is whether a member's satellite is of an image.
func runs(m *Member, image string) bool {
	have := satelliteImage(m.SatellitePod)
	return have == image || strings.HasSuffix(have, "/"+image)
}

// upgradeExplains is whether a member is not ONLINE only because its satellite has not followed the controller yet.
func (s *Snapshot) upgradeExplains(m *Member) bool {
	u := s.upgrade
	return u != nil && u.pastEdge() && podReady(m.SatellitePod) && (m.restarting || !runs(m, s.Target.Release.Satellite))
}

// Unavailable says what the cluster cannot do in a step of an upgrade; "" if it can do everything.
func (u *Upgrade) Unavailable() string {
	if u == nil || !u.pastEdge() {
		return ""
	}
	return "volumes keep working, but until all satellites run LINSTOR " + u.To + " none can be created, changed or moved on the nodes that are left"
}

// upgradeBlockers say why an upgrade must not begin now; none if it may.
func (s *Snapshot) upgradeBlockers() []string {
	var out []string
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if e := (controllerLink{}).Evidence(s); e.State != Satisfied {
		add("the controller is not as wanted: %s", e.Message)
		return out // nothing else can be known
	}
	var offline []*Member
	for _, m := range s.Members {
		if (m.Linstor == nil || !m.Linstor.Online()) && m.State != v1alpha1.NodeHeld && !inMaintenance(m.Node) {
			offline = append(offline, m)
		}
	}
	if len(offline) > 0 {
		add("%s: not ONLINE in LINSTOR", memberNames(offline))
	}
	if s.frozen() {
		add("many nodes failed at once")
	}
	if r := s.Roll(); len(r.Outdated)+len(r.Restarting) > 0 {
		add("satellites are being restarted (%s)", r.Message())
	}
	return append(out, s.unsettled()...)
}

// unsettled says what LINSTOR has still to finish with nodes and copies.
func (s *Snapshot) unsettled() []string {
	var out []string
	v := s.Linstor.View
	for _, m := range s.Members {
		if n := m.Linstor; n != nil && (n.HasFlag(linstor.FlagEvacuate) || n.HasFlag(linstor.FlagDelete)) {
			out = append(out, fmt.Sprintf("node %s is being evacuated or removed", m.Name))
		}
	}
	if !v.ResourcesKnown {
		return append(out, "it is not known yet which copies of volumes are UpToDate")
	}
	for i := range v.Resources {
		c := &v.Resources[i]
		if m := s.MemberByName(c.Node); m != nil && (inMaintenance(m.Node) || m.State == v1alpha1.NodeHeld) {
			continue
		}
		if c.Diskful && !settled(c) {
			out = append(out, fmt.Sprintf("the copy of volume %s on %s is %s", c.Name, c.Node, quoteList(c.States)))
		}
	}
	if more := len(out) - 3; more > 0 {
		out = append(out[:3], fmt.Sprintf("and %d more", more))
	}
	return out
}

// settled is whether a copy is not in the middle of something. "Created" is a volume without DRBD (linstor-server, storage
// layer's state).
func settled(c *linstor.Resource) bool {
	busy := slices.ContainsFunc(c.States, func(st string) bool { return st != "UpToDate" && st != "Created" })
	return !busy && !c.HasFlag(linstor.FlagDelete) && !c.HasFlag(linstor.FlagEvacuate)
}

// backupNeeded is the hold for a database that LINSTOR's image makes no backup of; nil if there is none, or if a human has
// seen to one.
func (s *Snapshot) backupNeeded() *HoldRequest {
	u := s.upgrade
	kind := s.Target.Spec.Database.Kind()
	if kind == v1alpha1.DatabaseKubernetes || u.claim.BackupConfirmed == u.pair() {
		return nil
	}
	return &HoldRequest{Reason: v1alpha1.HoldBackupTooOld, Message: fmt.Sprintf(
		"LINSTOR %s migrates the database (%s) with no way back, and makes no backup of it. Make one now, and answer backup-confirmed; or set spec.version back to %s",
		u.To, kind, u.From)}
}

// upgradeHold is the reason of the hold when the deadline of the upgrade's step passes.
func (s *Snapshot) upgradeHold() v1alpha1.HoldReason {
	if u := s.upgrade; u != nil && !u.pastEdge() {
		return v1alpha1.HoldUpgradeBlocked
	}
	return v1alpha1.HoldUpgradeStuck
}

// keepForUpgrade keeps an answer about the upgrade in the claim. It holds for this upgrade, and for this step where it waives
// checks.
func (in *Input) keepForUpgrade(ctx context.Context) (bool, error) {
	u := in.upgrade
	if u == nil {
		return true, nil // there is nothing to waive any more
	}
	claim := u.claim
	switch in.Answer.Option {
	case v1alpha1.OptionBackupConfirmed:
		claim.BackupConfirmed = u.pair()
	default:
		claim.SkippedChecks = u.skipToken()
	}
	if claim == u.claim {
		return true, nil
	}
	return false, in.applyClaim(ctx, claim)
}

// crossEdge makes the upgrade irreversible, before the new controller is started.
func (in *Input) crossEdge(ctx context.Context) error {
	claim := in.upgrade.claim
	claim.UpgradeTo, claim.UpgradeSince, claim.BackupRead = in.upgrade.To, in.Now.UTC().Format(time.RFC3339), ""
	return in.applyClaim(ctx, claim)
}

// finishUpgrade makes the new version the database's.
func (in *Input) finishUpgrade(ctx context.Context) error {
	claim := in.upgrade.claim
	claim.Version, claim.UpgradeTo, claim.UpgradeSince, claim.BackupRead, claim.BackupConfirmed, claim.SkippedChecks = in.upgrade.To, "", "", "", "", ""
	return in.applyClaim(ctx, claim)
}
