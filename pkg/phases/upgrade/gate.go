package upgrade

import (
	"context"
	"fmt"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/rollback"
	"github.com/linstor-dev/storagecluster-operator/pkg/decisiontable"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/satellites"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

// gate decides whether a step is through, and what comes next.
var gate = decisiontable.Table[*situation]{
	Title: "Whether a step is through",
	Intro: "While a step waits, the cluster stays in the state Upgrading. After the deadline of that state it goes to " +
		"HumanIntervention, with the hold [UpgradeBlocked](../runbooks/UpgradeBlocked.md) in the step `Prechecks`, " +
		"and [UpgradeStuck](../runbooks/UpgradeStuck.md) later.",
	Rows: []row{
		{Name: "nothing-left", When: "no upgrade is pending", Then: "the phase ends",
			Holds: func(c *situation) bool { return c.u == nil }, Decide: func(c *situation) { c.passed = true }},
		// Else what has failed would be begun again by itself, where the spec of before cannot be accepted.
		waiting("went-back", "`Prechecks`: LINSTOR was taken back from this version, and nobody has asked for it since",
			func(c *situation) bool { return c.at(v1alpha1.UpgradePrechecks) && rollback.Done(c.u.Claim, c.u.To) },
			func(c *situation) (string, string) {
				return string(v1alpha1.HoldUpgradeBlocked), rollback.Message(c.u.Claim, c.u.To)
			}),
		waiting("blocked", "`Prechecks`: something speaks against an upgrade now, and nobody has waived just that",
			func(c *situation) bool { return c.at(v1alpha1.UpgradePrechecks) && len(c.blockers()) > 0 },
			func(c *situation) (string, string) {
				return string(v1alpha1.HoldUpgradeBlocked), "waiting: " + sentences(c.blockers())
			}),
		waiting("taking-backup", "`Prechecks`: the backup that `spec.backup` asks for, or one that was requested, is not "+
			"in the store, and nobody has waived it or confirmed another one",
			func(c *situation) bool { return c.at(v1alpha1.UpgradePrechecks) && c.awaited() != "" },
			func(c *situation) (string, string) { return "TakingBackup", c.awaited() }),
		{Name: "no-backup", Then: "hold [BackupTooOld](../runbooks/BackupTooOld.md)",
			When: "`Prechecks`: LINSTOR's image makes no backup of the database, or `spec.backup` asks for one and LINSTOR " +
				"is older than 1.34; the operator has taken none, and nobody has confirmed one",
			Holds:  func(c *situation) bool { return c.at(v1alpha1.UpgradePrechecks) && c.backup() != nil },
			Decide: func(c *situation) { c.passed, c.hold = true, c.backup() }},
		passing("fit", "`Prechecks`: nothing speaks against it",
			"the claim names the new version: there is no way back but a restore",
			func(c *situation) bool { return c.at(v1alpha1.UpgradePrechecks) }, crossEdge,
			func(*situation) string { return "the cluster is fit for the upgrade" }),
		waiting("controller-changes", "`Controller`: the new controller does not answer yet",
			func(c *situation) bool {
				return c.at(v1alpha1.UpgradeController) && c.controller().State != cluster.Satisfied
			},
			func(c *situation) (string, string) { return c.controller().Reason, c.controller().Message }),
		passing("backup-not-awaited",
			"`Controller`: it answers, and there is no backup that must be read, or that was waived", "the claim says so",
			func(c *situation) bool { return c.at(v1alpha1.UpgradeController) && !backupAwaited(c.s) }, recordBackup,
			func(c *situation) string { return "LINSTOR " + c.u.To + " answers" }),
		waiting("claim-unreadable", "`Controller`: the claim does not say when the upgrade began",
			func(c *situation) bool { return c.at(v1alpha1.UpgradeController) && c.undated() != nil },
			func(c *situation) (string, string) {
				return "ClaimUnreadable", text.OneLine("the claim does not say when the upgrade began: " + c.undated().Error())
			}),
		passing("backup-read", "`Controller`: it answers, and the backup of its database was read back whole",
			"the claim says so",
			func(c *situation) bool { return c.at(v1alpha1.UpgradeController) && backupRead(c.in) }, recordBackup,
			func(c *situation) string {
				return "LINSTOR " + c.u.To + " answers, and the backup of its database was read back"
			}),
		waiting("reading-backup", "`Controller`: it answers, and the backup of its database is being read",
			func(c *situation) bool { return c.at(v1alpha1.UpgradeController) },
			func(c *situation) (string, string) {
				if st := c.in.Tasks.State(backupTask); st.Err != nil {
					return "ReadingBackup", text.OneLine("the backup of the database cannot be read: " + st.Err.Error())
				}
				return "ReadingBackup", "reading the backup of the database"
			}),
		// It is through when none is behind, which makes it the next step.
		waiting("rolling", "`Satellites`", func(c *situation) bool { return c.at(v1alpha1.UpgradeSatellites) },
			func(c *situation) (string, string) {
				return conditions.ReasonRollingSatellites, satellites.Message(&c.s.Roll)
			}),
		waiting("silent", "`Verify`: LINSTOR does not answer", func(c *situation) bool { return !c.s.Linstor.Known() },
			func(*situation) (string, string) { return "ControllerUnreachable", "LINSTOR does not answer" }),
		waiting("not-verified", "`Verify`: a node is not ONLINE with the new version, and nobody has waived that",
			func(c *situation) bool { return len(c.unverified()) > 0 },
			func(c *situation) (string, string) {
				names := satellites.MemberNames(c.unverified())
				return "NodesMissing", fmt.Sprintf("%s: not ONLINE with LINSTOR %s yet", names, c.u.To)
			}),
		passing("verified", "`Verify`: all nodes run the new version",
			"the new version is the database's: the upgrade is over", nil, finish,
			func(c *situation) string {
				return fmt.Sprintf("%d of %d satellites run LINSTOR %s", c.u.Done, c.u.Total, c.u.To)
			}),
	},
}

func waiting(name, when string, holds func(*situation) bool, why func(*situation) (reason, message string)) row {
	return row{Name: name, When: when, Then: "it waits", Holds: holds, Decide: func(c *situation) {
		c.reason, c.message = why(c)
	}}
}

// passing is for a step that is through; next writes that down.
func passing(name, when, then string, holds func(*situation) bool, next func(context.Context, *step.Input) error,
	message func(*situation) string) row {
	return row{Name: name, When: when, Then: then, Holds: holds, Decide: func(c *situation) {
		c.passed, c.reason, c.next, c.message = true, string(c.u.Step), next, message(c)
	}}
}
