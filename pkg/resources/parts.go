package resources

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/apitls"
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
func WorkloadDeployment(p Params, component, name string, running bool, pod corev1.PodSpec,
	part apitls.Part) *appsv1.Deployment {
	common := deploymentPod(p, name)
	common.Containers, common.Volumes = pod.Containers, pod.Volumes
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
	d.Spec.Template.Annotations = p.API[part].Annotate(nil)
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

// PullSecrets are those of all pods.
func (p Params) PullSecrets() []corev1.LocalObjectReference { return p.pullSecrets() }
