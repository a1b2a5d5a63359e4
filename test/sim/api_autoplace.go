package sim

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
)

type autoPlaceJSON struct {
	DisklessOnRemaining *bool        `json:"diskless_on_remaining"`
	SelectFilter        selectFilter `json:"select_filter"`
	LayerList           []string     `json:"layer_list"`
	SnapNames           []string     `json:"snap_names"`
	CopyAllSnaps        bool         `json:"copy_all_snaps"`
}

func autoplaceContext(name string) rcContext {
	return rcContext{op: opCreate, object: objRsc, refs: map[string]string{"RscDfn": name},
		subject: "Auto-placing resource: " + name}
}

// unknownDfn is what LINSTOR answers where it loads a definition to change something.
func unknownDfn(name string) rc {
	return failure(codeNotFoundRscDfn, "Resource definition '%s' not found.", name).
		cause("The specified resource definition '%s' could not be found in the database", name).
		correction("Create a resource definition with the name '%s' first.", name)
}

func autoplaceResource(c *call) reply {
	var body autoPlaceJSON
	if r, ok := c.decode(&body, parsedFirst); !ok {
		return r
	}
	if body.SelectFilter.DisklessType != "" {
		return notSimulated(c)
	}
	name := c.req.PathValue("rd")
	x := autoplaceContext(name)
	d := c.db.rscDfns[key(name)]
	if d == nil {
		return c.list(http.StatusCreated, x, rcs{unknownDfn(name)})
	}
	x.refs["RscDfn"], x.subject = d.name, "Auto-placing resource: "+d.name
	if body.DisklessOnRemaining != nil {
		body.SelectFilter.DisklessOnRemaining = body.DisklessOnRemaining
	}
	if e := checkFilter(body.SelectFilter); e != nil {
		return c.list(http.StatusCreated, x, rcs{*e})
	}
	return c.list(http.StatusCreated, x, deployer{c}.autoplace(d, body.SelectFilter, body.LayerList))
}

// autoplace places what a volume lacks to its place count, or as many copies more as additional_place_count says
// (linstor-server 1.34, CtrlRscAutoPlaceApiCallHandler.autoPlaceInTransaction).
func (c deployer) autoplace(d *rscDfn, asked selectFilter, layers []string) rcs {
	if len(asked.LayerStack) == 0 {
		asked.LayerStack = layers
	}
	f := asked.merged(c.db.groupOf(d).filter)
	there := d.diskfulNodes(c.db)
	count := f.lacking(len(there))
	remaining := f.DisklessOnRemaining != nil && *f.DisklessOnRemaining
	if count < 0 || count == 0 && !remaining {
		return rcs{alreadyPlaced(d, there, count)}
	}
	placer{c.ctl}.refreshThinPools()
	f.AdditionalPlaceCount = &count
	f.NotPlaceWithRsc = append(slices.Clone(f.NotPlaceWithRsc), d.name)
	chosen := placer{c.ctl}.choose(d, f, placer{c.ctl}.candidates(d, f, d.sizeKiB), count)
	if count > 0 && chosen == nil {
		return rcs{noPlace(d, f)}
	}
	layersOfCopy := d.layersFor(f.LayerStack)
	var list rcs
	for _, s := range chosen {
		if e := c.lackedLayers(s.node, layersOfCopy); e != nil {
			return rcs{*e}
		}
	}
	var made []*resource
	for _, s := range chosen {
		list = append(list, success(codeCreated, "Successfully set property key(s): StorPoolName"))
		made = append(made, c.register(d, s, layersOfCopy, false))
	}
	if remaining && slices.Contains(layersOfCopy, "DRBD") {
		made = append(made, c.registerClients(d, layersOfCopy)...)
	}
	return append(append(list, placedEntry(d, chosen)), c.deploy(d, made)...)
}

// lacking is how many copies are to be placed where there are some already.
func (f selectFilter) lacking(there int) int {
	switch {
	case f.AdditionalPlaceCount != nil && *f.AdditionalPlaceCount > 0:
		return *f.AdditionalPlaceCount
	case f.PlaceCount != nil:
		return *f.PlaceCount - there
	}
	return -there
}

// alreadyPlaced is the warning that there are as many copies as were asked for, or more.
func alreadyPlaced(d *rscDfn, there []string, lacking int) rc {
	if lacking < 0 {
		return warning(codeAlreadyDeployed, "The resource '%s' was already deployed on %d nodes: '%s'. The resource would "+
			"have to be deleted from nodes to reach the placement count.", d.name, len(d.resources),
			strings.Join(d.nodeNames(), "', '"))
	}
	return warning(codeAlreadyDeployed, "Resource '%s' was already deployed on %d nodes. Skipping.", d.name, len(there)).
		details("Used nodes: '%s'\n%s", strings.Join(there, "', '"), autoplaceContext(d.name).subject)
}

func placedEntry(d *rscDfn, chosen []spot) rc {
	e := success(codeCreated, "Resource '%s' successfully autoplaced on %d nodes", d.name, len(chosen))
	var used []string
	for i, s := range chosen {
		used = append(used, fmt.Sprintf("%s (%s)", s.node.name, s.pool.name))
		e = e.ref(fmt.Sprintf("Node/%d", i), s.node.name).
			ref(fmt.Sprintf("StoragePool/%d/0", i), s.pool.name+","+s.pool.kind)
	}
	return e.details("Used nodes (storage pool name): '%s'", strings.Join(used, "', '"))
}

// noPlace is LINSTOR's only answer to all that can be wrong with a placement.
func noPlace(d *rscDfn, f selectFilter) rc {
	pools := ""
	if len(f.StoragePoolList) > 0 {
		pools = fmt.Sprintf(" * has a deployed storage pool named [%s]\n"+
			" * the storage pools have to have at least '%d' free space\n", strings.Join(f.StoragePoolList, ", "), d.sizeKiB)
	}
	return failure(codeNoPlace, "Not enough available nodes").
		details("Not enough nodes fulfilling the following auto-place criteria:\n%s"+
			" * the current access context has enough privileges to use the node and the storage pool\n"+
			" * the node is online\n\nAuto-place configuration details:\n%s", pools, f.helpText())
}

// registerClients makes a diskless client on every node that has nothing of a volume.
func (c deployer) registerClients(d *rscDfn, layers []string) []*resource {
	var made []*resource
	for _, n := range c.db.sortedNodes() {
		p := n.pools[key(disklessPool)]
		if p != nil && d.resources[key(n.name)] == nil && c.lackedLayers(n, layers) == nil {
			made = append(made, c.register(d, spot{n, p}, layers, true))
		}
	}
	return made
}

// diskfulNodes are the nodes with a copy that counts: it stays, and so does the node.
func (d *rscDfn) diskfulNodes(db *Database) []string {
	var names []string
	for _, r := range d.sortedResources() {
		if n := db.nodes[r.node]; !r.diskless && !r.deleted && !r.evicted && !r.evacuate && !n.evacuate {
			names = append(names, r.nodeName)
		}
	}
	return names
}

func (d *rscDfn) nodeNames() []string {
	var names []string
	for _, r := range d.sortedResources() {
		names = append(names, r.nodeName)
	}
	return names
}

// refreshThinPools is the question after free space with which every placement begins.
func (c placer) refreshThinPools() {
	for _, n := range c.db.nodes {
		for _, p := range n.pools {
			if isThin(p.kind) && c.refreshPool(n, p) != nil {
				p.known = false
			}
		}
	}
}

type spawnJSON struct {
	Name            string            `json:"resource_definition_name"`
	ExternalName    []byte            `json:"resource_definition_external_name"`
	VolumeSizes     []int64           `json:"volume_sizes"`
	SelectFilter    selectFilter      `json:"select_filter"`
	Partial         bool              `json:"partial"`
	DefinitionsOnly bool              `json:"definitions_only"`
	PeerSlots       *int              `json:"peer_slots"`
	Passphrases     []string          `json:"volume_passphrases"`
	Props           map[string]string `json:"resource_definition_props"`
}

// spawnResource makes a definition with its volume from a resource group, and places it (linstor-server 1.34,
// CtrlRscGrpApiCallHandler.spawnInTransaction).
func spawnResource(c *call) reply {
	var body spawnJSON
	if r, ok := c.decode(&body, parsedFirst); !ok {
		return r
	}
	name := c.req.PathValue("rg")
	x := groupContext(name)
	x.refs["RscDfn"] = body.Name
	g := c.db.rscGrps[key(name)]
	switch {
	case g == nil:
		return c.list(http.StatusCreated, x, rcs{unknownGroupInDetail(name)})
	case len(body.VolumeSizes) > 1:
		return notSimulated(c) // see volumeDfn
	}
	list := g.sizesFor(body)
	if slices.ContainsFunc(list, rc.isError) {
		return c.list(http.StatusCreated, x, list)
	}
	dfn := resourceDfnJSON{Name: body.Name, Props: body.Props, ResourceGroupName: g.name}
	d, made := definer{c}.newDefinition(dfn)
	if d == nil {
		return c.list(http.StatusCreated, x, made)
	}
	if len(body.VolumeSizes) > 0 {
		definer{c}.newVolume(d, body.VolumeSizes[0], nil)
		list = append(list, success(opCreate|objVlmDfn|codeCreated,
			"Volume definition with number '0' successfully  created in resource definition '%s'.", d.name).ref("VlmNr", "0"))
	}
	list = append(list, made...)
	f := body.SelectFilter.merged(g.filter)
	if f.PlaceCount == nil || body.DefinitionsOnly {
		return c.list(http.StatusCreated, x, append(list, info(codeNotSpawned,
			"Resource definition %s and %d created but no resources deployed", d.name, len(body.VolumeSizes))))
	}
	for _, e := range (deployer{c}).autoplace(d, body.SelectFilter, nil) {
		if strings.HasPrefix(e.Message, "Successfully set property") {
			e.RetCode = int64(opCreate | objRsc | codeCreated)
		}
		list = append(list, e)
	}
	if slices.ContainsFunc(list, rc.isError) && len(d.resources) == 0 {
		delete(c.db.rscDfns, key(d.name)) // nothing is left of a transaction that failed
	}
	return c.list(http.StatusCreated, x, list)
}

// sizesFor checks that there is a size for each volume group. Without volume groups none is needed.
func (g *rscGrp) sizesFor(body spawnJSON) rcs {
	switch {
	case body.Partial || len(body.VolumeSizes) == len(g.volumes):
		return nil
	case len(g.volumes) == 0:
		return rcs{info(objRscGrp, "Resource-group doesn't have any volume-groups, automatically assume partial mode.")}
	}
	return rcs{failure(codeInvalidVlmSizes, "Invalid count of volume sizes to spawn resource group '%s'", g.name).
		details("The resource group '%s' has %d Volume groups, but only %d sizes were provided.", g.name, len(g.volumes),
			len(body.VolumeSizes)).
		correction("Either provide the correct count of volume sizes or use the 'partial' option")}
}
