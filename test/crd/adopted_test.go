package crd

import (
	"path/filepath"
	"testing"
)

// TestPlannedManifests: what "kubectl linstor adopt --plan" makes of an installation of Piraeus can be applied.
func TestPlannedManifests(t *testing.T) {
	files, err := filepath.Glob("../../pkg/plugin/adopt/testdata/storagecluster-*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files: %v", len(files), err)
	}
	for _, file := range files {
		kubectl(t, "", "apply", "--dry-run=server", "--server-side", "-f", file)
	}
}
