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
}

// CreateSnapshot takes a snapshot of a volume on all nodes that have a copy.
func (v Volumes) CreateSnapshot(volumeName, name string) error {
	v.world.lock()
	defer v.world.mu.Unlock()
	dfn, _ := v.definition(volumeName)
	if dfn == nil {
		return fmt.Errorf("create snapshot: no volume %q", volumeName)
	}
	s := &snapshot{name: name, uuid: v.world.newUUID(), created: v.world.now, pools: map[string]string{},
		nodes: map[string]string{}}
	for k, r := range dfn.resources {
		if !r.diskless {
			s.pools[k], s.nodes[k] = r.pool, r.nodeName
		}
	}
	if dfn.snapshots == nil {
		dfn.snapshots = map[string]*snapshot{}
	}
	dfn.snapshots[key(name)] = s
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
