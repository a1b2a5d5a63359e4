package sim

import (
	"fmt"
	"path"
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
	Props            map[string]string `json:"props,omitempty"`
	State            *volumeStateJSON  `json:"state,omitempty"`
	LayerDataList    []volumeLayerJSON `json:"layer_data_list,omitempty"`
	UUID             string            `json:"uuid,omitempty"`
}

type resourceStateJSON struct {
	InUse *bool `json:"in_use,omitempty"` // nil without DRBD
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
	size, allocated := dfn.sizeKiB, dfn.sizeKiB
	if r.migrateFrom != "" {
		if source := c.db.nodes[r.migrateFrom]; source != nil {
			props["MigrateFrom"] = key(source.name)
		}
	}
	if r.unmovable {
		props["MigrateFrom"] = r.node
	}
	kind, backingPath := kindDiskless, ""
	n := c.db.nodes[r.node]
	if p := n.pools[key(r.pool)]; p != nil && !r.diskless {
		kind = p.kind
		backingPath = p.devicePath(dfn)
		allocated = dfn.takes(p.kind)
	}
	device := fmt.Sprintf("/dev/drbd%d", dfn.minor)
	if r.broken {
		device, backingPath, allocated = "", "", -1
	}
	known := c.ctl.isOnline(n) && c.drbdKnown(n)
	storage := layerVolumeJSON{DevicePath: backingPath, AllocatedSizeKiB: allocated, UsableSizeKiB: size,
		DiskState: "[]"}
	drbdVolume := drbdVolumeJSON{DevicePath: device, BackingDevice: backingPath, AllocatedSizeKiB: allocated,
		UsableSizeKiB: size}
	drbdVolume.Definition.MinorNumber = dfn.minor
	out := resourceJSON{
		Name: dfn.name, NodeName: r.nodeName, Props: props, Flags: r.flagNames(), UUID: r.uuid,
		CreateTimestamp: unixMillis(r.created),
		LayerObject: layerJSON{Type: "DRBD", DRBD: c.drbdJSON(on, drbdVolume, known),
			Children: []layerJSON{{Type: "STORAGE", Storage: &storageLayerJSON{[]layerVolumeJSON{storage}}}}},
		Volumes: []volumeJSON{{
			StoragePoolName: r.pool, ProviderKind: kind, DevicePath: device, AllocatedSizeKiB: allocated, UUID: r.volumeUUID,
			Props:         r.volume,
			LayerDataList: []volumeLayerJSON{{"DRBD", drbdVolume}, {"STORAGE", storage}},
		}},
	}
	if dfn.storageOnly {
		out = storageOnlyJSON(out, storage, c.ctl.isOnline(n) && !r.broken)
	}
	if dfn.volume == nil {
		out.Volumes = nil
	}
	if dfn.storageOnly {
		return out
	}
	if known && !r.broken {
		inUse := r.inUse
		out.State = &resourceStateJSON{InUse: &inUse}
		for i := range out.Volumes {
			out.Volumes[i].State = &volumeStateJSON{DiskState: r.diskState}
		}
	}
	return out
}

// devicePath is where the backing of a volume's copy in the pool is found.
func (p *pool) devicePath(d *rscDfn) string {
	switch p.kind {
	case kindFile, kindFileThin:
		return fmt.Sprintf("/dev/loop%d", d.minor-999)
	case kindZFS, kindZFSThin:
		return fmt.Sprintf("/dev/zvol/%s/%s_00000", p.backingName(), d.name)
	}
	group, _, _ := strings.Cut(p.backingName(), "/")
	return path.Join("/dev", group, d.name+"_00000")
}

// storageOnlyJSON leaves out DRBD. The satellite then tells no state: neither of a disk nor whether it is in use.
func storageOnlyJSON(out resourceJSON, storage layerVolumeJSON, online bool) resourceJSON {
	out.LayerObject = layerJSON{Type: "STORAGE", Storage: &storageLayerJSON{[]layerVolumeJSON{storage}}}
	out.Volumes[0].DevicePath = storage.DevicePath
	out.Volumes[0].LayerDataList = []volumeLayerJSON{{"STORAGE", storage}}
	if online {
		out.State = &resourceStateJSON{}
	}
	return out
}

// drbdKnown reports whether the satellite of an ONLINE node sees DRBD's events.
func (c *call) drbdKnown(n *node) bool {
	m := c.ctl.machineOf(n)
	return m != nil && m.missingDRBD() == nil
}

func (c *call) drbdJSON(on placed, volume drbdVolumeJSON, known bool) *drbdJSON {
	d := &drbdJSON{
		Definition: drbdDfnJSON{PeerSlots: 7, AlStripes: 1, AlStripeSizeKiB: 32, Port: on.dfn.port, TransportType: "IP",
			Secret: "simulated"},
		NodeID: on.rsc.nodeID, TCPPorts: []int{on.dfn.port}, PeerSlots: 7, AlStripes: 1, AlSize: 32,
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
		state := connection(c.db, on.dfn, on.rsc, peer)
		d.Connections[peer.nodeName] = drbdConnectionJSON{Connected: state == Connected, Message: state}
	}
	score := promotionScore(c.db, on.dfn, on.rsc)
	may := on.rsc.good() && !on.rsc.inUse
	d.PromotionScore, d.MayPromote = &score, &may
	return d
}
