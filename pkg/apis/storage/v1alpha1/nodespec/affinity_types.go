package nodespec

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// NodeAffinity picks nodes for which one of its terms is true. It has the form of Kubernetes' required node affinity,
// without matchFields.
type NodeAffinity struct {
	// nodeSelectorTerms are up to eight terms, one of which must be true of a node. No default.
	// Example: [{matchExpressions: [{key: disk, operator: In, values: [ssd, nvme]}]}].
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	NodeSelectorTerms []NodeSelectorTerm `json:"nodeSelectorTerms"`
}

// NodeSelectorTerm is true of a node for which all of its expressions are.
type NodeSelectorTerm struct {
	// matchExpressions are up to eight expressions, all of which must be true of a node's labels. No default.
	// Example: [{key: example.com/no-storage, operator: DoesNotExist}].
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	MatchExpressions []NodeSelectorRequirement `json:"matchExpressions"`
}

// NodeSelectorRequirement is an expression on a node's labels.
// +kubebuilder:validation:XValidation:rule="!(self.operator in ['In', 'NotIn']) || (has(self.values) && self.values.size() > 0)",message="values: In and NotIn need at least one value",fieldPath=.values
// +kubebuilder:validation:XValidation:rule="!(self.operator in ['Exists', 'DoesNotExist']) || !has(self.values) || self.values.size() == 0",message="values: Exists and DoesNotExist take no values: remove them",fieldPath=.values
// +kubebuilder:validation:XValidation:rule="!(self.operator in ['Gt', 'Lt']) || (has(self.values) && self.values.size() == 1 && self.values[0].matches('^-?[0-9]{1,18}$'))",message="values: Gt and Lt take exactly one value, a whole number",fieldPath=.values
type NodeSelectorRequirement struct {
	// key is the label's key. No default. Example: topology.kubernetes.io/zone.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([a-z0-9.-]*[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$`
	Key string `json:"key"`
	// operator is In (the label has one of the values), NotIn (it has none of them, or is not there), Exists, DoesNotExist,
	// Gt or Lt (it is a number, larger or smaller than the value). No default. Example: In.
	// +kubebuilder:validation:Enum=In;NotIn;Exists;DoesNotExist;Gt;Lt
	Operator corev1.NodeSelectorOperator `json:"operator"`
	// values are up to 32 values, for the operators In and NotIn, or one number, for Gt and Lt. Default: none.
	// Example: [a, b].
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:Pattern=`^(-?[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?)?$`
	Values []string `json:"values,omitempty"`
}

// Picks reports whether labels of a Node are those of a selector, and one of an affinity's terms is true of them. None
// of the two picks all nodes.
func Picks(selector map[string]string, affinity *NodeAffinity, of map[string]string) bool {
	return labels.SelectorFromSet(selector).Matches(labels.Set(of)) && (affinity == nil ||
		slices.ContainsFunc(affinity.NodeSelectorTerms, func(t NodeSelectorTerm) bool { return t.matches(of) }))
}

// matches: a term without expressions is true of no node, as in Kubernetes.
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
