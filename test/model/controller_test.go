package model

import (
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/test/invariants"
)

// TestAControllerDoesNotWaitForADeadNode changes the controller's template while the node of its first pod is off, so
// that this pod ends for ever: another controller must come to run from the new template, on the nodes that are there.
func TestAControllerDoesNotWaitForADeadNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := newChecked(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			c.operator.kill()
			c.close()
			synctest.Wait()
		}()
		for range 3 {
			c.addNode()
		}
		c.user.create(0)
		c.rest()
		first := c.controllers()
		if len(first) != 1 || !invariants.PodReady(&first[0]) {
			t.Fatalf("at rest: %s", c.describe())
		}
		c.kill(c.node(first[0].Spec.NodeName))
		c.rest()
		c.user.memory(3)
		c.rest()
		hangs := 0
		for _, p := range c.controllers() {
			amount := p.Spec.Containers[0].Resources.Requests.Memory()
			switch {
			case p.Name == first[0].Name && p.DeletionTimestamp != nil:
				hangs++
			case !invariants.PodReady(&p) || amount.Value() != 4<<28:
				t.Errorf("pod %s is ready: %t, requests %s", p.Name, invariants.PodReady(&p), amount)
			}
		}
		if hangs != 1 || len(c.controllers()) != 2 {
			t.Errorf("%d pods, %d of them the one that hangs", len(c.controllers()), hangs)
		}
		if o := c.cluster(); o.Status.Phase != v1alpha1.PhaseDegraded || o.Status.Hold != nil {
			t.Errorf("phase %s: %s", o.Status.Phase, o.Status.Message)
		}
		if faults := c.check(); len(faults) > 0 {
			t.Errorf("%v", faults)
		}
	})
}

// controllers are the pods of LINSTOR's controller, those that end included.
func (s *site) controllers() []corev1.Pod {
	return s.pods(func(p *corev1.Pod) bool { return p.Labels[v1alpha1.LabelComponent] == v1alpha1.ComponentController })
}
