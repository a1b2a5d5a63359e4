// Command diagrams writes docs/state-diagrams from the transition table.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
)

func main() {
	dir := flag.String("dir", "docs/state-diagrams", "folder to write to")
	flag.Parse()
	page := fsm.Cluster().Markdown("The states of a StorageCluster")
	if err := os.WriteFile(filepath.Join(*dir, "cluster.md"), []byte(page), 0o644); err != nil {
		fmt.Fprintln(os.Stderr, "diagrams:", err)
		os.Exit(1)
	}
}
