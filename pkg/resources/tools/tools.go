// Package tools builds what pods with programs of LINSTOR's own image have in common.
package tools

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
)

const (
	// ServiceAccount is that of such pods as Pod is for. It has no token in them, and no rights but the one to
	// run as nobody in particular where OpenShift asks for that.
	ServiceAccount = "linstor-canary"
	// User runs them: no user of the image, and not root.
	User = 65532
)

// Pod is what a pod with programs of LINSTOR's own image has in common with others: that image is on every member
// already. It has one container, without a command, and is as Pod Security's level restricted wants it, although its
// namespace does not ask for that.
func Pod(p resources.Params, container string) corev1.PodSpec {
	pod := corev1.PodSpec{ImagePullSecrets: p.PullSecrets(), ServiceAccountName: ServiceAccount,
		AutomountServiceAccountToken: ptr.To(false), EnableServiceLinks: ptr.To(false),
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot: ptr.To(true), RunAsUser: ptr.To[int64](User), RunAsGroup: ptr.To[int64](User),
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		}}
	for i := range p.Spec.Nodes.Tolerations {
		pod.Tolerations = append(pod.Tolerations, corev1.Toleration(*p.Spec.Nodes.Tolerations[i].DeepCopy()))
	}
	pod.Containers = []corev1.Container{{
		Name: container, Image: p.Image(p.Release.Satellite), ImagePullPolicy: corev1.PullIfNotPresent,
		SecurityContext: resources.Restricted(), TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
	}}
	return pod
}
