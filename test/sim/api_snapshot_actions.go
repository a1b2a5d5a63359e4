package sim

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// snapper is the part of a call that takes snapshots.
type snapper struct{ *call }

type multiSnapshotJSON struct {
	Snapshots []snapshotAskedJSON `json:"snapshots"`
}

// snapshotAskedJSON is what a client may send of a snapshot; only its names and its nodes count.
type snapshotAskedJSON struct {
	Name         string            `json:"name"`
	ResourceName string            `json:"resource_name"`
	Nodes        []string          `json:"nodes"`
	Props        map[string]string `json:"props"`
	OwnProps     map[string]string `json:"snapshot_definition_props"`
	DfnProps     map[string]string `json:"resource_definition_props"`
	Flags        []string          `json:"flags"`
	Volumes      []map[string]any  `json:"volume_definitions"`
	UUID         string            `json:"uuid"`
	Snapshots    []map[string]any  `json:"snapshots"`
}

func snapshotContext(op uint64, resource, name string) rcContext {
	return rcContext{op: op, object: objSnapshot, refs: map[string]string{"RscDfn": resource, "Snapshot": name},
		subject: fmt.Sprintf("Resource: %s, Snapshot: %s", resource, name)}
}

func createSnapshots(c *call) reply {
	var body multiSnapshotJSON
	if r, ok := c.decode(&body, parsedFirst); !ok {
		return r
	}
	return snapper{c}.takeSnapshots(body.Snapshots)
}

func createSnapshot(c *call) reply {
	var body snapshotAskedJSON
	if r, ok := c.decode(&body, parsedFirst); !ok {
		return r
	}
	body.ResourceName = c.req.PathValue("rd")
	return snapper{c}.takeSnapshots([]snapshotAskedJSON{body})
}

// taking is a snapshot that is being taken: of these copies.
type taking struct {
	dfn    *rscDfn
	name   string
	copies []*resource
}

// takeSnapshots takes several snapshots at one time, or none (linstor-server 1.34, CtrlSnapshotCrtApiCallHandler): all
// devices are suspended, all snapshots are taken, all devices are resumed.
func (c snapper) takeSnapshots(asked []snapshotAskedJSON) reply {
	var all []taking
	var list rcs
	x := snapshotContext(opCreate, "", "")
	for i, a := range asked {
		x = snapshotContext(opCreate, a.ResourceName, a.Name)
		t, warnings, refused := c.takeable(a)
		if refused != nil {
			return c.list(http.StatusCreated, x, rcs{*refused})
		}
		asked[i].ResourceName = t.dfn.name
		all, list = append(all, t), append(list, warnings...)
	}
	if len(all) > 1 {
		x.refs = nil
	}
	for _, t := range all {
		s := c.world.newSnapshot(t.dfn, t.name, t.copies)
		what := fmt.Sprintf("'%s' of resource '%s'", s.name, t.dfn.name)
		list = append(list, success(codeCreated, "New snapshot %s registered.", what).
			details("Snapshot %s UUID is: %s", what, s.uuid).ref("UUID", s.uuid).ref("RscDfn", t.dfn.name).
			ref("Snapshot", s.name))
	}
	for _, step := range []struct {
		text  string
		takes bool
	}{{"Suspended IO of '[%s]' on '%s' for snapshot", false}, {"Took snapshot of '[%s]' on '%s'", true},
		{"Resumed IO of '[%s]' on '%s' after snapshot", false}} {
		list = append(list, c.snapshotStep(all, step.text, step.takes)...)
	}
	return c.list(http.StatusCreated, x, list)
}

// snapshotStep is what the satellites say about one step, node by node.
func (c snapper) snapshotStep(all []taking, text string, takes bool) rcs {
	names := map[string][]string{}
	entries := map[string]rcs{}
	for _, t := range all {
		for _, r := range t.copies {
			names[r.nodeName] = append(names[r.nodeName], t.dfn.name)
			entries[r.nodeName] = append(entries[r.nodeName], deployer(c).toSatellite(placed{t.dfn, r})...)
			if takes {
				entries[r.nodeName] = append(entries[r.nodeName], success(codeCreated,
					"(%s) Snapshot [%s] with name '%s' of resource '%s', volume number 0 created.", r.nodeName,
					c.kindOf(r.node, r.pool), t.name, t.dfn.name).ref("RscDfn", t.dfn.name).ref("Snapshot", t.name).
					ref("VlmNr", "0").fromSatellite())
			}
		}
	}
	var list rcs
	for _, n := range slices.Sorted(maps.Keys(names)) {
		list = append(list, append(entries[n], success(codeModified, text, strings.Join(names[n], ", "), n))...)
	}
	return list
}

// kindOf is a pool's provider kind as satellites write it.
func (c snapper) kindOf(nodeKey, pool string) string {
	if n := c.db.nodes[nodeKey]; n != nil && n.pools[key(pool)] != nil {
		return spelled[n.pools[key(pool)].kind]
	}
	return ""
}

// takeable finds the copies for a snapshot: at least one, and all on pools that have snapshots. Nodes that are not
// ONLINE are left out with a warning.
func (c snapper) takeable(a snapshotAskedJSON) (t taking, warnings rcs, refused *rc) {
	fail := func(e rc) (taking, rcs, *rc) { return taking{}, nil, &e }
	d := c.db.rscDfns[key(a.ResourceName)]
	switch {
	case d == nil:
		return fail(unknownDfn(a.ResourceName))
	case !validObjectName(a.Name, 2, 48):
		return fail(failure(codeInvalidSnapName, "The specified snapshot name '%s' is invalid.", a.Name).
			cause("Invalid name: %s", objectNameFault(a.Name, 2, 48)))
	case d.snapshots[key(a.Name)] != nil:
		return fail(failure(codeExistsSnapshot, "A snapshot definition with the name '%s' already exists in resource "+
			"definition '%s'.", a.Name, d.name).cause("The SnapshotDefinition already exists"))
	}
	t = taking{dfn: d, name: a.Name}
	for _, r := range d.sortedResources() {
		n := c.db.nodes[r.node]
		p := n.pools[key(r.pool)]
		switch {
		case r.diskless || r.deleted || p == nil || len(a.Nodes) > 0 && !named(a.Nodes, r.nodeName):
		case !c.ctl.isOnline(n):
			warnings = append(warnings, warning(0, "Snapshot for resource '%s' will not be created on node '%s' because that "+
				"node is currently offline.", d.name, n.name))
		case !supportsSnapshots(p.kind):
			return fail(failure(codeNoSnapshots, "Storage driver '%s' does not support snapshots.", p.kind).
				details("Used for storage pool '%s' on '%s'.", p.name, n.name))
		default:
			t.copies = append(t.copies, r)
		}
	}
	if len(t.copies) == 0 {
		return fail(failure(codeDisconnected, "No diskful connected satellite for snapshot or no resources.").
			details("Snapshots need at least one diskful online satellite."))
	}
	return t, warnings, nil
}

func listSnapshots(c *call) reply {
	name := c.req.PathValue("rd")
	d := c.db.rscDfns[key(name)]
	if d == nil {
		return c.missingDfn(name)
	}
	list := []snapshotJSON{}
	for _, k := range slices.Sorted(maps.Keys(d.snapshots)) {
		list = append(list, d.snapshotJSON(d.snapshots[k]))
	}
	return c.object(http.StatusOK, page(c, list))
}

func getSnapshot(c *call) reply {
	name, snap := c.req.PathValue("rd"), c.req.PathValue("snapshot")
	d := c.db.rscDfns[key(name)]
	if d == nil {
		return c.missingDfn(name)
	}
	if s := d.snapshots[key(snap)]; s != nil {
		return c.object(http.StatusOK, d.snapshotJSON(s))
	}
	return c.list(http.StatusOK, rcContext{bare: true},
		rcs{failure(codeNotFoundSnapshot, "Snapshot '%s' not found.", snap)})
}

// deleteSnapshot deletes a snapshot, on all nodes or on those named. A part whose satellite is not there stays, marked
// for deletion, until it is.
func deleteSnapshot(c *call) reply {
	name, snap := c.req.PathValue("rd"), c.req.PathValue("snapshot")
	x := snapshotContext(opDelete, name, snap)
	d := c.db.rscDfns[key(name)]
	if d == nil || d.snapshots[key(snap)] == nil {
		return c.list(http.StatusOK, x, rcs{warning(codeNotFoundWarning, "%s not found.", x.subject)})
	}
	s := d.snapshots[key(snap)]
	onNode := c.filter("nodes")
	what := fmt.Sprintf("'%s' of resource '%s'", s.name, d.name)
	var marked, done rcs
	var gone []string
	for _, k := range slices.Sorted(maps.Keys(s.nodes)) {
		n := c.db.nodes[k]
		if n == nil || !onNode(n.name) {
			continue
		}
		s.deleting[k] = true
		marked = append(marked, success(codeDeleted, "Marked snapshot for deletion snapshot %s on nodes '%s'", what, n.name))
		if !c.ctl.isOnline(n) {
			done = append(done, notConnected(n))
			continue
		}
		gone = append(gone, n.name)
		done = append(done, success(codeDeleted, "(%s) Snapshot [%s] with name %s, volume number 0 deleted.", n.name,
			snapper{c}.kindOf(k, s.pools[k]), what).ref("VlmNr", "0").fromSatellite(),
			success(codeModified, "Deleted snapshot '%s' of '%s' on '%s'", s.name, d.name, n.name))
		c.ctl.dropSnapshot(snapped{d, s}, n)
	}
	list := append(marked, done...)
	if len(gone) > 0 {
		list = append(list, success(codeDeleted, "Snapshot %s on nodes '%s' deleted.", what, strings.Join(gone, ", ")))
	}
	if len(s.nodes) == 0 {
		list = append(list, success(codeDeleted, "Snapshot %s deleted.", what).
			details("Snapshot %s UUID was: %s", what, s.uuid).ref("UUID", s.uuid))
	}
	return c.list(http.StatusOK, x, list)
}
