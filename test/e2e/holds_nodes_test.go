package e2e

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
	"github.com/linstor-dev/storagecluster-operator/test/machine"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster"
)

// onlyFirst selects the first node only: what a user does to go on without the others.
func onlyFirst(c *v1alpha1.StorageCluster) {
	c.Spec.Nodes.NodeSelector = map[string]string{corev1.LabelHostname: "n1"}
}

func holdKernelModuleFailed(t *testing.T) {
	t.Parallel()
	t.Run("loader fails", kernelModuleFails)
	t.Run("deadline", kernelModuleDeadline)
}

func kernelModuleFails(t *testing.T) {
	e := start(t, harness.Nodes(3))
	fails := func(nodes ...string) {
		for _, n := range nodes {
			e.Sim.Faults().SetLoaderResult(n, simcluster.LoaderResult{ExitCode: 1,
				Message: "Could not find the expexted *.ko, see stderr for more details"})
		}
	}
	fails("n1", "n2", "n3")
	e.Run()
	e.Apply(harness.Manifest(harness.ThinPool))
	h := e.held(v1alpha1.HoldKernelModuleFailed, "Could not find the expexted")
	h = e.retriedInVain(h)
	e.changedSpec(h, func(c *v1alpha1.StorageCluster) {
		c.Spec.Nodes.NodeSelector = map[string]string{"example.com/storage": "true"}
	})
	h = e.held(v1alpha1.HoldKernelModuleFailed)
	e.Sim.Faults().SetLoaderResult("n1", simcluster.LoaderResult{})
	e.stays(h, "one of the two nodes that are needed has the module")
	e.Sim.Faults().SetLoaderResult("n2", simcluster.LoaderResult{})
	e.ended(h, fsm.Cleared)
	c := e.WaitPhase(v1alpha1.PhaseDegraded)
	if c.Status.Nodes.Summary != "2/3" {
		t.Errorf("nodes are %s", c.Status.Nodes.Summary)
	}
	e.Sim.Faults().SetLoaderResult("n3", simcluster.LoaderResult{})
	e.ready("3/3", "3/3")
}

// kernelModuleDeadline: nothing fails, but nothing goes on either.
func kernelModuleDeadline(t *testing.T) {
	e := start(t, harness.Nodes(3))
	for _, n := range []string{"n2", "n3"} {
		if err := e.Sim.KillNode(e.Ctx, n); err != nil {
			t.Fatal(err)
		}
	}
	deadline := machine.Slow(10 * time.Second) // n1 has its module long before
	e.Timing.Deadlines[fsm.KernelModule] = deadline
	e.Run()
	e.Apply(harness.Manifest(harness.ThinPool))
	h := e.held(v1alpha1.HoldKernelModuleFailed, "no progress for "+deadline.String(), "1 of 3")
	if diff := cmp.Diff([]string{"n2", "n3"}, h.Nodes); diff != "" {
		t.Errorf("nodes of the hold: %s", diff)
	}
	h = e.retriedInVain(h)
	for _, n := range []string{"n2", "n3"} {
		if err := e.Sim.ReviveNode(e.Ctx, n); err != nil {
			t.Fatal(err)
		}
	}
	e.ended(h, fsm.Cleared)
	e.ready("3/3", "3/3")
}

func holdSecureBootKeyMissing(t *testing.T) {
	e := start(t, harness.Nodes(3))
	refused := simcluster.LoaderResult{ExitCode: 1,
		Message: "insmod: ERROR: could not insert module ./drbd.ko: Required key not available"}
	for _, n := range []string{"n1", "n2", "n3"} {
		e.Sim.Faults().SetLoaderResult(n, refused)
	}
	e.Run()
	e.Apply(harness.Manifest(harness.ThinPool))
	h := e.held(v1alpha1.HoldSecureBootKeyMissing, "Secure Boot", "Required key not available")
	e.ignored(h.ID + ":skip")
	e.staysAfterSpecChange(h)
	h = e.retriedInVain(h)
	for _, n := range []string{"n1", "n2", "n3"} {
		e.Sim.Faults().SetLoaderResult(n, simcluster.LoaderResult{})
	}
	e.stays(h, "the key is enrolled now")
	e.answered(h, v1alpha1.OptionRetry)
	e.ready("3/3", "3/3")
}

func holdSatellitesFailed(t *testing.T) {
	e := start(t, harness.Nodes(3))
	for _, n := range []string{"n2", "n3"} {
		e.Sim.Faults().SetCrash(resources.SatelliteContainer, n, "bind: address already in use")
	}
	e.Run()
	e.Apply(harness.Manifest(harness.ThinPool))
	h := e.held(v1alpha1.HoldSatellitesFailed, "(n2, n3)", "address already in use")
	h = e.retriedInVain(h)
	h = e.lookedAgain(h)
	e.Sim.Faults().SetCrash(resources.SatelliteContainer, "n2", "")
	e.Sim.Faults().SetCrash(resources.SatelliteContainer, "n3", "")
	e.ended(h, fsm.Cleared)
	e.ready("3/3", "3/3")
}

func holdNodeRegistrationFailed(t *testing.T) {
	t.Parallel()
	t.Run("node refuses", registrationRefused)
	t.Run("LINSTOR refuses", registrationFails)
}

func registrationRefused(t *testing.T) {
	e := start(t, harness.Nodes(3))
	for _, n := range []string{"n2", "n3"} {
		e.Sim.World().Machine(n).SetAuthenticationError(true)
	}
	e.Run()
	e.Apply(harness.Manifest(harness.ThinPool))
	h := e.held(v1alpha1.HoldNodeRegistrationFailed, "(n2, n3)", "AUTHENTICATION_ERROR")
	h = e.retriedInVain(h)
	for _, n := range []string{"n2", "n3"} {
		e.Sim.World().Machine(n).SetAuthenticationError(false)
		e.reconnect(n)
	}
	e.ended(h, fsm.Cleared)
	e.ready("3/3", "3/3")
}

// reconnect is `linstor node reconnect`, which the hold's message recommends.
func (e nodeEnv) reconnect(node string) {
	e.T.Helper()
	e.linstorPut("/v1/nodes/" + node + "/reconnect")
}

// registrationFails: LINSTOR itself refuses every new node for a while.
func registrationFails(t *testing.T) {
	e := start(t, harness.Nodes(3))
	e.Sim.World().SetFault(refuseNewNodes)
	e.Run()
	e.Apply(harness.Manifest(harness.ThinPool))
	h := e.held(v1alpha1.HoldNodeRegistrationFailed, "out of order")
	h = e.retriedInVain(h)
	e.changedSpec(h, func(c *v1alpha1.StorageCluster) {
		c.Spec.Nodes.NodeSelector = map[string]string{"example.com/storage": "true"}
	})
	h = e.held(v1alpha1.HoldNodeRegistrationFailed)
	e.Sim.World().SetFault(nil)
	e.ended(h, fsm.Cleared)
	e.ready("3/3", "3/3")
}

func holdSatelliteVersionMismatch(t *testing.T) {
	e := startReady(t, 3, harness.ThinPool)
	e.Run()
	e.ready("3/3", "3/3")
	for _, n := range []string{"n2", "n3"} {
		e.satelliteImage(n, "piraeus-server:v1.34.2")
	}
	// Trouble of nodes does not stop a running cluster by itself; a change of the spec cannot be carried out, though.
	e.WaitPhase(v1alpha1.PhaseDegraded)
	e.changeSpec()
	h := e.held(v1alpha1.HoldSatelliteVersionMismatch, "(n2, n3)", "v1.34.2", "v1.35.3")
	h = e.lookedAgain(e.retriedInVain(h))
	for _, n := range []string{"n2", "n3"} { // as the hold's message says
		pod := e.satellitePod(n)
		if err := e.Client().Delete(e.Ctx, pod); err != nil {
			t.Fatal(err)
		}
	}
	e.ended(h, fsm.Cleared)
	e.ready("3/3", "3/3")
}

func (e nodeEnv) satellitePod(node string) *corev1.Pod {
	e.T.Helper()
	var pods corev1.PodList
	err := e.Client().List(e.Ctx, &pods, client.InNamespace(v1alpha1.WorkloadNamespace),
		client.MatchingLabels{v1alpha1.LabelComponent: v1alpha1.ComponentSatellite})
	if err != nil {
		e.T.Fatal(err)
	}
	i := slices.IndexFunc(pods.Items, func(p corev1.Pod) bool {
		return p.Spec.NodeName == node &&
			p.DeletionTimestamp == nil
	})
	if i < 0 {
		e.T.Fatalf("node %s has no satellite", node)
	}
	return &pods.Items[i]
}

// satelliteImage makes a node's satellite pod one of another image, as it is left over from before an upgrade.
func (e nodeEnv) satelliteImage(node, image string) {
	e.T.Helper()
	pod := e.satellitePod(node)
	i := slices.IndexFunc(pod.Spec.Containers,
		func(c corev1.Container) bool { return c.Name == resources.SatelliteContainer })
	patch := client.MergeFrom(pod.DeepCopy())
	pod.Spec.Containers[i].Image = resources.DefaultRegistry + "/" + image
	if err := e.Client().Patch(e.Ctx, pod, patch); err != nil {
		e.T.Fatal(err)
	}
}

func holdNoMatchingNodes(t *testing.T) {
	e := start(t, harness.Nodes(2))
	e.Timing.Deadlines[fsm.KernelModule] = machine.Slow(time.Second)
	e.Run()
	e.Apply(harness.Manifest("  nodes: {nodeSelector: {example.com/rack: a}}" + harness.ThinPool))
	h := e.held(v1alpha1.HoldNoMatchingNodes, "no nodes match spec.nodes")
	h = e.retriedInVain(h)
	e.label("n1", "example.com/rack", "a")
	e.ended(h, fsm.Cleared)
	e.ready("1/1", "1/1")
}

// TestHoldNoMatchingNodesSpec corrects the selector.
func TestHoldNoMatchingNodesSpec(t *testing.T) {
	e := start(t, harness.Nodes(2))
	e.Timing.Deadlines[fsm.KernelModule] = machine.Slow(time.Second)
	e.Run()
	e.Apply(harness.Manifest("  nodes: {nodeSelector: {example.com/rack: a}}" + harness.ThinPool))
	h := e.held(v1alpha1.HoldNoMatchingNodes)
	e.changedSpec(h, onlyFirst)
	e.ready("1/1", "1/1")
}

func (e nodeEnv) label(node, key, value string) {
	e.T.Helper()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}
	patch := fmt.Sprintf(`{"metadata":{"labels":{%q:%q}}}`, key, value)
	if err := e.Client().Patch(e.Ctx, n, client.RawPatch("application/merge-patch+json", []byte(patch))); err != nil {
		e.T.Fatal(err)
	}
}
