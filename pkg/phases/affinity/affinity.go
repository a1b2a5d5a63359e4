// Package affinity runs LINSTOR's affinity controller, where somebody wants it: it follows copies that move by
// replacing PersistentVolumes, whose nodes Kubernetes does not let anybody change. It is no link of the chain: nothing
// waits for it, and what fails here is told in the condition AffinityReady alone.
package affinity

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/volumespec"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/storageclass"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/affinity"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/apitls"
)

// Reasons of the condition AffinityReady, beside the common ones.
const (
	// ReasonNotWanted: spec.volumes.affinityController is None.
	ReasonNotWanted = "NotWanted"
	// ReasonNotNeeded: no PersistentVolume is bound to nodes.
	ReasonNotNeeded = "NotNeeded"
	// ReasonForeign: a Deployment of the name is somebody else's.
	ReasonForeign = "ForeignDeployment"
	// ReasonStarting: it does not run yet, or not any more.
	ReasonStarting = "StartingAffinityController"
	// ReasonStopped: it must not run while LINSTOR is on another cluster's database.
	ReasonStopped = "DatabaseInDoubt"
	// ReasonRemoving: it is being removed.
	ReasonRemoving = "RemovingAffinityController"
)

// Judge judges the Deployment. It is pure, and for a snapshot with an accepted spec.
func Judge(s *cluster.Snapshot) cluster.Evidence {
	reason, why := unneeded(s)
	live := s.Kube.Deployments[affinity.Name]
	switch {
	case reason != "" && len(Left(&s.Facts)) > 0:
		return cluster.Missing.Because(ReasonRemoving, "the affinity controller is being removed: "+why)
	case reason != "":
		return cluster.Satisfied.Because(reason, why)
	case live == nil:
		return cluster.Missing.Because(ReasonStarting, "the affinity controller has not been created yet")
	case !cluster.Ours(s.Cluster.Name, live):
		return cluster.Failed.Because(ReasonForeign, fmt.Sprintf("Deployment %s was not created by the operator: delete "+
			"it, or label it %s=%s to hand it over to the operator", live.Name, v1alpha1.LabelCluster, s.Cluster.Name))
	case uncertified(&s.Facts) != "":
		return cluster.Missing.Because(ReasonStarting, uncertified(&s.Facts))
	case s.Linstor.Foreign != nil:
		return cluster.Missing.Because(ReasonStopped, "the affinity controller is stopped while LINSTOR is using another "+
			"database, because it could bind volumes to nodes without a replica")
	case !step.Matches(live, wanted(s)):
		return cluster.Missing.Because(ReasonStarting, "the affinity controller is being updated")
	case !step.RolledOut(live):
		return cluster.Missing.Because(ReasonStarting, "the affinity controller is not running yet")
	default:
		return cluster.Satisfied.Because(conditions.ReasonAsExpected, "the affinity controller is running")
	}
}

// uncertified says that it lacks the certificate that it needs to speak to LINSTOR; "" if it does not.
func uncertified(f *cluster.Facts) string {
	return f.Certificates.Missing(&f.Target.Spec.TLS, apitls.Affinity)
}

func wanted(s *cluster.Snapshot) *appsv1.Deployment {
	return affinity.Deployment(s.SatelliteParams(), s.Linstor.Foreign == nil)
}

// unneeded says why the affinity controller is not to run; the reason is "" if it is.
func unneeded(s *cluster.Snapshot) (reason, why string) {
	if s.Target.Spec.Volumes.AffinityController != volumespec.AffinityAuto {
		return ReasonNotWanted, "spec.volumes.affinityController is None"
	}
	for _, class := range storageclass.Parameters(s) {
		if class[resources.DriverName+"/allowRemoteVolumeAccess"] != "true" {
			return "", ""
		}
	}
	return ReasonNotNeeded, "no managed StorageClass binds volumes to nodes (remoteAccess: ReplicasOnly)"
}

// Work makes or removes the Deployment. It is not made before there is a CSI driver to make volumes.
func Work(ctx context.Context, in *step.Input) {
	s := in.Snapshot
	var err error
	live := s.Kube.Deployments[affinity.Name]
	switch reason, _ := unneeded(s); {
	case reason != "":
		err = in.Delete(ctx, Left(&s.Facts))
	case live == nil && s.Kube.Deployments[resources.DriverControllerName] == nil:
	case uncertified(&s.Facts) != "":
	case live == nil || cluster.Ours(s.Cluster.Name, live):
		err = step.ApplyIfDiffers(ctx, in, live, wanted(s))
	}
	in.FailedAside(conditions.AffinityReady, err)
}

// StopOnForeignData stops the controller while LINSTOR runs on another database than this cluster's, in every phase:
// it would bind volumes to the nodes that another LINSTOR, or an old one, names. Work starts it again.
func StopOnForeignData(ctx context.Context, in *step.Input) error {
	s := in.Snapshot
	if s.Linstor.Foreign == nil || s.Target == nil || s.Cluster.Spec.Suspend || len(Left(&s.Facts)) == 0 {
		return nil
	}
	return step.ApplyIfDiffers(ctx, in, s.Kube.Deployments[affinity.Name], wanted(s))
}

// Left is what a deletion has to remove, before the CSI driver: PersistentVolumes that are being replaced must not be
// taken for ones that are gone.
func Left(f *cluster.Facts) []client.Object {
	if d := f.Kube.Deployments[affinity.Name]; d != nil && cluster.Ours(f.Cluster.Name, d) {
		return []client.Object{d}
	}
	return nil
}
