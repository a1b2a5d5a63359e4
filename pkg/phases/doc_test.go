package phases

import (
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestDocNamesTheRooms: who looks for a room finds it in the package's comment, under the name that its folder has.
func TestDocNamesTheRooms(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	var named, there []string
	for _, m := range regexp.MustCompile(`(?m)^//\t([a-z]+) `).FindAllSubmatch(doc, -1) {
		named = append(named, string(m[1]))
	}
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.IsDir() && e.Name() != "testdata" {
			there = append(there, e.Name())
		}
	}
	slices.Sort(named)
	if diff := cmp.Diff(there, named); diff != "" {
		t.Errorf("rooms that are there (-) and those that doc.go names (+):\n%s", diff)
	}
}
