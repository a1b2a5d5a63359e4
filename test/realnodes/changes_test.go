package realnodes

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/test/invariants"
)

// satelliteMemory sets the satellites' memory request and limit.
func satelliteMemory(request, limit string) func(*v1alpha1.StorageCluster) {
	return func(sc *v1alpha1.StorageCluster) {
		sc.Spec.Nodes.Satellite.Resources = v1alpha1.Resources{
			Requests: v1alpha1.ResourceAmounts{corev1.ResourceMemory: resource.MustParse(request)},
			Limits:   v1alpha1.ResourceAmounts{corev1.ResourceMemory: resource.MustParse(limit)},
		}
	}
}

// changeConfiguration changes what satellites run with: they are restarted one by one.
func changeConfiguration(c *cluster) {
	const limit = "1Gi"
	before := c.uids(v1alpha1.ComponentSatellite)
	c.Update(satelliteMemory("300Mi", limit))
	most := 0
	c.Eventually("all satellites are limited to "+limit, func() error {
		away, changed := len(c.nodes), 0
		for _, p := range c.component(v1alpha1.ComponentSatellite) {
			if invariants.PodReady(&p) && p.DeletionTimestamp == nil {
				away--
			}
			if memoryLimit(&p).Cmp(resource.MustParse(limit)) == 0 && invariants.PodReady(&p) {
				changed++
			}
		}
		if most = max(most, away); changed < len(c.nodes) {
			return fmt.Errorf("%d of %d are", changed, len(c.nodes))
		}
		return nil
	})
	if most != 1 {
		c.T.Errorf("%d satellites were away at once", most)
	}
	c.ready("3/3")
	for uid := range c.uids(v1alpha1.ComponentSatellite) {
		if before[uid] != "" {
			c.T.Errorf("%s was not restarted", before[uid])
		}
	}
}

func memoryLimit(p *corev1.Pod) *resource.Quantity {
	for i := range p.Spec.Containers {
		if p.Spec.Containers[i].Name == resources.SatelliteContainer {
			return p.Spec.Containers[i].Resources.Limits.Memory()
		}
	}
	return &resource.Quantity{}
}

// uids are the names of a component's pods, by UID.
func (c *cluster) uids(component string) map[string]string {
	c.T.Helper()
	out := map[string]string{}
	for _, p := range c.component(component) {
		out[string(p.UID)] = p.Name
	}
	return out
}
