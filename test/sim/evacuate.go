package sim

import (
	"slices"
	"strings"
)

// placeCount is what the default resource group asks for.
const placeCount = 2

// mover is the part of a controller that places copies and moves them between nodes.
type mover struct{ *controller }

// autoplace adds a copy of a volume where LINSTOR's autoplacer would: on a node that is ONLINE, takes new copies and
// has none yet, in the pool with the most free space. It returns nil if there is no such place.
func (m mover) autoplace(dfn *rscDfn, allowed func(n *node) bool) *resource {
	type spot struct {
		node *node
		pool *pool
	}
	var spots []spot
	for _, n := range m.db.sortedNodes() {
		if !allowed(n) || !m.accepts(n, dfn) {
			continue
		}
		for _, p := range n.sortedPools() {
			if p.kind != kindDiskless && p.known && p.free >= dfn.sizeKiB {
				spots = append(spots, spot{n, p})
			}
		}
	}
	slices.SortStableFunc(spots, func(a, b spot) int {
		switch {
		case a.pool.free > b.pool.free:
			return -1
		case a.pool.free < b.pool.free:
			return 1
		}
		return 0
	})
	for _, s := range spots {
		r, err := m.newCopy(dfn, s.node, s.pool, stateInconsistent)
		if err != nil {
			continue
		}
		r.syncing, r.syncedAt = true, m.world.now.Add(m.world.opts.EvacuateDelay)
		dfn.resources[r.node] = r
		m.world.after(m.world.opts.EvacuateDelay, m.stepMigrations)
		return r
	}
	return nil
}

// accepts reports whether a node can take a copy of a volume.
func (m mover) accepts(n *node, dfn *rscDfn) bool {
	if m.machineOf(n) == nil || n.evacuate || n.deleted || n.evicted || !m.isTarget(n) {
		return false
	}
	existing := dfn.resources[key(n.name)]
	return existing == nil || existing.diskless
}

// isTarget reads the property AutoplaceTarget, of the node and then of the controller; the default is true.
func (m mover) isTarget(n *node) bool {
	for _, props := range []map[string]string{n.props, m.db.props} {
		if value, set := props[propAutoplace]; set {
			return isTrue(value)
		}
	}
	return true
}

// stepMigrations goes on with what LINSTOR does in the background: copies that have been synchronised become UpToDate,
// and the copies that they replace go once they are not in use.
func (m mover) stepMigrations() {
	if !m.alive {
		return
	}
	for _, dfn := range m.db.sortedDfns() {
		for _, r := range dfn.sortedResources() {
			if r.syncing && !r.syncedAt.After(m.world.now) && m.canSync(dfn, r) {
				m.finishSync(dfn, r)
			}
			m.finishMigration(dfn, r)
		}
	}
}

// canSync reports whether DRBD can bring a copy up to date: from a good copy, between machines that are up. It does
// not need the satellites.
func (m mover) canSync(dfn *rscDfn, target *resource) bool {
	if !m.drbdUp(target.node) {
		return false
	}
	for _, r := range dfn.resources {
		if r != target && r.good() && connection(m.db, dfn, target, r) == Connected {
			return true
		}
	}
	return false
}

// drbdUp reports whether the machine of a node runs DRBD and is on the network. The module alone is not enough: after
// a boot nothing but a satellite brings LINSTOR's devices up (linstor-server, DrbdLayer.adjustDrbd).
func (c *controller) drbdUp(nodeKey string) bool { return c.db.drbdUp(nodeKey) }

func (d *Database) drbdUp(nodeKey string) bool {
	n := d.nodes[nodeKey]
	if n == nil {
		return false
	}
	m := d.world.machines[n.machine]
	return m != nil && !m.cut && m.adjusted && m.missingDRBD() == nil
}

func (m mover) finishSync(dfn *rscDfn, r *resource) {
	n := m.db.nodes[r.node]
	p := n.pools[key(r.pool)]
	if p == nil {
		return
	}
	found, err := m.world.machines[n.machine].find(p.kind, p.backingName())
	if err != nil {
		return
	}
	if b := found.volumes[key(dfn.name)]; b != nil {
		b.complete = true
		r.diskState = stateUpToDate
		r.syncing = false
	}
}

// finishMigration removes the old copy. Its satellite must be there to do it.
func (m mover) finishMigration(dfn *rscDfn, r *resource) {
	if r.migrateFrom == "" || !r.good() {
		return
	}
	source := dfn.resources[r.migrateFrom]
	if source == nil {
		r.migrateFrom = ""
		return
	}
	n := m.db.nodes[r.migrateFrom]
	if source.inUse || n == nil || !m.isOnline(n) {
		return
	}
	r.migrateFrom = ""
	m.moveSnapshots(dfn, n, r)
	m.giveUp(dfn, source, "evacuation")
}

type evacuateJSON struct {
	Target      []string `json:"target"`
	DoNotTarget []string `json:"do_not_target"`
}

// allows turns the lists of a request into a test for target nodes.
func (b evacuateJSON) allows(n *node) bool {
	listed := func(list []string) bool {
		return slices.ContainsFunc(list, func(name string) bool { return strings.EqualFold(name, n.name) })
	}
	return (len(b.Target) == 0 || listed(b.Target)) && !listed(b.DoNotTarget)
}

// goodElsewhere counts the other copies that are known to be good, on nodes that keep them.
func goodElsewhere(nodes map[string]*node, on placed) int {
	others := 0
	for _, r := range on.dfn.resources {
		if n := nodes[r.node]; r != on.rsc && r.good() && n != nil && !n.evacuate && !n.evicted {
			others++
		}
	}
	return others
}

// evacuateCopy moves one copy away from a node: it is just removed if it is diskless, not known to be good, or if
// there are enough other good ones; else a replacement is placed, and the rest happens in the background. Of a node
// that is not ONLINE nothing is known, and what is removed there stays until its satellite is back.
func (m mover) evacuateCopy(on placed, b evacuateJSON) rcs {
	on.rsc.evacuate = true
	if on.dfn.storageOnly {
		on.rsc.unmovable = true
		return rcs{warning(codeNotEvacuating, "Resource '%s' cannot be evacuated as it is not a DRBD resource", on.dfn.name)}
	}
	x := rcContext{op: opModify, object: objRsc, refs: map[string]string{"RscDfn": on.dfn.name}}
	others := goodElsewhere(m.db.nodes, on)
	source := m.db.nodes[on.rsc.node]
	if online := m.isOnline(source); on.rsc.diskless || !on.rsc.good() || !online || others >= placeCount {
		switch {
		case on.rsc.inUse && online:
		case online:
			m.reassignSnapshots(on)
			m.giveUp(on.dfn, on.rsc, "evacuation")
		default:
			on.rsc.deleted = true
			m.reportLast(on.dfn, on.rsc, "evacuation of node "+source.name)
		}
		return nil
	}
	if len(b.Target) > 0 && len(b.DoNotTarget) > 0 {
		return rcs{x.complete(failure(codeInvalidConf, "Must not use --target and --do-not-target in the same request"))}
	}
	replacement := m.autoplace(on.dfn, b.allows)
	if replacement == nil {
		return rcs{x.complete(warning(codeNotEvacuating, "Resource '%s' cannot be evacuated as no available storage pool "+
			"was found", on.dfn.name))}
	}
	replacement.migrateFrom = on.rsc.node
	return rcs{x.complete(success(codeModified, "Resource '%s' is being migrated from node '%s' to node '%s'",
		on.dfn.name, on.rsc.nodeName, replacement.nodeName))}
}
