package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

// TestRepository: the site of this repository can be made, with every page in the navigation.
func TestRepository(t *testing.T) {
	dir := t.TempDir()
	if err := run(filepath.Join("..", ".."), dir); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"mkdocs.yml", "docs/README.md", "docs/reference/v1alpha1.md", "docs/security.md",
		"docs/state-diagrams/cluster.svg", "docs/runbooks/alerts/README.md"} {
		if _, err := os.Stat(filepath.Join(dir, filepath.FromSlash(name))); err != nil {
			t.Error(err)
		}
	}
	config, err := os.ReadFile(filepath.Join(dir, "mkdocs.yml"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(config), "- runbooks/README.md\n") ||
		!strings.Contains(string(config), "- runbooks/DeviceNotEmpty.md\n") {
		t.Error("the navigation does not list the runbooks")
	}
	// What was there before does not stay.
	old := filepath.Join(dir, "docs", "old.md")
	if err := os.WriteFile(old, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run(filepath.Join("..", ".."), dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(old); err == nil {
		t.Error("a page that is gone is still in the site")
	}
}

// tree is a small repository.
func tree() fstest.MapFS {
	files := fstest.MapFS{}
	for name, text := range map[string]string{
		config: "site_name: x\n",
		navigation: "- Home: README.md\n- Runbooks: runbooks/\n- a/\n- Far: https://example.com\n- Rest:\n" +
			"  - reference/v1alpha1.md\n  - changelog.md\n  - contributing.md\n  - security.md\n",
		"CHANGELOG.md":            "[docs](docs/README.md)",
		"CONTRIBUTING.md":         "",
		"SECURITY.md":             "",
		"deploy/x.yaml":           "",
		"docs/README.md":          "",
		"docs/api-reference.md":   "",
		"docs/a/README.md":        "",
		"docs/a/page.md":          "",
		"docs/a/page.svg":         "<svg/>",
		"docs/runbooks/README.md": "",
		"docs/runbooks/A.md":      "",
		"docs/a_test.go":          "",
	} {
		files[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return files
}

func TestNavigation(t *testing.T) {
	s, err := newSite(tree())
	if err != nil {
		t.Fatal(err)
	}
	want := `site_name: x
nav:
- Home: README.md
- Runbooks:
  - runbooks/README.md
  - runbooks/A.md
- a/README.md
- a/page.md
- Far: https://example.com
- Rest:
  - reference/v1alpha1.md
  - changelog.md
  - contributing.md
  - security.md
`
	if diff := cmp.Diff(want, string(s.config)); diff != "" {
		t.Errorf("configuration (-want +got):\n%s", diff)
	}
	for change, want := range map[string]string{
		"- README.md\n":    "README.md is listed twice",
		"- gone.md\n":      "page gone.md does not exist",
		"- X: {}\n":        "X: map[] is not a page",
		"- X: [gone.md]\n": "X: page gone.md does not exist",
		"- 3\n":            "3 is neither a page nor a section",
	} {
		files := tree()
		files[navigation].Data = append(files[navigation].Data, change...)
		if _, err := newSite(files); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", change, err, want)
		}
	}
	files := tree()
	files["docs/new.md"] = &fstest.MapFile{}
	if _, err := newSite(files); err == nil || !strings.Contains(err.Error(), "page new.md is not listed") {
		t.Errorf("a page that is not in the navigation: %v", err)
	}
}

func TestLinks(t *testing.T) {
	const blob, dirs = repository + "blob/main/", repository + "tree/main/"
	for text, want := range map[string]string{
		"[a](../README.md#x)":                       "[a](../README.md#x)",
		"[a](page.md), ![b](page.svg)":              "[a](page.md), ![b](page.svg)",
		"[a](#x) [b](https://example.com/y.md)":     "[a](#x) [b](https://example.com/y.md)",
		"[a](../api-reference.md#kind)":             "[a](../reference/v1alpha1.md#kind)",
		"[a](../../SECURITY.md)":                    "[a](../security.md)",
		"[a](../../deploy/x.yaml)":                  "[a](" + blob + "deploy/x.yaml)",
		"[a](../../deploy)":                         "[a](" + dirs + "deploy)",
		"[a](../runbooks)":                          "[a](../runbooks/README.md)",
		"`[a](gone.md)` and [`b`](page.md)":         "`[a](gone.md)` and [`b`](page.md)",
		"```\n[a](gone.md)\n```\n[a](../../deploy)": "```\n[a](gone.md)\n```\n[a](" + dirs + "deploy)",
		"```mermaid\nA --> B\n```\nText":            "![Diagram](page.svg)\nText",
	} {
		files := tree()
		files["docs/a/page.md"].Data = []byte(text)
		s, err := newSite(files)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if diff := cmp.Diff(want, string(s.files["a/page.md"])); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	}
	for text, want := range map[string]string{
		"[a](gone.md)":               "docs/a/README.md: link to gone.md: the file does not exist",
		"```mermaid\nA --> B\n```\n": "docs/a/README.md: browsers can render this diagram only",
	} {
		files := tree()
		files["docs/a/README.md"].Data = []byte(text)
		if _, err := newSite(files); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
	s, err := newSite(tree())
	if err != nil {
		t.Fatal(err)
	}
	if got := string(s.files["changelog.md"]); got != "[docs](README.md)" {
		t.Errorf("the changelog's link: %s", got)
	}
}

// TestLists: in the site a list is indented as Python's Markdown reads it.
func TestLists(t *testing.T) {
	for text, want := range map[string]string{
		"Text:\n* one\n* two\n":                                 "Text:\n\n* one\n* two\n",
		"* one\n  goes on\nlazily\n\n  again\n\nText":           "* one\n    goes on\n    lazily\n\n    again\n\nText",
		"1. one\n   * two\n     more\n2. three":                 "1. one\n    * two\n        more\n2. three",
		"1. one:\n\n   ```sh\n   a\n     b\n\n   ```\n\n2. two": "1. one:\n\n    ```sh\n    a\n      b\n\n    ```\n\n2. two",
		"* one\n## Two\nText":                                   "* one\n## Two\nText",
		"* one\n\n      code\n":                                 "* one\n\n        code\n",
		"```\n* no list\n  of ours\n```":                        "```\n* no list\n  of ours\n```",
		"100. one\n     goes on":                                "100. one\n     goes on",
	} {
		var l lists
		var got []string
		for _, line := range strings.Split(text, "\n") {
			got = append(got, l.next(line)...)
		}
		if diff := cmp.Diff(want, strings.Join(got, "\n")); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	}
}
