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

// Lines shows a plan as a tree.
func Lines(p *result.Plan, style tree.Style) []string {
	out := []string{style.Bold("StorageCluster/linstor") + "  " + style.Paint(headState(p), headline(p))}
	return append(out, style.Lines(items(p))...)
}

func headState(p *result.Plan) tree.State {
	switch {
	case p.Outcome == result.Refused:
		return tree.Bad
	case p.Outcome == result.Nothing:
		return tree.Well
	case len(p.Holds) > 0:
		return tree.Warn
	default:
		return tree.Busy
	}
}

func headline(p *result.Plan) string {
	what := "the edit"
	switch p.Of {
	case result.Present:
		what = "the stored spec"
	case result.Creation:
		what = "the new object"
	case result.Edit:
	}
	switch p.Outcome {
	case result.Refused:
		return what + " would be rejected"
	case result.Nothing:
		if p.Of == result.Present {
			return "nothing would change: the stored spec has already been accepted"
		}
		return "nothing would change"
	case result.Changes:
	}
	if p.Of == result.Present && p.Suspended {
		return "the stored spec differs from the accepted one, and would be accepted once suspend is false again"
	}
	if p.Of == result.Present {
		return "the stored spec differs from the accepted one, and would be accepted"
	}
	if p.Suspended {
		return what + " would be stored, and accepted once suspend is false again"
	}
	return what + " would be accepted"
}

// section adds an item with what hangs below it, unless there is nothing.
func section(to []tree.Item, name, text string, below []tree.Item) []tree.Item {
	if len(below) == 0 {
		return to
	}
	return append(to, tree.Item{Name: name, State: tree.Busy, Text: text, Items: below})
}

func items(p *result.Plan) []tree.Item {
	var out []tree.Item
	for i := range p.Refusals {
		out = append(out, refusalItem(&p.Refusals[i]))
	}
	for i := range p.Holds {
		h := &p.Holds[i]
		out = append(out, tree.Item{Name: "Hold " + h.Reason, State: tree.Warn, Text: h.Message,
			Items: optionItems(h.Options)})
	}
	out = section(out, "Fields", text.Amount(len(p.Fields), "change", "changes"), fieldItems(p))
	if len(p.Phases) > 0 {
		out = append(out, tree.Item{Name: "Phases", State: tree.Busy, Text: way(p), Items: phaseItems(p)})
	} else if p.Outcome == result.Changes && p.Phase != "" {
		out = append(out, tree.Item{Name: "Phases", State: tree.Well, Text: "the phase remains " + p.Phase})
	}
	out = append(out, touched(p)...)
	return append(out, remarks(p)...)
}

// remarks are what could not be found out, and notes.
func remarks(p *result.Plan) []tree.Item {
	var out []tree.Item
	for _, u := range p.Unknown {
		out = append(out, tree.Item{Name: "Unknown", State: tree.Unknown, Text: u})
	}
	for _, n := range p.Notes {
		out = append(out, tree.Item{Name: "Note", State: tree.Note, Text: n})
	}
	return out
}

func refusalItem(r *result.Refusal) tree.Item {
	it := tree.Item{Name: "Rejected by " + r.By, State: tree.Bad, Text: r.Message}
	if r.By == "operator" {
		it.Text = fmt.Sprintf("hold %s: %s", r.Reason, r.Message)
	}
	for _, f := range r.Fields {
		it.Items = append(it.Items, tree.Item{Name: "field", State: tree.Bad, Text: f})
	}
	it.Items = append(it.Items, optionItems(r.Options)...)
	return it
}

func optionItems(options []result.Option) []tree.Item {
	var out []tree.Item
	for _, o := range options {
		out = append(out, tree.Item{Name: "option " + o.Answer, State: tree.Note, Text: o.Does})
	}
	return out
}

func fieldItems(p *result.Plan) []tree.Item {
	var out []tree.Item
	for i := range p.Fields {
		f := &p.Fields[i]
		out = append(out, tree.Item{Name: f.Path, State: tree.Busy, Text: change(f.From, f.To), Items: []tree.Item{
			{Name: f.Class, State: tree.Note, Text: f.When + ": " + f.Effect}}})
	}
	return out
}

// change says what a value would become.
func change(from, to any) string {
	switch {
	case from == nil:
		return "new: " + value(to)
	case to == nil:
		return "removed: " + value(from)
	default:
		return value(from) + " → " + value(to)
	}
}

// mostValue bounds what is shown of a value; -o json has all of it.
const mostValue = 160

func value(v any) string {
	s := flow(v)
	if head := text.Head(s, mostValue); head != s {
		return head + "…"
	}
	return s
}

// flow is a value in YAML's flow style, which can be broken between words.
func flow(v any) string {
	var parts []string
	switch v := v.(type) {
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			parts = append(parts, k+": "+flow(v[k]))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case []any:
		for _, e := range v {
			parts = append(parts, flow(e))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	default:
		return fmt.Sprint(v)
	}
}

// way is the phases in a row.
func way(p *result.Plan) string {
	names := []string{cmp.Or(p.Phase, "Pending")}
	for _, ph := range p.Phases {
		names = append(names, ph.Name)
	}
	return strings.Join(names, " → ")
}

// phaseItems are the phases for which there is more to say than that they follow.
func phaseItems(p *result.Plan) []tree.Item {
	var out []tree.Item
	for _, ph := range p.Phases {
		if ph.Why != "" {
			out = append(out, tree.Item{Name: ph.Name, State: tree.Note, Text: ph.Why})
		}
	}
	return out
}
