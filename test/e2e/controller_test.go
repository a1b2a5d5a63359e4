package e2e

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/catalogue"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
	"github.com/linstor-dev/storagecluster-operator/test/invariants"
)

// controllerPods are the pods of LINSTOR's controller, those that end included.
func controllerPods(e *env) []corev1.Pod {
	e.T.Helper()
	var pods corev1.PodList
	if err := e.Client().List(e.Ctx, &pods, client.InNamespace(v1alpha1.WorkloadNamespace),
		client.MatchingLabels{v1alpha1.LabelComponent: v1alpha1.ComponentController}); err != nil {
		e.T.Fatal(err)
	}
	return pods.Items
}

// runsWith reports whether a controller that requests so much cpu is ready; an error otherwise.
func (e *env) runsWith(cpu string) error {
	var seen []string
	for _, p := range controllerPods(e) {
		got := p.Spec.Containers[0].Resources.Requests.Cpu()
		if p.DeletionTimestamp == nil && invariants.PodReady(&p) && got.Cmp(resource.MustParse(cpu)) == 0 {
			return nil
		}
		seen = append(seen, fmt.Sprintf("%s on %s requests %s, ready %t, ends %t", p.Name, p.Spec.NodeName, got,
			invariants.PodReady(&p), p.DeletionTimestamp != nil))
	}
	return fmt.Errorf("no controller with cpu %s: %s", cpu, strings.Join(seen, "; "))
}

// TestAChangedControllerNeedsNoDeadNode: the node of the controller dies, so that its pod ends for ever, and then the
// controller's pods change. First to what no node has: the one that runs goes on.
func TestAChangedControllerNeedsNoDeadNode(t *testing.T) {
	e := start(t, harness.Nodes(3))
	e.Run()
	e.Apply(harness.Manifest("  controller: {resources: {requests: {cpu: 1}}}" + harness.ThinPool))
	e.WaitPhase(v1alpha1.PhaseReady)
	dead := e.controllerNode()
	if err := e.Sim.KillNode(e.Ctx, dead); err != nil {
		t.Fatal(err)
	}
	e.Eventually("a controller on another node", func() error {
		for _, p := range controllerPods(e) {
			if p.DeletionTimestamp != nil && p.Spec.NodeName == dead {
				return e.runsWith("1")
			}
		}
		return fmt.Errorf("no pod ends on %s", dead)
	})
	e.WaitPhase(v1alpha1.PhaseDegraded)

	e.Apply(harness.Manifest("  controller: {resources: {requests: {cpu: 500}}}" + harness.ThinPool))
	e.WaitStatus("the cause", func(s *v1alpha1.StorageClusterStatus) bool {
		c := meta.FindStatusCondition(s.Conditions, conditions.ControllerReady)
		return strings.Contains(c.Message, "(spec.controller.resources requests cpu 500): 0/3 nodes") &&
			strings.Contains(c.Message, "is stuck Terminating on node "+dead+", which is not ready")
	})
	if err := e.runsWith("1"); err != nil {
		t.Error(err)
	}

	e.Apply(harness.Manifest("  controller: {resources: {requests: {cpu: 2}}}" + harness.ThinPool))
	e.Eventually("the changed controller", func() error { return e.runsWith("2") })
	e.WaitPhase(v1alpha1.PhaseDegraded)
	for _, p := range controllerPods(e) {
		if p.Spec.NodeName != dead && p.Spec.Containers[0].Resources.Requests.Cpu().Value() != 2 {
			t.Errorf("pod %s of before is still there", p.Name)
		}
	}
	if err := e.Sim.ReviveNode(e.Ctx, dead); err != nil {
		t.Fatal(err)
	}
	e.WaitPhase(v1alpha1.PhaseReady)
}

// TestAnOperatorThatDoesNotKnowTheVersion: an operator of before is started on a cluster of a newer LINSTOR. It tells
// that instead of leaving the status as it was, changes nothing, and takes the cluster down when told to.
func TestAnOperatorThatDoesNotKnowTheVersion(t *testing.T) {
	e := startReady(t, 2, harness.ThinPool)
	e.Run()
	e.WaitPhase(v1alpha1.PhaseReady)
	e.StopOperator()
	e.Catalogue = &catalogue.Catalogue{}
	e.Run()
	e.WaitStatus("Ready is Unknown", func(s *v1alpha1.StorageClusterStatus) bool {
		c := meta.FindStatusCondition(s.Conditions, conditions.Ready)
		return c.Status == metav1.ConditionUnknown && c.Reason == conditions.ReasonObservationFailed &&
			strings.Contains(c.Message, "does not support LINSTOR")
	})
	e.WaitEvent(conditions.ReasonObservationFailed, "does not support LINSTOR")
	if err := e.runs(); err != nil {
		t.Error(err)
	}
	if err := e.Client().Delete(e.Ctx, e.Get()); err != nil {
		t.Fatal(err)
	}
	e.WaitGone()
}

// runs reports whether a controller is ready.
func (e *env) runs() error {
	for _, p := range controllerPods(e) {
		if invariants.PodReady(&p) {
			return nil
		}
	}
	return fmt.Errorf("no controller is ready")
}
