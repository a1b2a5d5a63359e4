// Package nodespec defines parts of the spec of a StorageCluster that concern nodes: the network, node affinity and
// user namespaces.
//
// +kubebuilder:object:generate=true
// +groupName=storage.linstor.dev
// +versionName=v1alpha1
package nodespec

// NetworkSpec is the network that satellites and DRBD use.
type NetworkSpec struct {
	// mode is Host or Pod. With Host, satellites use the host network, and replication continues while a satellite
	// restarts. With Pod, satellites use the pod network, and replication stops while a satellite restarts. Defaults to
	// Host. Example: Pod.
	// +optional
	// +kubebuilder:default=Host
	Mode NetworkMode `json:"mode,omitempty"`
}

// NetworkMode is the network that satellites and DRBD use.
// +kubebuilder:validation:Enum=Host;Pod
type NetworkMode string

// Network modes.
const (
	// NetworkHost: satellites use the host network; replication continues while they restart.
	NetworkHost NetworkMode = "Host"
	// NetworkPod: satellites use the pod network; replication stops while they restart.
	NetworkPod NetworkMode = "Pod"
)

// UserNamespaces sets whether pods run in user namespaces.
// +kubebuilder:validation:Enum=Auto;Never
type UserNamespaces string

// User namespace modes.
const (
	// UserNamespacesAuto: once every node reports that it can start such pods.
	UserNamespacesAuto UserNamespaces = "Auto"
	// UserNamespacesNever: pods use the host's user namespace.
	UserNamespacesNever UserNamespaces = "Never"
)
