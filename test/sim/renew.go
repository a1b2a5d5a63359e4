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
		case b == nil && keeper{c}.remake(on, p, m) != nil:
			r.diskState = stateUnknown
			continue
		case b == nil:
		case r.diskState == stateUnknown && b.complete:
			r.diskState = stateUpToDate
		case r.diskState == stateUnknown:
			r.diskState = stateInconsistent
		}
		r.restored = false
	}
}

// remake makes a volume anew. After an import there may be no copy left that DRBD could fill it from: then it is
// empty, and shown as healthy, and nothing says so.
func (c keeper) remake(on placed, p *pool, m *Machine) error {
	made := backing{resource: on.dfn.name, node: on.rsc.nodeName, sizeKiB: on.dfn.sizeKiB,
		takesKiB: on.dfn.takes(p.kind), files: c.world.Volumes().filesOf(on.dfn)}
	emptied := on.rsc.restored && on.dfn.volume != nil && !c.copiedElsewhere(on)
	if emptied {
		made.complete, made.files = true, files{}
	}
	if err := m.write(p.kind, p.backingName(), made); err != nil {
		return err
	}
	if emptied {
		on.rsc.diskState, on.rsc.syncing = stateUpToDate, false
		c.world.violate("volume-emptied resource=%s node=%s: the restored database has it, no machine has its data, and "+
			"LINSTOR made an empty one", on.dfn.name, on.rsc.nodeName)
		return nil
	}
	on.rsc.diskState, on.rsc.syncing, on.rsc.syncedAt = stateInconsistent, true,
		c.world.now.Add(c.world.opts.EvacuateDelay)
	c.world.after(c.world.opts.EvacuateDelay, mover(c).stepMigrations)
	return nil
}

// copiedElsewhere reports whether DRBD has another complete copy of a volume, on a machine that may be away.
func (c keeper) copiedElsewhere(on placed) bool {
	for _, other := range on.dfn.resources {
		b := c.world.Volumes().backing(on.dfn.name, other.nodeName)
		if other != on.rsc && !other.diskless && !on.dfn.storageOnly && b != nil && b.complete {
			return true
		}
	}
	return false
}
