package sim

import (
	"errors"
	"fmt"
	"maps"
	"slices"
)

// Disk states of a DRBD volume, as far as the simulator sets them itself.
const (
	stateUpToDate     = "UpToDate"
	stateInconsistent = "Inconsistent"
	stateDiskless     = "Diskless"
	stateFailed       = "Failed"
	// stateUnknown is that of a copy that DRBD is not set up for: nothing is reported of it.
	stateUnknown = ""
)

// Volumes are the volumes of a [World], as a volume driver and those who use them see them.
type Volumes struct{ world *World }

// Volumes returns the world's volumes.
func (w *World) Volumes() Volumes { return Volumes{w} }

// Create places a DRBD resource with one volume on nodes, diskful in a pool of that name and UpToDate, as a
// volume driver does through LINSTOR. It needs a running controller and nodes that are ONLINE.
func (v Volumes) Create(name string, sizeKiB int64, pool string, nodes ...string) error {
	return v.create(name, sizeKiB, pool, false, nodes)
}

// CreateWithoutDRBD places a volume on bare storage: copies that nothing keeps equal, and that LINSTOR does not move.
func (v Volumes) CreateWithoutDRBD(name string, sizeKiB int64, pool string, nodes ...string) error {
	return v.create(name, sizeKiB, pool, true, nodes)
}

func (v Volumes) create(name string, sizeKiB int64, pool string, storageOnly bool, nodes []string) error {
	v.world.lock()
	defer v.world.mu.Unlock()
	ctl := v.world.serving()
	if ctl == nil {
		return errors.New("create volume: no controller runs")
	}
	db := ctl.db
	if db.rscDfns[key(name)] != nil {
		return fmt.Errorf("create volume: resource definition %q already exists", name)
	}
	dfn := db.newDfn(name, defaultGroup)
	dfn.volume, dfn.sizeKiB, dfn.filledKiB = db.newVolumeDfn(nil), sizeKiB, sizeKiB
	dfn.layers, dfn.storageOnly = defaultLayers, storageOnly
	if storageOnly {
		dfn.layers = defaultLayers[1:]
		dfn.props["DrbdOptions/Resource/quorum"] = "off"
	}
	var undo []func()
	for _, nodeName := range nodes {
		remove, err := ctl.placeCopy(dfn, nodeName, pool)
		if err != nil {
			for _, f := range undo {
				f()
			}
			return fmt.Errorf("create volume %s: %w", name, err)
		}
		undo = append(undo, remove)
	}
	db.rscDfns[key(name)] = dfn
	return nil
}

// placeCopy adds one UpToDate copy to a definition and returns what takes it away again.
func (c *controller) placeCopy(dfn *rscDfn, nodeName, poolName string) (undo func(), err error) {
	n := c.db.nodes[key(nodeName)]
	if n == nil {
		return nil, fmt.Errorf("no node %q", nodeName)
	}
	p := n.pools[key(poolName)]
	if p == nil || p.kind == kindDiskless {
		return nil, fmt.Errorf("no diskful storage pool %q on node %q", poolName, nodeName)
	}
	r, err := c.newCopy(dfn, n, p, stateUpToDate)
	if err != nil {
		return nil, err
	}
	dfn.resources[r.node] = r
	return func() { c.eraseCopy(dfn, r) }, nil
}

// newCopy writes a copy to the backing of a pool.
func (c *controller) newCopy(dfn *rscDfn, n *node, p *pool, diskState string) (*resource, error) {
	m := c.machineOf(n)
	if m == nil {
		return nil, fmt.Errorf("node %q is not ONLINE", n.name)
	}
	if dfn.volume != nil {
		dfn.volume.settle(p.kind)
	}
	b := backing{resource: dfn.name, node: n.name, sizeKiB: dfn.sizeKiB, takesKiB: dfn.takes(p.kind),
		complete: diskState == stateUpToDate, files: c.world.Volumes().filesOf(dfn)}
	if err := m.write(p.kind, p.backingName(), b); err != nil {
		return nil, err
	}
	if err := c.refreshPool(n, p); err != nil {
		return nil, err
	}
	return &resource{node: key(n.name), nodeName: n.name, uuid: c.world.newUUID(), volumeUUID: c.world.newUUID(),
		pool: p.name, diskState: diskState, created: c.world.now, nodeID: len(dfn.resources)}, nil
}

// eraseCopy removes a copy from the database and from the machine, if the machine can be reached.
func (c *controller) eraseCopy(dfn *rscDfn, r *resource) {
	delete(dfn.resources, r.node)
	if dfn.deleted && len(dfn.resources) == 0 {
		delete(c.db.rscDfns, key(dfn.name))
	}
	c.eraseData(dfn, r)
}

// eraseData removes the data of a copy from the machine, if the machine can be reached.
func (c *controller) eraseData(dfn *rscDfn, r *resource) {
	n := c.db.nodes[r.node]
	if n == nil || r.diskless || r.broken {
		return
	}
	p, m := n.pools[key(r.pool)], c.machineOf(n)
	if p == nil || m == nil {
		return
	}
	m.erase(p.kind, p.backingName(), dfn.name)
	if err := c.refreshPool(n, p); err != nil {
		p.known = false
	}
}

// AttachDiskless adds a diskless client of a volume on a node.
func (v Volumes) AttachDiskless(name, nodeName string) error {
	v.world.lock()
	defer v.world.mu.Unlock()
	dfn, ctl := v.definition(name)
	if dfn == nil {
		return fmt.Errorf("attach diskless: no volume %q", name)
	}
	n := ctl.db.nodes[key(nodeName)]
	if n == nil {
		return fmt.Errorf("attach diskless: no node %q", nodeName)
	}
	dfn.resources[key(nodeName)] = &resource{node: key(nodeName), nodeName: n.name, uuid: v.world.newUUID(),
		volumeUUID: v.world.newUUID(), pool: disklessPool,
		diskless: true, diskState: stateDiskless, created: v.world.now, nodeID: len(dfn.resources)}
	return nil
}

// definition finds a volume in the database of the running controller.
func (v Volumes) definition(name string) (*rscDfn, *controller) {
	ctl := v.world.serving()
	if ctl == nil {
		return nil, nil
	}
	return ctl.db.rscDfns[key(name)], ctl
}

// Delete deletes a volume on purpose, with its data.
func (v Volumes) Delete(name string) error {
	v.world.lock()
	defer v.world.mu.Unlock()
	dfn, ctl := v.definition(name)
	if dfn == nil {
		return fmt.Errorf("delete volume: no volume %q", name)
	}
	for _, r := range dfn.sortedResources() {
		ctl.eraseCopy(dfn, r)
	}
	delete(ctl.db.rscDfns, key(name))
	return nil
}

// SetInUse sets whether a copy is primary and open on its node. Unknown names are ignored.
func (v Volumes) SetInUse(resourceName, node string, inUse bool) {
	v.world.lock()
	defer v.world.mu.Unlock()
	v.eachCopy(resourceName, node, func(r *resource) { r.inUse = inUse })
}

// SetDiskState sets the DRBD disk state of a copy: "UpToDate", "Inconsistent", "Outdated", "Failed", … Unknown names
// are ignored.
func (v Volumes) SetDiskState(resourceName, node, state string) {
	v.world.lock()
	defer v.world.mu.Unlock()
	v.eachCopy(resourceName, node, func(r *resource) { r.diskState = state })
}

// eachCopy changes what every database has of a copy: what happens on a machine is so whichever LINSTOR works on, and
// must not be forgotten when it goes back to one that the machine does not obey now.
func (v Volumes) eachCopy(name, nodeName string, change func(*resource)) {
	for _, db := range v.world.databases {
		if dfn := db.rscDfns[key(name)]; dfn != nil && dfn.resources[key(nodeName)] != nil {
			change(dfn.resources[key(nodeName)])
		}
	}
}

// Data returns the LINSTOR nodes whose machines still hold a complete copy of a volume on attached disks,
// whatever LINSTOR believes.
func (v Volumes) Data(name string) []string {
	v.world.lock()
	defer v.world.mu.Unlock()
	return v.world.holders(key(name))
}

func (w *World) holders(volumeKey string) []string {
	nodes := map[string]bool{}
	for _, m := range w.machines {
		m.stores(func(s *store) {
			if b := s.volumes[volumeKey]; b != nil && b.complete {
				nodes[b.node] = true
			}
		})
	}
	return slices.Sorted(maps.Keys(nodes))
}

// giveUp removes a copy because a client asked for it. Giving up the last good copy is a violation.
func (c *controller) giveUp(dfn *rscDfn, r *resource, cause string) {
	c.reportLast(dfn, r, cause)
	c.eraseCopy(dfn, r)
}

// reportLast records that a copy is given up, now or as soon as its satellite can, although no other is left that is
// good, stays, and is on a machine that is up: one that is away may have missed what was written since.
func (c *controller) reportLast(dfn *rscDfn, r *resource, cause string) {
	held := c.world.holders(key(dfn.name))
	if !r.good() || !slices.Contains(held, r.nodeName) {
		return
	}
	for _, other := range dfn.resources {
		if other != r && other.good() && !other.deleted && slices.Contains(held, other.nodeName) && c.drbdUp(other.node) {
			return
		}
	}
	c.world.violate("last-replica-lost resource=%s node=%s: %s", dfn.name, r.nodeName, cause)
}

// RemoveCopy deletes one copy of a volume, as an administrator does with LINSTOR's client. Its snapshots stay.
func (v Volumes) RemoveCopy(name, nodeName string) error {
	v.world.lock()
	defer v.world.mu.Unlock()
	dfn, ctl := v.definition(name)
	if dfn == nil || dfn.resources[key(nodeName)] == nil {
		return fmt.Errorf("remove copy: no copy of %q on node %q", name, nodeName)
	}
	ctl.giveUp(dfn, dfn.resources[key(nodeName)], "removal by an administrator")
	return nil
}
