package drainguard

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// removalTaints are the keys of the taints of tools that drain a node, and then remove its machine, without cordoning
// it: Karpenter (before its version 1 as well), the cluster autoscaler, and Google's clouds.
var removalTaints = []string{"karpenter.sh/disrupted", "karpenter.sh/disruption", "ToBeDeletedByClusterAutoscaler",
	"cloud.google.com/impending-node-termination"}

// isRemoved reports whether a node is to go for good, with its disks: its Node object is being deleted, or a tool has
// announced that it removes the machine. Karpenter deletes the Node object first, which a finalizer keeps, and only
// then drains the node.
func isRemoved(n *corev1.Node) bool {
	return n.DeletionTimestamp != nil || slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool {
		return t.Effect != corev1.TaintEffectPreferNoSchedule && slices.Contains(removalTaints, t.Key)
	})
}

// isDraining reports whether a node is being drained, or may be at any time: by `kubectl drain`, which cordons it, or
// by a tool that removes it.
func isDraining(n *corev1.Node) bool { return n.Spec.Unschedulable || isRemoved(n) }
