// Command diagrams writes what is made from tables: the state diagrams, the page about what is remembered where, and
// alerts and dashboard.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/linstor-dev/storagecluster-operator/pkg/certificates/rotation"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/membership"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/pkg/monitoring"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/leaving"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/migrating"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/pools"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/upgrade"
	"github.com/linstor-dev/storagecluster-operator/pkg/remembered"
)

func main() {
	dir := flag.String("dir", ".", "root of the repository")
	flag.Parse()
	if err := write(*dir); err != nil {
		fmt.Fprintln(os.Stderr, "diagrams:", err)
		os.Exit(1)
	}
}

func write(dir string) error {
	all, err := pages()
	if err != nil {
		return err
	}
	for name, page := range all {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(page), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// pages are what is written, by its path in the repository.
func pages() (map[string]string, error) {
	drawn, err := picture(fsm.Cluster())
	return map[string]string{
		"docs/state-diagrams/certificates.md":    rotation.Markdown(),
		"docs/state-diagrams/cluster.md":         fsm.Cluster().Markdown("The states of a StorageCluster"),
		"docs/state-diagrams/cluster.svg":        drawn,
		"docs/state-diagrams/etcd-membership.md": membership.Markdown(),
		"docs/state-diagrams/leaving.md":         leaving.Markdown(),
		"docs/state-diagrams/pool.md":            pools.Markdown(),
		"docs/state-diagrams/restore.md":         migrating.Markdown(),
		"docs/state-diagrams/upgrade.md":         upgrade.Markdown(),
		"docs/remembered.md":                     remembered.Markdown(),
		"docs/approvals.md":                      remembered.ApprovalsMarkdown(),

		"deploy/monitoring/rules.yaml":     monitoring.RulesFile(),
		"deploy/monitoring/dashboard.yaml": monitoring.DashboardConfigMap(),
	}, err
}
