package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
	"github.com/linstor-dev/storagecluster-operator/test/sim"
)

// manualPool is harness.DevicePool with a human's word before a disk is used.
const manualPool = `
  storagePools:
  - name: ssd
    lvmThin: {volumeGroup: vg_new, thinPool: thin}
    devices: {approval: Manual, match: [{serial: "S4EV*"}]}
`

// listed are the serial numbers that a hold asks about, by node.
func listed(h *v1alpha1.Hold) string {
	var out []string
	for _, d := range h.Devices {
		out = append(out, d.Node+":"+d.Serial)
	}
	return strings.Join(out, " ")
}

// untouched checks that nothing was made of the nodes' disks.
func (e poolEnv) untouched(nodes ...string) {
	e.T.Helper()
	for _, n := range nodes {
		if steps := e.deviceSteps(n); len(steps) > 0 || e.Signature(n, serialOf(n)) != "" {
			e.T.Errorf("node %s: %d device steps, the disk has %q", n, len(steps), e.Signature(n, serialOf(n)))
		}
	}
}

// waitListed waits for a hold of nodes that asks about exactly these disks.
func (e poolEnv) waitListed(r v1alpha1.HoldReason, want string) *v1alpha1.Hold {
	e.T.Helper()
	var hold *v1alpha1.Hold
	e.Eventually(string(r)+" about "+want, func() error {
		c := e.Get()
		for i := range c.Status.NodeHolds {
			if h := &c.Status.NodeHolds[i]; h.Reason == r && listed(h) == want {
				hold = h
				return nil
			}
		}
		return fmt.Errorf("phase %s, node holds %+v", c.Status.Phase, c.Status.NodeHolds)
	})
	return hold
}

func holdDeviceApproval(t *testing.T) {
	e := start(t, harness.Nodes(3))
	e.Run()
	e.Apply(harness.Manifest(manualPool))
	h := e.waitListed(v1alpha1.HoldDeviceApproval, "n1:S4EV1 n2:S4EV2 n3:S4EV3")
	e.checkHold(e.Get(), h, "3 nodes", "requires approval", "/dev/sdb (serial S4EV1)")
	d := h.Devices[1]
	if d.Path != "/dev/sdb" || d.WWN != "0x60002" || d.Model != "INTEL SSDPE2KX" || d.Size.String() != "500Gi" {
		t.Errorf("listed %+v", d)
	}
	c := e.Get()
	if c.Status.Phase != v1alpha1.PhaseStoragePools || c.Status.Hold != nil {
		t.Errorf("phase %s, hold %+v: an approval stops nodes, not the cluster", c.Status.Phase, c.Status.Hold)
	}
	for _, token := range []string{"h-000000:approve", h.ID + ":retry", h.ID + ":approve@n9"} {
		e.ignored(token)
	}
	e.During(settle, "nothing is written before the answer", func() error {
		e.untouched("n1", "n2", "n3")
		return nil
	})
	// n2 is answered for by name, n3 otherwise.
	e.Resume(h, v1alpha1.OptionApprove+"@n2")
	e.noToken()
	e.WaitPools("1/3")
	e.expectGroup("n2", "vg_new", "S4EV2")
	e.untouched("n1", "n3")
	h = e.waitListed(v1alpha1.HoldDeviceApproval, "n1:S4EV1 n3:S4EV3")
	e.Resume(h, v1alpha1.OptionSkip+"@n3")
	e.noToken()
	e.Resume(e.waitListed(v1alpha1.HoldDeviceApproval, "n1:S4EV1"), v1alpha1.OptionApprove)
	e.noToken()
	e.ready("3/3", "2/2")
	e.untouched("n3")
	e.expectCarefulDevices()
}

// TestDisksChangeBeforeApproval: another list of disks is another hold, and an answer to the old one does nothing.
func TestDisksChangeBeforeApproval(t *testing.T) {
	e := start(t, harness.Nodes(1))
	e.Run()
	e.Apply(harness.Manifest(manualPool))
	old := e.waitListed(v1alpha1.HoldDeviceApproval, "n1:S4EV1")
	e.Sim.World().Machine("n1").AttachDisk(sim.Disk{Name: "sdd", SizeBytes: 500 << 30, Model: "INTEL SSDPE2KX",
		Serial: "S4EV9", WWN: "0x60009"})
	h := e.waitListed(v1alpha1.HoldDeviceApproval, "n1:S4EV1 n1:S4EV9")
	if h.ID == old.ID {
		t.Error("another list has the same id")
	}
	e.ignored(old.ID + ":approve")
	e.untouched("n1")
	e.Resume(h, v1alpha1.OptionApprove)
	e.noToken()
	e.ready("1/1", "1/1")
	e.expectGroup("n1", "vg_new", "S4EV1", "S4EV9")
}

// TestDisksChangeAfterApproval exchanges the disk while the approval is being written: the disk that takes its place
// is not used, and is asked about anew.
func TestDisksChangeAfterApproval(t *testing.T) {
	e := start(t, harness.Nodes(1))
	m := e.Sim.World().Machine("n1")
	e.Fault(func(r *http.Request) *sim.Fault {
		if r.Method == http.MethodPut && r.URL.Path == "/v1/nodes/n1" && strings.Contains(body(r), "approve.ssd") {
			m.DetachDisk("S4EV1")
			if len(m.Disks()) < 3 {
				m.AttachDisk(sim.Disk{Name: "sdb", SizeBytes: 500 << 30, Model: "INTEL SSDPE2KX", Serial: "S4EV8", WWN: "0x60008"})
			}
		}
		return nil
	})
	e.Run()
	e.Apply(harness.Manifest(manualPool))
	e.Resume(e.waitListed(v1alpha1.HoldDeviceApproval, "n1:S4EV1"), v1alpha1.OptionApprove)
	e.noToken()
	h := e.waitListed(v1alpha1.HoldDeviceApproval, "n1:S4EV8")
	if steps := e.deviceSteps("n1"); len(steps) > 0 || e.Signature("n1", "S4EV8") != "" {
		t.Errorf("a disk was used that nobody approved: %s", steps[0].Body)
	}
	e.Resume(h, v1alpha1.OptionApprove)
	e.noToken()
	e.ready("1/1", "1/1")
	e.expectGroup("n1", "vg_new", "S4EV8")
}

// TestKilledAfterApproval: an approval that was stored holds, whoever carries it out.
func TestKilledAfterApproval(t *testing.T) {
	e := start(t, harness.Nodes(1))
	c := &cut{left: 0, dead: make(chan struct{})}
	e.Transport = c
	e.Run()
	e.Apply(harness.Manifest(manualPool))
	e.Resume(e.waitListed(v1alpha1.HoldDeviceApproval, "n1:S4EV1"), v1alpha1.OptionApprove)
	e.Await("the operator gets to its end", c.dead)
	e.StopOperator()
	e.untouched("n1")
	e.Transport = nil
	e.Run()
	e.ready("1/1", "1/1")
	e.expectGroup("n1", "vg_new", "S4EV1")
	if steps := e.deviceSteps("n1"); len(steps) != 1 {
		t.Errorf("%d device steps", len(steps))
	}
	// The consent counted once.
	e.Eventually("the approval is dropped", func() error {
		if _, there := e.View().Node("n1").Properties["Aux/storage.linstor.dev/approve.ssd"]; there {
			return errors.New("it is still there")
		}
		return nil
	})
}

// TestApprovalOutlivesSatellites deletes all satellites while disks wait for approval: LINSTOR lists no disks then,
// also while it still reports the nodes as ONLINE. The approval must stay the same hold, and no DeviceMissing may be
// raised. That all satellites are gone at once may be a mass failure; that is another hold.
func TestApprovalOutlivesSatellites(t *testing.T) {
	e := start(t, harness.Nodes(3))
	e.Run()
	e.Apply(harness.Manifest(manualPool))
	const all = "n1:S4EV1 n2:S4EV2 n3:S4EV3"
	h := e.waitListed(v1alpha1.HoldDeviceApproval, all)
	key := client.ObjectKey{Namespace: v1alpha1.WorkloadNamespace, Name: resources.SatelliteName}
	for range 3 {
		ds := &appsv1.DaemonSet{}
		if err := errors.Join(e.Client().Get(e.Ctx, key, ds), e.Client().Delete(e.Ctx, ds)); err != nil {
			t.Fatal(err)
		}
		before := ds.UID
		e.Eventually("new satellites, and the same question", func() error {
			if err := e.Client().Get(e.Ctx, key, ds); err != nil {
				return err
			}
			c := e.Get()
			holds := slices.DeleteFunc(c.Status.NodeHolds, func(h v1alpha1.Hold) bool {
				return h.Reason == v1alpha1.HoldMassFailure
			})
			if len(holds) != 1 || holds[0].ID != h.ID || listed(&holds[0]) != all {
				t.Fatalf("%s became %+v", h.ID, holds)
			}
			if n := ds.Status.NumberReady; ds.UID == before || n != 3 || c.Status.Phase != v1alpha1.PhaseStoragePools {
				return fmt.Errorf("%d satellites ready, phase %s", n, c.Status.Phase)
			}
			return nil
		})
	}
	for _, step := range e.Steps(e.Get()) {
		if step.To == v1alpha1.PhaseHumanIntervention {
			t.Errorf("a human was called: %s: %s", step.Message, e.HoldText(&step))
		}
	}
	e.untouched("n1", "n2", "n3")
	e.Resume(h, v1alpha1.OptionApprove)
	e.noToken()
	e.ready("3/3", "3/3")
}

// TestAutoEndsTheApproval: the spec's word for empty disks.
func TestAutoEndsTheApproval(t *testing.T) {
	e := start(t, harness.Nodes(2))
	e.Run()
	e.Apply(harness.Manifest(manualPool))
	h := e.waitListed(v1alpha1.HoldDeviceApproval, "n1:S4EV1 n2:S4EV2")
	e.Update(func(c *v1alpha1.StorageCluster) { c.Spec.StoragePools[0].Properties = map[string]string{"Aux/x": "y"} })
	e.Eventually("the change is accepted", func() error {
		if c := e.Get(); c.Status.AcceptedGeneration != c.Generation || len(c.Status.NodeHolds) == 0 ||
			c.Status.NodeHolds[0].ID != h.ID {
			return fmt.Errorf("generation %d of %d, holds %+v", c.Status.AcceptedGeneration, c.Generation, c.Status.NodeHolds)
		}
		return nil
	})
	e.untouched("n1", "n2")
	e.Update(func(c *v1alpha1.StorageCluster) { c.Spec.StoragePools[0].Devices.Approval = v1alpha1.ApprovalAuto })
	e.ready("2/2", "2/2")
	e.expectGroup("n2", "vg_new", "S4EV2")
}

// TestApprovalOfADiskThatComesLater: optional devices; the cluster is Ready meanwhile.
func TestApprovalOfADiskThatComesLater(t *testing.T) {
	ns := harness.Nodes(2)
	ns[1].Machine.Disks = slices.Delete(ns[1].Machine.Disks, 1, 2)
	e := start(t, ns)
	e.Run()
	e.Apply(harness.Manifest(strings.Replace(manualPool, "}]}", "}], optional: true}", 1)))
	e.Resume(e.waitListed(v1alpha1.HoldDeviceApproval, "n1:S4EV1"), v1alpha1.OptionApprove)
	e.noToken()
	e.ready("2/2", "1/1")
	comeToRest(e)
	e.Sim.World().Machine("n2").AttachDisk(sim.Disk{Name: "sdd", SizeBytes: 500 << 30, Model: "INTEL SSDPE2KX",
		Serial: "S4EV2", WWN: "0x60002"})
	h := e.waitListed(v1alpha1.HoldDeviceApproval, "n2:S4EV2")
	if c := e.Get(); c.Status.Phase != v1alpha1.PhaseReady || c.Status.Nodes.Online != 2 {
		t.Errorf("phase %s, %d online: the node may be without the pool", c.Status.Phase, c.Status.Nodes.Online)
	}
	e.untouched("n2")
	e.Resume(h, v1alpha1.OptionApprove)
	e.noToken()
	e.ready("2/2", "2/2")
	e.expectGroup("n2", "vg_new", "S4EV2")
}
