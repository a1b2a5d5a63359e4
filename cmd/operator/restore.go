package main

import (
	"fmt"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/linstor-dev/storagecluster-operator/pkg/restore/load"
)

// fetchBackup gets the export of a backup from the store.
func fetchBackup(config string) error {
	c, err := load.ParseConfig(config)
	if err != nil {
		return fmt.Errorf("--fetch-backup: %w", err)
	}
	return load.Fetch(ctrl.SetupSignalHandler(), c)
}

// checkImport fails unless LINSTOR's database holds what the backup does. In a pod it leaves a note for the operator.
func checkImport(config string) error {
	c, err := load.ParseConfig(config)
	if err != nil {
		return fmt.Errorf("--check-import: %w", err)
	}
	result, err := load.Check(c)
	if err != nil {
		return err
	}
	return report(result)
}

// checkMove fails unless both databases hold the same data. In a pod it leaves a note for the operator.
func checkMove(config string) error {
	m, err := load.ParseMove(config)
	if err != nil {
		return fmt.Errorf("--check-move: %w", err)
	}
	moved, err := m.Check()
	if err != nil {
		return err
	}
	return report(moved)
}
