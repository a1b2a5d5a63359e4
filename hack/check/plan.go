package main

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
)

// goPackage is what "go list" says of a package.
type goPackage struct {
	ImportPath string
	// Dir is relative to the repository, with slashes.
	Dir                                string
	Imports, TestImports, XTestImports []string
}

// plan is what a change makes worth checking. Packages are "./dir", ready for the go command.
type plan struct {
	// changed are the packages that changed files belong to, affected those and all that import them.
	changed, affected []string
	// unit are the affected packages whose tests need no cluster, suites further ones to test.
	unit, suites []string
	// e2e are tests of test/e2e, chaos those of test/chaos.
	e2e, chaos []string
}

// Directories of the tests that are run one by one.
const (
	e2eDir   = "test/e2e"
	chaosDir = "test/chaos"
)

// everywhere are files that decide about every package.
var everywhere = []string{"go.mod", "go.sum"}

// newPlan says what to check after these files changed.
func newPlan(files []string, packages []goPackage, tree fs.FS) (plan, error) {
	var p plan
	changed, tests := touched(files, packages)
	p.addPackages(packages, changed, tests)
	for _, file := range files {
		if err := p.addTestsOf(file, tree); err != nil {
			return plan{}, err
		}
	}
	for _, list := range []*[]string{&p.suites, &p.e2e, &p.chaos} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	return p, nil
}

// touched are the import paths of the packages that the files belong to: changed, or with changed tests only.
func touched(files []string, packages []goPackage) (changed, tests map[string]bool) {
	byDir := map[string]string{}
	for _, pkg := range packages {
		byDir[pkg.Dir] = pkg.ImportPath
	}
	changed, tests = map[string]bool{}, map[string]bool{}
	for _, file := range files {
		name, found := byDir[packageDir(path.Dir(file), byDir)]
		switch {
		case slices.Contains(everywhere, file):
			for _, pkg := range packages {
				changed[pkg.ImportPath] = true
			}
		case found && strings.HasSuffix(file, "_test.go"):
			tests[name] = true
		case found:
			changed[name] = true
		}
	}
	return changed, tests
}

// addPackages adds what is to be built, vetted and tested as a whole.
func (p *plan) addPackages(packages []goPackage, changed, tests map[string]bool) {
	affected := importers(changed, packages)
	for _, pkg := range packages {
		dir := "./" + pkg.Dir
		touched := changed[pkg.ImportPath] || tests[pkg.ImportPath]
		if touched {
			p.changed = append(p.changed, dir)
			if !unit(pkg.Dir) && pkg.Dir != e2eDir && pkg.Dir != chaosDir {
				p.suites = append(p.suites, dir)
			}
		}
		if touched || affected[pkg.ImportPath] {
			p.affected = append(p.affected, dir)
			if unit(pkg.Dir) {
				p.unit = append(p.unit, dir)
			}
		}
	}
}

// addTestsOf adds the single tests that a changed file asks for: its own, and those of its area. What all tests of
// test/e2e share is in files without tests: one test shows whether it still works.
func (p *plan) addTestsOf(file string, tree fs.FS) error {
	dir := path.Dir(file)
	if !strings.HasSuffix(file, "_test.go") {
		p.suites = append(p.suites, row(suites, dir)...)
		tests, err := testsMatching(row(areas, dir), tree)
		p.e2e = append(p.e2e, tests...)
		return err
	}
	if dir != e2eDir && dir != chaosDir {
		return nil
	}
	tests, err := testsIn(tree, file)
	switch {
	case dir == chaosDir:
		p.chaos = append(p.chaos, tests...)
	case len(tests) == 0:
		p.e2e = append(p.e2e, "TestInstall")
	default:
		p.e2e = append(p.e2e, tests...)
	}
	return err
}

// packageDir is the directory of the package that a file in dir belongs to: the nearest one that has a package.
func packageDir(dir string, byDir map[string]string) string {
	for ; dir != "." && dir != "/"; dir = path.Dir(dir) {
		if _, ok := byDir[dir]; ok {
			return dir
		}
	}
	return dir
}

// unit reports whether the tests of a package need no cluster, as "make test-unit" has it.
func unit(dir string) bool {
	return dir == "test/sim" || !strings.HasPrefix(dir, "test/") && !strings.HasPrefix(dir, "cmd/")
}

// importers are the packages of the set and all that import them, however indirectly. Only what a package itself
// imports is passed on, not what its tests do.
func importers(set map[string]bool, packages []goPackage) map[string]bool {
	built := map[string]bool{} // what is compiled anew
	for name := range set {
		built[name] = true
	}
	for grown := true; grown; {
		grown = false
		for _, pkg := range packages {
			if !built[pkg.ImportPath] && slices.ContainsFunc(pkg.Imports, func(i string) bool { return built[i] }) {
				built[pkg.ImportPath], grown = true, true
			}
		}
	}
	all := map[string]bool{}
	for _, pkg := range packages {
		tests := slices.Concat(pkg.TestImports, pkg.XTestImports)
		if built[pkg.ImportPath] || slices.ContainsFunc(tests, func(i string) bool { return built[i] }) {
			all[pkg.ImportPath] = true
		}
	}
	return all
}

// testsMatching are the tests in the files of test/e2e that match one of the patterns.
func testsMatching(patterns []string, tree fs.FS) ([]string, error) {
	var out []string
	for _, pattern := range patterns {
		files, err := fs.Glob(tree, e2eDir+"/"+pattern+"_test.go")
		if err != nil {
			return nil, fmt.Errorf("hack/check/areas.go: pattern %s: %w", pattern, err)
		}
		if len(files) == 0 {
			return nil, fmt.Errorf("hack/check/areas.go: no file of %s matches %s_test.go", e2eDir, pattern)
		}
		for _, file := range files {
			tests, err := testsIn(tree, file)
			if err != nil {
				return nil, err
			}
			out = append(out, tests...)
		}
	}
	return out, nil
}

var testFunction = regexp.MustCompile(`(?m)^func (Test\w+)\(\w+ \*testing\.T\)`)

// testsIn are the tests in a file; none if it is gone.
func testsIn(tree fs.FS, file string) ([]string, error) {
	if !strings.HasSuffix(file, "_test.go") {
		return nil, nil
	}
	content, err := fs.ReadFile(tree, file)
	if errors.Is(err, fs.ErrNotExist) { // the change deleted it
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("find the tests of a file: %w", err)
	}
	var out []string
	for _, match := range testFunction.FindAllSubmatch(content, -1) {
		out = append(out, string(match[1]))
	}
	return out, nil
}
