package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/nodespec"
)

// StoragePoolSpec is a LINSTOR storage pool on each node that matches. Exactly one of lvm, lvmThin, zfs, zfsThin, file and
// fileThin names what the pool is made of; it cannot be changed, because volumes live in it.
//
// +kubebuilder:validation:XValidation:rule="[has(self.lvm), has(self.lvmThin), has(self.zfs), has(self.zfsThin), has(self.file), has(self.fileThin)].filter(x, x).size() == 1",message="a storage pool takes exactly one of lvm, lvmThin, zfs, zfsThin, file and fileThin"
// +kubebuilder:validation:XValidation:rule="has(self.lvm) == has(oldSelf.lvm) && has(self.lvmThin) == has(oldSelf.lvmThin) && has(self.zfs) == has(oldSelf.zfs) && has(self.zfsThin) == has(oldSelf.zfsThin) && has(self.file) == has(oldSelf.file) && has(self.fileThin) == has(oldSelf.fileThin)",message="the provider of a storage pool (lvm, lvmThin, zfs, zfsThin, file, fileThin) cannot be changed, because volumes live in it: add an entry with another name instead",reason=FieldValueForbidden
// +kubebuilder:validation:XValidation:rule="(has(self.pool) ? self.pool : self.name) == (has(oldSelf.pool) ? oldSelf.pool : oldSelf.name)",message="pool cannot be changed, because LINSTOR cannot rename a storage pool: add an entry with another name instead",reason=FieldValueForbidden,fieldPath=.pool
// +kubebuilder:validation:XValidation:rule="!has(self.devices) || !(has(self.file) || has(self.fileThin))",message="devices: file and fileThin keep volumes in a directory and take no devices: remove devices, or use lvm, lvmThin, zfs or zfsThin",fieldPath=.devices
// +kubebuilder:validation:XValidation:rule="!has(self.devices) || !((has(self.zfs) && self.zfs.zpool.contains('/')) || (has(self.zfsThin) && self.zfsThin.zpool.contains('/')))",message="devices: a zpool is made from devices, a dataset is not: give zpool without '/', or make the dataset yourself and remove devices",fieldPath=.devices
type StoragePoolSpec struct {
	// name is this entry's key, and the pool's name in LINSTOR unless pool is given. 3 to 48 characters by LINSTOR's rules.
	// No default. Example: ssd.
	Name PoolName `json:"name"`
	// pool is the pool's name in LINSTOR. Several entries may make the same pool on different nodes; two that would make it
	// on one node are refused with a hold. Default: the entry's name. Example: fast.
	// +optional
	Pool PoolName `json:"pool,omitempty"`
	// nodeSelector picks the members that have this pool, by their labels. Up to 20 labels. Default: all members.
	// Example: {"disk": "ssd"}.
	// +optional
	// +mapType=atomic
	// +kubebuilder:validation:MaxProperties=20
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.size() > 0 && k.size() <= 317 && self[k].size() <= 63)",message="nodeSelector: a label's key has 1 to 317 characters, its value at most 63"
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
	// nodeAffinity picks them by expressions on their labels as well: one of its terms must be true. Default: all members.
	// Example: {nodeSelectorTerms: [{matchExpressions: [{key: disk, operator: In, values: [ssd, nvme]}]}]}.
	// +optional
	NodeAffinity *nodespec.NodeAffinity `json:"nodeAffinity,omitempty"`
	// lvm keeps thick logical volumes in a volume group. LINSTOR takes snapshots of them from 1.35 on only. Default: not used.
	// Example: {volumeGroup: vg_hdd}.
	// +optional
	LVM *LVMPool `json:"lvm,omitempty"`
	// lvmThin keeps thin logical volumes in a thin pool. Default: not used.
	// Example: {volumeGroup: vg_ssd, thinPool: thin}.
	// +optional
	LVMThin *LVMThinPool `json:"lvmThin,omitempty"`
	// zfs keeps thick volumes in a zpool or one of its datasets. Default: not used. Example: {zpool: tank}.
	// +optional
	ZFS *ZFSPool `json:"zfs,omitempty"`
	// zfsThin keeps thin volumes in a zpool or one of its datasets. Default: not used. Example: {zpool: tank/linstor}.
	// +optional
	ZFSThin *ZFSPool `json:"zfsThin,omitempty"`
	// file keeps volumes as files in a directory. Default: not used. Example: {directory: /var/lib/linstor-pools/a}.
	// +optional
	File *FilePool `json:"file,omitempty"`
	// fileThin keeps volumes as sparse files in a directory. Default: not used.
	// Example: {directory: /var/lib/linstor-pools/a}.
	// +optional
	FileThin *FilePool `json:"fileThin,omitempty"`
	// devices are empty disks that the operator makes the volume group or zpool from. Not for file and fileThin.
	// Default: the volume group or zpool exists already. Example: {match: [{serial: "S4EV*", minSize: 400Gi}]}.
	// +optional
	Devices *DevicesSpec `json:"devices,omitempty"`
	// warnUsedPercent is how full the pool may be on a node, in per cent from 1 to 100, before the condition PoolsNearlyFull tells
	// about it. A thin pool that runs full makes its volumes fail. Default: 85. Example: 70.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	WarnUsedPercent int32 `json:"warnUsedPercent,omitempty"`
	// properties are LINSTOR properties of the pool on every node. Up to 64, keys up to 256 characters. Default: none.
	// Example: {"PrefNic": "storage"}.
	// +optional
	// +mapType=granular
	// +kubebuilder:validation:MaxProperties=64
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.size() > 0 && k.size() <= 256 && self[k].size() <= 4096)",message="properties: a key must have 1 to 256 characters, a value at most 4096: LINSTOR stores no longer ones"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.startsWith('Aux/storage.linstor.dev/'))",message="properties: keys under Aux/storage.linstor.dev/ are the operator's own notes: choose another key",reason=FieldValueForbidden
	// +kubebuilder:validation:XValidation:rule="self.all(k, !(k in ['StorDriver/StorPoolName', 'StorDriver/LvmVg', 'StorDriver/ThinPool', 'StorDriver/ZPool', 'StorDriver/ZPoolThin', 'StorDriver/FileDir']) && !k.startsWith('StorDriver/internal/'))",message="properties: StorDriver/StorPoolName and its older forms follow lvm, lvmThin, zfs, zfsThin, file or fileThin, and StorDriver/internal/ is LINSTOR's own: remove the key",reason=FieldValueForbidden
	Properties map[string]string `json:"properties,omitempty"`
}

// LVMPool is a volume group.
type LVMPool struct {
	// volumeGroup is the volume group's name. It cannot be changed. No default. Example: vg_hdd.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="volumeGroup cannot be changed, because volumes live in it: add an entry with another name instead",reason=FieldValueForbidden
	VolumeGroup VolumeGroupName `json:"volumeGroup"`
}

// LVMThinPool is a thin pool in a volume group.
type LVMThinPool struct {
	// volumeGroup is the volume group's name. It cannot be changed. No default. Example: vg_ssd.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="volumeGroup cannot be changed, because volumes live in it: add an entry with another name instead",reason=FieldValueForbidden
	VolumeGroup VolumeGroupName `json:"volumeGroup"`
	// thinPool is the thin pool's name. It cannot be changed. No default. Example: thin.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="thinPool cannot be changed, because volumes live in it: add an entry with another name instead",reason=FieldValueForbidden
	ThinPool VolumeGroupName `json:"thinPool"`
}

// ZFSPool is a zpool, or a dataset in one.
type ZFSPool struct {
	// zpool is the zpool's name, or a dataset's path. LINSTOR accepts letters, digits, '_', '-' and '/'. It cannot be changed.
	// No default. Example: tank/linstor.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=200
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z][A-Za-z0-9_-]*(/[A-Za-z0-9_-]+)*$')",message="zpool must be a zpool or a dataset's path of letters, digits, '_', '-' and '/', beginning with a letter, such as tank or tank/linstor: LINSTOR accepts no other characters"
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="zpool cannot be changed, because volumes live in it: add an entry with another name instead",reason=FieldValueForbidden
	ZPool string `json:"zpool"`
}

// FilePool is a directory.
type FilePool struct {
	// directory is an absolute path on the node, of letters, digits, '_', '-' and '/'. LINSTOR creates it if its parent
	// exists. It cannot be changed. No default. Example: /var/lib/linstor-pools/a.
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:MaxLength=200
	// +kubebuilder:validation:XValidation:rule="self.matches('^(/[A-Za-z0-9_-]+)+$')",message="directory must be an absolute path of letters, digits, '_', '-' and '/', without '/' at the end, such as /var/lib/linstor-pools/a: LINSTOR accepts no other characters"
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="directory cannot be changed, because volumes live in it: add an entry with another name instead",reason=FieldValueForbidden
	Directory string `json:"directory"`
}

// DevicesSpec picks empty disks.
//
// +kubebuilder:validation:XValidation:rule="has(self.approval) || self.match.all(m, (has(m.path) && m.path.size() > 0) || (has(m.serial) && !m.serial.matches('^[*]*$')) || (has(m.wwn) && !m.wwn.matches('^[*]*$')) || (has(m.model) && !m.model.matches('^[*]*$')))",message="devices: an entry of match that names no serial, wwn, model or path other than * takes every empty disk of that size or kind, for good: set approval: Manual to see the disks before they are overwritten, or approval: Auto if it shall take them at once",fieldPath=.approval
type DevicesSpec struct {
	// match lists what disks may be used; a disk is used when one of up to 32 entries matches it. Kernel names such as
	// /dev/sdb change at reboot, so disks are told apart by serial number or WWN. No default.
	// Example: [{serial: "S4EV*", minSize: 400Gi}].
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	Match []DeviceMatch `json:"match"`
	// optional: nodes without any matching disk are fine and have no such pool. Default: false. Example: true.
	// +optional
	// +kubebuilder:default=false
	Optional bool `json:"optional,omitempty"`
	// approval says who decides that a disk that matches is used. Auto: the operator does, at once. Manual: the matching empty
	// disks are listed in a hold of their nodes, and nothing is written to them before that is answered with approve.
	// Default: Auto if every entry of match names disks by serial, wwn, model or path. Where one takes them by size or kind alone,
	// or by a pattern of nothing but *, there is no default, and this must be given. Example: Manual.
	// +optional
	Approval DeviceApproval `json:"approval,omitempty"`
}

// DeviceApproval says who decides that a disk that matches is used.
// +kubebuilder:validation:Enum=Auto;Manual
type DeviceApproval string

// Ways to approve disks.
const (
	// ApprovalAuto: uses empty disks that match at once.
	ApprovalAuto DeviceApproval = "Auto"
	// ApprovalManual: asks before a disk is used, and lists the disks.
	ApprovalManual DeviceApproval = "Manual"
)

// DeviceMatch describes disks. A disk matches when every field that is set matches.
// +kubebuilder:validation:XValidation:rule="has(self.serial) || has(self.wwn) || has(self.model) || has(self.minSize) || has(self.maxSize) || has(self.rotational) || has(self.path)",message="match: an entry must set at least one of serial, wwn, model, minSize, maxSize, rotational and path, or it would take every disk"
// +kubebuilder:validation:XValidation:rule="!has(self.minSize) || !has(self.maxSize) || [self.minSize, self.maxSize].exists(q, q.lowerAscii().contains('e') || !isQuantity(q)) || !quantity(self.minSize).isGreaterThan(quantity(self.maxSize))",message="match: minSize must not be larger than maxSize",fieldPath=.minSize
type DeviceMatch struct {
	// serial is the disk's serial number; * stands for any characters. Up to 128 characters. Default: any. Example: S4EV*.
	// +optional
	Serial DevicePattern `json:"serial,omitempty"`
	// wwn is the disk's World Wide Name; * stands for any characters. Up to 128 characters. Default: any.
	// Example: 0x5002538e40*.
	// +optional
	WWN DevicePattern `json:"wwn,omitempty"`
	// model is the disk's model; * stands for any characters. Up to 128 characters. Default: any. Example: Samsung SSD 8*.
	// +optional
	Model DevicePattern `json:"model,omitempty"`
	// minSize is the smallest size in bytes, as a Kubernetes quantity below 8Ei (a string; quote a plain number). Default: any.
	// Example: 400Gi.
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=24
	// +kubebuilder:validation:XValidation:rule="!self.lowerAscii().contains('e') && isQuantity(self) && quantity(self).isGreaterThan(quantity('0')) && quantity(self).isLessThan(quantity('8Ei'))",message="minSize must be a quantity larger than 0 and less than 8Ei, without exponent, such as 400Gi"
	MinSize *resource.Quantity `json:"minSize,omitempty"`
	// maxSize is the largest size in bytes, as a Kubernetes quantity below 8Ei (a string; quote a plain number). Default: any.
	// Example: 2Ti.
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=24
	// +kubebuilder:validation:XValidation:rule="!self.lowerAscii().contains('e') && isQuantity(self) && quantity(self).isGreaterThan(quantity('0')) && quantity(self).isLessThan(quantity('8Ei'))",message="maxSize must be a quantity larger than 0 and less than 8Ei, without exponent, such as 2Ti"
	MaxSize *resource.Quantity `json:"maxSize,omitempty"`
	// rotational is true for spinning disks only, false for others only. Default: both. Example: false.
	// +optional
	Rotational *bool `json:"rotational,omitempty"`
	// path is an exact device path of a whole disk, by its kernel name, as LINSTOR lists it. It is the only way to use a disk
	// without serial number and WWN, and it may name another disk after a reboot.
	// Default: any. Example: /dev/sdb.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self.matches('^/dev/[A-Za-z0-9_+@=:-][A-Za-z0-9_.+@=:/-]*$') && !self.contains('/.') && !self.contains('//')",message="path must be a device path, such as /dev/sdb"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^/dev/([svh]d[a-z]+[0-9]+|(nvme[0-9]+n|mmcblk|nbd|loop)[0-9]+p[0-9]+|mapper/.*|dm-[0-9]+|md[0-9/].*)$')",message="path: LINSTOR lists whole disks only, never a partition, device-mapper or MD device: create the volume group or zpool on it yourself, and leave devices out"
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('/dev/disk/')",message="path: LINSTOR lists disks by their kernel names, links below /dev/disk never match: use serial or wwn"
	Path string `json:"path,omitempty"`
}
