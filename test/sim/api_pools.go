package sim

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// poolJSON is LINSTOR's StoragePool, for both directions.
type poolJSON struct {
	StoragePoolName   string            `json:"storage_pool_name,omitempty"`
	NodeName          string            `json:"node_name,omitempty"`
	ProviderKind      string            `json:"provider_kind,omitempty"`
	Props             map[string]string `json:"props,omitempty"`
	StaticTraits      map[string]string `json:"static_traits,omitempty"`
	FreeCapacity      *int64            `json:"free_capacity,omitempty"`
	TotalCapacity     *int64            `json:"total_capacity,omitempty"`
	FreeSpaceMgrName  string            `json:"free_space_mgr_name,omitempty"`
	UUID              string            `json:"uuid,omitempty"`
	Reports           []rc              `json:"reports,omitempty"`
	SupportsSnapshots bool              `json:"supports_snapshots"`
	SharedSpace       string            `json:"shared_space,omitempty"`
	ExternalLocking   bool              `json:"external_locking"`
}

const maxInt64 = 1<<63 - 1

func poolContext(op uint64, nodeName, poolName string) rcContext {
	return rcContext{op: op, object: objPool, refs: map[string]string{"Node": nodeName, "StorPoolDfn": poolName},
		subject: fmt.Sprintf("Node: %s, Storage pool name: %s", nodeName, poolName)}
}

// viewPools lists by pool, then node. Uncached, an unknown node in the filter is a 404.
func viewPools(c *call) reply {
	if c.query.Get("cached") != "true" {
		for _, name := range c.query["nodes"] {
			if c.db.nodes[key(name)] == nil {
				return c.list(http.StatusOK, rcContext{bare: true}, rcs{unknownNode(name)})
			}
		}
	}
	return c.pools(c.db.sortedNodes(), c.filter("nodes"))
}

func (c *call) pools(nodes []*node, matchNode func(string) bool) reply {
	type entry struct {
		node *node
		pool *pool
	}
	match := c.filter("storage_pools")
	var found []entry
	for _, n := range nodes {
		if !matchNode(n.name) {
			continue
		}
		for _, p := range n.sortedPools() {
			if match(p.name) && c.matchesProps(p.props) {
				found = append(found, entry{n, p})
			}
		}
	}
	slices.SortStableFunc(found, func(a, b entry) int { return strings.Compare(key(a.pool.name), key(b.pool.name)) })
	list := make([]poolJSON, 0, len(found))
	for _, e := range page(c, found) {
		list = append(list, c.poolJSON(e.node, e.pool))
	}
	return c.object(http.StatusOK, list)
}

func listPools(c *call) reply {
	n, missing, ok := c.bareNode()
	if !ok {
		return missing
	}
	return c.pools([]*node{n}, func(string) bool { return true })
}

func getPool(c *call) reply {
	n, missing, ok := c.bareNode()
	if !ok {
		return missing
	}
	name := c.req.PathValue("pool")
	p := n.pools[key(name)]
	if p == nil {
		return c.list(http.StatusOK, rcContext{bare: true},
			rcs{failure(codeNotFoundPool, "Storage pool '%s' on node '%s' not found.", name, n.name)})
	}
	return c.object(http.StatusOK, c.poolJSON(n, p))
}

// badKind is an early refusal: HTTP 400 without operation and object in the code.
func (c *call) badKind(kind string) reply {
	if kind == "" {
		return c.badRequest(failure(codeInvalidLayerKind, "Given provider kind is null."))
	}
	return c.badRequest(failure(codeInvalidLayerKind, "Given provider kind '%s' is invalid", kind))
}

// badRequest is the reply for what LINSTOR refuses before it begins (linstor-server, LinstorMapper): it writes an
// error report and does not name it.
func (c *call) badRequest(e rc) reply {
	c.ctl.report(e.Message)
	r := c.list(http.StatusBadRequest, rcContext{bare: true}, rcs{e})
	r.status = http.StatusBadRequest
	return r
}

func createPool(c *call) reply {
	var body poolJSON
	if r, ok := c.decode(&body, parsedFirst); !ok {
		return r
	}
	kind, known := parseKind(body.ProviderKind)
	if !known {
		return c.badKind(body.ProviderKind)
	}
	name := c.req.PathValue("node")
	x := poolContext(opCreate, name, body.StoragePoolName)
	n := c.db.lookup(name)
	if n == nil {
		x.caught = true
		return c.list(http.StatusCreated, x, rcs{unknownNode(name)})
	}
	p := &pool{name: body.StoragePoolName, kind: kind, props: body.Props, shared: body.FreeSpaceMgrName,
		externalLocking: body.ExternalLocking}
	list, registered := c.registerPool(n, p)
	x.caught = !registered
	return c.list(http.StatusCreated, x, list)
}

// modifyPool commits first. If the node is not ONLINE, a real change is an HTTP 500 all the same.
func modifyPool(c *call) reply {
	var body propChange
	if r, ok := c.decode(&body, parsedUncaught); !ok {
		return r
	}
	name := c.req.PathValue("pool")
	x := poolContext(opModify, c.req.PathValue("node"), name)
	n, missing, ok := c.nodeIn(x)
	if !ok {
		return missing
	}
	p := n.pools[key(name)]
	switch {
	case p == nil && c.db.poolDfns[key(name)] == nil:
		return c.list(http.StatusOK, x, rcs{failure(codeNotFoundPoolDfn, "Storage pool definition '%s' not found.", name).
			cause("The specified storage pool definition '%s' could not be found in the database", name).
			correction("Create a storage pool definition '%s' first.", name)})
	case p == nil:
		return c.list(http.StatusOK,
			x, rcs{failure(codeNotFoundPool, "Storage pool '%s' on node '%s' not found.", name, n.name)})
	}
	bad := prefNicError(n, body)
	var props map[string]string
	if bad == nil {
		props, bad = body.apply(p.props, onPool, c.ctl.version)
	}
	if bad != nil {
		return c.list(http.StatusOK, x, rcs{*bad})
	}
	changed := !maps.Equal(props, p.props)
	p.props = props
	list := append(body.messages(objPool), success(codeModified, "Storage pool '%s' on node '%s' modified.", p.name,
		n.name).
		details("Storage pool '%s' on node '%s' UUID is: %s", p.name, n.name, p.uuid).ref("UUID", p.uuid))
	if !changed {
		return c.list(http.StatusOK, x, list)
	}
	if !c.ctl.isOnline(n) {
		return c.list(http.StatusOK, x, append(list, notConnected(n), delayed("Modification", n, p)))
	}
	return c.list(http.StatusOK, x, append(list, c.applyPool(n, p, "Modification")...))
}

// deletePool forgets a pool; what is behind it stays.
func deletePool(c *call) reply {
	nodeName, name := c.req.PathValue("node"), c.req.PathValue("pool")
	x := poolContext(opDelete, nodeName, name)
	n := c.db.lookup(nodeName)
	var p *pool
	if n != nil {
		p = n.pools[key(name)]
	}
	switch {
	case key(name) == key(disklessPool):
		return c.list(http.StatusOK, x, rcs{failure(codeInvalidPoolName, "The default diskless storage pool cannot be "+
			"deleted!")})
	case p == nil:
		return c.list(http.StatusOK, x, rcs{warning(codeNotFoundWarning, "Deletion of storage pool '%s' on node '%s' had "+
			"no effect.", name, nodeName).
			cause("Storage pool '%s' on node '%s' does not exist.", name, nodeName)})
	}
	if users := c.db.poolUsers(n, p); len(users) > 0 {
		return c.list(http.StatusOK, x, rcs{failure(codeInUse,
			"The specified storage pool '%s' on node '%s' cannot be deleted as volumes / snapshot-volumes are still using it.",
			p.name, n.name).
			details("Volumes / snapshot-volumes that are still using the storage pool: %s", strings.Join(users, ", ")).
			correction("Delete the listed volumes and snapshot-volumes first.")})
	}
	delete(n.pools, key(name))
	c.db.dropPoolDfn(p.name)
	list := rcs{success(codeDeleted, "Node: %s, Storage pool name: %s deleted.", n.name, p.name).
		details("Node: %s, Storage pool name: %s UUID was: %s", n.name, p.name, p.uuid).ref("UUID", p.uuid)}
	if !c.ctl.isOnline(n) {
		list = append(list, notConnected(n))
	}
	return c.list(http.StatusOK, x, list)
}

func (d *Database) poolUsers(n *node, p *pool) []string {
	var users []string
	for _, on := range d.resourcesOn(n) {
		if !on.rsc.diskless && key(on.rsc.pool) == key(p.name) {
			users = append(users, fmt.Sprintf("Node name: '%s', resource name: '%s', volume number: 0, resource suffix: ''",
				n.name, on.dfn.name))
		}
	}
	return append(users, d.snapshotUsers(n, p)...)
}
