package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/nodespec"
)

// NodesSpec selects and configures the nodes of the cluster.
type NodesSpec struct {
	// nodeSelector selects the nodes of the cluster by their labels. Only Linux nodes are selected. At most 20 labels.
	// Defaults to all nodes whose taints are tolerated. Example: {"node-role.kubernetes.io/storage": ""}.
	// +optional
	// +mapType=atomic
	// +kubebuilder:validation:MaxProperties=20
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.size() > 0 && k.size() <= 317 && self[k].size() <= 63)",message="nodeSelector: a label key must have 1 to 317 characters, and a value at most 63"
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
	// nodeAffinity further restricts the selected nodes by label expressions, like node affinity in Kubernetes: a node
	// must match at least one of the terms. Defaults to no restriction.
	// Example: {nodeSelectorTerms: [{matchExpressions: [{key: no-storage, operator: DoesNotExist}]}]}.
	// +optional
	NodeAffinity *nodespec.NodeAffinity `json:"nodeAffinity,omitempty"`
	// tolerations allow nodes with taints to become members. A member keeps its satellite regardless of taints that are
	// added later, because its data is still on the node. At most 32. Defaults to none.
	// Example: [{key: node-role.kubernetes.io/storage, operator: Exists, effect: NoSchedule}].
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Tolerations []Toleration `json:"tolerations,omitempty"`
	// network is the network that satellites and DRBD use. Defaults to {mode: Host}.
	// +optional
	// +kubebuilder:default={}
	Network nodespec.NetworkSpec `json:"network,omitempty"`
	// interfaces are additional LINSTOR network interfaces on each node. At most 8. The "default" interface always
	// exists. Defaults to none.
	// Example: [{name: storage, addressFrom: {nodeAnnotation: example.com/storage-ip}, preferred: true}].
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:XValidation:rule="self.filter(i, has(i.preferred) && i.preferred).size() <= 1",message="interfaces: at most one can be preferred; set preferred only on the one that DRBD should use"
	// +kubebuilder:validation:XValidation:rule="self.all(i, self.exists_one(j, i.name.lowerAscii() == j.name.lowerAscii()))",message="interfaces: two names differ only in case, but LINSTOR treats them as the same name; rename one"
	Interfaces []nodespec.InterfaceSpec `json:"interfaces,omitempty"`
	// satellite configures the satellite pods. Defaults to {}. Example: {resources: {limits: {memory: 1Gi}}}.
	// +optional
	Satellite SatelliteSpec `json:"satellite,omitempty,omitzero"`
	// properties are LINSTOR properties to set on each node. At most 64, with keys of up to 256 characters. Defaults to
	// none. Example: {"DrbdOptions/AutoEvictAfterTime": "60"} (minutes).
	// +optional
	// +mapType=granular
	// +kubebuilder:validation:MaxProperties=64
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.size() > 0 && k.size() <= 256 && self[k].size() <= 4096)",message="properties: a key must have 1 to 256 characters, and a value at most 4096, because LINSTOR cannot store more"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.startsWith('Aux/storage.linstor.dev/'))",message="properties: keys under Aux/storage.linstor.dev/ are reserved for the operator; choose another key",reason=FieldValueForbidden
	// +kubebuilder:validation:XValidation:rule="!('PrefNic' in self)",message="properties: the operator sets PrefNic from interfaces[].preferred; set preferred on an interface instead",reason=FieldValueForbidden
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.startsWith('NetCom/') && !k.startsWith('Satellite/') && !(k in ['CurStltConnName', 'NodeUname']))",message="properties: CurStltConnName, NodeUname, NetCom/ and Satellite/ are set by LINSTOR itself; remove the key",reason=FieldValueForbidden
	Properties map[string]string `json:"properties,omitempty"`
	// minReady is the number of nodes that must complete a phase before the operator continues without the others. The
	// same number must be online for the cluster to be usable. A number from 1 to 100000, or a percentage from 1% to 100%
	// (rounded up). If it exceeds the number of nodes, all nodes are required. Nodes that are added to an installed
	// cluster count once they have been ONLINE, or after 15 minutes. By default, one node or a tenth of the nodes may be
	// missing, whichever is more, but at least one node is required. Example: 90%.
	// +optional
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 1 && self <= 100000 : string(self).matches('^([1-9][0-9]?|100)%$')",message="minReady must be a number from 1 to 100000 or a percentage from 1% to 100%, such as 3 or 90%"
	MinReady *intstr.IntOrString `json:"minReady,omitempty"`
	// removalPolicy sets what happens to a leaving node's data. A node leaves if nodeSelector, nodeAffinity or
	// tolerations no longer select it, or if its Node object is deleted. No policy ever removes the last up-to-date
	// replica of a volume. If the node has not been registered in LINSTOR yet, only its pods are removed. Defaults to
	// Retain. Example: Evacuate. Values:
	// - Retain: keeps the node's satellite, its registration in LINSTOR and its data.
	// - Evacuate: LINSTOR rebuilds the data on other nodes, then the operator removes the node from LINSTOR.
	// - Remove: removes the node from LINSTOR if it has no data. Otherwise, the node remains until it is empty.
	// +optional
	// +kubebuilder:default=Retain
	RemovalPolicy NodeRemovalPolicy `json:"removalPolicy,omitempty"`
	// maxConcurrentEvacuations is the maximum number of nodes to evacuate at the same time, from 1 to 64. Each evacuation
	// puts load on disks and the network. Defaults to 1. Example: 2.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=64
	MaxConcurrentEvacuations int32 `json:"maxConcurrentEvacuations,omitempty"`
	// lostAfter is how long a node whose Node object has been deleted must be offline before the operator declares it
	// lost, which removes the node and its replicas from LINSTOR. Requires removalPolicy Evacuate or Remove. The operator
	// never does this if the node has the last up-to-date replica of a volume or the only copy of a snapshot, or if
	// another node is still connected to it. A duration of at least one minute, in hours, minutes or seconds; write days
	// as hours. By default, a hold requires approval instead. Example: 24h.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=20
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,6}([.][0-9]{1,9})?[hms])+$')",message="lostAfter must be a duration in hours, minutes or seconds, such as 24h; write days as hours"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^([0-9]{1,6}([.][0-9]{1,9})?[hms])+$') || duration(self) >= duration('1m')",message="lostAfter must be at least 1m, such as 24h"
	LostAfter *metav1.Duration `json:"lostAfter,omitempty"`
}

// NodeRemovalPolicy sets what happens to a leaving node's data.
// +kubebuilder:validation:Enum=Retain;Evacuate;Remove
type NodeRemovalPolicy string

// Node removal policies.
const (
	// NodesRetain: keeps the satellite, the registration and the data of a leaving node.
	NodesRetain NodeRemovalPolicy = "Retain"
	// NodesEvacuate: LINSTOR rebuilds the data on other nodes, then the node is removed from LINSTOR.
	NodesEvacuate NodeRemovalPolicy = "Evacuate"
	// NodesRemove: removes nodes without data from LINSTOR; other nodes remain until they are empty.
	NodesRemove NodeRemovalPolicy = "Remove"
)

// SatelliteSpec configures the satellite pods.
type SatelliteSpec struct {
	// resources are the resource requests and limits of the satellite container. The memory limit must be at least 512Mi;
	// the Java heap gets up to 3/4 of it. A change restarts the satellites, a few at a time. Defaults to
	// {requests: {cpu: 50m, memory: 256Mi}, limits: {memory: 3Gi}}.
	// Example: {requests: {memory: 512Mi}, limits: {memory: 1Gi}}.
	// +optional
	Resources Resources `json:"resources,omitempty"`
}

// IsZero reports whether no resources are set. Empty limits have no effect, and must not count as a change of the
// spec.
func (s SatelliteSpec) IsZero() bool { return len(s.Resources.Limits)+len(s.Resources.Requests) == 0 }

// The types below mirror those of Kubernetes, as far as a StorageCluster needs them, with all of Kubernetes'
// validation rules for pods: the spec cannot contain anything that Kubernetes would reject in a pod.

// Toleration allows nodes with a taint to become members.
// +kubebuilder:validation:XValidation:rule="(has(self.key) && self.key.size() > 0) || (has(self.operator) && self.operator == 'Exists')",message="tolerations: without a key, the operator must be Exists, which tolerates every taint",fieldPath=.operator
// +kubebuilder:validation:XValidation:rule="!has(self.operator) || self.operator != 'Exists' || !has(self.value) || self.value.size() == 0",message="tolerations: the Exists operator takes no value; remove the value, or use Equal",fieldPath=.value
// +kubebuilder:validation:XValidation:rule="!has(self.tolerationSeconds) || (has(self.effect) && self.effect == 'NoExecute')",message="tolerations: tolerationSeconds requires effect NoExecute; remove it, or set the effect",fieldPath=.tolerationSeconds
type Toleration struct {
	// key is the key of the taint. Defaults to all keys, which requires the Exists operator.
	// Example: node-role.kubernetes.io/storage.
	// +optional
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:XValidation:rule="self.size() == 0 || (self.split('/')[0].size() <= 253 && self.matches('^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$'))",message="key must be a taint key, such as node-role.kubernetes.io/storage"
	Key string `json:"key,omitempty"`
	// operator is Equal (the taint must have this value) or Exists (the taint may have any value). Defaults to Equal.
	// Example: Exists.
	// +optional
	// +kubebuilder:validation:Enum=Exists;Equal
	Operator corev1.TolerationOperator `json:"operator,omitempty"`
	// value is the value of the taint. Defaults to empty. Example: "true".
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$')",message="value must be a taint value: letters, digits, '-', '_' and '.', starting and ending with a letter or digit"
	Value string `json:"value,omitempty"`
	// effect is the effect of the taint. Defaults to all effects. Example: NoSchedule.
	// +optional
	// +kubebuilder:validation:Enum=NoSchedule;PreferNoSchedule;NoExecute
	Effect corev1.TaintEffect `json:"effect,omitempty"`
	// tolerationSeconds is how long the LINSTOR controller stays on a node with such a NoExecute taint. Satellites always
	// stay. By default, the controller stays indefinitely. Example: 300.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	TolerationSeconds *int64 `json:"tolerationSeconds,omitempty"`
}

// Resources are the resource requests and limits of a container.
// +kubebuilder:validation:XValidation:rule="!has(self.requests) || !has(self.limits) || ['cpu', 'memory', 'ephemeral-storage'].all(k, !(k in self.requests) || !(k in self.limits) || [string(self.requests[k]), string(self.limits[k])].exists(q, q.size() > 24 || q.contains('e') || q.contains('E') || !isQuantity(q)) || quantity(string(self.requests[k])).compareTo(quantity(string(self.limits[k]))) <= 0)",message="resources: requests must not exceed limits, or pods cannot be created; raise the limit, or lower the request"
type Resources struct {
	// limits are the maximum amounts that the container may use; 0 means no limit. The default depends on the field.
	// Example: {memory: 2Gi}.
	// +optional
	Limits ResourceAmounts `json:"limits,omitempty"`
	// requests are the amounts that a node must have available for the container. The default depends on the field.
	// Example: {cpu: 200m, memory: 1Gi}.
	// +optional
	Requests ResourceAmounts `json:"requests,omitempty"`
}

// ResourceAmounts are amounts by resource name: cpu, memory and ephemeral-storage. Exponents are rejected, because
// parsing 1e-9999999 takes half a minute. Amounts of 8Ei or more are rejected, because apimachinery writes 1000000P as
// 1.
// +kubebuilder:validation:MaxProperties=3
// +kubebuilder:validation:XValidation:rule="self.all(k, k in ['cpu', 'memory', 'ephemeral-storage'])",message="resources: only cpu, memory and ephemeral-storage can be set; remove the others"
// +kubebuilder:validation:XValidation:rule="self.all(k, [string(self[k])].exists(q, q.size() <= 24 && q.matches('^[+]?([0-9]+[.]?[0-9]*|[.][0-9]+)([KMGTP]i|[numkMGTP])?$')))",message="resources: an amount must be a number with an optional unit (m, k, M, G, T, P, Ki, Mi, Gi, Ti or Pi) and no space, such as 500m or 1Gi; it must not be negative, have an exponent or exceed 24 characters",messageExpression="'resources: an amount must be a number with an optional unit (m, k, M, G, T, P, Ki, Mi, Gi, Ti or Pi) and no space, such as 500m or 1Gi; it must not be negative, have an exponent or exceed 24 characters: ' + self.map(k, ![string(self[k])].exists(q, q.size() <= 24 && q.matches('^[+]?([0-9]+[.]?[0-9]*|[.][0-9]+)([KMGTP]i|[numkMGTP])?$')), k + ' is ' + string(self[k]))[0]"
// +kubebuilder:validation:XValidation:rule="self.all(k, [string(self[k])].exists(q, q.size() > 24 || q.contains('e') || q.contains('E') || !isQuantity(q) || quantity(q).isLessThan(quantity('8Ei'))))",message="resources: amounts must be less than 8Ei"
// +mapType=granular
type ResourceAmounts map[corev1.ResourceName]resource.Quantity
