package sim_test

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/LINBIT/golinstor/client"
	"github.com/google/go-cmp/cmp"

	"github.com/linstor-dev/storagecluster-operator/test/sim"
)

func TestRebootRenamesDisks(t *testing.T) {
	b := newBench(t)
	b.online(1)
	b.raw(http.MethodPost, "/v1/physical-storage/n1", deviceStepWithPool)
	b.must(b.world.Volumes().Create("pvc-1", 1<<20, "two", "n1"))
	m := b.world.Machine("n1")
	m.AttachDisk(sim.Disk{Name: "sdc", Serial: "fresh", SizeBytes: 50 << 30})
	m.Reboot(map[string]string{"sdb": "sdc", "sdc": "sdb"})
	if m.ModuleVersion() != "" {
		t.Error("the module survived the reboot")
	}
	b.pass(2 * time.Second)
	b.status("n1", "OFFLINE")
	m.LoadModule("9.3.3")
	b.satellite(1)
	b.pass(10 * time.Second)
	b.devices(1, "/dev/sdb fresh")
	b.data("pvc-1", "n1")
	m.Reboot(nil)
	names := map[string]string{}
	for _, d := range m.Disks() {
		names[d.Serial] = d.Name
	}
	if diff := cmp.Diff(map[string]string{"root-n1": "sdc", "data-n1": "sdb", "fresh": "sda"}, names); diff != "" {
		t.Errorf("names after the second reboot (-want +got):\n%s", diff)
	}
}

func TestDetachedDiskTakesItsGroupAway(t *testing.T) {
	b := newBench(t)
	b.online(1)
	b.raw(http.MethodPost, "/v1/physical-storage/n1", deviceStepWithPool)
	b.must(b.world.Volumes().Create("pvc-1", 1<<20, "two", "n1"))
	m := b.world.Machine("n1")
	disk := m.Disks()[1]
	m.DetachDisk("data-n1")
	b.data("pvc-1")
	if groups := m.LVM().Groups(); len(groups) != 1 || groups[0].Name != "vg" {
		t.Errorf("volume groups without the disk: %v", groups)
	}
	pools, err := b.client.Nodes.GetStoragePoolView(t.Context(), &client.ListOpts{StoragePool: []string{"two"}})
	b.must(err)
	if len(pools) != 1 || len(pools[0].Reports) != 1 || pools[0].Reports[0].Cause != "Volume group 'new' not found" {
		t.Errorf("pool without its disk: %+v", pools)
	}
	m.AttachDisk(disk)
	b.data("pvc-1", "n1")
	m.SetSignature("data-n1", "xfs")
	b.data("pvc-1")
	b.violations() // that was not LINSTOR's client
}

func TestAttachedDeviceIsSeenInJSON(t *testing.T) {
	b := newBench(t)
	b.online(1)
	_, body := b.raw(http.MethodGet, "/v1/physical-storage/n1", "")
	var got []map[string]any
	b.must(json.Unmarshal(body, &got))
	want := []map[string]any{{"device": "/dev/sdb", "model": "QEMU", "serial": "data-n1", "wwn": "0x5000n1",
		"size": float64(100 << 30), "rotational": false}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("list (-want +got):\n%s", diff)
	}
}
