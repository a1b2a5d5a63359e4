// Package linstor is what the operator knows of LINSTOR: what it does with a controller ([API]), what it sees of one
// ([View]), and what an error of LINSTOR's means ([IsNotFound], [IsExists], [IsTransient], [IsUnreachable]).
//
// Package restclient is the implementation.
package linstor

import "context"

// API is everything the operator does with LINSTOR.
type API interface {
	Reader
	Writer
}

// Reader looks at LINSTOR. Every method queries the controller; nothing is cached here.
type Reader interface {
	// View is one bulk look, with a constant number of requests, in parallel. A part that failed fails the view, except
	// for the devices (View.DevicesErr): one satellite with a hanging disk must not hide the cluster.
	View(ctx context.Context, want ViewOptions) (*View, error)
	// Node returns one node, without pools and devices. IsNotFound: it does not exist.
	Node(ctx context.Context, name string) (*Node, error)
	// Pool returns one pool, with the capacity and the errors that the satellite reports now. IsNotFound: the
	// pool or its node does not exist.
	Pool(ctx context.Context, node, pool string) (*Pool, error)
	// Devices returns the empty devices of one node, as its satellite sees them now. It fails when the node is not
	// ONLINE.
	Devices(ctx context.Context, node string) ([]Device, error)
	// Resources returns the copies of volumes that the query selects, as the satellites report them now. IsNotFound:
	// LINSTOR does not know one of the nodes. A copy whose satellite is not connected has unknown states.
	Resources(ctx context.Context, q ResourceQuery) ([]Resource, error)
	// Snapshots returns the snapshots that one of the nodes holds, each with all nodes that hold it.
	Snapshots(ctx context.Context, nodes ...string) ([]Snapshot, error)
	// Passphrase returns the state of the master passphrase: PassphraseUnset, PassphraseLocked or PassphraseUnlocked.
	Passphrase(ctx context.Context) (string, error)
}

// States of the master passphrase.
const (
	PassphraseUnset    = "unset"
	PassphraseLocked   = "locked" // after every start, until it is entered
	PassphraseUnlocked = "unlocked"
)

// Writer changes LINSTOR. A nil error means that LINSTOR accepted the change, not that it is in effect: a satellite
// that is not connected gets it later, an evicted node ignores it. The next look decides. Deletions of what does not
// exist succeed.
type Writer interface {
	// SetProperties changes properties of the controller, all or none. As with the other two methods for properties, a
	// *NotKeptError says that LINSTOR accepted all and does not have some right afterwards.
	SetProperties(ctx context.Context, set map[string]string, del []string) error
	// CreateNode registers a satellite and waits for its full sync if it is reachable. IsExists: the name is taken.
	CreateNode(ctx context.Context, spec NodeSpec) error
	// SetNodeProperties changes properties of a node, all or none.
	SetNodeProperties(ctx context.Context, node string, set map[string]string, del []string) error
	// CreateInterface adds an interface. Active closes the satellite's connection and opens it on this interface.
	CreateInterface(ctx context.Context, node string, i Interface) error
	// ModifyInterface changes an interface. Port 0 leaves port and encryption as they are, and LINSTOR then connects
	// again at once when the address of the active interface changes. Active reconnects even if nothing changed.
	ModifyInterface(ctx context.Context, node string, i Interface) error
	// DeleteInterface removes an interface.
	DeleteInterface(ctx context.Context, node, name string) error
	// Reconnect closes the satellite's connection and opens it again: the way out of FULL_SYNC_FAILED,
	// AUTHENTICATION_ERROR and OTHER_CONTROLLER.
	Reconnect(ctx context.Context, node string) error
	// EvacuateNode makes LINSTOR rebuild the node's copies elsewhere and then delete them, in the background: the node
	// keeps FlagEvacuate until it is deleted or restored. It is not idempotent: a repeated call makes more copies. What
	// cannot be evacuated (no place, not DRBD) stays, with a warning only. Offline nodes are not refused.
	EvacuateNode(ctx context.Context, node string) error
	// EvictNode makes LINSTOR place new copies for those of an offline node, and not connect to it any more: the node has
	// FlagEvicted until it is restored or declared lost. Its copies stay. CodeInUse: it is ONLINE.
	EvictNode(ctx context.Context, node string) error
	// RestoreNode takes back an evacuation or an eviction, and connects an evicted node again. Copies stay. It fails for
	// a node that is neither evacuated nor evicted.
	RestoreNode(ctx context.Context, node string) error
	// LoseNode forgets a node with all its copies, snapshots and pools, whatever is on it: also the last copy of a
	// volume. CodeStillConnected: it is connected and must be deleted instead.
	LoseNode(ctx context.Context, node string) error
	// DeleteNode removes a node with its pools, copies and snapshots; the backing storage stays. LINSTOR refuses while
	// resources are in use (CodeInUse), but not while the node holds the only copy of unused data, nor while it is
	// OFFLINE. Although nil is returned, an evicted node stays, and one that held snapshots and no copies stays with
	// FlagDelete until it is deleted again.
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
	// Devices fetches the empty devices of all satellites. It takes as long as the slowest satellite.
	Devices bool
	// Resources lists all copies of all volumes, and their place counts. The answers grow with the number of volumes.
	Resources bool
	// Volumes are names of volumes that are looked for, a few at most.
	Volumes []string
	// Groups are names of resource groups that are looked for.
	Groups []string
}

// ResourceQuery selects resources: those on one of Nodes whose definition is one of Names. Empty means all.
type ResourceQuery struct {
	Nodes, Names []string
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
