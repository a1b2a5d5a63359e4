package main

import (
	"io/fs"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

const root = "../.."

func TestPlan(t *testing.T) {
	const module = "example.com/m/"
	packages := []goPackage{
		{ImportPath: module + "docs", Dir: "docs"},
		{ImportPath: module + "pkg/fsm", Dir: "pkg/fsm"},
		{ImportPath: module + "pkg/phases", Dir: "pkg/phases", Imports: []string{module + "pkg/fsm"}},
		{ImportPath: module + "pkg/status", Dir: "pkg/status", TestImports: []string{module + "pkg/phases"}},
		{ImportPath: module + "pkg/operator", Dir: "pkg/operator", Imports: []string{module + "pkg/status"}},
		{ImportPath: module + "pkg/text", Dir: "pkg/text"},
		{ImportPath: module + "test/e2e", Dir: "test/e2e", TestImports: []string{module + "pkg/operator"}},
		{ImportPath: module + "test/crd", Dir: "test/crd"},
		{ImportPath: module + "test/model", Dir: "test/model", TestImports: []string{module + "pkg/phases"}},
	}
	tree := fstest.MapFS{
		"test/e2e/install_test.go":  {Data: []byte("func TestInstall(t *testing.T) {\nfunc helper(t *testing.T) {\n")},
		"test/e2e/drift_test.go":    {Data: []byte("func TestDrift(t *testing.T) {\nfunc TestOther(t *testing.T) {\n")},
		"test/e2e/describe_test.go": {Data: []byte("func TestDescribe(t *testing.T) {\n")},
		"test/e2e/truth_test.go":    {},
		"test/e2e/volumes_test.go":  {},
		"test/e2e/rbac_test.go":     {},
		"test/e2e/samples_test.go":  {},
		"test/e2e/env_test.go":      {Data: []byte("func start(t *testing.T) {\n")},
	}
	for name, c := range map[string]struct {
		files []string
		want  plan
	}{
		"a page": {[]string{"docs/how-to/upgrade.md"},
			plan{changed: []string{"./docs"}, affected: []string{"./docs"}, unit: []string{"./docs"}}},
		"a package that others import": {[]string{"pkg/fsm/transitions.go"}, plan{
			changed:  []string{"./pkg/fsm"},
			affected: []string{"./pkg/fsm", "./pkg/phases", "./pkg/status", "./test/model"},
			unit:     []string{"./pkg/fsm", "./pkg/phases", "./pkg/status"},
			suites:   []string{"./test/model"},
			e2e:      []string{"TestDrift", "TestInstall", "TestOther"},
		}},
		"testdata of a package": {[]string{"pkg/text/testdata/a/b.golden"}, plan{
			changed: []string{"./pkg/text"}, affected: []string{"./pkg/text"}, unit: []string{"./pkg/text"},
			e2e: []string{"TestDrift", "TestInstall", "TestOther"},
		}},
		"a unit test": {[]string{"pkg/fsm/fsm_test.go"}, plan{
			changed: []string{"./pkg/fsm"}, affected: []string{"./pkg/fsm"}, unit: []string{"./pkg/fsm"}}},
		"two packages with a row each": {[]string{"pkg/status/a.go", "deploy/crds/x.yaml"}, plan{
			changed:  []string{"./pkg/status"},
			affected: []string{"./pkg/status", "./pkg/operator", "./test/e2e"},
			unit:     []string{"./pkg/status", "./pkg/operator"},
			suites:   []string{"./test/crd"},
			e2e:      []string{"TestDescribe"},
		}},
		"an end-to-end test": {[]string{"test/e2e/drift_test.go"}, plan{
			changed: []string{"./test/e2e"}, affected: []string{"./test/e2e"}, e2e: []string{"TestDrift", "TestOther"}}},
		"what end-to-end tests share": {[]string{"test/e2e/env_test.go"}, plan{
			changed: []string{"./test/e2e"}, affected: []string{"./test/e2e"}, e2e: []string{"TestInstall"}}},
		"an end-to-end test that is gone": {[]string{"test/e2e/gone_test.go"}, plan{
			changed: []string{"./test/e2e"}, affected: []string{"./test/e2e"}, e2e: []string{"TestInstall"}}},
		"a suite": {[]string{"test/crd/a_test.go"}, plan{
			changed: []string{"./test/crd"}, affected: []string{"./test/crd"}, suites: []string{"./test/crd"}}},
		"a file without a package": {[]string{"README.md"}, plan{}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := newPlan(c.files, packages, tree)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(plan{})); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
	t.Run("go.mod", func(t *testing.T) {
		got, err := newPlan([]string{"go.mod"}, packages, tree)
		if err != nil || len(got.affected) != len(packages) {
			t.Errorf("%d packages are affected (%v), want all %d", len(got.affected), err, len(packages))
		}
	})
}

// The tables name directories and files that are there.
func TestAreas(t *testing.T) {
	tree := os.DirFS(root)
	for _, table := range []map[string][]string{areas, suites} {
		for dir := range table {
			if _, err := fs.Stat(tree, dir); err != nil {
				t.Errorf("hack/check/areas.go has a row for %s: %v", dir, err)
			}
		}
	}
	for dir, patterns := range areas {
		if tests, err := testsMatching(patterns, tree); err != nil || len(tests) == 0 {
			t.Errorf("row %s: %d tests: %v", dir, len(tests), err)
		}
	}
	for dir, packages := range suites {
		for _, name := range packages {
			if _, err := fs.Stat(tree, strings.TrimSuffix(strings.TrimPrefix(name, "./"), "/...")); err != nil {
				t.Errorf("row %s: %v", dir, err)
			}
		}
	}
}
