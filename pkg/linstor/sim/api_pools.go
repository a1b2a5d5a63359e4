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
	n, missing, ok := c.node(opModify)
	if !ok {
		return missing
	}
	return c.pools([]*node{n}, func(string) bool { return true })
}

func getPool(c *call) reply {
	n, missing, ok := c.node(opModify)
	if !ok {
		return missing
	}
	name := c.req.PathValue("pool")
	p := n.pools[key(name)]
	if p == nil {
		return c.list(http.StatusOK, rcContext{bare: true}, rcs{failure(codeNotFoundPool, "Storage pool '%s' on node '%s' not found.", name, n.name)})
	}
	return c.object(http.StatusOK, c.poolJSON(n, p))
}

// badKind is an early refusal: HTTP 400 without operation and object in the code.
func (c *call) badKind(kind string) reply {
	if kind == "" {
		kind = "null"
	}
	return c.badRequest(failure(codeInvalidLayerKind, "Given provider kind '%s' is invalid", kind))
}

func (c *call) badRequest(e rc) reply {
	e.ErrorReportIDs = []string{c.ctl.report(e.Message)}
	r := c.list(http.StatusBadRequest, rcContext{bare: true}, rcs{e})
	r.status = http.StatusBadRequest
	return r
}

func createPool(c *call) reply {
	var body poolJSON
	if r, ok := c.decode(&body, http.StatusInternalServerError); !ok {
		return r
	}
	kind, known := parseKind(body.ProviderKind)
	if !known {
		return c.badKind(body.ProviderKind)
	}
	name := c.req.PathValue("node")
	x := poolContext(opCreate, name, body.StoragePoolName)
	n := c.lookup(name)
	if n == nil {
		return c.list(http.StatusCreated, x, rcs{unknownNode(name)})
	}
	p := &pool{name: body.StoragePoolName, kind: kind, props: body.Props, shared: body.FreeSpaceMgrName, externalLocking: body.ExternalLocking}
	list, _ := c.registerPool(n, p)
	return c.list(http.StatusCreated, x, list)
}

// registerPool puts a pool into the database, commits, and then has the satellite try it. registered tells whether the
// commit was reached: what the satellite answers afterwards does not undo it.
func (c *call) registerPool(n *node, p *pool) (list rcs, registered bool) {
	if bad := c.checkPool(n, p); bad != nil {
		return rcs{*bad}, false
	}
	props, bad := propChange{OverrideProps: canonicalPoolProps(p.props)}.apply(nil, onPool, c.ctl.version)
	if bad == nil {
		bad = prefNicError(n, propChange{OverrideProps: props})
	}
	if bad != nil {
		return rcs{*bad}, false
	}
	list = propChange{OverrideProps: maps.Clone(props)}.messages(objPool)
	p.props, p.uuid = props, c.world.newUUID()
	n.pools[key(p.name)] = p
	if c.db.poolDfns[key(p.name)] == nil {
		c.db.poolDfns[key(p.name)] = &poolDfn{name: p.name, props: map[string]string{}}
	}
	list = append(list, success(codeCreated, "New storage pool '%s' on node '%s' registered.", p.name, n.name).
		details("Storage pool '%s' on node '%s' UUID is: %s", p.name, n.name, p.uuid).ref("UUID", p.uuid))
	return append(list, c.applyPool(n, p)...), true
}

func (c *call) checkPool(n *node, p *pool) *rc {
	fail := func(e rc) *rc { return &e }
	switch {
	case !validStorPoolName(p.name):
		return fail(failure(codeInvalidPoolName, "The given storage pool name '%s' is invalid.", p.name))
	case n.pools[key(p.name)] != nil:
		return fail(failure(codeExistsPool, "Node: %s, Storage pool name: %s already exists.", n.name, p.name).cause("The StorPool already exists"))
	case !c.ctl.capabilities(n).supports(p.kind):
		return fail(failure(codeNoProvider, "The satellite does not support the device provider %s", p.kind))
	case p.shared != "" && p.kind != kindLVM && p.kind != kindDiskless && p.kind != "REMOTE_SPDK":
		return fail(failure(codeInvalidStorDriver, "Storage driver %s does not support shared volumes", p.kind))
	}
	return nil
}

// canonicalPoolProps rewrites the older keys into StorDriver/StorPoolName, as LINSTOR does on creation only.
func canonicalPoolProps(given map[string]string) map[string]string {
	props := maps.Clone(given)
	if props == nil {
		return map[string]string{}
	}
	for _, old := range []string{"StorDriver/LvmVg", "StorDriver/ZPool", "StorDriver/ZPoolThin", "StorDriver/FileDir"} {
		if value, set := props[old]; set {
			props[propStorPoolName] = value
			delete(props, old)
		}
	}
	if thin, set := props["StorDriver/ThinPool"]; set {
		props[propStorPoolName] += "/" + thin
		delete(props, "StorDriver/ThinPool")
	}
	return props
}

// applyPool is the satellite's part of creating or changing a pool.
func (c *call) applyPool(n *node, p *pool) rcs {
	if !c.ctl.isOnline(n) {
		return rcs{notConnected(n)}
	}
	m, lost := c.satellite(n)
	if lost != nil {
		return rcs{*lost}
	}
	if p.kind != kindDiskless {
		if _, err := m.find(p.kind, p.backingName()); err != nil {
			e := failure(codePoolConfig, "(%s) %s", n.name, err)
			e.ErrorReportIDs = []string{c.ctl.reportFrom(n.name, "SATELLITE", "StorageException", err.Error())}
			return rcs{e}
		}
	}
	if err := c.ctl.refreshPool(n, p); err != nil {
		return rcs{failure(codePoolConfig, "(%s) %s", n.name, err)}
	}
	return rcs{
		success(codeModified, "(%s) Changes applied to storage pool '%s' of node '%s'", n.name, p.name, n.name),
		success(codeModified, "Storage pool updated on '%s'", n.name),
	}
}

// satellite is the machine of a node that is ONLINE. If it died a moment ago, the request hangs until the controller
// notices, and fails although everything is committed.
func (c *call) satellite(n *node) (*Machine, *rc) {
	if m := c.ctl.machineOf(n); m != nil {
		return m, nil
	}
	c.wait(c.world.opts.OfflineAfter)
	e := failure(codeUnknownError, "Modification of node '%s' failed due to an unhandled exception of type PeerClosingConnectionException. Peer is closing the connection", n.name)
	return nil, &e
}

// modifyPool commits first. If the node is not ONLINE, a real change is an HTTP 500 all the same.
func modifyPool(c *call) reply {
	n, missing, ok := c.node(opModify)
	if !ok {
		return missing
	}
	var body propChange
	if r, ok := c.decode(&body, http.StatusInternalServerError); !ok {
		return r
	}
	name := c.req.PathValue("pool")
	x := poolContext(opModify, n.name, name)
	p := n.pools[key(name)]
	if p == nil {
		return c.list(http.StatusOK, x, rcs{failure(codeNotFoundPool, "Storage pool '%s' on node '%s' not found.", name, n.name)})
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
	list := append(body.messages(objPool), success(codeModified, "Storage pool '%s' on node '%s' modified.", p.name, n.name).
		details("Storage pool '%s' on node '%s' UUID is: %s", p.name, n.name, p.uuid).ref("UUID", p.uuid))
	if !changed {
		return c.list(http.StatusOK, x, list)
	}
	if !c.ctl.isOnline(n) {
		return c.list(http.StatusOK, x, append(list, notConnected(n), failure(codeUnknownError,
			"Modification of storage pool '%s' on node '%s' failed due to an unhandled exception of type DelayedApiRcException. "+
				"Exceptions have been converted to responses", p.name, n.name)))
	}
	return c.list(http.StatusOK, x, append(list, c.applyPool(n, p)...))
}

// deletePool forgets a pool; what is behind it stays.
func deletePool(c *call) reply {
	n, missing, ok := c.node(opDelete)
	if !ok {
		return missing
	}
	name := c.req.PathValue("pool")
	x := poolContext(opDelete, n.name, name)
	p := n.pools[key(name)]
	switch {
	case key(name) == key(disklessPool):
		return c.list(http.StatusOK, x, rcs{failure(codeInvalidPoolName, "The default diskless storage pool cannot be deleted!")})
	case p == nil:
		return c.list(http.StatusOK, x, rcs{warning(codeNotFoundWarning, "Deletion of storage pool '%s' on node '%s' had no effect.", name, n.name).
			cause("Storage pool '%s' on node '%s' does not exist.", name, n.name)})
	}
	if users := c.db.poolUsers(n, p); len(users) > 0 {
		return c.list(http.StatusOK, x, rcs{failure(codeInUse,
			"The specified storage pool '%s' on node '%s' cannot be deleted as volumes / snapshot-volumes are still using it.", p.name, n.name).
			details("Volumes / snapshot-volumes that are still using the storage pool: %s", strings.Join(users, ", ")).
			correction("Delete the listed volumes and snapshot-volumes first.")})
	}
	delete(n.pools, key(name))
	c.db.dropPoolDfn(p.name)
	list := rcs{success(codeDeleted, "Node: %s, Storage pool name: %s deleted.", n.name, p.name)}
	if !c.ctl.isOnline(n) {
		list = append(list, notConnected(n))
	}
	return c.list(http.StatusOK, x, list)
}

func (d *Database) poolUsers(n *node, p *pool) []string {
	var users []string
	for _, on := range d.resourcesOn(n) {
		if !on.rsc.diskless && key(on.rsc.pool) == key(p.name) {
			users = append(users, fmt.Sprintf("Node name: '%s', resource name: '%s', volume number: 0", n.name, on.dfn.name))
		}
	}
	return append(users, d.snapshotUsers(n, p)...)
}
