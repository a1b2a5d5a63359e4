// Package docs_test keeps the documents true to the code, as far as a program can tell.
package docs_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/holdkind"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/pkg/monitoring"
)

const (
	root     = ".."
	runbooks = "runbooks"
)

// otherRunbooks are pages that are about no reason.
var otherRunbooks = []string{"README.md", "remove-everything.md", "alerts"}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestEveryReasonHasItsPage(t *testing.T) {
	sections := []string{"Meaning", "Impact", "Diagnosis", "Mitigation", "How to resume"}
	index := read(t, filepath.Join(runbooks, "README.md"))
	for _, kind := range holdkind.All() {
		t.Run(string(kind.Reason), func(t *testing.T) {
			page := read(t, filepath.Join(runbooks, string(kind.Reason)+".md"))
			if !strings.HasPrefix(page, "# "+string(kind.Reason)+"\n") {
				t.Errorf("the page's title is not %q", kind.Reason)
			}
			if diff := cmp.Diff(sections, headings(page, "## ")); diff != "" {
				t.Errorf("sections (-want +got):\n%s", diff)
			}
			for _, h := range sections {
				if strings.TrimSpace(section(page, h)) == "" {
					t.Errorf("section %q is empty", h)
				}
			}
			resume := section(page, "How to resume")
			if want := fmt.Sprintf("**Class: %s.**", kind.Class); !strings.Contains(resume, want) {
				t.Errorf("How to resume does not say %s", want)
			}
			checkOptions(t, resume, page, kind)
			row := fmt.Sprintf("| [%s](%s.md) | %s | %s | %s |", kind.Reason, kind.Reason, kind.Class,
				quoted(holdkind.Answers(kind.Options)), yesNo(kind.Maintains))
			if !strings.Contains(index, row) {
				t.Errorf("the index lacks the row %s", row)
			}
		})
	}
}

// checkOptions wants each option explained and shown as a command, and no command with an option that the code would
// refuse.
func checkOptions(t *testing.T, resume, page string, kind holdkind.Kind) {
	t.Helper()
	command := "kubectl annotate storagecluster " + v1alpha1.ClusterName + " --overwrite " + v1alpha1.AnnotationResume +
		"=<hold id>:"
	for _, o := range holdkind.Answers(kind.Options) {
		if !strings.Contains(resume, "\n* `"+o+"` ") {
			t.Errorf("How to resume does not explain the option %s", o)
		}
		shown := o
		if o == v1alpha1.OptionForce || o == v1alpha1.OptionForsake { // for several members they are refused
			shown += "@<node>"
		}
		if !strings.Contains(resume, command+shown+"\n") {
			t.Errorf("How to resume lacks the command %s%s", command, shown)
		}
	}
	for _, m := range regexp.MustCompile(`<hold id>:([a-z-]+)`).FindAllStringSubmatch(page, -1) {
		if !slices.Contains(holdkind.Answers(kind.Options), m[1]) {
			t.Errorf("the page gives the option %s, which the code does not know for %s", m[1], kind.Reason)
		}
	}
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func quoted(options []string) string {
	if len(options) == 0 {
		return "none"
	}
	return "`" + strings.Join(options, "`, `") + "`"
}

func TestEveryPageHasItsReason(t *testing.T) {
	entries, err := os.ReadDir(runbooks)
	if err != nil {
		t.Fatal(err)
	}
	known := slices.Clone(otherRunbooks)
	for _, k := range holdkind.All() {
		known = append(known, string(k.Reason)+".md")
	}
	for _, e := range entries {
		if !slices.Contains(known, e.Name()) {
			t.Errorf("%s/%s is about a reason that the code does not have", runbooks, e.Name())
		}
	}
}

func TestConditionsAndPhasesAreDescribed(t *testing.T) {
	page := read(t, "conditions-and-events.md")
	for _, c := range conditions.Types() {
		if !strings.Contains(page, "| `"+c+"` |") {
			t.Errorf("conditions-and-events.md has no row for the condition %s", c)
		}
	}
	for _, s := range fsm.Cluster().States {
		if !strings.Contains(page, "`"+string(s.State)+"`") {
			t.Errorf("conditions-and-events.md does not name the phase %s", s.State)
		}
	}
}

func TestMetricsAreDescribed(t *testing.T) {
	page := read(t, "conditions-and-events.md")
	name := regexp.MustCompile(`"(storagecluster_[a-z_]+)"`)
	inCode := name.FindAllStringSubmatch(read(t, filepath.Join(root, "pkg", "metrics", "metrics.go")), -1)
	if len(inCode) == 0 {
		t.Fatal("no metric found in pkg/metrics")
	}
	for _, m := range inCode {
		if !strings.Contains(page, "`"+m[1]+"`") {
			t.Errorf("conditions-and-events.md does not describe the metric %s", m[1])
		}
	}
}

// TestValuesAreDescribed: the API reference, which is made from comments, says what each value of an enumeration
// means.
func TestValuesAreDescribed(t *testing.T) {
	values := 0
	for _, m := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\| ?(.*?) ?\\|$").FindAllStringSubmatch(read(t,
		"api-reference.md"), -1) {
		values++
		if strings.TrimSpace(m[2]) == "" {
			t.Errorf("api-reference.md does not say what %s means: write a comment at its constant", m[1])
		}
	}
	if values < len(holdkind.All()) {
		t.Errorf("looked at %d values only", values)
	}
}

// TestEveryAlertHasItsPage: each alert has a page with the four sections and a row in the index, and each page an
// alert.
func TestEveryAlertHasItsPage(t *testing.T) {
	dir := filepath.Join(runbooks, "alerts")
	index := read(t, filepath.Join(dir, "README.md"))
	sections := []string{"Meaning", "Impact", "Diagnosis", "Mitigation"}
	known := []string{"README.md"}
	for _, g := range monitoring.Groups() {
		for i := range g.Alerts {
			a := &g.Alerts[i]
			known = append(known, a.Name+".md")
			page := read(t, filepath.Join(dir, a.Name+".md"))
			if !strings.HasPrefix(page, "# "+a.Name+"\n") {
				t.Errorf("%s: the page's title is another one", a.Name)
			}
			if diff := cmp.Diff(sections, headings(page, "## ")); diff != "" {
				t.Errorf("%s: sections (-want +got):\n%s", a.Name, diff)
			}
			for _, h := range sections {
				if strings.TrimSpace(section(page, h)) == "" {
					t.Errorf("%s: section %q is empty", a.Name, h)
				}
			}
			row := fmt.Sprintf("| [%s](%s.md) | %s | %s | ", a.Name, a.Name, a.Severity, monitoring.Duration(a.For))
			if !strings.Contains(index, row) {
				t.Errorf("the index lacks the row %s", row)
			}
			path := "docs/runbooks/alerts/" + a.Name + ".md"
			if url := a.Runbook(); !strings.HasSuffix(url, "/blob/main/"+path) {
				t.Errorf("%s leads to %s, and its page is %s", a.Name, url, path)
			}
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !slices.Contains(known, e.Name()) {
			t.Errorf("%s/%s is about an alert that the code does not have", dir, e.Name())
		}
	}
}

var (
	link = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	code = regexp.MustCompile("`[^`\n]*`")
)

// pages are all Markdown files of the repository.
func pages(t *testing.T) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "node_modules" || strings.HasPrefix(d.Name(), ".") && path != root) {
			return filepath.SkipDir
		}
		if !d.IsDir() && filepath.Ext(path) == ".md" {
			out = append(out, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if least := len(holdkind.All()); len(out) <= least {
		t.Errorf("looked at %d files only: the walk missed some", len(out))
	}
	return out
}

// TestLinks follows every relative link, with its anchor, in all Markdown files of the repository.
func TestLinks(t *testing.T) {
	for _, path := range pages(t) {
		for _, m := range link.FindAllStringSubmatch(prose(read(t, path)), -1) {
			if why := broken(t, path, m[1]); why != "" {
				t.Errorf("%s: link to %s: %s", path, m[1], why)
			}
		}
	}
}

// TestLinesFit: prose and lists are readable in a terminal. Tables and code cannot be broken; what is generated is as
// it is.
func TestLinesFit(t *testing.T) {
	generated := regexp.MustCompile(`docs/(api-reference\.md|remembered\.md|state-diagrams/.*)$`)
	for _, path := range pages(t) {
		if generated.MatchString(filepath.ToSlash(path)) {
			continue
		}
		fenced := false
		for i, l := range strings.Split(read(t, path), "\n") {
			text := strings.TrimSpace(l)
			if strings.HasPrefix(text, "```") {
				fenced = !fenced
			} else if n := utf8.RuneCountInString(l); n >= 120 && !fenced && !strings.HasPrefix(text, "|") {
				t.Errorf("%s:%d has %d characters, 119 at most", path, i+1, n)
			}
		}
	}
}

// broken says what is wrong with a link; "" if nothing is. Links to other hosts are not followed.
func broken(t *testing.T, from, target string) string {
	t.Helper()
	if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
		return ""
	}
	file, anchor, _ := strings.Cut(target, "#")
	path := from
	if file != "" {
		path = filepath.Join(filepath.Dir(from), file)
	}
	info, err := os.Stat(path)
	if err != nil {
		return "there is no such file"
	}
	if anchor == "" || info.IsDir() || filepath.Ext(path) != ".md" {
		return ""
	}
	if !slices.Contains(anchors(read(t, path)), anchor) {
		return "there is no such heading"
	}
	return ""
}

// prose is a page without its code.
func prose(page string) string {
	var out []string
	fenced := false
	for _, l := range strings.Split(page, "\n") {
		if strings.HasPrefix(strings.TrimSpace(l), "```") {
			fenced = !fenced
			continue
		}
		if !fenced {
			out = append(out, code.ReplaceAllString(l, ""))
		}
	}
	return strings.Join(out, "\n")
}

var notInAnchor = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)

// anchors are the names by which a page's headings can be linked to, as GitHub makes them.
func anchors(page string) []string {
	var out []string
	fenced := false
	for _, l := range strings.Split(page, "\n") {
		if strings.HasPrefix(strings.TrimSpace(l), "```") {
			fenced = !fenced
		}
		text := strings.TrimLeft(l, "#")
		if fenced || text == l || !strings.HasPrefix(text, " ") {
			continue
		}
		name := notInAnchor.ReplaceAllString(strings.ToLower(strings.TrimSpace(text)), "")
		out = append(out, strings.ReplaceAll(name, " ", "-"))
	}
	return out
}

func headings(page, prefix string) []string {
	var out []string
	for _, l := range strings.Split(page, "\n") {
		if text, ok := strings.CutPrefix(l, prefix); ok {
			out = append(out, text)
		}
	}
	return out
}

// section is the text between a heading of the second level and the next one.
func section(page, heading string) string {
	_, rest, _ := strings.Cut(page, "\n## "+heading+"\n")
	body, _, _ := strings.Cut(rest, "\n## ")
	return body
}
