package databasebackup

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/placement"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/tools"
)

// Place is where a pod of the operator's program finds the store of backups.
type Place struct {
	// Secret has the credentials of an S3 service, or is "". Claim is the one that backups are kept in, or "".
	Secret, Claim string
}

// mount brings the place into a pod whose first container needs it.
func (at *Place) mount(pod *corev1.PodSpec, readOnly bool) {
	add := func(m corev1.VolumeMount, source corev1.VolumeSource) {
		c := &pod.Containers[0]
		c.VolumeMounts = append(c.VolumeMounts, m)
		pod.Volumes = append(pod.Volumes, corev1.Volume{Name: m.Name, VolumeSource: source})
	}
	if at.Secret != "" {
		add(corev1.VolumeMount{Name: "credentials", MountPath: Credentials, ReadOnly: true},
			corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: at.Secret}})
	}
	if at.Claim != "" {
		pod.SecurityContext.FSGroup = ptr.To[int64](tools.User) // the root of a new file system is root's
		add(corev1.VolumeMount{Name: "backups", MountPath: Directory, ReadOnly: readOnly},
			corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: at.Claim}})
	}
}

// once is a pod that runs the operator's program once, with these arguments, for so many seconds at most.
func once(p resources.Params, container, image string, seconds int64, args ...string) corev1.PodSpec {
	pod := tools.Pod(p, container)
	pod.RestartPolicy = corev1.RestartPolicyNever
	pod.ActiveDeadlineSeconds = ptr.To(seconds)
	pod.NodeSelector = map[string]string{corev1.LabelOSStable: "linux"}
	pod.Tolerations = append(placement.WithoutQuorum(), pod.Tolerations...)
	pod.Containers[0].Image, pod.Containers[0].Args = image, args
	return pod
}
