package e2e

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
)

// TestSatelliteResources: no satellite is of the class BestEffort, and what the spec asks for comes to all of them,
// one after the other.
func TestSatelliteResources(t *testing.T) {
	e := startReady(t, 3, harness.ThinPool)
	e.Run()
	e.ready("3/3", "3/3")
	e.satellitesUse("256Mi", "3Gi")
	roll := watchRoll(e)
	e.Update(func(c *v1alpha1.StorageCluster) {
		c.Spec.Nodes.Satellite.Resources = v1alpha1.Resources{
			Requests: v1alpha1.ResourceAmounts{corev1.ResourceMemory: resource.MustParse("512Mi")},
			Limits:   v1alpha1.ResourceAmounts{corev1.ResourceMemory: resource.MustParse("1Gi")},
		}
	})
	e.satellitesUse("512Mi", "1Gi")
	e.ready("3/3", "3/3")
	if most, order := roll.result(); most != 1 || len(order) != 3 {
		t.Errorf("%d satellites were away at once, restarted were %v", most, order)
	}
}

// satellitesUse waits until every satellite requests and is limited to that much memory.
func (e *env) satellitesUse(request, limit string) {
	e.T.Helper()
	e.Eventually("all satellites request "+request, func() error {
		var pods corev1.PodList
		if err := e.Client().List(e.Ctx, &pods, client.InNamespace(v1alpha1.WorkloadNamespace),
			client.MatchingLabels{v1alpha1.LabelComponent: v1alpha1.ComponentSatellite}); err != nil {
			return err
		}
		for _, pod := range pods.Items {
			i := slices.IndexFunc(pod.Spec.Containers,
				func(c corev1.Container) bool { return c.Name == resources.SatelliteContainer })
			got := pod.Spec.Containers[i].Resources
			if got.Requests.Memory().Cmp(resource.MustParse(request)) != 0 ||
				got.Limits.Memory().Cmp(resource.MustParse(limit)) != 0 ||
				pod.Status.QOSClass == corev1.PodQOSBestEffort {
				return fmt.Errorf("satellite %s has %v", pod.Name, got)
			}
		}
		if len(pods.Items) != 3 {
			return fmt.Errorf("%d satellites", len(pods.Items))
		}
		return nil
	})
}
