// Package kubebin provides the binaries of the test control plane: etcd, kube-apiserver, kube-controller-manager,
// kube-scheduler, kubectl and kwok. They are built from the Go modules that hack/kube/go.mod pins, once, and kept.
package kubebin

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/linstor-dev/storagecluster-operator/test/simcluster/gobin"
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

// Options says where to build.
type Options = gobin.Options

// set is the control plane's binaries.
var set = gobin.Set{
	What:    "the test control plane",
	Names:   []string{Etcd, APIServer, ControllerManager, Scheduler, Kubectl, Kwok},
	Built:   map[string][]string{Etcd: {"server", "v3"}}, // its package's path ends in server/v3
	Env:     AssetsEnv,
	Dir:     "kube",
	Modules: []string{"hack/kube"},
	Flags:   Flags,
	Takes:   "about 7 minutes on 2 cores",
}

// Ensure returns a directory that holds all binaries, after building what is absent; see [gobin.Set.Ensure].
func Ensure(ctx context.Context, o Options) (string, error) { return set.Ensure(ctx, o) }

// Flags are those of "go build" for a module with programs of Kubernetes, and what they are.
func Flags(ctx context.Context, module string) ([]string, string, error) {
	version, err := kubernetesVersion(ctx, module)
	if err != nil {
		return nil, "", err
	}
	return []string{"-ldflags", ldflags(version)}, "Kubernetes " + version, nil
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
