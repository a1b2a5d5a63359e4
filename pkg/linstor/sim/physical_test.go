package sim_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/LINBIT/golinstor/client"
	"github.com/google/go-cmp/cmp"

	"github.com/linstor-dev/storagecluster-operator/pkg/linstor/sim"
)

const deviceStep = `{"provider_kind":"LVM_THIN","pool_name":"new/lv","device_paths":["/dev/sdb"]}`

const deviceStepWithPool = `{"provider_kind":"LVM_THIN","pool_name":"new/lv","device_paths":["/dev/sdb"],"with_storage_pool":{"name":"two"}}`

func (b *bench) devices(i int, want ...string) {
	b.Helper()
	list, err := b.client.Nodes.GetPhysicalStorage(b.Context(), nodeName(i))
	b.must(err)
	var got []string
	for _, d := range list {
		got = append(got, d.Device+" "+d.Serial)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		b.Errorf("empty devices of n%d (-want +got):\n%s", i, diff)
	}
}

func TestPhysicalStorageLists(t *testing.T) {
	b := newBench(t)
	s := b.online(3)
	m := b.world.Machine("n1")
	m.AttachDisk(sim.Disk{Name: "sdc", Serial: "small", SizeBytes: 1 << 30})
	m.AttachDisk(sim.Disk{Name: "sdd", Serial: "hdd", SizeBytes: 200 << 30, Rotational: true})
	b.devices(1, "/dev/sdb data-n1", "/dev/sdd hdd")
	s[2].Stop()
	b.pass(2 * time.Second)
	view, err := b.client.Nodes.GetPhysicalStorageView(t.Context())
	b.must(err)
	want := []client.PhysicalStorageViewItem{
		{Size: 100 << 30, Nodes: map[string][]client.PhysicalStorageDevice{
			"n1": {{Device: "/dev/sdb", Model: "QEMU", Serial: "data-n1", Wwn: "0x5000n1"}},
			"n2": {{Device: "/dev/sdb", Model: "QEMU", Serial: "data-n2", Wwn: "0x5000n2"}},
		}},
		{Size: 200 << 30, Rotational: true, Nodes: map[string][]client.PhysicalStorageDevice{"n1": {{Device: "/dev/sdd", Serial: "hdd"}}}},
	}
	if diff := cmp.Diff(want, view); diff != "" {
		t.Errorf("view (-want +got):\n%s", diff)
	}
	if status, _ := b.raw(http.MethodGet, "/v1/physical-storage/n3", ""); status != 500 {
		t.Errorf("list of an offline node: %d, want 500", status)
	}
}

func TestDeviceStepAlone(t *testing.T) {
	b := newBench(t)
	b.online(1)
	if status, body := b.raw(http.MethodPost, "/v1/physical-storage/n1", deviceStep); status != 201 || len(b.entries(body)) != 3 {
		t.Fatalf("device step: %d %s", status, body)
	}
	b.devices(1)
	if got := b.world.Machine("n1").Disks()[1].Signature; got != "LVM2_member" {
		t.Errorf("signature %q", got)
	}
	b.must(b.client.Nodes.CreateStoragePool(t.Context(), "n1", client.StoragePool{StoragePoolName: "two", ProviderKind: client.LVM_THIN,
		Props: map[string]string{"StorDriver/StorPoolName": "new/lv"}}))
	b.must(b.world.CreateVolume("pvc-1", 1<<20, "two", "n1"))

	// The same once more fails, and harms nothing.
	if status, body := b.raw(http.MethodPost, "/v1/physical-storage/n1", deviceStep); status != 500 {
		t.Errorf("device step again: %d %s", status, body)
	}
	b.data("pvc-1", "n1")
	b.violations()
}

func TestDeviceStepOnAnOfflineNodeSaysNothing(t *testing.T) {
	b := newBench(t)
	b.online(1)[0].Stop()
	b.pass(2 * time.Second)
	if status, body := b.raw(http.MethodPost, "/v1/physical-storage/n1", deviceStep); status != 201 || string(body) != "[]" {
		t.Errorf("device step: %d %s", status, body)
	}
	if groups := b.world.Machine("n1").VolumeGroups(); len(groups) != 1 {
		t.Errorf("volume groups: %v", groups)
	}
}

func TestRepeatedDevicePoolDestroysIt(t *testing.T) {
	b := newBench(t)
	b.online(1)
	if status, body := b.raw(http.MethodPost, "/v1/physical-storage/n1", deviceStepWithPool); status != 201 {
		t.Fatalf("first: %d %s", status, body)
	}
	b.must(b.world.CreateVolume("pvc-1", 1<<20, "two", "n1"))
	b.data("pvc-1", "n1")

	status, body := b.raw(http.MethodPost, "/v1/physical-storage/n1", deviceStepWithPool)
	got := b.entries(body)
	want := []string{
		"(n1) Failed to pvcreate on device: /dev/sdb",
		"Node: n1, Storage pool name: two already exists.",
		"(n1) Thin lv with name 'lv' removed.",
		"(n1) VG with name 'new' removed.",
		"(n1) PV for device(s) '/dev/sdb' removed.",
	}
	var messages []string
	for _, e := range got {
		messages = append(messages, e.Message)
	}
	if diff := cmp.Diff(want, messages); diff != "" || status != 500 {
		t.Errorf("status %d, messages (-want +got):\n%s", status, diff)
	}
	if got[1].RetCode != -4611686018409299458 || got[2].RetCode != 55312384 {
		t.Errorf("codes %v", codes(got))
	}
	b.data("pvc-1")
	b.devices(1, "/dev/sdb data-n1")
	b.violations("destructive-rollback node=n1 kind=LVM_THIN pool=new/lv devices=[/dev/sdb] lost=[pvc-1]", "last-replica-lost resource=pvc-1")
	view, err := b.client.Resources.GetResourceView(t.Context())
	b.must(err)
	if view[0].Volumes[0].State.DiskState != "Failed" {
		t.Errorf("disk state %q", view[0].Volumes[0].State.DiskState)
	}
}

func TestRollbackSparesWhatIsOpen(t *testing.T) {
	b := newBench(t)
	b.online(1)
	b.raw(http.MethodPost, "/v1/physical-storage/n1", deviceStepWithPool)
	b.must(b.world.CreateVolume("open", 1<<20, "two", "n1"))
	b.must(b.world.CreateVolume("closed", 1<<20, "two", "n1"))
	b.world.SetInUse("open", "n1", true)
	b.raw(http.MethodPost, "/v1/physical-storage/n1", deviceStepWithPool)
	b.data("open", "n1")
	b.data("closed")
	b.violations("destructive-rollback", "last-replica-lost resource=closed")
}

func TestRollbackOfAZPoolWipesForeignDisks(t *testing.T) {
	b := newBench(t)
	b.online(1)
	m := b.world.Machine("n1")
	m.AddZPool(sim.ZPool{Name: "tank", Devices: []string{"data-n1"}})
	body := `{"provider_kind":"ZFS","pool_name":"tank","device_paths":["/dev/sda"],"with_storage_pool":{"name":"ssd"}}`
	if status, answer := b.raw(http.MethodPost, "/v1/physical-storage/n1", body); status != 500 {
		t.Errorf("status %d %s", status, answer)
	}
	if pools := m.ZPools(); len(pools) != 0 {
		t.Errorf("zpools %v", pools)
	}
	for _, d := range m.Disks() {
		if d.Signature != "" {
			t.Errorf("disk %s still has %s", d.Name, d.Signature)
		}
	}
	b.violations("destructive-rollback node=n1 kind=ZFS pool=tank")
}

func TestDeviceStepStopsHalfWay(t *testing.T) {
	b := newBench(t)
	b.online(1)
	body := `{"provider_kind":"LVM","pool_name":"new","device_paths":["/dev/sdb","/dev/sda"]}`
	if status, answer := b.raw(http.MethodPost, "/v1/physical-storage/n1", body); status != 500 || len(b.entries(answer)) != 2 {
		t.Errorf("status %d %s", status, answer)
	}
	if got := b.world.Machine("n1").Disks()[1].Signature; got != "LVM2_member" {
		t.Errorf("the first device has the signature %q", got)
	}
}

func TestDevicePoolNames(t *testing.T) {
	tests := map[string]struct{ kind, name, want string }{
		"default":            {"LVM", "", "linstor_sdb"},
		"default thin":       {"LVM_THIN", "", "linstor_linstor_sdb/linstor_sdb"},
		"thin without slash": {"LVM_THIN", "x", "linstor_x/x"},
		"thin with slash":    {"LVM_THIN", "a/b", "a/b"},
		"zfs":                {"ZFS_THIN", "tank", "tank"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.online(1)
			body := fmt.Sprintf(`{"provider_kind":%q,"device_paths":["/dev/sdb"],"pool_name":%q,"with_storage_pool":{"name":"two"}}`, tt.kind, tt.name)
			if status, answer := b.raw(http.MethodPost, "/v1/physical-storage/n1", body); status != 201 {
				t.Fatalf("status %d: %s", status, answer)
			}
			p, err := b.client.Nodes.GetStoragePool(t.Context(), "n1", "two")
			b.must(err)
			if p.Props["StorDriver/StorPoolName"] != tt.want {
				t.Errorf("StorPoolName = %q, want %q", p.Props["StorDriver/StorPoolName"], tt.want)
			}
			if p.TotalCapacity <= 0 || p.TotalCapacity > 100<<20 {
				t.Errorf("total capacity %d KiB", p.TotalCapacity)
			}
		})
	}
}

func TestRefusedDevicePools(t *testing.T) {
	tests := map[string]struct {
		body   string
		status int
	}{
		"file":        {`{"provider_kind":"FILE","device_paths":["/dev/sdb"]}`, 500},
		"no device":   {`{"provider_kind":"LVM","device_paths":[]}`, 500},
		"raid":        {`{"provider_kind":"LVM","device_paths":["/dev/sdb"],"raid_level":"RAID1"}`, 500},
		"group taken": {`{"provider_kind":"LVM","device_paths":["/dev/sdb"],"pool_name":"vg"}`, 500},
		"bad kind":    {`{"provider_kind":"x","device_paths":["/dev/sdb"]}`, 400},
		"null list":   {`{"provider_kind":"LVM","device_paths":null}`, 500},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.online(1)
			if status, body := b.raw(http.MethodPost, "/v1/physical-storage/n1", tt.body); status != tt.status {
				t.Errorf("status %d, want %d: %s", status, tt.status, body)
			}
			b.devices(1, "/dev/sdb data-n1")
			b.violations()
		})
	}
}

func TestRebootRenamesDisks(t *testing.T) {
	b := newBench(t)
	b.online(1)
	b.raw(http.MethodPost, "/v1/physical-storage/n1", deviceStepWithPool)
	b.must(b.world.CreateVolume("pvc-1", 1<<20, "two", "n1"))
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
	b.must(b.world.CreateVolume("pvc-1", 1<<20, "two", "n1"))
	m := b.world.Machine("n1")
	disk := m.Disks()[1]
	m.DetachDisk("data-n1")
	b.data("pvc-1")
	if groups := m.VolumeGroups(); len(groups) != 1 || groups[0].Name != "vg" {
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
	want := []map[string]any{{"device": "/dev/sdb", "model": "QEMU", "serial": "data-n1", "wwn": "0x5000n1", "size": float64(100 << 30), "rotational": false}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("list (-want +got):\n%s", diff)
	}
}
