package sim

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
)

type snapshotJSON struct {
	Name         string               `json:"name"`
	ResourceName string               `json:"resource_name"`
	Nodes        []string             `json:"nodes"`
	Props        map[string]string    `json:"props,omitempty"`
	OwnProps     map[string]string    `json:"snapshot_definition_props,omitempty"`
	DfnProps     map[string]string    `json:"resource_definition_props,omitempty"`
	Flags        []string             `json:"flags,omitempty"`
	Volumes      []snapshotVolumeJSON `json:"volume_definitions,omitempty"`
	UUID         string               `json:"uuid"`
	Snapshots    []snapshotOnNodeJSON `json:"snapshots,omitempty"`
}

type snapshotVolumeJSON struct {
	VolumeNumber int               `json:"volume_number"`
	SizeKiB      int64             `json:"size_kib"`
	Props        map[string]string `json:"volume_definition_props,omitempty"`
}

type snapshotOnNodeJSON struct {
	SnapshotName    string            `json:"snapshot_name"`
	NodeName        string            `json:"node_name"`
	CreateTimestamp *int64            `json:"create_timestamp,omitempty"`
	Flags           []string          `json:"flags,omitempty"`
	UUID            string            `json:"uuid"`
	ResourceProps   map[string]string `json:"resource_props,omitempty"`
	Volumes         []map[string]any  `json:"snapshot_volumes,omitempty"`
}

func (d *rscDfn) snapshotJSON(s *snapshot) snapshotJSON {
	own := map[string]string{"BackupShipping/BackupNodeIdsToReset": "", "SequenceNumber": itoa(s.sequence)}
	all := maps.Clone(own)
	maps.Copy(all, s.dfnProps)
	out := snapshotJSON{
		Name: s.name, ResourceName: d.name, Nodes: slices.Sorted(maps.Values(s.nodes)), Props: all, OwnProps: own,
		DfnProps: s.dfnProps,
		Flags:    []string{"SUCCESSFUL"}, UUID: s.uuid,
	}
	if len(s.deleting) > 0 && len(s.deleting) == len(s.nodes) {
		out.Flags = []string{"DELETE", "SUCCESSFUL"}
	}
	if s.volumeProps != nil {
		out.Volumes = []snapshotVolumeJSON{{SizeKiB: s.sizeKiB, Props: s.volumeProps}}
	}
	for _, k := range slices.Sorted(maps.Keys(s.nodes)) {
		volume := map[string]any{"uuid": s.uuid, "vlm_nr": 0}
		if len(s.volumes[k]) > 0 {
			volume["props"], volume["volume_props"] = s.volumes[k], s.volumes[k]
		}
		part := snapshotOnNodeJSON{SnapshotName: s.name, NodeName: s.nodes[k], CreateTimestamp: unixMillis(s.created),
			UUID: s.uuid, ResourceProps: map[string]string{"StorPoolName": s.pools[k]},
			Volumes: []map[string]any{volume}}
		if s.deleting[k] {
			part.Flags = []string{"DELETE"}
		}
		out.Snapshots = append(out.Snapshots, part)
	}
	return out
}

// viewSnapshots lists the snapshots that are on one of the nodes.
func viewSnapshots(c *call) reply {
	onNode, ofResource := c.filter("nodes"), c.filter("resources")
	list := []snapshotJSON{}
	for _, d := range c.db.sortedDfns() {
		for _, k := range slices.Sorted(maps.Keys(d.snapshots)) {
			s := d.snapshots[k]
			if ofResource(d.name) && slices.ContainsFunc(slices.Collect(maps.Values(s.nodes)), onNode) {
				list = append(list, d.snapshotJSON(s))
			}
		}
	}
	return c.object(http.StatusOK, page(c, list))
}

// snapped is a snapshot with its volume.
type snapped struct {
	dfn  *rscDfn
	snap *snapshot
}

// snapshotsOn returns the snapshots that a node holds, by volume and name.
func (d *Database) snapshotsOn(n *node) []snapped {
	var list []snapped
	for _, dfn := range d.sortedDfns() {
		for _, k := range slices.Sorted(maps.Keys(dfn.snapshots)) {
			if s := dfn.snapshots[k]; s.nodes[key(n.name)] != "" {
				list = append(list, snapped{dfn, s})
			}
		}
	}
	return list
}

// deleteSnapshotsOf deletes a node's part of snapshots, as a deletion of the node does from LINSTOR 1.32 on. Where
// its satellite is not there, they stay until it is.
func (c *call) deleteSnapshotsOf(n *node, list []snapped) rcs {
	var out rcs
	for _, on := range list {
		name := fmt.Sprintf("'%s' of resource '%s'", on.snap.name, on.dfn.name)
		out = append(out, success(codeDeleted, "Marked snapshot for deletion snapshot %s on nodes '%s'", name, n.name))
		if !c.ctl.isOnline(n) {
			continue
		}
		kind := ""
		if p := n.pools[key(on.snap.pools[key(n.name)])]; p != nil {
			kind = spelled[p.kind]
		}
		out = append(out, success(opDelete|objSnapshot|codeDeleted,
			"(%s) Snapshot [%s] with name %s, volume number 0 deleted.", n.name, kind, name).
			ref("RscDfn", on.dfn.name).ref("Snapshot", on.snap.name).ref("VlmNr", "0").fromSatellite(),
			success(codeModified, "Deleted snapshot '%s' of '%s' on '%s'", on.snap.name, on.dfn.name, n.name))
		on.snap.leave(n)
		for _, other := range slices.Sorted(maps.Values(on.snap.nodes)) {
			out = append(out, success(codeModified, "Updated snapshot '%s' of '%s' on '%s'", on.snap.name, on.dfn.name, other))
		}
		out = append(out, success(codeDeleted, "Snapshot %s on nodes '%s' deleted.", name, n.name))
		if len(on.snap.nodes) == 0 {
			delete(on.dfn.snapshots, key(on.snap.name))
			out = append(out, success(codeDeleted, "Snapshot %s deleted.", name).
				details("Snapshot %s UUID was: %s", name, on.snap.uuid).ref("UUID", on.snap.uuid))
		}
	}
	return out
}

// stuckDeletion reports whether a node is flagged DELETE and still served by its satellite. The satellite then fails
// over whatever makes it look at all nodes, and requests that wait for it are never answered, although their change
// is committed.
func (c *controller) stuckDeletion() bool {
	return slices.ContainsFunc(c.db.sortedNodes(), func(n *node) bool { return n.deleted && !n.evicted && c.isOnline(n) })
}

// neverAnswer keeps the request until its client gives up, or the controller is gone.
func (c *call) neverAnswer() reply {
	c.world.mu.Unlock()
	select {
	case <-c.req.Context().Done():
	case <-c.ctl.process.done:
	}
	c.world.lock()
	return reply{dropped: true}
}
