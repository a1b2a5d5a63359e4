// Package nodespec is what a StorageCluster says of its nodes: the network, expressions that pick nodes, and what pods
// get of them.
//
// +kubebuilder:object:generate=true
// +groupName=storage.linstor.dev
// +versionName=v1alpha1
package nodespec

// NetworkSpec is the network that satellites and DRBD use.
type NetworkSpec struct {
	// mode is Host (satellites use the node's network, so that replication survives a restart of the satellite) or Pod
	// (satellites use the pod network; a restarted satellite cuts replication until it is back). Default: Host. Example: Pod.
	// +optional
	// +kubebuilder:default=Host
	Mode NetworkMode `json:"mode,omitempty"`
}

// NetworkMode is the network that satellites and DRBD use.
// +kubebuilder:validation:Enum=Host;Pod
type NetworkMode string

// Network modes.
const (
	// NetworkHost: satellites use the node's network; replication survives their restart.
	NetworkHost NetworkMode = "Host"
	// NetworkPod: satellites use the pod network; their restart interrupts replication.
	NetworkPod NetworkMode = "Pod"
)

// UserNamespaces says whether pods get user namespaces.
// +kubebuilder:validation:Enum=Auto;Never
type UserNamespaces string

// Ways to give pods user namespaces.
const (
	// UserNamespacesAuto: once every node reports that it can start such pods.
	UserNamespacesAuto UserNamespaces = "Auto"
	// UserNamespacesNever: pods use the host's users.
	UserNamespacesNever UserNamespaces = "Never"
)
