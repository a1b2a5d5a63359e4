package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// NodesSpec says which nodes take part and how.
type NodesSpec struct {
	// nodeSelector picks the nodes that take part, among those that run Linux. Default: all whose taints are tolerated.
	// +optional
	// +mapType=atomic
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`

	// tolerations let nodes with taints take part. They decide who becomes a member; once a member, a node keeps its
	// satellite whatever taints it gets, because its data is still there.
	// +optional
	// +listType=atomic
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`

	// network is the network that satellites and DRBD use.
	// +optional
	Network NetworkSpec `json:"network,omitempty"`

	// interfaces are additional LINSTOR network interfaces of each node. The interface "default" always exists.
	// +optional
	// +listType=map
	// +listMapKey=name
	Interfaces []InterfaceSpec `json:"interfaces,omitempty"`

	// properties are LINSTOR properties that are set on every node, such as "DrbdOptions/AutoEvictAfterTime": "60".
	// +optional
	// +mapType=granular
	Properties map[string]string `json:"properties,omitempty"`

	// minReady is how many nodes, as a number or a percentage (rounded up), must be through for a phase to go on without
	// the others, and for the cluster to count as usable. Default: all but a tenth, all but one at least, and one at least.
	// +optional
	MinReady *intstr.IntOrString `json:"minReady,omitempty"`
}

// NetworkSpec is the network that satellites and DRBD use.
type NetworkSpec struct {
	// mode is Host (default: satellites use the node's network, so that replication survives a restart of the satellite)
	// or Pod (satellites use the pod network; a restarted satellite cuts replication until it is back).
	// +optional
	Mode NetworkMode `json:"mode,omitempty"`
}

// NetworkMode is the network that satellites and DRBD use.
// +kubebuilder:validation:Enum=Host;Pod
type NetworkMode string

// Network modes.
const (
	NetworkHost NetworkMode = "Host"
	NetworkPod  NetworkMode = "Pod"
)

// InterfaceSpec is one additional LINSTOR network interface of each node.
type InterfaceSpec struct {
	// name is the interface's name in LINSTOR.
	Name string `json:"name"`
	// addressFrom says where a node's address comes from. Nodes without that address have no such interface.
	AddressFrom AddressSource `json:"addressFrom"`
	// preferred makes DRBD replicate over this interface (LINSTOR's node property PrefNic). At most one is preferred.
	// +optional
	Preferred bool `json:"preferred,omitempty"`
}

// AddressSource says where a node's address comes from: exactly one of its fields.
type AddressSource struct {
	// nodeAnnotation is the key of a Node annotation that holds an IP address, such as "example.com/storage-ip".
	// +optional
	NodeAnnotation string `json:"nodeAnnotation,omitempty"`
	// addressType is the type of an address in the Node's status: InternalIP or ExternalIP.
	// +optional
	// +kubebuilder:validation:Enum=InternalIP;ExternalIP
	AddressType corev1.NodeAddressType `json:"addressType,omitempty"`
}
