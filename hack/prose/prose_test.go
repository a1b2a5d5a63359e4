package prose

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// marked returns an expression that matches the phrases of the style like Vale does.
func marked(t *testing.T) *regexp.Regexp {
	t.Helper()
	data, err := os.ReadFile("styles/Plain/Marked.yml")
	if err != nil {
		t.Fatal(err)
	}
	var style struct{ Tokens []string }
	if err := yaml.Unmarshal(data, &style); err != nil {
		t.Fatal(err)
	}
	if len(style.Tokens) == 0 {
		t.Fatal("styles/Plain/Marked.yml has no tokens")
	}
	return regexp.MustCompile(`(?i)\b(?:` + strings.Join(style.Tokens, "|") + `)\b`)
}

// literal returns the text of a string literal or of concatenated literals, because a phrase may span two of them. An
// operand that is not a literal becomes a space. literal marks the operands as read, so that they are reported once.
func literal(e ast.Expr, read map[ast.Expr]bool) string {
	read[e] = true
	switch e := e.(type) {
	case *ast.BasicLit:
		if s, err := strconv.Unquote(e.Value); err == nil && e.Kind == token.STRING {
			return s
		}
	case *ast.BinaryExpr:
		if e.Op == token.ADD {
			return literal(e.X, read) + literal(e.Y, read)
		}
	}
	return " "
}

// findings returns each marked phrase in the string literals of a file, with its position.
func findings(re *regexp.Regexp, name string, src any) ([]string, error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, src, 0)
	if err != nil {
		return nil, err
	}
	var out []string
	read := map[ast.Expr]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		if e, ok := n.(ast.Expr); ok && !read[e] {
			text := literal(e, read)
			if !strings.Contains(text, " ") { // a key or a tag, which stays for compatibility
				return true
			}
			for _, phrase := range re.FindAllString(text, -1) {
				out = append(out, fmt.Sprintf("%s: %q in %q", set.Position(e.Pos()), phrase, text))
			}
		}
		return true
	})
	return out, nil
}

func TestFindings(t *testing.T) {
	re := marked(t)
	for src, want := range map[string]int{
		`"the pool is made anew"`:                     1,
		`"the node goes " + "on"`:                     1,
		"`Nobody is asked`":                           2,
		`f("the pool", "is recreated")`:               0,
		`"the beginning of a line"`:                   0,
		`"anew"`:                                      0,
		`f(x + "somebody", g("whoever comes") + "x")`: 2,
	} {
		got, err := findings(re, "x.go", "package x\n\nvar _ = "+src)
		if err != nil || len(got) != want {
			t.Errorf("%s: %d findings, want %d: %q, %v", src, len(got), want, got, err)
		}
	}
}

// TestMessages reads the string literals of all code that users run. Texts in tests are for developers.
func TestMessages(t *testing.T) {
	re, read := marked(t), 0
	for _, dir := range []string{"cmd", "hack", "pkg"} {
		err := filepath.WalkDir(filepath.Join("../..", dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			got, err := findings(re, path, nil)
			for _, f := range got {
				t.Errorf("%s: say it plainly, see \"How we write\" in CONTRIBUTING.md", f)
			}
			read++
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if read < 100 {
		t.Errorf("only %d files were read", read)
	}
}
