// Package rollback says whether an upgrade of LINSTOR is being taken back, or was, from what the claim says alone. It
// is one that has migrated the database: LINSTOR goes back by a restore of the backup that was taken before.
package rollback

import (
	"fmt"

	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
)

// Upgrade is how the claim names an upgrade.
func Upgrade(from, to string) string { return from + ">" + to }

// UnderWay reports whether a human has said that the upgrade of which the database is shall be taken back.
func UnderWay(claim resources.ClaimData) bool {
	return claim.UpgradeTo != "" && claim.UpgradeBackup != "" &&
		claim.RolledBack == Upgrade(claim.Version, claim.UpgradeTo)
}

// Done reports whether LINSTOR was taken back from that version, and runs the one of before until somebody asks for
// another one: what has failed once is not begun again by itself.
func Done(claim resources.ClaimData, from string) bool {
	return claim.UpgradeTo == "" && claim.Version != "" && claim.RolledBack == Upgrade(claim.Version, from)
}

// Message says that LINSTOR was taken back from that version, and what to do to go on.
func Message(claim resources.ClaimData, from string) string {
	return fmt.Sprintf("LINSTOR was rolled back from %s to %s and stays on that version although "+
		"spec.version is %s: set spec.version to %s; later changes to it are carried out as usual",
		from, claim.Version, from, claim.Version)
}

// End makes the claim say that the database is the one of before the upgrade.
func End(claim *resources.ClaimData) {
	claim.UpgradeTo, claim.UpgradeSince, claim.UpgradeBackup, claim.UpgradeSchema = "", "", "", ""
	claim.BackupRead, claim.BackupConfirmed, claim.SkippedChecks = "", "", ""
}
