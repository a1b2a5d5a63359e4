// Command crd takes out of the CustomResourceDefinition what controller-gen writes into it and no marker prevents.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// file is the CustomResourceDefinition, from the repository's root.
const file = "deploy/crds/storage.linstor.dev_storageclusters.yaml"

func main() {
	root := flag.String("dir", ".", "root of the repository")
	flag.Parse()
	if err := rewrite(filepath.Join(*root, file)); err != nil {
		fmt.Fprintln(os.Stderr, "crd:", err)
		os.Exit(1)
	}
}

func rewrite(name string) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	out, err := withoutPatterns(string(text))
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return os.WriteFile(name, []byte(out), 0o644) //nolint:gosec // a file of the repository
}

// amount is how controller-gen writes a quantity that is a map's value, up to its pattern, without indentation.
var amount = []string{"additionalProperties:", "anyOf:", "- type: integer", "- type: string", "pattern: ^("}

// withoutPatterns removes the pattern of quantities in maps. Who writes 1GB would be shown the pattern, and no rule
// would be looked at any more; the rules of ResourceAmounts refuse the same, and say in words what is wrong. Other
// quantities keep theirs: they are in the status, which nobody writes by hand.
func withoutPatterns(text string) (string, error) {
	var out []string
	removed := 0
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if isPattern(lines[max(0, i+1-len(amount)) : i+1]) {
			removed++
			continue
		}
		out = append(out, line)
	}
	if removed == 0 {
		return "", errors.New("no map of quantities has a pattern: did the output of controller-gen change?")
	}
	return strings.Join(out, "\n"), nil
}

// isPattern reports whether the last of these lines is the pattern of a quantity in a map.
func isPattern(lines []string) bool {
	return slices.EqualFunc(lines, amount, func(line, want string) bool {
		return strings.HasPrefix(strings.TrimSpace(line), want)
	})
}
