package migrating

import (
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
)

// Row is the name of the row that decides.
func Row(in *step.Input) string { return table.Find(situationOf(in)).Name }

// Rows are the names of all of them.
func Rows() (names []string) {
	for _, r := range table.Rows {
		names = append(names, r.Name)
	}
	return names
}
