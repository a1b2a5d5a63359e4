// Command diagrams writes the pages of docs that are made from tables: the state diagrams and what is remembered
// where.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/leaving"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/pools"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/upgrade"
	"github.com/linstor-dev/storagecluster-operator/pkg/remembered"
)

func main() {
	dir := flag.String("dir", "docs", "folder to write to")
	flag.Parse()
	for name, page := range pages() {
		if err := os.WriteFile(filepath.Join(*dir, name), []byte(page), 0o644); err != nil {
			fmt.Fprintln(os.Stderr, "diagrams:", err)
			os.Exit(1)
		}
	}
}

// pages are what is written, by its path below docs.
func pages() map[string]string {
	return map[string]string{
		"state-diagrams/cluster.md": fsm.Cluster().Markdown("The states of a StorageCluster"),
		"state-diagrams/leaving.md": leaving.Markdown(),
		"state-diagrams/pool.md":    pools.Markdown(),
		"state-diagrams/upgrade.md": upgrade.Markdown(),
		"remembered.md":             remembered.Markdown(),
	}
}
