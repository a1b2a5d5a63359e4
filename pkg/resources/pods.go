package resources

import (
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/nodespec"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/placement"
)

// javaOptions makes Java 11 and later answer a peer's close_notify: without it half-closed TLS connections between
// controller and satellites stay open.
const javaOptions = "-Djdk.tls.acknowledgeCloseNotify=true"

// Privileged is for a container with all privileges, whose own files are read-only.
func Privileged() *corev1.SecurityContext {
	return &corev1.SecurityContext{Privileged: ptr.To(true), ReadOnlyRootFilesystem: ptr.To(true)}
}

// Restricted is for a container without any privilege.
func Restricted() *corev1.SecurityContext {
	return &corev1.SecurityContext{
		AllowPrivilegeEscalation: ptr.To(false),
		ReadOnlyRootFilesystem:   ptr.To(true),
		Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
}

// daemonSet runs pods on members of the cluster. label has a value of its own for each of a component's DaemonSets,
// which would claim each other's pods otherwise. The caller completes the template and then the stamp.
func daemonSet(p Params, component, name, label, value string, update appsv1.DaemonSetUpdateStrategy,
	pod corev1.PodSpec) *appsv1.DaemonSet {
	match := selector(p.Cluster, component)
	match[label] = value
	meta := objectMeta(name, p.Cluster, component)
	meta.Labels[label] = value
	pod.AutomountServiceAccountToken = ptr.To(false)
	pod.EnableServiceLinks = ptr.To(false)
	pod.PriorityClassName = "system-node-critical"
	pod.ImagePullSecrets = p.pullSecrets()
	// The pods may run on every node that has the label. The spec's tolerations have done their part when the label was
	// given; a taint that comes later must not take the satellite from under the data.
	pod.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	return &appsv1.DaemonSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "DaemonSet"},
		ObjectMeta: meta,
		Spec: appsv1.DaemonSetSpec{
			Selector:       &metav1.LabelSelector{MatchLabels: match},
			UpdateStrategy: update,
			Template:       corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: maps.Clone(meta.Labels)}, Spec: pod},
		},
	}
}

// user is the user and group of LINSTOR's controller, the CSI driver's and the affinity controller: LINSTOR's image is
// made for the group 1000 (its log directory belongs to it). That the database migration works without root is not
// verified; it writes to /run/migration only. The CSI driver's controller and the affinity controller write to no file
// but a socket.
const user = 1000

// deploymentPod is what the pods of all Deployments have in common. They run where the cluster's nodes are, move away
// soon from one that does not answer, and have no more rights on their node than Pod Security's level restricted
// gives, although their namespace does not ask for that.
func deploymentPod(p Params, account string) corev1.PodSpec {
	var hostUsers *bool
	if p.UserNamespaces && p.Spec.UserNamespaces == nodespec.UserNamespacesAuto {
		hostUsers = ptr.To(false)
	}
	return corev1.PodSpec{
		HostUsers: hostUsers,
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot: ptr.To(true), RunAsUser: ptr.To[int64](user), RunAsGroup: ptr.To[int64](user),
			FSGroup:        ptr.To[int64](user),
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		ServiceAccountName: account,
		EnableServiceLinks: ptr.To(false),
		PriorityClassName:  "system-cluster-critical",
		ImagePullSecrets:   p.pullSecrets(),
		NodeSelector:       map[string]string{corev1.LabelOSStable: "linux"},
		Tolerations:        placement.Tolerations(p.Spec.Nodes.Tolerations),
	}
}

func hostPath(name, path string, kind corev1.HostPathType) corev1.Volume {
	source := &corev1.HostPathVolumeSource{Path: path}
	if kind != corev1.HostPathUnset {
		source.Type = &kind
	}
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{HostPath: source}}
}

func emptyDir(name string) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}
}

func mount(volume, path string) corev1.VolumeMount {
	return corev1.VolumeMount{Name: volume, MountPath: path}
}

func mountReadOnly(volume, path string) corev1.VolumeMount {
	return corev1.VolumeMount{Name: volume, MountPath: path, ReadOnly: true}
}

// EnvFromField is a variable with a field of the pod.
func EnvFromField(name, path string) corev1.EnvVar {
	from := &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}
	return corev1.EnvVar{Name: name, ValueFrom: from}
}

// Probe runs every period seconds and gives up after that many failures. All of its numbers are set: one that is left
// at zero could not be told from the default that the API server puts in its place.
//
// The kubelet's first probe comes at the moment of the container's start, when it can only fail, and its failure is a
// Warning in the Events. The delay skips that one alone: the next comes after a period.
func Probe(handler corev1.ProbeHandler, period, failures int32) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler: handler, InitialDelaySeconds: (period + 1) / 2, PeriodSeconds: period, TimeoutSeconds: 5,
		SuccessThreshold: 1, FailureThreshold: failures,
	}
}
