// Package decisiontable is for states that are a pure function of facts: a Table is read from the top, and the first
// row that holds decides. The pages in docs/state-diagrams are generated from the same rows, so that they cannot lie.
package decisiontable

import (
	"cmp"
	"fmt"
	"strings"
)

// Row decides about facts of type F.
type Row[F any] struct {
	// Name identifies the row: lower case with hyphens, unique in its table.
	Name string
	// When says in words what Holds reports, Then what Decide decides.
	When, Then string
	// Holds reports whether the row applies where none above it does; nil if it always does.
	Holds func(F) bool
	// Decide writes the decision down in the facts; nil if there is nothing to write.
	Decide func(F)
}

// Table is a list of rows with a title and a sentence for its page.
type Table[F any] struct {
	Title, Intro string
	Rows         []Row[F]
}

// Find is the first row that holds; nil if none does.
func (t *Table[F]) Find(f F) *Row[F] {
	for i := range t.Rows {
		if r := &t.Rows[i]; r.Holds == nil || r.Holds(f) {
			return r
		}
	}
	return nil
}

// Decide lets the first row that holds decide, and returns its name; "" if none does.
func (t *Table[F]) Decide(f F) string {
	r := t.Find(f)
	if r == nil {
		return ""
	}
	if r.Decide != nil {
		r.Decide(f)
	}
	return r.Name
}

// Markdown is the table as a section of a page.
func (t *Table[F]) Markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "## %s\n\n%s\n\n", t.Title, t.Intro)
	for i := range t.Rows {
		r := &t.Rows[i]
		fmt.Fprintf(&b, "%d. **%s**: %s.\n   → %s\n", i+1, r.Name, r.When, r.Then)
	}
	return b.String()
}

// Then says in words what follows from a row, for its page: these words, a step, and a hold.
func Then(step, hold string, words ...string) string {
	if step != "" {
		words = append(words, "step `"+step+"`")
	}
	if hold != "" {
		words = append(words, fmt.Sprintf("hold [%s](../runbooks/%s.md)", hold, hold))
	}
	return cmp.Or(strings.Join(words, ", "), "it waits")
}

// Page joins sections into a page.
func Page(title, source, intro string, sections ...string) string {
	return fmt.Sprintf("# %s\n\n<!-- Generated from %s by `make generate`; do not edit. -->\n\n%s\n\n%s",
		title, source, intro, strings.Join(sections, "\n"))
}
