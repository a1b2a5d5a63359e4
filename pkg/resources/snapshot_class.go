package resources

import (
	"cmp"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/volumespec"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

const (
	// DriverSnapshotterContainer turns VolumeSnapshotContents into calls of the driver.
	DriverSnapshotterContainer = "csi-snapshotter"
	// AnnotationDefaultSnapshotClass marks the VolumeSnapshotClass of VolumeSnapshots that name none. Each driver may
	// have one; with two of a driver no such snapshot is taken (external-snapshotter 8.7, pkg/common-controller,
	// SetDefaultSnapshotClass).
	AnnotationDefaultSnapshotClass = "snapshot.storage.kubernetes.io/is-default-class"
)

// SnapshotClass is the VolumeSnapshotClass of spec.volumes.snapshots, marked as the driver's default or not. Snapshots
// are in the cluster, which is the driver's default; it takes other places from parameters (linstor-csi 1.12).
func SnapshotClass(p Params, isDefault bool) *snapshotv1.VolumeSnapshotClass {
	e := &p.Spec.Volumes.Snapshots
	c := &snapshotv1.VolumeSnapshotClass{
		TypeMeta: metav1.TypeMeta{APIVersion: snapshotv1.SchemeGroupVersion.String(), Kind: "VolumeSnapshotClass"},
		ObjectMeta: metav1.ObjectMeta{Name: cmp.Or(e.ClassName, volumespec.DefaultSnapshotClass),
			Labels: labels(p.Cluster, v1alpha1.ComponentSnapshotClass)},
		Driver:         DriverName,
		DeletionPolicy: snapshotv1.DeletionPolicy(cmp.Or(e.DeletionPolicy, volumespec.SnapshotsDelete)),
	}
	if isDefault {
		c.Annotations = map[string]string{AnnotationDefaultSnapshotClass: "true"}
	}
	hash := text.Digest(c)
	metav1.SetMetaDataAnnotation(&c.ObjectMeta, AnnotationSpecHash, hash)
	return c
}
