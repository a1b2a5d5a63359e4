package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const changelog = `# Changelog

## [Unreleased]

### Added

- new

## [0.2.0] - 2026-01-02

- second

## [0.1.0] - 2026-01-01
`

func TestNotes(t *testing.T) {
	for version, want := range map[string]string{"v0.2.0": "- second", "v0.1.0": "", "v0.3.0": "",
		"v0.3.0-rc.1": "### Added\n\n- new", "v0.2.00": ""} {
		if got := notes(changelog, version); got != want {
			t.Errorf("%s: %q, want %q", version, got, want)
		}
	}
}

// TestComplete: what is missing is named, with the variable that gives it.
func TestComplete(t *testing.T) {
	good := about{Version: "v0.2.0", Registry: "ghcr.io/linstor-dev", Notes: "x"}
	for want, change := range map[string]func(*about){
		"":                                     func(*about) {},
		`not "0.2.0": set VERSION=`:            func(a *about) { a.Version = "0.2.0" },
		`not "v0.2.0-dirty": set VERSION=`:     func(a *about) { a.Version = "v0.2.0-dirty" },
		`not "v01.2.0": set VERSION=`:          func(a *about) { a.Version = "v01.2.0" },
		`not "": set REGISTRY=`:                func(a *about) { a.Registry = "" },
		`not "https://ghcr.io": set REGISTRY=`: func(a *about) { a.Registry = "https://ghcr.io" },
		"CHANGELOG.md has no [0.2.0] section":  func(a *about) { a.Notes = "" },
		"CHANGELOG.md has no [Unreleased":      func(a *about) { a.Version, a.Notes = "v0.2.0-rc.1", "" },
	} {
		a := good
		change(&a)
		err := a.complete()
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestClean: nothing is released that is in no commit.
func TestClean(t *testing.T) {
	dir := t.TempDir()
	for _, args := range [][]string{{"init", "-q"}, {"-c", "user.name=x", "-c", "user.email=x@example.com", "commit",
		"-q", "--allow-empty", "-m", "first"}, {"tag", "v0.1.0"}, {"tag", "v0.2.0"}} {
		if out, err := exec.Command("git", append([]string{"-C", dir}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	if err := clean(t.Context(), dir, "v0.2.0"); err != nil {
		t.Error(err)
	}
	if err := clean(t.Context(), dir, "v0.3.0"); err == nil || !strings.Contains(err.Error(), "has no tag v0.3.0") {
		t.Errorf("%v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "new.go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := clean(t.Context(), dir, "v0.2.0"); err == nil || !strings.Contains(err.Error(), "new.go") {
		t.Errorf("%v", err)
	}
}
