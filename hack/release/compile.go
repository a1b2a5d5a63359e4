package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Programs of a release, by their directories below cmd.
const (
	operator = "operator"
	plugin   = "kubectl-linstor"
)

// target is a program for a platform, by Go's names.
type target struct{ Program, OS, Arch string }

// name is how its files are called.
func (t target) name() string { return fmt.Sprintf("%s_%s_%s", t.Program, t.OS, t.Arch) }

// binary is the name of the program's file.
func (t target) binary() string {
	if t.OS == "windows" {
		return t.Program + ".exe"
	}
	return t.Program
}

// targets are all of a release: the operator's are those of its image.
func targets() []target {
	return []target{
		{operator, "linux", "amd64"},
		{operator, "linux", "arm64"},
		{plugin, "linux", "amd64"},
		{plugin, "linux", "arm64"},
		{plugin, "darwin", "amd64"},
		{plugin, "darwin", "arm64"},
		{plugin, "windows", "amd64"},
	}
}

// compile builds a program. Paths and the build's own identifier are left out of it, so that it is the same wherever
// and whenever it is built.
func compile(ctx context.Context, root, version string, t target, to string) error {
	to, err := filepath.Abs(to)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false",
		"-ldflags", "-s -w -buildid= -X main.version="+version, "-o", to, "./cmd/"+t.Program)
	cmd.Dir, cmd.Stdout, cmd.Stderr = root, os.Stderr, os.Stderr
	// What the user has set for Go, in variables and by "go env -w", must not get into the programs.
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=readonly", "GOEXPERIMENT=none", "GOFIPS140=off",
		"CGO_ENABLED=0", "GOOS="+t.OS, "GOARCH="+t.Arch, "GOAMD64=v1", "GOARM64=v8.0")
	fmt.Fprintf(os.Stderr, "building %s\n", t.name())
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("build %s: %w", t.name(), err)
	}
	return nil
}
