package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/nodespec"
)

// StoragePoolSpec is a LINSTOR storage pool on each matching node. Exactly one of lvm, lvmThin, zfs, zfsThin, file and
// fileThin sets the pool's backing storage. It cannot be changed, because volumes are stored in it.
//
// +kubebuilder:validation:XValidation:rule="[has(self.lvm), has(self.lvmThin), has(self.zfs), has(self.zfsThin), has(self.file), has(self.fileThin)].filter(x, x).size() == 1",message="a storage pool must have exactly one of lvm, lvmThin, zfs, zfsThin, file and fileThin"
// +kubebuilder:validation:XValidation:rule="has(self.lvm) == has(oldSelf.lvm) && has(self.lvmThin) == has(oldSelf.lvmThin) && has(self.zfs) == has(oldSelf.zfs) && has(self.zfsThin) == has(oldSelf.zfsThin) && has(self.file) == has(oldSelf.file) && has(self.fileThin) == has(oldSelf.fileThin)",message="the provider of a storage pool (lvm, lvmThin, zfs, zfsThin, file, fileThin) cannot be changed, because volumes are stored in it: add an entry with another name instead",reason=FieldValueForbidden
// +kubebuilder:validation:XValidation:rule="(has(self.pool) ? self.pool : self.name) == (has(oldSelf.pool) ? oldSelf.pool : oldSelf.name)",message="pool cannot be changed, because LINSTOR cannot rename a storage pool: add an entry with another name instead",reason=FieldValueForbidden,fieldPath=.pool
// +kubebuilder:validation:XValidation:rule="!has(self.devices) || !(has(self.file) || has(self.fileThin))",message="devices: not supported with file and fileThin, which store volumes in a directory; remove devices, or use lvm, lvmThin, zfs or zfsThin",fieldPath=.devices
// +kubebuilder:validation:XValidation:rule="!has(self.devices) || !((has(self.zfs) && self.zfs.zpool.contains('/')) || (has(self.zfsThin) && self.zfsThin.zpool.contains('/')))",message="devices: the operator creates zpools from devices, but not datasets; set zpool to a name without '/', or create the dataset yourself and remove devices",fieldPath=.devices
type StoragePoolSpec struct {
	// name identifies this entry. It is also the LINSTOR pool name, unless pool is set. Must be a valid LINSTOR pool name
	// of 3 to 48 characters. Required, no default. Example: ssd.
	Name PoolName `json:"name"`
	// pool is the LINSTOR pool name. Several entries may create the same pool on different nodes. If two entries would
	// create it on the same node, a hold opens. Defaults to the entry's name. Example: fast.
	// +optional
	Pool PoolName `json:"pool,omitempty"`
	// nodeSelector is the labels of the members that have this pool. At most 20 labels. Defaults to all members.
	// Example: {"disk": "ssd"}.
	// +optional
	// +mapType=atomic
	// +kubebuilder:validation:MaxProperties=20
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.size() > 0 && k.size() <= 317 && self[k].size() <= 63)",message="nodeSelector: a label key must have 1 to 317 characters, and a value at most 63"
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
	// nodeAffinity further restricts these members by label expressions: a member must match at least one of the terms.
	// Defaults to no restriction.
	// Example: {nodeSelectorTerms: [{matchExpressions: [{key: disk, operator: In, values: [ssd, nvme]}]}]}.
	// +optional
	NodeAffinity *nodespec.NodeAffinity `json:"nodeAffinity,omitempty"`
	// lvm stores thick logical volumes in a volume group. Snapshots require LINSTOR 1.35 or newer. Not used by default.
	// Example: {volumeGroup: vg_hdd}.
	// +optional
	LVM *LVMPool `json:"lvm,omitempty"`
	// lvmThin stores thin logical volumes in a thin pool. Not used by default.
	// Example: {volumeGroup: vg_ssd, thinPool: thin}.
	// +optional
	LVMThin *LVMThinPool `json:"lvmThin,omitempty"`
	// zfs stores thick volumes in a zpool or a dataset. Not used by default. Example: {zpool: tank}.
	// +optional
	ZFS *ZFSPool `json:"zfs,omitempty"`
	// zfsThin stores thin volumes in a zpool or a dataset. Not used by default. Example: {zpool: tank/linstor}.
	// +optional
	ZFSThin *ZFSPool `json:"zfsThin,omitempty"`
	// file stores volumes as files in a directory. Not used by default. Example: {directory: /var/lib/linstor-pools/a}.
	// +optional
	File *FilePool `json:"file,omitempty"`
	// fileThin stores volumes as sparse files in a directory. Not used by default.
	// Example: {directory: /var/lib/linstor-pools/a}.
	// +optional
	FileThin *FilePool `json:"fileThin,omitempty"`
	// devices selects empty disks from which the operator creates the volume group or zpool. Not supported with file and
	// fileThin. By default, the volume group or zpool must already exist.
	// Example: {match: [{serial: "S4EV*", minSize: 400Gi}]}.
	// +optional
	Devices *DevicesSpec `json:"devices,omitempty"`
	// warnUsedPercent is the pool usage on a node, in percent (1 to 100), above which the PoolsNearlyFull condition
	// becomes True. If a thin pool is full, its volumes fail. Defaults to 85. Example: 70.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	WarnUsedPercent int32 `json:"warnUsedPercent,omitempty"`
	// properties are LINSTOR properties of the pool on each node. At most 64, with keys of up to 256 characters. Defaults
	// to none. Example: {"PrefNic": "storage"}.
	// +optional
	// +mapType=granular
	// +kubebuilder:validation:MaxProperties=64
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.size() > 0 && k.size() <= 256 && self[k].size() <= 4096)",message="properties: a key must have 1 to 256 characters, and a value at most 4096, because LINSTOR cannot store more"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.startsWith('Aux/storage.linstor.dev/'))",message="properties: keys under Aux/storage.linstor.dev/ are reserved for the operator; choose another key",reason=FieldValueForbidden
	// +kubebuilder:validation:XValidation:rule="self.all(k, !(k in ['StorDriver/StorPoolName', 'StorDriver/LvmVg', 'StorDriver/ThinPool', 'StorDriver/ZPool', 'StorDriver/ZPoolThin', 'StorDriver/FileDir']) && !k.startsWith('StorDriver/internal/'))",message="properties: the operator sets StorDriver/StorPoolName and its older forms from lvm, lvmThin, zfs, zfsThin, file or fileThin, and StorDriver/internal/ is reserved for LINSTOR; remove the key",reason=FieldValueForbidden
	Properties map[string]string `json:"properties,omitempty"`
}

// LVMPool is a volume group.
type LVMPool struct {
	// volumeGroup is the name of the volume group. It cannot be changed. Required, no default. Example: vg_hdd.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="volumeGroup cannot be changed, because volumes are stored in it: add an entry with another name instead",reason=FieldValueForbidden
	VolumeGroup VolumeGroupName `json:"volumeGroup"`
}

// LVMThinPool is a thin pool in a volume group.
type LVMThinPool struct {
	// volumeGroup is the name of the volume group. It cannot be changed. Required, no default. Example: vg_ssd.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="volumeGroup cannot be changed, because volumes are stored in it: add an entry with another name instead",reason=FieldValueForbidden
	VolumeGroup VolumeGroupName `json:"volumeGroup"`
	// thinPool is the name of the thin pool. It cannot be changed. Required, no default. Example: thin.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="thinPool cannot be changed, because volumes are stored in it: add an entry with another name instead",reason=FieldValueForbidden
	ThinPool VolumeGroupName `json:"thinPool"`
}

// ZFSPool is a zpool, or a dataset in a zpool.
type ZFSPool struct {
	// zpool is the name of the zpool, or the path of a dataset. LINSTOR accepts only letters, digits, '_', '-' and '/'.
	// It cannot be changed. Required, no default. Example: tank/linstor.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=200
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z][A-Za-z0-9_-]*(/[A-Za-z0-9_-]+)*$')",message="zpool must be the name of a zpool or the path of a dataset, starting with a letter, such as tank or tank/linstor: LINSTOR accepts only letters, digits, '_', '-' and '/'"
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="zpool cannot be changed, because volumes are stored in it: add an entry with another name instead",reason=FieldValueForbidden
	ZPool string `json:"zpool"`
}

// FilePool is a directory.
type FilePool struct {
	// directory is an absolute path on the node, consisting of letters, digits, '_', '-' and '/'. LINSTOR creates the
	// directory if its parent exists. It cannot be changed. Required, no default. Example: /var/lib/linstor-pools/a.
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:MaxLength=200
	// +kubebuilder:validation:XValidation:rule="self.matches('^(/[A-Za-z0-9_-]+)+$')",message="directory must be an absolute path without a trailing '/', such as /var/lib/linstor-pools/a: LINSTOR accepts only letters, digits, '_', '-' and '/'"
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="directory cannot be changed, because volumes are stored in it: add an entry with another name instead",reason=FieldValueForbidden
	Directory string `json:"directory"`
}

// DevicesSpec selects empty disks.
//
// +kubebuilder:validation:XValidation:rule="has(self.approval) || self.match.all(m, (has(m.path) && m.path.size() > 0) || (has(m.serial) && !m.serial.matches('^[*]*$')) || (has(m.wwn) && !m.wwn.matches('^[*]*$')) || (has(m.model) && !m.model.matches('^[*]*$')))",message="devices: a match entry without a serial, wwn, model or path other than * matches every empty disk of that size or kind, now and in the future; set approval: Manual to see the disks before they are overwritten, or approval: Auto to use them immediately",fieldPath=.approval
type DevicesSpec struct {
	// match selects the disks that may be used. A disk is used if at least one entry matches it. At most 32 entries.
	// Kernel names such as /dev/sdb can change on reboot, so disks are identified by serial number or WWN. Required, no
	// default. Example: [{serial: "S4EV*", minSize: 400Gi}].
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	Match []DeviceMatch `json:"match"`
	// optional is true if nodes may lack matching disks; such nodes do not get the pool. Defaults to false.
	// Example: true.
	// +optional
	// +kubebuilder:default=false
	Optional bool `json:"optional,omitempty"`
	// approval sets whether using matching disks requires your approval. With Auto, the operator uses matching empty
	// disks immediately. With Manual, a hold lists them, and nothing is written to them until you resume the hold with
	// approve. Defaults to Auto if every match entry names disks by serial, wwn, model or path. If an entry selects disks
	// only by size or kind, or by a pattern that consists only of *, approval has no default and must be set.
	// Example: Manual.
	// +optional
	Approval DeviceApproval `json:"approval,omitempty"`
}

// DeviceApproval sets whether using matching disks requires approval.
// +kubebuilder:validation:Enum=Auto;Manual
type DeviceApproval string

// Device approval modes.
const (
	// ApprovalAuto: the operator uses matching empty disks immediately.
	ApprovalAuto DeviceApproval = "Auto"
	// ApprovalManual: the operator lists the disks in a hold, and uses them only after approval.
	ApprovalManual DeviceApproval = "Manual"
)

// DeviceMatch selects disks. A disk matches if every field that is set matches.
// +kubebuilder:validation:XValidation:rule="has(self.serial) || has(self.wwn) || has(self.model) || has(self.minSize) || has(self.maxSize) || has(self.rotational) || has(self.path)",message="match: an entry must have at least one of serial, wwn, model, minSize, maxSize, rotational and path, or it would match every disk"
// +kubebuilder:validation:XValidation:rule="!has(self.minSize) || !has(self.maxSize) || [self.minSize, self.maxSize].exists(q, q.lowerAscii().contains('e') || !isQuantity(q)) || !quantity(self.minSize).isGreaterThan(quantity(self.maxSize))",message="match: minSize must not exceed maxSize",fieldPath=.minSize
type DeviceMatch struct {
	// serial is the serial number of the disk; * matches any characters. At most 128 characters. Defaults to any.
	// Example: S4EV*.
	// +optional
	Serial DevicePattern `json:"serial,omitempty"`
	// wwn is the World Wide Name of the disk; * matches any characters. At most 128 characters. Defaults to any.
	// Example: 0x5002538e40*.
	// +optional
	WWN DevicePattern `json:"wwn,omitempty"`
	// model is the model of the disk; * matches any characters. At most 128 characters. Defaults to any.
	// Example: Samsung SSD 8*.
	// +optional
	Model DevicePattern `json:"model,omitempty"`
	// minSize is the minimum size in bytes, as a Kubernetes quantity below 8Ei (a string; quote plain numbers). Defaults
	// to no minimum. Example: 400Gi.
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=24
	// +kubebuilder:validation:XValidation:rule="!self.lowerAscii().contains('e') && isQuantity(self) && quantity(self).isGreaterThan(quantity('0')) && quantity(self).isLessThan(quantity('8Ei'))",message="minSize must be a quantity greater than 0 and less than 8Ei, without an exponent, such as 400Gi"
	MinSize *resource.Quantity `json:"minSize,omitempty"`
	// maxSize is the maximum size in bytes, as a Kubernetes quantity below 8Ei (a string; quote plain numbers). Defaults
	// to no maximum. Example: 2Ti.
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=24
	// +kubebuilder:validation:XValidation:rule="!self.lowerAscii().contains('e') && isQuantity(self) && quantity(self).isGreaterThan(quantity('0')) && quantity(self).isLessThan(quantity('8Ei'))",message="maxSize must be a quantity greater than 0 and less than 8Ei, without an exponent, such as 2Ti"
	MaxSize *resource.Quantity `json:"maxSize,omitempty"`
	// rotational is true to match only spinning disks, and false to match only other disks. Defaults to both.
	// Example: false.
	// +optional
	Rotational *bool `json:"rotational,omitempty"`
	// path is the exact device path of a whole disk, with its kernel name, as listed by LINSTOR. It is the only way to
	// select a disk without a serial number and WWN, but may refer to a different disk after a reboot. Defaults to any
	// path. Example: /dev/sdb.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self.matches('^/dev/[A-Za-z0-9_+@=:-][A-Za-z0-9_.+@=:/-]*$') && !self.contains('/.') && !self.contains('//')",message="path must be a device path, such as /dev/sdb"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^/dev/([svh]d[a-z]+[0-9]+|(nvme[0-9]+n|mmcblk|nbd|loop)[0-9]+p[0-9]+|mapper/.*|dm-[0-9]+|md[0-9/].*)$')",message="path: LINSTOR lists only whole disks, not partitions, device-mapper or MD devices; create the volume group or zpool yourself, and remove devices"
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('/dev/disk/')",message="path: LINSTOR lists disks by their kernel names, so links under /dev/disk never match; use serial or wwn"
	Path string `json:"path,omitempty"`
}
