package gobin

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// programs is a set as that of the control plane.
var programs = Set{
	What:    "the programs",
	Names:   []string{"etcd", "kube-apiserver", "kubectl"},
	Built:   map[string][]string{"etcd": {"server", "v3"}},
	Env:     "GOBIN_TEST_ASSETS",
	Dir:     "programs",
	Modules: []string{"test/first", "test/second"},
}

func fill(t *testing.T, dir string, names ...string) {
	t.Helper()
	for _, name := range names {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

// pins makes a repository with the set's modules and works in it.
func pins(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for _, module := range programs.Modules {
		write(t, filepath.Join(root, module, "go.mod"), "module x\n")
		write(t, filepath.Join(root, module, "go.sum"), "")
	}
	inside := filepath.Join(root, "test", "first")
	t.Chdir(inside)
	return root
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestEnsureUsesACompleteAssetsDirectory(t *testing.T) {
	dir := t.TempDir()
	fill(t, dir, programs.Names...)
	t.Setenv(programs.Env, dir)
	if got, err := programs.Ensure(t.Context(), Options{}); err != nil || got != dir {
		t.Errorf("Ensure = %q, %v, want %q", got, err, dir)
	}
}

func TestEnsurePassesOverIncompleteAssets(t *testing.T) {
	root := pins(t)
	assets, cache := t.TempDir(), t.TempDir()
	fill(t, assets, "etcd", "kubectl")
	t.Setenv("XDG_CACHE_HOME", cache)
	own, err := programs.keptIn(root)
	if err != nil || !strings.HasPrefix(own, filepath.Join(cache, "storagecluster-operator", programs.Dir+"-")) {
		t.Fatalf("the programs are kept in %s, %v", own, err)
	}
	if err := os.MkdirAll(own, 0o755); err != nil {
		t.Fatal(err)
	}
	fill(t, own, programs.Names...)
	t.Setenv(programs.Env, assets)
	if got, err := programs.Ensure(t.Context(), Options{}); err != nil || got != own {
		t.Errorf("Ensure = %q, %v, want %q", got, err, own)
	}
}

func TestComplete(t *testing.T) {
	dir := t.TempDir()
	fill(t, dir, programs.Names...)
	if !programs.Complete(dir) {
		t.Error("a directory with all binaries is not complete")
	}
	if err := os.Remove(filepath.Join(dir, "kubectl")); err != nil {
		t.Fatal(err)
	}
	if programs.Complete(dir) {
		t.Error("a directory without kubectl counts as complete")
	}
}

func TestStampFollowsThePins(t *testing.T) {
	root := pins(t)
	with := func(module, mod, sum string) string {
		t.Helper()
		write(t, filepath.Join(root, module, "go.mod"), mod)
		write(t, filepath.Join(root, module, "go.sum"), sum)
		got, err := programs.stamp(root)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	first := with("test/first", "a\nb\n", "c\n")
	if first != with("test/first", "a\nb\n", "c\n") {
		t.Error("the stamp is not repeatable")
	}
	if first == with("test/first", "a\n", "b\nc\n") || first == with("test/first", "a\nb\n", "d\n") {
		t.Error("different pins have one stamp")
	}
	with("test/first", "a\nb\n", "c\n")
	if first == with("test/second", "a\n", "") {
		t.Error("the second module's pins do not count")
	}
}

func TestOutsideOfTheRepository(t *testing.T) {
	t.Chdir(t.TempDir())
	if _, err := programs.Ensure(t.Context(), Options{}); err == nil || !strings.Contains(err.Error(), programs.Env) {
		t.Errorf("the error is %v", err)
	}
}

func TestInstallRenames(t *testing.T) {
	for _, built := range []string{"server", "v3", "etcd"} {
		stage, dir := t.TempDir(), t.TempDir()
		fill(t, stage, built, "kube-apiserver", "kubectl")
		if err := programs.install(stage, dir); err != nil || !programs.Complete(dir) {
			t.Errorf("etcd built as %s: %v", built, err)
		}
	}
}

func TestCountPackagesKeepsComplaints(t *testing.T) {
	p := progress{total: 2795}
	out := "k8s.io/api/core/v1\nk8s.io/kubernetes/cmd/kubectl\n# k8s.io/kubernetes/cmd/kubectl\n./main.go:3:1: syntax " +
		"error\n"
	tail := p.count(bytes.NewBufferString(out))
	if p.packages.Load() != 2 || !strings.Contains(tail, "syntax error") || strings.Contains(tail, "core/v1") {
		t.Errorf("%d packages, complaints %q", p.packages.Load(), tail)
	}
	if got, want := p.line(75*time.Second), "    75 s: 2 of about 2795 packages compiled"; got != want {
		t.Errorf("progress is %q, want %q", got, want)
	}
	p.packages.Store(559) // of five parts one
	if got, want := p.line(75*time.Second),
		"    75 s: 559 of about 2795 packages compiled, about 5 min left"; got != want {
		t.Errorf("progress is %q, want %q", got, want)
	}
}

func TestTotal(t *testing.T) {
	c := Compilation{Package: "."}
	if n, err := c.total(t.Context()); err != nil || n < 50 {
		t.Errorf("%d packages, %v", n, err)
	}
}
