// Package e2e runs the operator on the simulated cluster, feature by feature.
package e2e

import (
	"os"
	"testing"
	"time"

	"github.com/linstor-dev/storagecluster-operator/test/harness"
	"github.com/linstor-dev/storagecluster-operator/test/machine"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(m)) }

// env is a test's cluster, with what these tests have in common besides. What is about holds, about pools and their
// disks, and about nodes is in types of their own, each of which has what those before it have.
type (
	holdEnv struct{ *harness.Env }
	poolEnv struct{ holdEnv }
	nodeEnv struct{ poolEnv }
	env     struct{ nodeEnv }
)

func newEnv(e *harness.Env) *env { return &env{nodeEnv{poolEnv{holdEnv{e}}}} }

// start brings up a cluster for a test that runs beside others; see [harness.Start].
func start(t *testing.T, ns []simcluster.NodeSpec) *env {
	t.Helper()
	return readyOfAll(newEnv(harness.Start(t, ns)))
}

// startAlone is start for a test that looks at what all operators of this process have in common.
func startAlone(t *testing.T, ns []simcluster.NodeSpec) *env {
	t.Helper()
	return readyOfAll(newEnv(harness.StartAlone(t, ns)))
}

// startWithDriver is start with the real sidecars of a CSI driver; see [harness.StartWithDriver].
func startWithDriver(t *testing.T, ns []simcluster.NodeSpec) *env {
	t.Helper()
	return readyOfAll(newEnv(harness.StartWithDriver(t, ns)))
}

// startReady is start with a cluster that is Ready already; see [harness.StartReady].
func startReady(t *testing.T, nodes int, spec string) *env {
	t.Helper()
	return readyOfAll(newEnv(harness.StartReady(t, nodes, spec)))
}

// readyOfAll makes Ready mean that all nodes are there, however slow one of them is on a busy machine: a test counts
// nodes and pools, or puts a volume on any of them. A test about nodes that lag behind sets its own time.
func readyOfAll(e *env) *env {
	e.Timing.Straggler = machine.Slow(time.Minute)
	return e
}
