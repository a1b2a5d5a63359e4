package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/holdkind"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
	"github.com/linstor-dev/storagecluster-operator/test/machine"
	"github.com/linstor-dev/storagecluster-operator/test/sim"
)

// destructive are the requests that could overwrite or forget what is on a node's disks.
func (e poolEnv) destructive(node string) []sim.Record {
	var out []sim.Record
	for _, w := range e.Sim.World().Writes() {
		pools := strings.HasPrefix(w.Path, "/v1/nodes/"+node+"/storage-pools")
		if w.Path == "/v1/physical-storage/"+node ||
			pools && (w.Method == http.MethodPost || w.Method == http.MethodDelete) {
			out = append(out, w)
		}
	}
	return out
}

// spare is an empty disk that matches harness.DevicePool, as an administrator plugs it in for one that died.
func spare(n string) sim.Disk {
	return sim.Disk{Name: "sdd", SizeBytes: 500 << 30, Model: "INTEL SSDPE2KX", Serial: "S4EV" + n + "new",
		WWN: "0x8000" + n}
}

// loseDisk takes the disk of a node's pool away and reboots the node. The disk is returned.
func (e poolEnv) loseDisk(node string) sim.Disk {
	e.T.Helper()
	m := e.Sim.World().Machine(node)
	i := slices.IndexFunc(m.Disks(), func(d sim.Disk) bool { return d.Serial == serialOf(node) })
	d := m.Disks()[i]
	m.DetachDisk(d.Serial)
	if err := e.Sim.RebootNode(e.Ctx, node, map[string]string{}); err != nil {
		e.T.Fatal(err)
	}
	return d
}

func holdPoolBackendLost(t *testing.T) {
	e := start(t, harness.Nodes(3))
	e.Run()
	e.Apply(harness.Manifest(harness.DevicePool))
	e.WaitPhase(v1alpha1.PhaseReady)
	e.Sim.World().ResetRequests()
	e.Sim.World().Machine("n2").AttachDisk(spare("2"))
	e.loseDisk("n2")
	h := e.waitListed(v1alpha1.HoldPoolBackendLost, "n2:S4EV2new")
	e.checkHold(e.Get(), h, "vg_new/thin", "was usable before")
	e.WaitPhase(v1alpha1.PhaseDegraded)
	e.ignored(h.ID + ":approve")
	e.During(settle, "nothing is made on the empty disk", func() error {
		if w := e.destructive("n2"); len(w) > 0 || e.Signature("n2", "S4EV2new") != "" {
			return fmt.Errorf("%v, the disk has %q", w, e.Signature("n2", "S4EV2new"))
		}
		return nil
	})
	// To look again is no consent.
	e.Resume(h, v1alpha1.OptionRetry)
	e.noToken()
	var again *v1alpha1.Hold
	e.Eventually("a new hold", func() error {
		if again = e.waitListed(v1alpha1.HoldPoolBackendLost, "n2:S4EV2new"); again.ID == h.ID {
			return errors.New("it is the old one")
		}
		return nil
	})
	if w := e.destructive("n2"); len(w) > 0 {
		t.Errorf("without consent: %v", w)
	}
	e.Resume(again, v1alpha1.OptionRecreate)
	e.noToken()
	e.ready("3/3", "3/3")
	e.expectGroup("n2", "vg_new", "S4EV2new")
	if steps := e.deviceSteps("n2"); len(steps) != 1 {
		t.Errorf("%d device steps", len(steps))
	}
	for _, n := range []string{"n1", "n3"} {
		if w := e.destructive(n); len(w) > 0 {
			t.Errorf("node %s: %v", n, w)
		}
	}
	e.WaitEvent("PoolRecreated", "S4EV2new")
	e.expectCarefulDevices()
}

// TestLostPoolComesBack: the disk was slow. The pool is used again as it was; the hold waits for its token.
func TestLostPoolComesBack(t *testing.T) {
	e := start(t, harness.Nodes(3))
	e.Run()
	e.Apply(harness.Manifest(harness.DevicePool))
	e.WaitPhase(v1alpha1.PhaseReady)
	if err := e.Sim.World().Volumes().Create("pvc-1", 1<<20, "ssd", "n2"); err != nil {
		t.Fatal(err)
	}
	e.Sim.World().ResetRequests()
	e.Sim.World().Machine("n2").AttachDisk(spare("2"))
	disk := e.loseDisk("n2")
	h := e.waitListed(v1alpha1.HoldPoolBackendLost, "n2:S4EV2new")
	e.Sim.World().Machine("n2").AttachDisk(disk)
	e.WaitPools("3/3")
	e.WaitPhase(v1alpha1.PhaseReady)
	if held := e.Get().Status.NodeHolds; len(held) != 1 || held[0].ID != h.ID {
		t.Errorf("holds %+v", held)
	}
	// Whatever is answered now: the pool is there, and nothing is made.
	e.Resume(h, v1alpha1.OptionRecreate)
	e.noToken()
	e.Eventually("the hold is over", func() error {
		if c := e.Get(); len(c.Status.NodeHolds) > 0 || c.Status.Phase != v1alpha1.PhaseReady {
			return fmt.Errorf("phase %s, holds %+v", c.Status.Phase, c.Status.NodeHolds)
		}
		return nil
	})
	e.Eventually("the consent is dropped", func() error {
		if _, there := e.View().Node("n2").Properties["Aux/storage.linstor.dev/recreate.ssd"]; there {
			return errors.New("it is still there")
		}
		return nil
	})
	if w := e.destructive("n2"); len(w) > 0 || e.Signature("n2", "S4EV2new") != "" {
		t.Errorf("%v, the spare disk has %q", w, e.Signature("n2", "S4EV2new"))
	}
	if data := e.Sim.World().Volumes().Data("pvc-1"); !slices.Equal(data, []string{"n2"}) {
		t.Errorf("the volume's data is on %v", data)
	}
}

// TestRecreateWaitsForTheCopies: while copies of volumes are registered in the lost pool, it is not made anew,
// whatever was answered.
func TestRecreateWaitsForTheCopies(t *testing.T) {
	e := start(t, harness.Nodes(3))
	e.Run()
	e.Apply(harness.Manifest(harness.DevicePool))
	e.WaitPhase(v1alpha1.PhaseReady)
	if err := e.Sim.World().Volumes().Create("pvc-1", 1<<20, "ssd", "n1", "n2"); err != nil {
		t.Fatal(err)
	}
	e.Sim.World().ResetRequests()
	e.Sim.World().Machine("n2").AttachDisk(spare("2"))
	e.loseDisk("n2")
	h := e.waitListed(v1alpha1.HoldPoolBackendLost, "n2:S4EV2new")
	e.Resume(h, v1alpha1.OptionRecreate)
	e.noToken()
	e.Eventually("a hold that says why", func() error {
		again := e.waitListed(v1alpha1.HoldPoolBackendLost, "n2:S4EV2new")
		if again.ID == h.ID || !strings.Contains(again.Message, "pvc-1") {
			return errors.New(again.Message)
		}
		h = again
		return nil
	})
	if w := e.destructive("n2"); len(w) > 0 {
		t.Errorf("with a copy in the pool: %v", w)
	}
	e.LinstorWrite(http.MethodDelete, "/v1/resource-definitions/pvc-1/resources/n2", "")
	e.Resume(h, v1alpha1.OptionRecreate)
	e.noToken()
	e.ready("3/3", "3/3")
	e.expectGroup("n2", "vg_new", "S4EV2new")
	if data := e.Sim.World().Volumes().Data("pvc-1"); !slices.Contains(data, "n1") {
		t.Errorf("the volume's data is on %v", data)
	}
}

// TestLostVolumeGroup: a pool on a volume group that somebody made by hand. There is nothing to make it from, so only
// looking again is offered. LINSTOR itself sees that the group is back.
func TestLostVolumeGroup(t *testing.T) {
	e := startReady(t, 3, harness.ThinPool)
	e.Run()
	e.WaitPhase(v1alpha1.PhaseReady)
	e.Sim.World().ResetRequests()
	e.Sim.World().Machine("n2").LVM().Remove("vg_ssd0")
	if err := e.Sim.RebootNode(e.Ctx, "n2", nil); err != nil {
		t.Fatal(err)
	}
	h := e.WaitNodeHold(v1alpha1.HoldPoolBackendLost)
	if !slices.Equal(holdkind.Answers(h.Options), []string{v1alpha1.OptionRetry}) ||
		!slices.Equal(h.Nodes, []string{"n2"}) {
		t.Errorf("%+v", h)
	}
	e.During(settle, "the pool is not registered anew", func() error {
		if w := e.destructive("n2"); len(w) > 0 {
			return fmt.Errorf("%v", w)
		}
		return nil
	})
	e.Sim.World().Machine("n2").LVM().Add(harness.Machine(2).VolumeGroups[0])
	e.WaitPools("3/3")
	e.Resume(h, v1alpha1.OptionRetry)
	e.noToken()
	e.ready("3/3", "3/3")
	if w := e.destructive("n2"); len(w) > 0 {
		t.Errorf("%v", w)
	}
}

// TestKilledWhileRecreating kills the operator right after each of the writes that make a lost pool anew. Whoever
// comes next finishes what was agreed to, and makes nothing twice.
func TestKilledWhileRecreating(t *testing.T) {
	t.Parallel()
	for n, name := range []string{"intent", "old pool", "devices", "pool"} {
		t.Run(name, func(t *testing.T) {
			e := start(t, harness.Nodes(1))
			c := &cut{left: 1 << 30, done: true, dead: make(chan struct{})}
			e.Transport = c
			e.Timing.Escalate = machine.Slow(time.Minute) // the reboot takes the controller along
			e.Run()
			e.Apply(harness.Manifest(harness.DevicePool))
			e.WaitPhase(v1alpha1.PhaseReady)
			e.Sim.World().Machine("n1").AttachDisk(spare("1"))
			e.loseDisk("n1")
			h := e.waitListed(v1alpha1.HoldPoolBackendLost, "n1:S4EV1new")
			e.Sim.World().ResetRequests()
			c.mu.Lock()
			c.left = n
			c.mu.Unlock()
			e.Resume(h, v1alpha1.OptionRecreate)
			e.Await("the operator gets to its end", c.dead)
			e.StopOperator()
			e.Transport = nil
			e.Run()
			e.ready("1/1", "1/1")
			e.expectGroup("n1", "vg_new", "S4EV1new")
			if steps := e.deviceSteps("n1"); len(steps) != 1 {
				t.Errorf("%d device steps", len(steps))
			}
			e.expectCarefulDevices()
		})
	}
}
