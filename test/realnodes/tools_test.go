package realnodes

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/yaml"
	"mvdan.cc/sh/v3/syntax"
)

// TestScriptTools lists the programs that the operator's shell scripts call, by image. An image without one of them
// breaks the script, which says so only in the log of a container: check the image before you add a program.
func TestScriptTools(t *testing.T) {
	want := map[string]string{
		"drbd-shutdown-guard": "/usr/local/sbin/drbd-shutdown-guard",
		"drbd9":               "ln readlink sleep",
		"piraeus-server": "/usr/share/linstor-server/bin/linstor-database blkid cat dd drbdsetup find grep head lsblk lvs " +
			"mkdir od pvs rm sed sha256sum sleep sort sync tail tee timeout tr vgs zfs zpool",
	}
	got := scriptTools(t)
	for _, image := range slices.Sorted(maps.Keys(got)) {
		if tools := strings.Join(got[image], " "); tools != want[image] {
			t.Errorf("scripts in the image %s call %q, expected %q", image, tools, want[image])
		}
		delete(want, image)
	}
	for image := range want {
		t.Errorf("no script runs in the image %s", image)
	}
}

// scriptTools are the programs that scripts in the operator's manifests call, sorted, by the name of the image.
func scriptTools(t testing.TB) map[string][]string {
	t.Helper()
	files, err := filepath.Glob("../../pkg/resources/testdata/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no manifests: %v", err)
	}
	found := map[string]map[string]bool{}
	for _, name := range files {
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for documents := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096); ; {
			var document map[string]any
			if err := documents.Decode(&document); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			eachScript(document, func(image, script string) {
				if found[image] == nil {
					found[image] = map[string]bool{}
				}
				if err := addTools(found[image], script); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			})
		}
	}
	out := map[string][]string{}
	for image, tools := range found {
		out[image] = slices.Sorted(maps.Keys(tools))
	}
	return out
}

// eachScript calls f for each shell script among the containers that a document contains at any depth. All module
// loaders' images count as one.
func eachScript(value any, f func(image, script string)) {
	switch v := value.(type) {
	case []any:
		for _, item := range v {
			eachScript(item, f)
		}
	case map[string]any:
		for _, item := range v {
			eachScript(item, f)
		}
		full, isContainer := v["image"].(string)
		command, isCommand := v["command"].([]any)
		if !isContainer || !isCommand || len(command) < 3 || command[1] != "-c" {
			return
		}
		script, _ := command[2].(string)
		image, _, _ := strings.Cut(path.Base(full), ":")
		if strings.HasPrefix(image, "drbd9-") {
			image = "drbd9"
		}
		f(image, script)
	}
}

// builtins are the commands of a POSIX shell itself.
var builtins = strings.Fields(". : [ break case cd command continue echo eval exec exit export false getopts kill " +
	"local printf read readonly return set shift test times trap true type ulimit umask unset wait")

// runners run what their arguments say: exec, and a function of the scripts.
var runners = []string{"exec", "limited"}

// addTools adds the programs that a script calls.
func addTools(tools map[string]bool, script string) error {
	file, err := syntax.NewParser(syntax.Variant(syntax.LangPOSIX)).Parse(strings.NewReader(script), "")
	if err != nil {
		return err
	}
	own := map[string]bool{"": true} // functions, and what is not known before the script runs
	syntax.Walk(file, func(n syntax.Node) bool {
		if f, ok := n.(*syntax.FuncDecl); ok {
			own[f.Name.Value] = true
		}
		return true
	})
	syntax.Walk(file, func(n syntax.Node) bool {
		call, ok := n.(*syntax.CallExpr)
		if !ok {
			return true
		}
		for _, word := range call.Args {
			name := word.Lit()
			if !own[name] && !slices.Contains(builtins, name) {
				tools[name] = true
			}
			if !slices.Contains(runners, name) {
				break
			}
		}
		return true
	})
	return nil
}
