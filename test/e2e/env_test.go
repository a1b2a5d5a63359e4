// Package e2e runs the operator on the simulated cluster, feature by feature.
package e2e

import (
	"os"
	"testing"

	"github.com/linstor-dev/storagecluster-operator/test/harness"
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
	return newEnv(harness.Start(t, ns))
}

// startAlone is start for a test that looks at what all operators of this process have in common.
func startAlone(t *testing.T, ns []simcluster.NodeSpec) *env {
	t.Helper()
	return newEnv(harness.StartAlone(t, ns))
}
