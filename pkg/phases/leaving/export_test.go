package leaving

import (
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/decisiontable"
)

// What the tests of this package look at inside of it.
const (
	StepAdmit   = stepAdmit
	StepNote    = stepNote
	StepConfirm = stepConfirm
	StepForget  = stepForget
	StepMoving  = stepMoving
	StepStuck   = stepStuck
)

// Marks are the properties that remember how far a leaving node is.
var Marks = marks

// ContentsOf is what a view has on a node.
var ContentsOf = contentsOf

func eachRow(f func(*decisiontable.Row[*situation])) {
	for _, t := range []*decisiontable.Table[*situation]{&hindrance, &announcement, &departure, &loss} {
		for i := range t.Rows {
			f(&t.Rows[i])
		}
	}
}

// Rows are the names of all rows.
func Rows() (out []string) {
	eachRow(func(r *decisiontable.Row[*situation]) { out = append(out, r.Name) })
	return out
}

// rows are the names of the rows that decided.
var rows = map[*cluster.Leave]string{}

func init() {
	eachRow(func(r *decisiontable.Row[*situation]) {
		decide := r.Decide
		r.Decide = func(c *situation) {
			rows[c.Leave] = r.Name
			decide(c)
		}
	})
}

// RowOf is the name of the row that decided about a node, the last of them.
func RowOf(l *cluster.Leave) string { return rows[l] }
