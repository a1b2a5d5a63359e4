// Package budget measures how large packages, files and types of the tree are. What outgrows its limit is to be split
// while that is still easy. How complex functions may be is golangci-lint's to say (.golangci.yaml).
package budget

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// Limits are the largest sizes that are allowed. Lines are counted as an editor shows them, comments included.
type Limits struct {
	// PackageLines bounds all files of a package together, without tests.
	PackageLines int
	// FileLines bounds one file, tests included.
	FileLines int
	// TypeMethods bounds what is declared on one type, in all files of its package; embedded methods do not count.
	TypeMethods int
}

// sizes is what was counted, each by what a finding calls it.
type sizes struct {
	packages, files, types map[string]int
}

// Check returns one line for each package, file and type of the tree that is larger than allowed, in order. Generated
// files do not count, neither does what Go itself leaves out: testdata, and directories that begin with a dot or an
// underscore.
func Check(tree fs.FS, limits Limits) ([]string, error) {
	found := sizes{packages: map[string]int{}, files: map[string]int{}, types: map[string]int{}}
	err := fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != "." && ignored(d.Name()):
			return fs.SkipDir
		case d.IsDir() || path.Ext(name) != ".go":
			return nil
		}
		return found.add(tree, name)
	})
	if err != nil {
		return nil, err
	}
	out := over(found.packages, limits.PackageLines, "non-test lines")
	out = append(out, over(found.files, limits.FileLines, "lines")...)
	out = append(out, over(found.types, limits.TypeMethods, "methods")...)
	slices.Sort(out)
	return out, nil
}

// ignored reports whether Go leaves out a directory of this name.
func ignored(name string) bool {
	return name == "testdata" || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_")
}

// add counts one file. The name of its package's directory stands for the package.
func (s *sizes) add(tree fs.FS, name string) error {
	src, err := fs.ReadFile(tree, name)
	if err != nil {
		return err
	}
	file, err := parser.ParseFile(token.NewFileSet(), name, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	if ast.IsGenerated(file) {
		return nil
	}
	lines := bytes.Count(src, []byte("\n"))
	s.files[name] = lines
	dir := path.Dir(name)
	if !isTest(name) {
		s.packages[dir] += lines
	}
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Recv != nil {
			// Tests in a package of their own may have a type of the same name.
			s.types[fmt.Sprintf("%s: %s.%s", dir, file.Name.Name, receiver(f.Recv.List[0].Type))]++
		}
	}
	return nil
}

// isTest reports whether a file is test code: by its name, or because it lies in the tree's folder of test code.
func isTest(name string) bool {
	return strings.HasSuffix(name, "_test.go") || strings.HasPrefix(name, "test/")
}

// receiver is the name of a receiver's type, without pointer and type parameters.
func receiver(e ast.Expr) string {
	switch t := e.(type) {
	case *ast.StarExpr:
		return receiver(t.X)
	case *ast.IndexExpr:
		return receiver(t.X)
	case *ast.IndexListExpr:
		return receiver(t.X)
	case *ast.Ident:
		return t.Name
	}
	return fmt.Sprintf("%T", e)
}

// over lists what is larger than the limit.
func over(sizes map[string]int, limit int, unit string) []string {
	var out []string
	for name, n := range sizes {
		if n > limit {
			out = append(out, fmt.Sprintf("%s has %d %s, %d at most", name, n, unit, limit))
		}
	}
	return out
}
