// Package helm runs Helm itself for tests, as users of the chart do.
package helm

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/linstor-dev/storagecluster-operator/test/inputs"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster/gobin"
)

const program = "helm"

var set = gobin.Set{
	What:    "Helm",
	Names:   []string{program},
	Env:     "HELM_ASSETS",
	Dir:     "helm",
	Modules: []string{"hack/helm"},
	Takes:   "about 2 minutes on 2 cores",
}

// Ensure returns a directory that holds Helm's binary, after building it if need be; see [gobin.Set.Ensure].
func Ensure(ctx context.Context, o gobin.Options) (string, error) { return set.Ensure(ctx, o) }

// Helm is Helm's program with settings of its own, so that it does not meet the user's.
type Helm struct{ binary, home, kubeconfig string }

// New returns a Helm that keeps its files in a directory, and works on the cluster of a kubeconfig; "" for none.
func New(ctx context.Context, home, kubeconfig string) (*Helm, error) {
	dir, err := Ensure(ctx, gobin.Options{})
	if err != nil {
		return nil, err
	}
	return &Helm{binary: filepath.Join(dir, program), home: home, kubeconfig: kubeconfig}, nil
}

// Run runs Helm and returns what it prints on standard output. Its error has what it prints on standard error.
func (h *Helm) Run(ctx context.Context, args ...string) (string, error) {
	inputs.DeclareArguments(args)
	cmd := exec.CommandContext(ctx, h.binary, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+h.kubeconfig, "HOME="+h.home,
		"HELM_CACHE_HOME="+filepath.Join(h.home, "cache"), "HELM_CONFIG_HOME="+filepath.Join(h.home, "config"),
		"HELM_DATA_HOME="+filepath.Join(h.home, "data"))
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("helm %s: %w: %s", strings.Join(args, " "), err,
			strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}
