package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

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
// +kubebuilder:validation:XValidation:rule="!has(self.requests) || !has(self.limits) || ['cpu', 'memory', 'ephemeral-storage'].all(k, !(k in self.requests) || !(k in self.limits) || [string(self.requests[k]), string(self.limits[k])].exists(q, q.size() > 24 || q.contains('e') || q.contains('E')) || quantity(string(self.requests[k])).compareTo(quantity(string(self.limits[k]))) <= 0)",message="resources: requests must not be larger than limits, or no pod can be made: raise the limit or lower the request"
type Resources struct {
	// limits are what the container may use at most. Default: none. Example: {memory: 2Gi}.
	// +optional
	Limits ResourceAmounts `json:"limits,omitempty"`
	// requests are what a node must have left for the container. Default: the limits. Example: {cpu: 200m, memory: 1Gi}.
	// +optional
	Requests ResourceAmounts `json:"requests,omitempty"`
}

// ResourceAmounts are amounts by the resource's name: cpu, memory and ephemeral-storage. Exponents are refused, because reading
// 1e-9999999 takes half a minute.
// +kubebuilder:validation:MaxProperties=3
// +kubebuilder:validation:XValidation:rule="self.all(k, k in ['cpu', 'memory', 'ephemeral-storage'])",message="resources: only cpu, memory and ephemeral-storage can be given: remove the other names"
// +kubebuilder:validation:XValidation:rule="self.all(k, string(self[k]).size() <= 24 && !string(self[k]).contains('e') && !string(self[k]).contains('E') && !string(self[k]).startsWith('-'))",message="resources: amounts must be quantities that are not negative, without exponent and of at most 24 characters, such as 500m or 1Gi"
// +mapType=granular
type ResourceAmounts map[corev1.ResourceName]resource.Quantity
