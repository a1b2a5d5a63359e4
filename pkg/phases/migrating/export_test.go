package migrating

import (
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
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

// OnTarget is what is done with the database that the data goes to: R it is refused, C compared, I imported into.
func OnTarget(s *cluster.Snapshot) string {
	switch v := judge(s); {
	case v.refused != "":
		return "R"
	case v.compares:
		return "C"
	default:
		return "I"
	}
}
