package e2e

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
	"github.com/linstor-dev/storagecluster-operator/test/invariants"
	"github.com/linstor-dev/storagecluster-operator/test/machine"
)

func taint(e *env, node string, keys ...string) {
	e.T.Helper()
	patchNode(e, node, func(n *corev1.Node) {
		n.Spec.Taints = nil
		for _, k := range keys {
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: k, Effect: corev1.TaintEffectNoSchedule})
		}
	})
}

// Most taints are put on nodes by others and go away again: a member leaves only because of one that lasts, and never
// because of those that are known to pass.
func TestTaintsThatPass(t *testing.T) {
	e := installed(t, 4, evacuatePolicy)
	e.StopOperator()
	e.Timing.TaintLasts = machine.Slow(time.Minute)
	e.Run()
	volume(e, "pvc-1", "n1", "n2")
	taint(e, "n1", "node.cilium.io/agent-not-ready", "ToBeDeletedByClusterAutoscaler")
	taint(e, "n2", "example.com/for-a-while")
	e.WaitStatus("the node's taint is told", func(s *v1alpha1.StorageClusterStatus) bool {
		return slices.ContainsFunc(s.Nodes.Problems, func(p v1alpha1.NodeProblem) bool {
			return p.Reason == "NodeTainted" && slices.Equal(p.Nodes, []string{"n2"})
		})
	})
	e.During(2*settle, "nobody leaves", func() error {
		if s := e.Get().Status; s.Nodes.LeavingCount > 0 || s.Nodes.Summary != "4/4" {
			return fmt.Errorf("%d leave, %s online", s.Nodes.LeavingCount, s.Nodes.Summary)
		}
		return nil
	})
	taint(e, "n2")
	e.WaitStatus("nothing is told any more",
		func(s *v1alpha1.StorageClusterStatus) bool { return len(s.Nodes.Problems) == 0 })
	e.StopOperator()
	e.Timing.TaintLasts = machine.Slow(200 * time.Millisecond)
	e.Run()
	taint(e, "n2", "example.com/retired")
	e.WaitEvent("NodeLeaving", "n2", "example.com/retired:NoSchedule")
	left(e, "n2")
	e.WaitStatus("three nodes are left", func(s *v1alpha1.StorageClusterStatus) bool { return s.Nodes.Summary == "3/3" })
}

// TestQuorumLostOnAllNodes: the high-availability controller marks every node, so that no pod with volumes comes
// there, and then LINSTOR's controller has to start again. It must: nothing else repairs the volumes.
func TestQuorumLostOnAllNodes(t *testing.T) {
	e := startReady(t, 3, harness.ThinPool)
	e.Run()
	e.ready("3/3", "3/3")
	nodes := []string{"n1", "n2", "n3"}
	for _, n := range nodes {
		taint(e, n, "drbd.linbit.com/lost-quorum", "drbd.linbit.com/force-io-error")
	}
	before := controllerPods(e)
	for i := range before {
		if err := e.Client().Delete(e.Ctx, &before[i]); err != nil {
			t.Fatal(err)
		}
	}
	e.Eventually("another controller runs", func() error {
		for _, p := range controllerPods(e) {
			if p.UID != before[0].UID && invariants.PodReady(&p) {
				return nil
			}
		}
		return fmt.Errorf("none of %d pods", len(controllerPods(e)))
	})
	e.ready("3/3", "3/3")
}
