package export

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/linstor-dev/storagecluster-operator/pkg/limit"
)

// Keys of rows. Names in them are in upper case, as LINSTOR tells objects apart.
type (
	// snapshotKey is a resource definition, or a snapshot of one.
	snapshotKey struct{ resource, snapshot string }
	// resourceKey is a resource, or a snapshot's part, on a node.
	resourceKey struct {
		snapshotKey
		node string
	}
	// volumeKey is a volume of a definition or of a snapshot.
	volumeKey struct {
		snapshotKey
		volume int
	}
	// copyKey is a volume of a resource, or of a snapshot's part, on a node.
	copyKey struct {
		resourceKey
		volume int
	}
	// kindKey is a kind of layer of a resource.
	kindKey struct {
		resourceKey
		kind string
	}
	// layerKey is a volume of a layer.
	layerKey struct{ layer, volume int }
	// propKey is a property of the object whose properties are at that path.
	propKey struct{ path, key string }
)

// Bits of flags (linstor-server 1.34: Resource.Flags, Snapshot.Flags, SnapshotDefinition.Flags,
// VolumeDefinition.Flags, ResourceDefinition.Flags, Volume.Flags).
const (
	resourceMade             = 1<<3 | 1<<4                // DISK_ADD_REQUESTED, DISK_ADDING
	resourceRemoved          = 1<<1 | 1<<5 | 1<<6 | 1<<18 // DELETE, DISK_REMOVE_REQUESTED, DISK_REMOVING, DRBD_DELETE
	resourceGone             = 1<<1 | 1<<18               // DELETE, DRBD_DELETE: the node loses its access
	snapshotDelete           = 1 << 0
	definitionDelete         = 1 << 0
	snapshotDefinitionDone   = 1 << 0
	snapshotDefinitionDelete = 1 << 3
	volumeDefinitionDelete   = 1 << 0
	volumeDefinitionGross    = 1 << 3
	volumeRemoved            = 1<<1 | 1<<7 // DELETE, DRBD_DELETE
)

// Kinds of nodes to which LINSTOR never connects (linstor-server 1.34: Node.Type).
const (
	typeController = 1
	typeAuxiliary  = 4
)

type (
	// node is one of LINSTOR's, by its name as LINSTOR shows it.
	node struct {
		name string
		kind int
	}
	definition struct {
		resource, snapshot string
		flags              int64
	}
	volumeDefinition struct{ sizeKiB, flags int64 }
	// layer is a layer of a resource.
	layer struct {
		resourceKey
		kind, suffix string
	}
	drbd struct{ peers, stripes, stripeKiB int64 }
	// storage is a volume of the lowest layer, in a pool of a node.
	storage struct{ provider, node, pool string }
)

// rows are those of an export that say what lies on nodes. They name each other, in no order of tables.
type rows struct {
	// texts are those of all rows, each once: a name is in seven rows of each copy, and would be in memory as often.
	texts map[string]string
	nodes map[string]node
	// addresses are where LINSTOR has a node.
	addresses         []Address
	definitions       map[snapshotKey]definition
	volumeDefinitions map[volumeKey]volumeDefinition
	// resources and volumes are flags.
	resources map[resourceKey]int64
	volumes   map[copyKey]int64
	layers    map[int]layer
	// kinds are the IDs of the layers of a resource, of one of each kind.
	kinds  map[kindKey]int
	drbd   map[int]drbd
	stored map[layerKey]storage
	props  map[propKey]string
}

func newRows() *rows {
	return &rows{texts: map[string]string{}, nodes: map[string]node{}, definitions: map[snapshotKey]definition{},
		volumeDefinitions: map[volumeKey]volumeDefinition{}, resources: map[resourceKey]int64{},
		volumes: map[copyKey]int64{}, layers: map[int]layer{}, kinds: map[kindKey]int{}, drbd: map[int]drbd{},
		stored: map[layerKey]storage{}, props: map[propKey]string{}}
}

// columns are those that are looked at, of all tables (linstor-server 1.34, GeneratedDatabaseTables).
type columns struct {
	Node            string `json:"node_name"`
	NodeShown       string `json:"node_dsp_name"`
	NodeType        int    `json:"node_type"`
	Address         string `json:"inet_address"`
	Resource        string `json:"resource_name"`
	ResourceShown   string `json:"resource_dsp_name"`
	Snapshot        string `json:"snapshot_name"`
	SnapshotShown   string `json:"snapshot_dsp_name"`
	ResourceFlags   int64  `json:"resource_flags"`
	Volume          int    `json:"vlm_nr"`
	VolumeSize      int64  `json:"vlm_size"` // KiB
	VolumeFlags     int64  `json:"vlm_flags"`
	Layer           int    `json:"layer_resource_id"`
	LayerKind       string `json:"layer_resource_kind"`
	LayerSuffix     string `json:"layer_resource_suffix"`
	PeerSlots       int64  `json:"peer_slots"`
	ActivityStripes int64  `json:"al_stripes"`
	ActivityStripe  int64  `json:"al_stripe_size"` // KiB
	Provider        string `json:"provider_kind"`
	Pool            string `json:"stor_pool_name"`
	Instance        string `json:"props_instance"`
	Key             string `json:"prop_key"`
	Value           string `json:"prop_value"`
}

func (c *columns) definition() snapshotKey { return snapshotKey{c.Resource, c.Snapshot} }

func (c *columns) resource() resourceKey { return resourceKey{c.definition(), c.Node} }

// keep is what is kept of each table, as far as there is room.
func (r *rows) keep(room *limit.Budget) map[string]keeper {
	tables := map[string]func(c *columns){
		"NODES": func(c *columns) { r.nodes[c.Node] = node{c.NodeShown, c.NodeType} },
		"NODE_NET_INTERFACES": func(c *columns) {
			r.addresses = append(r.addresses, Address{Node: c.Node, Address: c.Address})
		},
		"RESOURCE_DEFINITIONS": func(c *columns) {
			r.definitions[c.definition()] = definition{c.ResourceShown, c.SnapshotShown, c.ResourceFlags}
		},
		"VOLUME_DEFINITIONS": func(c *columns) {
			r.volumeDefinitions[volumeKey{c.definition(), c.Volume}] = volumeDefinition{c.VolumeSize, c.VolumeFlags}
		},
		"RESOURCES": func(c *columns) { r.resources[c.resource()] = c.ResourceFlags },
		"VOLUMES":   func(c *columns) { r.volumes[copyKey{c.resource(), c.Volume}] = c.VolumeFlags },
		"LAYER_RESOURCE_IDS": func(c *columns) {
			r.layers[c.Layer] = layer{c.resource(), c.LayerKind, c.LayerSuffix}
			r.kinds[kindKey{c.resource(), c.LayerKind}] = c.Layer
		},
		"LAYER_DRBD_RESOURCES": func(c *columns) {
			r.drbd[c.Layer] = drbd{c.PeerSlots, c.ActivityStripes, c.ActivityStripe}
		},
		"LAYER_STORAGE_VOLUMES": func(c *columns) {
			r.stored[layerKey{c.Layer, c.Volume}] = storage{c.Provider, c.Node, c.Pool}
		},
		"PROPS_CONTAINERS": func(c *columns) {
			switch c.Key {
			case keyPlace, keyGranularity, keyName, keyRollback, keyRenamed:
				r.props[propKey{c.Instance, c.Key}] = c.Value
			}
		},
	}
	keep := map[string]keeper{}
	for name, f := range tables {
		keep[name] = func(text json.RawMessage) error {
			var c columns
			if err := json.Unmarshal(text, &c); err != nil {
				return err
			}
			r.share(&c.Node, &c.Resource, &c.ResourceShown, &c.Snapshot, &c.SnapshotShown, &c.LayerKind, &c.LayerSuffix,
				&c.Provider, &c.Pool)
			f(&c)
			return room.Take(len(text) + overhead)
		}
	}
	return keep
}

// reached are the addresses at which LINSTOR may look for satellites.
func (r *rows) reached() (all []Address, err error) {
	for _, a := range r.addresses {
		n, ok := r.nodes[a.Node]
		switch {
		case !ok:
			return nil, fmt.Errorf("the export is inconsistent: NODE_NET_INTERFACES names node %s, which is missing from NODES",
				a.Node)
		case n.kind != typeController && n.kind != typeAuxiliary:
			all = append(all, Address{Node: n.name, Address: a.Address})
		}
	}
	slices.SortFunc(all, func(a, b Address) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Address, b.Address))
	})
	return all, nil
}

// share replaces texts by those of earlier rows.
func (r *rows) share(texts ...*string) {
	for _, t := range texts {
		if known, ok := r.texts[*t]; ok {
			*t = known
		} else {
			r.texts[*t] = *t
		}
	}
}

// Properties of pools, volume definitions, resources and snapshots.
const (
	keyPlace       = "StorDriver/StorPoolName"
	keyGranularity = "StorDriver/internal/AllocationGranularity" // KiB
	// keyName is another name for a volume's data than LINSTOR would give it (AbsStorageProvider).
	keyName = "OverrideVlmId"
	// keyRollback names the snapshot that a volume is being put back to (AbsStorageProvider).
	keyRollback = "RollbackTarget"
	// keyRenamed is what LINSTOR has told a zvol from others of its name with, which is gone but for its snapshots
	// (ZfsProvider).
	keyRenamed = "Internal/StorDriver/ZfsRenameSuffix"
)

// join finds out what a volume of the lowest layer is.
func (r *rows) join(at layerKey, kind storage) (*Stored, error) {
	on, ok := r.layers[at.layer]
	if !ok {
		return nil, fmt.Errorf("the export is inconsistent: LAYER_STORAGE_VOLUMES names layer %d, which is missing from "+
			"LAYER_RESOURCE_IDS", at.layer)
	}
	what := fmt.Sprintf("resource %s on node %s", on.resource, on.node)
	if on.snapshot != "" {
		what = fmt.Sprintf("snapshot %s of %s", on.snapshot, what)
	}
	lacks := func(table string) error {
		return fmt.Errorf("the export is inconsistent: %s has storage, but no row in %s", what, table)
	}
	resourceFlags, isResource := r.resources[on.resourceKey]
	volumeFlags, isVolume := r.volumes[copyKey{on.resourceKey, at.volume}]
	n, isNode := r.nodes[on.node]
	dfn, isDefinition := r.definitions[on.snapshotKey]
	of, isOf := r.definitions[snapshotKey{on.resource, ""}] // a snapshot's own row lacks the resource's name
	volumeDfn, isVolumeDefinition := r.volumeDefinitions[volumeKey{on.snapshotKey, at.volume}]
	switch {
	case !isNode:
		return nil, lacks("NODES")
	case !isDefinition, !isOf:
		return nil, lacks("RESOURCE_DEFINITIONS")
	case !isResource:
		return nil, lacks("RESOURCES")
	case !isVolume:
		return nil, lacks("VOLUMES")
	case !isVolumeDefinition:
		return nil, lacks("VOLUME_DEFINITIONS")
	}
	s := &Stored{Node: n.name, Resource: of.resource, Snapshot: dfn.snapshot, Suffix: on.suffix, Volume: at.volume,
		Provider: kind.provider, Place: place(kind.provider, r.props[propKey{kind.path(), keyPlace}])}
	flags := flags{resource: resourceFlags, volume: volumeFlags, definition: dfn.flags, volumeDefinition: volumeDfn.flags}
	if on.snapshot == "" {
		s.BeingMade, s.BeingRemoved = flags.ofVolume()
		s.RolledBack = r.props[propKey{"/RSCS/" + on.node + "/" + on.resource, keyRollback}]
		s.Given = r.props[propKey{pathOf(on.resource, at.volume), keyName}]
	} else {
		s.BeingMade, s.BeingRemoved = flags.ofSnapshot()
		suffix := r.props[propKey{"/SNAPS/" + on.node + "/" + on.resource + "/" + on.snapshot, keyRenamed}]
		if suffix != "" && strings.HasPrefix(kind.provider, ZFS) {
			s.Given = fmt.Sprintf("_deleted_%s%s_%05d_%s@%s", s.Resource, s.Suffix, s.Volume, suffix, s.Snapshot)
		}
	}
	if s.Suffix == "" {
		s.MinKiB, s.MaxKiB = r.sizes(copyKey{on.resourceKey, at.volume}, volumeDfn, kind)
	}
	return s, nil
}

// flags are those of a resource and what belongs to it, or of a snapshot's part on a node.
type flags struct{ resource, volume, definition, volumeDefinition int64 }

// ofVolume reports whether LINSTOR was about to make or to remove a volume on a node.
func (f flags) ofVolume() (made, removed bool) {
	return f.resource&resourceMade != 0, f.resource&resourceRemoved != 0 || f.definition&definitionDelete != 0 ||
		f.volume&volumeRemoved != 0 || f.volumeDefinition&volumeDefinitionDelete != 0
}

// ofSnapshot reports the same of a snapshot.
func (f flags) ofSnapshot() (made, removed bool) {
	return f.definition&snapshotDefinitionDone == 0, f.resource&snapshotDelete != 0 ||
		f.definition&snapshotDefinitionDelete != 0 || f.volumeDefinition&volumeDefinitionDelete != 0
}

// path is where the properties of the pool are.
func (s storage) path() string { return "/STOR_POOLS/" + s.node + "/" + s.pool }

// pathOf is where the properties of a volume definition are.
func pathOf(resource string, volume int) string {
	return "/VLM_DFNS/" + resource + "/" + strconv.Itoa(volume)
}

// sizes bounds what a volume's data takes of the storage, in KiB.
func (r *rows) sizes(of copyKey, dfn volumeDefinition, kind storage) (from, to int64) {
	var around int64 // what layers keep beside the data
	if id, ok := r.kinds[kindKey{of.resourceKey, "DRBD"}]; ok {
		around += r.drbd[id].metadata(dfn.sizeKiB)
	}
	for layer, kib := range aroundKiB {
		if _, ok := r.kinds[kindKey{of.resourceKey, layer}]; ok {
			around += kib
		}
	}
	rounding := roundingKiB[kind.provider]
	for _, path := range []string{kind.path(), pathOf(of.resource, of.volume)} {
		if n, err := strconv.ParseInt(r.props[propKey{path, keyGranularity}], 10, 64); err == nil {
			rounding = max(rounding, n)
		}
	}
	from, to = dfn.sizeKiB, dfn.sizeKiB+around+rounding
	if dfn.flags&volumeDefinitionGross != 0 {
		from, to = max(0, dfn.sizeKiB-around), dfn.sizeKiB+rounding
	}
	return from, to
}

// aroundKiB is what layers keep beside the data, or more: a LUKS2 header, the larger one (linstor-server 1.34,
// LuksLayerSizeCalculator), and what layers with a cache put before the data.
var aroundKiB = map[string]int64{"LUKS": 16 << 10, "BCACHE": 1 << 10, "CACHE": 1 << 10, "WRITECACHE": 1 << 10}

// roundingKiB is what a provider rounds sizes up to: an extent of LVM, which is 4 MiB unless the volume group was made
// with another, a block of ZFS, a page of a file system.
var roundingKiB = map[string]int64{LVM: 4 << 10, LVMThin: 4 << 10, ZFS: 128, ZFSThin: 128, File: 4, FileThin: 4}

// metadata is how much DRBD keeps beside that much data, in KiB, at most (linstor-server 1.34, MetaData): a
// superblock, the activity log, and a bitmap for each peer with a bit for 4 KiB, which covers the metadata as well.
func (d drbd) metadata(dataKiB int64) int64 {
	const superblockKiB, perBitKiB, alignKiB = 4, 4, 4
	around := superblockKiB + max(d.stripes*d.stripeKiB, 32) + 2*alignKiB
	bitmap := int64(0)
	for range 3 { // what the bitmap adds for itself becomes a 256th of the last addition, at most, each time
		bitmap = d.peers * ((dataKiB+around+bitmap)/(perBitKiB*8<<10) + 1)
	}
	return around + bitmap
}
