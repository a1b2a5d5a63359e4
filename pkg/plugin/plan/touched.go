package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/linstor-dev/storagecluster-operator/pkg/plan/result"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/tree"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

// touched are the nodes, pods, disks and objects that an edit touches.
func touched(p *result.Plan) []tree.Item {
	var out []tree.Item
	for i := range p.Nodes {
		n := &p.Nodes[i]
		state := map[string]tree.State{"join": tree.Busy}[n.Do]
		out = append(out, tree.Item{Name: "Nodes " + n.Do, State: either(state, tree.Warn), Text: fmt.Sprintf("%s: %s",
			names(&n.Names, "node", "nodes"), n.How)})
	}
	for i := range p.Restarts {
		r := &p.Restarts[i]
		out = append(out, tree.Item{Name: "Restart", State: tree.Warn, Text: fmt.Sprintf("%s (%s): %s", r.What,
			names(&r.Names, "pod", "pods"), r.How)})
	}
	for i := range p.Members {
		m := &p.Members[i]
		where := "on " + names(&m.Nodes, "node", "nodes")
		if m.Count != m.Nodes.Count {
			where = "of those on " + names(&m.Nodes, "node", "nodes")
		}
		out = append(out, tree.Item{Name: "Etcd", State: tree.Warn, Text: fmt.Sprintf("%s %s %s: %s", m.Do,
			text.Amount(m.Count, "member", "members"), where, m.How)})
	}
	out = section(out, "Pools", "", poolItems(p))
	out = section(out, "Objects", text.Amount(len(p.Objects), "object", "objects"), objectItems(p))
	return section(out, "LINSTOR", "", writeItems(p))
}

func either(a, b tree.State) tree.State {
	if a == "" {
		return b
	}
	return a
}

// names are some names, and how many there are.
func names(n *result.Names, one, many string) string {
	count := text.Amount(n.Count, one, many)
	if len(n.Names) == 0 {
		return count
	}
	return count + ", " + text.Listed(n.Names[:min(len(n.Names), 5)], n.Count)
}

// poolStates are the marks of what would become of a pool.
var poolStates = map[string]tree.State{"make": tree.Warn, "approve": tree.Warn, "wait": tree.Bad, "skip": tree.Note,
	"unknown": tree.Unknown, "register": tree.Busy, "remove": tree.Warn}

// poolWords are what is shown in place of some of these.
var poolWords = map[string]string{"make": "create"}

func poolItems(p *result.Plan) []tree.Item {
	var out []tree.Item
	for i := range p.Pools {
		pool := &p.Pools[i]
		it := tree.Item{Name: pool.Name + " " + cmp.Or(poolWords[pool.Do], pool.Do), State: poolStates[pool.Do],
			Text: fmt.Sprintf("on %s: %s", names(&pool.Nodes, "node", "nodes"), pool.Text)}
		for j := range pool.Disks {
			it.Items = append(it.Items, tree.Item{Name: "disk", State: tree.Warn, Text: diskText(&pool.Disks[j])})
		}
		for _, r := range pool.Refused {
			it.Items = append(it.Items, tree.Item{Name: "not used", State: tree.Note, Text: r})
		}
		out = append(out, it)
	}
	return out
}

func diskText(d *result.Disk) string {
	out := fmt.Sprintf("%s %s, %d GiB", d.Node, d.Path, d.SizeBytes>>30)
	if d.Serial != "" {
		out += ", serial " + d.Serial
	}
	if d.Model != "" {
		out += ", " + d.Model
	}
	return out
}

func objectItems(p *result.Plan) []tree.Item {
	var out []tree.Item
	for i := range p.Objects {
		o := &p.Objects[i]
		what := o.Kind + " " + o.Name
		if len(o.Fields) > 0 {
			what += ": " + strings.Join(o.Fields, ", ")
		}
		if o.More > 0 {
			what += fmt.Sprintf(" and %d more", o.More)
		}
		out = append(out, tree.Item{Name: o.Do, State: tree.Busy, Text: what})
	}
	return out
}

func writeItems(p *result.Plan) []tree.Item {
	var out []tree.Item
	for i := range p.Linstor {
		w := &p.Linstor[i]
		var words []string
		for _, k := range slices.Sorted(maps.Keys(w.Set)) {
			words = append(words, k+"="+value(w.Set[k]))
		}
		if len(w.Delete) > 0 {
			words = append(words, "removing "+strings.Join(w.Delete, ", "))
		}
		what := w.What
		if w.Nodes.Count > 0 {
			what += " (" + names(&w.Nodes, "node", "nodes") + ")"
		}
		if len(words) > 0 {
			what += ": " + strings.Join(words, ", ")
		}
		out = append(out, tree.Item{Name: "write", State: tree.Busy, Text: what})
	}
	return out
}
