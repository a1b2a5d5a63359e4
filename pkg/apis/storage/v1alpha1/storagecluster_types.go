package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/backupspec"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/monitoringspec"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/nodespec"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/tlsspec"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/volumespec"
)

// StorageCluster is a LINSTOR cluster on the nodes of this Kubernetes cluster. There is exactly one, named "linstor".
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.database.managedEtcd.replicas,statuspath=.status.etcd.replicas,selectorpath=.status.etcd.selector
// +kubebuilder:resource:scope=Cluster,path=storageclusters,shortName=lsc,categories=storage
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Nodes",type=string,JSONPath=`.status.nodes.summary`
// +kubebuilder:printcolumn:name="Pools",type=string,JSONPath=`.status.pools.summary`
// +kubebuilder:printcolumn:name="Attention",type=string,JSONPath=`.status.attention`
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.status.version`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Capacity",type=string,priority=1,JSONPath=`.status.pools.capacity`
// +kubebuilder:printcolumn:name="Free",type=string,priority=1,JSONPath=`.status.pools.free`
// +kubebuilder:printcolumn:name="Database",type=string,priority=1,JSONPath=`.status.database`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.message`
// +kubebuilder:validation:XValidation:rule="self.metadata.name == 'linstor'",message="metadata.name must be linstor: LINSTOR supports one cluster per Kubernetes cluster; rename the object to linstor"
type StorageCluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// spec is the wanted state. Default: every field's default. Example: {storagePools: [...]}.
	// +optional
	// +kubebuilder:default={}
	Spec StorageClusterSpec `json:"spec,omitempty"`
	// status is what the operator saw and does; only the operator writes it.
	// +optional
	Status StorageClusterStatus `json:"status,omitempty"`
}

// StorageClusterList is a list of StorageClusters.
//
// +kubebuilder:object:root=true
type StorageClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []StorageCluster `json:"items"`
}

// StorageClusterSpec is the wanted state of a LINSTOR cluster. Every field has a default: a list of storage pools alone
// makes a working cluster.
//
// +kubebuilder:validation:XValidation:rule="!has(self.database) || !(has(self.database.etcd) || has(self.database.managedEtcd)) || (has(self.version) && (!self.version.matches('^[0-9]{1,4}[.][0-9]{1,4}[.][0-9]{1,4}$') || int(self.version.split('.')[0]) < 1 || (int(self.version.split('.')[0]) == 1 && int(self.version.split('.')[1]) < 34)))",message="database: LINSTOR 1.34 dropped etcd: set version to a release before 1.34.0, or use kubernetes, postgresql or mariadb, into which the operator moves LINSTOR's data on request"
type StorageClusterSpec struct {
	// version is the LINSTOR version. Default: the newest in the operator's catalogue when the cluster is first accepted, or
	// the one that an earlier cluster has left the database with, kept in status.version; an operator that knows a newer one
	// never moves a running cluster. Example: "1.35.3".
	// +optional
	// +kubebuilder:validation:MaxLength=14
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9]{1,4}[.][0-9]{1,4}[.][0-9]{1,4}$')",message="version must be three numbers, such as 1.35.3"
	Version string `json:"version,omitempty"`
	// images says where container images come from. Default: quay.io/piraeusdatastore, without pull Secrets.
	// +optional
	// +kubebuilder:default={}
	Images ImagesSpec `json:"images,omitempty"`
	// suspend stops every change in every phase, deletion included; the operator goes on to observe and report.
	// Default: false. Example: true.
	// +optional
	// +kubebuilder:default=false
	Suspend bool `json:"suspend,omitempty"`
	// nodes says which nodes take part and how. Default: all Linux nodes without taints, on the host's network.
	// +optional
	// +kubebuilder:default={}
	Nodes NodesSpec `json:"nodes,omitempty"`
	// platform is the kind of nodes, where it needs special settings: Auto, Generic, Talos, Flatcar, OpenShift, K0s or MicroK8s.
	// Auto tells Talos, Flatcar and OpenShift from each node's operating system, k0s from its kubelet's version, MicroK8s from
	// its label microk8s.io/cluster=true, and takes all others for Generic. Default: Auto. Example: MicroK8s.
	// +optional
	// +kubebuilder:default=Auto
	Platform Platform `json:"platform,omitempty"`
	// kernelModule says how the nodes get the DRBD kernel module. Default: {mode: Auto}.
	// +optional
	// +kubebuilder:default={}
	KernelModule KernelModuleSpec `json:"kernelModule,omitempty"`
	// database is where LINSTOR keeps its state, which is moved to another one on request. Default: kubernetes.
	// Example: {postgresql: {host: db.example.com, credentialsSecret: linstor-db}}.
	// +optional
	// +kubebuilder:default={}
	Database DatabaseSpec `json:"database,omitempty"`
	// controller configures the LINSTOR controller. Default: LINSTOR's and the operator's own settings.
	// Example: {passphraseSecret: linstor-passphrase}.
	// +optional
	Controller ControllerSpec `json:"controller,omitempty"`
	// userNamespaces gives pods that need nothing of their node a user namespace of their own (hostUsers: false): LINSTOR's
	// controller, the CSI driver's and the affinity controller. Auto: once every node reports that it can; Never. Not for hosts
	// with user.max_user_namespaces=0, such as Talos: these report it, and cannot. Default: Never. Example: Auto.
	// +optional
	UserNamespaces nodespec.UserNamespaces `json:"userNamespaces,omitempty"`
	// tls says who may speak to LINSTOR. Default: a new cluster is locked, and any other stays as it is.
	// Example: {mode: Managed}.
	// +optional
	TLS tlsspec.TLSSpec `json:"tls,omitzero"`
	// storagePools are the pools that LINSTOR places volumes in, on each node that matches. Up to 64. Default: none.
	// Example: [{name: ssd, lvmThin: {volumeGroup: vg_ssd, thinPool: thin}}].
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:XValidation:rule="self.all(x, !(!has(x.nodeSelector) || x.nodeSelector.size() == 0) || self.exists_one(y, (!has(y.nodeSelector) || y.nodeSelector.size() == 0) && (has(x.pool) ? x.pool : x.name).lowerAscii() == (has(y.pool) ? y.pool : y.name).lowerAscii()))",message="storagePools: two entries make the same LINSTOR pool on all nodes (names are compared without case): give them nodeSelectors that do not overlap, or different names"
	// +kubebuilder:validation:XValidation:rule="self.all(x, !(!has(x.nodeSelector) || x.nodeSelector.size() == 0) || self.exists_one(y, (!has(y.nodeSelector) || y.nodeSelector.size() == 0) && (has(x.lvm) ? 'vg ' + x.lvm.volumeGroup : has(x.lvmThin) ? 'thin ' + x.lvmThin.volumeGroup + '/' + x.lvmThin.thinPool : has(x.zfs) ? 'zpool ' + x.zfs.zpool : has(x.zfsThin) ? 'zpool ' + x.zfsThin.zpool : has(x.file) ? 'directory ' + x.file.directory : has(x.fileThin) ? 'directory ' + x.fileThin.directory : x.name) == (has(y.lvm) ? 'vg ' + y.lvm.volumeGroup : has(y.lvmThin) ? 'thin ' + y.lvmThin.volumeGroup + '/' + y.lvmThin.thinPool : has(y.zfs) ? 'zpool ' + y.zfs.zpool : has(y.zfsThin) ? 'zpool ' + y.zfsThin.zpool : has(y.file) ? 'directory ' + y.file.directory : has(y.fileThin) ? 'directory ' + y.fileThin.directory : y.name)))",message="storagePools: two entries are on one volume group, thin pool, zpool or directory on all nodes, and LINSTOR would count its free space twice: give them nodeSelectors that do not overlap, or remove one"
	StoragePools []StoragePoolSpec `json:"storagePools,omitempty"`
	// volumes says how pods get volumes from the pools. Default: the operator runs LINSTOR's CSI driver, and makes no
	// StorageClass. Example: {storageClasses: [{name: replicated, default: true}]}.
	// +optional
	// +kubebuilder:default={}
	Volumes volumespec.VolumesSpec `json:"volumes,omitzero"`
	// monitoring says what the operator makes for Prometheus Operator. Default: monitors and alerts, where its definitions are.
	// Example: {labels: {release: kube-prometheus-stack}}.
	// +optional
	// +kubebuilder:default={}
	Monitoring monitoringspec.MonitoringSpec `json:"monitoring,omitzero"`
	// backup says where backups of LINSTOR's database go, and when they are taken. LINSTOR 1.34 or newer is needed.
	// Default: the operator takes none. Example: {schedule: "0 */6 * * *", s3: {…}}.
	// +optional
	Backup *backupspec.BackupSpec `json:"backup,omitempty"`
	// deletionPolicy says what happens when this object is deleted. Retain removes the workloads and leaves LINSTOR's
	// database, pools and disks as they are; Delete also deregisters pools and nodes in LINSTOR, and lets the next cluster use
	// another database. Neither removes volume groups, zpools or LINSTOR's own CustomResourceDefinitions, and neither removes
	// anything while volumes exist. Default: Retain.
	// Example: Delete.
	// +optional
	// +kubebuilder:default=Retain
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`
}

// DeletionPolicy says what is removed together with the StorageCluster.
// +kubebuilder:validation:Enum=Retain;Delete
type DeletionPolicy string

// Deletion policies.
const (
	// DeletionRetain: leaves LINSTOR's database, pools and disks as they are.
	DeletionRetain DeletionPolicy = "Retain"
	// DeletionDelete: also deregisters pools and nodes in LINSTOR; disks stay as they are.
	DeletionDelete DeletionPolicy = "Delete"
)

// ImagesSpec says where container images come from.
type ImagesSpec struct {
	// registry is the prefix of all images: host, optional port and path, without scheme and without '/' at the end. Up to 255
	// characters. Default: quay.io/piraeusdatastore; registry.k8s.io/sig-storage for what runs beside the CSI driver, and
	// gcr.io/etcd-development for etcd. Example: registry.example.com:5000/mirror.
	// +optional
	// +kubebuilder:default=quay.io/piraeusdatastore
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:[0-9]{1,5})?(/[a-z0-9]+([._-]+[a-z0-9]+)*)*$')",message="registry must be a host with optional port and path, without scheme and without '/' at the end, such as registry.example.com:5000/mirror"
	Registry string `json:"registry,omitempty"`
	// pullSecrets are names of image pull Secrets in the namespace linstor-storage, up to 16. Default: none.
	// Example: [mirror-pull].
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	PullSecrets []SecretName `json:"pullSecrets,omitempty"`
}

// KernelModuleSpec says how the nodes get the DRBD kernel module.
type KernelModuleSpec struct {
	// mode is one of
	// Auto: the module loader for the node's operating system decides: it compiles where it finds kernel sources in /usr/src and
	// takes a module of its own image otherwise;
	// Compile: always compile against the node's kernel headers (/usr/src);
	// Prebuilt: only the modules shipped in the loader image;
	// Preinstalled: the nodes bring DRBD 9 themselves, the operator only checks that LINSTOR sees it.
	// Default: Auto. Example: Preinstalled.
	// +optional
	// +kubebuilder:default=Auto
	Mode KernelModuleMode `json:"mode,omitempty"`
	// signingKeySecret is a Secret in linstor-storage with the keys signing_key.pem and signing_key.x509 (DER), with which the
	// loader signs a module that it compiles, for nodes with Secure Boot. The certificate must be enrolled on the nodes.
	// Default: modules are not signed. Example: drbd-signing-key.
	// +optional
	SigningKeySecret SecretName `json:"signingKeySecret,omitempty"`
}

// Platform is the kind of nodes.
// +kubebuilder:validation:Enum=Auto;Generic;Talos;Flatcar;OpenShift;K0s;MicroK8s
type Platform string

// Platforms.
const (
	// PlatformAuto: found per node.
	PlatformAuto Platform = "Auto"
	// PlatformGeneric: Linux without particulars.
	PlatformGeneric Platform = "Generic"
	// PlatformTalos: Talos Linux.
	PlatformTalos Platform = "Talos"
	// PlatformFlatcar: Flatcar Container Linux.
	PlatformFlatcar Platform = "Flatcar"
	// PlatformOpenShift: OpenShift and OKD.
	PlatformOpenShift Platform = "OpenShift"
	// PlatformK0s: k0s.
	PlatformK0s Platform = "K0s"
	// PlatformMicroK8s: MicroK8s.
	PlatformMicroK8s Platform = "MicroK8s"
)

// KernelModuleMode says how the nodes get the DRBD kernel module.
// +kubebuilder:validation:Enum=Auto;Compile;Prebuilt;Preinstalled
type KernelModuleMode string

// Kernel module modes.
const (
	// ModuleAuto: the loader compiles where the node has its kernel's headers, and else uses the modules in its image.
	ModuleAuto KernelModuleMode = "Auto"
	// ModuleCompile: the loader compiles against the node's kernel headers.
	ModuleCompile KernelModuleMode = "Compile"
	// ModulePrebuilt: the loader uses the modules in its image only.
	ModulePrebuilt KernelModuleMode = "Prebuilt"
	// ModulePreinstalled: the nodes bring DRBD 9 themselves.
	ModulePreinstalled KernelModuleMode = "Preinstalled"
)
