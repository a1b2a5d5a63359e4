package resources

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

// ObjectMeta is the metadata of an object of a component, for the builders below this package.
func ObjectMeta(p Params, name, component string) metav1.ObjectMeta {
	return objectMeta(name, p.Cluster, component)
}

// MemberDaemonSet runs pods on all members of the cluster, whatever their platform. It is the only DaemonSet of its
// component. At most a tenth of the pods is replaced at a time.
func MemberDaemonSet(p Params, component, name string, pod corev1.PodSpec) *appsv1.DaemonSet {
	ds := daemonSet(p, component, name, v1alpha1.LabelComponent, component, tenthAtATime(), pod)
	ds.Spec.Template.Spec.NodeSelector = map[string]string{v1alpha1.LabelMember: p.Cluster}
	return ds
}

// WorkloadDeployment runs one pod beside LINSTOR's controller, or none; while it is exchanged there may be two. The
// pod's ServiceAccount has the name of the Deployment.
func WorkloadDeployment(p Params, component, name string, running bool, pod corev1.PodSpec) *appsv1.Deployment {
	common := deploymentPod(p, name)
	common.Containers, common.Volumes, common.SecurityContext = pod.Containers, pod.Volumes, pod.SecurityContext
	d := &appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: objectMeta(name, p.Cluster, component),
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To[int32](0),
			Selector: &metav1.LabelSelector{MatchLabels: selector(p.Cluster, component)},
			Strategy: rolling(1, 0),
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels(p.Cluster, component)}, Spec: common},
		},
	}
	if running {
		*d.Spec.Replicas = 1
	}
	stamp(d, d.Spec)
	return d
}

// tenthAtATime is for pods that nothing breaks without while they are replaced.
func tenthAtATime() appsv1.DaemonSetUpdateStrategy {
	return appsv1.DaemonSetUpdateStrategy{
		Type:          appsv1.RollingUpdateDaemonSetStrategyType,
		RollingUpdate: &appsv1.RollingUpdateDaemonSet{MaxUnavailable: ptr.To(intstr.FromString("10%"))},
	}
}

// StampTemplate puts the hashes of pods and spec on a complete DaemonSet.
func StampTemplate(ds *appsv1.DaemonSet) {
	ds.Spec.Template.Annotations = map[string]string{AnnotationTemplateHash: text.Digest(ds.Spec.Template)}
	stamp(ds, ds.Spec)
}

// Image is the full name of an image of the catalogue.
func (p Params) Image(name string) string { return p.image(name) }

const (
	// ToolsServiceAccount is that of such pods as ToolsPod is for. It has no token in them, and no rights but the one to
	// run as nobody in particular where OpenShift asks for that.
	ToolsServiceAccount = "linstor-canary"
	// ToolsUser runs them: no user of the image, and not root.
	ToolsUser = 65532
)

// ToolsPod is what a pod with programs of LINSTOR's own image has in common with others: that image is on every member
// already. It has one container, without a command, and is as Pod Security's level restricted wants it, although its
// namespace does not ask for that.
func ToolsPod(p Params, container string) corev1.PodSpec {
	pod := corev1.PodSpec{ImagePullSecrets: p.pullSecrets(), ServiceAccountName: ToolsServiceAccount,
		AutomountServiceAccountToken: ptr.To(false), EnableServiceLinks: ptr.To(false),
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot: ptr.To(true), RunAsUser: ptr.To[int64](ToolsUser), RunAsGroup: ptr.To[int64](ToolsUser),
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		}}
	for i := range p.Spec.Nodes.Tolerations {
		pod.Tolerations = append(pod.Tolerations, corev1.Toleration(*p.Spec.Nodes.Tolerations[i].DeepCopy()))
	}
	pod.Containers = []corev1.Container{{
		Name: container, Image: p.image(p.Release.Satellite), ImagePullPolicy: corev1.PullIfNotPresent,
		SecurityContext: Restricted(), TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
	}}
	return pod
}
