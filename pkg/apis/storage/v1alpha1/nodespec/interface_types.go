package nodespec

import corev1 "k8s.io/api/core/v1"

// InterfaceSpec is one additional LINSTOR network interface of each node.
type InterfaceSpec struct {
	// name is the interface's name in LINSTOR: 3 to 32 letters, digits, '_' and '-', beginning with a letter or '_' (LINSTOR's
	// NetInterfaceName). No default. Example: storage.
	// +kubebuilder:validation:MinLength=3
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^(_[0-9_-]*)?[A-Za-z][A-Za-z0-9_-]*$')",message="name must consist of letters, digits, '_' and '-', begin with a letter or '_' and have at least one letter, such as storage"
	// +kubebuilder:validation:XValidation:rule="self.lowerAscii() != 'default'",message="name: the interface default always exists and belongs to the operator: choose another name",reason=FieldValueForbidden
	Name string `json:"name"`
	// addressFrom says where a node's address comes from. Nodes without that address have no such interface. No default.
	// Example: {nodeAnnotation: example.com/storage-ip}.
	AddressFrom AddressSource `json:"addressFrom"`
	// preferred makes DRBD replicate over this interface (LINSTOR's node property PrefNic). At most one is preferred.
	// Default: false. Example: true.
	// +optional
	// +kubebuilder:default=false
	Preferred bool `json:"preferred,omitempty"`
}

// AddressSource says where a node's address comes from: exactly one of its fields.
// +kubebuilder:validation:XValidation:rule="has(self.nodeAnnotation) != has(self.addressType)",message="addressFrom takes exactly one of nodeAnnotation and addressType"
type AddressSource struct {
	// nodeAnnotation is the key of a Node annotation that holds an IP address. Default: not used.
	// Example: example.com/storage-ip.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:XValidation:rule="self.matches('^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$')",message="nodeAnnotation must be the key of an annotation, such as example.com/storage-ip"
	NodeAnnotation string `json:"nodeAnnotation,omitempty"`
	// addressType is the type of an address in the Node's status: InternalIP or ExternalIP. Default: not used.
	// Example: ExternalIP.
	// +optional
	// +kubebuilder:validation:Enum=InternalIP;ExternalIP
	AddressType corev1.NodeAddressType `json:"addressType,omitempty"`
}
