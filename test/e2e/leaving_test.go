package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
	"github.com/linstor-dev/storagecluster-operator/test/machine"
	"github.com/linstor-dev/storagecluster-operator/test/sim"
)

const (
	evacuatePolicy = selectedPool + "    removalPolicy: Evacuate\n"
	removePolicy   = selectedPool + "    removalPolicy: Remove\n"
)

// installed is a Ready cluster of n nodes.
func installed(t *testing.T, n int, spec string) *env {
	e := start(t, harness.Nodes(n))
	e.Run()
	e.Apply(harness.Manifest(spec))
	e.WaitPhase(v1alpha1.PhaseReady)
	return e
}

// picks says by a label whether the spec picks nodes.
func picks(e *env, picked bool, names ...string) {
	e.T.Helper()
	for _, name := range names {
		patchNode(e, name, func(n *corev1.Node) { n.Labels["example.com/storage"] = fmt.Sprint(picked) })
	}
}

func volume(e *env, name string, on ...string) {
	e.T.Helper()
	if err := e.Sim.World().Volumes().Create(name, 1<<20, "ssd", on...); err != nil {
		e.T.Fatal(err)
	}
}

// diskful are the nodes on which LINSTOR has a copy of a volume.
func diskful(e *env, name string) []string {
	e.T.Helper()
	list, err := e.Linstor().Resources(e.Ctx, linstor.ResourceQuery{Names: []string{name}})
	if err != nil {
		e.T.Fatal(err)
	}
	out := []string{}
	for _, r := range list {
		if r.Diskful {
			out = append(out, r.Node)
		}
	}
	slices.Sort(out)
	return out
}

// requests counts the writes of LINSTOR that were carried out.
func requests(e *env, method, path string) int {
	n := 0
	for _, w := range e.Sim.World().Writes() {
		if w.Method == method && w.Path == path {
			n++
		}
	}
	return n
}

func evacuations(e *env, node string) int {
	return requests(e, http.MethodPut, "/v1/nodes/"+node+"/evacuate")
}

// left waits until a node is out of LINSTOR and of the DaemonSets.
func left(e *env, names ...string) {
	e.T.Helper()
	for _, name := range names {
		e.Eventually(name+" has left", func() error {
			v, err := e.Linstor().View(e.Ctx, linstor.ViewOptions{})
			if err != nil {
				return err
			}
			if v.Node(name) != nil {
				return fmt.Errorf("LINSTOR has it: %v %v; status %+v", v.Node(name).Flags, v.Node(name).Properties,
					e.Get().Status.Nodes.Leaving)
			}
			for _, key := range []string{v1alpha1.LabelMember, v1alpha1.LabelOS} {
				if _, ok := e.Node(name).Labels[key]; ok {
					return fmt.Errorf("it has the label %s", key)
				}
			}
			var pods corev1.PodList
			if err := e.Client().List(e.Ctx, &pods, client.InNamespace(v1alpha1.WorkloadNamespace),
				client.HasLabels{v1alpha1.LabelComponent}); err != nil {
				return err
			}
			for _, p := range pods.Items {
				if c := p.Labels[v1alpha1.LabelComponent]; p.Spec.NodeName == name && c != v1alpha1.ComponentController {
					return fmt.Errorf("pod %s is there", p.Name)
				}
			}
			return nil
		})
	}
}

func leavingState(s *v1alpha1.StorageClusterStatus, name string) v1alpha1.LeavingState {
	for _, l := range s.Nodes.Leaving {
		if l.Name == name {
			return l.State
		}
	}
	return ""
}

func waitLeaving(e *env, name string, state v1alpha1.LeavingState, message string) *v1alpha1.StorageCluster {
	e.T.Helper()
	return e.WaitStatus(fmt.Sprintf("%s is %s (%s)", name, state, message), func(s *v1alpha1.StorageClusterStatus) bool {
		return slices.ContainsFunc(s.Nodes.Leaving, func(l v1alpha1.LeavingNode) bool {
			return l.Name == name && l.State == state && strings.Contains(l.Message, message)
		})
	})
}

// waitProperty waits for a property of a LINSTOR node; "" for none.
func waitProperty(e *env, name, key, value string) {
	e.T.Helper()
	e.Eventually(fmt.Sprintf("%s of %s is %q", key, name, value), func() error {
		n, err := e.LinstorNode(name)
		if err == nil && n.Properties[key] != value {
			err = fmt.Errorf("it is %q", n.Properties[key])
		}
		return err
	})
}

func TestEvacuation(t *testing.T) {
	e := installed(t, 4, evacuatePolicy)
	for i := range 3 {
		volume(e, fmt.Sprintf("pvc-%d", i), "n1", "n2")
	}
	volume(e, "pvc-elsewhere", "n2", "n3")
	volume(e, "pvc-single", "n1")
	e.Sim.World().SetEvacuateDelay(10 * time.Second)
	history := len(e.Steps(e.Get()))

	picks(e, false, "n1")
	c := waitLeaving(e, "n1", v1alpha1.LeavingEvacuating, "still to be moved")
	e.Sim.World().SetEvacuateDelay(0) // of the copies that follow
	if c.Status.Phase != v1alpha1.PhaseReady || c.Status.Nodes.Summary != "4/4" ||
		e.Node("n1").Labels[v1alpha1.LabelMember] == "" {
		t.Errorf("during the evacuation: phase %s, nodes %s", c.Status.Phase, c.Status.Nodes.Summary)
	}
	left(e, "n1")
	c = e.WaitStatus("nothing leaves any more",
		func(s *v1alpha1.StorageClusterStatus) bool { return s.Nodes.LeavingCount == 0 })
	if len(e.Steps(c)) != history || c.Status.Phase != v1alpha1.PhaseReady {
		t.Errorf("phase %s, history %+v: an evacuation moved the machine", c.Status.Phase, c.Status.History)
	}
	for i := range 3 {
		if got := diskful(e, fmt.Sprintf("pvc-%d", i)); len(got) != 2 || slices.Contains(got, "n1") {
			t.Errorf("pvc-%d is on %v, want two other nodes", i, got)
		}
	}
	if got := diskful(e, "pvc-single"); len(got) != 1 || got[0] == "n1" {
		t.Errorf("pvc-single is on %v", got)
	}
	if n := evacuations(e, "n1"); n != 1 {
		t.Errorf("LINSTOR was asked %d times", n)
	}
	e.WaitEvent("NodeLeaving", "n1", "removalPolicy Evacuate")
	e.WaitEvent("NodeEvacuating", "n1")
	e.WaitEvent("NodeRemoved", "n1")

	// It can come back as a new node.
	picks(e, true, "n1")
	e.WaitStatus("four nodes", func(s *v1alpha1.StorageClusterStatus) bool {
		return s.Nodes.Summary == "4/4" && s.Pools.Summary == "4/4"
	})
}

func TestOneEvacuationAfterTheOther(t *testing.T) {
	e := installed(t, 6, evacuatePolicy)
	volume(e, "pvc-1", "n1", "n2")
	volume(e, "pvc-2", "n2", "n3")
	e.Sim.World().SetEvacuateDelay(15 * time.Second)
	var early atomic.Bool
	e.Fault(func(r *http.Request) *sim.Fault {
		if r.Method == http.MethodPut && r.URL.Path == "/v1/nodes/n2/evacuate" {
			copies, err := e.Linstor().Resources(e.Ctx, linstor.ResourceQuery{})
			early.Store(err != nil || slices.ContainsFunc(copies, func(c linstor.Resource) bool { return c.Node == "n1" }))
		}
		return nil
	})
	e.Update(func(c *v1alpha1.StorageCluster) { c.Spec.Nodes.RemovalPolicy = v1alpha1.NodesRetain })
	picks(e, false, "n1")
	waitLeaving(e, "n1", v1alpha1.LeavingRetained, "")
	e.Update(func(c *v1alpha1.StorageCluster) { c.Spec.Nodes.RemovalPolicy = v1alpha1.NodesEvacuate })
	waitProperty(e, "n1", "AutoplaceTarget", "false")
	picks(e, false, "n2") // one after the other by two edits: neither are many
	waitLeaving(e, "n2", v1alpha1.LeavingWaiting, "maxConcurrentEvacuations")
	e.Sim.World().SetEvacuateDelay(0) // of the copies that follow
	left(e, "n1", "n2")
	for _, v := range []string{"pvc-1", "pvc-2"} {
		if got := diskful(e, v); len(got) != 2 || slices.Contains(got, "n1") || slices.Contains(got, "n2") {
			t.Errorf("%s is on %v", v, got)
		}
	}
	if evacuations(e, "n1") != 1 || evacuations(e, "n2") != 1 {
		t.Errorf("LINSTOR was asked %d and %d times", evacuations(e, "n1"), evacuations(e, "n2"))
	}
	if early.Load() {
		t.Error("LINSTOR was asked to evacuate n2 while n1 held copies")
	}
}

// TestNodeObjectIsDeleted: LINSTOR cannot move anything from a machine that is gone, but makes its copies anew.
func TestNodeObjectIsDeleted(t *testing.T) {
	e := start(t, harness.Nodes(5))
	e.Timing.Leave = machine.Slow(4 * time.Second) // LINSTOR must have noticed by then
	e.Run()
	e.Apply(harness.Manifest(evacuatePolicy))
	e.WaitPhase(v1alpha1.PhaseReady)
	gone := "n1"
	if e.controllerNode() == gone {
		gone = "n2"
	}
	volume(e, "pvc-1", gone, "n3")
	if err := e.Sim.RemoveNode(e.Ctx, gone); err != nil {
		t.Fatal(err)
	}
	e.evicted(gone)
	c := e.WaitStatus("it is listed", func(s *v1alpha1.StorageClusterStatus) bool { return leavingState(s, gone) != "" })
	if c.Status.Phase != v1alpha1.PhaseReady || c.Status.Nodes.Summary != "4/5" { // LINSTOR has it still
		t.Errorf("phase %s, nodes %s", c.Status.Phase, c.Status.Nodes.Summary)
	}
	e.Eventually("the copy is made anew", func() error {
		if got := diskful(e, "pvc-1"); len(got) != 3 || evacuations(e, gone) > 0 {
			return fmt.Errorf("pvc-1 is on %v, %d evacuations", got, evacuations(e, gone))
		}
		return nil
	})
}
