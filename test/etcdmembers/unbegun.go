package etcdmembers

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/datadir"
)

// Placed reports whether there is a member for the node.
func (n *Node) Placed() bool { return n.site.Configuration != nil }

// Unbegun has the first start of a member end when its log is made and has no entry yet, as etcd ends if the port for
// its metrics is taken: it finds that after it has made the log.
func (c *Cluster) Unbegun(n *Node) {
	c.t.Helper()
	wal := filepath.Join(n.DataDir(), "member", "wal")
	for range 50 {
		if err := c.kubelet(n); err != nil {
			c.t.Fatal(err)
		}
		for n.process.runs() {
			if _, err := os.Stat(wal); err == nil { // etcd renames it to here when its first records are on the disk
				n.process.kill()
			}
		}
		_, err := datadir.End(n.DataDir())
		if err != nil && strings.Contains(err.Error(), "has no entries") {
			return
		}
		if err := os.RemoveAll(filepath.Dir(wal)); err != nil { // this etcd was faster
			c.t.Fatal(err)
		}
	}
	c.t.Fatal("etcd always writes to its log before it is killed")
}
