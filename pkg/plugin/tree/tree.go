// Package tree renders what the plugin shows: a tree whose lines fit into a terminal, coloured where something is not
// well. It is pure: the same items give the same lines.
package tree

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

// State says how an item is.
type State string

// States, the best first.
const (
	// Well: nothing to do.
	Well State = "well"
	// Note: neither well nor not, such as what is switched off.
	Note State = "note"
	// Unknown: it could not be found out.
	Unknown State = "unknown"
	// Busy: it is being worked on.
	Busy State = "busy"
	// Warn: it works, with something missing.
	Warn State = "warn"
	// Bad: it does not work.
	Bad State = "bad"
)

// order is the order of the states.
var order = []State{Well, Note, Unknown, Busy, Warn, Bad}

// Worst is the worst of some states; Well for none.
func Worst(states ...State) State {
	worst := 0
	for _, s := range states {
		worst = max(worst, slices.Index(order, s))
	}
	return order[worst]
}

// WorseThan reports whether a state is worse than another one.
func (s State) WorseThan(other State) bool {
	return slices.Index(order, s) > slices.Index(order, other)
}

// Item is a line of the tree, and what hangs below it.
type Item struct {
	// Name is what the line is about.
	Name string `json:"name"`
	// State decides mark and colour.
	State State `json:"state"`
	// Text is what there is to say. It is wrapped.
	Text string `json:"text,omitempty"`
	// Items are shown below.
	Items []Item `json:"items,omitempty"`
}

// Style is how a tree is rendered.
type Style struct {
	// Width is how long a line may be, in characters; only a word that is longer than that exceeds it.
	Width int
	// Colour switches the colours of a terminal on.
	Colour bool
}

// look is the mark and the colour of a state. The marks alone tell the states apart: not everybody sees colours, and
// not every output has any.
var look = map[State]struct{ mark, colour string }{
	Well: {"✔", "\x1b[32m"}, Note: {"·", "\x1b[2m"}, Unknown: {"?", "\x1b[33m"}, Busy: {"…", "\x1b[36m"},
	Warn: {"!", "\x1b[33m"}, Bad: {"✘", "\x1b[31m"},
}

const reset = "\x1b[0m"

// Paint gives a text the colour of a state.
func (s Style) Paint(state State, text string) string {
	if !s.Colour || text == "" {
		return text
	}
	return look[state].colour + text + reset
}

// Mark is the mark of a state, in its colour.
func (s Style) Mark(state State) string { return s.Paint(state, look[state].mark) }

// Bold makes a text stand out.
func (s Style) Bold(text string) string {
	if !s.Colour || text == "" {
		return text
	}
	return "\x1b[1m" + text + reset
}

// Lines renders items that hang below one line, which the caller has printed.
func (s Style) Lines(items []Item) []string { return s.lines(items, "") }

// widest bounds the column of names, so that one long name does not leave all texts without room.
const widest = 22

func (s Style) lines(items []Item, prefix string) []string {
	column := 0
	for i := range items {
		if n := utf8.RuneCountInString(Clean(items[i].Name)); n <= widest {
			column = max(column, n)
		}
	}
	var out []string
	for i := range items {
		branch, below := "├─ ", "│  "
		if i == len(items)-1 {
			branch, below = "└─ ", "   "
		}
		out = append(out, s.item(&items[i], column, prefix+branch, prefix+below)...)
		out = append(out, s.lines(items[i].Items, prefix+below)...)
	}
	return out
}

// item renders one item: its first line, and what does not fit there below its text.
func (s Style) item(it *Item, column int, first, rest string) []string {
	name := Clean(it.Name)
	pad := strings.Repeat(" ", max(column-utf8.RuneCountInString(name), 0))
	if len(it.Items) > 0 {
		rest += "│ "
	} else {
		rest += "  "
	}
	indent := rest + strings.Repeat(" ", column+2)
	head := utf8.RuneCountInString(first) + 2 + utf8.RuneCountInString(name+pad) + 2
	texts := text.Fill(Clean(it.Text), s.Width-head, s.Width-utf8.RuneCountInString(indent))
	painted := first + s.Paint(it.State, look[it.State].mark) + " "
	if it.State.WorseThan(Unknown) {
		painted += s.Paint(it.State, name)
	} else {
		painted += name
	}
	if len(texts) == 0 {
		return []string{painted}
	}
	out := []string{painted + pad + "  " + texts[0]}
	for _, t := range texts[1:] {
		out = append(out, indent+t)
	}
	return out
}

// Wrap breaks a text into lines that fit, each of which begins with the indent.
func (s Style) Wrap(says, indent string) []string {
	room := s.Width - utf8.RuneCountInString(indent)
	var out []string
	for _, line := range text.Fill(Clean(says), room, room) {
		out = append(out, indent+line)
	}
	return out
}

// Command breaks a command where a shell lets it be broken, so that it can still be copied.
func (s Style) Command(command, indent string) []string {
	const more, deeper = ` \`, "    "
	room := s.Width - utf8.RuneCountInString(indent) - len(more)
	lines := []string{Clean(command)}
	if utf8.RuneCountInString(command)+utf8.RuneCountInString(indent) > s.Width {
		lines = text.Fill(Clean(command), room, room-len(deeper))
	}
	out := make([]string, 0, len(lines))
	for i, line := range lines {
		if i > 0 {
			line = deeper + line
		}
		if i < len(lines)-1 {
			line += more
		}
		out = append(out, indent+line)
	}
	return out
}

// Clean makes a text safe for a terminal: what nodes and containers said is in many of them, and must not move the
// cursor or set a colour.
func Clean(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == utf8.RuneError {
			return ' '
		}
		return r
	}, text)
}
