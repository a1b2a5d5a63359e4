package chaos

import (
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/drainguard"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/highavailability"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
)

// drainScenario: a node is drained and comes back while the next one is drained, with guards and the high-availability
// controller on all nodes, and both go and come back.
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
			{name: "drain", do: func(e *harness.Env) { e.Cordon("n2", true) }, done: drained("n2", "n1", "n3")},
			{name: "hand-over", do: func(e *harness.Env) { e.Cordon("n2", false); e.Cordon("n3", true) },
				done: drained("n3", "n1", "n2")},
			{name: "uncordon", do: func(e *harness.Env) { e.Cordon("n3", false) }, done: guarded},
			{name: "none", do: set("None"), done: guards("True/NotWanted")},
			{name: "auto", do: set("Auto"), done: guarded},
		},
	}
}

// drained is nil once a node's guard has gone, and those of the others are there.
func drained(node string, others ...string) func(*harness.Env) error {
	return func(e *harness.Env) error {
		if err := e.EvictGuard(node); !apierrors.IsNotFound(err) {
			return errors.Join(fmt.Errorf("%s is not drained yet", node), err)
		}
		return guards("True/"+conditions.ReasonAsExpected, others...)(e)
	}
}

// lostScenario: a node joins, gets the only copy of a snapshot, and dies with its machine. It is given up on an answer
// that names the snapshot.
func lostScenario() scenario {
	const victim = "n4"
	asked := func(e *harness.Env) error {
		c := e.Get()
		for _, h := range c.Status.NodeHolds {
			if h.Reason == v1alpha1.HoldNodeGone && slices.Equal(h.Nodes, []string{victim}) && len(h.Identities) == 1 {
				return nil
			}
		}
		return fmt.Errorf("holds %+v, leaving %+v", c.Status.NodeHolds, c.Status.Nodes.Leaving)
	}
	return scenario{
		name: "lost", nodes: 3,
		begin: func(e *harness.Env) {
			apply(unguarded + "  nodes: {removalPolicy: Remove}\n")(e)
			e.Eventually("Ready", func() error { return ready("3/3", "3/3")(e) })
		},
		steps: []step{
			{name: "join", way: true, do: func(e *harness.Env) {
				node := harness.Nodes(4)[3]
				node.Machine.Address = "192.168.0.40" // that of the one before, each time
				e.AddNode(node)
			}, done: func(e *harness.Env) error {
				// Until the CSI driver knows the node, nothing is placed on it: it must not die in between once, and later once.
				if props := e.Sim.World().NodeProperties(victim, linstor.PropAutoplace); len(props) > 0 {
					return fmt.Errorf("%s has %v", victim, props)
				}
				return ready("4/4", "4/4")(e)
			}},
			{name: "die", done: asked, do: func(e *harness.Env) {
				volumes := e.Sim.World().Volumes()
				err := errors.Join(volumes.Create("pvc-1", 1<<20, "ssd", "n1", victim),
					volumes.CreateSnapshot("pvc-1", "old", victim), e.Sim.KillNode(e.Ctx, victim))
				e.WaitConnection(victim, "OFFLINE") // one that LINSTOR still sees would be evacuated
				if err := errors.Join(err, e.Sim.RemoveNode(e.Ctx, victim)); err != nil {
					e.T.Fatal(err)
				}
			}},
			{name: "declare-lost", do: func(e *harness.Env) {
				e.Resume(e.WaitNodeHold(v1alpha1.HoldNodeGone), v1alpha1.OptionDeclareLost)
			}, done: func(e *harness.Env) error {
				if status, _ := e.Sim.World().NodeStatus(victim); status != "" {
					return fmt.Errorf("%s is %s", victim, status)
				}
				return ready("3/3", "3/3")(e)
			}},
		},
		reset: func(e *harness.Env) {
			if err := e.Sim.World().Volumes().Delete("pvc-1"); err != nil {
				e.T.Fatal(err)
			}
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
		if err := harness.Guarded(&e.Administrator, nodes...); err != nil {
			return err
		}
		for _, name := range []string{"PodDisruptionBudget/" + drainguard.Name, "DaemonSet/" + highavailability.Name} {
			if owned := e.Owned(); slices.Contains(owned, name) != (len(nodes) > 0) {
				return fmt.Errorf("the operator has %v", owned)
			}
		}
		return ready("3/3", "3/3")(e)
	}
}
