package resources

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ObjectMeta is the metadata of an object of a component, for the builders below this package.
func ObjectMeta(p Params, name, component string) metav1.ObjectMeta {
	return objectMeta(name, p.Cluster, component)
}

// ToolsPod is what a pod with programs of LINSTOR's own image has in common with others: that image is on every member
// already. It has one container, without a command.
func ToolsPod(p Params, container string) corev1.PodSpec {
	pod := corev1.PodSpec{ImagePullSecrets: p.pullSecrets()}
	for i := range p.Spec.Nodes.Tolerations {
		pod.Tolerations = append(pod.Tolerations, corev1.Toleration(*p.Spec.Nodes.Tolerations[i].DeepCopy()))
	}
	pod.Containers = []corev1.Container{{
		Name: container, Image: p.image(p.Release.Satellite), ImagePullPolicy: corev1.PullIfNotPresent,
		SecurityContext: restricted(), TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
	}}
	return pod
}
