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
	Title: "When a step is complete",
	Intro: "While a step waits, the cluster stays in the Upgrading state. After that state's deadline, it changes to " +
		"HumanIntervention with the [UpgradeBlocked](../runbooks/UpgradeBlocked.md) hold in the `Prechecks` step, or the " +
		"[UpgradeStuck](../runbooks/UpgradeStuck.md) hold in later steps.",
	Rows: []row{
		{Name: "nothing-left", When: "no upgrade is pending", Then: "the phase ends",
			Holds: func(c *situation) bool { return c.u == nil }, Decide: func(c *situation) { c.passed = true }},
		// Else what has failed would be begun again by itself, where the spec of before cannot be accepted.
		waiting("went-back",
			"`Prechecks`: LINSTOR was rolled back from this version, and spec.version has not been changed since then",
			func(c *situation) bool { return c.at(v1alpha1.UpgradePrechecks) && rollback.Done(c.u.Claim, c.u.To) },
			func(c *situation) (string, string) {
				return string(v1alpha1.HoldUpgradeBlocked), rollback.Message(c.u.Claim, c.u.To)
			}),
		waiting("blocked", "`Prechecks`: problems block the upgrade, and not all of them have been waived",
			func(c *situation) bool { return c.at(v1alpha1.UpgradePrechecks) && len(c.blockers()) > 0 },
			func(c *situation) (string, string) {
				return string(v1alpha1.HoldUpgradeBlocked), "waiting: " + sentences(c.blockers())
			}),
		waiting("taking-backup", "`Prechecks`: the backup that `spec.backup` requires, or one that was requested, is not "+
			"in the store and has not been waived, and no other backup has been confirmed",
			func(c *situation) bool { return c.at(v1alpha1.UpgradePrechecks) && c.awaited() != "" },
			func(c *situation) (string, string) { return "TakingBackup", c.awaited() }),
		{Name: "no-backup", Then: "hold [BackupTooOld](../runbooks/BackupTooOld.md)",
			When: "`Prechecks`: LINSTOR's image does not back up the database, or `spec.backup` requires a backup and " +
				"LINSTOR is older than 1.34; the operator has not taken a backup, and no backup has been confirmed",
			Holds:  func(c *situation) bool { return c.at(v1alpha1.UpgradePrechecks) && c.backup() != nil },
			Decide: func(c *situation) { c.passed, c.hold = true, c.backup() }},
		passing("fit", "`Prechecks`: nothing blocks the upgrade",
			"the claim records the new version; after that, only a restore can undo the upgrade",
			func(c *situation) bool { return c.at(v1alpha1.UpgradePrechecks) }, crossEdge,
			func(*situation) string { return "the cluster is ready for the upgrade" }),
		waiting("controller-changes", "`Controller`: the new controller is not responding yet",
			func(c *situation) bool {
				return c.at(v1alpha1.UpgradeController) && c.controller().State != cluster.Satisfied
			},
			func(c *situation) (string, string) { return c.controller().Reason, c.controller().Message }),
		passing("backup-not-awaited",
			"`Controller`: the new controller responds, and no backup needs to be read back, or this has been waived",
			"the claim records this",
			func(c *situation) bool { return c.at(v1alpha1.UpgradeController) && !backupAwaited(c.s) }, recordBackup,
			func(c *situation) string { return "LINSTOR " + c.u.To + " responds" }),
		waiting("claim-unreadable", "`Controller`: the claim does not record when the upgrade started",
			func(c *situation) bool { return c.at(v1alpha1.UpgradeController) && c.undated() != nil },
			func(c *situation) (string, string) {
				return "ClaimUnreadable",
					text.OneLine("the claim does not record when the upgrade started: " + c.undated().Error())
			}),
		passing("backup-read",
			"`Controller`: the new controller responds, and the backup of its database has been read back completely",
			"the claim records this",
			func(c *situation) bool { return c.at(v1alpha1.UpgradeController) && backupRead(c.in) }, recordBackup,
			func(c *situation) string {
				return "LINSTOR " + c.u.To + " responds, and the backup of its database has been read back"
			}),
		waiting("reading-backup",
			"`Controller`: the new controller responds, and the backup of its database is being read back",
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
		waiting("silent", "`Verify`: LINSTOR does not respond", func(c *situation) bool { return !c.s.Linstor.Known() },
			func(*situation) (string, string) { return "ControllerUnreachable", "LINSTOR does not respond" }),
		waiting("not-verified", "`Verify`: a node is not ONLINE with the new version, and this has not been waived",
			func(c *situation) bool { return len(c.unverified()) > 0 },
			func(c *situation) (string, string) {
				names := satellites.MemberNames(c.unverified())
				return "NodesMissing", fmt.Sprintf("%s: not ONLINE with LINSTOR %s yet", names, c.u.To)
			}),
		passing("verified", "`Verify`: all nodes are running the new version",
			"the claim records that the database is at the new version; the upgrade is complete", nil, finish,
			func(c *situation) string {
				return fmt.Sprintf("%d of %d satellites are running LINSTOR %s", c.u.Done, c.u.Total, c.u.To)
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
