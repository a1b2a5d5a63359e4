package sim

import (
	"maps"
	"slices"
	"strconv"
	"time"
)

// Node types and encryption types, upper case as LINSTOR answers them whatever was sent.
const (
	typeSatellite  = "SATELLITE"
	typeCombined   = "COMBINED"
	typeController = "CONTROLLER"
	typeAuxiliary  = "AUXILIARY"

	encPlain = "PLAIN"
	encSSL   = "SSL"
)

// node is a LINSTOR node as the database keeps it.
type node struct {
	name     string
	uuid     string
	nodeType string
	props    map[string]string
	nets     map[string]*netIf
	pools    map[string]*pool
	active   string // key of the interface over which the controller connects
	machine  string // name of the machine that last connected as this node
	evacuate bool
	deleted  bool
	evicted  bool
}

type netIf struct {
	name, address, encryption, uuid string
	port                            int
}

func (n *node) clone() *node {
	out := shallow(n)
	out.props, out.nets, out.pools = maps.Clone(n.props), cloned(n.nets, shallow[netIf]), cloned(n.pools, (*pool).clone)
	return out
}

// usable reports whether the controller can connect over the interface.
func (i *netIf) usable() bool { return i.port > 0 && i.encryption != "" }

type nodeConn struct {
	a, b, uuid string
	props      map[string]string
}

func (c *nodeConn) clone() *nodeConn {
	out := shallow(c)
	out.props = maps.Clone(c.props)
	return out
}

type poolDfn struct {
	name      string
	props     map[string]string
	permanent bool
}

func (d *poolDfn) clone() *poolDfn {
	out := shallow(d)
	out.props = maps.Clone(d.props)
	return out
}

// pool is a storage pool of one node.
type pool struct {
	name, kind, uuid string
	props            map[string]string
	shared           string
	externalLocking  bool
	known            bool // total and free have been reported by the satellite
	total, free      int64
}

func (p *pool) backingName() string { return p.props[propStorPoolName] }

func (p *pool) clone() *pool {
	out := shallow(p)
	out.props = maps.Clone(p.props)
	return out
}

type rscDfn struct {
	name  string
	uuid  string
	props map[string]string
	// group is the name of its resource group.
	group string
	// wanted are the layers that its creator asked for; layers are those of its first resource, and until there is one
	// LINSTOR shows none.
	wanted, layers []string
	// storageOnly marks a volume without DRBD: one that LINSTOR can neither replicate nor move.
	storageOnly bool
	// clonedFrom is the key of the definition that it is a clone of.
	clonedFrom string
	// deleted is set while its deletion waits for a satellite.
	deleted bool
	// volume is its volume definition, nil if it has none.
	volume *volumeDfn
	// sizeKiB is the size of its volume, filledKiB how much of it has been written: that is what a thin pool gives.
	sizeKiB, filledKiB int64

	minor     int
	port      int
	resources map[string]*resource
	snapshots map[string]*snapshot
	// snapshotsTaken counts the snapshots that there have been.
	snapshotsTaken int
}

func (d *rscDfn) clone() *rscDfn {
	out := shallow(d)
	out.props, out.volume = maps.Clone(d.props), shallow(d.volume)
	if d.volume != nil {
		out.volume.props = maps.Clone(d.volume.props)
	}
	out.wanted, out.layers = slices.Clone(d.wanted), slices.Clone(d.layers)
	out.resources = cloned(d.resources, (*resource).clone)
	out.snapshots = cloned(d.snapshots, (*snapshot).clone)
	return out
}

// volumeDfn is volume number 0 of a resource definition. LINSTOR has up to 65536 of them; volumes of the simulator
// have one, which is all that a volume of a CSI driver needs, but for one that many nodes write to over NFS. What
// would make a second one is answered as not simulated.
type volumeDfn struct {
	uuid  string
	props map[string]string
}

// resource is one copy of a volume, or a diskless client of it.
type resource struct {
	node       string // key
	nodeName   string
	uuid       string
	volumeUUID string
	volume     map[string]string // properties of its volume
	pool       string
	diskless   bool
	tieBreaker bool
	evacuate   bool
	deleted    bool
	// asked is set where the deletion has been looked at already: it waits for the satellite only.
	asked     bool
	evicted   bool
	diskState string
	inUse     bool
	// broken is set where the satellite could not make the device.
	broken bool
	// unmovable is set by an evacuation that cannot move the copy.
	unmovable bool
	created   time.Time
	nodeID    int
	// migrateFrom is the key of the node whose copy goes once this one is UpToDate.
	migrateFrom string
	// syncing is set until the data has arrived, which can be at syncedAt.
	syncing  bool
	syncedAt time.Time
	// shrinks is set while the satellite has still to make the volume smaller, as somebody has asked for (LINSTOR's flag
	// RESIZE of volumes; it is not needed here for those that grow).
	shrinks bool
	// restored is set where an import brought the copy, until its satellite has looked for it on the machine.
	restored bool
}

func (r *resource) clone() *resource {
	out := shallow(r)
	out.volume = maps.Clone(r.volume)
	return out
}

// flagNames expands by inclusion of bits, as LINSTOR does: EVICTED includes DELETE.
func (n *node) flagNames() []string {
	var flags []string
	if n.deleted || n.evicted {
		flags = append(flags, "DELETE")
	}
	if n.evicted {
		flags = append(flags, "EVICTED")
	}
	if n.evacuate {
		flags = append(flags, "EVACUATE")
	}
	return flags
}

func (r *resource) flagNames() []string {
	var flags []string
	if r.deleted {
		flags = append(flags, "DELETE")
	}
	if r.diskless {
		flags = append(flags, "DISKLESS", "DRBD_DISKLESS")
	}
	if r.tieBreaker {
		flags = append(flags, "TIE_BREAKER")
	}
	if r.evicted {
		flags = append(flags, "INACTIVE", "EVICTED")
	}
	if r.evacuate {
		flags = append(flags, "EVACUATE")
	}
	return flags
}

func (r *resource) good() bool { return !r.diskless && r.diskState == stateUpToDate }

// addNet adds an interface; the first usable one becomes the active one.
func (n *node) addNet(i *netIf) {
	n.nets[key(i.name)] = i
	if n.active == "" && i.usable() {
		n.activate(i)
	}
}

func (n *node) activate(i *netIf) {
	n.active = key(i.name)
	n.props[propCurStltConn] = i.name
}

func (n *node) activeNet() *netIf { return n.nets[n.active] }

func (n *node) sortedNets() []*netIf {
	list := make([]*netIf, 0, len(n.nets))
	for _, k := range slices.Sorted(maps.Keys(n.nets)) {
		list = append(list, n.nets[k])
	}
	return list
}

// rotate makes the next usable interface the active one, as LINSTOR does after a failed attempt to connect.
func (n *node) rotate() {
	var usable []*netIf
	current := -1
	for _, i := range n.sortedNets() {
		if i.usable() {
			if key(i.name) == n.active {
				current = len(usable)
			}
			usable = append(usable, i)
		}
	}
	if len(usable) > 1 {
		n.activate(usable[(current+1)%len(usable)])
	}
}

func (n *node) sortedPools() []*pool {
	list := make([]*pool, 0, len(n.pools))
	for _, k := range slices.Sorted(maps.Keys(n.pools)) {
		list = append(list, n.pools[k])
	}
	return list
}

// connectable reports whether the controller keeps a connection to nodes of this type.
func (n *node) connectable() bool { return n.nodeType != typeController && n.nodeType != typeAuxiliary }

func (d *rscDfn) sortedResources() []*resource {
	list := make([]*resource, 0, len(d.resources))
	for _, k := range slices.Sorted(maps.Keys(d.resources)) {
		list = append(list, d.resources[k])
	}
	return list
}

func itoa(n int) string { return strconv.Itoa(n) }
