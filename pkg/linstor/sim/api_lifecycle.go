package sim

import (
	"net/http"
	"strings"
)

func nodeHadNoEffect(name string) rc {
	return warning(codeNotFoundWarning, "Deletion of node '%s' had no effect.", name).cause("Node '%s' does not exist.", name)
}

func nodeDeleted(n *node) rc {
	return success(codeDeleted, "Node '%s' deleted.", n.name).details("Node '%s' UUID was: %s", n.name, n.uuid)
}

// deleteNode refuses what is in use and the last diskful copy that diskless clients need. It does not refuse to give up
// the only copy of a volume: it is no safe way to drain a node.
func deleteNode(c *call) reply {
	name := c.req.PathValue("node")
	x := nodeContext(opDelete, name)
	n := c.lookup(name)
	switch {
	case n == nil:
		return c.list(http.StatusOK, x, rcs{nodeHadNoEffect(name)})
	case n.evicted:
		return c.list(http.StatusOK, x, rcs{warning(codeNodeEvicted, "Deletion of node '%s' had no effect.", n.name).
			correction("Use node lost command to delete an evicted node.")})
	}
	resources := c.db.resourcesOn(n)
	var refusals rcs
	for _, on := range resources {
		if on.rsc.inUse {
			refusals = append(refusals, failure(codeInUse, "Resource '%s' is still in use.", on.dfn.name))
		} else if on.lastDiskWithClients() {
			refusals = append(refusals, failure(codeInUse, "Last resource of '%s' with disk still has diskless resources attached.", on.dfn.name))
		}
	}
	if len(refusals) > 0 {
		return c.list(http.StatusOK, x, append(refusals, failure(codeNodeHasUsedRsc, "Cannot delete node, because it has in use or last diskful resources.")))
	}
	if len(resources) == 0 {
		c.ctl.forget(n)
		return c.list(http.StatusOK, x, rcs{nodeDeleted(n)})
	}
	n.deleted = true
	for _, on := range resources {
		on.rsc.deleted = true
	}
	list := rcs{success(codeDeleted, "Node '%s' marked for deletion.", n.name)}
	if !c.ctl.isOnline(n) {
		for _, on := range resources {
			c.ctl.reportLast(on.dfn, on.rsc, "deletion of node "+n.name+" is marked")
		}
		return c.list(http.StatusOK, x, append(list, notConnected(n)))
	}
	c.ctl.finishDelete(n)
	return c.list(http.StatusOK, x, append(list, nodeDeleted(n)))
}

// lastDiskWithClients tells whether a copy is the last diskful one while diskless ones remain.
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
	n := c.lookup(name)
	if n == nil {
		e := nodeHadNoEffect(name)
		e.ErrorReportIDs = []string{c.ctl.report(e.Message)}
		return c.list(http.StatusOK, x, rcs{e})
	}
	if c.ctl.peer(n).online() {
		return c.list(http.StatusOK, x, rcs{failure(codeStillConnected, "Node '%s' still connected, please use the 'DelNode' api.", n.name)})
	}
	for _, on := range c.db.resourcesOn(n) {
		c.ctl.giveUp(on.dfn, on.rsc, "node "+n.name+" declared lost")
	}
	c.ctl.forget(n)
	list := rcs{nodeDeleted(n)}
	for _, other := range c.db.sortedNodes() {
		if c.ctl.isOnline(other) {
			list = append(list, success(0, "Notified '%s' that '%s' has been lost", other.name, n.name))
		}
	}
	return c.list(http.StatusOK, x, list)
}

// evictNode takes an offline node out by hand.
func evictNode(c *call) reply {
	n, missing, ok := c.node(opModify)
	if !ok {
		return missing
	}
	if c.ctl.peer(n).online() {
		return c.list(http.StatusOK, rcContext{object: objNode, refs: map[string]string{"Node": n.name}},
			rcs{failure(codeInUse, "Eviction of an online node is not possible.")})
	}
	return c.list(http.StatusOK, nodeContext(opModify, n.name), c.ctl.evict(n))
}

// evacuateNode returns before any data has moved; what cannot be moved is a warning with status 200.
func evacuateNode(c *call) reply {
	n, missing, ok := c.node(opModify)
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
		list = append(list, c.ctl.evacuateCopy(on, body)...)
	}
	return c.list(http.StatusOK, nodeContext(opModify, n.name), list)
}

// decodeOptional accepts a missing body and null, as only evacuate and restore do.
func (c *call) decodeOptional(v any) (reply, bool) {
	if text := strings.TrimSpace(string(c.body)); text == "" || text == "null" {
		return reply{}, true
	}
	return c.decode(v, http.StatusInternalServerError)
}

type restoreJSON struct {
	DeleteResources *bool `json:"delete_resources"`
	DeleteSnapshots *bool `json:"delete_snapshots"`
}

func restoreNode(c *call) reply {
	n, missing, ok := c.node(opModify)
	if !ok {
		return missing
	}
	var body restoreJSON
	if r, ok := c.decodeOptional(&body); !ok {
		return r
	}
	if !n.evacuate && !n.evicted {
		return c.list(http.StatusOK, rcContext{bare: true}, rcs{failure(0, "Node '%s' is neither evicted nor evacuated.", n.name)})
	}
	wasEvicted := n.evicted
	n.evacuate, n.evicted, n.deleted = false, false, false
	var list rcs
	for _, on := range c.db.resourcesOn(n) {
		on.rsc.evacuate, on.rsc.evicted, on.rsc.deleted = false, false, false
		if body.DeleteResources == nil || !*body.DeleteResources {
			c.ctl.cancelMigration(on)
			continue
		}
		if on.lastDiskful() {
			list = append(list, warning(codeStltNotUpdated, "Not deleting resource %s since it is the last non-deleting diskful resource", on.dfn.name))
			continue
		}
		c.ctl.giveUp(on.dfn, on.rsc, "restore of node "+n.name+" with delete_resources")
	}
	if wasEvicted {
		c.restartConnection(n)
	}
	list = append(list, success(0, "Successfully restored node %s", n.name))
	return c.list(http.StatusOK, rcContext{object: objNode, refs: map[string]string{"Node": n.name}}, list)
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
func (c *controller) cancelMigration(on placed) {
	for _, r := range on.dfn.resources {
		if r.migrateFrom == on.rsc.node {
			r.migrateFrom = ""
		}
	}
}
