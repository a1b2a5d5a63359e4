// Package taints determines which taints of Nodes keep a node out of the StorageCluster, or cause a member to leave.
// The operator uses it, and so do tools that predict what the operator will do.
package taints

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
)

// Passing is a taint that other components add to nodes temporarily. A member with such a taint remains a member:
// moving its data because an agent restarts or a node is drained would do more harm than the taint.
type Passing struct {
	// Key is the taint's key. A key that ends with a slash is a prefix.
	Key string
	// Joins is true if a node with the taint may become a member.
	Joins bool
	// Whose is the owner of the taint, and what the taint means.
	Whose string
}

// all lists all temporary taints, as docs/how-to/remove-a-node.md does.
var all = []Passing{
	{"node.kubernetes.io/", true, "Kubernetes: the node is not ready, short of memory, disk or processes, or cordoned"},
	{"drbd.linbit.com/", true, "LINSTOR's high-availability controller: the node has lost quorum, or must not run pods " +
		"with volumes"},
	{"node.cloudprovider.kubernetes.io/", false, "cloud provider: the node is being initialized, or is shut down"},
	{"node.cilium.io/agent-not-ready", false, "Cilium: the agent is starting or restarting"},
	{"ToBeDeletedByClusterAutoscaler", false, "Cluster Autoscaler: the node is being removed"},
	{"DeletionCandidateOfClusterAutoscaler", false, "Cluster Autoscaler: the node may be removed"},
	{"karpenter.sh/", false, "Karpenter: the node is being replaced, or has not been registered yet"},
	{"medik8s.io/drain", false, "Node Maintenance Operator: the node is being drained"},
	{"medik8s.io/remediation", false, "Medik8s: the node is being repaired"},
	{"node.cluster.x-k8s.io/", false, "Cluster API: the node has not been initialized yet, or is outdated"},
	{"startup-taint.cluster-autoscaler.kubernetes.io/", false, "Cluster Autoscaler: something on the node is starting"},
	{"node.ocs.openshift.io/fencing", false, "OpenShift: the node is fenced"},
	{"ebs.csi.aws.com/agent-not-ready", false, "Amazon EBS CSI driver: the agent is starting"},
}

// HighAvailability returns the taints that LINSTOR's high-availability controller adds to nodes, and removes only
// while it is running (piraeus-ha-controller 1.3, pkg/metadata). Both have the effect NoSchedule.
func HighAvailability() []string {
	return []string{"drbd.linbit.com/lost-quorum", "drbd.linbit.com/force-io-error"}
}

// All returns the taints that other components add to nodes temporarily.
func All() []Passing { return slices.Clone(all) }

// Find returns the temporary taint with this key, or nil.
func Find(key string) *Passing {
	for i := range all {
		p := &all[i]
		if p.Key == key || strings.HasSuffix(p.Key, "/") && strings.HasPrefix(key, p.Key) {
			return p
		}
	}
	return nil
}

// Counts reports whether a taint that the spec does not tolerate prevents a node from joining or, if it is a member,
// causes it to leave. Taints with effect PreferNoSchedule do not count.
func Counts(spec *v1alpha1.NodesSpec, t *corev1.Taint, joining bool) bool {
	p := Find(t.Key)
	return t.Effect != corev1.TaintEffectPreferNoSchedule && (p == nil || joining && !p.Joins) &&
		!Tolerated(spec.Tolerations, t)
}

// Tolerated reports whether one of the tolerations tolerates the taint, according to the rules of Kubernetes.
func Tolerated(ts []v1alpha1.Toleration, taint *corev1.Taint) bool {
	return slices.ContainsFunc(ts, func(t v1alpha1.Toleration) bool {
		switch {
		case t.Effect != "" && t.Effect != taint.Effect:
			return false
		case t.Operator == corev1.TolerationOpExists:
			return t.Key == "" || t.Key == taint.Key
		default:
			return t.Key == taint.Key && t.Value == taint.Value
		}
	})
}
