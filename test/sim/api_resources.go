package sim

import (
	"fmt"
	"net/http"
	"strings"
)

func viewResources(c *call) reply {
	for _, name := range c.query["nodes"] {
		if c.db.nodes[key(name)] == nil {
			return c.list(http.StatusOK, rcContext{bare: true}, rcs{unknownNode(name)})
		}
	}
	matchNode, matchRsc, matchPool := c.filter("nodes"), c.filter("resources"), c.filter("storage_pools")
	list := []resourceJSON{}
	for _, dfn := range c.db.sortedDfns() {
		for _, r := range dfn.sortedResources() {
			if matchRsc(dfn.name) && matchNode(r.nodeName) && matchPool(r.pool) &&
				c.matchesProps(map[string]string{"StorPoolName": r.pool}) {
				list = append(list, c.resourceJSON(placed{dfn, r}))
			}
		}
	}
	return c.object(http.StatusOK, page(c, list))
}

type volumeDfnJSON struct {
	VolumeNumber int               `json:"volume_number"`
	SizeKiB      int64             `json:"size_kib"`
	Props        map[string]string `json:"props,omitempty"`
	Flags        []string          `json:"flags,omitempty"`
	LayerData    []volumeLayerJSON `json:"layer_data,omitempty"`
	UUID         string            `json:"uuid,omitempty"`
}

type resourceDfnJSON struct {
	Name              string            `json:"name"`
	ExternalName      []byte            `json:"external_name,omitempty"`
	Props             map[string]string `json:"props,omitempty"`
	Flags             []string          `json:"flags,omitempty"`
	LayerData         []volumeLayerJSON `json:"layer_data,omitempty"`
	UUID              string            `json:"uuid"`
	ResourceGroupName string            `json:"resource_group_name"`
	VolumeDefinitions []volumeDfnJSON   `json:"volume_definitions,omitempty"`
}

func (d *rscDfn) json(withVolumes bool) resourceDfnJSON {
	out := resourceDfnJSON{Name: d.name, Props: d.props, UUID: d.uuid, ResourceGroupName: d.group}
	if d.deleted {
		out.Flags = []string{"DELETE"}
	}
	for _, l := range d.layers {
		layer := volumeLayerJSON{Type: l}
		if l == "DRBD" {
			layer.Data = drbdDfnJSON{PeerSlots: 7, AlStripes: 1, AlStripeSizeKiB: 32, Port: d.port, TransportType: "IP",
				Secret: "simulated"}
		}
		out.LayerData = append(out.LayerData, layer)
	}
	if withVolumes && d.volume != nil {
		out.VolumeDefinitions = []volumeDfnJSON{d.volumeJSON()}
	}
	return out
}

func listResourceDfns(c *call) reply {
	match := c.filter("resource_definitions")
	var list []resourceDfnJSON
	for _, d := range c.db.sortedDfns() {
		if match(d.name) && c.matchesProps(d.props) {
			list = append(list, d.json(c.query.Get("with_volume_definitions") == "true"))
		}
	}
	return c.object(http.StatusOK, page(c, list))
}

func (c *call) missingDfn(name string) reply {
	return c.list(http.StatusOK, rcContext{bare: true},
		rcs{failure(codeNotFoundRscDfn, "Resource definition '%s' not found.", name)})
}

func getResourceDfn(c *call) reply {
	name := c.req.PathValue("rd")
	if d := c.db.rscDfns[key(name)]; d != nil {
		return c.object(http.StatusOK, d.json(c.query.Get("with_volume_definitions") == "true"))
	}
	return c.missingDfn(name)
}

func deleteResourceDfn(c *call) reply {
	name := c.req.PathValue("rd")
	x := rcContext{op: opDelete, object: objRscDfn, refs: map[string]string{"RscDfn": name},
		subject: "Resource definition: " + name}
	d := c.db.rscDfns[key(name)]
	if d == nil {
		return c.list(http.StatusOK, x, rcs{warning(codeNotFoundWarning, "Resource definition: %s not found.", name)})
	}
	if len(d.snapshots) > 0 {
		return c.list(http.StatusOK, x, rcs{failure(codeExistsSnapshot, "Cannot delete resource definition '%s' because "+
			"it has snapshots.", d.name)})
	}
	for _, r := range d.sortedResources() {
		if on := (placed{d, r}); on.usedFor(c.ctl) {
			return c.list(http.StatusOK,
				x, rcs{failure(codeInUse, "Resource '%s' on node '%s' is still in use.", d.name, r.nodeName)})
		}
	}
	var list rcs
	if len(d.resources) > 0 {
		list = rcs{success(codeDeleted, "Resource definition '%s' marked for deletion.", d.name)}
	}
	for _, r := range d.sortedResources() {
		list = append(list, c.erased(placed{d, r}))
		if (definer{c}).drop(d, r, "deletion of resource definition "+d.name) {
			list = append(list, success(codeModified, "Resource '%s' on '%s' marked for deletion", d.name, r.nodeName))
		}
	}
	if len(d.resources) > 0 {
		d.deleted = true // until the last satellite is back
		return c.list(http.StatusOK, x, list)
	}
	delete(c.db.rscDfns, key(name))
	return c.list(http.StatusOK, x, append(list, success(codeDeleted, "Resource definition '%s' deleted.", d.name).
		details("Resource definition '%s' UUID was: %s", d.name, d.uuid)))
}

// erased is the answer about a copy that goes: of its satellite, or that it is not there.
func (c *call) erased(on placed) rc {
	if n := c.db.nodes[on.rsc.node]; !c.ctl.isOnline(n) {
		return notConnected(n)
	}
	return c.db.volumeEntry(on, opDelete|codeDeleted, "deleted")
}

func listResources(c *call) reply {
	name := c.req.PathValue("rd")
	d := c.db.rscDfns[key(name)]
	if d == nil {
		return c.missingDfn(name)
	}
	list := []resourceJSON{}
	for _, r := range d.sortedResources() {
		list = append(list, c.bareResource(placed{d, r}))
	}
	return c.object(http.StatusOK, page(c, list))
}

// bareResource leaves out the volumes, as everything but the view does.
func (c *call) bareResource(on placed) resourceJSON {
	out := c.resourceJSON(on)
	out.Volumes = nil
	return out
}

func getResource(c *call) reply {
	name, nodeName := c.req.PathValue("rd"), c.req.PathValue("node")
	d := c.db.rscDfns[key(name)]
	if d == nil {
		return c.list(http.StatusOK, rcContext{bare: true},
			rcs{failure(codeNotFoundRscDfn, "Resource definition '%s' not found.", name).
				cause("The specified resource definition '%s' could not be found in the database", name).
				correction("Create a resource definition with the name '%s' first.", name)})
	}
	r := d.resources[key(nodeName)]
	if r == nil {
		return c.list(http.StatusOK, rcContext{bare: true},
			rcs{failure(codeNotFoundRsc, "Resource '%s' on '%s' not found.", name, nodeName)})
	}
	return c.object(http.StatusOK, c.bareResource(placed{d, r}))
}

func deleteResource(c *call) reply {
	name, nodeName := c.req.PathValue("rd"), c.req.PathValue("node")
	x := rcContext{op: opDelete, object: objRsc, refs: map[string]string{"RscDfn": name, "Node": nodeName},
		subject: fmt.Sprintf("Node: %s, Resource: %s", nodeName, name)}
	d := c.db.rscDfns[key(name)]
	if d == nil || d.resources[key(nodeName)] == nil {
		return c.list(http.StatusOK, x, rcs{warning(codeNotFoundWarning, "%s not found.", x.subject)})
	}
	on := placed{d, d.resources[key(nodeName)]}
	switch {
	case on.usedFor(c.ctl):
		return c.list(http.StatusOK, x, rcs{failure(codeInUse, "Resource '%s' is still in use.", d.name)})
	case on.lastDiskWithClients():
		return c.list(http.StatusOK, x, rcs{failure(codeInUse, "Last resource of '%s' with disk still has diskless "+
			"resources attached.", d.name)})
	}
	list := rcs{success(codeDeleted, "%s marked for deletion.", x.subject).details("%s UUID is: %s", x.subject,
		on.rsc.uuid)}
	for _, peer := range c.db.holdersOf(d, c.db.nodes[on.rsc.node]) {
		if c.ctl.isOnline(peer) {
			list = append(list, c.db.volumeEntry(placed{d, d.resources[key(peer.name)]}, opDelete|codeModified, "resized"),
				success(codeModified, "Notified '%s' that '%s' is being cleaned up on Node(s): [%s]", peer.name, d.name,
					on.rsc.nodeName))
		}
	}
	list = append(list, c.erased(on))
	if !(definer{c}).drop(d, on.rsc, "deletion of the resource on node "+on.rsc.nodeName) {
		return c.list(http.StatusOK, x, list) // the rest comes when the satellite is back
	}
	return c.list(http.StatusOK, x, append(list,
		success(codeModified, "Cleaning up '%s' on '%s'", d.name, on.rsc.nodeName),
		success(codeDeleted, "%s deletion complete.", x.subject).details("%s UUID was: %s", x.subject, on.rsc.uuid)))
}

// drop gives a copy up because a client asked for it, and reports whether it is gone: with a satellite that is not
// there it stays, flagged DELETE, until it is back.
func (c definer) drop(d *rscDfn, r *resource, cause string) bool {
	if !c.onPurpose(d) {
		c.ctl.reportLast(d, r, cause)
	}
	if !c.ctl.isOnline(c.db.nodes[r.node]) {
		r.deleted, r.asked = true, true
		return false
	}
	c.ctl.eraseCopy(d, r)
	if d.volume != nil && len(d.resources) == 0 {
		delete(d.volume.props, "DrbdOptions/Disk/block-size") // nothing holds it to a size any more
	}
	return true
}

// onPurpose reports whether a call comes from the volume driver, which deletes a volume with its data because its user
// has: linstor-csi says so in its requests, and before anything else it keeps LINSTOR from balancing a volume that it
// deletes. Anybody else who gives up the last good copy makes a mistake.
func (c definer) onPurpose(d *rscDfn) bool {
	return strings.HasPrefix(c.req.Header.Get("User-Agent"), "linstor-csi/") ||
		d.props["BalanceResourcesEnabled"] == "false"
}
