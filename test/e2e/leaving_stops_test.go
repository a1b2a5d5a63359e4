package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
	"github.com/linstor-dev/storagecluster-operator/test/machine"
	"github.com/linstor-dev/storagecluster-operator/test/sim"
)

// leftAlone checks that nothing was done about a node for a while but to take notes.
func leftAlone(e *env, name string) {
	e.T.Helper()
	e.During(2*e.Timing.Leave+time.Second, name+" stays as it is", func() error {
		if n := evacuations(e, name) + requests(e, http.MethodDelete, "/v1/nodes/"+name); n > 0 {
			return fmt.Errorf("%d evacuations and deletions", n)
		}
		if n, err := e.LinstorNode(name); err != nil || !n.Online() {
			return fmt.Errorf("LINSTOR's node is %+v: %w", n, err)
		}
		return nil
	})
}

// holdTooManyNodesLeaving: two of five nodes leave by one edit. Nothing begins before a human has said so, or taken it
// back.
func holdTooManyNodesLeaving(t *testing.T) {
	e := installed(t, 5, evacuatePolicy)
	volume(e, "pvc-1", "n1", "n2")
	for _, n := range []string{"n3", "n4", "n5"} {
		patchNode(e, n, func(n *corev1.Node) { n.Labels["example.com/keep"] = "true" })
	}
	onlyKept := func(c *v1alpha1.StorageCluster) { c.Spec.Nodes.NodeSelector["example.com/keep"] = "true" }
	e.Update(onlyKept)
	hold := e.WaitNodeHold(v1alpha1.HoldTooManyNodesLeaving)
	e.Eventually("both are held", func() error {
		if hold = e.WaitNodeHold(v1alpha1.HoldTooManyNodesLeaving); !slices.Equal(hold.Nodes, []string{"n1", "n2"}) {
			return fmt.Errorf("held are %v", hold.Nodes)
		}
		return nil
	})
	e.WaitEvent(string(v1alpha1.HoldTooManyNodesLeaving), "n1", "continue")
	leftAlone(e, "n1")
	waitProperty(e, "n1", "AutoplaceTarget", "")

	// Taking the change back is as if nothing had been.
	e.Update(func(c *v1alpha1.StorageCluster) { delete(c.Spec.Nodes.NodeSelector, "example.com/keep") })
	e.WaitStatus("no hold, nothing leaves", func(s *v1alpha1.StorageClusterStatus) bool {
		return len(s.NodeHolds) == 0 && s.Nodes.LeavingCount == 0 && s.Nodes.Summary == "5/5"
	})
	for _, name := range []string{"n1", "n2"} {
		waitProperty(e, name, "Aux/storage.linstor.dev/leaving", "")
	}

	// Saying so lets exactly these go.
	e.Update(onlyKept)
	e.Eventually("both are held again, by another hold", func() error {
		next := e.WaitNodeHold(v1alpha1.HoldTooManyNodesLeaving)
		if next.ID == hold.ID || len(next.Nodes) != 2 {
			return fmt.Errorf("hold %s of %v", next.ID, next.Nodes)
		}
		hold = next
		return nil
	})
	e.Resume(hold, v1alpha1.OptionContinue)
	left(e, "n1", "n2")
	if got := diskful(e, "pvc-1"); len(got) != 2 || slices.Contains(got, "n1") || slices.Contains(got, "n2") {
		t.Errorf("pvc-1 is on %v", got)
	}
	if c := e.Get(); c.Status.Phase != v1alpha1.PhaseReady || len(c.Status.NodeHolds) > 0 {
		t.Errorf("phase %s, holds %+v", c.Status.Phase, c.Status.NodeHolds)
	}
}

// holdLastReplicaAtRisk: LINSTOR would delete the only copy of a volume instead of moving it.
func holdLastReplicaAtRisk(t *testing.T) {
	e := installed(t, 4, evacuatePolicy)
	// LINSTOR would delete a copy that it does not know to be good.
	volume(e, "pvc-old", "n1")
	volume(e, "pvc-fine", "n1", "n2")
	e.Sim.World().Volumes().SetDiskState("pvc-old", "n1", "Outdated")
	picks(e, false, "n1")
	hold := e.WaitNodeHold(v1alpha1.HoldLastReplicaAtRisk)
	if !slices.Equal(hold.Resources, []string{"pvc-old"}) || !slices.Equal(hold.Nodes, []string{"n1"}) {
		t.Errorf("hold is about %v on %v", hold.Resources, hold.Nodes)
	}
	leftAlone(e, "n1")
	// It stands until it is answered, and begins anew while the cause is there.
	e.Resume(hold, v1alpha1.OptionRetry)
	e.Eventually("another hold", func() error {
		if next := e.WaitNodeHold(v1alpha1.HoldLastReplicaAtRisk); next.ID == hold.ID {
			return fmt.Errorf("still hold %s", next.ID)
		}
		return nil
	})
	leftAlone(e, "n1")
	e.Sim.World().Volumes().SetDiskState("pvc-old", "n1", "UpToDate")
	e.Resume(e.WaitNodeHold(v1alpha1.HoldLastReplicaAtRisk), v1alpha1.OptionRetry)
	left(e, "n1")
	if got := diskful(e, "pvc-old"); len(got) != 1 || len(e.Sim.World().Volumes().Data("pvc-old")) == 0 {
		t.Errorf("pvc-old is on %v", got)
	}
}

// holdEvacuationStuck: a volume is open on the node, so that LINSTOR does not delete its copy there.
func holdEvacuationStuck(t *testing.T) {
	e := installed(t, 3, evacuatePolicy)
	volume(e, "pvc-1", "n1", "n2")
	e.Sim.World().Volumes().SetInUse("pvc-1", "n1", true)
	picks(e, false, "n1")
	hold := e.WaitNodeHold(v1alpha1.HoldEvacuationStuck)
	e.checkHold(e.Get(), hold, "n1", "in use on the node: pvc-1")
	if !slices.Equal(hold.Resources, []string{"pvc-1"}) || !slices.Equal(hold.Nodes, []string{"n1"}) {
		t.Errorf("hold is about %v on %v", hold.Resources, hold.Nodes)
	}
	if phase := e.Get().Status.Phase; phase != v1alpha1.PhaseReady {
		t.Errorf("the trouble of one node makes the cluster %s", phase)
	}
	e.During(settle, "LINSTOR is not asked again, and the node stays", func() error {
		if n := evacuations(e, "n1"); n != 1 {
			return fmt.Errorf("%d evacuations", n)
		}
		_, err := e.LinstorNode("n1")
		return err
	})
	e.Sim.World().Volumes().SetInUse("pvc-1", "n1", false)
	left(e, "n1")
	e.WaitStatus("the hold has ended by itself",
		func(s *v1alpha1.StorageClusterStatus) bool { return len(s.NodeHolds) == 0 })
	if got := diskful(e, "pvc-1"); !slices.Equal(got, []string{"n2", "n3"}) {
		t.Errorf("pvc-1 is on %v", got)
	}
}

func TestEvacuationThatFindsNoPlace(t *testing.T) {
	e := installed(t, 3, evacuatePolicy)
	volume(e, "pvc-1", "n1")
	volume(e, "pvc-2", "n1", "n2")
	api := e.Linstor()
	for _, name := range []string{"n2", "n3"} { // an administrator has closed the other nodes
		if err := api.SetNodeProperties(e.Ctx, name, map[string]string{"AutoplaceTarget": "false"}, nil); err != nil {
			t.Fatal(err)
		}
	}
	picks(e, false, "n1")
	waitLeaving(e, "n1", v1alpha1.LeavingEvacuating, "2 replicas (pvc-1, pvc-2)")
	hold := e.WaitNodeHold(v1alpha1.HoldLastReplicaAtRisk)
	if !slices.Equal(hold.Resources, []string{"pvc-1"}) {
		t.Errorf("hold is about %v", hold.Resources)
	}
	e.WaitEvent(string(v1alpha1.HoldLastReplicaAtRisk), "pvc-1")
	if err := api.SetNodeProperties(e.Ctx, "n3", nil, []string{"AutoplaceTarget"}); err != nil {
		t.Fatal(err)
	}
	e.During(time.Second, "LINSTOR is not asked again by itself", func() error {
		if n := evacuations(e, "n1"); n != 1 {
			return fmt.Errorf("%d evacuations", n)
		}
		return nil
	})
	e.Resume(hold, v1alpha1.OptionRetry)
	left(e, "n1")
	for name, want := range map[string][]string{"pvc-1": {"n3"}, "pvc-2": {"n2", "n3"}} {
		if got := diskful(e, name); !slices.Equal(got, want) {
			t.Errorf("%s is on %v, want %v", name, got, want)
		}
	}
	waitProperty(e, "n2", "AutoplaceTarget", "false") // not ours to take back
}

func TestRemoveWaitsUntilEmpty(t *testing.T) {
	e := installed(t, 3, removePolicy)
	volume(e, "pvc-1", "n1", "n2")
	if err := e.Sim.World().Volumes().CreateSnapshot("pvc-1", "yesterday"); err != nil {
		t.Fatal(err)
	}
	patchNode(e, "n1", func(n *corev1.Node) {
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "example.com/retired", Effect: corev1.TaintEffectNoSchedule})
	})
	waitLeaving(e, "n1", v1alpha1.LeavingWaiting, "1 replica (pvc-1)")
	waitProperty(e, "n1", "AutoplaceTarget", "false")
	leftAlone(e, "n1")
	if err := e.Sim.World().Volumes().RemoveCopy("pvc-1", "n1"); err != nil {
		t.Fatal(err)
	}
	waitLeaving(e, "n1", v1alpha1.LeavingWaiting, "1 snapshot (pvc-1/yesterday)")
	leftAlone(e, "n1")
	e.Sim.World().Volumes().DeleteSnapshot("pvc-1", "yesterday")
	left(e, "n1")
	if n := evacuations(e, "n1"); n > 0 {
		t.Errorf("%d evacuations", n)
	}
}

func TestRetainDoesNothing(t *testing.T) {
	e := installed(t, 3, selectedPool)
	volume(e, "pvc-1", "n1", "n2")
	comeToRest(e)
	e.Sim.World().ResetRequests()
	picks(e, false, "n1", "n2")
	waitLeaving(e, "n1", v1alpha1.LeavingRetained, "")
	waitLeaving(e, "n2", v1alpha1.LeavingRetained, "")
	leftAlone(e, "n1")
	if w := e.Sim.World().Writes(); len(w) > 0 {
		t.Errorf("it wrote to LINSTOR: %s %s", w[0].Method, w[0].Path)
	}
	if e.Node("n1").Labels[v1alpha1.LabelMember] == "" {
		t.Error("the label went")
	}
}

func TestANodeThatIsPickedAgainStays(t *testing.T) {
	e := installed(t, 4, evacuatePolicy)
	volume(e, "pvc-1", "n1", "n2")
	if err := e.Linstor().SetNodeProperties(e.Ctx, "n1", map[string]string{"AutoplaceTarget": "yes"}, nil); err != nil {
		t.Fatal(err)
	}
	e.Sim.World().SetEvacuateDelay(time.Hour)
	picks(e, false, "n1")
	waitProperty(e, "n1", "AutoplaceTarget", "false")
	waitLeaving(e, "n1", v1alpha1.LeavingEvacuating, "still to be moved")
	picks(e, true, "n1")
	for _, key := range []string{"leaving", "leaving-admitted", "evacuate", "evacuated", "evacuate-stuck",
		"before.AutoplaceTarget"} {
		waitProperty(e, "n1", "Aux/storage.linstor.dev/"+key, "")
	}
	n, err := e.LinstorNode("n1")
	if err != nil || len(n.Flags) > 0 || n.Properties["AutoplaceTarget"] != "true" { // LINSTOR stores yes as true
		t.Errorf("flags %v, AutoplaceTarget %q, %v", n.Flags, n.Properties["AutoplaceTarget"], err)
	}
	e.WaitStatus("all as before", func(s *v1alpha1.StorageClusterStatus) bool {
		return s.Nodes.Summary == "4/4" && s.Nodes.LeavingCount == 0
	})
	if got := diskful(e, "pvc-1"); !slices.Contains(got, "n1") {
		t.Errorf("pvc-1 is on %v", got)
	}
	e.WaitEvent("NodeKept", "n1")
}

// TestKilledDuringAnEvacuation kills the operator after one to three writes, again and again while a node leaves:
// LINSTOR is asked once.
func TestKilledDuringAnEvacuation(t *testing.T) {
	e := start(t, harness.Nodes(4))
	g := harness.NewGate()
	g.Install(e.Env)
	e.Timing.Leave = machine.Slow(100 * time.Millisecond)
	e.Run()
	e.Apply(harness.Manifest(evacuatePolicy))
	e.WaitPhase(v1alpha1.PhaseReady)
	comeToRest(e)
	e.StopOperator()
	volume(e, "pvc-1", "n1", "n2")
	volume(e, "pvc-2", "n1", "n3")
	e.Sim.World().SetEvacuateDelay(2 * time.Second)
	picks(e, false, "n1")
	kills := 0
	for ; e.Node("n1").Labels[v1alpha1.LabelMember] != ""; kills++ {
		if kills > 60 {
			t.Fatalf("after %d lives: %+v", kills, e.Get().Status.Nodes.Leaving)
		}
		// One write, two or three: a life that ends right after the note of the request leaves the request to the next one.
		spent := g.Limit(1 + kills%3)
		e.Run()
		e.Await(fmt.Sprintf("the end of life %d", kills+1), spent)
		e.StopOperator()
	}
	t.Logf("gone in %d lives", kills)
	g.Limit(-1)
	e.Run()
	left(e, "n1")
	for _, name := range []string{"pvc-1", "pvc-2"} {
		if got := diskful(e, name); len(got) != 2 || slices.Contains(got, "n1") {
			t.Errorf("%s is on %v, want two other nodes", name, got)
		}
	}
	if n := evacuations(e, "n1"); n != 1 {
		t.Errorf("LINSTOR was asked %d times", n)
	}
}

// TestLinstorRestartsDuringAnEvacuation loses the answer to the request, and then the controller.
func TestLinstorRestartsDuringAnEvacuation(t *testing.T) {
	e := installed(t, 4, evacuatePolicy)
	volume(e, "pvc-1", "n1", "n2")
	e.Sim.World().SetEvacuateDelay(machine.Slow(4 * time.Second))
	e.Sim.World().SetFault(func(r *http.Request) *sim.Fault {
		if r.Method == http.MethodPut && r.URL.Path == "/v1/nodes/n1/evacuate" {
			return &sim.Fault{DropAfter: true}
		}
		return nil
	})
	picks(e, false, "n1")
	waitLeaving(e, "n1", v1alpha1.LeavingEvacuating, "still to be moved")
	var pods corev1.PodList
	if err := e.Client().List(e.Ctx, &pods); err != nil {
		t.Fatal(err)
	}
	for i := range pods.Items {
		if p := &pods.Items[i]; p.Labels[v1alpha1.LabelComponent] == v1alpha1.ComponentController {
			if err := e.Client().Delete(e.Ctx, p); err != nil {
				t.Fatal(err)
			}
		}
	}
	left(e, "n1")
	if got := diskful(e, "pvc-1"); len(got) != 2 || slices.Contains(got, "n1") {
		t.Errorf("pvc-1 is on %v, want two other nodes", got)
	}
	if n := evacuations(e, "n1"); n != 1 {
		t.Errorf("LINSTOR was asked %d times", n)
	}
}

// TestEvacuationThatIsLostOnItsWay: a request that never arrived is asked again.
func TestEvacuationThatIsLostOnItsWay(t *testing.T) {
	e := installed(t, 4, evacuatePolicy)
	volume(e, "pvc-1", "n1", "n2")
	lost := false
	e.Sim.World().SetFault(func(r *http.Request) *sim.Fault {
		if r.Method == http.MethodPut && r.URL.Path == "/v1/nodes/n1/evacuate" && !lost {
			lost = true
			return &sim.Fault{Drop: true}
		}
		return nil
	})
	picks(e, false, "n1")
	waitLeaving(e, "n1", v1alpha1.LeavingEvacuating, "has not started it yet")
	left(e, "n1")
	if got := diskful(e, "pvc-1"); len(got) != 2 || slices.Contains(got, "n1") {
		t.Errorf("pvc-1 is on %v, want two other nodes", got)
	}
	if n := evacuations(e, "n1"); n != 2 {
		t.Errorf("LINSTOR was asked %d times", n)
	}
}
