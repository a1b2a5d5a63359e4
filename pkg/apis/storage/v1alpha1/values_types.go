package v1alpha1

// The types below are aliases, so that Go code can use plain strings, while the schema contains their limits wherever
// they are used.

// SecretName is the name of a Secret. If the field is optional, an empty name means no Secret.
// +kubebuilder:validation:MaxLength=253
// +kubebuilder:validation:XValidation:rule="self.size() == 0 || self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="must be the name of a Secret: lowercase letters, digits, '-' and '.', such as linstor-passphrase"
type SecretName = string

// EndpointURL is the client URL of an etcd member.
// +kubebuilder:validation:MaxLength=261
// +kubebuilder:validation:XValidation:rule="self.matches('^http://([A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|[[][0-9A-Fa-f:.]+[]]):[0-9]{1,5}$')",message="endpoints must be URLs of the form http://host:port, such as http://etcd.example.com:2379; https is not supported yet, because the CA certificate that LINSTOR requires for it cannot be set"
type EndpointURL = string

// PoolName is a LINSTOR storage pool name: 3 to 48 characters, starting with a letter or '_', with at least one letter
// (LINSTOR's StorPoolName).
// +kubebuilder:validation:MaxLength=48
// +kubebuilder:validation:XValidation:rule="self.size() >= 3",message="LINSTOR pool names must have 3 to 48 characters: choose a longer name, such as ssd-1"
// +kubebuilder:validation:XValidation:rule="self.size() < 3 || self.matches('^(_[0-9_-]*)?[A-Za-z][A-Za-z0-9_-]*$')",message="must be a LINSTOR pool name: letters, digits, '_' and '-', starting with a letter or '_', with at least one letter, such as ssd-1"
// +kubebuilder:validation:XValidation:rule="!(self.lowerAscii() in ['dfltdisklessstorpool', 'dfltstorpool'])",message="DfltDisklessStorPool and DfltStorPool are reserved for LINSTOR (names are not case-sensitive): choose another pool name",reason=FieldValueForbidden
type PoolName = string

// VolumeGroupName is an LVM volume group or thin pool name that LINSTOR's StorDriver/StorPoolName property accepts.
// LVM itself also allows '.' and '+'; LINSTOR does not.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=127
// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9_][A-Za-z0-9_-]*$')",message="must consist of letters, digits, '_' and '-' and must not start with '-', because LINSTOR does not accept other volume group and thin pool names"
type VolumeGroupName = string

// DevicePattern matches an attribute of a disk; * matches any characters.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=128
type DevicePattern = string
