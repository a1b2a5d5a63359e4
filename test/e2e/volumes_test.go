package e2e

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
)

// TestVolumesAreCounted: somebody who asks whether the data has all its copies finds the answer in the status.
func TestVolumesAreCounted(t *testing.T) {
	e := installed(t, 3, harness.ThinPool)
	e.WaitStatus("no volume", func(s *v1alpha1.StorageClusterStatus) bool {
		return s.Volumes != nil && s.Volumes.Total == 0 &&
			meta.IsStatusConditionTrue(s.Conditions, conditions.VolumesHealthy)
	})
	down := e.otherNode()
	volume(e, "pvc-1", down, otherThan(down))
	volume(e, "pvc-2", otherThan(down))
	e.WaitStatus("both are whole", func(s *v1alpha1.StorageClusterStatus) bool {
		return s.Volumes.Total == 2 &&
			s.Volumes.Healthy == 2
	})

	if err := e.Sim.KillNode(e.Ctx, down); err != nil {
		t.Fatal(err)
	}
	e.WaitStatus("a copy is missed", func(s *v1alpha1.StorageClusterStatus) bool {
		c := meta.FindStatusCondition(s.Conditions, conditions.VolumesHealthy)
		return s.Volumes.Degraded == 1 && s.Volumes.Healthy == 1 && c.Status == metav1.ConditionFalse &&
			c.Message == "pvc-1 has 1 of 2 replicas"
	})
	if err := e.Sim.ReviveNode(e.Ctx, down); err != nil {
		t.Fatal(err)
	}
	e.WaitStatus("both are whole again", func(s *v1alpha1.StorageClusterStatus) bool {
		return s.Volumes.Healthy == 2 && meta.IsStatusConditionTrue(s.Conditions, conditions.VolumesHealthy)
	})
}

// otherThan is a node that is not the named one.
func otherThan(name string) string {
	if name == "n1" {
		return "n2"
	}
	return "n1"
}
