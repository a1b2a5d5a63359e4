package observe

import (
	"context"
	"fmt"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/optional"
	"github.com/linstor-dev/storagecluster-operator/pkg/kube"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/snapshotclass"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/volumedriver"
)

// canary reads the claims of volumes that are tried, where the operator runs the CSI driver or has run it.
func (o *Observer) canary(ctx context.Context, f *cluster.Facts) error {
	if !volumedriver.Wanted(f) && !volumedriver.There(f) {
		return nil
	}
	var claims corev1.PersistentVolumeClaimList
	if err := o.Reader.List(ctx, &claims, client.UnsafeDisableDeepCopy, client.InNamespace(v1alpha1.WorkloadNamespace),
		canaryLabels(f)); err != nil {
		return fmt.Errorf("list PersistentVolumeClaims: %w", err)
	}
	f.Kube.Canary.Claims = byName(claims.Items, func(c *corev1.PersistentVolumeClaim) string { return c.Name })
	return o.canarySnapshots(ctx, f)
}

// canarySnapshots reads the snapshots of volumes that are tried. There are some for seconds, while their claims are
// there: they are read from the API server itself, since a watch would have to end with their definition.
func (o *Observer) canarySnapshots(ctx context.Context, f *cluster.Facts) error {
	if len(f.Kube.Canary.Claims) == 0 || snapshotclass.API(f) != optional.Served {
		return nil
	}
	var list snapshotv1.VolumeSnapshotList
	err := o.Live.List(ctx, &list, client.InNamespace(v1alpha1.WorkloadNamespace), canaryLabels(f))
	if kube.NotServed(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list VolumeSnapshots: %w", err)
	}
	f.Kube.Canary.Snapshots = byName(list.Items, func(s *snapshotv1.VolumeSnapshot) string { return s.Name })
	return nil
}

func canaryLabels(f *cluster.Facts) client.MatchingLabels {
	return client.MatchingLabels{v1alpha1.LabelCluster: f.Cluster.Name, v1alpha1.LabelComponent: v1alpha1.ComponentCanary}
}

// triedVolume notes a PersistentVolume of a claim in the workloads' namespace. Those of claims that are not the
// operator's do not matter: nobody looks for them by their names.
func triedVolume(c *cluster.Canary, pv *corev1.PersistentVolume) {
	ref := pv.Spec.ClaimRef
	if ref == nil || ref.Namespace != v1alpha1.WorkloadNamespace {
		return
	}
	if c.Volumes == nil {
		c.Volumes = map[string]string{}
	}
	c.Volumes[ref.Name] = pv.Name
}
