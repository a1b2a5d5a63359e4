// Package canary builds the claim and the pod with which a volume of a StorageClass is tried, and the snapshot of it.
package canary

import (
	_ "embed"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/owner"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/tools"
)

const (
	// Container is the one of the pods.
	Container = "canary"
	// file is what the pod writes and reads.
	file = "/volume/canary"
)

// Script writes a file, and compares what it reads back past the page cache, which would have it all the same if the
// device had nothing.
//
//go:embed canary.sh
var Script string

// Name is the name of a StorageClass's claim, of its pod and of its snapshot: a second one of each can never be there.
func Name(class string) string { return "linstor-canary-" + class }

// Claim asks for the smallest volume that the StorageClass's file system can be made on: XFS wants 300 MiB (xfsprogs
// 5.19, mkfs.xfs), ext4 is content with 8 MiB.
func Claim(p resources.Params, class *storagev1.StorageClass) *corev1.PersistentVolumeClaim {
	size := resource.MustParse("8Mi")
	if class.Parameters["csi.storage.k8s.io/fstype"] == "xfs" {
		size = resource.MustParse("300Mi")
	}
	return &corev1.PersistentVolumeClaim{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"},
		ObjectMeta: resources.ObjectMeta(p, Name(class.Name), v1alpha1.ComponentCanary),
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: ptr.To(class.Name),
			AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			VolumeMode:       ptr.To(corev1.PersistentVolumeFilesystem),
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: size}},
		},
	}
}

// Pod runs the script on the volume of the claim.
func Pod(p resources.Params, by *v1alpha1.StorageCluster, class string) *corev1.Pod {
	pod := tools.Pod(p, Container)
	pod.RestartPolicy = corev1.RestartPolicyNever
	pod.NodeSelector = map[string]string{v1alpha1.LabelMember: p.Cluster}
	pod.SecurityContext.FSGroup = ptr.To[int64](tools.User) // the root of a new file system is root's
	c := &pod.Containers[0]
	c.Command = []string{"/bin/sh", "-c", Script, Container, file}
	c.Resources = corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m"),
			corev1.ResourceMemory: resource.MustParse("16Mi")},
		Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")},
	}
	c.VolumeMounts = []corev1.VolumeMount{{Name: "volume", MountPath: "/volume"}}
	pod.Volumes = []corev1.Volume{{Name: "volume", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: Name(class)}}}}
	return owner.Pod(by, resources.ObjectMeta(p, Name(class), v1alpha1.ComponentCanary), pod)
}

// Snapshot is of the volume of a StorageClass's claim.
func Snapshot(p resources.Params, class, snapshotClass string) *snapshotv1.VolumeSnapshot {
	return &snapshotv1.VolumeSnapshot{
		TypeMeta:   metav1.TypeMeta{APIVersion: snapshotv1.SchemeGroupVersion.String(), Kind: "VolumeSnapshot"},
		ObjectMeta: resources.ObjectMeta(p, Name(class), v1alpha1.ComponentCanary),
		Spec: snapshotv1.VolumeSnapshotSpec{
			Source:                  snapshotv1.VolumeSnapshotSource{PersistentVolumeClaimName: ptr.To(Name(class))},
			VolumeSnapshotClassName: ptr.To(snapshotClass),
		},
	}
}
