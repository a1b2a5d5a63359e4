package upgrade

import (
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/decisiontable"
)

type progressOf struct {
	u *cluster.Upgrade
	// behind is true if satellites run the old version that could be restarted, and nobody has waived them.
	behind bool
}

// progress finds the step. Once the claim names the new version no old controller may touch the database.
var progress = decisiontable.Table[*progressOf]{
	Title: "The step of an upgrade",
	Intro: "Applies while the claim names a different version from the accepted spec. The claim records the progress " +
		"of the upgrade.",
	Rows: []decisiontable.Row[*progressOf]{
		stepRow("prechecks", "the claim does not name the new version: nothing has been changed yet",
			v1alpha1.UpgradePrechecks, func(c *progressOf) bool { return c.u.Claim.UpgradeTo == "" }),
		stepRow("controller", "the claim does not record that the database backup was read back or is not needed",
			v1alpha1.UpgradeController, func(c *progressOf) bool { return c.u.Claim.BackupRead == "" }),
		stepRow("satellites", "satellites that can be restarted are running the old version and have not been waived",
			v1alpha1.UpgradeSatellites, func(c *progressOf) bool { return c.behind }),
		stepRow("verify", "all satellites that can be restarted are running the new version or have been waived",
			v1alpha1.UpgradeVerify, nil),
	},
}

func stepRow(name, when string, to v1alpha1.UpgradeStep, holds func(*progressOf) bool) decisiontable.Row[*progressOf] {
	return decisiontable.Row[*progressOf]{Name: name, When: when, Then: "step `" + string(to) + "`", Holds: holds,
		Decide: func(c *progressOf) { c.u.Step = to }}
}
