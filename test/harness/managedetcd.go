package harness

import (
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/linstor-dev/storagecluster-operator/pkg/catalogue"
	"github.com/linstor-dev/storagecluster-operator/test/sim"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster"
)

// EtcdNodes are nodes on which real members of etcd can run: each has an address of loopback of its own.
func EtcdNodes(t testing.TB, n int) []simcluster.NodeSpec {
	t.Helper()
	for range 100 {
		out, free := Nodes(n), true
		a, b := 1+rand.IntN(254), rand.IntN(255)
		for i := range out {
			out[i].Machine.Address = fmt.Sprintf("127.%d.%d.%d", a, b, i+1)
			free = free && isFree(out[i].Machine.Address)
		}
		if free {
			return out
		}
	}
	t.Fatal("no addresses of loopback are free")
	return nil
}

// isFree reports whether nobody has the ports of a member at an address.
func isFree(address string) bool {
	for _, port := range []string{"3379", "3380", "3381"} {
		l, err := net.Listen("tcp", net.JoinHostPort(address, port))
		if err != nil || l.Close() != nil {
			return false
		}
	}
	return true
}

// EtcdCatalogue is the embedded catalogue with the version of etcd that the tests' control plane has.
func EtcdCatalogue(t testing.TB) *catalogue.Catalogue {
	t.Helper()
	c, err := catalogue.Embedded().Extend([]byte("etcd: [{version: 3.7.0, image: \"etcd:v3.7.0\"}]"))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// OneDatabase has the simulated LINSTOR take all members of etcd on these nodes for one database, whichever of them
// its configuration names.
func OneDatabase(w *sim.World, nodes []simcluster.NodeSpec) *sim.Database {
	var all []string
	for _, n := range nodes {
		all = append(all, n.Machine.Address+":3379")
	}
	slices.Sort(all)
	db := w.Database("etcd://" + strings.Join(all, ","))
	for set := 1; set < 1<<len(all); set++ {
		var some []string
		for i, a := range all {
			if set&(1<<i) != 0 {
				some = append(some, a)
			}
		}
		sim.ServeAt(db, "etcd://"+strings.Join(some, ","))
	}
	return db
}
