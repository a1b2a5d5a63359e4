package plan

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/linstor-dev/storagecluster-operator/pkg/plan/result"
)

// runAll does what the tasks do, on the record: they have no other server. A task that looks once more first is ended
// by that look; what it would write then is not known.
func (r *record) runAll(ctx context.Context) {
	for _, t := range r.tasks {
		count := func() int { return len(r.writes) + len(r.applied) + len(r.deleted) }
		before := count()
		if err := t.Do(ctx); err != nil && count() == before {
			r.writes = append(r.writes, taskWrite(t.Key))
		}
	}
}

// taskWrite is what is known of a task by its key.
func taskWrite(key string) write {
	kind, rest, _ := strings.Cut(key, "/")
	node, what, _ := strings.Cut(rest, "/")
	if kind == "controller" {
		return write{what: "the controller: " + node}
	}
	if what != "" {
		what = " " + what
	}
	return write{what: kind + what, node: node}
}

// linstor lists what would be written to LINSTOR for the edit. Pools that are made or removed have a list of their own.
func (p *planner) linstor(before, after *record) {
	if !p.after.Linstor.Known() {
		p.unknown("what would be written to LINSTOR: it does not answer")
		return
	}
	for i := range after.writes {
		w := &after.writes[i]
		ofPool := strings.HasPrefix(w.what, "pool ") || strings.HasPrefix(w.what, "oldpool ")
		if ofPool || slices.ContainsFunc(before.writes, w.same) {
			continue
		}
		all := p.out.Linstor
		j := slices.IndexFunc(all, func(o result.Write) bool {
			return o.What == w.what && maps.Equal(o.Set, w.set) && slices.Equal(o.Delete, w.del)
		})
		switch {
		case j < 0 && len(all) >= mostPools:
			p.unlisted++
			continue
		case j < 0:
			j = len(all)
			p.out.Linstor = append(all, result.Write{What: w.what, Set: w.set, Delete: w.del})
		}
		if at := &p.out.Linstor[j].Nodes; w.node != "" {
			at.Count++
			if len(at.Names) < result.MostNames {
				at.Names = append(at.Names, w.node)
			}
		}
	}
}

func (w *write) same(o write) bool {
	return o.what == w.what && o.node == w.node && maps.Equal(o.set, w.set) && slices.Equal(o.del, w.del)
}
