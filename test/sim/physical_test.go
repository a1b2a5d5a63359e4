package sim_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/LINBIT/golinstor/client"
	"github.com/google/go-cmp/cmp"

	"github.com/linstor-dev/storagecluster-operator/test/sim"
)

const deviceStep = `{"provider_kind":"LVM_THIN","pool_name":"new/lv","device_paths":["/dev/sdb"]}`

const deviceStepWithPool = `{"provider_kind":"LVM_THIN","pool_name":"new/lv","device_paths":["/dev/sdb"],` +
	`"with_storage_pool":{"name":"two"}}`

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
		{Size: 200 << 30,
			Rotational: true, Nodes: map[string][]client.PhysicalStorageDevice{"n1": {{Device: "/dev/sdd", Serial: "hdd"}}}},
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
	if status, body := b.raw(http.MethodPost, "/v1/physical-storage/n1", deviceStep); status != 201 ||
		len(b.entries(body)) != 3 {
		t.Fatalf("device step: %d %s", status, body)
	}
	b.devices(1)
	if got := b.world.Machine("n1").Disks()[1].Signature; got != "LVM2_member" {
		t.Errorf("signature %q", got)
	}
	b.must(b.client.Nodes.CreateStoragePool(t.Context(), "n1",
		client.StoragePool{StoragePoolName: "two", ProviderKind: client.LVM_THIN,
			Props: map[string]string{"StorDriver/StorPoolName": "new/lv"}}))
	b.must(b.world.Volumes().Create("pvc-1", 1<<20, "two", "n1"))

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
	if status, body := b.raw(http.MethodPost, "/v1/physical-storage/n1", deviceStep); status != 201 ||
		string(body) != "[]" {
		t.Errorf("device step: %d %s", status, body)
	}
	if groups := b.world.Machine("n1").LVM().Groups(); len(groups) != 1 {
		t.Errorf("volume groups: %v", groups)
	}
}

// messages are the messages of an answer, without those about disks' paths.
func messages(list []entry) []string {
	var out []string
	for _, e := range list {
		out = append(out, e.Message)
	}
	return out
}

// expectAnswer sends a device step and checks status and messages.
func (b *bench) expectAnswer(body string, status int, want ...string) []entry {
	b.Helper()
	got, raw := b.raw(http.MethodPost, "/v1/physical-storage/n1", body)
	list := b.entries(raw)
	if diff := cmp.Diff(want, messages(list)); diff != "" || got != status {
		b.Errorf("status %d, want %d; messages (-want +got):\n%s", got, status, diff)
	}
	return list
}

// pools are the names of the pools of n1, without LINSTOR's own.
func (b *bench) pools() []string {
	b.Helper()
	list, err := b.client.Nodes.GetStoragePools(b.Context(), "n1")
	b.must(err)
	var names []string
	for _, p := range list {
		if p.ProviderKind != client.DISKLESS {
			names = append(names, p.StoragePoolName)
		}
	}
	return names
}

// TestRepeatedDevicePool: a device step that fails ends the request. Nothing is registered, and nothing is torn down.
func TestRepeatedDevicePool(t *testing.T) {
	b := newBench(t)
	b.online(1)
	b.expectAnswer(deviceStepWithPool, 201, "(n1) PV for device '/dev/sdb' created.",
		"(n1) VG for devices [/dev/sdb] with name 'new' created.",
		"(n1) Thin-pool 'lv' in LVM-pool 'new' created.", "Successfully set property key(s): StorDriver/StorPoolName",
		"New storage pool 'two' on node 'n1' registered.", "(n1) Changes applied to storage pool 'two' of node 'n1'",
		"Storage pool updated on 'n1'")
	b.must(b.world.Volumes().Create("pvc-1", 1<<20, "two", "n1"))

	got := b.expectAnswer(deviceStepWithPool, 500, "(n1) Failed to pvcreate on device: /dev/sdb")
	if e := got[0]; e.RetCode != -4611686018427386906 || e.ObjRefs != nil || e.Details == "" {
		t.Errorf("the error is %+v, want the satellite's alone", e)
	}
	b.data("pvc-1", "n1")
	if diff := cmp.Diff([]string{"ssd", "two"}, b.pools()); diff != "" {
		t.Errorf("pools (-want +got):\n%s", diff)
	}
}

// TestDeviceStepNeverAdopts: with the group there and the pool unknown, or of somebody else, nothing happens.
func TestDeviceStepNeverAdopts(t *testing.T) {
	b := newBench(t)
	b.online(1)
	m := b.world.Machine("n1")
	m.LVM().Add(sim.VolumeGroup{Name: "admins", SizeKiB: 1 << 20})
	body := `{"provider_kind":"LVM","pool_name":"admins","device_paths":["/dev/sdb"],"with_storage_pool":{"name":"two"}}`
	got := b.expectAnswer(body, 500, "(n1) Volume group name already used.")
	if got[0].RetCode != -4611686018427387394 {
		t.Errorf("code %d, want 510 without operation and object", got[0].RetCode)
	}
	if diff := cmp.Diff([]string{"ssd"}, b.pools()); diff != "" || len(m.LVM().Groups()) != 2 {
		t.Errorf("groups %v, pools (-want +got):\n%s", m.LVM().Groups(), diff)
	}
	b.devices(1, "/dev/sdb data-n1")
}

// TestFailedRegistrationTearsDownWhatItMade: only what the same request made goes.
func TestFailedRegistrationTearsDownWhatItMade(t *testing.T) {
	for kind, want := range map[string][]string{
		"LVM": {"(n1) VG with name 'new' removed.", "(n1) PV for device(s) '/dev/sdb' removed."},
		"LVM_THIN": {"(n1) Thin lv with name 'new' removed.", "(n1) VG with name 'linstor_new' removed.",
			"(n1) PV for device(s) '/dev/sdb' removed."},
		"ZFS": {"(n1) ZPool 'new' deleted."},
	} {
		t.Run(kind, func(t *testing.T) {
			b := newBench(t)
			b.online(1)
			body := fmt.Sprintf(`{"provider_kind":%q,"pool_name":"new","device_paths":["/dev/sdb"],`+
				`"with_storage_pool":{"name":"ssd"}}`, kind)
			status, raw := b.raw(http.MethodPost, "/v1/physical-storage/n1", body)
			got := messages(b.entries(raw))
			want := append([]string{"Node: n1, Storage pool name: ssd already exists."}, want...)
			if diff := cmp.Diff(want, got[len(got)-len(want):]); diff != "" || status != 500 {
				t.Errorf("status %d, last messages (-want +got):\n%s", status, diff)
			}
			b.devices(1, "/dev/sdb data-n1")
		})
	}
}

// TestGroupOfATakenName: LVM sees the new device only, so the group is made a second time under its name, and from
// then on nothing works by that name.
func TestGroupOfATakenName(t *testing.T) {
	b := newBench(t)
	b.online(1)
	m := b.world.Machine("n1")
	m.AttachDisk(sim.Disk{Name: "sdc", Serial: "old", SizeBytes: 50 << 30})
	m.LVM().Add(sim.VolumeGroup{Name: "hdd", Devices: []string{"old"},
		ThinPools: []sim.ThinPool{{Name: "thin", SizeKiB: 1 << 20}}})
	register := client.StoragePool{StoragePoolName: "two", ProviderKind: client.LVM_THIN,
		Props: map[string]string{"StorDriver/StorPoolName": "hdd/thin"}}
	b.must(b.client.Nodes.CreateStoragePool(t.Context(), "n1", register))
	b.must(b.client.Nodes.DeleteStoragePool(t.Context(), "n1", "two"))

	b.expectAnswer(`{"provider_kind":"LVM_THIN","pool_name":"hdd/thin","device_paths":["/dev/sdb"]}`, 500,
		"(n1) Failed to create new lvm thin pool in volume group 'hdd'")
	if groups := m.LVM().Groups(); len(groups) != 3 || groups[0].Name != "hdd" || groups[1].Name != "hdd" {
		t.Errorf("volume groups %v, want two of one name", groups)
	}
	err := b.client.Nodes.CreateStoragePool(t.Context(), "n1", register)
	if err == nil || !strings.Contains(err.Error(), "Multiple VGs found") {
		t.Errorf("a pool on the ambiguous name: %v", err)
	}
	m.DetachDisk("data-n1")
	b.must(b.client.Nodes.DeleteStoragePool(t.Context(), "n1", "two"))
	b.must(b.client.Nodes.CreateStoragePool(t.Context(), "n1", register))
}

// TestThinPoolInAForeignGroup: the thin pool is made by name even when the group could not be.
func TestThinPoolInAForeignGroup(t *testing.T) {
	b := newBench(t)
	b.online(1)
	m := b.world.Machine("n1")
	m.LVM().Add(sim.VolumeGroup{Name: "admins", SizeKiB: 1 << 20})
	b.expectAnswer(`{"provider_kind":"LVM_THIN","pool_name":"admins/thin","device_paths":["/dev/nope"]}`, 500,
		"(n1) Failed to pvcreate on device: /dev/nope")
	if groups := m.LVM().Groups(); len(groups[0].ThinPools) != 1 {
		t.Errorf("volume groups %v", groups)
	}
}

// TestDisksWithoutUdevRecord: lsblk takes them for empty, LINSTOR therefore, too. pvcreate looks for itself.
func TestDisksWithoutUdevRecord(t *testing.T) {
	b := newBench(t)
	b.online(1)
	m := b.world.Machine("n1")
	for _, d := range []sim.Disk{
		{Name: "sdc", Serial: "data", Signature: "xfs"},
		{Name: "sdd", Serial: "mounted", Signature: "ext4", MountPoint: "/data"},
		{Name: "sde", Serial: "crypt", Signature: "crypto_LUKS", Holder: "dm-0"}, {Name: "sdf", Serial: "group"},
		{Name: "sdg", Serial: "used-group"},
		{Name: "sdh", Serial: "orphan", Signature: "LVM2_member"},
	} {
		d.SizeBytes, d.Unseen = 50<<30, true
		m.AttachDisk(d)
	}
	m.LVM().Add(sim.VolumeGroup{Name: "idle", Devices: []string{"group"}})
	m.LVM().Add(sim.VolumeGroup{Name: "used", Devices: []string{"used-group"}, ThinPools: []sim.ThinPool{{Name: "thin"}}})
	b.devices(1, "/dev/sdb data-n1", "/dev/sdc data", "/dev/sdd mounted", "/dev/sdf group", "/dev/sdh orphan")
	for device, status := range map[string]int{"sdc": 500, "sdd": 500, "sde": 500, "sdf": 500, "sdg": 500, "sdh": 201} {
		body := fmt.Sprintf(`{"provider_kind":"LVM","pool_name":"vg_%s","device_paths":["/dev/%s"]}`, device, device)
		if got, answer := b.raw(http.MethodPost, "/v1/physical-storage/n1", body); got != status {
			t.Errorf("volume group on %s: status %d, want %d: %s", device, got, status, answer)
		}
	}
	if got := m.Inventory(); !strings.Contains(got, `FSTYPE="xfs" SEEN="1" UDEV="0"`) ||
		!strings.HasPrefix(got, `DISKS="8" UDEV="0"`) {
		t.Errorf("the inventory does not see what udev does not know:\n%s", got)
	}
}

// TestZPoolIsForced: zpool create -f takes a disk with data on it, if nothing uses it.
func TestZPoolIsForced(t *testing.T) {
	b := newBench(t)
	b.online(1)
	m := b.world.Machine("n1")
	m.SetSignature("data-n1", "xfs")
	b.expectAnswer(`{"provider_kind":"ZFS","pool_name":"tank","device_paths":["/dev/sdb"]}`, 201,
		"(n1) ZPool 'tank' on device(s) [/dev/sdb] created.")
	b.expectAnswer(`{"provider_kind":"ZFS","pool_name":"tank","device_paths":["/dev/sdb"]}`, 500,
		"(n1) Zpool name already used.")
	b.expectAnswer(`{"provider_kind":"ZFS","pool_name":"other","device_paths":["/dev/sdb"]}`, 500,
		"(n1) Failed to create zpool: other")
}

func TestDeviceStepStopsHalfWay(t *testing.T) {
	b := newBench(t)
	b.online(1)
	body := `{"provider_kind":"LVM","pool_name":"new","device_paths":["/dev/sdb","/dev/sda"]}`
	if status, answer := b.raw(http.MethodPost, "/v1/physical-storage/n1", body); status != 500 ||
		len(b.entries(answer)) != 1 {
		t.Errorf("status %d %s, want the error alone", status, answer)
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
			body := fmt.Sprintf(`{"provider_kind":%q,"device_paths":["/dev/sdb"],"pool_name":%q,`+
				`"with_storage_pool":{"name":"two"}}`, tt.kind, tt.name)
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
