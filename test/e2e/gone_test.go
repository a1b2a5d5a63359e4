package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
	"github.com/linstor-dev/storagecluster-operator/test/machine"
)

const removeGone = "  nodes: {removalPolicy: Remove}" + harness.ThinPool

// withVolume brings up a Ready cluster of n nodes with the volume pvc-1 on two on which LINSTOR's controller does not
// run: the test's victim and another.
func withVolume(t *testing.T, n int, spec string) (e *env, victim, other string) {
	t.Helper()
	e = installed(t, n, spec)
	all := fmt.Sprintf("%d/%d", n, n)
	e.ready(all, all)
	names := make([]string, 0, n)
	for _, node := range harness.Nodes(n) {
		names = append(names, node.Name)
	}
	spare := e.others(names...)
	volume(e, "pvc-1", spare[:2]...)
	return e, spare[0], spare[1]
}

// evicted waits until LINSTOR has given a node up.
func (e nodeEnv) evicted(name string) {
	e.T.Helper()
	e.Eventually("LINSTOR evicts "+name, func() error {
		if _, flags := e.Sim.World().NodeStatus(name); !slices.Contains(flags, "EVICTED") {
			return fmt.Errorf("flags %v, leaving %+v", flags, e.Get().Status.Nodes.Leaving)
		}
		return nil
	})
}

// deleteNodeObject deletes a Node, as an administrator or a cloud does, and waits until LINSTOR misses the satellite.
func (e nodeEnv) deleteNodeObject(name string) {
	e.T.Helper()
	if err := e.Sim.DeleteNode(e.Ctx, name); err != nil {
		e.T.Fatal(err)
	}
	e.WaitConnection(name, "OFFLINE")
}

// dies switches a node off for good. LINSTOR misses it before the Node is deleted: one that it still sees is
// evacuated.
func (e nodeEnv) dies(name string) {
	e.T.Helper()
	e.kill(name)
	e.WaitConnection(name, "OFFLINE")
	e.deleteNodeObject(name)
}

// goneMessage waits until the status says that about a node that leaves.
func (e nodeEnv) goneMessage(name, contains string) {
	e.T.Helper()
	e.Eventually(name+": "+contains, func() error {
		for _, l := range e.Get().Status.Nodes.Leaving {
			if l.Name == name && strings.Contains(l.Message, contains) {
				return nil
			}
		}
		return fmt.Errorf("leaving are %+v", e.Get().Status.Nodes.Leaving)
	})
}

func (e nodeEnv) notLost(name string) {
	e.T.Helper()
	e.During(settle, name+" is not declared lost", func() error {
		if n := e.linstorCalls(http.MethodDelete, "/"+name+"/lost"); n > 0 {
			return fmt.Errorf("%d calls", n)
		}
		return nil
	})
}

func (e nodeEnv) lost(name string) {
	e.T.Helper()
	e.WaitConnection(name, "") // it is out of LINSTOR
	e.Eventually("one Event NodeLost", func() error {
		return oneEvent(e.Events(), func(ev *eventsv1.Event) bool {
			return ev.Reason == "NodeLost" && ev.Type == corev1.EventTypeWarning && ev.Action == name
		})
	})
	if n := e.linstorCalls(http.MethodDelete, "/"+name+"/lost"); n != 1 {
		e.T.Errorf("declared lost %d times", n)
	}
}

// backdate makes the node's note say that it was seen gone so much earlier.
func (e nodeEnv) backdate(name string, by time.Duration) {
	e.T.Helper()
	t, err := time.Parse(time.RFC3339, e.mark(name, "gone-since"))
	if err != nil {
		e.T.Fatal(err)
	}
	set := map[string]string{"Aux/storage.linstor.dev/gone-since": t.Add(-by).Format(time.RFC3339)}
	if err := e.Linstor().SetNodeProperties(e.Ctx, name, set, nil); err != nil {
		e.T.Fatal(err)
	}
}

// A node whose Node object is gone is declared lost when spec.nodes.lostAfter has passed, not before, and not while
// its machine still replicates.
func TestGoneNodeIsLostAfterItsTime(t *testing.T) {
	e, victim, other := withVolume(t, 5, "  nodes: {removalPolicy: Remove, lostAfter: 10m}"+harness.ThinPool)
	e.deleteNodeObject(victim)
	e.goneMessage(victim, "declared lost at")
	since := e.mark(victim, "gone-since")
	e.StopOperator() // the time is not forgotten with the operator
	e.Run()
	e.notLost(victim)
	if now := e.mark(victim, "gone-since"); now != since {
		t.Errorf("gone since %s, was %s", now, since)
	}
	e.backdate(victim, 11*time.Minute)
	e.goneMessage(victim, "still has a DRBD connection")
	e.notLost(victim)
	e.Sim.World().Machine(victim).PowerOff()
	e.lost(victim)
	e.ready("4/4", "4/4")
	e.WaitStatus("nobody leaves any more",
		func(s *v1alpha1.StorageClusterStatus) bool { return s.Nodes.LeavingCount == 0 })
	if have := e.Sim.World().Volumes().Data("pvc-1"); !slices.Contains(have, other) || !slices.Contains(have, victim) {
		t.Errorf("pvc-1 is on %v: what is on the lost machine's disks must stay there", have)
	}
}

// Under the policy Evacuate the copies of a node that is gone with its machine are made anew elsewhere first.
func TestGoneNodeIsEvictedAndLost(t *testing.T) {
	e, victim, _ := withVolume(t, 5, "  nodes: {removalPolicy: Evacuate, lostAfter: 10m}"+harness.ThinPool)
	e.dies(victim)
	e.evicted(victim)
	e.goneMessage(victim, "declared lost at")
	e.notLost(victim)
	e.backdate(victim, 11*time.Minute)
	e.lost(victim)
	e.ready("4/4", "4/4")
	e.Eventually("two good copies on nodes that are there", func() error {
		have := slices.DeleteFunc(e.Sim.World().Volumes().Data("pvc-1"), func(n string) bool { return n == victim })
		if len(have) != 2 {
			return fmt.Errorf("pvc-1 is on %v", have)
		}
		return nil
	})
}

// holdNodeGone: without spec.nodes.lostAfter a human is asked. Even that word does not give up the last copy of a
// volume.
func holdNodeGone(t *testing.T) {
	e, victim, _ := withVolume(t, 5, removeGone)
	volume(e, "pvc-only", victim)
	e.kill(victim)
	e.deleteNodeObject(victim)
	h := e.WaitNodeHold(v1alpha1.HoldNodeGone)
	e.checkHold(e.Get(), h, victim, "pvc-1", "pvc-only")
	if !slices.Equal(h.Nodes, []string{victim}) || !slices.Equal(h.Resources, []string{"pvc-1", "pvc-only"}) {
		t.Errorf("hold %+v", h)
	}
	e.notLost(victim)
	e.Resume(h, v1alpha1.OptionDeclareLost)
	risk := e.WaitNodeHold(v1alpha1.HoldLastReplicaAtRisk)
	e.noToken()
	if !slices.Equal(risk.Resources, []string{"pvc-only"}) {
		t.Errorf("hold %+v", risk)
	}
	e.notLost(victim)
	if err := e.Sim.World().Volumes().Delete("pvc-only"); err != nil { // a human gives it up
		t.Fatal(err)
	}
	e.Eventually("the hold is answered", func() error {
		holds := e.Get().Status.NodeHolds
		if len(holds) == 0 {
			return nil
		}
		e.Resume(&holds[0], v1alpha1.OptionRetry)
		return fmt.Errorf("holds %+v", holds)
	})
	e.lost(victim)
	e.ready("4/4", "4/4")
}

// A node that comes back before anybody declared it lost is as it was.
func TestGoneNodeComesBack(t *testing.T) {
	e, victim, _ := withVolume(t, 5, removeGone)
	e.kill(victim)
	e.deleteNodeObject(victim)
	e.WaitNodeHold(v1alpha1.HoldNodeGone)
	if err := e.Sim.RejoinNode(e.Ctx, victim); err != nil {
		t.Fatal(err)
	}
	e.ready("5/5", "5/5")
	e.Eventually("nothing is kept of it", func() error {
		if since, word := e.mark(victim, "gone-since"), e.mark(victim, "declare-lost"); since+word != "" {
			return fmt.Errorf("gone since %q, word %q", since, word)
		}
		return nil
	})
	e.notLost(victim)
	if have := e.Sim.World().Volumes().Data("pvc-1"); len(have) != 2 {
		t.Errorf("pvc-1 is on %v", have)
	}
}

// Under the policy Retain a gone node is listed, and that is all.
func TestGoneNodeIsRetained(t *testing.T) {
	e := startReady(t, 4, harness.ThinPool)
	e.Timing.NodeGone = machine.Slow(time.Second)
	e.Run()
	e.ready("4/4", "4/4")
	victim := e.others("n1", "n2", "n3", "n4")[0]
	if err := e.Sim.World().Volumes().Create("pvc-1", 1<<20, "ssd", victim,
		e.others("n1", "n2", "n3", "n4")[1]); err != nil {
		t.Fatal(err)
	}
	e.kill(victim)
	e.deleteNodeObject(victim)
	e.goneMessage(victim, "removalPolicy Retain")
	before := e.writesTo(victim)
	e.During(2*settle, "nothing is done", func() error {
		if n := e.writesTo(victim); n != before || len(e.Get().Status.NodeHolds) > 0 {
			return fmt.Errorf("%d writes, holds %+v", n-before, e.Get().Status.NodeHolds)
		}
		return nil
	})
}
