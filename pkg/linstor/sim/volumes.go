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

// volume is a volume that a test has created and that must not be lost behind the test's back.
type volume struct{ name string }

// CreateVolume places a DRBD resource with one volume on nodes, diskful in a pool of that name and UpToDate, as a
// volume driver does through LINSTOR. It needs a running controller and nodes that are ONLINE.
func (w *World) CreateVolume(name string, sizeKiB int64, pool string, nodes ...string) error {
	w.lock()
	defer w.mu.Unlock()
	ctl := w.serving()
	if ctl == nil {
		return errors.New("create volume: no controller runs")
	}
	db := ctl.db
	if db.rscDfns[key(name)] != nil {
		return fmt.Errorf("create volume: resource definition %q already exists", name)
	}
	dfn := &rscDfn{name: name, uuid: w.newUUID(), props: map[string]string{}, sizeKiB: sizeKiB,
		minor: db.nextMinor, port: 6000 + db.nextMinor, resources: map[string]*resource{}}
	var undo []func()
	for _, nodeName := range nodes {
		remove, err := w.placeCopy(ctl, dfn, nodeName, pool)
		if err != nil {
			for _, f := range undo {
				f()
			}
			return fmt.Errorf("create volume %s: %w", name, err)
		}
		undo = append(undo, remove)
	}
	db.nextMinor++
	db.rscDfns[key(name)] = dfn
	w.volumes[key(name)] = &volume{name: name}
	return nil
}

// placeCopy adds one UpToDate copy to a definition and returns what takes it away again.
func (w *World) placeCopy(ctl *controller, dfn *rscDfn, nodeName, poolName string) (undo func(), err error) {
	n := ctl.db.nodes[key(nodeName)]
	if n == nil {
		return nil, fmt.Errorf("no node %q", nodeName)
	}
	p := n.pools[key(poolName)]
	if p == nil || p.kind == kindDiskless {
		return nil, fmt.Errorf("no diskful storage pool %q on node %q", poolName, nodeName)
	}
	r, err := ctl.newCopy(dfn, n, p, stateUpToDate)
	if err != nil {
		return nil, err
	}
	dfn.resources[r.node] = r
	return func() { ctl.eraseCopy(dfn, r) }, nil
}

// newCopy writes a copy to the backing of a pool.
func (c *controller) newCopy(dfn *rscDfn, n *node, p *pool, diskState string) (*resource, error) {
	m := c.machineOf(n)
	if m == nil {
		return nil, fmt.Errorf("node %q is not ONLINE", n.name)
	}
	b := backing{resource: dfn.name, node: n.name, sizeKiB: dfn.sizeKiB, complete: diskState == stateUpToDate}
	if err := m.write(p.kind, p.backingName(), b); err != nil {
		return nil, err
	}
	if err := c.refreshPool(n, p); err != nil {
		return nil, err
	}
	return &resource{node: key(n.name), nodeName: n.name, uuid: c.world.newUUID(), pool: p.name, diskState: diskState,
		created: c.world.now, nodeID: len(dfn.resources)}, nil
}

// eraseCopy removes a copy from the database and from the machine, if the machine can be reached.
func (c *controller) eraseCopy(dfn *rscDfn, r *resource) {
	delete(dfn.resources, r.node)
	n := c.db.nodes[r.node]
	if n == nil || r.diskless {
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
func (w *World) AttachDiskless(name, nodeName string) error {
	w.lock()
	defer w.mu.Unlock()
	dfn, ctl := w.definition(name)
	if dfn == nil {
		return fmt.Errorf("attach diskless: no volume %q", name)
	}
	n := ctl.db.nodes[key(nodeName)]
	if n == nil {
		return fmt.Errorf("attach diskless: no node %q", nodeName)
	}
	dfn.resources[key(nodeName)] = &resource{node: key(nodeName), nodeName: n.name, uuid: w.newUUID(), pool: disklessPool,
		diskless: true, diskState: stateDiskless, created: w.now, nodeID: len(dfn.resources)}
	return nil
}

// definition finds a volume in the database of the running controller.
func (w *World) definition(name string) (*rscDfn, *controller) {
	ctl := w.serving()
	if ctl == nil {
		return nil, nil
	}
	return ctl.db.rscDfns[key(name)], ctl
}

// DeleteVolume deletes a volume on purpose, with its data.
func (w *World) DeleteVolume(name string) error {
	w.lock()
	defer w.mu.Unlock()
	dfn, ctl := w.definition(name)
	if dfn == nil {
		return fmt.Errorf("delete volume: no volume %q", name)
	}
	for _, r := range dfn.sortedResources() {
		ctl.eraseCopy(dfn, r)
	}
	delete(ctl.db.rscDfns, key(name))
	delete(w.volumes, key(name))
	return nil
}

// SetInUse sets whether a copy is primary and open on its node. Unknown names are ignored.
func (w *World) SetInUse(resourceName, node string, inUse bool) {
	w.eachCopy(resourceName, node, func(r *resource) { r.inUse = inUse })
}

// SetDiskState sets the DRBD disk state of a copy: "UpToDate", "Inconsistent", "Outdated", "Failed", … Unknown names are
// ignored.
func (w *World) SetDiskState(resourceName, node, state string) {
	w.eachCopy(resourceName, node, func(r *resource) { r.diskState = state })
}

func (w *World) eachCopy(name, nodeName string, change func(*resource)) {
	w.lock()
	defer w.mu.Unlock()
	for _, db := range w.databases {
		if dfn := db.rscDfns[key(name)]; dfn != nil && dfn.resources[key(nodeName)] != nil {
			change(dfn.resources[key(nodeName)])
		}
	}
}

// VolumeData returns the LINSTOR nodes whose machines still hold a complete copy of a volume on attached disks, whatever
// LINSTOR believes.
func (w *World) VolumeData(name string) []string {
	w.lock()
	defer w.mu.Unlock()
	return w.holders(key(name))
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

func (w *World) inUse(volumeKey, nodeKey string) bool {
	for _, db := range w.databases {
		if dfn := db.rscDfns[volumeKey]; dfn != nil {
			if r := dfn.resources[nodeKey]; r != nil && r.inUse {
				return true
			}
		}
	}
	return false
}

// goodCopies counts the complete copies of every volume.
func (w *World) goodCopies() map[string]int {
	counts := map[string]int{}
	for k := range w.volumes {
		counts[k] = len(w.holders(k))
	}
	return counts
}

// reportLostCopies records the volumes that have no complete copy any more though they had one before.
func (w *World) reportLostCopies(before map[string]int, cause string) {
	for _, k := range slices.Sorted(maps.Keys(before)) {
		if before[k] > 0 && len(w.holders(k)) == 0 {
			w.violate("last-replica-lost resource=%s: %s", w.volumes[k].name, cause)
		}
	}
}

// giveUp removes a copy because a client asked for it. Giving up the last good copy is a violation.
func (c *controller) giveUp(dfn *rscDfn, r *resource, cause string) {
	c.reportLast(dfn, r, cause)
	c.eraseCopy(dfn, r)
}

// reportLast records that a copy is given up, now or as soon as its satellite can, although no other is left that is good,
// stays, and is on a machine that is up: one that is away may have missed what was written since.
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
func (w *World) RemoveCopy(name, nodeName string) error {
	w.lock()
	defer w.mu.Unlock()
	dfn, ctl := w.definition(name)
	if dfn == nil || dfn.resources[key(nodeName)] == nil {
		return fmt.Errorf("remove copy: no copy of %q on node %q", name, nodeName)
	}
	ctl.giveUp(dfn, dfn.resources[key(nodeName)], "removal by an administrator")
	return nil
}
