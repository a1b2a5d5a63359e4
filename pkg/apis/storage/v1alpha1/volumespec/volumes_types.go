// Package volumespec is the section spec.volumes of a StorageCluster: who runs LINSTOR's CSI driver, and the
// StorageClasses that the operator makes for it.
//
// +kubebuilder:object:generate=true
// +groupName=storage.linstor.dev
// +versionName=v1alpha1
package volumespec

import corev1 "k8s.io/api/core/v1"

// VolumesSpec says how pods get volumes from the pools.
//
// +kubebuilder:validation:XValidation:rule="!has(self.storageClasses) || self.storageClasses.size() == 0 || (has(self.driver) && has(self.driver.mode) && self.driver.mode == 'Managed')",message="storageClasses: the operator makes StorageClasses only for a driver that it runs: set volumes.driver.mode to Managed, or write StorageClass objects yourself",fieldPath=.storageClasses
type VolumesSpec struct {
	// driver is LINSTOR's CSI driver. Default: {mode: Managed}. Example: {mode: None}.
	// +optional
	// +kubebuilder:default={}
	Driver VolumeDriverSpec `json:"driver,omitzero"`
	// topologyKeys are keys of Node labels that say where a node is, up to 8. Their values become properties of the LINSTOR nodes
	// (Aux/topology/KEY), after which replicasOnSame and replicasOnDifferent place copies, and topology keys of the CSI driver. Each
	// member should have all of these labels; the status names one that lacks one. Default: none: the driver knows nodes by name only.
	// Example: [topology.kubernetes.io/zone].
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=200
	// +kubebuilder:validation:items:Pattern=`^([a-z0-9]([a-z0-9.-]*[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?$`
	// +kubebuilder:validation:XValidation:rule="!('linbit.com/hostname' in self)",message="topologyKeys: linbit.com/hostname is the driver's own key, which every node has: remove it"
	TopologyKeys []string `json:"topologyKeys,omitempty"`
	// storageClasses are the StorageClasses that the operator makes, up to 32. One that somebody else made is never changed. An
	// entry that is removed takes its StorageClass along once no PersistentVolume is of it. They need the driver's mode Managed.
	// Default: none. Example: [{name: replicated, storagePools: [ssd], replicas: 2, default: true}].
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:XValidation:rule="self.filter(c, has(c.default) && c.default).size() <= 1",message="storageClasses: only one of them can be the default: remove default from the others"
	StorageClasses []StorageClassSpec `json:"storageClasses,omitempty"`
	// snapshots says how volumes can be snapshotted. They need the driver's mode Managed; with mode None nothing comes of them.
	// Default: {mode: Auto}. Example: {className: nightly, deletionPolicy: Retain}.
	// +optional
	// +kubebuilder:default={}
	Snapshots VolumeSnapshotsSpec `json:"snapshots,omitzero"`
	// canary is Auto: before the cluster is Ready for the first time, a pod of the operator's writes to a small volume of the default
	// StorageClass, and of two more at most, and reads it back; so again when LINSTOR, its driver or such a StorageClass has changed,
	// and on request; or None: no volume is tried. Default: Auto. Example: None.
	// +optional
	// +kubebuilder:default=Auto
	Canary CanaryMode `json:"canary,omitempty"`
	// highAvailability is Auto: where volumes of the StorageClasses have quorum, the operator runs LINSTOR's high-availability
	// controller on all members, which takes pods off a node that lost its volumes, within seconds instead of minutes; or None: it does
	// not run. Volumes have quorum with 2 copies or more, DRBD, and 3 members or more, unless properties turn it off.
	// Default: Auto. Example: None.
	// +optional
	// +kubebuilder:default=Auto
	HighAvailability HighAvailabilityMode `json:"highAvailability,omitempty"`
	// drainGuard is Auto: a pod on each node keeps the eviction API from draining it while that would take the last healthy copy of a
	// volume, while another node is drained or down, or while a copy elsewhere is not up to date; or None: nodes are drained at any
	// time. Default: Auto. Example: None.
	// +optional
	// +kubebuilder:default=Auto
	DrainGuard DrainGuardMode `json:"drainGuard,omitempty"`
	// shutdownGuard is Auto: on hosts with systemd, satellites leave a unit that makes DRBD let go of suspended volumes when the host
	// shuts down, which could not end otherwise; or None: for hosts without systemd. Default: Auto. Example: None.
	// +optional
	// +kubebuilder:default=Auto
	ShutdownGuard ShutdownGuardMode `json:"shutdownGuard,omitempty"`
	// affinityController is Auto: where a StorageClass lets pods use volumes only where their copies are, the operator runs LINSTOR's
	// affinity controller, which follows copies that move by replacing PersistentVolumes; or None: after such a move, pods
	// wait for the nodes where the copies were. Its right to delete PersistentVolumes is large. Default: None. Example: Auto.
	// +optional
	// +kubebuilder:default=None
	AffinityController AffinityMode `json:"affinityController,omitempty"`
}

// HighAvailabilityMode says whether the operator runs LINSTOR's high-availability controller.
// +kubebuilder:validation:Enum=Auto;None
type HighAvailabilityMode string

// Modes of the high-availability controller.
const (
	// HighAvailabilityAuto: where volumes have quorum.
	HighAvailabilityAuto HighAvailabilityMode = "Auto"
	// HighAvailabilityNone: never.
	HighAvailabilityNone HighAvailabilityMode = "None"
)

// AffinityMode says whether the operator runs LINSTOR's affinity controller.
// +kubebuilder:validation:Enum=Auto;None
type AffinityMode string

// Modes of the affinity controller.
const (
	// AffinityAuto: where PersistentVolumes are bound to nodes.
	AffinityAuto AffinityMode = "Auto"
	// AffinityNone: never.
	AffinityNone AffinityMode = "None"
)

// VolumeDriverSpec says who runs LINSTOR's CSI driver, linstor.csi.linbit.com.
type VolumeDriverSpec struct {
	// mode is None: the operator runs no driver, and leaves one that somebody else runs alone; or Managed: the operator runs it on
	// all members. Its own driver is kept while PersistentVolumes of it exist. Default: Managed. Example: None.
	// +optional
	// +kubebuilder:default=Managed
	Mode VolumeDriverMode `json:"mode,omitempty"`
	// kubeletDirectory is the kubelet's root directory on the nodes (its flag --root-dir): with another one no node can use the
	// driver. An absolute path of up to 255 characters, without "..". Default: that of MicroK8s or k0s on such nodes, else
	// /var/lib/kubelet. Example: /data/kubelet.
	// +optional
	// +kubebuilder:validation:MaxLength=255
	// +kubebuilder:validation:XValidation:rule="self.size() == 0 || (self.matches('^(/[A-Za-z0-9_.@-]+)+$') && !self.matches('/[.][.]?(/|$)'))",message="kubeletDirectory must be an absolute path without '..' and without '/' at the end, such as /var/lib/kubelet"
	KubeletDirectory string `json:"kubeletDirectory,omitempty"`
}

// VolumeDriverMode says who runs LINSTOR's CSI driver.
// +kubebuilder:validation:Enum=None;Managed
type VolumeDriverMode string

// Modes of the volume driver.
const (
	// DriverNone: the operator runs no driver.
	DriverNone VolumeDriverMode = "None"
	// DriverManaged: the operator runs it.
	DriverManaged VolumeDriverMode = "Managed"
)

// VolumeSnapshotsSpec says how volumes of the driver can be snapshotted.
type VolumeSnapshotsSpec struct {
	// mode is Auto: where Kubernetes serves snapshot.storage.k8s.io/v1, the driver takes snapshots, and the operator makes one
	// VolumeSnapshotClass; or None: no new snapshots, and no VolumeSnapshotClass. What existing snapshots need stays as long as
	// there are any. Default: Auto. Example: None.
	// +optional
	// +kubebuilder:default=Auto
	Mode VolumeSnapshotsMode `json:"mode,omitempty"`
	// className is the name of the VolumeSnapshotClass: up to 63 lower-case letters, digits and '-'. One that somebody else made is
	// never changed. With another name the class of before goes once no snapshot is of it. Default: linstor-snapshots.
	// Example: nightly.
	// +optional
	// +kubebuilder:default=linstor-snapshots
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`
	ClassName string `json:"className,omitempty"`
	// default marks the class as the one for VolumeSnapshots that name none. It counts for volumes of this driver alone, and the class
	// is not marked as long as another class of the driver is. Default: true. Example: false.
	// +optional
	// +kubebuilder:default=true
	Default *bool `json:"default,omitempty"`
	// deletionPolicy says what becomes of a snapshot in LINSTOR whose VolumeSnapshot is deleted: Delete or Retain. It is about
	// snapshots that are taken from now on. Default: Delete. Example: Retain.
	// +optional
	// +kubebuilder:default=Delete
	DeletionPolicy SnapshotDeletionPolicy `json:"deletionPolicy,omitempty"`
}

// DefaultSnapshotClass is the name of the VolumeSnapshotClass unless the spec gives another one.
const DefaultSnapshotClass = "linstor-snapshots"

// VolumeSnapshotsMode says whether volumes can be snapshotted.
// +kubebuilder:validation:Enum=Auto;None
type VolumeSnapshotsMode string

// Modes of snapshots.
const (
	// SnapshotsAuto: where Kubernetes serves the snapshot API.
	SnapshotsAuto VolumeSnapshotsMode = "Auto"
	// SnapshotsNone: never.
	SnapshotsNone VolumeSnapshotsMode = "None"
)

// SnapshotDeletionPolicy says what becomes of a snapshot whose VolumeSnapshot is deleted.
// +kubebuilder:validation:Enum=Delete;Retain
type SnapshotDeletionPolicy string

// Deletion policies of snapshots.
const (
	// SnapshotsDelete: LINSTOR deletes it.
	SnapshotsDelete SnapshotDeletionPolicy = "Delete"
	// SnapshotsRetain: it stays in LINSTOR.
	SnapshotsRetain SnapshotDeletionPolicy = "Retain"
)

// StorageClassSpec is a StorageClass of LINSTOR's CSI driver. Kubernetes lets only default, allowVolumeExpansion and
// mountOptions of a StorageClass change. Parameters are those of linstor-csi 1.12 (pkg/volume/parameter.go).
//
// +kubebuilder:validation:XValidation:rule="(has(self.storagePools) ? self.storagePools : []) == (has(oldSelf.storagePools) ? oldSelf.storagePools : []) && (has(self.replicas) ? self.replicas : 2) == (has(oldSelf.replicas) ? oldSelf.replicas : 2) && (has(self.remoteAccess) ? self.remoteAccess : 'Anywhere') == (has(oldSelf.remoteAccess) ? oldSelf.remoteAccess : 'Anywhere') && (has(self.fsType) ? self.fsType : 'ext4') == (has(oldSelf.fsType) ? oldSelf.fsType : 'ext4') && (has(self.reclaimPolicy) ? self.reclaimPolicy : 'Delete') == (has(oldSelf.reclaimPolicy) ? oldSelf.reclaimPolicy : 'Delete') && (has(self.volumeBindingMode) ? self.volumeBindingMode : 'WaitForFirstConsumer') == (has(oldSelf.volumeBindingMode) ? oldSelf.volumeBindingMode : 'WaitForFirstConsumer') && (has(self.parameters) ? self.parameters : {}) == (has(oldSelf.parameters) ? oldSelf.parameters : {})",message="storagePools, replicas, remoteAccess, fsType, reclaimPolicy, volumeBindingMode and parameters of a StorageClass cannot be changed: add an entry with another name; or, while no volume is of the class, remove the entry, and add it again",reason=FieldValueForbidden
// +kubebuilder:validation:XValidation:rule="!has(self.parameters) || !('layerList' in self.parameters) || self.parameters['layerList'].startsWith('drbd') || (has(self.replicas) && self.replicas == 1 && has(self.remoteAccess) && self.remoteAccess == 'ReplicasOnly')",message="parameters: without drbd in layerList nobody keeps copies equal, and a pod elsewhere would get an empty volume: add drbd, or set replicas: 1 and remoteAccess: ReplicasOnly",fieldPath=.parameters
// +kubebuilder:validation:XValidation:rule="!has(self.parameters) || !('postMountXfsOpts' in self.parameters) || (has(self.fsType) && self.fsType == 'xfs')",message="parameters: postMountXfsOpts is for fsType xfs: set fsType to xfs, or remove it",fieldPath=.parameters
type StorageClassSpec struct {
	// name is the StorageClass's name, and that of its resource group in LINSTOR: 2 to 48 lower-case letters, digits and '-',
	// beginning with a letter. No default. Example: replicated.
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:MaxLength=48
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z][a-z0-9-]*[a-z0-9]$')",message="name must consist of lower-case letters, digits and '-' and begin with a letter, such as replicated: it is the name of a resource group in LINSTOR, too"
	// +kubebuilder:validation:XValidation:rule="self != 'dfltrscgrp'",message="name: DfltRscGrp is LINSTOR's own resource group (names are compared without case): choose another name"
	Name string `json:"name"`
	// storagePools are LINSTOR's names of the pools that volumes are placed in, up to 16. Of the pools of a node LINSTOR takes the
	// one with the most free space. Default: all pools. Example: [ssd].
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=3
	// +kubebuilder:validation:items:MaxLength=48
	// +kubebuilder:validation:items:Pattern=`^[A-Za-z0-9_-]+$`
	StoragePools []string `json:"storagePools,omitempty"`
	// replicas is the number of copies of a volume, each on a node of its own, from 1 to 7. With 1 the volume is as safe as that
	// node's disk. Default: 2. Example: 3.
	// +optional
	// +kubebuilder:default=2
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=7
	Replicas int32 `json:"replicas,omitempty"`
	// remoteAccess says where pods may use a volume. Anywhere: on every member, over the network where no copy is;
	// ReplicasOnly: only where a copy is. Default: Anywhere. Example: ReplicasOnly.
	// +optional
	// +kubebuilder:default=Anywhere
	RemoteAccess RemoteAccess `json:"remoteAccess,omitempty"`
	// fsType is the file system of volumes that are not used as block devices: ext4, or xfs, which needs 300 MiB at least.
	// Default: ext4. Example: xfs.
	// +optional
	// +kubebuilder:default=ext4
	FSType FSType `json:"fsType,omitempty"`
	// default marks the StorageClass as the one for claims that name none. It is not marked as long as another one is.
	// Default: false. Example: true.
	// +optional
	// +kubebuilder:default=false
	Default bool `json:"default,omitempty"`
	// allowVolumeExpansion lets claims grow. Default: true. Example: false.
	// +optional
	// +kubebuilder:default=true
	AllowVolumeExpansion *bool `json:"allowVolumeExpansion,omitempty"`
	// reclaimPolicy says what becomes of a volume whose claim is deleted: Delete or Retain. Default: Delete. Example: Retain.
	// +optional
	// +kubebuilder:default=Delete
	// +kubebuilder:validation:Enum=Delete;Retain
	ReclaimPolicy corev1.PersistentVolumeReclaimPolicy `json:"reclaimPolicy,omitempty"`
	// volumeBindingMode says when a volume is made. WaitForFirstConsumer: when a pod uses its claim, with a copy on the pod's node
	// if possible; Immediate: at once. Default: WaitForFirstConsumer. Example: Immediate.
	// +optional
	// +kubebuilder:default=WaitForFirstConsumer
	VolumeBindingMode VolumeBindingMode `json:"volumeBindingMode,omitempty"`
	// mountOptions are options for mount, up to 16 of up to 128 characters. Default: none. Example: [noatime].
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=128
	MountOptions []string `json:"mountOptions,omitempty"`
	// parameters are further parameters of the CSI driver, up to 32 of up to 256 characters: layerList, replicasOnSame, replicasOnDifferent,
	// xReplicasOnDifferent, fsOpts, postMountXfsOpts, overProvision, disklessStoragePool, disklessOnRemaining, doNotPlaceWithRegex,
	// property.linstor.csi.linbit.com/KEY for a property of the resource group, and qos.linbit.com/KEY. Default: none.
	// Example: {layerList: "drbd luks storage"}.
	// +optional
	// +mapType=atomic
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.size() <= 256 && self[k].size() > 0)",message="parameters: a key has at most 256 characters, and no value is empty"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.startsWith('linstor.csi.linbit.com/'))",message="parameters: write keys without the prefix linstor.csi.linbit.com/, such as layerList, and set fields where there are some: replicas for autoPlace and placementCount, storagePools for storagePool, remoteAccess (Anywhere or ReplicasOnly; rules by zone have no field) for allowRemoteVolumeAccess, fsType for csi.storage.k8s.io/fstype, and mountOptions for mountOpts; resourceGroup is the class's name"
	// +kubebuilder:validation:XValidation:rule="!self.exists(k, k in ['autoPlace', 'placementCount', 'storagePool', 'allowRemoteVolumeAccess', 'mountOpts', 'resourceGroup', 'csi.storage.k8s.io/fstype'])",message="parameters: set fields instead: replicas for autoPlace and placementCount, storagePools for storagePool, remoteAccess (Anywhere or ReplicasOnly; rules by zone have no field) for allowRemoteVolumeAccess, fsType for csi.storage.k8s.io/fstype, and mountOptions for mountOpts; resourceGroup is the class's name"
	// +kubebuilder:validation:XValidation:rule="!('encryption' in self)",message="parameters: encryption is a layer: set layerList: drbd luks storage and spec.controller.passphraseSecret, and remove encryption"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.startsWith('DrbdOptions/'))",message="parameters: write a property with its prefix, such as property.linstor.csi.linbit.com/DrbdOptions/Net/protocol"
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.startsWith('linstor.csi.linbit.com/') || k.startsWith('DrbdOptions/') || k in ['autoPlace', 'placementCount', 'storagePool', 'allowRemoteVolumeAccess', 'encryption', 'mountOpts', 'resourceGroup', 'csi.storage.k8s.io/fstype'] || k.startsWith('property.linstor.csi.linbit.com/') || k.startsWith('qos.linbit.com/') || k in ['layerList', 'replicasOnSame', 'replicasOnDifferent', 'xReplicasOnDifferent', 'fsOpts', 'postMountXfsOpts', 'overProvision', 'disklessStoragePool', 'disklessOnRemaining', 'doNotPlaceWithRegex'])",message="parameters: the key must be one of layerList, replicasOnSame, replicasOnDifferent, xReplicasOnDifferent, fsOpts, postMountXfsOpts, overProvision, disklessStoragePool, disklessOnRemaining and doNotPlaceWithRegex, or begin with property.linstor.csi.linbit.com/ or qos.linbit.com/; storage pools, replicas, remote access, file system and mount options have fields of their own, and the driver refuses or ignores others"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.startsWith('property.linstor.csi.linbit.com/Aux/storage.linstor.dev/'))",message="parameters: properties under Aux/storage.linstor.dev/ are the operator's own notes: choose another key",reason=FieldValueForbidden
	// +kubebuilder:validation:XValidation:rule="!('layerList' in self) || self['layerList'].matches('^(drbd )?(luks )?(writecache )?(cache )?storage$')",message="parameters: layerList lists layers from the top, separated by one space: drbd, luks, writecache, cache and, last and always, storage, such as \"drbd luks storage\""
	Parameters map[string]ParameterValue `json:"parameters,omitempty"`
}

// ParameterValue is the value of a parameter: up to 256 characters.
// +kubebuilder:validation:MaxLength=256
type ParameterValue string

// RemoteAccess says where pods may use a volume.
// +kubebuilder:validation:Enum=Anywhere;ReplicasOnly
type RemoteAccess string

// Kinds of remote access.
const (
	// RemoteAnywhere: on every member.
	RemoteAnywhere RemoteAccess = "Anywhere"
	// RemoteReplicasOnly: only where a copy is.
	RemoteReplicasOnly RemoteAccess = "ReplicasOnly"
)

// FSType is a file system.
// +kubebuilder:validation:Enum=ext4;xfs
type FSType string

// File systems.
const (
	// FSExt4: ext4.
	FSExt4 FSType = "ext4"
	// FSXFS: XFS.
	FSXFS FSType = "xfs"
)

// VolumeBindingMode says when a volume is made.
// +kubebuilder:validation:Enum=WaitForFirstConsumer;Immediate
type VolumeBindingMode string

// Binding modes.
const (
	// BindingWaitForFirstConsumer: when a pod uses its claim.
	BindingWaitForFirstConsumer VolumeBindingMode = "WaitForFirstConsumer"
	// BindingImmediate: at once.
	BindingImmediate VolumeBindingMode = "Immediate"
)
