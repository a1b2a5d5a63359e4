// Package drainguard builds the pods and the PodDisruptionBudgets with which drains of nodes are held back. A drain
// evicts every pod of a node but those of DaemonSets, and the eviction API refuses what a budget does not allow: so a
// small pod on each node, and a budget, make kubectl drain, kured, Cluster API and autoscalers wait by themselves.
package drainguard

import (
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/canary"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

const (
	// Component is the component of pods and budgets.
	Component = "drain-guard"
	// LabelDrain on a guard says whether its node may be drained.
	LabelDrain = v1alpha1.Prefix + "drain"
	// Allowed is its value where the node may be drained.
	Allowed = "allowed"
	// Refused is its value where it must not be.
	Refused = "refused"
	// AnnotationWhy on a guard says why its node must not be drained now.
	AnnotationWhy = v1alpha1.Prefix + "drain-refused"
	// Never is more pods than there can be: a budget that wants so many allows no eviction.
	Never = int32(1<<31 - 1)

	prefix = "linstor-drain-guard"
)

// BudgetName is the name of the budget of the guards with a value of LabelDrain. Those of each value have one budget:
// the eviction API fails for a pod that two budgets select (k8s.io/kubernetes 1.36, pkg/registry/core/pod/rest).
func BudgetName(drain string) string { return prefix + "-" + drain }

// Name is the name of a node's guard.
func Name(node string) string {
	const most = 253 // of a pod's name, and of a Node's
	if name := prefix + "-" + node; len(name) <= most {
		return name
	}
	return prefix + "-" + text.Digest(node)
}

// Guard is what a node's guard is to say.
type Guard struct {
	Node string
	// Why the node must not be drained; "" if it may be.
	Why string
	// Seen is the UID of the guard that is changed; "" makes one. A guard that was evicted meanwhile is not made again.
	Seen types.UID
}

// Drain is the value of LabelDrain.
func (g Guard) Drain() string {
	if g.Why != "" {
		return Refused
	}
	return Allowed
}

// Pod is a node's guard. It tolerates every taint, since it is to leave when its node is drained and not before. It
// has the StorageCluster as its controller: kubectl drain evicts no pod without one unless it is forced to.
func Pod(p resources.Params, owner types.UID, g Guard) *corev1.Pod {
	pod := resources.ToolsPod(p, "guard")
	pod.NodeName = g.Node
	pod.ServiceAccountName = canary.ServiceAccount // one without rights serves both
	pod.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	pod.AutomountServiceAccountToken, pod.EnableServiceLinks = ptr.To(false), ptr.To(false)
	pod.TerminationGracePeriodSeconds = ptr.To(int64(1))
	pod.SecurityContext = &corev1.PodSecurityContext{
		RunAsNonRoot: ptr.To(true), RunAsUser: ptr.To(int64(65532)), RunAsGroup: ptr.To(int64(65532)),
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
	c := &pod.Containers[0]
	c.Command = []string{"/bin/sleep", "infinity"}
	c.Resources = corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1m"),
			corev1.ResourceMemory: resource.MustParse("4Mi")},
		Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("16Mi")},
	}
	meta := resources.ObjectMeta(p, Name(g.Node), Component)
	meta.UID = g.Seen
	meta.Labels[LabelDrain] = g.Drain()
	meta.Annotations = map[string]string{resources.AnnotationSpecHash: text.Digest(pod)}
	if g.Why != "" {
		meta.Annotations[AnnotationWhy] = g.Why
	}
	meta.OwnerReferences = []metav1.OwnerReference{{APIVersion: v1alpha1.GroupVersion.String(), Kind: "StorageCluster",
		Name: p.Cluster, UID: owner, Controller: ptr.To(true)}}
	return &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: meta, Spec: pod}
}

// Budget is the budget of the guards with a value of LabelDrain, of which so many must run. A number is needed: of
// pods whose controller has no scale, the disruption controller takes no other (k8s.io/kubernetes 1.36,
// pkg/controller/disruption, getExpectedPodCount). A guard that does not run can always be evicted: its node is down.
func Budget(p resources.Params, drain string, minAvailable int32) *policyv1.PodDisruptionBudget {
	meta := resources.ObjectMeta(p, BudgetName(drain), Component)
	return &policyv1.PodDisruptionBudget{
		TypeMeta:   metav1.TypeMeta{APIVersion: "policy/v1", Kind: "PodDisruptionBudget"},
		ObjectMeta: meta,
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: ptr.To(intstr.FromInt32(minAvailable)),
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{
				v1alpha1.LabelCluster: p.Cluster, v1alpha1.LabelComponent: Component, LabelDrain: drain}},
			UnhealthyPodEvictionPolicy: ptr.To(policyv1.AlwaysAllow),
		},
	}
}
