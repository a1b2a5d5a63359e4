package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
	"github.com/linstor-dev/storagecluster-operator/test/sim"
)

// dirty puts a file system on the disks that harness.DevicePool matches.
func (e poolEnv) dirty(nodes ...string) {
	for _, n := range nodes {
		e.Sim.World().Machine(n).SetSignature(serialOf(n), "ext4")
	}
}

func (e poolEnv) wipe(nodes ...string) {
	for _, n := range nodes {
		e.Sim.World().Machine(n).SetSignature(serialOf(n), "")
	}
}

// serialOf is the serial number of a node's disk that harness.DevicePool matches.
func serialOf(node string) string { return "S4EV" + strings.TrimPrefix(node, "n") }

// deviceWrites counts the requests that make disks of a node ready.
func (e poolEnv) deviceWrites(node string) int {
	n := 0
	for _, w := range e.Sim.World().Writes() {
		if strings.Contains(w.Path, "physical-storage") && strings.HasSuffix(w.Path, "/"+node) {
			n++
		}
	}
	return n
}

func holdDeviceNotEmpty(t *testing.T) {
	t.Parallel()
	t.Run("retry", deviceNotEmptyRetry)
	t.Run("skip and use-existing", deviceNotEmptyOtherOptions)
}

func deviceNotEmptyRetry(t *testing.T) {
	e := start(t, harness.Nodes(3))
	e.dirty("n2", "n3")
	e.Run()
	e.Apply(harness.Manifest(harness.DevicePool))
	h := e.held(v1alpha1.HoldDeviceNotEmpty, "S4EV2", "ext4", "2 nodes")
	if diff := cmp.Diff([]string{"n2", "n3"}, h.Nodes); diff != "" || h.Pool != "ssd" {
		t.Errorf("pool %q, nodes: %s", h.Pool, diff)
	}
	if held := e.Get().Status.NodeHolds; len(held) > 0 {
		t.Errorf("the same disks have a hold of nodes, too: %+v", held)
	}
	for _, token := range []string{"h-000000:retry", h.ID + ":format", "yes please", h.ID, h.ID + ":retry@",
		h.ID + ":retry@n9"} {
		e.ignored(token)
	}
	e.staysAfterSpecChange(h)
	h = e.retriedInVain(h)
	e.wipe("n2", "n3")
	e.stays(h, "the disks are empty now")
	if e.deviceWrites("n2")+e.deviceWrites("n3") > 0 {
		t.Error("disks were touched before the answer")
	}
	e.answered(h, v1alpha1.OptionRetry)
	e.ready("3/3", "3/3")
	for _, n := range []string{"n1", "n2", "n3"} {
		if got := e.deviceWrites(n); got != 1 {
			t.Errorf("node %s: %d device steps", n, got)
		}
	}
}

// twoDevicePools are made from both empty disks of each machine.
const twoDevicePools = harness.DevicePool + `  - name: hdd
    lvm: {volumeGroup: vg_hdd}
    devices: {match: [{serial: "ZA*"}]}
`

func deviceNotEmptyOtherOptions(t *testing.T) {
	e := start(t, harness.Nodes(3))
	e.dirty("n2", "n3")
	for _, n := range []string{"n2", "n3"} {
		e.Sim.World().Machine(n).LVM().Add(sim.VolumeGroup{Name: "vg_hdd", Devices: []string{"sdc"}})
	}
	e.Run()
	e.Apply(harness.Manifest(twoDevicePools))
	h := e.held(v1alpha1.HoldDeviceNotEmpty, "S4EV2")
	e.answered(h, v1alpha1.OptionSkip)
	// The nodes' other pool is judged now: its disks carry a volume group.
	e.Eventually("the hold of the other pool", func() error {
		if c := e.Get(); c.Status.Hold == nil || c.Status.Hold.Pool != "hdd" {
			return fmt.Errorf("phase %s, hold %+v: %s", c.Status.Phase, c.Status.Hold, c.Status.Message)
		}
		return nil
	})
	h = e.held(v1alpha1.HoldDeviceNotEmpty, "ZA2", "LVM2_member")
	e.answered(h, v1alpha1.OptionUseExisting)
	e.ready("3/3", "4/4") // ssd on n1 alone, hdd everywhere
	for _, n := range []string{"n2", "n3"} {
		if got := e.Signature(n, serialOf(n)); got != "ext4" {
			t.Errorf("the skipped disk of %s has signature %q", n, got)
		}
		if got := e.deviceWrites(n); got > 0 {
			t.Errorf("node %s: %d device steps", n, got)
		}
	}
}

// TestNodeHold: one of three disks is not empty. The cluster goes on without it.
func TestNodeHold(t *testing.T) {
	e := start(t, harness.Nodes(3))
	e.dirty("n2")
	e.Run()
	e.Apply(harness.Manifest(harness.DevicePool))
	c := e.WaitPhase(v1alpha1.PhaseDegraded)
	h := e.nodesHeld(v1alpha1.HoldDeviceNotEmpty, "n2")
	if c.Status.Hold != nil || !strings.HasPrefix(harness.Condition(c, conditions.Ready), "True/") {
		t.Errorf("cluster hold %+v, Ready is %s", c.Status.Hold, harness.Condition(c, conditions.Ready))
	}
	e.ignored("h-000000:skip")
	e.ignored(h.ID + ":retry@n1")
	e.changeSpec()
	e.Eventually("the spec is accepted", func() error {
		if c := e.Get(); c.Status.AcceptedGeneration != c.Generation || c.Status.Phase != v1alpha1.PhaseDegraded {
			return fmt.Errorf("generation %d, accepted %d in %s", c.Generation, c.Status.AcceptedGeneration, c.Status.Phase)
		}
		return nil
	})
	e.wipe("n2")
	e.nodesStay(h, "n2")
	if e.deviceWrites("n2") > 0 {
		t.Error("the disk was touched before the answer")
	}
	e.Resume(h, v1alpha1.OptionRetry)
	e.noToken()
	e.ready("3/3", "3/3")
}

// TestNodeHoldByName answers for one of two held nodes, and then otherwise for the other.
func TestNodeHoldByName(t *testing.T) {
	e := start(t, harness.Nodes(3))
	e.dirty("n2", "n3")
	e.Run()
	e.Apply(harness.Manifest("  nodes: {minReady: 1}" + harness.DevicePool))
	e.WaitPhase(v1alpha1.PhaseDegraded)
	h := e.nodesHeld(v1alpha1.HoldDeviceNotEmpty, "n2", "n3")
	e.wipe("n2", "n3")
	e.Resume(h, v1alpha1.OptionRetry+"@n2")
	e.noToken()
	e.Eventually("n2 has its pool", func() error {
		if c := e.Get(); c.Status.Pools.Ready != 2 {
			return fmt.Errorf("pools %s: %s", c.Status.Pools.Summary, c.Status.Message)
		}
		return nil
	})
	e.nodesStay(h, "n3")
	e.ignored(h.ID + ":retry@n2")
	if e.deviceWrites("n3") > 0 {
		t.Error("the disk of n3 was touched before the answer")
	}
	e.Resume(h, v1alpha1.OptionSkip)
	e.noToken()
	e.ready("3/3", "2/2")
	if e.deviceWrites("n3") > 0 {
		t.Error("the skipped disk of n3 was touched")
	}
}

// nodesHeld waits for a hold of these nodes and checks all the places that show it.
func (e nodeEnv) nodesHeld(r v1alpha1.HoldReason, names ...string) *v1alpha1.Hold {
	e.T.Helper()
	e.Eventually("hold of "+strings.Join(names, ", "), func() error {
		for _, h := range e.Get().Status.NodeHolds {
			if h.Reason == r && slices.Equal(h.Nodes, names) && int(h.Count) == len(names) {
				return nil
			}
		}
		return fmt.Errorf("node holds are %+v", e.Get().Status.NodeHolds)
	})
	h := e.WaitNodeHold(r)
	e.checkHold(e.Get(), h, serialOf(names[0]))
	return h
}

func (e nodeEnv) nodesStay(h *v1alpha1.Hold, names ...string) {
	e.T.Helper()
	e.During(settle, "hold of "+strings.Join(names, ", ")+" stays", func() error {
		for _, now := range e.Get().Status.NodeHolds {
			if now.ID == h.ID {
				if diff := cmp.Diff(names, now.Nodes); diff != "" {
					return errors.New(diff)
				}
				return nil
			}
		}
		return errors.New("it is gone")
	})
}

func holdDeviceMissing(t *testing.T) {
	e := start(t, harness.Nodes(3))
	machine := e.Sim.World().Machine
	var pulled []sim.Disk
	for _, n := range []string{"n1", "n2", "n3"} {
		i := slices.IndexFunc(machine(n).Disks(), func(d sim.Disk) bool { return d.Serial == serialOf(n) })
		pulled = append(pulled, machine(n).Disks()[i])
		machine(n).DetachDisk(serialOf(n))
	}
	e.Run()
	e.Apply(harness.Manifest(harness.DevicePool))
	h := e.held(v1alpha1.HoldDeviceMissing, "no disk matches")
	h = e.retriedInVain(h)
	// A source that fails is no evidence: while LINSTOR cannot list the disks, none is known to be there.
	e.Sim.World().SetFault(func(r *http.Request) *sim.Fault {
		if r.Method == http.MethodGet && strings.Contains(r.URL.Path, "physical-storage") {
			return &sim.Fault{Status: http.StatusInternalServerError, Body: "[]"}
		}
		return nil
	})
	e.stays(h, "the disks cannot be listed")
	e.Sim.World().SetFault(nil)
	e.stays(h, "the list is back, without the disks")
	e.changedSpec(h, func(c *v1alpha1.StorageCluster) { c.Spec.StoragePools[0].Devices.Match[0].Serial = "S4EV1*" })
	h = e.held(v1alpha1.HoldDeviceMissing)
	machine("n1").AttachDisk(pulled[0])
	e.Update(func(c *v1alpha1.StorageCluster) { c.Spec.StoragePools[0].Devices.Match[0].Serial = "S4EV*" })
	e.ended(h, fsm.SpecChanged)
	h = e.held(v1alpha1.HoldDeviceMissing, "on 2 of 3 nodes (n2, n3)")
	machine("n2").AttachDisk(pulled[1])
	machine("n3").AttachDisk(pulled[2])
	e.ended(h, fsm.Cleared)
	e.ready("3/3", "3/3")
}

// TestHoldDeviceMissingSkip goes on without the pool on the nodes that lack the disk.
func TestHoldDeviceMissingSkip(t *testing.T) {
	e := start(t, harness.Nodes(3))
	e.Sim.World().Machine("n2").DetachDisk("S4EV2")
	e.Sim.World().Machine("n3").DetachDisk("S4EV3")
	e.Run()
	e.Apply(harness.Manifest(harness.DevicePool))
	h := e.held(v1alpha1.HoldDeviceMissing, "on 2 of 3 nodes (n2, n3)")
	e.answered(h, v1alpha1.OptionSkip)
	e.ready("3/3", "1/1")
	if p := e.Get().Status.Pools.ByPool[0]; p.Skipped != 2 || !slices.Equal(p.SkippedNodes, []string{"n2", "n3"}) {
		t.Errorf("skipped on %d nodes: %v", p.Skipped, p.SkippedNodes)
	}
}

func holdPoolBackendMissing(t *testing.T) {
	e := start(t, harness.Nodes(3))
	for _, n := range []string{"n1", "n2", "n3"} {
		e.Sim.World().Machine(n).LVM().Remove("vg_ssd0")
	}
	e.Run()
	e.Apply(harness.Manifest(harness.ThinPool))
	h := e.held(v1alpha1.HoldPoolBackendMissing, "vg_ssd0")
	h = e.retriedInVain(h)
	h = e.lookedAgain(h)
	for _, n := range []string{"n1", "n2", "n3"} {
		e.Sim.World().Machine(n).LVM().Add(harness.Machine(1).VolumeGroups[0])
	}
	e.ended(h, fsm.Cleared)
	e.ready("3/3", "3/3")
}

func holdStoragePoolsFailed(t *testing.T) {
	e := start(t, harness.Nodes(3))
	refusePools := func(r *http.Request) *sim.Fault {
		if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/storage-pools") {
			return &sim.Fault{Status: http.StatusInternalServerError,
				Body: `[{"ret_code":-4611686018406677530,"message":"out of order"}]`}
		}
		return nil
	}
	e.Sim.World().SetFault(refusePools)
	e.Run()
	e.Apply(harness.Manifest(harness.ThinPool))
	h := e.held(v1alpha1.HoldStoragePoolsFailed, "out of order")
	h = e.retriedInVain(h)
	h = e.lookedAgain(h)
	e.Sim.World().SetFault(nil)
	e.ended(h, fsm.Cleared)
	e.ready("3/3", "3/3")
}

func holdPoolConflict(t *testing.T) {
	e := start(t, harness.Nodes(3))
	e.Run()
	// Both selectors match all nodes, which the API server cannot know.
	const conflict = `
  storagePools:
  - name: ssd
    nodeSelector: {example.com/storage: "true"}
    lvmThin: {volumeGroup: vg_ssd0, thinPool: thin}
  - name: fast
    pool: ssd
    nodeSelector: {example.com/disk: nvme}
    lvm: {volumeGroup: vg_ssd0}
`
	e.Apply(harness.Manifest(conflict))
	h := e.held(v1alpha1.HoldPoolConflict, "storagePools[ssd]", "storagePools[fast]")
	e.ignored(h.ID + ":skip")
	h = e.lookedAgain(h)
	h = e.retriedInVain(h)
	e.changedSpec(h, func(c *v1alpha1.StorageCluster) {
		c.Spec.StoragePools[1].NodeSelector = map[string]string{"example.com/no": "true"}
	})
	e.ready("3/3", "3/3")
	// A cluster that runs refuses such a change without touching anything.
	e.Sim.World().ResetRequests()
	e.label("n2", "example.com/no", "true")
	e.Update(func(c *v1alpha1.StorageCluster) { c.Spec.StoragePools[1].Properties = map[string]string{"Aux/x": "y"} })
	h = e.held(v1alpha1.HoldPoolConflict, "storagePools[ssd]", "storagePools[fast]", "n2")
	if w := e.Sim.World().Writes(); len(w) > 0 {
		t.Errorf("LINSTOR was written to: %+v", w)
	}
	e.stays(h, "time passes")
	e.changedSpec(h, func(c *v1alpha1.StorageCluster) { c.Spec.StoragePools = c.Spec.StoragePools[:1] })
	e.ready("3/3", "3/3")
}

// removeToken takes a token away that was ignored.
func (e holdEnv) removeToken() {
	e.T.Helper()
	e.Update(func(c *v1alpha1.StorageCluster) { delete(c.Annotations, v1alpha1.AnnotationResume) })
}
