// Command chart writes the templates of the Helm chart that are made from the manifests below deploy/, so that the two
// ways to install the operator cannot come to differ.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

// Directory is where the chart lies, from the repository's root.
const Directory = "charts/storagecluster-operator"

func main() {
	root := flag.String("dir", ".", "root of the repository")
	flag.Parse()
	if err := write(*root); err != nil {
		fmt.Fprintln(os.Stderr, "chart:", err)
		os.Exit(1)
	}
}

func write(root string) error {
	for _, t := range templates() {
		source, err := os.ReadFile(filepath.Join(root, t.source))
		if err != nil {
			return err
		}
		text, err := t.make(string(source))
		if err != nil {
			return fmt.Errorf("%s: %w", t.source, err)
		}
		file := filepath.Join(root, Directory, "templates", t.name)
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil { //nolint:gosec // a file of the repository
			return err
		}
	}
	return nil
}
