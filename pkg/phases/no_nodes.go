package phases

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// NoNodeMessage says why the spec picks no node: which field to look at, and what is in the way.
func (s *Snapshot) NoNodeMessage() string {
	const text = "no node matches spec.nodes"
	spec := s.nodesSpec()
	selector := labels.SelectorFromSet(spec.NodeSelector)
	labelled, example := 0, ""
	for _, n := range s.Kube.Nodes {
		if !selector.Matches(labels.Set(n.Labels)) {
			continue
		}
		labelled++
		i := slices.IndexFunc(n.Spec.Taints, func(t corev1.Taint) bool { return keepsAway(&t) && !tolerated(spec.Tolerations, &t) })
		if example == "" && i >= 0 {
			example = fmt.Sprintf("%s on node %s", n.Spec.Taints[i].ToString(), n.Name)
		}
	}
	switch {
	case len(s.Kube.Nodes) == 0:
		return text + ": there are no nodes"
	case labelled == 0:
		return fmt.Sprintf("%s: none of %d nodes has the labels in spec.nodes.nodeSelector (%s)", text, len(s.Kube.Nodes), selector)
	case example != "":
		return fmt.Sprintf("%s: spec.nodes.tolerations does not tolerate the taint %s", text, example)
	default:
		return text + ": those with the labels in spec.nodes.nodeSelector are being deleted or run Windows"
	}
}
