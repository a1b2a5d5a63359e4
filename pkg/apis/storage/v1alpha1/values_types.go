package v1alpha1

// The types below are aliases, so that programs use plain strings, while the schema carries their bounds at each
// place.

// SecretName names a Secret. It may be empty where the field is optional, which means none.
// +kubebuilder:validation:MaxLength=253
// +kubebuilder:validation:XValidation:rule="self.size() == 0 || self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="must be the name of a Secret: lower-case letters, digits, '-' and '.', such as linstor-passphrase"
type SecretName = string

// EndpointURL is the client URL of an etcd member.
// +kubebuilder:validation:MaxLength=261
// +kubebuilder:validation:XValidation:rule="self.matches('^http://([A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|[[][0-9A-Fa-f:.]+[]]):[0-9]{1,5}$')",message="endpoints must be URLs of the form http://host:port, such as http://etcd.example.com:2379; LINSTOR speaks TLS to etcd only with a CA certificate, which cannot be given yet"
type EndpointURL = string

// PoolName is a storage pool's name by LINSTOR's rules: 3 to 48 characters, the first a letter or '_', at least one
// letter (LINSTOR's StorPoolName).
// +kubebuilder:validation:MaxLength=48
// +kubebuilder:validation:XValidation:rule="self.size() >= 3",message="LINSTOR's pool names have 3 to 48 characters: choose a longer one, such as ssd-1"
// +kubebuilder:validation:XValidation:rule="self.size() < 3 || self.matches('^(_[0-9_-]*)?[A-Za-z][A-Za-z0-9_-]*$')",message="must be a LINSTOR pool name: letters, digits, '_' and '-', beginning with a letter or '_', with at least one letter, such as ssd-1"
// +kubebuilder:validation:XValidation:rule="!(self.lowerAscii() in ['dfltdisklessstorpool', 'dfltstorpool'])",message="DfltDisklessStorPool and DfltStorPool belong to LINSTOR itself (names are compared without case): choose another pool name",reason=FieldValueForbidden
type PoolName = string

// VolumeGroupName is the name of an LVM volume group or thin pool as LINSTOR's property StorDriver/StorPoolName takes
// it: LVM itself also allows '.' and '+', LINSTOR does not.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=127
// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9_][A-Za-z0-9_-]*$')",message="must consist of letters, digits, '_' and '-' and not begin with '-': LINSTOR accepts no other characters in names of volume groups and thin pools"
type VolumeGroupName = string

// DevicePattern matches a text that a disk reports; * stands for any characters.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=128
type DevicePattern = string
