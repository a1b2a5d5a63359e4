package upgrade

import (
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/decisiontable"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
)

// What the tests of this package look at inside of it.
const BackupTask = backupTask

// Rows are the names of all rows.
func Rows() []string {
	var out []string
	for _, r := range progress.Rows {
		out = append(out, r.Name)
	}
	for _, t := range []decisiontable.Table[*situation]{ends, trouble, gate} {
		for _, r := range t.Rows {
			out = append(out, r.Name)
		}
	}
	return out
}

// StepRow is the row that gives an upgrade its step.
func StepRow(u *cluster.Upgrade) string {
	for _, r := range progress.Rows {
		as := *u
		if r.Decide(&progressOf{u: &as}); as.Step == u.Step {
			return r.Name
		}
	}
	return ""
}

// Row is the row that decides in the phase Upgrading.
func Row(in *step.Input) string {
	for _, t := range []decisiontable.Table[*situation]{ends, trouble} {
		if r := t.Find(situationOf(in)); r != nil {
			return r.Name
		}
	}
	return GateRow(in)
}

// GateRow is the row that decides whether a step is through.
func GateRow(in *step.Input) string { return gate.Find(situationOf(in)).Name }
