package linstorclient

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestList(t *testing.T) {
	for printed, want := range map[string][]string{
		`[["a","b"]]`:     {"a", "b"},
		`[["a"],["b"]]`:   {"a", "b"},
		`["a","b"]`:       {"a", "b"},
		`[[]]`:            nil,
		`{"message":"x"}`: nil,
		"Error: no":       nil,
	} {
		got, err := List[string]([]byte(printed))
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: %s", printed, d)
		}
		if fails := printed[0] != '['; (err != nil) != fails {
			t.Errorf("%s: %v", printed, err)
		}
	}
}
