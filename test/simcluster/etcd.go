package simcluster

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"

	"github.com/linstor-dev/storagecluster-operator/test/sim"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster/kubelet"
)

// EtcdRelease extends a catalogue with the version of etcd that the control plane has: members are of it, too.
const EtcdRelease = `etcd: [{version: 3.7.0, image: "etcd:v3.7.0"}]`

// LoseEtcd kills the member of etcd on a node, and takes its data away, as a new disk would.
func LoseEtcd(c *Cluster, node string) error { return kubelet.LoseEtcd(c.driver, node) }

// KillEtcd kills the member of etcd on a node. It is started again.
func KillEtcd(c *Cluster, node string) { kubelet.KillEtcd(c.driver, node) }

// EtcdSnapshots is the directory with the snapshots of the member on a node.
func EtcdSnapshots(c *Cluster, node string) string { return kubelet.EtcdSnapshots(c.driver, node) }

// EtcdAddresses gives nodes addresses on which real members of etcd can run: each one of loopback, of its own.
func EtcdAddresses(nodes []NodeSpec) error {
	for range 100 {
		free := true
		a, b := 1+rand.IntN(254), rand.IntN(255)
		for i := range nodes {
			nodes[i].Machine.Address = fmt.Sprintf("127.%d.%d.%d", a, b, i+1)
			free = free && isFree(nodes[i].Machine.Address)
		}
		if free {
			return nil
		}
	}
	return errors.New("no addresses of loopback are free for members of etcd")
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

// OneEtcd has the simulated LINSTOR take all members of etcd on these nodes for one database, whichever of them its
// configuration names.
func OneEtcd(w *sim.World, nodes []NodeSpec) *sim.Database {
	all := make([]string, 0, len(nodes))
	for i := range nodes {
		all = append(all, nodes[i].Machine.Address+":3379")
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
