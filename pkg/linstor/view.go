package linstor

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// View is LINSTOR at one time.
type View struct {
	// TakenAt is when the look began: a write that ended later may not be in it.
	TakenAt time.Time
	// Version of the controller.
	Version string
	// LocalID is the identity of LINSTOR's database (controller property Cluster/LocalID).
	LocalID string
	// Properties of the controller, without secrets.
	Properties map[string]string
	// Nodes by lower-case name, with their pools.
	Nodes map[string]*Node
	// Volumes is the number of resource definitions; VolumeNames are the first of them, at most 10.
	Volumes     int
	VolumeNames []string
	// Sought are the volumes that were looked for, Found those of them that there are.
	Sought, Found []string
	// Groups are the resource groups that were looked for and are there, by name.
	Groups map[string]*ResourceGroup
	// Resources are all copies of volumes, if ResourcesKnown.
	Resources      []Resource
	ResourcesKnown bool
	// PlaceCounts are how many copies the resource group of a volume asks for, by the volume's name in lower case, if
	// ResourcesKnown. Volumes whose group names no number are left out.
	PlaceCounts map[string]int
	// Snapshots are those on the nodes SnapshotsOn; of all others it is not known what they have.
	Snapshots   []Snapshot
	SnapshotsOn []string
	// DevicesErr is set when the devices were wanted and could not be read, or others' claims to them; no node's devices
	// are known then.
	DevicesErr error
}

// ResourceGroup has what the volumes that are made from it share.
type ResourceGroup struct {
	Name       string
	Properties map[string]string
}

// Node looks a node up, whatever the case of its name; nil if there is none.
func (v *View) Node(name string) *Node { return v.Nodes[strings.ToLower(name)] }

// Pool looks a pool up, whatever the case of the names; nil if there is none.
func (v *View) Pool(node, pool string) *Pool {
	if n := v.Node(node); n != nil {
		return n.Pools[strings.ToLower(pool)]
	}
	return nil
}

// Gone reports whether a volume was looked for and is not there.
func (v *View) Gone(volume string) bool {
	return slices.Contains(v.Sought, volume) && !slices.Contains(v.Found, volume)
}

// Unreached reports whether there is a node that LINSTOR wants to be connected to and is not.
func (v *View) Unreached() bool {
	for _, n := range v.Nodes {
		if n.Type != TypeController && n.Type != TypeAuxiliary && !n.Online() {
			return true
		}
	}
	return false
}

// SetResources puts copies of volumes into the view. What an impostor says of the copies that it was sent is not known
// of the node's own.
func (v *View) SetResources(rs []Resource) {
	for i := range rs {
		if n := v.Node(rs[i].Node); n != nil && n.Impostor() != "" {
			rs[i].States, rs[i].InUse = nil, nil
			rs[i].Connected, rs[i].StandAlone, rs[i].PromotionScore = nil, nil, nil
		}
	}
	v.Resources, v.ResourcesKnown = rs, true
}

// Unmeasured are the ONLINE nodes that have a pool of unknown capacity.
func (v *View) Unmeasured() []string {
	var nodes []string
	for _, key := range slices.Sorted(maps.Keys(v.Nodes)) {
		n := v.Nodes[key]
		unknown := func(p *Pool) bool { return p.TotalKiB == nil }
		if n.Online() && slices.ContainsFunc(slices.Collect(maps.Values(n.Pools)), unknown) {
			nodes = append(nodes, n.Name)
		}
	}
	return nodes
}

// BelievePools makes nodes OFFLINE that LINSTOR called ONLINE, and to whose satellites it had no connection when it
// was asked for their pools a moment later. A satellite that was restarted between the two answers looked like one
// that is ONLINE and whose pool's storage is gone, and the cluster became Degraded.
func (v *View) BelievePools() {
	for _, n := range v.Nodes {
		if n.Online() && slices.ContainsFunc(slices.Collect(maps.Values(n.Pools)), (*Pool).Unseen) {
			n.Status = StatusOffline
			n.Devices, n.DevicesKnown = nil, false // LINSTOR leaves out those of nodes that are not ONLINE
		}
	}
}

// Connection states of a node (LINSTOR REST API, Node.connection_status). While it
// connects, a node is OFFLINE and CONNECTED; UNKNOWN is a controller that has just started.
const (
	StatusOnline              = "ONLINE"
	StatusConnected           = "CONNECTED"
	StatusOffline             = "OFFLINE"
	StatusUnknown             = "UNKNOWN"
	StatusVersionMismatch     = "VERSION_MISMATCH"
	StatusFullSyncFailed      = "FULL_SYNC_FAILED"
	StatusAuthenticationError = "AUTHENTICATION_ERROR"
	StatusOtherController     = "OTHER_CONTROLLER"
	StatusNoConnection        = "NO_STLT_CONN"
	StatusMissingTools        = "MISSING_EXT_TOOLS"
	StatusDuplicateName       = "DUPLICATE_UNAME"
)

// Flags of a node, and of a resource. An evicted node has both DELETE and EVICTED.
const (
	FlagDelete   = "DELETE"
	FlagEvicted  = "EVICTED"
	FlagEvacuate = "EVACUATE"
	FlagDiskless = "DISKLESS"
	FlagInactive = "INACTIVE"
	// FlagDrbdDelete is that of a resource whose DRBD layer is being removed.
	FlagDrbdDelete = "DRBD_DELETE"
)

// Types of a node. The operator registers satellites; LINSTOR looks for none at the addresses of controllers and
// auxiliary nodes.
const (
	TypeSatellite  = "SATELLITE"
	TypeController = "CONTROLLER"
	TypeAuxiliary  = "AUXILIARY"
)

// Node is a LINSTOR node.
type Node struct {
	Name string // as it was created
	UUID string
	// Type and Status are LINSTOR's words, in upper case.
	Type, Status string
	Flags        []string
	Interfaces   []Interface
	Properties   map[string]string
	// Layers are what the satellite can do. A node that is not ONLINE reports almost none.
	Layers []string
	// Unsupported gives LINSTOR's reasons for each layer and provider that is missing.
	Unsupported map[string][]string
	// Pools by lower-case name, without LINSTOR's own diskless pool. Nil from Reader.Node.
	Pools map[string]*Pool
	// Devices are the node's empty devices, if DevicesKnown.
	Devices      []Device
	DevicesKnown bool
}

// HasFlag reports whether the node has the flag.
func (n *Node) HasFlag(f string) bool { return listed(n.Flags, f) }

// listed reports whether a list has a word, whatever its case.
func listed(list []string, word string) bool {
	return slices.ContainsFunc(list, func(have string) bool { return strings.EqualFold(have, word) })
}

// Online reports whether the node's own satellite is connected and has all of LINSTOR's state.
func (n *Node) Online() bool { return n.Status == StatusOnline && n.Impostor() == "" }

// Impostor is the host name of the satellite that LINSTOR is connected to in the node's name although it is another
// machine's; "" if there is none.
//
// A satellite has no identity: LINSTOR takes whoever answers at the node's address for the node, and sends it the
// node's volumes. A host name that differs is worth a message to it and nothing more (INFO_NODE_NAME_MISMATCH). What
// such a node reports is about another machine's disks.
//
// The operator's satellites have the Kubernetes Node's name as their host name, whatever the machine's own is
// (LINSTOR's scripts/entry.sh: LB_FORCE_NODE_NAME), so that a node that the operator registered has exactly its name:
// n01.example is another Kubernetes Node than n01. Of a node that somebody else registered, the satellite may run on
// the host itself, and those often say their name with its domain. LINSTOR compares without regard to case.
func (n *Node) Impostor() string {
	host := n.Properties[PropUname]
	if n.Status != StatusOnline && n.Status != StatusConnected || strings.EqualFold(host, n.Name) ||
		n.Properties[PropNodeUID] == "" && shortAndLong(host, n.Name) {
		return ""
	}
	return host
}

// shortAndLong reports whether one is the other with its domain.
func shortAndLong(a, b string) bool {
	a, b = strings.ToLower(a), strings.ToLower(b)
	return strings.HasPrefix(a, b+".") || strings.HasPrefix(b, a+".")
}

// Interface looks an interface up, whatever the case of its name; nil if there is none.
func (n *Node) Interface(name string) *Interface {
	if i := slices.IndexFunc(n.Interfaces, func(i Interface) bool { return strings.EqualFold(i.Name, name) }); i >= 0 {
		return &n.Interfaces[i]
	}
	return nil
}

// Interface is a network interface of a node.
type Interface struct {
	Name string
	// Address is an IP address, from LINSTOR in its canonical form. LINSTOR takes no host names.
	Address string
	// Port of the satellite at this address; 0: not for the satellite's connection.
	Port int32
	// TLS reports whether the controller is to connect to that port with TLS. It is what is recorded: a controller
	// without a key store speaks plain all the same (run with linstor-server 1.34.0-rc.1).
	TLS bool
	// Active reports whether the satellite's connection uses this interface. LINSTOR changes it by itself when it cannot
	// connect.
	Active bool
}

// CanonicalAddress returns an IP address in its usual form (LINSTOR answers IPv6 in upper case), anything else
// unchanged.
func CanonicalAddress(address string) string {
	if ip, err := netip.ParseAddr(address); err == nil {
		return ip.Unmap().String()
	}
	return address
}

// SameAddress reports whether two addresses are the same IP address, however they are written.
func SameAddress(a, b string) bool { return CanonicalAddress(a) == CanonicalAddress(b) }

// Pool is a storage pool on a node.
type Pool struct {
	Name, Node string // as they were created
	// Provider is LINSTOR's kind: "LVM_THIN".
	Provider string
	// Backing is the storage behind it (StorDriver/StorPoolName): "vg", "vg/thin", "zpool", "/directory".
	Backing    string
	Properties map[string]string
	// SupportsSnapshots reports whether volumes in it can have snapshots, which depends on the provider alone.
	SupportsSnapshots bool
	// FreeKiB and TotalKiB are nil while unknown: the node is not ONLINE, or its satellite cannot measure it.
	FreeKiB, TotalKiB *int64
	// NotConnected is true if LINSTOR had no connection to the node's satellite when it was asked for the pool (warning
	// WARN_NOT_CONNECTED): nothing is known of its storage then, whatever the list of nodes said a moment before.
	NotConnected bool
	// Errors are what the satellite reports. LINSTOR reports none for thick pools: there, an unknown capacity on an
	// ONLINE node is the only sign.
	Errors []string
}

// Unseen reports whether nothing is known of the pool's storage since its satellite is away. A warning that says so
// beside a capacity is of an earlier time.
func (p *Pool) Unseen() bool { return p.NotConnected && p.TotalKiB == nil }

// Device is an empty device: no signature, no partition, larger than 1 GiB.
type Device struct {
	Path               string // "/dev/sdb"; may name another disk after a reboot
	Model, Serial, WWN string
	SizeBytes          int64
	Rotational         bool
}

// SortDevices sorts devices by their paths.
func SortDevices(devices []Device) {
	slices.SortFunc(devices, func(a, b Device) int { return strings.Compare(a.Path, b.Path) })
}

// Resource is one copy of a volume on a node, or a diskless client of it (LINSTOR's "resource").
type Resource struct {
	// Name is the resource definition's, Node the node's, as they were created.
	Name, Node string
	Flags      []string
	// Diskful reports whether it holds data: neither a client nor a tie-breaker.
	Diskful bool
	// Local reports whether none of its layers is DRBD (layerList: storage): LINSTOR cannot move such a copy, and reports
	// no state for it (run with LINSTOR 1.33.3). It must never be compared with UpToDate.
	Local bool
	// InUse reports whether a device is opened (DRBD's role Primary); nil while the satellite does not report it.
	InUse *bool
	// States are DRBD's disk states (DiskState), one for each volume; "" while the satellite does not report it. LINSTOR
	// leaves out resources without volumes.
	States []string
	// Pools are the storage pools of the volumes, in the order of States.
	Pools []string
	// Connected reports for each peer's node name whether this side of DRBD's connection is up; nil while not known.
	Connected map[string]bool
	// StandAlone are the peers to which DRBD on this side does not try to connect any more, sorted: after a split brain,
	// for example.
	StandAlone []string
	// PromotionScore is DRBD's measure of how good a Primary the resource would be: 10101 and above with all data at
	// hand, 0 where DRBD refuses I/O. Nil while not known. A Primary whose I/O is suspended because it has lost the
	// quorum is UpToDate and in use for LINSTOR: this number alone shows it (DRBD 9.3.3 with LINSTOR 1.33.3).
	PromotionScore *int
	// SkipsDisk reports whether LINSTOR keeps DRBD away from the disk (property DrbdOptions/SkipDisk), which it does by
	// itself after an I/O error. The property stays when the disk is repaired.
	SkipsDisk bool
}

// PropSkipDisk is the property of a resource that keeps DRBD away from its disk.
const PropSkipDisk = "DrbdOptions/SkipDisk"

// ConnectedTo reports whether this side of the connection to a node is up, and whether that is known.
func (r *Resource) ConnectedTo(node string) (up, known bool) {
	for peer, connected := range r.Connected {
		if strings.EqualFold(peer, node) {
			return connected, true
		}
	}
	return false, false
}

// Refuses reports whether DRBD on this side does not try to connect to a node any more.
func (r *Resource) Refuses(node string) bool { return listed(r.StandAlone, node) }

// Unusable reports whether DRBD is known to refuse I/O to the resource: it has no quorum, or no access to good data.
func (r *Resource) Unusable() bool { return r.PromotionScore != nil && *r.PromotionScore == 0 }

// HasFlag reports whether the resource has the flag.
func (r *Resource) HasFlag(f string) bool { return listed(r.Flags, f) }

// UpToDate reports whether the copy is known to hold all data of all its volumes.
func (r *Resource) UpToDate() bool {
	behind := func(state string) bool { return state != "UpToDate" } // DRBD's disk state of a copy that has all data
	return r.Diskful && len(r.States) > 0 && !slices.ContainsFunc(r.States, behind)
}

// Snapshot is a snapshot of a volume. LINSTOR does not report whether it is still there on a node's disks.
type Snapshot struct {
	// Name is "volume/snapshot".
	Name string
	// Nodes hold it. Deleting are those of them whose satellites have still to delete it.
	Nodes, Deleting []string
}

// On reports whether a node holds the snapshot, whatever the case of its name.
func (s *Snapshot) On(node string) bool { return listed(s.Nodes, node) }

// DeletedOn reports whether somebody has deleted the snapshot on a node, whose satellite has still to do so.
func (s *Snapshot) DeletedOn(node string) bool { return listed(s.Deleting, node) }

// KnowsSnapshots reports whether it is known which snapshots are on a node.
func (v *View) KnowsSnapshots(node string) bool { return listed(v.SnapshotsOn, node) }

// SnapshotsOf names the snapshots that are on a node, as far as that is known.
func (v *View) SnapshotsOf(node string) []string { return SnapshotNames(v.Snapshots, node) }

// SnapshotNames are the names of those snapshots that are on a node.
func SnapshotNames(all []Snapshot, node string) []string {
	var names []string
	for i := range all {
		if all[i].On(node) {
			names = append(names, all[i].Name)
		}
	}
	return names
}
