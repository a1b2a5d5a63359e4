package sim

// renew is what a satellite does with volumes that the controller has and the machine has not, because its disks are
// new for example: it makes them anew, and DRBD fills them from a good copy. Where the storage pool is missing too,
// DRBD is not set up, and nothing is reported of the volume.
func (c *controller) renew(n *node, m *Machine) {
	for _, on := range c.db.resourcesOn(n) {
		r, p := on.rsc, n.pools[key(on.rsc.pool)]
		if r.diskless || r.deleted || r.broken || p == nil {
			continue
		}
		at, err := m.find(p.kind, p.backingName())
		if err != nil {
			r.diskState, r.syncing = stateUnknown, false
			continue
		}
		switch b := at.volumes[key(on.dfn.name)]; {
		case b == nil:
			if m.write(p.kind, p.backingName(), backing{resource: on.dfn.name, node: n.name, sizeKiB: on.dfn.sizeKiB,
				takesKiB: on.dfn.takes(p.kind), files: c.world.Volumes().filesOf(on.dfn)}) != nil {
				r.diskState = stateUnknown
				continue
			}
			r.diskState, r.syncing, r.syncedAt = stateInconsistent, true, c.world.now.Add(c.world.opts.EvacuateDelay)
			c.world.after(c.world.opts.EvacuateDelay, mover{c}.stepMigrations)
		case r.diskState == stateUnknown && b.complete:
			r.diskState = stateUpToDate
		case r.diskState == stateUnknown:
			r.diskState = stateInconsistent
		}
	}
}
