package docs_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestWhereToLook: pkg/README.md leads to each folder beside it.
func TestWhereToLook(t *testing.T) {
	dir := filepath.Join(root, "pkg")
	var linked, there []string
	for _, m := range link.FindAllStringSubmatch(read(t, filepath.Join(dir, "README.md")), -1) {
		if folder := strings.Split(m[1], "/")[0]; folder != ".." {
			linked = append(linked, folder)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.IsDir() {
			there = append(there, e.Name())
		}
	}
	slices.Sort(linked)
	if diff := cmp.Diff(there, slices.Compact(linked)); diff != "" {
		t.Errorf("folders of pkg (-) and those that pkg/README.md leads to (+):\n%s", diff)
	}
}
