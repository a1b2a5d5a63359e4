package harness

import (
	"testing"

	"github.com/linstor-dev/storagecluster-operator/pkg/catalogue"
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

// EtcdCatalogue is the embedded catalogue with the version of etcd that the tests' control plane has.
func EtcdCatalogue(t testing.TB) *catalogue.Catalogue {
	t.Helper()
	c, err := catalogue.Embedded().Extend([]byte(simcluster.EtcdRelease))
	if err != nil {
		t.Fatal(err)
	}
	return c
}
