// Package kubebin provides the binaries of the test control plane: etcd, kube-apiserver, kube-controller-manager,
// kube-scheduler, kubectl and kwok. They are built from the Go modules that hack/kube/go.mod pins, once, and kept.
package kubebin

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Names of the binaries in a complete directory.
const (
	Etcd              = "etcd"
	APIServer         = "kube-apiserver"
	ControllerManager = "kube-controller-manager"
	Scheduler         = "kube-scheduler"
	Kubectl           = "kubectl"
	Kwok              = "kwok"
)

// AssetsEnv names the environment variable of a directory with ready binaries. It is used when it holds all of them;
// the usual envtest download, which lacks the controller manager, is passed over.
const AssetsEnv = "KUBEBUILDER_ASSETS"

// stampFile records which pinned modules a directory was built from.
const stampFile = "built-from"

// Options says where to look and where to build.
type Options struct {
	// Dir is where binaries are built and kept. Default: .cache/kube below the repository's root, which is searched
	// upwards from the working directory.
	Dir string
	// Log receives progress of a build. Default: os.Stderr.
	Log io.Writer
}

// Ensure returns a directory that holds all binaries: AssetsEnv's when it is complete, else Options.Dir, after
// building there whatever is absent or was built from other versions. Concurrent calls, in other processes too, build
// once.
func Ensure(ctx context.Context, o Options) (string, error) {
	if dir := os.Getenv(AssetsEnv); dir != "" && complete(dir) {
		return dir, nil
	}
	root, err := repositoryRoot()
	if err != nil {
		return "", err
	}
	if o.Dir == "" {
		o.Dir = filepath.Join(root, ".cache", "kube")
	}
	if o.Log == nil {
		o.Log = os.Stderr
	}
	module := filepath.Join(root, "hack", "kube")
	want, err := stamp(module)
	if err != nil {
		return "", err
	}
	if current(o.Dir, want) {
		return o.Dir, nil
	}
	if err := os.MkdirAll(o.Dir, 0o755); err != nil {
		return "", fmt.Errorf("create the directory of the control plane's binaries: %w", err)
	}
	unlock, err := lock(filepath.Join(o.Dir, "lock"))
	if err != nil {
		return "", err
	}
	defer unlock()
	if current(o.Dir, want) { // built by another process while this one waited for the lock
		return o.Dir, nil
	}
	if err := build(ctx, module, o.Dir, o.Log); err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(o.Dir, stampFile), []byte(want+"\n"), 0o644); err != nil {
		return "", fmt.Errorf("record what the control plane was built from: %w", err)
	}
	return o.Dir, nil
}

func all() []string {
	return []string{Etcd, APIServer, ControllerManager, Scheduler, Kubectl, Kwok}
}

func complete(dir string) bool {
	for _, name := range all() {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.IsDir() || info.Mode()&0o111 == 0 {
			return false
		}
	}
	return true
}

func current(dir, want string) bool {
	got, err := os.ReadFile(filepath.Join(dir, stampFile))
	return err == nil && strings.TrimSpace(string(got)) == want && complete(dir)
}

// stamp is a hash over the pins; the files' names go in too, so that moving lines between them changes it.
func stamp(module string) (string, error) {
	sum := sha256.New()
	for _, name := range []string{"go.mod", "go.sum"} {
		content, err := os.ReadFile(filepath.Join(module, name))
		if err != nil {
			return "", fmt.Errorf("read the pinned versions of the control plane: %w", err)
		}
		fmt.Fprintf(sum, "%s %d\n", name, len(content))
		sum.Write(content)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// repositoryRoot is the nearest directory, from the working directory upwards, that has hack/kube/go.mod.
func repositoryRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the repository: %w", err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "hack", "kube", "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "",
				errors.New("hack/kube/go.mod is in no parent of the working directory: run inside the repository, or set " +
					AssetsEnv + " to a directory with " + strings.Join(all(), ", "))
		}
		dir = parent
	}
}

// lock takes an advisory lock that the kernel drops when the process ends.
func lock(path string) (func(), error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open the build's lock: %w", err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX); err != nil {
		return nil, errors.Join(fmt.Errorf("take the build's lock: %w", err), file.Close())
	}
	return func() { _ = file.Close() }, nil
}
