package sim

import (
	"net/http"
	"slices"
	"strings"
)

func nodeHadNoEffect(name string) rc {
	return warning(codeNotFoundWarning, "Deletion of node '%s' had no effect.", name).cause("Node '%s' does not exist.",
		name)
}

func nodeDeleted(n *node) rc {
	return success(codeDeleted, "Node '%s' deleted.", n.name).details("Node '%s' UUID was: %s", n.name, n.uuid)
}

// deleteNode refuses what is in use and the last diskful copy that diskless clients need. It does not refuse to give
// up the only copy of a volume: it is no safe way to drain a node.
func deleteNode(c *call) reply {
	name := c.req.PathValue("node")
	x := nodeContext(opDelete, name)
	n := c.db.lookup(name)
	switch {
	case n == nil:
		return c.list(http.StatusOK, x, rcs{nodeHadNoEffect(name)})
	case n.evicted:
		return c.list(http.StatusOK, x, rcs{warning(codeNodeEvicted, "Deletion of node '%s' had no effect.", n.name).
			cause("Node '%s' has been evicted.", n.name).correction("Use node lost command to delete an evicted node.")})
	}
	resources := c.db.resourcesOn(n)
	var refusals rcs
	for _, on := range resources {
		if on.usedFor(c.ctl) {
			refusals = append(refusals, failure(codeInUse, "Resource '%s' is still in use.", on.dfn.name))
		} else if on.lastDiskWithClients() {
			refusals = append(refusals, failure(codeInUse,
				"Last resource of '%s' with disk still has diskless resources attached.", on.dfn.name))
		}
	}
	if len(refusals) > 0 {
		return c.list(http.StatusOK, x, append(refusals,
			failure(codeNodeHasUsedRsc, "Cannot delete node, because it has in use or last diskful resources.")))
	}
	snapshots := c.db.snapshotsOn(n)
	if len(resources) == 0 && len(snapshots) == 0 {
		c.ctl.forget(n)
		return c.list(http.StatusOK, x, rcs{nodeDeleted(n)})
	}
	n.deleted = true
	for _, on := range resources {
		on.rsc.deleted = true
	}
	list := rcs{success(codeDeleted, "Node '%s' marked for deletion.", n.name).details("Node '%s' UUID is: %s", n.name,
		n.uuid)}
	for _, affected := range c.db.sharers(n) {
		if !c.ctl.isOnline(affected) {
			list = append(list, notConnected(affected))
		}
	}
	list = append(list, c.deleteSnapshotsOf(n, snapshots)...)
	return c.list(http.StatusOK, x, append(list, c.deleteResourcesOf(n, resources)...))
}

// deleteResourcesOf deletes the copies of a node that is to go, and with the last of them the node: also when its
// satellite is not there, and what is on its disks stays. With snapshots alone LINSTOR does not come to this point
// again: the node stays, flagged DELETE, until it is deleted a second time (linstor-server 1.34,
// CtrlNodeDeleteApiCallHandler).
func (c *call) deleteResourcesOf(n *node, resources []placed) rcs {
	var list rcs
	for _, on := range resources {
		if c.ctl.isOnline(n) {
			list = append(list, c.db.volumeEntry(on, opDelete|codeDeleted, "deleted"))
		}
		list = append(list, success(codeModified, "Deleted resource '%s' on '%s'", on.dfn.name, n.name))
		c.ctl.giveUp(on.dfn, on.rsc, "deletion of node "+n.name)
		for _, peer := range c.db.holdersOf(on.dfn, n) {
			if c.ctl.isOnline(peer) {
				list = append(list, c.db.volumeEntry(placed{on.dfn, on.dfn.resources[key(peer.name)]}, opDelete|codeModified,
					"resized"),
					success(codeModified, "Notified '%s' that resource '%s' on '%s' is being deleted", peer.name, on.dfn.name,
						n.name))
			}
		}
	}
	if len(resources) > 0 && len(c.db.snapshotsOn(n)) == 0 {
		c.ctl.forget(n)
		list = append(list, nodeDeleted(n))
	}
	return list
}

// sharers are a node and those that have copies of the same volumes.
func (d *Database) sharers(n *node) []*node {
	nodes := []*node{n}
	for _, on := range d.resourcesOn(n) {
		for _, other := range d.holdersOf(on.dfn, n) {
			if !slices.Contains(nodes, other) {
				nodes = append(nodes, other)
			}
		}
	}
	return nodes
}

// lastDiskWithClients reports whether a copy is the last diskful one while diskless ones remain.
func (on placed) lastDiskWithClients() bool {
	if on.rsc.diskless {
		return false
	}
	clients := false
	for _, r := range on.dfn.resources {
		if r != on.rsc && !r.diskless {
			return false
		}
		clients = clients || r.diskless && !r.tieBreaker
	}
	return clients
}

// finishDelete is the satellite's part of deleting a node. For a node that is not ONLINE it waits until it is.
func (c *controller) finishDelete(n *node) {
	for _, on := range c.db.resourcesOn(n) {
		c.giveUp(on.dfn, on.rsc, "deletion of node "+n.name)
	}
	c.forget(n)
}

// forget drops a node and what belongs to it from the database. Storage on the machine stays as it is.
func (c *controller) forget(n *node) {
	for _, on := range c.db.resourcesOn(n) {
		delete(on.dfn.resources, key(n.name))
	}
	c.db.dropSnapshots(n)
	if p := c.peer(n); p != nil {
		p.hangUp()
		delete(c.peers, key(n.name))
	}
	delete(c.db.nodes, key(n.name))
	for _, p := range n.pools {
		c.db.dropPoolDfn(p.name)
	}
	for k, conn := range c.db.nodeConns {
		if conn.a == key(n.name) || conn.b == key(n.name) {
			delete(c.db.nodeConns, k)
		}
	}
}

// lostNode gives a node up without asking its satellite. The machine keeps its data.
func lostNode(c *call) reply {
	name := c.req.PathValue("node")
	x := nodeContext(opDelete, name)
	n := c.db.lookup(name)
	if n == nil {
		return c.list(http.StatusOK, x, rcs{nodeHadNoEffect(name)})
	}
	if c.ctl.peer(n).online() {
		return c.list(http.StatusOK, x, rcs{failure(codeStillConnected, "Node '%s' still connected, please use the "+
			"'DelNode' api.", n.name)})
	}
	told, lost := c.db.sharers(n)[1:], c.db.resourcesOn(n)
	for _, on := range lost {
		c.ctl.giveUp(on.dfn, on.rsc, "node "+n.name+" declared lost")
	}
	c.ctl.forget(n)
	list := rcs{nodeDeleted(n)}
	for _, other := range told {
		if !c.ctl.isOnline(other) {
			continue
		}
		list = append(list, nodeChangesApplied(other).fromSatellite())
		for _, on := range lost {
			if r := on.dfn.resources[key(other.name)]; r != nil && !r.diskless && on.dfn.storageOnly {
				list = append(list, c.db.volumeEntry(placed{on.dfn, r}, opDelete|codeModified, "resized"))
			}
		}
		list = append(list, success(codeModified, "Notified '%s' that '%s' has been lost", other.name, n.name))
	}
	return c.list(http.StatusOK, x, list)
}

// evictNode takes an offline node out by hand.
func evictNode(c *call) reply {
	n, missing, ok := c.node()
	if !ok {
		return missing
	}
	if c.ctl.peer(n).online() {
		return c.list(http.StatusOK, rcContext{object: objNode},
			rcs{failure(codeInUse, "Eviction of an online node is not possible.")})
	}
	return c.list(http.StatusOK, nodeContext(opModify, n.name), c.ctl.evict(n))
}

// evacuateNode returns before any data has moved; what cannot be moved is a warning with status 200.
func evacuateNode(c *call) reply {
	n, missing, ok := c.bareNode()
	if !ok {
		return missing
	}
	var body evacuateJSON
	if r, ok := c.decodeOptional(&body); !ok {
		return r
	}
	n.evacuate = true
	var list rcs
	for _, on := range c.db.resourcesOn(n) {
		list = append(list, mover{c.ctl}.evacuateCopy(on, body)...)
	}
	return c.list(http.StatusOK, rcContext{bare: true}, list)
}

// decodeOptional accepts a missing body and null, as only evacuate and restore do.
func (c *call) decodeOptional(v any) (reply, bool) {
	if text := strings.TrimSpace(string(c.body)); text == "" || text == "null" {
		return reply{}, true
	}
	return c.decode(v, parsedFirst)
}

type restoreJSON struct {
	DeleteResources *bool `json:"delete_resources"`
	DeleteSnapshots *bool `json:"delete_snapshots"`
}

func restoreNode(c *call) reply {
	n, missing, ok := c.bareNode()
	if !ok {
		return missing
	}
	var body restoreJSON
	if r, ok := c.decodeOptional(&body); !ok {
		return r
	}
	if !n.evacuate && !n.evicted {
		return c.list(http.StatusOK, rcContext{bare: true},
			rcs{failure(0, "Node '%s' is neither evicted nor evacuated.", n.name)})
	}
	wasEvicted := n.evicted
	n.evacuate, n.evicted, n.deleted = false, false, false
	var list rcs
	for _, on := range c.db.resourcesOn(n) {
		on.rsc.evacuate, on.rsc.evicted, on.rsc.deleted = false, false, false
		if body.DeleteResources == nil || !*body.DeleteResources {
			mover{c.ctl}.cancelMigration(on)
			if c.ctl.isOnline(n) {
				list = append(list, c.db.volumeEntry(on, codeModified, "resized"),
					success(codeModified, "Resource restored on '%s'", n.name))
			}
			continue
		}
		if on.lastDiskful() {
			list = append(list, warning(codeStltNotUpdated,
				"Not deleting resource %s since it is the last non-deleting diskful resource", on.dfn.name))
			continue
		}
		c.ctl.giveUp(on.dfn, on.rsc, "restore of node "+n.name+" with delete_resources")
	}
	if wasEvicted {
		c.ctl.restartConnection(n)
	}
	list = append(list, success(objNode, "Successfully restored node %s", n.name))
	return c.list(http.StatusOK, rcContext{bare: true}, list)
}

func (on placed) lastDiskful() bool {
	if on.rsc.diskless {
		return false
	}
	for _, r := range on.dfn.resources {
		if r != on.rsc && !r.diskless && !r.deleted {
			return false
		}
	}
	return true
}

// cancelMigration keeps an old copy although its replacement has been placed.
func (m mover) cancelMigration(on placed) {
	for _, r := range on.dfn.resources {
		if r.migrateFrom == on.rsc.node {
			r.migrateFrom = ""
		}
	}
}
