package harness

import (
	"testing"

	"github.com/linstor-dev/storagecluster-operator/pkg/catalogue"
	"github.com/linstor-dev/storagecluster-operator/test/sim"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster"
)

// EtcdNodes are nodes on which real members of etcd can run.
func EtcdNodes(t testing.TB, n int) []simcluster.NodeSpec {
	t.Helper()
	out := Nodes(n)
	if err := simcluster.EtcdAddresses(out); err != nil {
		t.Fatal(err)
	}
	return out
}

// UseEtcd has the operator know the version of etcd that the tests' control plane has, and the simulated LINSTOR take
// all members on these nodes for one database.
func (e *Env) UseEtcd(nodes []simcluster.NodeSpec) *sim.Database {
	e.T.Helper()
	var err error
	if e.Catalogue, err = catalogue.Embedded().Extend([]byte(simcluster.EtcdRelease)); err != nil {
		e.T.Fatal(err)
	}
	return simcluster.OneEtcd(e.Sim.World(), nodes)
}
