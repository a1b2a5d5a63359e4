// Package programs provides the programs of a real node: containerd with its shim and ctr, the CNI plugins, kubelet
// and kube-proxy. They are built once, from the Go modules below hack/node. runc is the distribution's.
package programs

import (
	"context"
	"strings"

	"github.com/linstor-dev/storagecluster-operator/test/simcluster/gobin"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster/kubebin"
)

// Names of the binaries in a complete directory.
const (
	Containerd = "containerd"
	Shim       = "containerd-shim-runc-v2"
	Ctr        = "ctr"
	Kubelet    = "kubelet"
	KubeProxy  = "kube-proxy"
)

// AssetsEnv names the environment variable of a directory with ready binaries. It is used when it holds all of them.
const AssetsEnv = "NODE_ASSETS"

const runtimeModule = "hack/node/runtime"

var set = gobin.Set{
	What:    "the programs of real nodes",
	Names:   []string{Containerd, Shim, Ctr, "bridge", "loopback", "host-local", Kubelet, KubeProxy},
	Env:     AssetsEnv,
	Dir:     "node",
	Modules: []string{runtimeModule, "hack/node/kubelet"},
	Flags:   flags,
	Static:  true,
	Takes:   "about 10 minutes on 2 cores",
}

// flags give kubelet and kube-proxy their version, which the Node object shows.
func flags(ctx context.Context, module string) ([]string, string, error) {
	if strings.HasSuffix(module, runtimeModule) {
		return []string{"-ldflags", "-s -w"}, "containerd, CNI plugins", nil
	}
	return kubebin.Flags(ctx, module)
}

// Ensure returns a directory that holds all binaries, after building what is missing; see [gobin.Set.Ensure].
func Ensure(ctx context.Context) (string, error) { return set.Ensure(ctx, gobin.Options{}) }
