package kubebin

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func fill(t *testing.T, dir string, names ...string) {
	t.Helper()
	for _, name := range names {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

func TestEnsureUsesACompleteAssetsDirectory(t *testing.T) {
	dir := t.TempDir()
	fill(t, dir, all()...)
	t.Setenv(AssetsEnv, dir)
	if got, err := Ensure(context.Background(), Options{Dir: t.TempDir()}); err != nil || got != dir {
		t.Errorf("Ensure = %q, %v, want %q", got, err, dir)
	}
}

func TestEnsurePassesOverIncompleteAssets(t *testing.T) {
	assets, own := t.TempDir(), t.TempDir()
	fill(t, assets, Etcd, APIServer, Kubectl) // what envtest downloads
	fill(t, own, all()...)
	root, err := repositoryRoot()
	if err != nil {
		t.Fatal(err)
	}
	pins, err := stamp(filepath.Join(root, "hack", "kube"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(own, stampFile), []byte(pins+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv(AssetsEnv, assets)
	if got, err := Ensure(context.Background(), Options{Dir: own}); err != nil || got != own {
		t.Errorf("Ensure = %q, %v, want %q", got, err, own)
	}
}

func TestCurrentWantsTheSamePins(t *testing.T) {
	dir := t.TempDir()
	fill(t, dir, all()...)
	if current(dir, "pins") {
		t.Error("binaries of unknown origin count as current")
	}
	if err := os.WriteFile(filepath.Join(dir, stampFile), []byte("pins\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if !current(dir, "pins") || current(dir, "other pins") {
		t.Error("current does not follow the stamp")
	}
	if err := os.Remove(filepath.Join(dir, Kwok)); err != nil {
		t.Fatal(err)
	}
	if current(dir, "pins") {
		t.Error("an incomplete directory counts as current")
	}
}

func TestStampFollowsThePins(t *testing.T) {
	module := t.TempDir()
	write := func(mod, sum string) string {
		t.Helper()
		for name, content := range map[string]string{"go.mod": mod, "go.sum": sum} {
			if err := os.WriteFile(filepath.Join(module, name), []byte(content), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		got, err := stamp(module)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	first := write("a\nb\n", "c\n")
	if first != write("a\nb\n", "c\n") {
		t.Error("the stamp is not repeatable")
	}
	if first == write("a\n", "b\nc\n") || first == write("a\nb\n", "d\n") {
		t.Error("different pins have one stamp")
	}
}

func TestInstallNamesEtcd(t *testing.T) {
	for _, built := range []string{"server", "v3", Etcd} {
		stage, dir := t.TempDir(), t.TempDir()
		fill(t, stage, built, APIServer, ControllerManager, Scheduler, Kubectl, Kwok)
		if err := install(stage, dir); err != nil || !complete(dir) {
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
}

func TestTotal(t *testing.T) {
	c := Compilation{Package: "."}
	if n, err := c.total(t.Context()); err != nil || n < 50 {
		t.Errorf("%d packages, %v", n, err)
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
