package sim

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
)

// snapshot is a snapshot of a volume on the nodes that had a copy when it was made. It outlives those copies.
type snapshot struct {
	name, uuid string
	// pools are the names of the pools that hold it, by key of the node; nodes are the nodes' names.
	pools, nodes map[string]string
}

// CreateSnapshot takes a snapshot of a volume on all nodes that have a copy.
func (w *World) CreateSnapshot(volumeName, name string) error {
	w.lock()
	defer w.mu.Unlock()
	dfn, _ := w.definition(volumeName)
	if dfn == nil {
		return fmt.Errorf("create snapshot: no volume %q", volumeName)
	}
	s := &snapshot{name: name, uuid: w.newUUID(), pools: map[string]string{}, nodes: map[string]string{}}
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
func (w *World) DeleteSnapshot(volumeName, name string) {
	w.lock()
	defer w.mu.Unlock()
	if dfn, _ := w.definition(volumeName); dfn != nil {
		delete(dfn.snapshots, key(name))
	}
}

// snapshotUsers are the snapshots that keep a pool from being deleted.
func (d *Database) snapshotUsers(n *node, p *pool) []string {
	var users []string
	for _, dfn := range d.sortedDfns() {
		for _, k := range slices.Sorted(maps.Keys(dfn.snapshots)) {
			if s := dfn.snapshots[k]; key(s.pools[key(n.name)]) == key(p.name) {
				users = append(users, fmt.Sprintf("Node name: '%s', resource name: '%s', snapshot name: '%s', volume number: 0", n.name, dfn.name, s.name))
			}
		}
	}
	return users
}

type snapshotJSON struct {
	Name         string   `json:"name"`
	ResourceName string   `json:"resource_name"`
	Nodes        []string `json:"nodes"`
	Flags        []string `json:"flags,omitempty"`
	UUID         string   `json:"uuid"`
}

// viewSnapshots lists the snapshots that are on one of the nodes.
func viewSnapshots(c *call) reply {
	onNode, ofResource := c.filter("nodes"), c.filter("resources")
	list := []snapshotJSON{}
	for _, d := range c.db.sortedDfns() {
		for _, k := range slices.Sorted(maps.Keys(d.snapshots)) {
			s := d.snapshots[k]
			nodes := slices.Sorted(maps.Values(s.nodes))
			if ofResource(d.name) && slices.ContainsFunc(nodes, onNode) {
				list = append(list, snapshotJSON{Name: s.name, ResourceName: d.name, Nodes: nodes, Flags: []string{"SUCCESSFUL"}, UUID: s.uuid})
			}
		}
	}
	return c.object(http.StatusOK, page(c, list))
}
