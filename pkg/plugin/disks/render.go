package disks

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/linstor-dev/storagecluster-operator/pkg/plan/result"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/tree"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

// fates are the fates of disks, in the order in which they are counted: what each is called, and its mark.
var fates = []struct {
	fate  result.Fate
	words string
	state tree.State
}{
	{result.InPool, "in a pool", tree.Well},
	{result.BecomesPool, "being added to a pool", tree.Busy},
	{result.NeedsAnswer, "waiting for your decision", tree.Warn},
	{result.NotUsed, "matched but not used", tree.Bad},
	{result.NoMatch, "empty but not matched", tree.Note},
	{result.InUse, "not free", tree.Note},
	{result.Unknown, "unknown", tree.Unknown},
}

func stateOf(f result.Fate) tree.State {
	for _, known := range fates {
		if known.fate == f {
			return known.state
		}
	}
	return tree.Unknown // an operator of another version may know more
}

// mostAlike is how many nodes of which the same is to be said are shown one by one.
const mostAlike = 5

// group is nodes of which the same is to be said, serial numbers aside.
type group struct {
	names []string
	*result.NodeDisks
}

// title names the nodes.
func (g *group) title() string {
	if len(g.names) == 1 {
		return g.names[0]
	}
	return fmt.Sprintf("%s (%s)", text.QuoteList(g.names), text.NodesOf(len(g.names)))
}

// quiet reports whether nothing is to be said of any disk: each is in a pool, or somebody else's.
func (g *group) quiet() bool {
	return !slices.ContainsFunc(g.Disks, func(d result.NodeDisk) bool {
		return d.Fate != result.InPool && d.Fate != result.InUse
	})
}

// Lines shows what nodes have of disks; all has each node have its table.
func Lines(d *result.Disks, all bool, style tree.Style) []string {
	out := style.Wrap(headline(d), "")
	out[0] = strings.Replace(out[0], cluster, style.Bold(cluster), 1)
	for i := range d.Refusals {
		r := &d.Refusals[i]
		out = append(out, marked(style, tree.Bad, "rejected by "+r.By, r.Message)...)
	}
	for _, n := range d.Notes {
		out = append(out, marked(style, tree.Warn, "", n)...)
	}
	for _, g := range groups(d.Nodes, all) {
		out = append(out, nodeLines(&g, all, style)...)
	}
	return out
}

const cluster = "StorageCluster/linstor"

func headline(d *result.Disks) string {
	rules := map[result.Subject]string{result.Edit: "; evaluated against the edit's rules",
		result.Creation: "; evaluated against the new object's rules"}[d.Of]
	if len(d.Refusals) > 0 && len(d.Nodes) == 0 {
		return cluster + ": the edit would be rejected"
	}
	var every []result.NodeDisk
	for i := range d.Nodes {
		every = append(every, d.Nodes[i].Disks...)
	}
	return cluster + ": " + text.NodesOf(len(d.Nodes)) + ", " + counted(every) + rules
}

// counted is how many disks there are, and what they are.
func counted(ds []result.NodeDisk) string {
	var parts []string
	for _, f := range fates {
		n := 0
		for i := range ds {
			if ds[i].Fate == f.fate {
				n++
			}
		}
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, f.words))
		}
	}
	out := text.Amount(len(ds), "disk", "disks")
	if len(ds) > 0 {
		out += ": " + strings.Join(parts, ", ")
	}
	return out
}

// groups are the nodes, those with something to say first. Unless each is to have its own, many alike are one.
func groups(nodes []result.NodeDisks, all bool) []group {
	at := map[string]int{}
	var found []group
	for i := range nodes {
		key := strconv.Itoa(i)
		if !all {
			key = alike(&nodes[i])
		}
		j, there := at[key]
		if !there {
			j, at[key] = len(found), len(found)
			found = append(found, group{NodeDisks: &nodes[i]})
		}
		found[j].names = append(found[j].names, nodes[i].Name)
	}
	var out []group
	for i := range nodes {
		key := strconv.Itoa(i)
		if !all {
			key = alike(&nodes[i])
		}
		switch g := found[at[key]]; {
		case len(g.names) <= mostAlike:
			out = append(out, group{[]string{nodes[i].Name}, &nodes[i]})
		case g.NodeDisks == &nodes[i]:
			out = append(out, g)
		}
	}
	rank := func(g *group) int {
		if g.quiet() && len(g.Unknown)+len(g.Notes) == 0 {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(out, func(a, b group) int { return cmp.Compare(rank(&a), rank(&b)) })
	return out
}

// alike is the same of nodes of which the same is to be said.
func alike(n *result.NodeDisks) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%q %q", n.Unknown, n.Notes)
	for i := range n.Disks {
		d := &n.Disks[i]
		fmt.Fprintf(&b, "\n%q %d %q %q %q", d.Path, d.SizeBytes, d.Type, d.Model, d.Text)
	}
	return b.String()
}

func nodeLines(g *group, all bool, style tree.Style) []string {
	state := tree.Well
	for i := range g.Disks {
		if g.Disks[i].Fate != result.InUse {
			state = tree.Worst(state, stateOf(g.Disks[i].Fate))
		}
	}
	if len(g.Notes) > 0 {
		state = tree.Worst(state, tree.Warn)
	}
	if len(g.Unknown) > 0 {
		state = tree.Worst(state, tree.Unknown)
	}
	summary := counted(g.Disks)
	if len(g.names) > 1 {
		summary = "each with " + summary
	}
	out := marked(style, state, g.title(), summary)
	for _, why := range g.Unknown {
		out = append(out, indented(style, tree.Unknown, why)...)
	}
	for _, note := range g.Notes {
		out = append(out, indented(style, tree.Warn, note)...)
	}
	if len(g.Disks) > 0 && (all || !g.quiet()) {
		out = append(out, table(g, style)...)
	}
	return out
}

// marked is a line with a mark and a name.
func marked(style tree.Style, state tree.State, name, words string) []string {
	line := words
	if name != "" {
		line = name + ": " + words
	}
	return withMark(style, state, style.Wrap(line, "  "), "")
}

// indented is the same below a node.
func indented(style tree.Style, state tree.State, words string) []string {
	return withMark(style, state, style.Wrap(words, "    "), "  ")
}

func withMark(style tree.Style, state tree.State, lines []string, before string) []string {
	if len(lines) > 0 {
		lines[0] = before + style.Mark(state) + " " + strings.TrimPrefix(lines[0], before+"  ")
	}
	return lines
}
