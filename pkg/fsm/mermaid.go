package fsm

import (
	"fmt"
	"strings"
)

// Mermaid draws the table as a Mermaid state diagram, with a note for each state. Events that many states share and that
// all lead to the same state are drawn once, from a note, so that the picture stays readable; the table below it is whole.
func (t *Table) Mermaid() string {
	var b strings.Builder
	b.WriteString("stateDiagram-v2\n")
	fmt.Fprintf(&b, "    [*] --> %s\n", t.Initial)
	shared := t.sharedEvents()
	for _, r := range t.merged(shared) {
		fmt.Fprintf(&b, "    %s --> %s: %s\n", r.From, r.To, r.Event)
	}
	for _, s := range t.States {
		if s.Class == Terminal {
			fmt.Fprintf(&b, "    %s --> [*]\n", s.State)
		}
	}
	for _, s := range t.States {
		fmt.Fprintf(&b, "    note right of %s\n        %s\n", s.State, s.Meaning)
		if s.Deadline > 0 {
			fmt.Fprintf(&b, "        Without progress for %s: %s\n", s.Deadline, s.Escalation)
		}
		for _, e := range t.Events(s.State) {
			if to, ok := shared[e]; ok && to != s.State {
				fmt.Fprintf(&b, "        %s leads to %s\n", e, to)
			}
		}
		b.WriteString("    end note\n")
	}
	return b.String()
}

// sharedEvents are the events of four states and more that lead to one and the same state.
func (t *Table) sharedEvents() map[Event]State {
	count, to, mixed := map[Event]int{}, map[Event]State{}, map[Event]bool{}
	for _, r := range t.Rows {
		if prev, ok := to[r.Event]; ok && prev != r.To {
			mixed[r.Event] = true
		}
		to[r.Event] = r.To
		count[r.Event]++
	}
	out := map[Event]State{}
	for e, n := range count {
		if n >= 4 && !mixed[e] {
			out[e] = to[e]
		}
	}
	return out
}

// merged are the rows without the shared events, with the events between the same two states joined.
func (t *Table) merged(shared map[Event]State) []Row {
	var out []Row
	at := map[[2]State]int{}
	for _, r := range t.Rows {
		if _, ok := shared[r.Event]; ok {
			continue
		}
		k := [2]State{r.From, r.To}
		if i, ok := at[k]; ok {
			out[i].Event += " / " + r.Event
			continue
		}
		at[k] = len(out)
		out = append(out, r)
	}
	return out
}

// Markdown is the page for docs/state-diagrams: the diagram and the whole table.
func (t *Table) Markdown(title string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n<!-- Generated from pkg/fsm by `make generate`; do not edit. -->\n\n", title)
	fmt.Fprintf(&b, "```mermaid\n%s```\n\n## States\n\n| state | kind | meaning | deadline | then |\n|---|---|---|---|---|\n", t.Mermaid())
	for _, s := range t.States {
		deadline := "–"
		if s.Deadline > 0 {
			deadline = s.Deadline.String()
		}
		then := "–"
		if s.Escalation != "" {
			then = string(s.Escalation)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", s.State, s.Class, s.Meaning, deadline, then)
	}
	b.WriteString("\n## Transitions\n\n| from | event | to | evidence |\n|---|---|---|---|\n")
	for _, r := range t.Rows {
		oneWay := ""
		if r.OneWay {
			oneWay = " (one way)"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s%s |\n", r.From, r.Event, r.To, r.Evidence, oneWay)
	}
	return b.String()
}
