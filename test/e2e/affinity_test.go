package e2e

import (
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/volumespec"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/affinity"
	built "github.com/linstor-dev/storagecluster-operator/pkg/resources/affinity"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
)

// TestAffinityController: it comes with a class that binds volumes to nodes, once somebody wants it, and goes with the
// class, with the word for it, and with the cluster.
func TestAffinityController(t *testing.T) {
	e := start(t, harness.Nodes(2))
	e.Run()
	local := volumespec.StorageClassSpec{Name: "local", Replicas: 2, RemoteAccess: volumespec.RemoteReplicasOnly}
	e.Apply(harness.Manifest(`
  volumes: {canary: None, storageClasses: [{name: local, remoteAccess: ReplicasOnly}]}` + harness.ThinPool))
	says := func(reason string, there bool) {
		t.Helper()
		e.says(conditions.AffinityReady, reason)
		var d appsv1.Deployment
		err := e.Client().Get(e.Ctx, client.ObjectKey{Namespace: v1alpha1.WorkloadNamespace, Name: built.Name}, &d)
		if there && (err != nil || d.Status.AvailableReplicas != 1) || !there && !apierrors.IsNotFound(err) {
			t.Errorf("Deployment is to be there: %t; %v, %d pods are available", there, err, d.Status.AvailableReplicas)
		}
	}
	mode := func(m volumespec.AffinityMode) func(*v1alpha1.StorageCluster) {
		return func(c *v1alpha1.StorageCluster) { c.Spec.Volumes.AffinityController = m }
	}
	says(affinity.ReasonNotWanted, false)
	e.Update(mode(volumespec.AffinityAuto))
	says(conditions.ReasonAsExpected, true)
	e.Update(setClasses(volumespec.StorageClassSpec{Name: "anywhere", Replicas: 2}))
	says(affinity.ReasonNotNeeded, false)
	e.Update(setClasses(local))
	says(conditions.ReasonAsExpected, true)
	e.Update(mode(volumespec.AffinityNone))
	says(affinity.ReasonNotWanted, false)
	e.Update(mode(volumespec.AffinityAuto))
	says(conditions.ReasonAsExpected, true)
	e.Remove()
	e.WaitGone()
	if left := e.Owned(); slices.Contains(left, "Deployment/"+built.Name) {
		t.Errorf("left after the deletion: %v", left)
	}
}
