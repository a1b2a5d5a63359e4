package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
	"github.com/linstor-dev/storagecluster-operator/test/sim"
)

// newMachine has empty disks, of which one fits the pool that is made from devices.
func newMachine() *sim.MachineSpec {
	m := harness.Machine(2)
	m.VolumeGroups, m.ZPools = nil, nil
	m.Disks[1].Serial, m.Disks[1].WWN = "S4EV-new", "0x6000new"
	return &m
}

// mark is a note that the operator left at a LINSTOR node.
func (e nodeEnv) mark(node, key string) string {
	e.T.Helper()
	n, err := e.LinstorNode(node)
	if err != nil {
		return err.Error()
	}
	return n.Properties["Aux/storage.linstor.dev/"+key]
}

// writesTo counts what was written to LINSTOR about a node.
func (e nodeEnv) writesTo(node string) int {
	n := 0
	for _, r := range e.Sim.World().Writes() {
		if strings.HasPrefix(r.Path+"/", "/v1/nodes/"+node+"/") ||
			strings.HasPrefix(r.Path+"/", "/v1/physical-storage/"+node+"/") {
			n++
		}
	}
	return n
}

func (e nodeEnv) replace(node string, m *sim.MachineSpec) {
	e.T.Helper()
	if err := e.Sim.ReplaceMachine(e.Ctx, node, m); err != nil {
		e.T.Fatal(err)
	}
}

// holdMachineReplaced: another machine comes under the name of a registered one. It is left alone until a human says
// that the data of the first is gone.
func holdMachineReplaced(t *testing.T) {
	e, victim, other := withVolume(t, 4, harness.DevicePool)
	first := e.mark(victim, "system-uuid")
	e.Sim.World().ResetRequests()
	e.replace(victim, newMachine())

	h := e.WaitNodeHold(v1alpha1.HoldMachineReplaced)
	e.checkHold(e.Get(), h, victim, first)
	e.Eventually("no satellite runs on the new machine", func() error {
		if n := e.satellitePods(victim); n > 0 {
			return fmt.Errorf("%d pods", n)
		}
		return nil
	})
	e.During(settle, "nothing is written for it", func() error {
		if n := e.writesTo(victim); n > 0 {
			return fmt.Errorf("%d writes", n)
		}
		return nil
	})
	e.WaitStatus("one node is held", func(s *v1alpha1.StorageClusterStatus) bool {
		return slices.Contains(s.Nodes.States, v1alpha1.NodeStateCount{State: v1alpha1.NodeHeld, Count: 1})
	})
	e.WaitPhase(v1alpha1.PhaseDegraded)
	e.ignored(h.ID + ":skip")
	e.noSatellite(victim, victim)
	e.removeToken()
	e.Resume(h, v1alpha1.OptionRetry)
	e.Eventually("a new hold", func() error {
		holds := e.Get().Status.NodeHolds
		if len(holds) != 1 || holds[0].ID == h.ID {
			return fmt.Errorf("holds %+v", holds)
		}
		return nil
	})
	e.noToken()
	h = e.WaitNodeHold(v1alpha1.HoldMachineReplaced)

	e.Resume(h, v1alpha1.OptionReplace)
	e.ready("4/4", "4/4")
	e.noToken()
	if now := e.mark(victim, "system-uuid"); now == first || now != e.Node(victim).Status.NodeInfo.SystemUUID {
		t.Errorf("registered as machine %s, was %s", now, first)
	}
	if n := e.linstorCalls(http.MethodDelete, "/"+victim+"/lost"); n != 1 {
		t.Errorf("given up %d times", n)
	}
	if n := e.linstorCalls(http.MethodDelete, "/v1/nodes/"+victim); n != 0 {
		t.Errorf("deleted %d times: that lets the new satellite delete volumes", n)
	}
	e.Eventually("one Event MachineForgotten", func() error {
		return oneEvent(e.Events(), func(ev *eventsv1.Event) bool {
			return ev.Reason == "MachineForgotten" && ev.Type == corev1.EventTypeWarning && strings.Contains(ev.Note, victim)
		})
	})
	if have := e.Sim.World().Volumes().Data("pvc-1"); !slices.Equal(have, []string{other}) {
		t.Errorf("pvc-1 is on %v", have)
	}
	e.expectGroup(victim, "vg_new", "S4EV-new") // its disk was empty
}

// The disks were moved into another machine: it is adopted, with all that is on them.
func TestAdoptReplacedMachine(t *testing.T) {
	e := startReady(t, 3, harness.ThinPool)
	e.Run()
	e.ready("3/3", "3/3")
	victim := e.others("n1", "n2", "n3")[0]
	if err := e.Sim.World().Volumes().Create("pvc-1", 1<<20, "ssd", victim); err != nil {
		t.Fatal(err)
	}
	e.replace(victim, nil)
	h := e.WaitNodeHold(v1alpha1.HoldMachineReplaced)
	e.Resume(h, v1alpha1.OptionAdopt+"@"+victim)
	e.ready("3/3", "3/3")
	e.noToken()
	if now := e.mark(victim, "system-uuid"); now != e.Node(victim).Status.NodeInfo.SystemUUID {
		t.Errorf("registered as machine %s", now)
	}
	if deletes := e.linstorDeletes(); len(deletes) > 0 {
		t.Errorf("LINSTOR was told to delete %v", deletes)
	}
	if have := e.Sim.World().Volumes().Data("pvc-1"); !slices.Equal(have, []string{victim}) {
		t.Errorf("pvc-1 is on %v", have)
	}
}

// Even a human's word does not make the operator give up the last good copy of a volume.
func TestReplacedMachineWithTheLastCopy(t *testing.T) {
	e := start(t, harness.Nodes(4))
	e.Run()
	e.Apply(harness.Manifest(harness.DevicePool))
	e.ready("4/4", "4/4")
	victim := e.others("n1", "n2", "n3", "n4")[0]
	if err := e.Sim.World().Volumes().Create("pvc-only", 1<<20, "ssd", victim); err != nil {
		t.Fatal(err)
	}
	e.replace(victim, newMachine())
	e.Resume(e.WaitNodeHold(v1alpha1.HoldMachineReplaced), v1alpha1.OptionReplace)
	e.Eventually("the operator says why it waits", func() error {
		if p := e.waitProblem("MachineReplaced", victim); !strings.Contains(p.Message,
			"last up-to-date replica of 1 volume: pvc-only") {
			return errors.New(p.Message)
		}
		return nil
	})
	e.During(settle, "nothing is deleted", func() error {
		if deletes := e.linstorDeletes(); len(deletes) > 0 {
			return fmt.Errorf("LINSTOR was told to delete %v", deletes)
		}
		return nil
	})
	if err := e.Sim.World().Volumes().Delete("pvc-only"); err != nil { // a human gives it up
		t.Fatal(err)
	}
	e.ready("4/4", "4/4")
}

// A node that is deleted and joins anew on the same machine keeps its registration, its pools and its volumes.
func TestRejoinedNodeIsAdopted(t *testing.T) {
	e := startReady(t, 3, harness.ThinPool)
	e.Run()
	e.ready("3/3", "3/3")
	name := e.others("n1", "n2", "n3")[0]
	if err := e.Sim.World().Volumes().Create("pvc-1", 1<<20, "ssd", name); err != nil {
		t.Fatal(err)
	}
	first := e.mark(name, "node-uid")
	if err := e.Sim.DeleteNode(e.Ctx, name); err != nil {
		t.Fatal(err)
	}
	e.WaitStatus("two members", func(s *v1alpha1.StorageClusterStatus) bool { return s.Nodes.Members == 2 })
	if err := e.Sim.RejoinNode(e.Ctx, name); err != nil {
		t.Fatal(err)
	}
	e.ready("3/3", "3/3")
	e.Eventually("one Event NodeRejoined", func() error {
		return oneEvent(e.Events(), func(ev *eventsv1.Event) bool {
			return ev.Reason == "NodeRejoined" &&
				strings.Contains(ev.Note, name)
		})
	})
	if now := e.mark(name, "node-uid"); now == first || now != string(e.Node(name).UID) {
		t.Errorf("registered as %s, was %s", now, first)
	}
	if deletes := e.linstorDeletes(); len(deletes) > 0 {
		t.Errorf("LINSTOR was told to delete %v", deletes)
	}
	if have := e.Sim.World().Volumes().Data("pvc-1"); !slices.Equal(have, []string{name}) {
		t.Errorf("pvc-1 is on %v", have)
	}
}

// An answer is for the machines that the hold listed: one that is replaced while somebody makes up their mind is asked
// about apart.
func TestReplacedMachinesAreAnsweredApart(t *testing.T) {
	e := start(t, harness.Nodes(5))
	e.Run()
	e.Apply(harness.Manifest("  nodes: {minReady: 1}" + harness.DevicePool))
	e.ready("5/5", "5/5")
	spare := e.others("n1", "n2", "n3", "n4", "n5")
	a, b := spare[0], spare[1]
	second := e.mark(b, "system-uuid")
	e.replace(a, newMachine())
	h := e.WaitNodeHold(v1alpha1.HoldMachineReplaced)
	e.replace(b, nil) // its disks are in the new machine
	apart := func(s *v1alpha1.StorageClusterStatus) bool {
		return len(s.NodeHolds) == 2 && s.NodeHolds[0].ID == h.ID && slices.Equal(s.NodeHolds[0].Nodes, []string{a}) &&
			slices.Equal(s.NodeHolds[1].Nodes, []string{b})
	}
	c := e.WaitStatus("two holds of one machine each", apart)
	next := &c.Status.NodeHolds[1]
	e.WaitPhase(v1alpha1.PhaseDegraded) // two nodes are away
	e.ignored(h.ID + ":adopt@" + b)
	e.Resume(h, v1alpha1.OptionReplace)
	e.noToken()
	e.Eventually("the new machine of "+a+" is registered", func() error {
		if got := e.mark(a, "system-uuid"); got != e.Node(a).Status.NodeInfo.SystemUUID {
			return fmt.Errorf("registered is %q", got)
		}
		return nil
	})
	if got := e.mark(b, "machine-replaced") + e.mark(b, "system-uuid"); got != second {
		t.Errorf("the answer for %s left %q at %s", a, got, b)
	}
	if n := e.linstorCalls(http.MethodDelete, "/"+b+"/lost"); n > 0 {
		t.Errorf("%s was given up", b)
	}
	e.Resume(next, v1alpha1.OptionAdopt)
	e.ready("5/5", "5/5")
}
