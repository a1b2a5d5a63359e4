// Package drainguard builds what keeps nodes from being drained at the wrong time: a pod on each of them, and the one
// PodDisruptionBudget that protects these pods from the eviction API.
package drainguard

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/owner"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/tools"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

const (
	// Name is the PodDisruptionBudget's, and begins the names of the pods.
	Name = "linstor-drain-guard"
	// LabelNode says which node a pod guards: its name, or a fingerprint of one that is too long for a label.
	LabelNode = v1alpha1.Prefix + "drain-guard-node"
	// AnnotationRefused on the PodDisruptionBudget says of each node that is cordoned why it may not be drained yet.
	AnnotationRefused = v1alpha1.Prefix + "drains-refused"
	// container is the one of the pods.
	container = "drain-guard"
	// longestLabel bounds the value of a label.
	longestLabel = 63
)

// script does nothing until it is told to end. A shell that is the first process of its container ignores the signal
// unless it says otherwise, and "sleep" alone would be killed only after the grace period.
const script = "trap 'exit 0' TERM INT; while :; do sleep 3600 & wait; done"

// NodeKey is the value of LabelNode for a node.
func NodeKey(node string) string {
	if len(node) > longestLabel {
		return text.Digest(node)
	}
	return node
}

// PodName is the name of a node's pod.
func PodName(node string) string { return Name + "-" + NodeKey(node) }

// Named is the guard of that name among pods by node; nil if there is none.
func Named(pods map[string]*corev1.Pod, name string) *corev1.Pod {
	for node, p := range pods {
		if PodName(node) == name {
			return p
		}
	}
	return nil
}

// Pod is the guard of a node.
//
// It is bound to the node here, past the scheduler, so that it needs to tolerate those taints only that evict. A pod
// that tolerates everything looks to some tools like one that a drain leaves alone, as a DaemonSet's.
func Pod(p resources.Params, by *v1alpha1.StorageCluster, node string) *corev1.Pod {
	spec := tools.Pod(p, container)
	spec.NodeName = node
	spec.PriorityClassName = "system-node-critical" // else the kubelet would evict it first when memory is short
	spec.TerminationGracePeriodSeconds = ptr.To[int64](1)
	spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}}
	c := &spec.Containers[0]
	c.Command = []string{"/bin/sh", "-c", script}
	c.Resources = corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1m"),
			corev1.ResourceMemory: resource.MustParse("4Mi")},
		Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("32Mi")},
	}
	pod := owner.Pod(by, resources.ObjectMeta(p, PodName(node), v1alpha1.ComponentDrainGuard), spec)
	pod.Labels[LabelNode] = NodeKey(node)
	return pod
}

// Budget lets the pods of the free nodes be evicted, which it does not select, and none of the others: it asks for as
// many healthy pods as there are or shall be in all, which is what guards says. A whole number, because for a
// percentage the disruption controller would look for the scale of the pods' controller, which a StorageCluster has
// not (kube-controller-manager, getExpectedPodCount).
func Budget(p resources.Params, guards int, free []string, refused string) *policyv1.PodDisruptionBudget {
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{
		v1alpha1.LabelCluster: p.Cluster, v1alpha1.LabelComponent: v1alpha1.ComponentDrainGuard}}
	if len(free) > 0 {
		keys := make([]string, 0, len(free))
		for _, node := range free {
			keys = append(keys, NodeKey(node))
		}
		slices.Sort(keys)
		selector.MatchExpressions = []metav1.LabelSelectorRequirement{
			{Key: LabelNode, Operator: metav1.LabelSelectorOpNotIn, Values: keys}}
	}
	b := &policyv1.PodDisruptionBudget{
		TypeMeta:   metav1.TypeMeta{APIVersion: policyv1.SchemeGroupVersion.String(), Kind: "PodDisruptionBudget"},
		ObjectMeta: resources.ObjectMeta(p, Name, v1alpha1.ComponentDrainGuard),
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: ptr.To(intstr.FromInt32(int32(guards))), Selector: selector,
			UnhealthyPodEvictionPolicy: ptr.To(policyv1.IfHealthyBudget),
		},
	}
	if refused != "" {
		b.Annotations = map[string]string{AnnotationRefused: refused}
	}
	return b
}

// Free are the keys of the nodes whose pods a budget lets be evicted; none for nil.
func Free(b *policyv1.PodDisruptionBudget) []string {
	if b == nil || b.Spec.Selector == nil {
		return nil
	}
	var out []string
	for _, e := range b.Spec.Selector.MatchExpressions {
		if e.Key == LabelNode && e.Operator == metav1.LabelSelectorOpNotIn {
			out = append(out, e.Values...)
		}
	}
	return out
}

// Fits reports whether a budget says what is wanted.
func Fits(live, want *policyv1.PodDisruptionBudget) bool {
	return live != nil && live.DeletionTimestamp == nil && equality.Semantic.DeepEqual(live.Spec, want.Spec) &&
		live.Annotations[AnnotationRefused] == want.Annotations[AnnotationRefused] &&
		strings.EqualFold(live.Labels[v1alpha1.LabelComponent], want.Labels[v1alpha1.LabelComponent])
}
