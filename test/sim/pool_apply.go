package sim

import "maps"

// registerPool puts a pool into the database, commits, and then has the satellite try it. registered reports whether
// the commit was reached: what the satellite answers afterwards does not undo it.
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
	return append(list, c.applyPool(n, p, "Registration")...), true
}

func (c *call) checkPool(n *node, p *pool) *rc {
	fail := func(e rc) *rc { return &e }
	switch {
	case !validStorPoolName(p.name):
		return fail(failure(codeInvalidPoolName, "The given storage pool name '%s' is invalid.", p.name))
	case n.pools[key(p.name)] != nil:
		return fail(failure(codeExistsPool, "Node: %s, Storage pool name: %s already exists.", n.name, p.name))
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

// applyPool is the satellite's part of creating or changing a pool. doing names the change: "Registration".
func (c *call) applyPool(n *node, p *pool, doing string) rcs {
	if !c.ctl.isOnline(n) {
		return rcs{notConnected(n)}
	}
	m, lost := c.satellite(n)
	if lost != nil {
		return rcs{*lost}
	}
	p.tellGranularity()
	if refused := m.rehearse(p.kind, p.backingName()); refused != nil {
		c.ctl.reportFrom(n.name, "SATELLITE", "StorageException", refused.message)
		return rcs{refused.entry(n), delayed(doing, n, p)}
	}
	if err := c.ctl.refreshPool(n, p); err != nil {
		return rcs{failure(codePoolConfig, "(%s) %s", n.name, err).fromSatellite(), delayed(doing, n, p)}
	}
	return rcs{
		success(codeModified, "(%s) Changes applied to storage pool '%s' of node '%s'", n.name, p.name, n.name),
		success(codeModified, "Storage pool updated on '%s'", n.name),
	}
}

// delayed is the exception that LINSTOR makes of answers that came after its commit, and that held an error or could
// not be had.
func delayed(doing string, n *node, p *pool) rc {
	return failure(codeUnknownError, "%s of storage pool '%s' on node '%s' failed due to an unhandled exception of type "+
		"DelayedApiRcException. Exceptions have been converted to responses", doing, p.name, n.name)
}

// satellite is the machine of a node that is ONLINE. If it died a moment ago, the request hangs until the controller
// notices, and fails although everything is committed.
func (c *call) satellite(n *node) (*Machine, *rc) {
	if m := c.ctl.machineOf(n); m != nil {
		return m, nil
	}
	c.wait(c.world.opts.OfflineAfter)
	e := failure(codeUnknownError, "Modification of node '%s' failed due to an unhandled exception of type "+
		"PeerClosingConnectionException. Peer is closing the connection", n.name)
	return nil, &e
}
