package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/backupspec"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/monitoringspec"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/nodespec"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/tlsspec"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/volumespec"
)

// StorageCluster is a LINSTOR cluster on the nodes of this Kubernetes cluster. Its name must be "linstor".
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
// +kubebuilder:validation:XValidation:rule="self.metadata.name == 'linstor'",message="metadata.name must be linstor, because only one LINSTOR cluster per Kubernetes cluster is supported: rename the object to linstor"
type StorageCluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// spec is the desired state. Defaults to each field's default. Example: {storagePools: [...]}.
	// +optional
	// +kubebuilder:default={}
	Spec StorageClusterSpec `json:"spec,omitempty"`
	// status is the observed state. Only the operator writes it.
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

// StorageClusterSpec is the desired state of a LINSTOR cluster. Every field is optional: a list of storage pools is
// enough for a working cluster.
//
// +kubebuilder:validation:XValidation:rule="!has(self.database) || !(has(self.database.etcd) || has(self.database.managedEtcd)) || (has(self.version) && (!self.version.matches('^[0-9]{1,4}[.][0-9]{1,4}[.][0-9]{1,4}$') || int(self.version.split('.')[0]) < 1 || (int(self.version.split('.')[0]) == 1 && int(self.version.split('.')[1]) < 34)))",message="database: LINSTOR 1.34 dropped support for etcd; set version to a release before 1.34.0, or use kubernetes, postgresql or mariadb (the operator moves LINSTOR's data there once you approve)"
type StorageClusterSpec struct {
	// version is the LINSTOR version. Defaults to the version that last used the database or, for a new database, to the
	// newest version in the operator's catalogue; status.version records it. Upgrading the operator never changes the
	// version of a running cluster. Example: "1.35.3".
	// +optional
	// +kubebuilder:validation:MaxLength=14
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9]{1,4}[.][0-9]{1,4}[.][0-9]{1,4}$')",message="version must be three numbers, such as 1.35.3"
	Version string `json:"version,omitempty"`
	// images configures the container image registry. Defaults to quay.io/piraeusdatastore, without pull Secrets.
	// +optional
	// +kubebuilder:default={}
	Images ImagesSpec `json:"images,omitempty"`
	// suspend stops all changes in every phase, including deletion. The operator continues to observe and report.
	// Defaults to false. Example: true.
	// +optional
	// +kubebuilder:default=false
	Suspend bool `json:"suspend,omitempty"`
	// nodes selects and configures the nodes of the cluster. Defaults to all Linux nodes without taints, on the host
	// network.
	// +optional
	// +kubebuilder:default={}
	Nodes NodesSpec `json:"nodes,omitempty"`
	// platform is the nodes' platform, which may require special settings: Auto, Generic, Talos, Flatcar, OpenShift, K0s
	// or MicroK8s. Auto detects Talos, Flatcar and OpenShift by the node's operating system, k0s by the kubelet version,
	// and MicroK8s by the microk8s.io/cluster=true label. All other nodes are Generic. Defaults to Auto.
	// Example: MicroK8s.
	// +optional
	// +kubebuilder:default=Auto
	Platform Platform `json:"platform,omitempty"`
	// kernelModule configures how the DRBD kernel module is loaded. Defaults to {mode: Auto}.
	// +optional
	// +kubebuilder:default={}
	KernelModule KernelModuleSpec `json:"kernelModule,omitempty"`
	// database is where LINSTOR stores its state. If you change it, the operator moves the data after your approval.
	// Defaults to kubernetes. Example: {postgresql: {host: db.example.com, credentialsSecret: linstor-db}}.
	// +optional
	// +kubebuilder:default={}
	Database DatabaseSpec `json:"database,omitempty"`
	// controller configures the LINSTOR controller. Defaults to LINSTOR's and the operator's own defaults.
	// Example: {passphraseSecret: linstor-passphrase}.
	// +optional
	Controller ControllerSpec `json:"controller,omitempty"`
	// userNamespaces sets whether pods that do not need host access run in user namespaces (hostUsers: false): the
	// LINSTOR controller, the CSI controller and the affinity controller. With Auto, they do once all nodes report
	// support. With Never, they do not. Do not use Auto on hosts with user.max_user_namespaces=0, such as Talos: these
	// report support, but cannot start such pods. Defaults to Never. Example: Auto.
	// +optional
	UserNamespaces nodespec.UserNamespaces `json:"userNamespaces,omitempty"`
	// tls configures TLS for LINSTOR's connections. By default, TLS is enabled in new clusters and left unchanged in
	// existing ones. Example: {mode: Managed}.
	// +optional
	TLS tlsspec.TLSSpec `json:"tls,omitzero"`
	// storagePools are the pools in which LINSTOR places volumes, on all matching nodes. At most 64. Defaults to none.
	// Example: [{name: ssd, lvmThin: {volumeGroup: vg_ssd, thinPool: thin}}].
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:XValidation:rule="self.all(x, !(!has(x.nodeSelector) || x.nodeSelector.size() == 0) || self.exists_one(y, (!has(y.nodeSelector) || y.nodeSelector.size() == 0) && (has(x.pool) ? x.pool : x.name).lowerAscii() == (has(y.pool) ? y.pool : y.name).lowerAscii()))",message="storagePools: two entries create the same LINSTOR pool on all nodes (names are not case-sensitive); use nodeSelectors that do not overlap, or different names"
	// +kubebuilder:validation:XValidation:rule="self.all(x, !(!has(x.nodeSelector) || x.nodeSelector.size() == 0) || self.exists_one(y, (!has(y.nodeSelector) || y.nodeSelector.size() == 0) && (has(x.lvm) ? 'vg ' + x.lvm.volumeGroup : has(x.lvmThin) ? 'thin ' + x.lvmThin.volumeGroup + '/' + x.lvmThin.thinPool : has(x.zfs) ? 'zpool ' + x.zfs.zpool : has(x.zfsThin) ? 'zpool ' + x.zfsThin.zpool : has(x.file) ? 'directory ' + x.file.directory : has(x.fileThin) ? 'directory ' + x.fileThin.directory : x.name) == (has(y.lvm) ? 'vg ' + y.lvm.volumeGroup : has(y.lvmThin) ? 'thin ' + y.lvmThin.volumeGroup + '/' + y.lvmThin.thinPool : has(y.zfs) ? 'zpool ' + y.zfs.zpool : has(y.zfsThin) ? 'zpool ' + y.zfsThin.zpool : has(y.file) ? 'directory ' + y.file.directory : has(y.fileThin) ? 'directory ' + y.fileThin.directory : y.name)))",message="storagePools: two entries use the same volume group, thin pool, zpool or directory on all nodes, so LINSTOR would count its free space twice; use nodeSelectors that do not overlap, or remove one entry"
	StoragePools []StoragePoolSpec `json:"storagePools,omitempty"`
	// volumes configures the CSI driver and StorageClasses. By default, the operator runs the LINSTOR CSI driver, but
	// creates no StorageClasses. Example: {storageClasses: [{name: replicated, default: true}]}.
	// +optional
	// +kubebuilder:default={}
	Volumes volumespec.VolumesSpec `json:"volumes,omitzero"`
	// monitoring configures the objects for the Prometheus Operator. By default, monitors and alerts are created if the
	// Prometheus Operator CRDs are installed. Example: {labels: {release: kube-prometheus-stack}}.
	// +optional
	// +kubebuilder:default={}
	Monitoring monitoringspec.MonitoringSpec `json:"monitoring,omitzero"`
	// backup sets when backups of LINSTOR's database are taken and where they are stored. Requires LINSTOR 1.34 or newer.
	// By default, no backups are taken. Example: {schedule: "0 */6 * * *", s3: {…}}.
	// +optional
	Backup *backupspec.BackupSpec `json:"backup,omitempty"`
	// deletionPolicy sets what happens when this object is deleted. Retain removes the workloads, but keeps LINSTOR's
	// database, pools and disks. Delete also removes pools and nodes from LINSTOR, and allows the next cluster to use a
	// different database. Neither policy removes volume groups, zpools or LINSTOR's own CRDs. Nothing is removed while
	// volumes exist. Defaults to Retain. Example: Delete.
	// +optional
	// +kubebuilder:default=Retain
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`
}

// DeletionPolicy sets what is removed together with the StorageCluster.
// +kubebuilder:validation:Enum=Retain;Delete
type DeletionPolicy string

// Deletion policies.
const (
	// DeletionRetain: keeps LINSTOR's database, pools and disks.
	DeletionRetain DeletionPolicy = "Retain"
	// DeletionDelete: also removes pools and nodes from LINSTOR; keeps the disks.
	DeletionDelete DeletionPolicy = "Delete"
)

// ImagesSpec configures the container image registry.
type ImagesSpec struct {
	// registry is the prefix of all images: host, optional port and path, without a scheme or trailing '/'. At most 255
	// characters. Defaults to quay.io/piraeusdatastore; for the CSI sidecars, to registry.k8s.io/sig-storage; and for
	// etcd, to gcr.io/etcd-development. Example: registry.example.com:5000/mirror.
	// +optional
	// +kubebuilder:default=quay.io/piraeusdatastore
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:[0-9]{1,5})?(/[a-z0-9]+([._-]+[a-z0-9]+)*)*$')",message="registry must be a host with an optional port and path, without a scheme or trailing '/', such as registry.example.com:5000/mirror"
	Registry string `json:"registry,omitempty"`
	// pullSecrets are the names of image pull Secrets in the linstor-storage namespace. At most 16. Defaults to none.
	// Example: [mirror-pull].
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	PullSecrets []SecretName `json:"pullSecrets,omitempty"`
}

// KernelModuleSpec configures how the DRBD kernel module is loaded.
type KernelModuleSpec struct {
	// mode is the source of the module. Defaults to Auto. Example: Preinstalled. Values:
	// - Auto: the module loader for the node's operating system compiles the module if it finds kernel headers in
	//   /usr/src, and otherwise uses a module from its image.
	// - Compile: the loader always compiles the module against the node's kernel headers (/usr/src).
	// - Prebuilt: the loader uses only the modules in its image.
	// - Preinstalled: the nodes provide DRBD 9. The operator only checks that LINSTOR detects it.
	// +optional
	// +kubebuilder:default=Auto
	Mode KernelModuleMode `json:"mode,omitempty"`
	// signingKeySecret names a Secret in linstor-storage with signing_key.pem and signing_key.x509 (DER) keys. For nodes
	// with Secure Boot, the loader uses them to sign the modules that it compiles. The certificate must be enrolled on
	// these nodes. By default, modules are not signed. Example: drbd-signing-key.
	// +optional
	SigningKeySecret SecretName `json:"signingKeySecret,omitempty"`
}

// Platform is the platform of nodes.
// +kubebuilder:validation:Enum=Auto;Generic;Talos;Flatcar;OpenShift;K0s;MicroK8s
type Platform string

// Platforms.
const (
	// PlatformAuto: detected on each node.
	PlatformAuto Platform = "Auto"
	// PlatformGeneric: Linux without special settings.
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

// KernelModuleMode is the source of the DRBD kernel module.
// +kubebuilder:validation:Enum=Auto;Compile;Prebuilt;Preinstalled
type KernelModuleMode string

// Kernel module modes.
const (
	// ModuleAuto: the loader compiles if the node has its kernel headers, and otherwise uses the modules in its image.
	ModuleAuto KernelModuleMode = "Auto"
	// ModuleCompile: the loader compiles against the node's kernel headers.
	ModuleCompile KernelModuleMode = "Compile"
	// ModulePrebuilt: the loader uses only the modules in its image.
	ModulePrebuilt KernelModuleMode = "Prebuilt"
	// ModulePreinstalled: the nodes provide DRBD 9.
	ModulePreinstalled KernelModuleMode = "Preinstalled"
)
