package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
	"github.com/linstor-dev/storagecluster-operator/test/machine"
)

// oldSatellites counts the satellites' pods whose image is not from the registry.
func oldSatellites(e *env, registry string) (int, error) {
	var pods corev1.PodList
	err := e.Client().List(e.Ctx, &pods, client.InNamespace(v1alpha1.WorkloadNamespace),
		client.MatchingLabels{v1alpha1.LabelComponent: v1alpha1.ComponentSatellite})
	old := 0
	for i := range pods.Items {
		if !strings.HasPrefix(pods.Items[i].Spec.Containers[0].Image, registry) {
			old++
		}
	}
	return old, err
}

// TestKubectlGetTellsTheTruth: a refused spec is no outage, a rollout has not ended before its last pod runs, and a
// node that is gone does not vanish from the count.
func TestKubectlGetTellsTheTruth(t *testing.T) {
	e := startReady(t, 3, harness.ThinPool)
	e.Timing.HealthLost = machine.Slow(4 * time.Second) // a restarted LINSTOR tries a satellite every other second
	e.Run()
	e.WaitPhase(v1alpha1.PhaseReady)
	e.prints("linstor", "Ready", "True", "3/3", "3/3")

	good := e.Get().Spec.Version
	e.spec(func(s *v1alpha1.StorageClusterSpec) { s.Version = "1.99.0" })
	h := e.WaitHold(v1alpha1.HoldUnsupportedChange)
	e.prints("linstor", "HumanIntervention", "True", "3/3", "3/3", "UnsupportedChange", h.ID)
	e.spec(func(s *v1alpha1.StorageClusterSpec) { s.Version = good })
	e.WaitPhase(v1alpha1.PhaseReady)

	// A satellite that takes its time: the change is not carried out meanwhile.
	e.spec(func(s *v1alpha1.StorageClusterSpec) { s.Images.Registry = "mirror.example.com/linstor" })
	rolled := false
	e.Eventually("the rollout has ended", func() error {
		c := e.Get()
		busy := strings.HasPrefix(harness.Condition(c, conditions.Reconciling), "True/")
		old, err := oldSatellites(e, "mirror.example.com/")
		if err != nil {
			return err
		}
		if c.Status.ObservedGeneration == c.Generation && old > 0 && !busy {
			e.T.Fatalf("%d satellites are old, and Reconciling is %s in phase %s", old,
				harness.Condition(c, conditions.Reconciling), c.Status.Phase)
		}
		// The controller is replaced as well; while it is away for longer than a node may be, nobody can tell who serves.
		if got := harness.Condition(c, conditions.Ready); !strings.HasPrefix(got, "True/") &&
			got != "False/"+conditions.ReasonControllerUnreachable {
			e.T.Fatalf("Ready is %s in phase %s", harness.Condition(c, conditions.Ready), c.Status.Phase)
		}
		rolled = rolled || strings.HasPrefix(c.Status.Attention, "restarting satellites")
		if busy || old > 0 || c.Status.Phase != v1alpha1.PhaseReady {
			return fmt.Errorf("%d satellites are old, Reconciling is %s", old, harness.Condition(c, conditions.Reconciling))
		}
		return nil
	})
	if !rolled {
		t.Error("the column never named the rollout")
	}

	gone := e.otherNode()
	if err := e.Sim.KillNode(e.Ctx, gone); err != nil {
		t.Fatal(err)
	}
	if err := e.Client().Delete(e.Ctx, e.Node(gone)); err != nil {
		t.Fatal(err)
	}
	e.WaitStatus("the node is missed", func(s *v1alpha1.StorageClusterStatus) bool {
		return s.Nodes.Summary == "2/3" && s.Attention == "NodeGoneRetained: "+gone
	})

	e.Update(func(c *v1alpha1.StorageCluster) { c.Spec.Suspend = true })
	e.WaitStatus("suspended",
		func(s *v1alpha1.StorageClusterStatus) bool { return strings.Contains(s.Message, "spec.suspend is set") })
}

// prints waits until kubectl get prints these words in its row.
func (e *env) prints(words ...string) {
	e.T.Helper()
	e.Eventually(fmt.Sprintf("kubectl get prints %v", words), func() error {
		out, err := e.Sim.Kubectl(e.Ctx, "get", "storagecluster")
		if err != nil {
			return err
		}
		lines := strings.Split(strings.TrimSpace(out), "\n")
		got := strings.Fields(lines[len(lines)-1])
		if len(got) < len(words) || strings.Join(got[:len(words)], " ") != strings.Join(words, " ") {
			return fmt.Errorf("%q", lines)
		}
		return nil
	})
}
