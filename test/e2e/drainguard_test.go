package e2e

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/volumespec"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/drainguard"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
	"github.com/linstor-dev/storagecluster-operator/test/sim"
)

// guardedPool has guards on its nodes.
const guardedPool = "  volumes: {driver: {mode: None}, drainGuard: Auto}" + selectedPool

func guardOf(e *env, node string) *corev1.Pod {
	pod := &corev1.Pod{}
	err := e.Client().Get(e.Ctx, client.ObjectKey{Namespace: v1alpha1.WorkloadNamespace,
		Name: drainguard.PodName(node)}, pod)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		e.T.Fatal(err)
	}
	return pod
}

// waitGuards waits until these nodes have guards that run, and no others have one.
func waitGuards(e *env, nodes ...string) {
	e.T.Helper()
	e.Eventually("guards run on "+strings.Join(nodes, ", "), func() error {
		return harness.Guarded(&e.Administrator, nodes...)
	})
}

// drainNode evicts a node's guard as soon as that is let.
func drainNode(e *env, node string) {
	e.T.Helper()
	e.Eventually("node "+node+" is drained", func() error { return e.EvictGuard(node) })
	e.Eventually("the guard of "+node+" is gone", func() error {
		if guardOf(e, node) != nil {
			return fmt.Errorf("it is still there")
		}
		return nil
	})
}

// refused expects that a node's guard is not evicted, for as long as the operator might change its mind.
func refused(e *env, node string) {
	e.T.Helper()
	e.During(3*e.Timing.PollSteady, "node "+node+" is not drained", func() error {
		if err := e.EvictGuard(node); !apierrors.IsTooManyRequests(err) {
			return fmt.Errorf("the eviction API answered %w", err)
		}
		return nil
	})
}

// guardsMade waits until the drain guards are there with their budget. They are made once a cluster is Ready: what is
// counted before them is not all that it has.
func guardsMade(e *env) {
	e.T.Helper()
	e.WaitStatus("the drain guards are there", func(s *v1alpha1.StorageClusterStatus) bool {
		c := meta.FindStatusCondition(s.Conditions, conditions.DrainGuardReady)
		return c != nil && c.Reason == conditions.ReasonAsExpected
	})
}

// waitDrains waits until the condition says that of the nodes that are cordoned.
func waitDrains(e *env, words string) {
	e.T.Helper()
	e.WaitStatus("DrainGuardReady says "+words, func(s *v1alpha1.StorageClusterStatus) bool {
		c := meta.FindStatusCondition(s.Conditions, conditions.DrainGuardReady)
		return c != nil && strings.Contains(c.Message, words)
	})
}

// TestNodesAreDrainedOneByOne on a real eviction API: nobody without the operator's word, and one node at a time.
func TestNodesAreDrainedOneByOne(t *testing.T) {
	e := installed(t, 3, guardedPool)
	waitGuards(e, "n1", "n2", "n3")
	refused(e, "n1") // it is not cordoned: whoever evicts the pod alone takes nothing away, but nobody has looked

	e.Cordon("n1", true)
	drainNode(e, "n1")
	e.Cordon("n2", true)
	refused(e, "n2")
	waitDrains(e, "n2: node n1")
	if c := e.Get(); c.Status.Phase != v1alpha1.PhaseReady {
		t.Errorf("phase %s", c.Status.Phase)
	}
	waitGuards(e, "n2", "n3") // that of n1 is not made again while it is cordoned

	e.Cordon("n1", false)
	drainNode(e, "n2")
	waitGuards(e, "n1", "n3")
	e.Cordon("n2", false)
	waitGuards(e, "n1", "n2", "n3")
	comeToRest(e)
}

// TestLastCopiesKeepTheirNode: a node is drained when another one has what its volumes need, and not before.
func TestLastCopiesKeepTheirNode(t *testing.T) {
	e := installed(t, 3, guardedPool)
	waitGuards(e, "n1", "n2", "n3")
	volume(e, "pvc-two", "n1", "n2")
	volume(e, "pvc-one", "n1")
	volumes := e.Sim.World().Volumes()
	volumes.SetInUse("pvc-one", "n1", true)
	volumes.SetDiskState("pvc-two", "n2", "Outdated")
	e.Cordon("n1", true)
	waitDrains(e, "n1: it has the last healthy replica of 2 volumes: pvc-one, pvc-two")
	refused(e, "n1")
	volumes.SetDiskState("pvc-two", "n2", "UpToDate")
	waitDrains(e, "n1: it has the last healthy replica of 1 volume: pvc-one")
	refused(e, "n1")
	volumes.SetInUse("pvc-one", "n1", false) // its pod was evicted
	drainNode(e, "n1")
}

// TestReplicasApartKeepTheirNodes: replicas that call themselves UpToDate but are not connected may differ. The
// operator says so, and no node with one of them is drained until they are connected again.
func TestReplicasApartKeepTheirNodes(t *testing.T) {
	e := installed(t, 3, guardedPool)
	waitGuards(e, "n1", "n2", "n3")
	volume(e, "pvc-two", "n1", "n2")
	volumes := e.Sim.World().Volumes()
	volumes.SetLink("pvc-two", "n1", "n2", sim.StandAlone)
	e.WaitStatus("VolumesHealthy tells of the replicas", func(s *v1alpha1.StorageClusterStatus) bool {
		c := meta.FindStatusCondition(s.Conditions, conditions.VolumesHealthy)
		return c != nil && c.Reason == "Degraded" && c.Message ==
			"pvc-two has 1 of 2 replicas (n1 and n2 refuse to connect (StandAlone): their data may differ)"
	})
	e.Cordon("n2", true)
	waitDrains(e, "n2: it has the last healthy replica of 1 volume: pvc-two; "+
		"the replica of pvc-two on n1 is not connected")
	refused(e, "n2")
	volumes.SetLink("pvc-two", "n1", "n2", sim.Connected)
	drainNode(e, "n2")
}

// TestNodeIsDrainedWhileItsObjectIsDeleted: Karpenter deletes the Node, which its finalizer keeps, and then drains it.
func TestNodeIsDrainedWhileItsObjectIsDeleted(t *testing.T) {
	e := installed(t, 3, guardedPool)
	waitGuards(e, "n1", "n2", "n3")
	volume(e, "pvc-two", "n1", "n2")
	volumes := e.Sim.World().Volumes()
	volumes.SetDiskState("pvc-two", "n2", "Outdated")
	const finalizer = "karpenter.sh/termination"
	patchNode(e, "n1", func(n *corev1.Node) { n.Finalizers = append(n.Finalizers, finalizer) })
	if err := e.Client().Delete(e.Ctx, e.Node("n1")); err != nil {
		t.Fatal(err)
	}
	waitDrains(e, "n1: the node is about to be removed, but has the last healthy replica of 1 volume: pvc-two")
	refused(e, "n1")
	waitGuards(e, "n1", "n2", "n3")
	volumes.SetDiskState("pvc-two", "n2", "UpToDate")
	drainNode(e, "n1")
	patchNode(e, "n1", func(n *corev1.Node) { n.Finalizers = nil })
}

// TestDrainGuardWithoutPoolsInTheSpec: what LINSTOR has counts.
func TestDrainGuardWithoutPoolsInTheSpec(t *testing.T) {
	e := installed(t, 3, guardedPool)
	waitGuards(e, "n1", "n2", "n3")
	volume(e, "pvc-one", "n1")
	e.Sim.World().Volumes().SetInUse("pvc-one", "n1", true)
	e.Update(func(c *v1alpha1.StorageCluster) { c.Spec.StoragePools = nil })
	e.Cordon("n1", true)
	waitDrains(e, "n1: it has the last healthy replica of 1 volume: pvc-one")
	refused(e, "n1")
}

// TestTwoDrainsAtOnce: of two that begin in the same moment one goes on, and the other waits.
func TestTwoDrainsAtOnce(t *testing.T) {
	e := installed(t, 3, guardedPool)
	waitGuards(e, "n1", "n2", "n3")
	ctx, stop := context.WithCancel(e.Ctx)
	defer stop()
	won := make(chan string, 2)
	var both sync.WaitGroup
	for _, node := range []string{"n2", "n3"} {
		e.Cordon(node, true)
		both.Go(func() {
			for ctx.Err() == nil {
				if err := e.EvictGuard(node); err == nil {
					won <- node
					return
				}
			}
		})
	}
	first := <-won
	e.During(3*e.Timing.PollSteady, "the other one waits", func() error {
		if len(won) > 0 {
			return fmt.Errorf("%s and another one were drained at once", first)
		}
		return nil
	})
	stop()
	both.Wait()
}

// TestDrainGuardNone: what was made goes, and comes back.
func TestDrainGuardNone(t *testing.T) {
	e := installed(t, 2, guardedPool)
	waitGuards(e, "n1", "n2")
	mode := func(m volumespec.DrainGuardMode) {
		e.Update(func(c *v1alpha1.StorageCluster) { c.Spec.Volumes.DrainGuard = m })
	}
	mode(volumespec.DrainGuardNone)
	waitGuards(e)
	var b policyv1.PodDisruptionBudget
	err := e.Client().Get(e.Ctx, client.ObjectKey{Namespace: v1alpha1.WorkloadNamespace, Name: drainguard.Name}, &b)
	if !apierrors.IsNotFound(err) {
		t.Errorf("the PodDisruptionBudget: %v", err)
	}
	mode(volumespec.DrainGuardAuto)
	waitGuards(e, "n1", "n2")
}
