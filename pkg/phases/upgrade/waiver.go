package upgrade

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/databasebackup"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/hold"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/remembered"
)

// What can speak against going on with a step, as a hold lists it (status.hold.identities) and the claim keeps it. An
// answer skip-checks is for what its hold lists. What comes later is another question: who goes on without one node
// has not agreed to go on while half of the nodes are down.
const (
	noController  = "controller"
	withdrawn     = "version-withdrawn"
	massFailure   = "mass-failure"
	outdated      = "satellites-outdated"
	copiesUnknown = "copies-unknown"
	copiesNotWell = "copies-not-up-to-date"
	noBackup      = "backup"
	backupUnread  = "backup-unread"
	leavingNode   = "leaving/" // and its name
	onNode        = "node/"    // and its name: it is not ONLINE, restarts, or does not run the new version
)

// confirmedFor is how long it counts that somebody has made a backup.
const confirmedFor = 24 * time.Hour

// mostSaid is how many objections a message names.
const mostSaid = 5

// objection is one thing that speaks against the upgrade now: what it is about, and a sentence.
type objection struct {
	about []string
	says  string
}

func sentences(list []objection) string {
	out := make([]string, 0, mostSaid+1)
	for i, o := range list {
		if i == mostSaid {
			out = append(out, fmt.Sprintf("and %d more", len(list)-mostSaid))
			break
		}
		out = append(out, o.says)
	}
	return strings.Join(out, "; ")
}

// unwaived are the objections that nobody has waived. While LINSTOR does not answer no waiver counts, since nothing
// else is known then.
func unwaived(s *cluster.Snapshot, list []objection) []objection {
	return slices.DeleteFunc(slices.Clone(list), func(o objection) bool {
		return s.Linstor.Known() && waives(s.Upgrade, o.about...)
	})
}

// waives reports whether somebody has agreed to go on in spite of all of these.
func waives(u *cluster.Upgrade, about ...string) bool {
	return !slices.ContainsFunc(about, func(id string) bool { return !slices.Contains(u.Skipped, id) })
}

func nodes(members []*cluster.Member) []string {
	out := make([]string, 0, len(members))
	for _, m := range members {
		out = append(out, onNode+m.Name)
	}
	return out
}

// waivers are what was waived for a step of the upgrade, as the claim keeps it: "from>to:step:what,what". For the last
// two steps they are the same: who goes on without nodes does so when the result is verified, too, and what was
// answered then counts if the step goes back because a satellite comes back with the old version.
func waivers(u *cluster.Upgrade, at v1alpha1.UpgradeStep) []string {
	was, ok := strings.CutPrefix(u.Claim.SkippedChecks, pair(u)+":")
	of, list, listed := strings.Cut(was, ":")
	last := []v1alpha1.UpgradeStep{v1alpha1.UpgradeSatellites, v1alpha1.UpgradeVerify}
	both := slices.Contains(last, v1alpha1.UpgradeStep(of)) && slices.Contains(last, at)
	if !ok || !listed || v1alpha1.UpgradeStep(of) != at && !both {
		return nil
	}
	return strings.Split(list, ",")
}

// against is what holds the step back now, can be waived and was not. While LINSTOR does not answer nothing can: what
// else speaks against the step is not known.
func (c *situation) against() []string {
	var all []string
	if !c.s.Linstor.Known() {
		return nil
	}
	switch c.u.Step {
	case v1alpha1.UpgradePrechecks:
		for _, o := range c.blockers() {
			all = append(all, o.about...)
		}
		if len(all) == 0 && c.awaited() != "" {
			all = append(all, noBackup)
		}
	case v1alpha1.UpgradeController:
		if c.s.Evidence[fsm.Controller].State == cluster.Satisfied && backupAwaited(c.s) {
			all = append(all, backupUnread)
		}
	case v1alpha1.UpgradeSatellites:
		all = nodes(behind(c.s))
	default:
		all = nodes(c.unverified())
	}
	slices.Sort(all)
	return slices.DeleteFunc(slices.Compact(all), func(id string) bool { return slices.Contains(c.u.Skipped, id) })
}

// Late makes the hold of an upgrade whose step took too long: it lists what an answer skip-checks is for.
func Late(s *cluster.Snapshot, h *cluster.HoldRequest) {
	h.Reason = v1alpha1.HoldUpgradeStuck
	if s.Upgrade == nil {
		return
	}
	if !s.Upgrade.PastEdge() {
		h.Reason = v1alpha1.HoldUpgradeBlocked
	}
	against := situationOf(&step.Input{Snapshot: s}).against()
	h.Identities = against[:min(len(against), hold.MostHeldNodes)]
	switch more := len(against) - len(h.Identities); {
	case len(against) == 0:
		h.Options = []string{v1alpha1.OptionRetry}
	case more > 0:
		h.Message += fmt.Sprintf("; %s waives %d of %d problems, and the others must be waived afterwards",
			v1alpha1.OptionSkipChecks, len(h.Identities), len(against))
	}
}

// Keep keeps an answer about the upgrade in the claim. It is for this upgrade; skip-checks is for its step and for
// what the hold lists, beside what was waived in it before, and backup-confirmed for a day.
func Keep(ctx context.Context, in *step.Input) (bool, error) {
	u := in.Snapshot.Upgrade
	if u == nil {
		return true, nil // there is nothing to waive any more
	}
	claim := u.Claim
	if in.Answer.Option == v1alpha1.OptionBackupConfirmed {
		if !confirmed(in.Snapshot) {
			claim.BackupConfirmed = pair(u) + "@" + remembered.Stamp(in.Snapshot.Now)
		}
	} else if all := slices.Concat(u.Skipped, in.Answer.Hold.Identities); len(all) > 0 {
		slices.Sort(all)
		claim.SkippedChecks = pair(u) + ":" + string(u.Step) + ":" + strings.Join(slices.Compact(all), ",")
	}
	if claim == u.Claim {
		return true, nil
	}
	return false, in.ApplyClaim(ctx, claim)
}

// confirmed reports whether somebody has made a backup for this upgrade, not too long ago: while the upgrade waits for
// something else, volumes are made that an old backup does not have.
func confirmed(s *cluster.Snapshot) bool {
	said, ok := strings.CutPrefix(s.Upgrade.Claim.BackupConfirmed, pair(s.Upgrade)+"@")
	at, err := time.Parse(time.RFC3339, said)
	return ok && err == nil && s.Now.Sub(at) < confirmedFor
}

// awaitedBackup is what the operator's own backup of the database waits for, or one that the user has asked for; "" if
// they are in the store or are not awaited.
func awaitedBackup(s *cluster.Snapshot) string {
	if waives(s.Upgrade, noBackup) || confirmed(s) {
		return ""
	}
	_, lacks := databasebackup.ForUpgrade(s)
	return cmp.Or(lacks, databasebackup.Asked(s))
}
