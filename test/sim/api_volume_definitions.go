package sim

import (
	"fmt"
	"maps"
	"net/http"
)

// modifyVolumeDfn resizes a volume in three steps, each of which every satellite hears of. One that is not ONLINE is
// a warning, and gets there later (linstor-server 1.34, CtrlVlmDfnModifyApiCallHandler).
func modifyVolumeDfn(c *call) reply {
	var body volumeDfnModifyJSON
	if r, ok := c.decode(&body, parsedFirst); !ok {
		return r
	}
	d, x, missing := definer{c}.volumeDfn(opModify)
	if missing != nil {
		return c.list(http.StatusOK, x, rcs{*missing})
	}
	props, bad := body.apply(d.volume.props, onVlmDfn, c.ctl.version)
	if bad == nil {
		bad = definer{c}.badSize(d, body.SizeKiB)
	}
	if bad != nil {
		return c.list(http.StatusOK, x, rcs{*bad})
	}
	list := body.messages(objVlmDfn)
	notify := !maps.Equal(props, d.volume.props)
	d.volume.props = props
	resized := false
	if size := body.SizeKiB; size != nil {
		if resized = *size != d.sizeKiB; !resized {
			list = append(list, warning(codeSameSize,
				"VolumeDefinition already has the expected size, no satellite update will be triggered."))
		}
		for _, r := range d.resources {
			r.shrinks = r.shrinks || *size < d.sizeKiB
		}
		d.sizeKiB = *size
	}
	list = append(list, success(codeModified, "Volume definition with number '0' of resource definition '%s' modified.",
		d.name).details("Volume definition with number '0' of resource definition '%s' UUID is: %s", d.name, d.volume.uuid).
		ref("UUID", d.volume.uuid))
	updated := func(n *node) rc { return success(codeModified, "Updated volume 0 of '%s' on '%s'", d.name, n.name) }
	if resized || notify {
		list = append(list, deployer{c}.perNode(d, updated)...)
	}
	if resized {
		what := "Resized resource"
		if !d.storageOnly {
			what = "Resized DRBD resource"
		}
		list = append(list, deployer{c}.perNode(d, func(n *node) rc {
			return success(codeModified, "%s '%s' on '%s'", what, d.name, n.name)
		})...)
		list = append(list, deployer{c}.perNode(d, updated)...)
	}
	return c.list(http.StatusOK, x, list)
}

// badSize refuses a size that LINSTOR does not take, and one that copies cannot have: thick pools must have room for
// it, and DRBD's copies must be good. Of thin pools a real LINSTOR took far more than their room.
func (c definer) badSize(d *rscDfn, size *int64) *rc {
	if size == nil {
		return nil
	}
	var e rc
	if *size < minVolumeKiB || *size > maxVolumeKiB {
		e = failure(codeInvalidVlmSize, "The given size [%dKiB] is invalid", *size)
		return &e
	}
	for _, r := range d.sortedResources() {
		n := c.db.nodes[r.node]
		p := n.pools[key(r.pool)]
		switch {
		case r.diskless || *size == d.sizeKiB || p == nil:
			continue
		case !d.storageOnly && !r.good():
			e = failure(codeNotUpToDate, "Cannot resize volume, because we have a non-UpToDate DRBD device.")
			return &e
		case !isThin(p.kind) && p.known && *size-d.sizeKiB > p.free:
			e = failure(codeNoSpace, "Cannot grow the volume definition by %dKiB, as the following storage pool do not have "+
				"enough free space:\nNode: %s, StorPool: %s\n", *size-d.sizeKiB, n.name, p.name)
			return &e
		}
	}
	return nil
}

// volumeDfn is the definition of the path with its volume.
func (c definer) volumeDfn(op uint64) (*rscDfn, rcContext, *rc) {
	name, nr := c.req.PathValue("rd"), c.req.PathValue("nr")
	x := rcContext{op: op, object: objVlmDfn, refs: map[string]string{"RscDfn": name, "VlmNr": nr},
		subject: fmt.Sprintf("Resource definition: %s, Volume number: %s", name, nr)}
	d := c.db.rscDfns[key(name)]
	var e rc
	switch {
	case d == nil:
		e = unknownDfn(name)
	case d.volume == nil || nr != "0":
		e = failure(codeNotFoundVlmDfn, "Volume definition '%s' with volume number '%s' not found.", name, nr).
			cause("The specified volume definition '%s' with volume number '%s' could not be found in the database", name, nr).
			correction("Create a volume definition with number '%s' on resource definition '%s' first.", nr, name)
	default:
		return d, x, nil
	}
	return nil, x, &e
}

// deleteVolumeDfn deletes a volume with the data of its copies. Their resources stay, without a volume.
func deleteVolumeDfn(c *call) reply {
	d, x, missing := definer{c}.volumeDfn(opDelete)
	if missing != nil {
		return c.list(http.StatusOK, x, rcs{warning(codeNotFoundWarning, "%s not found.", x.subject)})
	}
	what := fmt.Sprintf("Volume definition with number '0' of resource definition '%s'", d.name)
	for _, r := range d.sortedResources() {
		if on := (placed{d, r}); on.usedFor(c.ctl) {
			return c.list(http.StatusOK, x, rcs{failure(opDelete|objRscDfn|codeInUse,
				"Resource '%s' on node '%s' is still in use.", d.name, r.nodeName).cause("Resource is mounted/in use.").
				correction("Un-mount resource '%s' on the node '%s'.", d.name, r.nodeName)})
		}
	}
	list := rcs{success(codeDeleted, "%s marked for deletion.", what).details("%s UUID is: %s", what, d.volume.uuid)}
	for _, r := range d.sortedResources() {
		entries := rcs{c.erased(placed{d, r})}
		if c.ctl.isOnline(c.db.nodes[r.node]) {
			entries = append(entries, success(codeDeleted, "Deleted volume 0 of '%s' on '%s'", d.name, r.nodeName))
		}
		list = append(list, entries...)
		if !(definer{c}).onPurpose(d) {
			c.ctl.reportLast(d, r, "deletion of the volume definition")
		}
		c.ctl.eraseData(d, r)
	}
	uuid := d.volume.uuid
	d.volume, d.sizeKiB = nil, 0
	return c.list(http.StatusOK, x, append(list, success(codeDeleted, "%s deleted.", what).
		details("%s UUID was: %s", what, uuid)))
}
