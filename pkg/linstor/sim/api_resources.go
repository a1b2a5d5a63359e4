package sim

import (
	"fmt"
	"net/http"
	"strings"
)

type drbdDfnJSON struct {
	PeerSlots       int    `json:"peer_slots"`
	AlStripes       int    `json:"al_stripes"`
	AlStripeSizeKiB int64  `json:"al_stripe_size_kib"`
	Port            int    `json:"port"`
	TransportType   string `json:"transport_type"`
	Secret          string `json:"secret"`
	Down            bool   `json:"down"`
}

type layerVolumeJSON struct {
	VolumeNumber     int    `json:"volume_number"`
	DevicePath       string `json:"device_path,omitempty"`
	AllocatedSizeKiB int64  `json:"allocated_size_kib"`
	UsableSizeKiB    int64  `json:"usable_size_kib"`
	DiskState        string `json:"disk_state,omitempty"`
}

type drbdVolumeJSON struct {
	Definition struct {
		VolumeNumber int `json:"volume_number"`
		MinorNumber  int `json:"minor_number"`
	} `json:"drbd_volume_definition"`
	DevicePath       string `json:"device_path,omitempty"`
	BackingDevice    string `json:"backing_device,omitempty"`
	AllocatedSizeKiB int64  `json:"allocated_size_kib"`
	UsableSizeKiB    int64  `json:"usable_size_kib"`
}

type drbdConnectionJSON struct {
	Connected bool   `json:"connected"`
	Message   string `json:"message,omitempty"`
}

type drbdJSON struct {
	Definition     drbdDfnJSON                   `json:"drbd_resource_definition"`
	NodeID         int                           `json:"node_id"`
	TCPPorts       []int                         `json:"tcp_ports,omitempty"`
	PeerSlots      int                           `json:"peer_slots"`
	AlStripes      int                           `json:"al_stripes"`
	AlSize         int64                         `json:"al_size"`
	Volumes        []drbdVolumeJSON              `json:"drbd_volumes,omitempty"`
	Connections    map[string]drbdConnectionJSON `json:"connections,omitempty"`
	PromotionScore *int                          `json:"promotion_score,omitempty"`
	MayPromote     *bool                         `json:"may_promote,omitempty"`
}

type storageLayerJSON struct {
	Volumes []layerVolumeJSON `json:"storage_volumes"`
}

type layerJSON struct {
	Children []layerJSON       `json:"children,omitempty"`
	Type     string            `json:"type"`
	DRBD     *drbdJSON         `json:"drbd,omitempty"`
	Storage  *storageLayerJSON `json:"storage,omitempty"`
}

type volumeStateJSON struct {
	DiskState string `json:"disk_state,omitempty"`
}

type volumeLayerJSON struct {
	Type string `json:"type"`
	Data any    `json:"data,omitempty"`
}

type volumeJSON struct {
	VolumeNumber     int               `json:"volume_number"`
	StoragePoolName  string            `json:"storage_pool_name,omitempty"`
	ProviderKind     string            `json:"provider_kind,omitempty"`
	DevicePath       string            `json:"device_path,omitempty"`
	AllocatedSizeKiB int64             `json:"allocated_size_kib"`
	UsableSizeKiB    int64             `json:"usable_size_kib"`
	State            *volumeStateJSON  `json:"state,omitempty"`
	LayerDataList    []volumeLayerJSON `json:"layer_data_list,omitempty"`
	UUID             string            `json:"uuid,omitempty"`
}

type resourceStateJSON struct {
	InUse bool `json:"in_use"`
}

type resourceJSON struct {
	Name            string             `json:"name"`
	NodeName        string             `json:"node_name"`
	Props           map[string]string  `json:"props,omitempty"`
	Flags           []string           `json:"flags,omitempty"`
	LayerObject     layerJSON          `json:"layer_object"`
	State           *resourceStateJSON `json:"state,omitempty"`
	UUID            string             `json:"uuid"`
	CreateTimestamp *int64             `json:"create_timestamp,omitempty"`
	Volumes         []volumeJSON       `json:"volumes,omitempty"`
}

// resourceJSON shows a copy with its volume. What only the satellite knows is absent unless the node is ONLINE.
func (c *call) resourceJSON(on placed) resourceJSON {
	dfn, r := on.dfn, on.rsc
	props := map[string]string{"StorPoolName": r.pool}
	if r.migrateFrom != "" {
		if source := c.db.nodes[r.migrateFrom]; source != nil {
			props["MigrateFrom"] = source.name
		}
	}
	kind, backingPath := kindDiskless, ""
	n := c.db.nodes[r.node]
	if p := n.pools[key(r.pool)]; p != nil && !r.diskless {
		kind = p.kind
		backingPath = fmt.Sprintf("/dev/%s/%s_00000", strings.SplitN(p.backingName(), "/", 2)[0], dfn.name)
	}
	device := fmt.Sprintf("/dev/drbd%d", dfn.minor)
	known := c.ctl.isOnline(n) && c.drbdKnown(n)
	storage := layerVolumeJSON{DevicePath: backingPath, AllocatedSizeKiB: dfn.sizeKiB, UsableSizeKiB: dfn.sizeKiB, DiskState: "[]"}
	drbdVolume := drbdVolumeJSON{DevicePath: device, BackingDevice: backingPath, AllocatedSizeKiB: dfn.sizeKiB, UsableSizeKiB: dfn.sizeKiB}
	drbdVolume.Definition.MinorNumber = dfn.minor
	out := resourceJSON{
		Name: dfn.name, NodeName: r.nodeName, Props: props, Flags: r.flagNames(), UUID: r.uuid, CreateTimestamp: unixMillis(r.created),
		LayerObject: layerJSON{Type: "DRBD", DRBD: c.drbdJSON(on, drbdVolume, known),
			Children: []layerJSON{{Type: "STORAGE", Storage: &storageLayerJSON{[]layerVolumeJSON{storage}}}}},
		Volumes: []volumeJSON{{
			StoragePoolName: r.pool, ProviderKind: kind, DevicePath: device, AllocatedSizeKiB: dfn.sizeKiB, UsableSizeKiB: dfn.sizeKiB, UUID: r.uuid,
			LayerDataList: []volumeLayerJSON{{"DRBD", drbdVolume}, {"STORAGE", storage}},
		}},
	}
	if known {
		out.State = &resourceStateJSON{InUse: r.inUse}
		out.Volumes[0].State = &volumeStateJSON{DiskState: r.diskState}
	}
	return out
}

// drbdKnown tells whether the satellite of an ONLINE node sees DRBD's events.
func (c *call) drbdKnown(n *node) bool {
	m := c.ctl.machineOf(n)
	return m != nil && m.missingDRBD() == nil
}

func (c *call) drbdJSON(on placed, volume drbdVolumeJSON, known bool) *drbdJSON {
	d := &drbdJSON{
		Definition: drbdDfnJSON{PeerSlots: 7, AlStripes: 1, AlStripeSizeKiB: 32, Port: on.dfn.port, TransportType: "IP", Secret: "simulated"},
		NodeID:     on.rsc.nodeID, TCPPorts: []int{on.dfn.port}, PeerSlots: 7, AlStripes: 1, AlSize: 32,
		Volumes: []drbdVolumeJSON{volume},
	}
	if !known || on.rsc.diskState == stateUnknown {
		return d
	}
	d.Connections = map[string]drbdConnectionJSON{}
	for _, peer := range on.dfn.sortedResources() {
		if peer == on.rsc {
			continue
		}
		connection := drbdConnectionJSON{Connected: c.ctl.drbdUp(peer.node) && peer.diskState != stateUnknown, Message: "Connecting"}
		if connection.Connected {
			connection.Message = "Connected"
		}
		d.Connections[peer.nodeName] = connection
	}
	score := 10101
	may := on.rsc.good() && !on.rsc.inUse
	d.PromotionScore, d.MayPromote = &score, &may
	return d
}

func viewResources(c *call) reply {
	matchNode, matchRsc, matchPool := c.filter("nodes"), c.filter("resources"), c.filter("storage_pools")
	list := []resourceJSON{}
	for _, dfn := range c.db.sortedDfns() {
		for _, r := range dfn.sortedResources() {
			if matchRsc(dfn.name) && matchNode(r.nodeName) && matchPool(r.pool) && c.matchesProps(map[string]string{"StorPoolName": r.pool}) {
				list = append(list, c.resourceJSON(placed{dfn, r}))
			}
		}
	}
	return c.object(http.StatusOK, page(c, list))
}

type resourceGroupJSON struct {
	Name         string         `json:"name"`
	Description  string         `json:"description,omitempty"`
	SelectFilter map[string]any `json:"select_filter"`
	UUID         string         `json:"uuid"`
}

func listResourceGroups(c *call) reply {
	groups := []resourceGroupJSON{{Name: "DfltRscGrp", Description: "Default resource group",
		SelectFilter: map[string]any{"place_count": placeCount}, UUID: "5a1e0000-0000-4000-8000-ffffffffffff"}}
	if !c.filter("resource_groups")("DfltRscGrp") {
		groups = nil
	}
	return c.object(http.StatusOK, page(c, groups))
}

type volumeDfnJSON struct {
	VolumeNumber int   `json:"volume_number"`
	SizeKiB      int64 `json:"size_kib"`
}

type resourceDfnJSON struct {
	Name              string            `json:"name"`
	Props             map[string]string `json:"props,omitempty"`
	LayerData         []volumeLayerJSON `json:"layer_data,omitempty"`
	UUID              string            `json:"uuid"`
	ResourceGroupName string            `json:"resource_group_name"`
	VolumeDefinitions []volumeDfnJSON   `json:"volume_definitions,omitempty"`
}

func (c *call) resourceDfnJSON(d *rscDfn) resourceDfnJSON {
	out := resourceDfnJSON{Name: d.name, Props: d.props, UUID: d.uuid, ResourceGroupName: "DfltRscGrp",
		LayerData: []volumeLayerJSON{{"DRBD", drbdDfnJSON{PeerSlots: 7, AlStripes: 1, AlStripeSizeKiB: 32, Port: d.port, TransportType: "IP", Secret: "simulated"}},
			{"STORAGE", nil}}}
	if c.query.Get("with_volume_definitions") == "true" {
		out.VolumeDefinitions = []volumeDfnJSON{{0, d.sizeKiB}}
	}
	return out
}

func listResourceDfns(c *call) reply {
	match := c.filter("resource_definitions")
	var list []resourceDfnJSON
	for _, d := range c.db.sortedDfns() {
		if match(d.name) && c.matchesProps(d.props) {
			list = append(list, c.resourceDfnJSON(d))
		}
	}
	return c.object(http.StatusOK, page(c, list))
}

func (c *call) missingDfn(name string) reply {
	return c.list(http.StatusOK, rcContext{bare: true}, rcs{failure(codeNotFoundRscDfn, "Resource definition '%s' not found.", name)})
}

func getResourceDfn(c *call) reply {
	name := c.req.PathValue("rd")
	if d := c.db.rscDfns[key(name)]; d != nil {
		return c.object(http.StatusOK, c.resourceDfnJSON(d))
	}
	return c.missingDfn(name)
}

func deleteResourceDfn(c *call) reply {
	name := c.req.PathValue("rd")
	x := rcContext{op: opDelete, object: objRscDfn, refs: map[string]string{"RscDfn": name}, subject: "Resource definition: " + name}
	d := c.db.rscDfns[key(name)]
	if d == nil {
		return c.list(http.StatusOK, x, rcs{warning(codeNotFoundWarning, "Deletion of resource definition '%s' had no effect.", name)})
	}
	for _, r := range d.sortedResources() {
		if r.inUse {
			return c.list(http.StatusOK, x, rcs{failure(codeInUse, "Resource '%s' on node '%s' is still in use.", d.name, r.nodeName)})
		}
	}
	for _, r := range d.sortedResources() {
		c.ctl.giveUp(d, r, "deletion of resource definition "+d.name)
	}
	delete(c.db.rscDfns, key(name))
	return c.list(http.StatusOK, x, rcs{success(codeDeleted, "Resource definition '%s' deleted.", d.name)})
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
		return c.missingDfn(name)
	}
	r := d.resources[key(nodeName)]
	if r == nil {
		return c.list(http.StatusOK, rcContext{bare: true}, rcs{failure(codeNotFoundRsc, "Resource '%s' on node '%s' not found.", name, nodeName)})
	}
	return c.object(http.StatusOK, c.bareResource(placed{d, r}))
}

func deleteResource(c *call) reply {
	name, nodeName := c.req.PathValue("rd"), c.req.PathValue("node")
	x := rcContext{op: opDelete, object: objRsc, refs: map[string]string{"RscDfn": name, "Node": nodeName},
		subject: fmt.Sprintf("Node: %s, Resource: %s", nodeName, name)}
	d := c.db.rscDfns[key(name)]
	if d == nil || d.resources[key(nodeName)] == nil {
		return c.list(http.StatusOK, x, rcs{warning(codeNotFoundWarning, "Deletion of resource '%s' on node '%s' had no effect.", name, nodeName)})
	}
	on := placed{d, d.resources[key(nodeName)]}
	switch {
	case on.rsc.inUse:
		return c.list(http.StatusOK, x, rcs{failure(codeInUse, "Resource '%s' is still in use.", d.name)})
	case on.lastDiskWithClients():
		return c.list(http.StatusOK, x, rcs{failure(codeInUse, "Last resource of '%s' with disk still has diskless resources attached.", d.name)})
	}
	c.ctl.giveUp(d, on.rsc, "deletion of the resource on node "+on.rsc.nodeName)
	return c.list(http.StatusOK, x, rcs{success(codeDeleted, "Resource '%s' on node '%s' deleted.", d.name, on.rsc.nodeName)})
}
