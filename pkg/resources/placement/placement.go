// Package placement says where the pods may run that serve the whole cluster, such as LINSTOR's controller: DaemonSets
// follow the nodes' labels instead.
package placement

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/taints"
)

// Tolerations are those of a pod that serves the whole cluster: it may run where the cluster's nodes are and where
// volumes have lost quorum, and leaves a node that does not answer soon.
func Tolerations(nodes []v1alpha1.Toleration) []corev1.Toleration {
	var out []corev1.Toleration
	for _, key := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
		out = append(out, corev1.Toleration{
			Key: key, Operator: corev1.TolerationOpExists,
			// Kubernetes' default of five minutes is long for the only controller.
			Effect: corev1.TaintEffectNoExecute, TolerationSeconds: ptr.To(int64(30)),
		})
	}
	out = append(out, WithoutQuorum()...)
	for i := range nodes {
		out = append(out, corev1.Toleration(*nodes[i].DeepCopy()))
	}
	return out
}

// WithoutQuorum tolerates the taints of LINSTOR's high-availability controller, which keep pods with volumes away from
// nodes whose volumes are in trouble. LINSTOR's own pods have no such volumes, and they are what repairs those: with
// the taints on all nodes and no toleration, nothing would ever remove the cause of the taints.
func WithoutQuorum() []corev1.Toleration {
	var out []corev1.Toleration
	for _, key := range taints.HighAvailability() {
		out = append(out, corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists})
	}
	return out
}
