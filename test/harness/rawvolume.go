package harness

import (
	"errors"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// rawDriver is a CSI driver that is not LINSTOR's.
const rawDriver = "ebs.csi.aws.com"

// RawVolume is a PersistentVolume of another CSI driver that pods use as a disk.
func RawVolume() *corev1.PersistentVolume {
	return &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pvc-raw"}, Spec: corev1.PersistentVolumeSpec{
		Capacity:         corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("500Gi")},
		AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		VolumeMode:       ptr.To(corev1.PersistentVolumeBlock),
		StorageClassName: "theirs",
		PersistentVolumeSource: corev1.PersistentVolumeSource{
			CSI: &corev1.CSIPersistentVolumeSource{Driver: rawDriver, VolumeHandle: "vol-1"}}}}
}

// AttachRaw attaches it to a node, as a raw block volume: its disk looks like any empty one. It returns what says so.
func AttachRaw(a *Administrator, node string) *storagev1.VolumeAttachment {
	a.T.Helper()
	pv := RawVolume()
	attachment := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "csi-raw"},
		Spec: storagev1.VolumeAttachmentSpec{Attacher: rawDriver, NodeName: node,
			Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &pv.Name}}}
	if err := errors.Join(a.Client().Create(a.Ctx, pv), a.Client().Create(a.Ctx, attachment)); err != nil {
		a.T.Fatal(err)
	}
	return attachment
}
