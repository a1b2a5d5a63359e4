package cluster

import (
	"time"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
)

// MemberPool is a storage pool that a member shall have.
type MemberPool struct {
	Entry                   *v1alpha1.StoragePoolSpec
	Name, Provider, Backing string
	// Have is the pool in LINSTOR; nil if it is not there.
	Have *linstor.Pool
	// Ready is true if it is there without trouble.
	Ready bool
	// NotWanted: optional devices are absent or not approved yet, or a human said skip.
	NotWanted bool
	Skipped   bool
	// Made is what the operator made it from; nil if it did not.
	Made    *MadeFrom
	Problem *Problem
	Step    PoolStep
	Devices []linstor.Device
	// Spare are the empty disks that a human is asked about.
	Spare  []linstor.Device
	Change linstor.Change
}

// PoolStep is what is to be done for a pool.
type PoolStep string

// Pool is what the member shall have of an entry; nil if nothing.
func (m *Member) Pool(entry string) *MemberPool {
	for _, p := range m.Pools {
		if p.Entry.Name == entry {
			return p
		}
	}
	return nil
}

// MadeFrom is what the operator made a pool from on one node.
type MadeFrom struct {
	At    time.Time  `json:"at"`
	Count int        `json:"count"`
	Disks []MadeDisk `json:"disks"`
}

// MadeDisk is one disk of a pool, by the path that it had then.
type MadeDisk struct {
	Path   string `json:"path"`
	Serial string `json:"serial,omitempty"`
	WWN    string `json:"wwn,omitempty"`
	Size   int64  `json:"size"`
}

// Disk is a disk as the satellite's inventory saw it when its pod started (pkg/resources/inventory/inventory.sh). It
// shows a disk that is not empty, where LINSTOR shows none, and one that LINSTOR wrongly lists as empty. It is never
// consent to use a disk: LINSTOR's own list, looked up at that moment, must say the same.
type Disk struct {
	linstor.Device
	// Signature is what is on the disk: a file system, an LVM or ZFS label, a partition table; "" if nothing.
	Signature string
	// Seen is true if the disk could be read and looked at. One that could not may carry anything.
	Seen bool
	// Udev is true if udev knows what is on the disk, so that LINSTOR's list can be believed.
	Udev bool
	// Held is what used the disk: a device on top of it, or a mount; "" if nothing.
	Held string
	// Groups are the volume groups and zpools on the disk and its partitions; "?" stands for one without a known name.
	Groups []string
}

// Disks are all that an inventory says.
type Disks struct {
	List []Disk
	// Count is how many disks there were: the list is cut off where the inventory had no room for all of them.
	Count int
	// Known is true if there is an inventory, and one that looked at the disks themselves.
	Known bool
	// Udev is true if udev knew all of the node's disks, and will know one that the list lacks.
	Udev bool
	// Groups and Zpools are the names of all of them on the node; "?" is in it if some could not be found out.
	Groups, Zpools []string
}
