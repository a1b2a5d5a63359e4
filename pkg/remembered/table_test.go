package remembered_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/remembered"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
)

// listed are the keys of the table.
func listed(t *testing.T) (all map[string]bool) {
	t.Helper()
	all = map[string]bool{}
	for _, p := range remembered.Places() {
		here := map[string]bool{}
		for _, i := range p.Items {
			for _, key := range strings.Split(i.Key, ", ") {
				if here[key] || i.Keeps == "" || i.Writer == "" || i.Ends == "" {
					t.Errorf("%s: twice, or not told in full", key)
				}
				all[key], here[key] = true, true
			}
		}
	}
	return all
}

// sources are the Go files of a directory and those below it, without tests.
func sources(t *testing.T, dir string) (files []string) {
	t.Helper()
	if err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") && !strings.Contains(path, "clustertest") {
			files = append(files, path)
		}
		return err
	}); err != nil || len(files) == 0 {
		t.Fatal(dir, files, err)
	}
	return files
}

// What decisions read and the page does not name, nobody can look up.
func TestTheTableIsComplete(t *testing.T) {
	table := listed(t)
	for key := range resources.Claim("linstor", resources.ClaimData{}).Data {
		if !table[key] {
			t.Errorf("the claim's %s is not in the table", key)
		}
	}
	for _, key := range []string{linstor.PropNodeUID, linstor.PropKeys} {
		if !table[key] {
			t.Errorf("%s is not in the table", key)
		}
	}
	every := regexp.MustCompile("")
	marks := regexp.MustCompile("^(Annotation|Label|Finalizer)")
	for _, tc := range []struct {
		dir, prefix string
		name        *regexp.Regexp
		least       int
	}{
		{".", linstor.AuxPrefix, every, 20},
		{"../apis/storage/v1alpha1", v1alpha1.Prefix, marks, 8},
		{"../resources", v1alpha1.Prefix, marks, 6},
	} {
		keys := 0
		for _, file := range sources(t, tc.dir) {
			for name, word := range constants(t, file) {
				if !tc.name.MatchString(name) {
					continue
				}
				if keys++; !table[tc.prefix+word] {
					t.Errorf("%s: %s (%s) is not in the table", file, name, tc.prefix+word)
				}
			}
		}
		if keys < tc.least {
			t.Errorf("%s: only %d keys were looked at", tc.dir, keys)
		}
	}
}

// constants are those of a file that are made from a prefix and a word, with the word.
func constants(t *testing.T, file string) map[string]string {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	ast.Inspect(f, func(n ast.Node) bool {
		if v, ok := n.(*ast.ValueSpec); ok && len(v.Values) == 1 {
			if sum, ok := v.Values[0].(*ast.BinaryExpr); ok {
				if word, ok := sum.Y.(*ast.BasicLit); ok {
					out[v.Names[0].Name] = strings.Trim(word.Value, `"`)
				}
			}
		}
		return true
	})
	return out
}

// Who decides on a field of the status decides on what an earlier process has written.
func TestFieldsOfTheStatusThatAreReadAreListed(t *testing.T) {
	table, found := listed(t), 0
	lower := func(s string) string { return strings.ToLower(s[:1]) + s[1:] }
	read := regexp.MustCompile(`Cluster\.Status\.([A-Z]\w+)(?:\.([A-Z]\w+))?`)
	for _, dir := range []string{"../cluster", "../observe", "../phases"} {
		for _, file := range sources(t, dir) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range read.FindAllStringSubmatch(string(text), -1) {
				field := lower(m[1])
				if field == "nodes" && m[2] != "" {
					field += "." + lower(m[2])
				}
				if found++; !table[field] && field != "pools" { // of the pools a part is taken first
					t.Errorf("%s: status.%s is not in the table", file, field)
				}
			}
		}
	}
	if found < 30 {
		t.Errorf("only %d fields were looked at", found)
	}
}

func TestThePageIsMadeFromTheTable(t *testing.T) {
	have, err := os.ReadFile("../../docs/remembered.md")
	if err != nil {
		t.Fatal(err)
	}
	if string(have) != remembered.Markdown() {
		t.Error("docs/remembered.md is out of date: run `make generate`")
	}
	for i, line := range strings.Split(remembered.Markdown(), "\n") {
		if len(line) > 119 {
			t.Errorf("line %d has %d characters", i+1, len(line))
		}
	}
}
