package sim

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// snapshot is a snapshot of a volume on the nodes that had a copy when it was made. It outlives those copies.
type snapshot struct {
	name, uuid string
	created    time.Time
	// pools are the names of the pools that hold it, by key of the node; nodes are the nodes' names.
	pools, nodes map[string]string
	// volumes are the properties of the volumes of the copies, by key of the node.
	volumes map[string]map[string]string
	// deleting are the nodes, by key, whose satellite has still to delete its part.
	deleting map[string]bool
	// sequence counts the snapshots of a definition.
	sequence int
	// What the definition and its volume were like.
	dfnProps, volumeProps map[string]string
	sizeKiB               int64
	// files are what the copies had written, by key of the node.
	files map[string]files
}

func (s *snapshot) clone() *snapshot {
	out := shallow(s)
	out.pools, out.nodes, out.deleting = maps.Clone(s.pools), maps.Clone(s.nodes), maps.Clone(s.deleting)
	out.dfnProps, out.volumeProps = maps.Clone(s.dfnProps), maps.Clone(s.volumeProps)
	out.volumes = cloned(s.volumes, maps.Clone[map[string]string])
	out.files = cloned(s.files, maps.Clone[files])
	return out
}

// newSnapshot takes a snapshot of copies of a volume.
func (w *World) newSnapshot(dfn *rscDfn, name string, copies []*resource) *snapshot {
	dfn.snapshotsTaken++
	s := &snapshot{name: name, uuid: w.newUUID(), created: w.now, pools: map[string]string{}, nodes: map[string]string{},
		volumes: map[string]map[string]string{}, deleting: map[string]bool{}, sequence: dfn.snapshotsTaken,
		dfnProps: copyOf(dfn.props), sizeKiB: dfn.sizeKiB, files: w.Volumes().written(dfn, copies)}
	if dfn.volume != nil {
		s.volumeProps = copyOf(dfn.volume.props)
	}
	for _, r := range copies {
		s.pools[r.node], s.nodes[r.node], s.volumes[r.node] = r.pool, r.nodeName, copyOf(r.volume)
	}
	dfn.snapshots[key(name)] = s
	return s
}

// CreateSnapshot takes a snapshot of a volume on the nodes that have a copy, or on those of them that are named.
func (v Volumes) CreateSnapshot(volumeName, name string, nodes ...string) error {
	v.world.lock()
	defer v.world.mu.Unlock()
	dfn, _ := v.definition(volumeName)
	if dfn == nil {
		return fmt.Errorf("create snapshot: no volume %q", volumeName)
	}
	var copies []*resource
	for _, r := range dfn.sortedResources() {
		if !r.diskless && (len(nodes) == 0 || slices.Contains(nodes, r.nodeName)) {
			copies = append(copies, r)
		}
	}
	if len(copies) == 0 || dfn.snapshots[key(name)] != nil {
		return fmt.Errorf("create snapshot: no copy of volume %q there, or there is a snapshot %q", volumeName, name)
	}
	v.world.newSnapshot(dfn, name, copies)
	return nil
}

// DeleteSnapshot removes a snapshot. Unknown names are ignored.
func (v Volumes) DeleteSnapshot(volumeName, name string) {
	v.world.lock()
	defer v.world.mu.Unlock()
	if dfn, _ := v.definition(volumeName); dfn != nil {
		delete(dfn.snapshots, key(name))
	}
}

// OnlySnapshots are the snapshots that no other node has, as "volume/snapshot", sorted.
func (v Volumes) OnlySnapshots(node string) []string {
	v.world.lock()
	defer v.world.mu.Unlock()
	var out []string
	if ctl := v.world.serving(); ctl != nil {
		for _, dfn := range ctl.db.sortedDfns() {
			for _, k := range slices.Sorted(maps.Keys(dfn.snapshots)) {
				if s := dfn.snapshots[k]; len(s.nodes) == 1 && s.nodes[key(node)] != "" && !s.deleting[key(node)] {
					out = append(out, dfn.name+"/"+s.name)
				}
			}
		}
	}
	return out
}

// snapshotUsers are the snapshots that keep a pool from being deleted.
func (d *Database) snapshotUsers(n *node, p *pool) []string {
	var users []string
	for _, dfn := range d.sortedDfns() {
		for _, k := range slices.Sorted(maps.Keys(dfn.snapshots)) {
			if s := dfn.snapshots[k]; key(s.pools[key(n.name)]) == key(p.name) {
				users = append(users, fmt.Sprintf("Node name: '%s', resource name: '%s', snapshot name: '%s', volume number: 0, "+
					"resource suffix: ''", n.name, dfn.name, s.name))
			}
		}
	}
	return users
}
