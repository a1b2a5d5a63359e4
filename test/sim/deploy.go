package sim

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// deployer is the part of a call that makes copies and lets satellites hear of changes.
type deployer struct{ *call }

// keeper is the part of a controller that sees to the devices of copies.
type keeper struct{ *controller }

// defaultLayers are those of a volume that nobody chose layers for.
var defaultLayers = []string{"DRBD", "STORAGE"}

// layersFor are the layers of a new copy: those asked for, else those of the volume, else the default.
func (d *rscDfn) layersFor(asked []string) []string {
	layers := slices.Clone(firstList(asked, firstList(d.layers, firstList(d.wanted, defaultLayers))))
	for i := range layers {
		layers[i] = strings.ToUpper(layers[i])
	}
	return layers
}

// lackedLayers is the refusal of a node whose satellite lacks layers, nil if it has all.
func (c deployer) lackedLayers(n *node, layers []string) *rc {
	var lacked []string
	for _, l := range layers {
		if !slices.Contains(c.ctl.capabilities(n).layers, l) {
			lacked = append(lacked, l)
		}
	}
	if lacked == nil {
		return nil
	}
	e := failure(codeNoLayer, "Satellite '%s' does not support the following layers: [%s]", n.name,
		strings.Join(lacked, ", "))
	return &e
}

// register makes a copy, or a diskless client, in the database. The first one of a volume settles its layers, and what
// its volume's blocks are like. A diskless client that is there becomes the copy.
func (c deployer) register(d *rscDfn, s spot, layers []string, diskless bool) *resource {
	settled := d.layers != nil
	if !settled {
		d.layers = layers
		d.storageOnly = !slices.Contains(layers, "DRBD")
		if d.storageOnly {
			d.props["DrbdOptions/Resource/quorum"] = "off"
		}
	}
	if d.volume != nil && !diskless {
		d.volume.settle(s.pool.kind)
	}
	r := &resource{node: key(s.node.name), nodeName: s.node.name, uuid: c.world.newUUID(),
		volumeUUID: c.world.newUUID(), volume: map[string]string{}, pool: s.pool.name, diskless: diskless,
		diskState: stateDiskless, created: c.world.now, nodeID: d.freeNodeID()}
	if there := d.resources[r.node]; there != nil {
		r.uuid, r.nodeID = there.uuid, there.nodeID
	}
	d.resources[r.node] = r
	return r
}

// settle writes what the satellite finds out about a volume when it makes it.
func (v *volumeDfn) settle(kind string) {
	v.props["DrbdOptions/Disk/block-size"] = "512"
	if size := granularity[kind]; size != "" {
		v.props["StorDriver/internal/AllocationGranularity"] = size
	}
}

func (d *rscDfn) freeNodeID() int {
	for id := 0; ; id++ {
		if !slices.ContainsFunc(d.sortedResources(), func(r *resource) bool { return r.nodeID == id }) {
			return id
		}
	}
}

// deploy is what the satellites do about new copies: those that have one already learn of their new peers, and the
// others make theirs. A device that cannot be made is an error, and its resource stays (linstor-server 1.34,
// CtrlRscCrtApiHelper.deployResources).
func (c deployer) deploy(d *rscDfn, made []*resource) rcs {
	var names []string
	for _, r := range made {
		names = append(names, r.nodeName)
	}
	var list rcs
	others := false
	for _, r := range d.sortedResources() {
		if slices.Contains(made, r) {
			continue
		}
		others = others || !r.diskless && !r.broken
		n := c.db.nodes[r.node]
		list = append(list, withText(c.toSatellite(placed{d, r}), success(codeModified,
			"Added peer(s) '%s' to resource '%s' on '%s'", strings.Join(names, "', '"), d.name, n.name))...)
	}
	for _, r := range made {
		list = append(list, withText(c.makeDevice(placed{d, r}, others), success(codeModified,
			"Created resource '%s' on '%s'", d.name, r.nodeName).ref("RscDfn", d.name))...)
	}
	return list
}

// withText adds LINSTOR's own entry to those of a satellite, unless that one failed.
func withText(entries rcs, text rc) rcs {
	if slices.ContainsFunc(entries, rc.isError) {
		return entries
	}
	return append(entries, text)
}

// makeDevice lets a satellite make the device of a new copy. Beside other copies it has nothing yet: DRBD fills it,
// and without DRBD nobody does.
func (c deployer) makeDevice(on placed, others bool) rcs {
	n := c.db.nodes[on.rsc.node]
	if on.rsc.diskless {
		if !c.ctl.isOnline(n) {
			return rcs{notConnected(n)}
		}
		return rcs{drbdAdjusted(on)}
	}
	on.rsc.diskState = stateUpToDate
	if others {
		on.rsc.diskState = stateInconsistent
	}
	on.rsc.broken, on.rsc.created = true, time.Time{}
	if !c.ctl.isOnline(n) {
		return rcs{notConnected(n)}
	}
	if e := (keeper{c.ctl}).mend(on); e != nil {
		return rcs{e.reportedFrom(c.call, n)}
	}
	list := rcs{c.db.volumeEntry(on, codeCreated, "created")}
	if !on.dfn.storageOnly {
		list = append(list, drbdAdjusted(on))
	}
	return list
}

func drbdAdjusted(on placed) rc {
	e := success(objRsc|codeModified, "(%s) Resource '%s' [DRBD] adjusted.", on.rsc.nodeName, on.dfn.name)
	return e.fromSatellite()
}

// reportedFrom gives an entry an error report of a satellite.
func (e rc) reportedFrom(c *call, n *node) rc {
	e.ErrorReportIDs = []string{c.ctl.reportFrom(n.name, "SATELLITE", "StorageException", e.Message)}
	return e
}

// mend makes a device that has not been made, and returns what its satellite says if it cannot.
func (c keeper) mend(on placed) *rc {
	n := c.db.nodes[on.rsc.node]
	p, m := n.pools[key(on.rsc.pool)], c.machineOf(n)
	if !on.rsc.broken || p == nil || m == nil {
		return nil
	}
	b := backing{resource: on.dfn.name, node: n.name, sizeKiB: on.dfn.sizeKiB, takesKiB: on.dfn.takes(p.kind),
		complete: on.rsc.diskState == stateUpToDate, files: c.world.Volumes().filesOf(on.dfn)}
	if m.deviceError {
		return deviceError(on, p)
	}
	if err := m.write(p.kind, p.backingName(), b); err != nil {
		e := failure(codeUnknownError, "(%s) Failed to create volume", n.name).cause("%s", err).fromSatellite()
		return &e
	}
	on.rsc.broken, on.rsc.restored, on.rsc.created = false, false, c.world.now
	if on.rsc.diskState == stateInconsistent && !on.dfn.storageOnly {
		on.rsc.syncing, on.rsc.syncedAt = true, c.world.now.Add(c.world.opts.EvacuateDelay)
		c.world.after(c.world.opts.EvacuateDelay, mover(c).stepMigrations)
	}
	if err := c.refreshPool(n, p); err != nil {
		p.known = false
	}
	return nil
}

// deviceError is what a satellite says where losetup has no device for a file; of other providers the text is not
// known.
func deviceError(on placed, p *pool) *rc {
	e := failure(codeUnknownError, "(%s) Failed to attach loop back device", on.rsc.nodeName).fromSatellite()
	file := p.backingName() + "/" + on.dfn.name + "_00000.img"
	e = e.details("Command 'losetup -f --show %s' returned with exitcode 1. \n\nStandard out: \n\n\nError message: \n"+
		"losetup: %s: failed to set up loop device: No such file or directory\n\n", file, file)
	return &e
}

// takes is what a copy takes of a pool when it is made: of a thin one as much as has been written, and of a new file
// system that is roughly a sixteenth.
func (d *rscDfn) takes(kind string) int64 {
	if !isThin(kind) {
		return d.sizeKiB
	}
	filled := d.filledKiB
	if d.props["FileSystem/Type"] != "" {
		filled = max(filled, d.sizeKiB/16)
	}
	return min(max(filled, 8), d.sizeKiB)
}

// toSatellite is what the satellite of a copy says after a change that concerns it. One that could not make the
// device tries again, and while it cannot it says nothing at all, which is an error.
func (c deployer) toSatellite(on placed) rcs {
	n := c.db.nodes[on.rsc.node]
	switch {
	case !c.ctl.isOnline(n):
		return rcs{notConnected(n)}
	case on.rsc.broken && (keeper{c.ctl}).mend(on) != nil:
		return rcs{failure(codeUnknownError, "(%s) No response generated by handler.", n.name).
			details("In API call 'ChangedRsc'.").fromSatellite()}
	case on.rsc.diskless:
		return rcs{drbdAdjusted(on)}
	}
	keeper{c.ctl}.resize(on)
	list := rcs{c.db.volumeEntry(on, codeModified, "resized")}
	if !on.dfn.storageOnly {
		list = append(list, drbdAdjusted(on))
	}
	return list
}

// perNode is what the satellites of a definition's copies say after a change, each followed by LINSTOR's own entry.
func (c deployer) perNode(d *rscDfn, text func(n *node) rc) rcs {
	var list rcs
	for _, r := range d.sortedResources() {
		list = append(list, withText(c.toSatellite(placed{d, r}), text(c.db.nodes[r.node]))...)
	}
	return list
}

// resize brings the device of a copy to the size of its volume. Without room the device stays as it is, and so does
// one that is larger although nobody asked for a smaller one, as after an older database was restored. Only a file
// that is thin is cut: it counts as too small whatever its size (linstor-server 1.34, AbsStorageProvider).
func (c keeper) resize(on placed) {
	n := c.db.nodes[on.rsc.node]
	p, m := n.pools[key(on.rsc.pool)], c.machineOf(n)
	if on.rsc.diskless || on.rsc.broken || p == nil || m == nil {
		return
	}
	found, err := m.find(p.kind, p.backingName())
	if err != nil {
		return
	}
	b := found.volumes[key(on.dfn.name)]
	if b == nil || b.sizeKiB == on.dfn.sizeKiB {
		on.rsc.shrinks = false
		return
	}
	if b.sizeKiB > on.dfn.sizeKiB && !on.rsc.shrinks && on.dfn.volume != nil {
		if p.kind != kindFileThin {
			return
		}
		c.world.violate("volume-cut resource=%s node=%s: from %d to %d KiB, which is what the database says", on.dfn.name,
			n.name, b.sizeKiB, on.dfn.sizeKiB)
	}
	on.rsc.shrinks = false
	more := on.dfn.sizeKiB - b.sizeKiB
	if isThin(p.kind) {
		more = 0
	}
	if more > found.freeKiB {
		return
	}
	b.sizeKiB, b.takesKiB = on.dfn.sizeKiB, min(b.takesKiB+more, on.dfn.sizeKiB)
	if err := c.refreshPool(n, p); err != nil {
		p.known = false
	}
}

// catchUp is what a satellite does about its copies when it connects, besides those that are to go.
func (c keeper) catchUp(n *node) {
	for _, on := range c.db.resourcesOn(n) {
		if !on.rsc.deleted {
			_ = c.mend(on) // what cannot be made stays broken
			c.resize(on)
		}
	}
	for _, on := range c.db.snapshotsOn(n) {
		if on.snap.deleting[key(n.name)] {
			c.dropSnapshot(on, n)
		}
	}
}

// copyOf is a copy of a map that is never nil.
func copyOf(props map[string]string) map[string]string {
	if props == nil {
		return map[string]string{}
	}
	return maps.Clone(props)
}
