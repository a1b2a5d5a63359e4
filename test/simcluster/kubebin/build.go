package kubebin

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// build compiles the module's tools into dir. Everything is first written beside dir's files, so that a build that is
// interrupted leaves no half-written binary under a final name.
func build(ctx context.Context, module, dir string, log io.Writer) error {
	version, err := kubernetesVersion(ctx, module)
	if err != nil {
		return err
	}
	stage, err := os.MkdirTemp(dir, "building-")
	if err != nil {
		return fmt.Errorf("create the build's directory: %w", err)
	}
	defer func() { _ = os.RemoveAll(stage) }()

	fmt.Fprintf(log, "Building the test control plane (Kubernetes %s, etcd, kwok) into %s: about 7 minutes on 2 cores, "+
		"once.\n", version, dir)
	started := time.Now()
	c := Compilation{Dir: module, Package: "tool", Out: stage + string(filepath.Separator),
		Flags: []string{"-trimpath", "-ldflags", ldflags(version)}, Log: log}
	if err := c.Run(ctx); err != nil {
		return fmt.Errorf("build the control plane in %s: %w", module, err)
	}
	if err := install(stage, dir); err != nil {
		return err
	}
	fmt.Fprintf(log, "Built the test control plane in %s.\n", time.Since(started).Round(time.Second))
	return nil
}

// install renames the built files into dir. etcd's package path ends in server/v3, so its binary is called "server"
// (or "v3" with Go tools that do not drop the version suffix).
func install(stage, dir string) error {
	for _, name := range all() {
		from := filepath.Join(stage, name)
		if name == Etcd {
			from = firstExisting(filepath.Join(stage, "server"), filepath.Join(stage, "v3"), from)
		}
		if err := os.Rename(from, filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("install %s: %w", name, err)
		}
	}
	return nil
}

func firstExisting(paths ...string) string {
	for _, path := range paths {
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	return paths[len(paths)-1]
}

func kubernetesVersion(ctx context.Context, module string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Version}}", "k8s.io/kubernetes")
	cmd.Dir = module
	cmd.Env = append(os.Environ(), "GOWORK=off")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("ask which Kubernetes version is pinned in %s: %w: %s", module, err, stderr.String())
	}
	return strings.TrimSpace(string(out)), nil
}

// ldflags gives the binaries their version: without it kube-apiserver calls itself v0.0.0-master, and discovery,
// version checks and "kubectl version" show nonsense.
func ldflags(version string) string {
	const pkg = "k8s.io/component-base/version."
	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	flags := []string{"-s", "-w", "-X", pkg + "gitVersion=" + version, "-X", pkg + "gitTreeState=clean"}
	if len(parts) == 3 {
		flags = append(flags, "-X", pkg+"gitMajor="+parts[0], "-X", pkg+"gitMinor="+parts[1])
	}
	return strings.Join(flags, " ")
}
