package chaos

import (
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/drainguard"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/highavailability"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
)

// drainScenario: a node is drained and comes back, with guards and the high-availability controller on all nodes, and
// both go and come back.
func drainScenario() scenario {
	set := func(mode string) func(*harness.Env) {
		return apply(harness.ThinPool + fmt.Sprintf(`
  volumes: {driver: {mode: Managed}, canary: None, storageClasses: [{name: fast}],
    highAvailability: %[1]s, drainGuard: %[1]s}
`, mode))
	}
	guarded := guards("True/"+conditions.ReasonAsExpected, "n1", "n2", "n3")
	return scenario{
		name: "drain", nodes: 3,
		begin: func(e *harness.Env) {
			set("Auto")(e)
			e.Eventually("Ready", func() error { return guarded(e) })
		},
		steps: []step{
			{name: "drain", do: func(e *harness.Env) { e.Cordon("n2", true) }, done: func(e *harness.Env) error {
				if err := e.EvictGuard("n2"); !apierrors.IsNotFound(err) {
					return errors.Join(errors.New("n2 is not drained yet"), err)
				}
				return guards("True/"+conditions.ReasonAsExpected, "n1", "n3")(e)
			}},
			{name: "uncordon", do: func(e *harness.Env) { e.Cordon("n2", false) }, done: guarded},
			{name: "none", do: set("None"), done: guards("True/NotWanted")},
			{name: "auto", do: set("Auto"), done: guarded},
		},
	}
}

// guards is nil once drain guards stand on these nodes, with one PodDisruptionBudget, and the high-availability
// controller is there with them.
func guards(condition string, nodes ...string) func(*harness.Env) error {
	return func(e *harness.Env) error {
		c := e.Get()
		for _, kind := range []string{conditions.DrainGuardReady, conditions.HighAvailabilityReady} {
			if got := harness.Condition(c, kind); got != condition {
				return fmt.Errorf("%s is %s", kind, got)
			}
		}
		var pods corev1.PodList
		if err := e.Client().List(e.Ctx, &pods, client.InNamespace(v1alpha1.WorkloadNamespace),
			client.MatchingLabels{v1alpha1.LabelComponent: v1alpha1.ComponentDrainGuard}); err != nil {
			return err
		}
		var have []string
		for i := range pods.Items {
			if p := &pods.Items[i]; p.DeletionTimestamp == nil && p.Status.Phase == corev1.PodRunning {
				have = append(have, p.Spec.NodeName)
			}
		}
		slices.Sort(have)
		if !slices.Equal(have, nodes) || len(pods.Items) != len(nodes) {
			return fmt.Errorf("%d guards, those that run are on %v", len(pods.Items), have)
		}
		for _, name := range []string{"PodDisruptionBudget/" + drainguard.Name, "DaemonSet/" + highavailability.Name} {
			if owned := e.Owned(); slices.Contains(owned, name) != (len(nodes) > 0) {
				return fmt.Errorf("the operator has %v", owned)
			}
		}
		return ready("3/3", "3/3")(e)
	}
}
