package linstor

import (
	"context"
	"slices"
	"strings"
	"time"
)

// API is everything the operator does with LINSTOR.
type API interface {
	Reader
	Writer
}

// Reader looks at LINSTOR. Every method asks the controller; nothing is cached here.
type Reader interface {
	// View is one bulk look, with a constant number of requests, in parallel. A part that failed fails the view, except
	// for the devices (View.DevicesErr): one satellite with a hanging disk must not hide the cluster.
	View(ctx context.Context, want ViewOptions) (*View, error)
	// Version returns the controller's version: "1.34.0".
	Version(ctx context.Context) (string, error)
	// Health is nil when the controller's services run and it reaches its database. With the Kubernetes database LINSTOR
	// does not look at the database.
	Health(ctx context.Context) error
	// Node returns one node, without pools and devices. IsNotFound tells that it does not exist.
	Node(ctx context.Context, name string) (*Node, error)
	// Pool returns one pool, with the capacity and the errors that the satellite reports now. IsNotFound tells that the
	// pool or its node does not exist.
	Pool(ctx context.Context, node, pool string) (*Pool, error)
	// Devices returns the empty devices of one node, as its satellite sees them now. It fails when the node is not ONLINE.
	Devices(ctx context.Context, node string) ([]Device, error)
	// Resources returns the copies of volumes that the query selects, as the satellites report them now. A copy whose
	// satellite is not connected has unknown states.
	Resources(ctx context.Context, q ResourceQuery) ([]Resource, error)
	// Snapshots returns the snapshots that a node holds, as "resource/snapshot".
	Snapshots(ctx context.Context, node string) ([]string, error)
	// Passphrase returns the state of the master passphrase: PassphraseUnset, PassphraseLocked or PassphraseUnlocked.
	Passphrase(ctx context.Context) (string, error)
}

// States of the master passphrase.
const (
	PassphraseUnset    = "unset"
	PassphraseLocked   = "locked" // after every start, until it is entered
	PassphraseUnlocked = "unlocked"
)

// Writer changes LINSTOR. A nil error means that LINSTOR accepted the change, not that it is in effect: a satellite that
// is not connected gets it later, an evicted node ignores it. The next look decides. Deletions of what does not exist
// succeed.
type Writer interface {
	// SetProperties changes properties of the controller, all or none.
	SetProperties(ctx context.Context, set map[string]string, del []string) error
	// CreateNode registers a satellite and waits for its full sync if it is reachable. IsExists: the name is taken.
	CreateNode(ctx context.Context, spec NodeSpec) error
	// SetNodeProperties changes properties of a node, all or none.
	SetNodeProperties(ctx context.Context, node string, set map[string]string, del []string) error
	// CreateInterface adds an interface. Active closes the satellite's connection and opens it on this interface.
	CreateInterface(ctx context.Context, node string, i Interface) error
	// ModifyInterface changes an interface. Port 0 leaves port and encryption as they are, and LINSTOR then connects again
	// at once when the address of the active interface changes. Active reconnects even if nothing changed.
	ModifyInterface(ctx context.Context, node string, i Interface) error
	// DeleteInterface removes an interface.
	DeleteInterface(ctx context.Context, node, name string) error
	// Reconnect closes the satellite's connection and opens it again: the way out of FULL_SYNC_FAILED,
	// AUTHENTICATION_ERROR and OTHER_CONTROLLER.
	Reconnect(ctx context.Context, node string) error
	// EvacuateNode makes LINSTOR rebuild the node's copies elsewhere and then delete them, in the background: the node keeps
	// FlagEvacuate until it is deleted or restored. It is not idempotent: a repeated call makes more copies. What cannot be
	// evacuated (no place, not DRBD) stays, with a warning only. Offline nodes are not refused.
	EvacuateNode(ctx context.Context, node string) error
	// EvictNode makes LINSTOR place new copies for those of an offline node, and not connect to it any more: the node has
	// FlagEvicted until it is restored or declared lost. Its copies stay. CodeInUse: it is ONLINE.
	EvictNode(ctx context.Context, node string) error
	// RestoreNode takes back an evacuation or an eviction, and connects an evicted node again. Copies stay. It fails for a
	// node that is neither evacuated nor evicted.
	RestoreNode(ctx context.Context, node string) error
	// LoseNode forgets a node with all its copies, snapshots and pools, whatever is on it: also the last copy of a volume.
	// CodeStillConnected: it is connected and must be deleted instead.
	LoseNode(ctx context.Context, node string) error
	// DeleteNode removes a node with its pools; the backing storage stays. LINSTOR refuses while resources are in use
	// (CodeInUse), but not while the node holds the only copy of unused data. An offline node with resources, and an
	// evicted node, stay although nil is returned.
	DeleteNode(ctx context.Context, node string) error
	// CreatePool registers a pool on existing backing storage. With CodePoolConfiguration the backing storage is missing
	// and the pool is registered nevertheless. CodeProviderUnsupported: nothing was registered, and the node may merely
	// not be ONLINE.
	CreatePool(ctx context.Context, spec PoolSpec) error
	// SetPoolProperties changes properties of a pool, all or none. On an offline node the change is stored and the answer
	// is a transient error.
	SetPoolProperties(ctx context.Context, node, pool string, set map[string]string, del []string) error
	// DeletePool deregisters a pool; the backing storage stays. CodeInUse: volumes or snapshots are in it.
	DeletePool(ctx context.Context, node, pool string) error
	// CreateDevices makes a volume group, thin pool or zpool from empty devices, and nothing else. It is not idempotent:
	// look at Devices and at Pool immediately before.
	CreateDevices(ctx context.Context, spec DeviceSpec) error
}

// ViewOptions selects what a View holds beside the basic lists.
type ViewOptions struct {
	// Devices asks all satellites for their empty devices. It takes as long as the slowest satellite.
	Devices bool
	// Resources lists all copies of all volumes. The answer grows with the number of volumes.
	Resources bool
}

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
	// Resources are all copies of volumes, if they were asked for; ResourcesKnown tells so.
	Resources      []Resource
	ResourcesKnown bool
	// DevicesErr is set when the devices were asked for and could not be told; no node's devices are known then.
	DevicesErr error
}

// Node looks a node up, whatever the case of its name; nil if there is none.
func (v *View) Node(name string) *Node { return v.Nodes[strings.ToLower(name)] }

// Pool looks a pool up, whatever the case of the names; nil if there is none.
func (v *View) Pool(node, pool string) *Pool {
	n := v.Node(node)
	if n == nil {
		return nil
	}
	return n.Pools[strings.ToLower(pool)]
}

// Connection states of a node that the operator tells apart (LINSTOR REST API, Node.connection_status). While it
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

// Flags of a node. An evicted node has both DELETE and EVICTED.
const (
	FlagDelete   = "DELETE"
	FlagEvicted  = "EVICTED"
	FlagEvacuate = "EVACUATE"
)

// TypeSatellite is the type of the nodes that the operator registers.
const TypeSatellite = "SATELLITE"

// Node is a LINSTOR node.
type Node struct {
	Name string // as it was created
	UUID string
	// Type and Status are LINSTOR's words, in upper case.
	Type, Status string
	Flags        []string
	Interfaces   []Interface
	Properties   map[string]string
	// Layers and Providers are what the satellite can do. A node that is not ONLINE reports almost none.
	Layers, Providers []string
	// Unsupported gives LINSTOR's reasons for each layer and provider that is missing.
	Unsupported map[string][]string
	// EvictionTime is when LINSTOR will evict the node, nil if it will not.
	EvictionTime *time.Time
	// Pools by lower-case name, without LINSTOR's own diskless pool. Nil from Reader.Node.
	Pools map[string]*Pool
	// Devices are the node's empty devices, if DevicesKnown.
	Devices      []Device
	DevicesKnown bool
}

// HasFlag tells whether the node has the flag.
func (n *Node) HasFlag(f string) bool { return hasFlag(n.Flags, f) }

func hasFlag(flags []string, f string) bool {
	return slices.ContainsFunc(flags, func(have string) bool { return strings.EqualFold(have, f) })
}

// Online tells whether the satellite is connected and has all of LINSTOR's state.
func (n *Node) Online() bool { return n.Status == StatusOnline }

// Interface looks an interface up, whatever the case of its name; nil if there is none.
func (n *Node) Interface(name string) *Interface {
	for i := range n.Interfaces {
		if strings.EqualFold(n.Interfaces[i].Name, name) {
			return &n.Interfaces[i]
		}
	}
	return nil
}

// Encryption of a satellite's connection.
const (
	EncryptionPlain = "PLAIN"
	EncryptionSSL   = "SSL"
)

// Interface is a network interface of a node.
type Interface struct {
	Name string
	// Address is an IP address, from LINSTOR in its canonical form. LINSTOR takes no host names.
	Address string
	// Port of the satellite at this address; 0: the interface is not for the satellite's connection.
	Port int32
	// Encryption is EncryptionPlain (the default if there is a port) or EncryptionSSL.
	Encryption string
	// Active tells that the satellite's connection uses this interface. LINSTOR changes it by itself when it cannot
	// connect.
	Active bool
}

// Pool is a storage pool on a node.
type Pool struct {
	Name, Node string // as they were created
	// Provider is LINSTOR's kind: "LVM_THIN".
	Provider string
	// Backing is the storage behind it (StorDriver/StorPoolName): "vg", "vg/thin", "zpool", "/directory".
	Backing    string
	Properties map[string]string
	// FreeKiB and TotalKiB are nil while unknown: the node is not ONLINE, or its satellite could not tell.
	FreeKiB, TotalKiB *int64
	// Errors are what the satellite reports. LINSTOR reports none for thick pools: there, an unknown capacity on an ONLINE
	// node is the only sign.
	Errors []string
}

// Device is an empty device: no signature, no partition, larger than 1 GiB.
type Device struct {
	Path               string // "/dev/sdb"; may name another disk after a reboot
	Model, Serial, WWN string
	SizeBytes          int64
	Rotational         bool
}

// NodeSpec is a satellite to register.
type NodeSpec struct {
	Name string
	// Interfaces needs at least one with a port. LINSTOR connects through the active one, or else the first with a port.
	Interfaces []Interface
	Properties map[string]string
}

// PoolSpec is a pool to register.
type PoolSpec struct {
	Node, Name string
	Provider   string // "LVM", "LVM_THIN", "ZFS", "ZFS_THIN", "FILE", "FILE_THIN"
	Backing    string // see Pool.Backing
	Properties map[string]string
}

// DeviceSpec is a volume group, thin pool or zpool to make.
type DeviceSpec struct {
	Node     string
	Provider string   // "LVM", "LVM_THIN", "ZFS", "ZFS_THIN"
	PoolName string   // "vg", "vg/thin", "zpool"
	Paths    []string // "/dev/sdb"
}
