// Package taints says which taints of Nodes count: those that keep a node out of the StorageCluster, or drive a member
// away. The operator goes by it, and so does whoever wants to know beforehand what the operator will do.
package taints

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
)

// Passing is a taint that others put on nodes for a while. A member that gets one stays a member: its data is
// there, and moving it because an agent restarts, or a node is drained, would do more harm than the taint.
type Passing struct {
	// Key is the taint's key; one that ends in a slash is a prefix.
	Key string
	// Joins is true if a node with the taint may join.
	Joins bool
	// Whose it is, and what it says.
	Whose string
}

// all are all of them. docs/how-to/remove-a-node.md lists them.
var all = []Passing{
	{"node.kubernetes.io/", true, "Kubernetes: the node is not ready, short of memory, disk or processes, or cordoned"},
	{"drbd.linbit.com/", true, "LINSTOR's high-availability controller: the node has lost quorum, or must not run pods " +
		"with volumes"},
	{"node.cloudprovider.kubernetes.io/", false, "cloud provider: the node is being initialised, or is shut down"},
	{"node.cilium.io/agent-not-ready", false, "Cilium: its agent starts or restarts"},
	{"ToBeDeletedByClusterAutoscaler", false, "Cluster Autoscaler: the node is being removed"},
	{"DeletionCandidateOfClusterAutoscaler", false, "Cluster Autoscaler: the node may be removed"},
	{"karpenter.sh/", false, "Karpenter: the node is being replaced, or is not registered yet"},
	{"medik8s.io/drain", false, "Node Maintenance Operator: the node is drained"},
	{"medik8s.io/remediation", false, "Medik8s: the node is being repaired"},
	{"node.cluster.x-k8s.io/", false, "Cluster API: the node is not initialised yet, or out of date"},
	{"startup-taint.cluster-autoscaler.kubernetes.io/", false, "Cluster Autoscaler: something on the node starts"},
	{"node.ocs.openshift.io/fencing", false, "OpenShift: the node is fenced"},
	{"ebs.csi.aws.com/agent-not-ready", false, "Amazon's EBS CSI driver: its agent starts"},
}

// HighAvailability are the taints that LINSTOR's high-availability controller puts on nodes, and takes away only as
// long as it runs (piraeus-ha-controller 1.3, pkg/metadata). Both have the effect NoSchedule.
func HighAvailability() []string {
	return []string{"drbd.linbit.com/lost-quorum", "drbd.linbit.com/force-io-error"}
}

// All are the taints that others put on nodes for a while.
func All() []Passing { return slices.Clone(all) }

// Find is the passing taint that a key is of; nil if there is none.
func Find(key string) *Passing {
	for i := range all {
		p := &all[i]
		if p.Key == key || strings.HasSuffix(p.Key, "/") && strings.HasPrefix(key, p.Key) {
			return p
		}
	}
	return nil
}

// Counts reports whether the spec does not tolerate a taint that keeps a node out if it is joining, or drives it away.
// What only makes Kubernetes prefer other nodes keeps nobody out.
func Counts(spec *v1alpha1.NodesSpec, t *corev1.Taint, joining bool) bool {
	p := Find(t.Key)
	return t.Effect != corev1.TaintEffectPreferNoSchedule && (p == nil || joining && !p.Joins) &&
		!Tolerated(spec.Tolerations, t)
}

// Tolerated reports whether one of the tolerations lets a node with the taint in, by the rules of Kubernetes.
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
