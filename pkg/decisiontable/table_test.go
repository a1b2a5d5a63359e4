package decisiontable_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/linstor-dev/storagecluster-operator/pkg/decisiontable"
)

// weather is what the rows of these tests decide about, and what they have decided.
type weather struct {
	rain, wind bool
	take       string
}

func take(what string) func(*weather) { return func(w *weather) { w.take = what } }

// clothes is a table with every kind of row; it decides nothing in fair weather unless it has a row that always holds.
func clothes(always ...decisiontable.Row[*weather]) *decisiontable.Table[*weather] {
	return &decisiontable.Table[*weather]{
		Title: "What to wear", Intro: "Before one leaves.",
		Rows: append([]decisiontable.Row[*weather]{
			{Name: "storm", When: "it rains, and the wind blows", Then: "nothing",
				Holds: func(w *weather) bool { return w.rain && w.wind }},
			{Name: "rain", When: "it rains", Then: "an umbrella",
				Holds: func(w *weather) bool { return w.rain }, Decide: take("umbrella")},
			{Name: "wind", When: "the wind blows", Then: "a coat",
				Holds: func(w *weather) bool { return w.wind }, Decide: take("coat")},
		}, always...),
	}
}

func TestDecide(t *testing.T) {
	hat := decisiontable.Row[*weather]{Name: "fair", When: "else", Then: "a hat", Decide: take("hat")}
	late := decisiontable.Row[*weather]{Name: "late", Holds: func(*weather) bool { panic("a row above it holds") }}
	for _, tc := range []struct {
		name       string
		table      *decisiontable.Table[*weather]
		facts      weather
		rule, take string
	}{
		{name: "the only row that holds", table: clothes(), facts: weather{wind: true},
			rule: "wind", take: "coat"},
		{name: "the first of three, which writes nothing", table: clothes(), facts: weather{rain: true, wind: true},
			rule: "storm"},
		{name: "the first of two", table: clothes(late), facts: weather{rain: true}, rule: "rain", take: "umbrella"},
		{name: "none", table: clothes()},
		{name: "one that always holds", table: clothes(hat, late), rule: "fair", take: "hat"},
		{name: "above one that always holds", table: clothes(hat), facts: weather{rain: true},
			rule: "rain", take: "umbrella"},
		{name: "no rows", table: &decisiontable.Table[*weather]{}, facts: weather{rain: true}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			found := ""
			if r := tc.table.Find(&tc.facts); r != nil {
				found = r.Name
			}
			if found != tc.rule || tc.facts.take != "" {
				t.Errorf("found %q and took %q, want %q and nothing", found, tc.facts.take, tc.rule)
			}
			if got := tc.table.Decide(&tc.facts); got != tc.rule || tc.facts.take != tc.take {
				t.Errorf("decided by %q for %q, want %q for %q", got, tc.facts.take, tc.rule, tc.take)
			}
		})
	}
}

func TestMarkdown(t *testing.T) {
	const section = `## What to wear

Before one leaves.

1. **storm**: it rains, and the wind blows.
   → nothing
2. **rain**: it rains.
   → an umbrella
3. **wind**: the wind blows.
   → a coat
`
	if d := cmp.Diff(section, clothes().Markdown()); d != "" {
		t.Error(d)
	}
	const page = "# Clothes\n\n<!-- Generated from pkg/clothes by `make generate`; do not edit. -->\n\n" +
		"The first row decides.\n\n" + section + "\n## Shoes\n"
	got := decisiontable.Page("Clothes", "pkg/clothes", "The first row decides.", clothes().Markdown(), "## Shoes\n")
	if d := cmp.Diff(page, got); d != "" {
		t.Error(d)
	}
}
