package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
	"github.com/linstor-dev/storagecluster-operator/test/sim"
)

func TestTwoEntriesForOneDisk(t *testing.T) {
	e := start(t, harness.Nodes(3))
	e.Run()
	const entry = `
  - name: %s
    lvmThin: {volumeGroup: vg_%s, thinPool: thin}
    devices: {match: [{%s}]}
`
	both := "  storagePools:" + fmt.Sprintf(entry, "fast", "fast", `serial: "S4EV*"`) +
		fmt.Sprintf(entry, "any", "any", `model: "INTEL*"`)
	e.Apply(harness.Manifest(both))
	hold := e.WaitHold(v1alpha1.HoldPoolConflict)
	for _, want := range []string{"spec.storagePools[fast]", "spec.storagePools[any]", "/dev/sdb"} {
		if !strings.Contains(hold.Message, want) {
			t.Errorf("the hold does not name %s: %s", want, hold.Message)
		}
	}
	for _, n := range []string{"n1", "n2", "n3"} {
		if steps := e.deviceSteps(n); len(steps) > 0 {
			t.Errorf("node %s: disks were used: %s", n, steps[0].Body)
		}
	}
	e.WaitEvent(string(v1alpha1.HoldPoolConflict), hold.ID)
	e.Update(func(c *v1alpha1.StorageCluster) { c.Spec.StoragePools[1].Devices.Match[0].Model = "ST8000" })
	e.WaitPhase(v1alpha1.PhaseReady)
	e.WaitPools("6/6")
	e.expectGroup("n1", "vg_fast", "S4EV1")
	e.expectGroup("n1", "vg_any", "ZA1")
	e.expectCarefulDevices()
}

// TestTwoEntriesForOneThinPool: only the nodes' labels show that the two meet, so the API server takes the spec.
func TestTwoEntriesForOneThinPool(t *testing.T) {
	ns := harness.Nodes(3)
	ns[0].Labels = map[string]string{"example.com/tier": "fast"}
	e := start(t, ns)
	e.Run()
	e.Apply(harness.Manifest(harness.ThinPool))
	e.WaitPhase(v1alpha1.PhaseReady)
	e.Update(func(c *v1alpha1.StorageCluster) {
		again := c.Spec.StoragePools[0].DeepCopy()
		again.Name, again.NodeSelector = "again", map[string]string{"example.com/tier": "fast"}
		c.Spec.StoragePools = append(c.Spec.StoragePools, *again)
	})
	hold := e.WaitHold(v1alpha1.HoldPoolConflict)
	for _, want := range []string{"spec.storagePools[ssd]", "spec.storagePools[again]", "thin pool vg_ssd0/thin", "n1"} {
		if !strings.Contains(hold.Message, want) {
			t.Errorf("the hold does not name %s: %s", want, hold.Message)
		}
	}
	if !slices.Equal(hold.Nodes, []string{"n1"}) || e.View().Pool("n1", "again") != nil {
		t.Errorf("hold of %v", hold.Nodes)
	}
}

func TestBackendAppearsLater(t *testing.T) {
	ns := harness.Nodes(3)
	ns[1].Machine.VolumeGroups = nil
	e := start(t, ns)
	e.Run()
	e.Apply(harness.Manifest(harness.ThinPool + "  nodes: {minReady: 100%}\n"))
	hold := e.WaitHold(v1alpha1.HoldPoolBackendMissing)
	if !slices.Equal(hold.Nodes, []string{"n2"}) || !strings.Contains(hold.Message, "vg_ssd0") {
		t.Errorf("hold of %v: %s", hold.Nodes, hold.Message)
	}
	e.Sim.World().Machine("n2").LVM().Add(sim.VolumeGroup{Name: "vg_ssd0", SizeKiB: 200 << 20,
		ThinPools: []sim.ThinPool{{Name: "thin", SizeKiB: 180 << 20}}})
	e.WaitPhase(v1alpha1.PhaseReady)
	e.WaitPools("3/3")
	if p := e.View().Pool("n2", "ssd"); p == nil || p.TotalKiB == nil || *p.TotalKiB == 0 {
		t.Errorf("pool on n2: %+v", p)
	}
}

func TestPoolsOfAllKinds(t *testing.T) {
	e := start(t, harness.Nodes(3))
	e.Run()
	e.Apply(harness.Manifest(`
  storagePools:
  - name: ssd
    lvmThin: {volumeGroup: vg_ssd0, thinPool: thin}
  - name: thick
    lvm: {volumeGroup: vg_ssd0}
  - name: tank
    zfs: {zpool: tank}
  - name: tank-thin
    zfsThin: {zpool: tank/thin}
  - name: files
    file: {directory: /var/lib/linstor-pools/a}
  - name: sparse
    fileThin: {directory: /var/lib/linstor-pools/b}
  - name: made
    pool: hdd
    zfsThin: {zpool: hdd}
    devices: {approval: Auto, match: [{rotational: true, minSize: 1Ti}]}
`))
	c := e.WaitPhase(v1alpha1.PhaseReady)
	if c.Status.Pools.Summary != "21/21" {
		t.Errorf("pools %s", c.Status.Pools.Summary)
	}
	kinds := map[string]string{}
	for name, p := range e.View().Node("n2").Pools {
		kinds[name] = p.Provider + " " + p.Backing
	}
	for name, want := range map[string]string{
		"ssd": "LVM_THIN vg_ssd0/thin", "thick": "LVM vg_ssd0", "tank": "ZFS tank", "tank-thin": "ZFS_THIN tank/thin",
		"files": "FILE /var/lib/linstor-pools/a", "sparse": "FILE_THIN /var/lib/linstor-pools/b", "hdd": "ZFS_THIN hdd",
	} {
		if kinds[name] != want {
			t.Errorf("pool %s is %q, want %q", name, kinds[name], want)
		}
	}
	if got := e.Signature("n2", "ZA2"); got != "zfs_member" {
		t.Errorf("the rotational disk has %q", got)
	}
	if got := e.Signature("n2", "S4EV2"); got != "" {
		t.Errorf("the other disk has %q", got)
	}
	e.expectCarefulDevices()
}
