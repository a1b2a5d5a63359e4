package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/nodespec"
)

// NodesSpec says which nodes take part and how.
type NodesSpec struct {
	// nodeSelector picks the nodes that take part by their labels, among those that run Linux. Up to 20 labels.
	// Default: all nodes whose taints are tolerated. Example: {"node-role.kubernetes.io/storage": ""}.
	// +optional
	// +mapType=atomic
	// +kubebuilder:validation:MaxProperties=20
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.size() > 0 && k.size() <= 317 && self[k].size() <= 63)",message="nodeSelector: a label's key has 1 to 317 characters, its value at most 63"
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
	// nodeAffinity picks them by expressions on their labels as well, as Kubernetes' node affinity does: one of its terms must
	// be true. Default: all nodes. Example: {nodeSelectorTerms: [{matchExpressions: [{key: no-storage, operator: DoesNotExist}]}]}.
	// +optional
	NodeAffinity *nodespec.NodeAffinity `json:"nodeAffinity,omitempty"`
	// tolerations let nodes with taints take part. They decide who becomes a member; once a member, a node keeps its
	// satellite whatever taints it gets, because its data is still there. Up to 32. Default: none.
	// Example: [{key: node-role.kubernetes.io/storage, operator: Exists, effect: NoSchedule}].
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Tolerations []Toleration `json:"tolerations,omitempty"`
	// network is the network that satellites and DRBD use. Default: {mode: Host}.
	// +optional
	// +kubebuilder:default={}
	Network nodespec.NetworkSpec `json:"network,omitempty"`
	// interfaces are additional LINSTOR network interfaces of each node, up to eight. The interface "default" always exists.
	// Default: none. Example: [{name: storage, addressFrom: {nodeAnnotation: example.com/storage-ip}, preferred: true}].
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:XValidation:rule="self.filter(i, has(i.preferred) && i.preferred).size() <= 1",message="interfaces: at most one can be preferred: set preferred on the one that DRBD shall use"
	// +kubebuilder:validation:XValidation:rule="self.all(i, self.exists_one(j, i.name.lowerAscii() == j.name.lowerAscii()))",message="interfaces: two names differ in case only, which LINSTOR takes for the same: rename one"
	Interfaces []nodespec.InterfaceSpec `json:"interfaces,omitempty"`
	// satellite configures the pods of the satellites. Default: {}. Example: {resources: {limits: {memory: 1Gi}}}.
	// +optional
	Satellite SatelliteSpec `json:"satellite,omitempty,omitzero"`
	// properties are LINSTOR properties that are set on every node. Up to 64, keys up to 256 characters. Default: none.
	// Example: {"DrbdOptions/AutoEvictAfterTime": "60"} (minutes).
	// +optional
	// +mapType=granular
	// +kubebuilder:validation:MaxProperties=64
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.size() > 0 && k.size() <= 256 && self[k].size() <= 4096)",message="properties: a key must have 1 to 256 characters, a value at most 4096: LINSTOR stores no longer ones"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.startsWith('Aux/storage.linstor.dev/'))",message="properties: keys under Aux/storage.linstor.dev/ are the operator's own notes: choose another key",reason=FieldValueForbidden
	// +kubebuilder:validation:XValidation:rule="!('PrefNic' in self)",message="properties: PrefNic follows interfaces[].preferred: set preferred on an interface instead",reason=FieldValueForbidden
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.startsWith('NetCom/') && !k.startsWith('Satellite/') && !(k in ['CurStltConnName', 'NodeUname']))",message="properties: CurStltConnName, NodeUname, NetCom/ and Satellite/ are set by LINSTOR itself: remove the key",reason=FieldValueForbidden
	Properties map[string]string `json:"properties,omitempty"`
	// minReady is how many nodes, as a number from 1 to 100000 or a percentage from 1% to 100% (rounded up), must be through for a
	// phase to go on without the others, and for the cluster to count as usable. A number above that of the nodes means all of them.
	// Nodes that are added to an installed cluster count once they were ONLINE, or after 15 minutes.
	// Default: all but a tenth, all but one at least, and one at least. Example: 90%.
	// +optional
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 1 && self <= 100000 : string(self).matches('^([1-9][0-9]?|100)%$')",message="minReady must be a number from 1 to 100000 or a percentage from 1% to 100%, such as 3 or 90%"
	MinReady *intstr.IntOrString `json:"minReady,omitempty"`
	// removalPolicy says what happens to the data of a node that leaves: one that nodeSelector, nodeAffinity or tolerations no longer pick, or
	// whose Node object is deleted. Retain keeps its satellite, its registration in LINSTOR and its data. Evacuate lets LINSTOR
	// rebuild its data on other nodes and then removes the node from LINSTOR. Remove takes a node out of LINSTOR that holds no
	// data, and waits for the others to be emptied. Neither ever removes the last up-to-date copy of a volume.
	// A node that LINSTOR does not know yet just loses its pods, under each policy.
	// Default: Retain. Example: Evacuate.
	// +optional
	// +kubebuilder:default=Retain
	RemovalPolicy NodeRemovalPolicy `json:"removalPolicy,omitempty"`
	// maxConcurrentEvacuations is how many nodes are evacuated at the same time, from 1 to 64. Each one adds load on disks and
	// network. Default: 1. Example: 2.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=64
	MaxConcurrentEvacuations int32 `json:"maxConcurrentEvacuations,omitempty"`
	// lostAfter is how long a node whose Node object is deleted must have been offline before the operator declares it lost in
	// LINSTOR, which forgets its copies. It takes removalPolicy Evacuate or Remove, and is never done for a node that holds the
	// last up-to-date copy of a volume or the only copy of a snapshot, or that another node still has a connection to. A duration of
	// at least one minute, in hours, minutes or seconds; days are written as hours.
	// Default: never; a human is asked. Example: 24h.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=20
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,6}([.][0-9]{1,9})?[hms])+$')",message="lostAfter must be a duration in hours, minutes or seconds, such as 24h; days are written as hours"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^([0-9]{1,6}([.][0-9]{1,9})?[hms])+$') || duration(self) >= duration('1m')",message="lostAfter must be at least 1m, such as 24h"
	LostAfter *metav1.Duration `json:"lostAfter,omitempty"`
}

// NodeRemovalPolicy says what happens to the data of a node that leaves.
// +kubebuilder:validation:Enum=Retain;Evacuate;Remove
type NodeRemovalPolicy string

// Node removal policies.
const (
	// NodesRetain: keeps satellite, registration and data of a node that leaves.
	NodesRetain NodeRemovalPolicy = "Retain"
	// NodesEvacuate: lets LINSTOR rebuild the data elsewhere, then removes the node from LINSTOR.
	NodesEvacuate NodeRemovalPolicy = "Evacuate"
	// NodesRemove: removes a node from LINSTOR that holds no data, and waits for the others to be emptied.
	NodesRemove NodeRemovalPolicy = "Remove"
)

// SatelliteSpec configures the pods of the satellites.
type SatelliteSpec struct {
	// resources are the satellite container's requests and limits. Java's heap is 3/4 of the memory limit (512Mi or more). A change
	// restarts the satellites, a few at a time. Default: {requests: {cpu: 50m, memory: 256Mi}, limits: {memory: 3Gi}}.
	// Example: {requests: {memory: 512Mi}, limits: {memory: 1Gi}}.
	// +optional
	Resources Resources `json:"resources,omitempty"`
}

// IsZero reports whether nothing is given: empty limits mean nothing, and must not make another spec.
func (s SatelliteSpec) IsZero() bool { return len(s.Resources.Limits)+len(s.Resources.Requests) == 0 }

// The types below are Kubernetes' own, as far as a StorageCluster needs them, with all the rules by which Kubernetes judges pods:
// what it would refuse in a pod is refused in the spec already.

// Toleration lets nodes with a taint take part.
// +kubebuilder:validation:XValidation:rule="(has(self.key) && self.key.size() > 0) || (has(self.operator) && self.operator == 'Exists')",message="tolerations: without a key the operator must be Exists, which tolerates every taint",fieldPath=.operator
// +kubebuilder:validation:XValidation:rule="!has(self.operator) || self.operator != 'Exists' || !has(self.value) || self.value.size() == 0",message="tolerations: operator Exists takes no value: remove the value or use Equal",fieldPath=.value
// +kubebuilder:validation:XValidation:rule="!has(self.tolerationSeconds) || (has(self.effect) && self.effect == 'NoExecute')",message="tolerations: tolerationSeconds goes with effect NoExecute only: remove it or set the effect",fieldPath=.tolerationSeconds
type Toleration struct {
	// key is the taint's key. Default: every key, which takes operator Exists. Example: node-role.kubernetes.io/storage.
	// +optional
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:XValidation:rule="self.size() == 0 || (self.split('/')[0].size() <= 253 && self.matches('^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$'))",message="key must be a taint's key, such as node-role.kubernetes.io/storage"
	Key string `json:"key,omitempty"`
	// operator compares: Equal wants the taint's value, Exists takes any. Default: Equal. Example: Exists.
	// +optional
	// +kubebuilder:validation:Enum=Exists;Equal
	Operator corev1.TolerationOperator `json:"operator,omitempty"`
	// value is the taint's value. Default: empty. Example: "true".
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$')",message="value must be a taint's value: letters, digits, '-', '_' and '.', with a letter or digit at both ends"
	Value string `json:"value,omitempty"`
	// effect is the taint's effect. Default: every effect. Example: NoSchedule.
	// +optional
	// +kubebuilder:validation:Enum=NoSchedule;PreferNoSchedule;NoExecute
	Effect corev1.TaintEffect `json:"effect,omitempty"`
	// tolerationSeconds is how long LINSTOR's controller stays on a node that gets such a taint with effect NoExecute;
	// satellites stay in any case. Default: forever. Example: 300.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	TolerationSeconds *int64 `json:"tolerationSeconds,omitempty"`
}

// Resources are what a container asks for and may use.
// +kubebuilder:validation:XValidation:rule="!has(self.requests) || !has(self.limits) || ['cpu', 'memory', 'ephemeral-storage'].all(k, !(k in self.requests) || !(k in self.limits) || [string(self.requests[k]), string(self.limits[k])].exists(q, q.size() > 24 || q.contains('e') || q.contains('E') || !isQuantity(q)) || quantity(string(self.requests[k])).compareTo(quantity(string(self.limits[k]))) <= 0)",message="resources: requests must not be larger than limits, or no pod can be made: raise the limit or lower the request"
type Resources struct {
	// limits are what the container may use at most; 0 is no limit. Default: see the field. Example: {memory: 2Gi}.
	// +optional
	Limits ResourceAmounts `json:"limits,omitempty"`
	// requests are what a node must have left for the container. Default: see the field. Example: {cpu: 200m, memory: 1Gi}.
	// +optional
	Requests ResourceAmounts `json:"requests,omitempty"`
}

// ResourceAmounts are amounts by the resource's name: cpu, memory and ephemeral-storage. Exponents are refused, because reading
// 1e-9999999 takes half a minute, and amounts from 8Ei on, because apimachinery writes 1000000P as 1.
// +kubebuilder:validation:MaxProperties=3
// +kubebuilder:validation:XValidation:rule="self.all(k, k in ['cpu', 'memory', 'ephemeral-storage'])",message="resources: only cpu, memory and ephemeral-storage can be given: remove the other names"
// +kubebuilder:validation:XValidation:rule="self.all(k, [string(self[k])].exists(q, q.size() <= 24 && q.matches('^[+]?([0-9]+[.]?[0-9]*|[.][0-9]+)([KMGTP]i|[numkMGTP])?$')))",message="resources: an amount must be a number, directly followed by a unit (m, k, M, G, T, P, Ki, Mi, Gi, Ti or Pi) or by none, such as 500m or 1Gi; not negative, without exponent and of at most 24 characters",messageExpression="'resources: an amount must be a number, directly followed by a unit (m, k, M, G, T, P, Ki, Mi, Gi, Ti or Pi) or by none, such as 500m or 1Gi; not negative, without exponent and of at most 24 characters: ' + self.map(k, ![string(self[k])].exists(q, q.size() <= 24 && q.matches('^[+]?([0-9]+[.]?[0-9]*|[.][0-9]+)([KMGTP]i|[numkMGTP])?$')), k + ' is ' + string(self[k]))[0]"
// +kubebuilder:validation:XValidation:rule="self.all(k, [string(self[k])].exists(q, q.size() > 24 || q.contains('e') || q.contains('E') || !isQuantity(q) || quantity(q).isLessThan(quantity('8Ei'))))",message="resources: amounts must be less than 8Ei"
// +mapType=granular
type ResourceAmounts map[corev1.ResourceName]resource.Quantity
