package disks

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/linstor-dev/storagecluster-operator/pkg/plan/result"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/tree"
)

// The columns of a table, before the sentence that ends a row.
const (
	colPath = iota
	colSize
	colType
	colModel
	colSerial
	columns
)

var heads = [columns]string{"DISK", "SIZE", "TYPE", "MODEL", "SERIAL"}

const (
	// before is what a row begins with: two blanks, the mark, a blank.
	before = 4
	gap    = 2
	// roomy is the least room in which a sentence is put beside its row. With less it has lines of its own below.
	roomy = 36
	// least is what of a model or a serial number is shown at least.
	least = 8
)

// table has a row for each disk.
func table(g *group, style tree.Style) []string {
	rows := make([][columns]string, 0, len(g.Disks))
	for i := range g.Disks {
		rows = append(rows, cells(&g.Disks[i], len(g.names) > 1))
	}
	widths := widthsOf(rows, style.Width)
	used := before
	for _, w := range widths {
		if w > 0 {
			used += w + gap
		}
	}
	beside := style.Width-used >= roomy
	head := strings.Repeat(" ", before) + line(heads, widths)
	if beside {
		head += "POOL OR REASON"
	}
	out := []string{strings.TrimRight(head, " ")}
	for i := range rows {
		d := &g.Disks[i]
		row := "  " + style.Mark(stateOf(d.Fate)) + " " + line(rows[i], widths)
		if !beside {
			out = append(append(out, strings.TrimRight(row, " ")), style.Wrap(d.Text, strings.Repeat(" ", before+gap))...)
			continue
		}
		said := style.Wrap(d.Text, strings.Repeat(" ", used))
		if len(said) > 0 {
			said[0] = row + strings.TrimLeft(said[0], " ")
		}
		out = append(out, said...)
	}
	return out
}

// cells are what a row has. Of nodes that are shown together each has serial numbers of its own.
func cells(d *result.NodeDisk, several bool) [columns]string {
	serial := d.Serial
	if several {
		serial = ""
	}
	return [columns]string{tree.Clean(d.Path), size(d.SizeBytes), tree.Clean(d.Type), tree.Clean(d.Model),
		tree.Clean(serial)}
}

// widthsOf are the widths of the columns; 0 for one that no disk has a value for. Where a line would be too long,
// models and serial numbers are cut.
func widthsOf(rows [][columns]string, most int) [columns]int {
	var out [columns]int
	total := before
	for c := range columns {
		for i := range rows {
			out[c] = max(out[c], utf8.RuneCountInString(rows[i][c]))
		}
		if out[c] > 0 {
			out[c] = max(out[c], len(heads[c]))
			total += out[c] + gap
		}
	}
	for _, c := range []int{colModel, colSerial} {
		cut := max(0, min(total-gap-most, out[c]-least))
		out[c] -= cut
		total -= cut
	}
	return out
}

func line(cells [columns]string, widths [columns]int) string {
	var b strings.Builder
	for c, cell := range cells {
		if widths[c] == 0 {
			continue
		}
		if runes := []rune(cell); len(runes) > widths[c] {
			cell = string(runes[:widths[c]-1]) + "…"
		}
		b.WriteString(cell + strings.Repeat(" ", widths[c]-utf8.RuneCountInString(cell)+gap))
	}
	return b.String()
}

// size is a number of bytes as rules name it: 500Gi, 7.3Ti.
func size(bytes int64) string {
	unit, in := "Gi", float64(bytes)/(1<<30)
	switch {
	case in >= 1<<10:
		unit, in = "Ti", in/(1<<10)
	case in < 1:
		unit, in = "Mi", in*(1<<10)
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", in), ".0") + unit
}
