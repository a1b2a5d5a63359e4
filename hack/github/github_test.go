// Package github_test keeps what GitHub reads from .github true: GitHub itself ignores a mistake there and says
// nothing.
package github_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

const (
	root = "../.."
	// blob is where files of the repository are shown.
	blob = "https://github.com/linstor-dev/storagecluster-operator/blob/main/"
)

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// files are those in .github whose path matches, one at least.
func files(t *testing.T, pattern string) []string {
	t.Helper()
	out, err := filepath.Glob(filepath.Join(root, ".github", pattern))
	if err != nil || len(out) == 0 {
		t.Fatalf("nothing in .github matches %s: %v", pattern, err)
	}
	return out
}

// there reports whether a pattern of CODEOWNERS, from the repository's root, matches anything.
func there(pattern string) bool {
	found, err := filepath.Glob(filepath.Join(root, pattern))
	if err != nil || len(found) == 0 {
		return false
	}
	info, err := os.Stat(found[0])
	return err == nil && (info.IsDir() || !strings.HasSuffix(pattern, "/"))
}

// owners says what is wrong with the lines of CODEOWNERS.
func owners(text string) []string {
	var out []string
	for i, l := range strings.Split(text, "\n") {
		fields := strings.Fields(l)
		if len(fields) == 0 || strings.HasPrefix(l, "#") {
			continue
		}
		if p := fields[0]; p != "*" && (!strings.HasPrefix(p, "/") || !there(p)) {
			out = append(out, fmt.Sprintf("line %d: %s is no path from the root", i+1, p))
		}
		if !slices.ContainsFunc(fields[1:], func(o string) bool { return strings.HasPrefix(o, "@") }) {
			out = append(out, fmt.Sprintf("line %d: nobody owns %s", i+1, fields[0]))
		}
	}
	return out
}

func TestCodeOwners(t *testing.T) {
	for _, problem := range owners(read(t, files(t, "CODEOWNERS")[0])) {
		t.Error(problem)
	}
	got := owners("# a comment\n\n* @all\n/pkg/fsm/ @a\n/pkg/resources/claim.* @a\n/go.mod\n/pkg/gone/ @a\n/go.mod/ " +
		"@a\npkg/ @a\n")
	want := []string{
		"line 6: nobody owns /go.mod",
		"line 7: /pkg/gone/ is no path from the root",
		"line 8: /go.mod/ is no path from the root",
		"line 9: pkg/ is no path from the root",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what is wrong with a wrong file (-want +got):\n%s", diff)
	}
}

// form is an issue form, with what GitHub knows of one and the project uses.
type form struct {
	Name        string   `json:"name"`
	Description string   `json:"description"`
	Labels      []string `json:"labels"`
	Body        []struct {
		Type       string `json:"type"`
		ID         string `json:"id"`
		Attributes struct {
			Label       string `json:"label"`
			Description string `json:"description"`
			Placeholder string `json:"placeholder"`
			Render      string `json:"render"`
			Value       string `json:"value"`
		} `json:"attributes"`
		Validations struct {
			Required bool `json:"required"`
		} `json:"validations"`
	} `json:"body"`
}

// formProblems says what is wrong with an issue form. GitHub does not offer one that it cannot read.
func formProblems(text string) []string {
	var f form
	if err := yaml.UnmarshalStrict([]byte(text), &f); err != nil {
		return []string{err.Error()}
	}
	var out []string
	if f.Name == "" || f.Description == "" {
		out = append(out, "it has no name or no description")
	}
	seen := map[string]bool{}
	for i, e := range f.Body {
		switch {
		case e.Type == "markdown" && e.Attributes.Value != "":
			continue
		case e.Type != "textarea" && e.Type != "input":
			out = append(out, fmt.Sprintf("element %d: the type %q", i, e.Type))
		case e.ID == "" || seen[e.ID] || e.Attributes.Label == "":
			out = append(out, fmt.Sprintf("element %d: id %q and label %q", i, e.ID, e.Attributes.Label))
		}
		seen[e.ID] = true
	}
	if len(seen) == 0 {
		out = append(out, "it has nothing to fill in")
	}
	return out
}

func TestIssueForms(t *testing.T) {
	forms := 0
	for _, path := range files(t, "ISSUE_TEMPLATE/*") {
		if filepath.Base(path) == "config.yml" {
			continue
		}
		forms++
		for _, problem := range formProblems(read(t, path)) {
			t.Errorf("%s: %s", path, problem)
		}
	}
	if forms == 0 {
		t.Error("there is no form")
	}
	const good = "name: N\ndescription: D\nbody:\n"
	for text, want := range map[string]string{
		good + "- {type: input, id: a, attributes: {label: L}}\n":                    "",
		"name: N\nbody:\n- {type: input, id: a, attributes: {label: L}}\n":           "no description",
		good + "- {type: markdown, attributes: {value: V}}\n":                        "nothing to fill in",
		good + "- {type: text, id: a, attributes: {label: L}}\n":                     `the type "text"`,
		good + "- {type: input, attributes: {label: L}}\n":                           `id ""`,
		good + "- {type: input, id: a, attributes: {lable: L}}\n":                    "lable",
		good + "- {type: input, id: a, attributes: {label: L}\n":                     "yaml",
		good + strings.Repeat("- {type: input, id: a, attributes: {label: L}}\n", 2): "element 1",
	} {
		got := formProblems(text)
		if (len(got) == 0) != (want == "") || !strings.Contains(strings.Join(got, "\n"), want) {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

func TestContactLinks(t *testing.T) {
	var config struct {
		BlankIssuesEnabled bool `json:"blank_issues_enabled"`
		ContactLinks       []struct {
			Name  string `json:"name"`
			URL   string `json:"url"`
			About string `json:"about"`
		} `json:"contact_links"`
	}
	if err := yaml.UnmarshalStrict([]byte(read(t, files(t, "ISSUE_TEMPLATE/config.yml")[0])), &config); err != nil {
		t.Fatal(err)
	}
	if len(config.ContactLinks) == 0 {
		t.Error("there is no contact")
	}
	for _, c := range config.ContactLinks {
		if c.Name == "" || c.About == "" || !strings.HasPrefix(c.URL, "https://") {
			t.Errorf("%+v", c)
		}
	}
}

// TestLinks follows what leads to files of the repository itself, and wants the targets of make that are named.
func TestLinks(t *testing.T) {
	makefile := read(t, filepath.Join(root, "Makefile"))
	links, targets := 0, 0
	for _, path := range append(files(t, "*.md"), files(t, "ISSUE_TEMPLATE/*")...) {
		text := read(t, path)
		for _, m := range regexp.MustCompile(regexp.QuoteMeta(blob)+`([^\s#)]+)`).FindAllStringSubmatch(text, -1) {
			links++
			if !there(m[1]) {
				t.Errorf("%s: there is no %s", path, m[1])
			}
		}
		for _, m := range regexp.MustCompile("`make ([a-z ]+)`").FindAllStringSubmatch(text, -1) {
			for _, target := range strings.Fields(m[1]) {
				targets++
				if !strings.Contains(makefile, "\n"+target+":") {
					t.Errorf("%s: make has no target %s", path, target)
				}
			}
		}
	}
	if links == 0 || targets == 0 {
		t.Errorf("looked at %d links and %d targets", links, targets)
	}
}

// TestYAML: all of it is YAML, workflows included if there are any.
func TestYAML(t *testing.T) {
	looked := 0
	err := filepath.WalkDir(filepath.Join(root, ".github"), func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !slices.Contains([]string{".yml", ".yaml"}, filepath.Ext(path)) {
			return err
		}
		looked++
		var content map[string]any
		if err := yaml.UnmarshalStrict([]byte(read(t, path)), &content); err != nil || len(content) == 0 {
			t.Errorf("%s: %v, %d keys", path, err, len(content))
		}
		return nil
	})
	if err != nil || looked == 0 {
		t.Errorf("looked at %d files: %v", looked, err)
	}
}
