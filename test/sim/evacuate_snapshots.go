package sim

// propCopySnapshots set to false keeps the snapshots of an evacuated node where they are.
const propCopySnapshots = "CopyAllSnapsOnEvacuate"

// moveSnapshots takes the snapshots of a volume from one node to the node of a copy, as an evacuation does from
// LINSTOR 1.33 on.
func (m mover) moveSnapshots(dfn *rscDfn, from *node, to *resource) {
	if !m.version.atLeast(1, 33) {
		return
	}
	for _, props := range []map[string]string{from.props, m.db.props} {
		if value, set := props[propCopySnapshots]; set && !isTrue(value) {
			return
		}
	}
	for _, s := range dfn.snapshots {
		if _, here := s.nodes[key(from.name)]; here {
			s.volumes[to.node] = s.volumes[key(from.name)]
			s.leave(from)
			s.pools[to.node], s.nodes[to.node] = to.pool, to.nodeName
		}
	}
}

// reassignSnapshots takes the snapshots of a copy that just goes to another copy's node, if there is one.
func (m mover) reassignSnapshots(on placed) {
	for _, r := range on.dfn.sortedResources() {
		if n := m.db.nodes[r.node]; r != on.rsc && !r.diskless && n != nil && !n.evacuate {
			m.moveSnapshots(on.dfn, m.db.nodes[on.rsc.node], r)
			return
		}
	}
}

func (s *snapshot) leave(n *node) {
	delete(s.pools, key(n.name))
	delete(s.nodes, key(n.name))
	delete(s.volumes, key(n.name))
	delete(s.deleting, key(n.name))
}

// dropSnapshot removes a node's part of a snapshot.
func (c *controller) dropSnapshot(on snapped, n *node) {
	if on.snap.leave(n); len(on.snap.nodes) == 0 {
		delete(on.dfn.snapshots, key(on.snap.name))
	}
}

// dropSnapshots forgets what is on a node that goes. A snapshot that is on no node is gone.
func (d *Database) dropSnapshots(n *node) {
	for _, dfn := range d.rscDfns {
		for k, s := range dfn.snapshots {
			if s.leave(n); len(s.nodes) == 0 {
				delete(dfn.snapshots, k)
			}
		}
	}
}
