package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/holdkind"
)

// reasonInCode finds reasons of conditions, Events and problems where the code names them: a constant, a field, or the
// argument of what makes evidence or an outcome.
var reasonInCode = regexp.MustCompile(
	`(?:\b[rR]eason\w*\s*=|\bReason:|\.(?:Because|Wait)\()\s*"([A-Z][A-Za-z]+)"`)

// reasons are all reasons that the operator may say, with a file that names each.
func reasons(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(filepath.Join(root, "pkg"), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		// The plugin's reasons are those of clusters that it makes up for its tests.
		if d.IsDir() && (d.Name() == "plugin" || d.Name() == "testdata") {
			return filepath.SkipDir
		}
		if d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		for _, m := range reasonInCode.FindAllStringSubmatch(string(text), -1) {
			out[m[1]] = path
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestMessagesAreFound: whoever searches the documentation for a condition or a reason finds a page.
func TestMessagesAreFound(t *testing.T) {
	words := map[string]bool{}
	word := regexp.MustCompile(`[A-Za-z]+`)
	for _, path := range pages(t) {
		if dir := filepath.ToSlash(filepath.Dir(path)); dir != "." && !strings.HasPrefix(dir, "../docs") {
			continue
		}
		for _, w := range word.FindAllString(read(t, path), -1) {
			words[w] = true
		}
	}
	for _, c := range conditions.Types() {
		if !words[c] {
			t.Errorf("no page has the condition %s", c)
		}
	}
	for _, k := range holdkind.All() {
		if !words[string(k.Reason)] {
			t.Errorf("no page has the hold %s", k.Reason)
		}
	}
	found := reasons(t)
	for reason, file := range found {
		if !words[reason] {
			t.Errorf("no page has the reason %s of %s: describe it in conditions-and-events.md", reason, file)
		}
	}
	for _, known := range []string{"NodeRestored", "ClaimMissing", "Deregistering", "AsExpected"} {
		if found[known] == "" {
			t.Errorf("reason %s was not found in the code: the search misses some", known)
		}
	}
}
