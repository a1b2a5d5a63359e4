package migrating

import (
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
)

// Row is the name of the row that decides.
func Row(in *step.Input) string {
	c := situationOf(in)
	if c.s.Move != nil {
		return moveTable.Find(c).Name
	}
	return table.Find(c).Name
}

// Rows are the names of all of them, and MoveRows of those about a move.
func Rows() []string     { return names(table.Rows) }
func MoveRows() []string { return names(moveTable.Rows) }

func names(rows []row) (names []string) {
	for _, r := range rows {
		names = append(names, r.Name)
	}
	return names
}
