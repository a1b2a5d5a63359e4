package nodespec

import corev1 "k8s.io/api/core/v1"

// InterfaceSpec is an additional LINSTOR network interface on each node.
type InterfaceSpec struct {
	// name is the name of the interface in LINSTOR: 3 to 32 letters, digits, '_' and '-', starting with a letter or '_'
	// (LINSTOR's NetInterfaceName). Required, no default. Example: storage.
	// +kubebuilder:validation:MinLength=3
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^(_[0-9_-]*)?[A-Za-z][A-Za-z0-9_-]*$')",message="name must consist of letters, digits, '_' and '-', start with a letter or '_' and contain at least one letter, such as storage"
	// +kubebuilder:validation:XValidation:rule="self.lowerAscii() != 'default'",message="name: the default interface always exists and is reserved for the operator; choose another name",reason=FieldValueForbidden
	Name string `json:"name"`
	// addressFrom is the source of a node's address on this interface. Nodes without such an address do not get the
	// interface. Required, no default. Example: {nodeAnnotation: example.com/storage-ip}.
	AddressFrom AddressSource `json:"addressFrom"`
	// preferred makes DRBD replicate over this interface (LINSTOR's PrefNic node property). At most one interface is
	// preferred. Defaults to false. Example: true.
	// +optional
	// +kubebuilder:default=false
	Preferred bool `json:"preferred,omitempty"`
}

// AddressSource is the source of a node's address. Exactly one field must be set.
// +kubebuilder:validation:XValidation:rule="has(self.nodeAnnotation) != has(self.addressType)",message="addressFrom: set exactly one of nodeAnnotation and addressType"
type AddressSource struct {
	// nodeAnnotation is the key of a Node annotation that contains an IP address. Not used by default.
	// Example: example.com/storage-ip.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:XValidation:rule="self.matches('^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$')",message="nodeAnnotation must be an annotation key, such as example.com/storage-ip"
	NodeAnnotation string `json:"nodeAnnotation,omitempty"`
	// addressType is the type of the address in the Node's status: InternalIP or ExternalIP. Not used by default.
	// Example: ExternalIP.
	// +optional
	// +kubebuilder:validation:Enum=InternalIP;ExternalIP
	AddressType corev1.NodeAddressType `json:"addressType,omitempty"`
}
