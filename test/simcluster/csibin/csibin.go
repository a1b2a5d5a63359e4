// Package csibin provides the programs of Kubernetes' storage project that run beside a CSI driver, and csi-sanity,
// which judges one. They are built from the Go modules that hack/csi pins, once, and kept.
package csibin

import (
	"context"

	"github.com/linstor-dev/storagecluster-operator/test/simcluster/gobin"
)

// Names of the binaries in a complete directory.
const (
	Provisioner        = "csi-provisioner"
	Attacher           = "csi-attacher"
	Resizer            = "csi-resizer"
	Snapshotter        = "csi-snapshotter"
	SnapshotController = "snapshot-controller"
	Sanity             = "csi-sanity"
)

// AssetsEnv names the environment variable of a directory with ready binaries. It is used when it holds all of them.
const AssetsEnv = "CSI_ASSETS"

// Options says where to build.
type Options = gobin.Options

// set is the binaries. The provisioner needs other releases of Kubernetes' libraries than the rest, hence a module of
// its own.
var set = gobin.Set{
	What:    "the CSI programs of the tests",
	Names:   []string{Provisioner, Attacher, Resizer, Snapshotter, SnapshotController, Sanity},
	Env:     AssetsEnv,
	Dir:     "csi",
	Modules: []string{"hack/csi", "hack/csi/provisioner"},
	Takes:   "about 4 minutes on 2 cores",
}

// Ensure returns a directory that holds all binaries, after building what is absent; see [gobin.Set.Ensure].
func Ensure(ctx context.Context, o Options) (string, error) { return set.Ensure(ctx, o) }

// Find returns the directory that Ensure returns, and whether all binaries are there already.
func Find() (dir string, complete bool, err error) { return set.Find() }
