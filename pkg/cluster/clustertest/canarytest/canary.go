// Package canarytest puts StorageClasses, and volumes that are tried, into a world of package clustertest.
package canarytest

import (
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/volumespec"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/canary"
)

// RunClasses makes the accepted spec one with the CSI driver and these StorageClasses, which are all there.
func RunClasses(w *clustertest.World, entries ...volumespec.StorageClassSpec) {
	w.T.Helper()
	clustertest.RunDriver(w)
	w.Cluster.Spec.Volumes.StorageClasses = entries
	w.Accept()
	w.Kube.Driver.Volumes.ByClass, w.Kube.Driver.Classes = map[string]int{}, map[string]*storagev1.StorageClass{}
	for i := range entries {
		class := resources.StorageClass(w.Snapshot().SatelliteParams(), &entries[i], entries[i].Default)
		w.Kube.Driver.Classes[class.Name] = class
	}
	w.Kube.Canary = cluster.Canary{Claims: map[string]*corev1.PersistentVolumeClaim{}, Pods: map[string]*corev1.Pod{},
		Volumes: map[string]string{}, Snapshots: map[string]*snapshotv1.VolumeSnapshot{}}
}

// PutCanary makes the claim and the pod of a try. With a volume the claim is Bound to it.
func PutCanary(w *clustertest.World, class, volume string, phase corev1.PodPhase) (*corev1.PersistentVolumeClaim,
	*corev1.Pod) {
	w.T.Helper()
	p := w.Snapshot().SatelliteParams()
	claim, pod := canary.Claim(p, w.Kube.Driver.Classes[class]), canary.Pod(p, w.Cluster, class)
	if volume != "" {
		claim.Spec.VolumeName, claim.Status.Phase = volume, corev1.ClaimBound
		w.Kube.Canary.Volumes[claim.Name] = volume
	}
	pod.Status.Phase = phase
	w.Kube.Canary.Claims[claim.Name], w.Kube.Canary.Pods[pod.Name] = claim, pod
	return claim, pod
}

// PutCanarySnapshot makes the snapshot of a try, which nobody has taken up yet.
func PutCanarySnapshot(w *clustertest.World, class string) *snapshotv1.VolumeSnapshot {
	w.T.Helper()
	v := canary.Snapshot(w.Snapshot().SatelliteParams(), class, volumespec.DefaultSnapshotClass)
	w.Kube.Canary.Snapshots[v.Name] = v
	return v
}
