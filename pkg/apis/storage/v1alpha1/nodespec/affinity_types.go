package nodespec

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// NodeAffinity selects nodes that match at least one of its terms. It has the format of required node affinity in
// Kubernetes, without matchFields.
type NodeAffinity struct {
	// nodeSelectorTerms lists up to 8 terms. A node must match at least one of them. Required, no default.
	// Example: [{matchExpressions: [{key: disk, operator: In, values: [ssd, nvme]}]}].
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	NodeSelectorTerms []NodeSelectorTerm `json:"nodeSelectorTerms"`
}

// NodeSelectorTerm matches a node if all of its expressions match.
type NodeSelectorTerm struct {
	// matchExpressions lists up to 8 label expressions. A node must match all of them. Required, no default.
	// Example: [{key: example.com/no-storage, operator: DoesNotExist}].
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	MatchExpressions []NodeSelectorRequirement `json:"matchExpressions"`
}

// NodeSelectorRequirement is a label expression for a node.
// +kubebuilder:validation:XValidation:rule="!(self.operator in ['In', 'NotIn']) || (has(self.values) && self.values.size() > 0)",message="values: In and NotIn require at least one value",fieldPath=.values
// +kubebuilder:validation:XValidation:rule="!(self.operator in ['Exists', 'DoesNotExist']) || !has(self.values) || self.values.size() == 0",message="values: Exists and DoesNotExist take no values; remove them",fieldPath=.values
// +kubebuilder:validation:XValidation:rule="!(self.operator in ['Gt', 'Lt']) || (has(self.values) && self.values.size() == 1 && self.values[0].matches('^-?[0-9]{1,18}$'))",message="values: Gt and Lt require exactly one value, which must be an integer",fieldPath=.values
type NodeSelectorRequirement struct {
	// key is the key of the label. Required, no default. Example: topology.kubernetes.io/zone.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([a-z0-9.-]*[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$`
	Key string `json:"key"`
	// operator is In (the label has one of the values), NotIn (the label has none of the values, or is missing), Exists,
	// DoesNotExist, Gt or Lt (the label is a number above or below the value). Required, no default. Example: In.
	// +kubebuilder:validation:Enum=In;NotIn;Exists;DoesNotExist;Gt;Lt
	Operator corev1.NodeSelectorOperator `json:"operator"`
	// values lists up to 32 values for the In and NotIn operators, or one integer for Gt and Lt. Defaults to none.
	// Example: [a, b].
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:Pattern=`^(-?[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?)?$`
	Values []string `json:"values,omitempty"`
}

// Picks reports whether the labels of a Node match a selector and at least one term of an affinity. If both are empty,
// they match all nodes.
func Picks(selector map[string]string, affinity *NodeAffinity, of map[string]string) bool {
	return labels.SelectorFromSet(selector).Matches(labels.Set(of)) && (affinity == nil ||
		slices.ContainsFunc(affinity.NodeSelectorTerms, func(t NodeSelectorTerm) bool { return t.matches(of) }))
}

// matches reports whether labels match the term. As in Kubernetes, a term without expressions matches no nodes.
func (t *NodeSelectorTerm) matches(of map[string]string) bool {
	for i := range t.MatchExpressions {
		e := &t.MatchExpressions[i]
		r, err := labels.NewRequirement(e.Key, operators[e.Operator], e.Values)
		if err != nil || !r.Matches(labels.Set(of)) {
			return false
		}
	}
	return len(t.MatchExpressions) > 0
}

var operators = map[corev1.NodeSelectorOperator]selection.Operator{
	corev1.NodeSelectorOpIn: selection.In, corev1.NodeSelectorOpNotIn: selection.NotIn,
	corev1.NodeSelectorOpExists: selection.Exists, corev1.NodeSelectorOpDoesNotExist: selection.DoesNotExist,
	corev1.NodeSelectorOpGt: selection.GreaterThan, corev1.NodeSelectorOpLt: selection.LessThan,
}
