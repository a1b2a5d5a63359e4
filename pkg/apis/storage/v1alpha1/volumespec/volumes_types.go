// Package volumespec defines spec.volumes of a StorageCluster: whether the operator runs the LINSTOR CSI driver, and
// the StorageClasses that it creates for the driver.
//
// +kubebuilder:object:generate=true
// +groupName=storage.linstor.dev
// +versionName=v1alpha1
package volumespec

import corev1 "k8s.io/api/core/v1"

// VolumesSpec configures the CSI driver and StorageClasses.
//
// +kubebuilder:validation:XValidation:rule="!has(self.storageClasses) || self.storageClasses.size() == 0 || (has(self.driver) && has(self.driver.mode) && self.driver.mode == 'Managed')",message="storageClasses: the operator creates StorageClasses only for a driver that it runs; set volumes.driver.mode to Managed, or create StorageClass objects yourself",fieldPath=.storageClasses
type VolumesSpec struct {
	// driver configures the LINSTOR CSI driver. Defaults to {mode: Managed}. Example: {mode: None}.
	// +optional
	// +kubebuilder:default={}
	Driver VolumeDriverSpec `json:"driver,omitzero"`
	// topologyKeys are the keys of Node labels that describe where nodes are located. At most 8. Each label becomes a
	// LINSTOR node property (Aux/topology/KEY), for use in replicasOnSame and replicasOnDifferent, and a topology key of
	// the CSI driver. All members should have all of these labels; the status names a member that lacks one. By default,
	// the driver distinguishes nodes only by name. Example: [topology.kubernetes.io/zone].
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=200
	// +kubebuilder:validation:items:Pattern=`^([a-z0-9]([a-z0-9.-]*[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?$`
	// +kubebuilder:validation:XValidation:rule="!('linbit.com/hostname' in self)",message="topologyKeys: linbit.com/hostname is the driver's own key, which every node has; remove it"
	TopologyKeys []string `json:"topologyKeys,omitempty"`
	// storageClasses lists the StorageClasses that the operator creates. At most 32. The operator never changes a
	// StorageClass that it did not create. If you remove an entry, the operator deletes the StorageClass once no
	// PersistentVolumes use it. Requires driver mode Managed. Defaults to none.
	// Example: [{name: replicated, storagePools: [ssd], replicas: 2, default: true}].
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:XValidation:rule="self.filter(c, has(c.default) && c.default).size() <= 1",message="storageClasses: only one of them can be the default; remove default from the others"
	StorageClasses []StorageClassSpec `json:"storageClasses,omitempty"`
	// snapshots configures volume snapshots. It has no effect unless the driver mode is Managed. Defaults to
	// {mode: Auto}. Example: {className: nightly, deletionPolicy: Retain}.
	// +optional
	// +kubebuilder:default={}
	Snapshots VolumeSnapshotsSpec `json:"snapshots,omitzero"`
	// canary sets whether the operator tests volumes. Defaults to Auto. Example: None. Values:
	// - Auto: a pod writes data to a small volume of the default StorageClass and of at most two others, and reads it
	//   back. The test runs before the cluster is Ready for the first time, after changes to LINSTOR, the CSI driver or
	//   the StorageClass, and on request.
	// - None: no volumes are tested.
	// +optional
	// +kubebuilder:default=Auto
	Canary CanaryMode `json:"canary,omitempty"`
	// highAvailability sets whether the operator runs the LINSTOR high-availability controller, which removes pods within
	// seconds, instead of minutes, from a node that loses access to its volumes. Defaults to Auto. Example: None. Values:
	// - Auto: it runs on all members if volumes of the StorageClasses have quorum, which requires DRBD, at least 2
	//   replicas and 3 members, and no properties that disable quorum.
	// - None: it does not run.
	// +optional
	// +kubebuilder:default=Auto
	HighAvailability HighAvailabilityMode `json:"highAvailability,omitempty"`
	// drainGuard sets whether nodes are guarded against drains at the wrong time. Defaults to Auto. Example: None.
	// Values:
	// - Auto: a pod on each node blocks drains through the eviction API if a drain would make the last healthy replica of
	//   a volume unavailable, while another node is being drained or is down, or while a replica on another node is not
	//   up to date.
	// - None: nodes can be drained at any time.
	// +optional
	// +kubebuilder:default=Auto
	DrainGuard DrainGuardMode `json:"drainGuard,omitempty"`
	// shutdownGuard sets whether hosts release suspended volumes at shutdown, which would otherwise hang. Defaults to
	// Auto. Example: None. Values:
	// - Auto: on hosts with systemd, satellites install a unit that makes DRBD release these volumes.
	// - None: no unit is installed.
	// +optional
	// +kubebuilder:default=Auto
	ShutdownGuard ShutdownGuardMode `json:"shutdownGuard,omitempty"`
	// affinityController sets whether the operator runs the LINSTOR affinity controller, which replaces PersistentVolumes
	// when replicas move. This requires permission to delete any PersistentVolume. Defaults to None.
	// Example: Auto. Values:
	// - Auto: it runs if a StorageClass allows pods to use volumes only on nodes with replicas.
	// - None: it does not run. After replicas have moved, pods keep waiting for the previous nodes.
	// +optional
	// +kubebuilder:default=None
	AffinityController AffinityMode `json:"affinityController,omitempty"`
}

// HighAvailabilityMode sets whether the operator runs the LINSTOR high-availability controller.
// +kubebuilder:validation:Enum=Auto;None
type HighAvailabilityMode string

// Modes of the high-availability controller.
const (
	// HighAvailabilityAuto: if volumes have quorum.
	HighAvailabilityAuto HighAvailabilityMode = "Auto"
	// HighAvailabilityNone: never.
	HighAvailabilityNone HighAvailabilityMode = "None"
)

// AffinityMode sets whether the operator runs the LINSTOR affinity controller.
// +kubebuilder:validation:Enum=Auto;None
type AffinityMode string

// Modes of the affinity controller.
const (
	// AffinityAuto: if PersistentVolumes are bound to nodes.
	AffinityAuto AffinityMode = "Auto"
	// AffinityNone: never.
	AffinityNone AffinityMode = "None"
)

// VolumeDriverSpec configures the LINSTOR CSI driver, linstor.csi.linbit.com.
type VolumeDriverSpec struct {
	// mode is None or Managed. With Managed, the operator runs the driver on all members. With None, it runs no driver,
	// and does not touch one that you run yourself. The operator's own driver is kept while its PersistentVolumes exist.
	// Defaults to Managed. Example: None.
	// +optional
	// +kubebuilder:default=Managed
	Mode VolumeDriverMode `json:"mode,omitempty"`
	// kubeletDirectory is the kubelet's root directory on the nodes (its --root-dir flag). If it is wrong, the driver
	// does not work. Must be an absolute path of at most 255 characters, without "..". Defaults to the platform's
	// directory on MicroK8s and k0s nodes, and to /var/lib/kubelet on other nodes. Example: /data/kubelet.
	// +optional
	// +kubebuilder:validation:MaxLength=255
	// +kubebuilder:validation:XValidation:rule="self.size() == 0 || (self.matches('^(/[A-Za-z0-9_.@-]+)+$') && !self.matches('/[.][.]?(/|$)'))",message="kubeletDirectory must be an absolute path without '..' and without a trailing '/', such as /var/lib/kubelet"
	KubeletDirectory string `json:"kubeletDirectory,omitempty"`
}

// VolumeDriverMode sets whether the operator runs the LINSTOR CSI driver.
// +kubebuilder:validation:Enum=None;Managed
type VolumeDriverMode string

// Modes of the volume driver.
const (
	// DriverNone: the operator runs no driver.
	DriverNone VolumeDriverMode = "None"
	// DriverManaged: the operator runs the driver.
	DriverManaged VolumeDriverMode = "Managed"
)

// VolumeSnapshotsSpec configures volume snapshots.
type VolumeSnapshotsSpec struct {
	// mode is Auto or None. With Auto, the driver takes snapshots if Kubernetes serves snapshot.storage.k8s.io/v1, and
	// the operator creates a VolumeSnapshotClass. With None, no snapshots can be taken, and the VolumeSnapshotClass is
	// deleted. Everything that existing snapshots require is kept. Defaults to Auto. Example: None.
	// +optional
	// +kubebuilder:default=Auto
	Mode VolumeSnapshotsMode `json:"mode,omitempty"`
	// className is the name of the VolumeSnapshotClass: at most 63 lowercase letters, digits and '-'. The operator never
	// changes a class that it did not create. If you change the name, the operator deletes the previous class once no
	// snapshots use it. Defaults to linstor-snapshots. Example: nightly.
	// +optional
	// +kubebuilder:default=linstor-snapshots
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`
	ClassName string `json:"className,omitempty"`
	// default marks the class as the default for VolumeSnapshots without a class. It applies only to volumes of this
	// driver. The class is not marked while another class of the driver is the default. Defaults to true. Example: false.
	// +optional
	// +kubebuilder:default=true
	Default *bool `json:"default,omitempty"`
	// deletionPolicy sets what happens to a snapshot in LINSTOR when its VolumeSnapshot is deleted: Delete or Retain. A
	// change applies only to new snapshots. Defaults to Delete. Example: Retain.
	// +optional
	// +kubebuilder:default=Delete
	DeletionPolicy SnapshotDeletionPolicy `json:"deletionPolicy,omitempty"`
}

// DefaultSnapshotClass is the name of the VolumeSnapshotClass unless the spec sets another name.
const DefaultSnapshotClass = "linstor-snapshots"

// VolumeSnapshotsMode sets whether snapshots of volumes are taken.
// +kubebuilder:validation:Enum=Auto;None
type VolumeSnapshotsMode string

// Modes of snapshots.
const (
	// SnapshotsAuto: if Kubernetes serves the snapshot API.
	SnapshotsAuto VolumeSnapshotsMode = "Auto"
	// SnapshotsNone: never.
	SnapshotsNone VolumeSnapshotsMode = "None"
)

// SnapshotDeletionPolicy sets what happens to a snapshot when its VolumeSnapshot is deleted.
// +kubebuilder:validation:Enum=Delete;Retain
type SnapshotDeletionPolicy string

// Deletion policies of snapshots.
const (
	// SnapshotsDelete: LINSTOR deletes the snapshot.
	SnapshotsDelete SnapshotDeletionPolicy = "Delete"
	// SnapshotsRetain: LINSTOR keeps the snapshot.
	SnapshotsRetain SnapshotDeletionPolicy = "Retain"
)

// StorageClassSpec is a StorageClass of the LINSTOR CSI driver. Kubernetes allows changes only to default,
// allowVolumeExpansion and mountOptions. Parameters are those of linstor-csi 1.12 (pkg/volume/parameter.go).
//
// +kubebuilder:validation:XValidation:rule="(has(self.storagePools) ? self.storagePools : []) == (has(oldSelf.storagePools) ? oldSelf.storagePools : []) && (has(self.replicas) ? self.replicas : 2) == (has(oldSelf.replicas) ? oldSelf.replicas : 2) && (has(self.remoteAccess) ? self.remoteAccess : 'Anywhere') == (has(oldSelf.remoteAccess) ? oldSelf.remoteAccess : 'Anywhere') && (has(self.fsType) ? self.fsType : 'ext4') == (has(oldSelf.fsType) ? oldSelf.fsType : 'ext4') && (has(self.reclaimPolicy) ? self.reclaimPolicy : 'Delete') == (has(oldSelf.reclaimPolicy) ? oldSelf.reclaimPolicy : 'Delete') && (has(self.volumeBindingMode) ? self.volumeBindingMode : 'WaitForFirstConsumer') == (has(oldSelf.volumeBindingMode) ? oldSelf.volumeBindingMode : 'WaitForFirstConsumer') && (has(self.parameters) ? self.parameters : {}) == (has(oldSelf.parameters) ? oldSelf.parameters : {})",message="storagePools, replicas, remoteAccess, fsType, reclaimPolicy, volumeBindingMode and parameters of a StorageClass cannot be changed: add an entry with another name or, while no volumes use the class, remove the entry and add it again",reason=FieldValueForbidden
// +kubebuilder:validation:XValidation:rule="!has(self.parameters) || !('layerList' in self.parameters) || self.parameters['layerList'].startsWith('drbd') || (has(self.replicas) && self.replicas == 1 && has(self.remoteAccess) && self.remoteAccess == 'ReplicasOnly')",message="parameters: without drbd in layerList, replicas are not kept in sync, and a pod on another node would get an empty volume; add drbd, or set replicas: 1 and remoteAccess: ReplicasOnly",fieldPath=.parameters
// +kubebuilder:validation:XValidation:rule="!has(self.parameters) || !('postMountXfsOpts' in self.parameters) || (has(self.fsType) && self.fsType == 'xfs')",message="parameters: postMountXfsOpts requires fsType xfs; set fsType to xfs, or remove postMountXfsOpts",fieldPath=.parameters
type StorageClassSpec struct {
	// name is the name of the StorageClass and of its resource group in LINSTOR: 2 to 48 lowercase letters, digits and
	// '-', starting with a letter. Required, no default. Example: replicated.
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:MaxLength=48
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z][a-z0-9-]*[a-z0-9]$')",message="name must consist of lowercase letters, digits and '-' and start with a letter, such as replicated: it is also the name of a LINSTOR resource group"
	// +kubebuilder:validation:XValidation:rule="self != 'dfltrscgrp'",message="name: DfltRscGrp is reserved for LINSTOR (names are not case-sensitive); choose another name"
	Name string `json:"name"`
	// storagePools lists the LINSTOR names of the pools in which volumes are placed. At most 16. If a node has several of
	// these pools, LINSTOR uses the one with the most free space. Defaults to all pools. Example: [ssd].
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=3
	// +kubebuilder:validation:items:MaxLength=48
	// +kubebuilder:validation:items:Pattern=`^[A-Za-z0-9_-]+$`
	StoragePools []string `json:"storagePools,omitempty"`
	// replicas is the number of replicas of each volume, each on a different node, from 1 to 7. With 1, a volume is only
	// as safe as the disk that it is stored on. Defaults to 2. Example: 3.
	// +optional
	// +kubebuilder:default=2
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=7
	Replicas int32 `json:"replicas,omitempty"`
	// remoteAccess controls on which nodes pods can use a volume. Anywhere: on every member, over the network if it has
	// no replica. ReplicasOnly: only on nodes with a replica. Defaults to Anywhere. Example: ReplicasOnly.
	// +optional
	// +kubebuilder:default=Anywhere
	RemoteAccess RemoteAccess `json:"remoteAccess,omitempty"`
	// fsType is the file system of volumes that are not used as block devices: ext4, or xfs (at least 300 MiB). Defaults
	// to ext4. Example: xfs.
	// +optional
	// +kubebuilder:default=ext4
	FSType FSType `json:"fsType,omitempty"`
	// default marks the StorageClass as the default for claims without a class. It is not marked while another
	// StorageClass is the default. Defaults to false. Example: true.
	// +optional
	// +kubebuilder:default=false
	Default bool `json:"default,omitempty"`
	// allowVolumeExpansion allows claims to be expanded. Defaults to true. Example: false.
	// +optional
	// +kubebuilder:default=true
	AllowVolumeExpansion *bool `json:"allowVolumeExpansion,omitempty"`
	// reclaimPolicy sets what happens to a volume when its claim is deleted: Delete or Retain. Defaults to Delete.
	// Example: Retain.
	// +optional
	// +kubebuilder:default=Delete
	// +kubebuilder:validation:Enum=Delete;Retain
	ReclaimPolicy corev1.PersistentVolumeReclaimPolicy `json:"reclaimPolicy,omitempty"`
	// volumeBindingMode sets when a volume is created. WaitForFirstConsumer: when a pod uses its claim, with a replica on
	// the pod's node if possible. Immediate: when its claim is created. Defaults to WaitForFirstConsumer.
	// Example: Immediate.
	// +optional
	// +kubebuilder:default=WaitForFirstConsumer
	VolumeBindingMode VolumeBindingMode `json:"volumeBindingMode,omitempty"`
	// mountOptions are the mount options of volumes. At most 16, each of at most 128 characters. Defaults to none.
	// Example: [noatime].
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=128
	MountOptions []string `json:"mountOptions,omitempty"`
	// parameters are additional parameters of the CSI driver. At most 32, each of at most 256 characters: layerList,
	// replicasOnSame, replicasOnDifferent, xReplicasOnDifferent, fsOpts, postMountXfsOpts, overProvision,
	// disklessStoragePool, disklessOnRemaining, doNotPlaceWithRegex, property.linstor.csi.linbit.com/KEY for a property
	// of the resource group, and qos.linbit.com/KEY. Defaults to none. Example: {layerList: "drbd luks storage"}.
	// +optional
	// +mapType=atomic
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.size() <= 256 && self[k].size() > 0)",message="parameters: a key must have at most 256 characters, and no value may be empty"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.startsWith('linstor.csi.linbit.com/'))",message="parameters: write keys without the linstor.csi.linbit.com/ prefix, such as layerList, and use fields where they exist: replicas for autoPlace and placementCount, storagePools for storagePool, remoteAccess (Anywhere or ReplicasOnly; zone rules are not supported) for allowRemoteVolumeAccess, fsType for csi.storage.k8s.io/fstype, and mountOptions for mountOpts; resourceGroup is the StorageClass name"
	// +kubebuilder:validation:XValidation:rule="!self.exists(k, k in ['autoPlace', 'placementCount', 'storagePool', 'allowRemoteVolumeAccess', 'mountOpts', 'resourceGroup', 'csi.storage.k8s.io/fstype'])",message="parameters: set fields instead: replicas for autoPlace and placementCount, storagePools for storagePool, remoteAccess (Anywhere or ReplicasOnly; zone rules are not supported) for allowRemoteVolumeAccess, fsType for csi.storage.k8s.io/fstype, and mountOptions for mountOpts; resourceGroup is the StorageClass name"
	// +kubebuilder:validation:XValidation:rule="!('encryption' in self)",message="parameters: encryption is a layer; set layerList: drbd luks storage and spec.controller.passphraseSecret, and remove encryption"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.startsWith('DrbdOptions/'))",message="parameters: write properties with their prefix, such as property.linstor.csi.linbit.com/DrbdOptions/Net/protocol"
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.startsWith('linstor.csi.linbit.com/') || k.startsWith('DrbdOptions/') || k in ['autoPlace', 'placementCount', 'storagePool', 'allowRemoteVolumeAccess', 'encryption', 'mountOpts', 'resourceGroup', 'csi.storage.k8s.io/fstype'] || k.startsWith('property.linstor.csi.linbit.com/') || k.startsWith('qos.linbit.com/') || k in ['layerList', 'replicasOnSame', 'replicasOnDifferent', 'xReplicasOnDifferent', 'fsOpts', 'postMountXfsOpts', 'overProvision', 'disklessStoragePool', 'disklessOnRemaining', 'doNotPlaceWithRegex'])",message="parameters: the key must be one of layerList, replicasOnSame, replicasOnDifferent, xReplicasOnDifferent, fsOpts, postMountXfsOpts, overProvision, disklessStoragePool, disklessOnRemaining and doNotPlaceWithRegex, or start with property.linstor.csi.linbit.com/ or qos.linbit.com/; storage pools, replicas, remote access, file system and mount options have their own fields, and the driver rejects or ignores other keys"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.startsWith('property.linstor.csi.linbit.com/Aux/storage.linstor.dev/'))",message="parameters: properties under Aux/storage.linstor.dev/ are reserved for the operator; choose another key",reason=FieldValueForbidden
	// +kubebuilder:validation:XValidation:rule="!('layerList' in self) || self['layerList'].matches('^(drbd )?(luks )?(writecache )?(cache )?storage$')",message="parameters: layerList must list layers from top to bottom, separated by single spaces (drbd, luks, writecache, cache and, always last, storage), such as \"drbd luks storage\""
	Parameters map[string]ParameterValue `json:"parameters,omitempty"`
}

// ParameterValue is the value of a parameter: at most 256 characters.
// +kubebuilder:validation:MaxLength=256
type ParameterValue string

// RemoteAccess controls on which nodes pods can use a volume.
// +kubebuilder:validation:Enum=Anywhere;ReplicasOnly
type RemoteAccess string

// Kinds of remote access.
const (
	// RemoteAnywhere: on every member.
	RemoteAnywhere RemoteAccess = "Anywhere"
	// RemoteReplicasOnly: only on nodes with a replica.
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

// VolumeBindingMode sets when a volume is created.
// +kubebuilder:validation:Enum=WaitForFirstConsumer;Immediate
type VolumeBindingMode string

// Binding modes.
const (
	// BindingWaitForFirstConsumer: when a pod uses its claim.
	BindingWaitForFirstConsumer VolumeBindingMode = "WaitForFirstConsumer"
	// BindingImmediate: when its claim is created.
	BindingImmediate VolumeBindingMode = "Immediate"
)
