package kubebin

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestEnsureUsesACompleteAssetsDirectory(t *testing.T) {
	dir := t.TempDir()
	for _, name := range set.Names {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv(AssetsEnv, dir)
	if got, err := Ensure(t.Context(), Options{}); err != nil || got != dir {
		t.Errorf("Ensure = %q, %v, want %q", got, err, dir)
	}
}

func TestLdflagsName(t *testing.T) {
	flags := ldflags("v1.36.3")
	for _, want := range []string{"gitVersion=v1.36.3", "gitMajor=1", "gitMinor=36"} {
		if !strings.Contains(flags, "version."+want+" ") && !strings.HasSuffix(flags, "version."+want) {
			t.Errorf("flags %q lack %s", flags, want)
		}
	}
}
