package chaosenv

import (
	"fmt"
	"testing"
)

// Each piece is in exactly one part, and no part is empty where there are many pieces.
func TestPart(t *testing.T) {
	const parts, pieces = 6, 100
	count := map[string]int{}
	for part := 1; part <= parts; part++ {
		t.Setenv("PART", fmt.Sprintf("%d/%d", part, parts))
		before := len(count)
		for i := range pieces {
			if piece := fmt.Sprint("life", i); Part(t, piece) {
				count[piece]++
			}
		}
		if len(count) == before {
			t.Errorf("part %d is empty", part)
		}
	}
	for i := range pieces {
		if n := count[fmt.Sprint("life", i)]; n != 1 {
			t.Errorf("piece %d is in %d parts", i, n)
		}
	}
	t.Setenv("PART", "")
	if !Part(t, "any") {
		t.Error("without PART a piece is left out")
	}
}

func TestParsePart(t *testing.T) {
	for text, ok := range map[string]bool{"1/1": true, "3/6": true, "6/6": true, "0/6": false, "7/6": false, "3": false,
		"3/": false, "/6": false, "a/b": false, "-1/2": false, "1/2/3": false, "01/2": false, " 1/2": false, "1/0": false} {
		if _, _, err := parsePart(text); (err == nil) != ok {
			t.Errorf("%q: %v", text, err)
		}
	}
}
