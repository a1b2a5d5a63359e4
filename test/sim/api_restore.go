package sim

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// restorer is the part of a call that makes volumes of other volumes.
type restorer struct{ *call }

type snapshotRestoreJSON struct {
	ToResource string            `json:"to_resource"`
	Nodes      []string          `json:"nodes"`
	PoolRename map[string]string `json:"stor_pool_rename"`
}

// restoreSource is the snapshot of the path and the definition that it is restored to.
func (c restorer) restoreSource(to string) (from snapped, target *rscDfn, missing *rc) {
	name, snap := c.req.PathValue("rd"), c.req.PathValue("snapshot")
	d := c.db.rscDfns[key(name)]
	var e rc
	switch {
	case d == nil:
		e = unknownDfn(name)
	case d.snapshots[key(snap)] == nil:
		e = failure(codeNotFoundSnapDfn, "Snapshot '%s' of resource '%s' not found.", snap, d.name).
			cause("The specified snapshot '%s' could not be found in the database", snap)
	case c.db.rscDfns[key(to)] == nil:
		e = unknownDfn(to)
	default:
		return snapped{d, d.snapshots[key(snap)]}, c.db.rscDfns[key(to)], nil
	}
	return snapped{}, nil, &e
}

// restoreVolumeDfn gives a definition the volume of a snapshot. LINSTOR calls that "deleted" in its code
// (linstor-server 1.34, CtrlSnapshotRestoreVlmDfnApiCallHandler).
func restoreVolumeDfn(c *call) reply {
	var body snapshotRestoreJSON
	if r, ok := c.decode(&body, parsedFirst); !ok {
		return r
	}
	x := rcContext{op: opCreate, object: objSnapshot, subject: "Volume definitions of resource: " + body.ToResource}
	from, to, missing := restorer{c}.restoreSource(body.ToResource)
	if missing != nil {
		return c.list(http.StatusOK, x, rcs{*missing})
	}
	if to.volume != nil {
		return c.list(http.StatusOK, x, rcs{failure(codeExistsVlmDfn,
			"A volume definition with the number 0 already exists in resource definition '%s'.", to.name).
			cause("The VolumeDefinition already exists")})
	}
	if from.snap.volumeProps != nil {
		to.volume = &volumeDfn{uuid: c.world.newUUID(), props: copyOf(from.snap.volumeProps)}
		to.sizeKiB, to.filledKiB = from.snap.sizeKiB, from.dfn.filledKiB
	}
	return c.list(http.StatusOK, x, rcs{success(codeDeleted, "Volume definitions of resource definition '%s' restored "+
		"from resource '%s', snapshot '%s'.", to.name, from.dfn.name, from.snap.name).details("Resource UUIDs: ")})
}

// restoreResource makes copies from a snapshot, on the nodes that have it or on some of them. The definition gets the
// properties of the one that the snapshot is of (linstor-server 1.34, CtrlSnapshotRestoreApiCallHandler).
func restoreResource(c *call) reply {
	var body snapshotRestoreJSON
	if r, ok := c.decode(&body, parsedFirst); !ok {
		return r
	}
	where := ""
	x := rcContext{op: opCreate, object: objRsc, subject: "Resource: " + body.ToResource}
	if len(body.Nodes) > 0 {
		where = fmt.Sprintf(" on nodes '%s'", strings.Join(body.Nodes, ", "))
		x.subject = fmt.Sprintf("Nodes: %s; Resource: %s", strings.Join(body.Nodes, ", "), body.ToResource)
	}
	from, to, missing := restorer{c}.restoreSource(body.ToResource)
	if missing != nil {
		return c.list(http.StatusOK, x, rcs{*missing})
	}
	spots, refused := restorer{c}.restoreSpots(from, to, body)
	if refused != nil {
		return c.list(http.StatusOK, x, rcs{*refused})
	}
	maps.Copy(to.props, from.snap.dfnProps)
	var list rcs
	var made []*resource
	var uuids []string
	layers := to.layersFor(from.dfn.layers)
	shown := to.layers
	for _, s := range spots {
		r := deployer{c}.register(to, s, layers, false)
		r.volume = copyOf(from.snap.volumes[r.node])
		made, uuids = append(made, r), append(uuids, r.uuid)
	}
	to.layers = shown // a restore is not what settles the layers that LINSTOR shows
	to.storageOnly = !slices.Contains(layers, "DRBD")
	list = append(list, success(codeCreated, "Resource '%s'%s restored from resource '%s', snapshot '%s'.", to.name,
		where, from.dfn.name, from.snap.name).details("Resource UUIDs: %s", strings.Join(uuids, ", ")).
		ref("RscDfn", to.name))
	deployed := deployer{c}.deploy(to, made)
	c.world.Volumes().fill(to, made, from.snap.files)
	for _, e := range deployed {
		if strings.HasPrefix(e.Message, "Created resource") {
			e = success(objSnapshot|codeModified, "%s", e.Message) // that part of the answer has another context
		}
		list = append(list, e.ref("RscDfn", to.name))
	}
	return c.list(http.StatusOK, x, list)
}

// restoreSpots are the pools in which the parts of a snapshot become copies.
func (c restorer) restoreSpots(from snapped, to *rscDfn, body snapshotRestoreJSON) ([]spot, *rc) {
	var e rc
	if len(to.resources) > 0 {
		e = failure(codeExistsRsc, "Cannot restore to resource definition which already has resources")
		return nil, &e
	}
	if to.volume != nil && to.sizeKiB != from.snap.sizeKiB {
		e = failure(codeInvalidVlmSize, "Snapshot size does not match for volume number 0; snapshot size: %dKiB, required "+
			"size: %dKiB", from.snap.sizeKiB, to.sizeKiB)
		return nil, &e
	}
	names := body.Nodes
	if len(names) == 0 {
		names = slices.Sorted(maps.Values(from.snap.nodes))
	}
	var spots []spot
	for _, name := range names {
		n := c.db.nodes[key(name)]
		if n == nil {
			e = unknownNode(name)
			return nil, &e
		}
		pool, has := from.snap.pools[key(name)]
		p := n.pools[key(pool)]
		if renamed := body.PoolRename[pool]; renamed != "" {
			p = n.pools[key(renamed)]
		}
		if !has || p == nil {
			e = failure(codeNotFoundSnapshot, "Snapshot '%s' of resource '%s' on node '%s' not found.", from.snap.name,
				from.dfn.name, n.name)
			return nil, &e
		}
		spots = append(spots, spot{n, p})
	}
	return spots, nil
}

type cloneJSON struct {
	Name           string            `json:"name"`
	ExternalName   []byte            `json:"external_name"`
	UseZFSClone    bool              `json:"use_zfs_clone"`
	Passphrases    []string          `json:"volume_passphrases"`
	LayerList      []string          `json:"layer_list"`
	ResourceGroup  string            `json:"resource_group"`
	OverrideProps  map[string]string `json:"override_props"`
	DeleteProps    []string          `json:"delete_props"`
	DeletePrefixes []string          `json:"delete_namespaces"`
}

type cloneStartedJSON struct {
	Location   string `json:"location"`
	SourceName string `json:"source_name"`
	CloneName  string `json:"clone_name"`
	Messages   []rc   `json:"messages"`
}

// cloneable are the providers that can clone (linstor-server 1.34, DeviceProviderKind.isCloneSupported).
func cloneable(kind string) bool {
	return kind == kindLVM || kind == kindLVMThin || kind == kindZFS || kind == kindZFSThin
}

// cloneResourceDfn copies a definition with its copies. The answer is an object, also when it is an error.
func cloneResourceDfn(c *call) reply {
	var body cloneJSON
	if r, ok := c.decode(&body, parsedFirst); !ok {
		return r
	}
	name := c.req.PathValue("rd")
	x := dfnContext(opCreate, body.Name)
	list := restorer{c}.clone(c.db.rscDfns[key(name)], body)
	var done rcs
	for _, e := range list {
		if x.reported(e) {
			e = e.reported(c)
		}
		e = x.complete(e)
		e.CreatedAt = c.world.now.Format("2006-01-02T15:04:05.000Z07:00")
		done = append(done, e)
	}
	return c.object(done.httpStatus(http.StatusCreated), cloneStartedJSON{SourceName: name, CloneName: body.Name,
		Location: "/v1/resource-definitions/" + name + "/clone/" + body.Name, Messages: done})
}

// clone does it at once, whatever is being written. Data of a source in use is not what the simulator is about.
func (c restorer) clone(source *rscDfn, body cloneJSON) rcs {
	if source == nil {
		return rcs{unknownDfn(c.req.PathValue("rd"))}
	}
	group := body.ResourceGroup
	if group == "" {
		group = source.group
	}
	var spots []spot
	for _, r := range source.sortedResources() {
		n := c.db.nodes[r.node]
		p := n.pools[key(r.pool)]
		switch {
		case r.diskless || p == nil:
			continue
		case !cloneable(p.kind):
			return rcs{failure(codeInvalidProvider, "Clone source contains unsupported storage pools")}
		case !source.storageOnly && !r.good():
			return rcs{failure(codeNotUpToDate,
				"Cannot clone resource-definition, because we have a non-UpToDate DRBD device.")}
		}
		spots = append(spots, spot{n, p})
	}
	change := propChange{OverrideProps: body.OverrideProps, DeleteProps: body.DeleteProps,
		DeleteNamespaces: body.DeletePrefixes}
	props, bad := change.apply(source.props, onRscDfn, c.ctl.version)
	if bad != nil {
		return rcs{*bad}
	}
	d, list := definer(c).newDefinition(resourceDfnJSON{Name: body.Name, ResourceGroupName: group})
	if d == nil {
		return list
	}
	d.props, d.clonedFrom = props, key(source.name)
	if source.volume != nil {
		d.volume = &volumeDfn{uuid: c.world.newUUID(), props: copyOf(source.volume.props)}
		d.sizeKiB, d.filledKiB = source.sizeKiB, source.filledKiB
	}
	var made []*resource
	for _, s := range spots {
		r := deployer(c).register(d, s, d.layersFor(firstList(body.LayerList, source.layers)), false)
		made = append(made, r)
		list = append(list, deployer(c).registered(placed{d, r})[1:]...)
	}
	list = append(list, deployer(c).deploy(d, made)...)
	c.world.Volumes().fill(d, made, c.world.Volumes().written(source, source.sortedResources()))
	return list
}

// getClone tells what became of a clone: here it is complete at once.
func getClone(c *call) reply {
	source, name := c.req.PathValue("rd"), c.req.PathValue("clone")
	d := c.db.rscDfns[key(name)]
	if d == nil || d.clonedFrom != key(source) {
		return c.list(http.StatusOK, rcContext{bare: true}, rcs{failure(codeNotFoundRscDfn, "Cloned resource not found.")})
	}
	return c.object(http.StatusOK, map[string]string{"status": "COMPLETE"})
}
