package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// StorageCluster is a LINSTOR cluster on the nodes of this Kubernetes cluster. There is exactly one, named "linstor".
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,path=storageclusters,shortName=lsc
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Nodes",type=string,JSONPath=`.status.nodes.summary`
// +kubebuilder:printcolumn:name="Pools",type=string,JSONPath=`.status.pools.summary`
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

	// spec is the wanted state.
	// +optional
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
type StorageClusterSpec struct {
	// version is the LINSTOR version, such as "1.35.3". Default: the newest in the operator's catalogue when the cluster is
	// first accepted, kept in status.version; an operator that knows a newer one never moves a running cluster.
	// +optional
	Version string `json:"version,omitempty"`

	// images says where container images come from.
	// +optional
	Images ImagesSpec `json:"images,omitempty"`

	// suspend stops every change in every phase, deletion included; the operator goes on to observe and report. Default: false.
	// +optional
	Suspend bool `json:"suspend,omitempty"`

	// nodes says which nodes take part and how.
	// +optional
	Nodes NodesSpec `json:"nodes,omitempty"`

	// kernelModule says how the DRBD kernel module comes onto the nodes.
	// +optional
	KernelModule KernelModuleSpec `json:"kernelModule,omitempty"`

	// database is where LINSTOR keeps its state. Default: kubernetes. It cannot be changed once the cluster is accepted.
	// +optional
	Database DatabaseSpec `json:"database,omitempty"`

	// controller configures the LINSTOR controller.
	// +optional
	Controller ControllerSpec `json:"controller,omitempty"`

	// storagePools are the pools that LINSTOR places volumes in, on each node that matches.
	// +optional
	// +listType=map
	// +listMapKey=name
	StoragePools []StoragePoolSpec `json:"storagePools,omitempty"`

	// deletionPolicy says what happens when this object is deleted. Retain (default) removes the workloads and leaves
	// LINSTOR's database, pools and disks as they are; Delete also deregisters pools and nodes in LINSTOR. Neither removes
	// volume groups, zpools or LINSTOR's own CustomResourceDefinitions, and neither removes anything while volumes exist.
	// +optional
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`
}

// DeletionPolicy says what is removed together with the StorageCluster.
// +kubebuilder:validation:Enum=Retain;Delete
type DeletionPolicy string

// Deletion policies.
const (
	DeletionRetain DeletionPolicy = "Retain"
	DeletionDelete DeletionPolicy = "Delete"
)

// ImagesSpec says where container images come from.
type ImagesSpec struct {
	// registry is the prefix of all images, such as "registry.example.com/mirror". Default: quay.io/piraeusdatastore.
	// +optional
	Registry string `json:"registry,omitempty"`
	// pullSecrets are names of image pull Secrets in the namespace linstor-storage.
	// +optional
	// +listType=set
	PullSecrets []string `json:"pullSecrets,omitempty"`
}

// KernelModuleSpec says how the DRBD kernel module comes onto the nodes.
type KernelModuleSpec struct {
	// mode is one of
	// Auto (default): a module loader built for the node's operating system tries a prebuilt module and compiles it otherwise;
	// Compile: always compile against the node's kernel headers (/usr/src);
	// Prebuilt: only the modules shipped in the loader image;
	// Preinstalled: the nodes bring DRBD 9 themselves, the operator only checks that LINSTOR sees it.
	// +optional
	Mode KernelModuleMode `json:"mode,omitempty"`
}

// KernelModuleMode says how the DRBD kernel module comes onto the nodes.
// +kubebuilder:validation:Enum=Auto;Compile;Prebuilt;Preinstalled
type KernelModuleMode string

// Kernel module modes.
const (
	ModuleAuto         KernelModuleMode = "Auto"
	ModuleCompile      KernelModuleMode = "Compile"
	ModulePrebuilt     KernelModuleMode = "Prebuilt"
	ModulePreinstalled KernelModuleMode = "Preinstalled"
)
