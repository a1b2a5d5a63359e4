package plan

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/linstor-dev/storagecluster-operator/pkg/plan/result"
)

// runAll does what the tasks do, on the record: they have no other server. A task that looks once more first is ended
// by that look; what it would write then is known by its name alone. Of one that looks after a write the rest is not
// known.
func (r *record) runAll(ctx context.Context) {
	for _, t := range r.tasks {
		count := func() int { return len(r.writes) + len(r.applied) + len(r.deleted) }
		before := count()
		err := t.Do(ctx)
		switch w := taskWrite(t.Key, t.Input); {
		case err == nil:
		case count() == before:
			r.writes = append(r.writes, w)
		default:
			u := "what is written to LINSTOR after the first writes for this task: " + w.what
			if !slices.Contains(r.unknown, u) { // the same of each node
				r.unknown = append(r.unknown, u)
			}
		}
	}
	r.tasks = nil
}

// steps says what a task does for a node that leaves, by the first words of its input.
var steps = []struct{ input, what string }{
	{"mark note", "a record that the node is being removed"},
	{"mark admit", "a record that the node may be removed"},
	{"mark", "a record of the progress of the node's removal"},
	{"evacuate", "evacuation"},
	{"delete", "removal"},
	{"lose", "declaring the node lost"},
	{"undo", "end of the evacuation, and removal of its records"},
}

// taskWrite is what is known of a task by its key and its input.
func taskWrite(key, input string) write {
	kind, rest, _ := strings.Cut(key, "/")
	node, what, _ := strings.Cut(rest, "/")
	switch kind {
	case "controller":
		return write{what: "the controller: " + node}
	case "leave":
		for _, s := range steps {
			if strings.HasPrefix(input, s.input) {
				return write{what: s.what, node: node}
			}
		}
	}
	if what != "" {
		what = " " + what
	}
	return write{what: kind + what, node: node}
}

// linstor lists what would be written to LINSTOR for the edit. Pools that are made or removed have a list of their
// own.
func (p *planner) linstor(before, after *record) {
	if !p.after.Linstor.Known() {
		p.unknown("what would be written to LINSTOR: LINSTOR does not respond")
		return
	}
	anyway := map[string]bool{}
	for i := range before.writes {
		anyway[before.writes[i].key(before.writes[i].node)] = true
	}
	at := map[string]int{}
	for i := range after.writes {
		w := &after.writes[i]
		ofPool := strings.HasPrefix(w.what, "pool ") || strings.HasPrefix(w.what, "oldpool ")
		if ofPool || anyway[w.key(w.node)] {
			continue
		}
		anyway[w.key(w.node)] = true // and once is enough
		j, there := at[w.key("")]
		switch {
		case !there && len(p.out.Linstor) >= mostPools:
			p.unlisted++
			continue
		case !there:
			j = len(p.out.Linstor)
			at[w.key("")] = j
			p.out.Linstor = append(p.out.Linstor, result.Write{What: w.what, Set: w.set, Delete: w.del})
		}
		if nodes := &p.out.Linstor[j].Nodes; w.node != "" {
			nodes.Count++
			if len(nodes.Names) < result.MostNames {
				nodes.Names = append(nodes.Names, w.node)
			}
		}
	}
}

// key tells writes apart.
func (w *write) key(node string) string {
	return fmt.Sprintf("%q %q %q %q", w.what, node, w.set, w.del)
}
