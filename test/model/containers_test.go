package model

import "github.com/linstor-dev/storagecluster-operator/test/simcluster/kubelet"

// breakable are the containers that can be broken on a node.
var breakable = []string{kubelet.ModuleLoader, kubelet.Satellite, kubelet.Controller, kubelet.RunMigration}

// breakContainer makes a container fail on a node from its next start on; what runs is stopped.
func (k *kubelets) breakContainer(n int) {
	if len(k.nodes) > 0 {
		k.broken[breakable[n%len(breakable)]+"/"+k.nodes[n/4%len(k.nodes)].name] = true
	}
}

// mendContainer ends that.
func (k *kubelets) mendContainer(n int) {
	if all := sortedTrue(k.broken); len(all) > 0 {
		delete(k.broken, all[n%len(all)])
	}
}

// killController ends LINSTOR's controller as a crash does; its kubelet starts it again.
func (k *kubelets) killController(int) {
	if c := k.lease.holder; c != nil {
		k.stop(c, true)
		c.fail("killed")
	}
}
