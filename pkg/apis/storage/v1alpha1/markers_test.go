package v1alpha1

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

const crdFile = "../../../../deploy/crds/storage.linstor.dev_storageclusters.yaml"

// checkQuotes reports typographic quotes in a marker or a rule. gofmt puts them into the doc comments of types in
// place of two apostrophes or two backquotes, and the API server then refuses the whole CRD, because the rule is no
// CEL any more.
func checkQuotes(t *testing.T, where, text string) {
	t.Helper()
	if i := strings.IndexAny(text, "‘’“”"); i >= 0 {
		t.Errorf("%s has a typographic quote at %.40q: gofmt makes it of two apostrophes; compare an empty text by "+
			"size(x) == 0, "+
			`or write it with double quotes (\"\")`, where, text[i:])
	}
}

// TestMarkersKeepTheirQuotes: a rule that gofmt has rewritten compiles in Go, and fails only where the CRD is
// installed.
func TestMarkersKeepTheirQuotes(t *testing.T) {
	var files []string
	for _, pattern := range []string{"*.go", "*/*.go"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	markers := 0
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(source)) {
			if marker, found := strings.CutPrefix(strings.TrimSpace(line), "// +"); found {
				markers++
				checkQuotes(t, file+": +"+marker[:min(len(marker), 60)], marker)
			}
		}
	}
	if markers == 0 {
		t.Error("no marker was found")
	}
}

// TestRulesOfTheCRDKeepTheirQuotes looks at what is installed.
func TestRulesOfTheCRDKeepTheirQuotes(t *testing.T) {
	data, err := os.ReadFile(crdFile)
	if err != nil {
		t.Fatal(err)
	}
	var crd any
	if err := yaml.Unmarshal(data, &crd); err != nil {
		t.Fatal(err)
	}
	rules := 0
	var walk func(path string, v any)
	walk = func(path string, v any) {
		switch v := v.(type) {
		case map[string]any:
			if rule, ok := v["rule"].(string); ok && strings.HasSuffix(path, ".x-kubernetes-validations") {
				rules++
				checkQuotes(t, path+".rule", rule)
			}
			for key, value := range v {
				walk(path+"."+key, value)
			}
		case []any:
			for _, value := range v {
				walk(path, value)
			}
		}
	}
	walk("", crd)
	if rules == 0 {
		t.Error("no rule was found")
	}
}
