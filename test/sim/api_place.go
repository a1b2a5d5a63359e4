package sim

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
)

type resourceCreateJSON struct {
	Resource     resourceAskedJSON `json:"resource"`
	LayerList    []string          `json:"layer_list"`
	DrbdNodeID   *int              `json:"drbd_node_id"`
	DrbdPorts    []int             `json:"drbd_tcp_ports"`
	DrbdCount    *int              `json:"drbd_tcp_port_count"`
	SnapNames    []string          `json:"snap_names"`
	CopyAllSnaps bool              `json:"copy_all_snaps"`
	DrbdClient   *bool             `json:"drbd_client"`
}

// resourceAskedJSON is what a client may send of a resource; only its node, its properties and its flags count.
type resourceAskedJSON struct {
	Name            string            `json:"name"`
	NodeName        string            `json:"node_name"`
	Props           map[string]string `json:"props"`
	EffectiveProps  map[string]any    `json:"effective_props"`
	Flags           []string          `json:"flags"`
	LayerObject     map[string]any    `json:"layer_object"`
	State           map[string]any    `json:"state"`
	UUID            string            `json:"uuid"`
	CreateTimestamp *int64            `json:"create_timestamp"`
}

// createResourceOn makes one resource, on the node of the path.
func createResourceOn(c *call) reply {
	var body resourceCreateJSON
	if r, ok := c.decode(&body, parsedFirst); !ok {
		return r
	}
	body.Resource.NodeName = c.req.PathValue("node")
	return deployer{c}.createResources([]resourceCreateJSON{body})
}

// createResources makes several, each on the node that it names.
func createResources(c *call) reply {
	var bodies []resourceCreateJSON
	if r, ok := c.decode(&bodies, parsedFirst); !ok {
		return r
	}
	return deployer{c}.createResources(bodies)
}

// createResources makes resources by hand: all of them or none. A resource that is there already is no error
// (linstor-server 1.34, CtrlRscCrtApiCallHandler).
func (c deployer) createResources(asked []resourceCreateJSON) reply {
	name := c.req.PathValue("rd")
	var nodes []string
	for _, a := range asked {
		nodes = append(nodes, "'"+a.Resource.NodeName+"'")
	}
	x := rcContext{op: opCreate, object: objRsc, refs: map[string]string{"RscDfn": name},
		subject: fmt.Sprintf("Node(s): %s, Resource: '%s'", strings.Join(nodes, ", "), name)}
	d := c.db.rscDfns[key(name)]
	if d == nil {
		return c.list(http.StatusCreated, x, rcs{unknownDfn(name)})
	}
	var list rcs
	var made []*resource
	for _, a := range asked {
		n := c.db.lookup(a.Resource.NodeName)
		if n == nil {
			return c.list(http.StatusCreated, rcContext{bare: true}, rcs{unknownNode(a.Resource.NodeName)})
		}
		if d.resources[key(n.name)] != nil {
			list = append(list, info(codeRscIsThere, "A resource '%s' on node '%s' already exists.", d.name, n.name).
				cause("Resource already exists").details("%s", x.subject))
			continue
		}
		s, diskless, e := c.askedSpot(d, n, a)
		if e != nil {
			for _, r := range made { // nothing of a transaction that fails stays
				delete(d.resources, r.node)
			}
			return c.list(http.StatusCreated, x, rcs{*e})
		}
		r := c.register(d, s, d.layersFor(a.LayerList), diskless)
		made = append(made, r)
		list = append(list, c.registered(placed{d, r})...)
	}
	if len(made) > 0 {
		list = append(list, c.deploy(d, made)...)
	}
	return c.list(http.StatusCreated, x, list)
}

// registered is the answer about a resource that is in the database now.
func (c deployer) registered(on placed) rcs {
	where := fmt.Sprintf("'%s' on node '%s'", on.dfn.name, on.rsc.nodeName)
	list := rcs{success(codeCreated, "Successfully set property key(s): StorPoolName"),
		success(codeCreated, "New resource %s registered.", where).
			details("Resource %s UUID is: %s", where, on.rsc.uuid).ref("UUID", on.rsc.uuid)}
	if on.dfn.volume == nil {
		return list
	}
	return append(list, success(objVlm|codeCreated,
		"Volume with number '0' on resource %s successfully registered", where).
		details("Volume UUID is: %s", on.rsc.volumeUUID).ref("VlmNr", "0").ref("Node", on.rsc.nodeName))
}

// askedSpot is the pool for a resource that is made by hand: the one that it names, or else its volume, its
// definition, its group or its node; the last resort is DfltStorPool.
func (c deployer) askedSpot(d *rscDfn, n *node, a resourceCreateJSON) (s spot, diskless bool, refused *rc) {
	if e := c.lackedLayers(n, d.layersFor(a.LayerList)); e != nil {
		return s, false, e
	}
	diskless = slices.ContainsFunc(a.Resource.Flags, func(f string) bool { return strings.Contains(f, "DISKLESS") })
	pool := ""
	chain := []map[string]string{a.Resource.Props, d.props, c.db.groupOf(d).props, n.props}
	if d.volume != nil {
		chain = slices.Insert(chain, 1, d.volume.props)
	}
	for _, props := range chain {
		if pool == "" {
			pool = props["StorPoolName"]
		}
	}
	switch {
	case diskless && pool == "":
		pool = disklessPool
	case pool == "" && n.pools[key("DfltStorPool")] == nil:
		e := failure(codeNotFoundDfltPool, "The default storage pool 'DfltStorPool' for resource '%s' for volume number "+
			"'0' is not deployed on node '%s'.", d.name, n.name)
		return s, false, &e
	case pool == "":
		pool = "DfltStorPool"
	}
	p := n.pools[key(pool)]
	var e rc
	switch {
	case p != nil:
		return spot{n, p}, diskless || p.kind == kindDiskless, nil
	case c.db.poolDfns[key(pool)] == nil:
		e = failure(codeNotFoundPoolDfn, "Storage pool definition '%s' not found.", pool).
			cause("The specified storage pool definition '%s' could not be found in the database", pool).
			correction("Create a storage pool definition '%s' first.", pool)
	default:
		e = failure(codeNotFoundPool, "Storage pool '%s' on node '%s' not found.", pool, n.name).
			cause("The specified storage pool '%s' on node '%s' could not be found in the database", pool, n.name).
			correction("Create a storage pool '%s' on node '%s' first.", pool, n.name)
	}
	return s, false, &e
}

type makeAvailableJSON struct {
	LayerList    []string `json:"layer_list"`
	Diskful      bool     `json:"diskful"`
	DrbdPorts    []int    `json:"drbd_tcp_ports"`
	SnapNames    []string `json:"snap_names"`
	CopyAllSnaps bool     `json:"copy_all_snaps"`
}

// makeAvailable makes a volume usable on a node: as a diskless client where DRBD can reach a copy, else as one more
// copy. Without DRBD that one is empty (linstor-server 1.34, CtrlRscMakeAvailableApiCallHandler).
func makeAvailable(c *call) reply {
	var body makeAvailableJSON
	if r, ok := c.decode(&body, parsedFirst); !ok {
		return r
	}
	name, nodeName := c.req.PathValue("rd"), c.req.PathValue("node")
	x := rcContext{op: opCreate, object: objRsc, refs: map[string]string{"RscDfn": name, "Node": nodeName},
		subject: fmt.Sprintf("Node: %s, Resource: '%s'", nodeName, name)}
	d, n := c.db.rscDfns[key(name)], c.db.lookup(nodeName)
	switch {
	case d == nil:
		return c.list(http.StatusOK, x, rcs{unknownDfn(name)})
	case n == nil:
		return c.list(http.StatusOK, x, rcs{unknownNode(nodeName)})
	}
	layers := d.layersFor(body.LayerList)
	if there := d.resources[key(n.name)]; there != nil {
		if len(body.LayerList) > 0 && !slices.Equal(layers, d.layers) {
			return c.list(http.StatusOK, x,
				rcs{failure(codeInvalidLayerStack, "Layerstack of deployed resource does not match")})
		}
		if !there.diskless || !body.Diskful {
			return c.list(http.StatusOK, rcContext{bare: true, refs: x.refs}, deployer{c}.isAvailable(placed{d, there}))
		}
	}
	diskless := slices.Contains(layers, "DRBD") && !body.Diskful && len(d.diskfulNodes(c.db)) > 0
	s, e := deployer{c}.availableSpot(d, n, layers, diskless)
	if e != nil {
		return c.list(http.StatusOK, x, rcs{*e})
	}
	r := deployer{c}.register(d, s, layers, diskless)
	list := deployer{c}.registered(placed{d, r})
	return c.list(http.StatusOK, x, append(list, deployer{c}.deploy(d, []*resource{r})...))
}

// isAvailable is the answer about what is there already. A deletion that waits is called off, and a tie-breaker
// becomes a client that stays.
func (c deployer) isAvailable(on placed) rcs {
	list := rcs{success(0, "Resource already deployed as requested")}
	if on.rsc.deleted && !on.dfn.deleted {
		on.rsc.deleted, on.rsc.asked = false, false
		list = append(list, c.toSatellite(on)...)
	}
	on.rsc.tieBreaker = false
	return list
}

// availableSpot is the pool in which make-available puts a copy: what the autoplacer would take on this node alone.
func (c deployer) availableSpot(d *rscDfn, n *node, layers []string, diskless bool) (spot, *rc) {
	f := selectFilter{NodeNameList: []string{n.name}, LayerStack: layers}.merged(c.db.groupOf(d).filter)
	kind := "diskful"
	placer{c.ctl}.refreshThinPools()
	if diskless {
		kind = "diskless"
		if p := n.pools[key(disklessPool)]; p != nil && (placer{c.ctl}).nodeFits(n, d, f) {
			return spot{n, p}, nil
		}
	} else if spots := (placer{c.ctl}).candidates(d, f, d.sizeKiB); len(spots) > 0 {
		return spots[0], nil
	}
	e := failure(codeNotFoundPool, "Autoplacer could not find %s stor pool on node %s matching resource-groups "+
		"autoplace-settings", kind, n.name)
	return spot{}, &e
}

// volumeOf is the copy of the path, or the answer that it is not there.
func (c definer) volumeOf() (on placed, missing reply, ok bool) {
	name, nodeName := c.req.PathValue("rd"), c.req.PathValue("node")
	d := c.db.rscDfns[key(name)]
	if d == nil {
		return on, c.list(http.StatusOK, rcContext{bare: true}, rcs{unknownDfn(name)}), false
	}
	r := d.resources[key(nodeName)]
	if r == nil {
		return on, c.list(http.StatusOK, rcContext{bare: true},
			rcs{failure(codeNotFoundRsc, "Resource '%s' on '%s' not found.", name, nodeName)}), false
	}
	return placed{d, r}, reply{}, true
}

func listVolumes(c *call) reply {
	on, missing, ok := definer{c}.volumeOf()
	if !ok {
		return missing
	}
	return c.object(http.StatusOK, page(c, c.resourceJSON(on).Volumes))
}

func getVolume(c *call) reply {
	on, missing, ok := definer{c}.volumeOf()
	if !ok {
		return missing
	}
	if volumes := c.resourceJSON(on).Volumes; len(volumes) > 0 && c.req.PathValue("nr") == "0" {
		return c.object(http.StatusOK, volumes[0])
	}
	return c.list(http.StatusOK, rcContext{bare: true}, rcs{failure(codeNotFoundVlm, "Volume '%s' of resource '%s' on "+
		"node '%s' not found.", c.req.PathValue("nr"), on.dfn.name, on.rsc.nodeName)})
}

// modifyVolume sets properties of one volume of one copy. Every satellite with a copy hears of it.
func modifyVolume(c *call) reply {
	var body propChange
	if r, ok := c.decode(&body, parsedFirst); !ok {
		return r
	}
	name, nodeName, nr := c.req.PathValue("rd"), c.req.PathValue("node"), c.req.PathValue("nr")
	x := rcContext{op: opModify, object: objVlm,
		refs:    map[string]string{"RscDfn": name, "Node": nodeName, "VlmNr": nr},
		subject: fmt.Sprintf("Node: %s, Resource: %s, Volume number: %s", nodeName, name, nr)}
	d := c.db.rscDfns[key(name)]
	if d == nil || d.resources[key(nodeName)] == nil || d.volume == nil || nr != "0" {
		return c.list(http.StatusOK, x, rcs{failure(codeNotFoundVlm, "%s not found.", x.subject)})
	}
	r := d.resources[key(nodeName)]
	props, bad := body.apply(r.volume, onVlm, c.ctl.version)
	if bad != nil {
		return c.list(http.StatusOK, x, rcs{*bad})
	}
	r.volume = props
	what := fmt.Sprintf("Volume with volume number '0' on resource '%s' on node '%s'", d.name, r.nodeName)
	list := append(body.messages(objVlm), success(codeModified, "%s modified.", what).
		details("%s UUID is: %s", what, r.volumeUUID).ref("UUID", r.volumeUUID))
	return c.list(http.StatusOK, x, append(list, deployer{c}.untilFailure(d)...))
}
