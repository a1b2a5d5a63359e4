// Command bundle writes the bundle with which OLM installs the operator, and what must be there before it, from the
// manifests below deploy/, so that no way to install the operator can come to differ from another.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

const (
	// Directory is where all of it lies, from the repository's root: the bundle itself below bundle.
	Directory = "deploy/olm"
	// Prerequisites is the file there with all that the bundle does not carry.
	Prerequisites = "prerequisites.yaml"
	// Version is the file of the bundle that describes this version of the operator to OLM.
	Version = "bundle/manifests/storagecluster-operator.clusterserviceversion.yaml"
)

func main() {
	root := flag.String("dir", ".", "root of the repository")
	flag.Parse()
	if err := write(*root); err != nil {
		fmt.Fprintln(os.Stderr, "bundle:", err)
		os.Exit(1)
	}
}

// write replaces what is generated in the bundle's directory: a file of an object that is gone goes as well.
func write(root string) error {
	files, err := generate(os.DirFS(root))
	if err != nil {
		return err
	}
	dir := filepath.Join(root, Directory)
	objects := filepath.Join(dir, "bundle", "manifests")
	if err := os.RemoveAll(objects); err != nil {
		return err
	}
	if err := os.MkdirAll(objects, 0o755); err != nil { //nolint:gosec // a directory of the repository
		return err
	}
	for name, text := range files {
		//nolint:gosec // a file of the repository
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// head is what generated files begin with.
func head(sources ...string) string {
	return fmt.Sprintf("# Generated from %s by `make generate`; do not edit.\n", strings.Join(sources, " and "))
}
