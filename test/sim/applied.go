package sim

import "slices"

// applied are the entries of the ONLINE satellites that LINSTOR tells of a change, one each: a change of a node goes
// to the node itself, one of the controller's properties to all. A node that is not ONLINE gets the change when it
// connects, and is not mentioned.
func (c *controller) applied(nodes []*node, entry func(n *node) rc) rcs {
	var list rcs
	for _, n := range nodes {
		if p := c.peer(n); p.online() && p.link.sat.alive && !p.link.sat.machine.cut {
			list = append(list, entry(n).fromSatellite())
		}
	}
	return list
}

func nodeChangesApplied(n *node) rc {
	return success(codeModified, "(%s) Node changes applied.", n.name)
}

func controllerPropsApplied(n *node) rc {
	return info(opModify|objCtrl, "(%s) Controller properties applied", n.name)
}

// adjusted are the entries of a node's satellite about its volumes, when a change makes it look at them.
func (c *controller) adjusted(n *node) rcs {
	if c.machineOf(n) == nil {
		return nil
	}
	var list rcs
	for _, on := range c.db.resourcesOn(n) {
		if !on.rsc.diskless && on.dfn.storageOnly {
			list = append(list, c.db.volumeEntry(on, codeModified, "resized"))
		}
	}
	return list
}

// volumeEntry is what a satellite says about the backing of one volume.
func (d *Database) volumeEntry(on placed, code uint64, what string) rc {
	kind := ""
	if p := d.nodes[on.rsc.node].pools[key(on.rsc.pool)]; p != nil {
		kind = spelled[p.kind]
	}
	return success(objVlm|code, "(%s) Volume number 0 of resource '%s' [%s] %s", on.rsc.nodeName, on.dfn.name, kind,
		what).
		ref("RscDfn", on.dfn.name).ref("VlmNr", "0").fromSatellite()
}

// spelled are provider kinds as satellites write them.
var spelled = map[string]string{
	kindLVM: "LVM", kindLVMThin: "LVM THIN", kindZFS: "ZFS", kindZFSThin: "ZFS THIN", kindFile: "FILE",
	kindFileThin: "FILE THIN",
}

// holdersOf are the nodes that have a copy of a volume, without one of them.
func (d *Database) holdersOf(dfn *rscDfn, without *node) []*node {
	var nodes []*node
	for _, r := range dfn.sortedResources() {
		if n := d.nodes[r.node]; n != nil && n != without && !slices.Contains(nodes, n) {
			nodes = append(nodes, n)
		}
	}
	return nodes
}
