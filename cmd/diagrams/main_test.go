package main

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestPages fails when a table was changed without the page that is made from it.
func TestPages(t *testing.T) {
	all, err := pages()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range all {
		have, err := os.ReadFile("../../" + name)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, string(have)); d != "" {
			t.Errorf("%s is out of date; run `make generate`: %s", name, d)
		}
	}
}
