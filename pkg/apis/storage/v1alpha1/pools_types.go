package v1alpha1

import "k8s.io/apimachinery/pkg/api/resource"

// StoragePoolSpec is a LINSTOR storage pool on each node that matches. Exactly one of lvm, lvmThin, zfs, zfsThin, file and
// fileThin names what the pool is made of; it cannot be changed, because volumes live in it.
type StoragePoolSpec struct {
	// name is this entry's key.
	Name string `json:"name"`

	// pool is the pool's name in LINSTOR. Default: the entry's name. Several entries may make the same pool on different
	// nodes; two that would make it on one node are refused with a hold.
	// +optional
	Pool string `json:"pool,omitempty"`

	// nodeSelector picks the members that have this pool. Default: all.
	// +optional
	// +mapType=atomic
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`

	// lvm keeps thick logical volumes in a volume group. No snapshots.
	// +optional
	LVM *LVMPool `json:"lvm,omitempty"`
	// lvmThin keeps thin logical volumes in a thin pool.
	// +optional
	LVMThin *LVMThinPool `json:"lvmThin,omitempty"`
	// zfs keeps thick volumes in a zpool or one of its datasets.
	// +optional
	ZFS *ZFSPool `json:"zfs,omitempty"`
	// zfsThin keeps thin volumes in a zpool or one of its datasets.
	// +optional
	ZFSThin *ZFSPool `json:"zfsThin,omitempty"`
	// file keeps volumes as files in a directory.
	// +optional
	File *FilePool `json:"file,omitempty"`
	// fileThin keeps volumes as sparse files in a directory.
	// +optional
	FileThin *FilePool `json:"fileThin,omitempty"`

	// devices are empty disks that the operator makes the volume group or zpool from. Default: it exists already. Not for
	// file and fileThin.
	// +optional
	Devices *DevicesSpec `json:"devices,omitempty"`

	// properties are LINSTOR properties of the pool on every node, such as "PrefNic": "storage".
	// +optional
	// +mapType=granular
	Properties map[string]string `json:"properties,omitempty"`
}

// LVMPool is a volume group.
type LVMPool struct {
	// volumeGroup is the volume group's name.
	VolumeGroup string `json:"volumeGroup"`
}

// LVMThinPool is a thin pool in a volume group.
type LVMThinPool struct {
	// volumeGroup is the volume group's name.
	VolumeGroup string `json:"volumeGroup"`
	// thinPool is the thin pool's name.
	ThinPool string `json:"thinPool"`
}

// ZFSPool is a zpool, or a dataset in one.
type ZFSPool struct {
	// zpool is the zpool's name, or a dataset's path such as "tank/linstor".
	ZPool string `json:"zpool"`
}

// FilePool is a directory.
type FilePool struct {
	// directory is an absolute path. LINSTOR creates it if its parent exists.
	Directory string `json:"directory"`
}

// DevicesSpec picks empty disks.
type DevicesSpec struct {
	// match lists what disks may be used; a disk is used when one entry matches it. Kernel names such as /dev/sdb change
	// at reboot, so disks are told apart by serial number or WWN.
	// +listType=atomic
	Match []DeviceMatch `json:"match"`
	// optional: nodes without any matching disk are fine and have no such pool. Default: false.
	// +optional
	Optional bool `json:"optional,omitempty"`
}

// DeviceMatch describes disks. A disk matches when every field that is set matches.
type DeviceMatch struct {
	// serial is the disk's serial number; * stands for any characters.
	// +optional
	Serial string `json:"serial,omitempty"`
	// wwn is the disk's World Wide Name; * stands for any characters.
	// +optional
	WWN string `json:"wwn,omitempty"`
	// model is the disk's model; * stands for any characters.
	// +optional
	Model string `json:"model,omitempty"`
	// minSize is the smallest size, such as 400Gi.
	// +optional
	MinSize *resource.Quantity `json:"minSize,omitempty"`
	// maxSize is the largest size, such as 2Ti.
	// +optional
	MaxSize *resource.Quantity `json:"maxSize,omitempty"`
	// rotational is true for spinning disks only, false for others only.
	// +optional
	Rotational *bool `json:"rotational,omitempty"`
	// path is an exact device path such as /dev/sdb. It is the only way to use a disk without serial number and WWN, and
	// it may name another disk after a reboot.
	// +optional
	Path string `json:"path,omitempty"`
}

// LinstorName is the pool's name in LINSTOR.
func (p *StoragePoolSpec) LinstorName() string {
	if p.Pool != "" {
		return p.Pool
	}
	return p.Name
}

// Provider is LINSTOR's provider kind for the pool: LVM, LVM_THIN, ZFS, ZFS_THIN, FILE or FILE_THIN; "" if none is given.
func (p *StoragePoolSpec) Provider() string {
	kind, _ := p.Backing()
	return kind
}

// Backing is LINSTOR's provider kind and the value of its property StorDriver/StorPoolName.
func (p *StoragePoolSpec) Backing() (kind, name string) {
	switch {
	case p.LVM != nil:
		return "LVM", p.LVM.VolumeGroup
	case p.LVMThin != nil:
		return "LVM_THIN", p.LVMThin.VolumeGroup + "/" + p.LVMThin.ThinPool
	case p.ZFS != nil:
		return "ZFS", p.ZFS.ZPool
	case p.ZFSThin != nil:
		return "ZFS_THIN", p.ZFSThin.ZPool
	case p.File != nil:
		return "FILE", p.File.Directory
	case p.FileThin != nil:
		return "FILE_THIN", p.FileThin.Directory
	default:
		return "", ""
	}
}
