package disks_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/nodevolumes"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/disks"
	"github.com/linstor-dev/storagecluster-operator/pkg/remembered"
)

const someUnknownToUdev = `DISKS="3" UDEV="" VGS="" ZPOOLS=""`

// choice is what is chosen for pool hot, which is not there yet, when LINSTOR lists these disks as empty.
type choice struct {
	name  string
	spoil func(*clustertest.World)
	empty []linstor.Device
	use   []linstor.Device
	// The others are parts of what is said; "" where nothing is.
	doubts, refused, occupied, unseen, there string
}

func (tc choice) check(t *testing.T) {
	t.Helper()
	w := clustertest.Hot(t, tc.empty...)
	tc.spoil(w)
	s := w.Snapshot()
	m := s.Members[0]
	got := disks.Choose(s, m.Pools[0], m, m.Linstor.Devices)
	if d := cmp.Diff(tc.use, got.Devices, cmpopts.EquateEmpty()); d != "" {
		t.Error(d)
	}
	for _, c := range []struct{ what, want, got string }{
		{"doubts", tc.doubts, strings.Join(got.Doubts, "; ")}, {"refused", tc.refused, strings.Join(got.Refused, "; ")},
		{"occupied", tc.occupied, strings.Join(got.Occupied, "; ")}, {"unseen", tc.unseen, strings.Join(got.Unseen, "; ")},
		{"there", tc.there, got.GroupThere},
	} {
		if (c.want == "") != (c.got == "") || !strings.Contains(c.got, c.want) {
			t.Errorf("%s: %q, want %q", c.what, c.got, c.want)
		}
	}
}

// bySize makes the pool's entry take disks by their size, and by what other entries say.
func bySize(w *clustertest.World, others ...v1alpha1.DeviceMatch) {
	size := resource.MustParse("1Gi")
	w.Cluster.Spec.StoragePools[0].Devices = &v1alpha1.DevicesSpec{Approval: v1alpha1.ApprovalAuto,
		Match: append(others, v1alpha1.DeviceMatch{MinSize: &size})}
	w.Accept()
}

// A disk counts as empty only where that was seen: LINSTOR lists one that udev has no record of as empty, whatever is
// on it.
func TestEmptyIsWhatWasSeen(t *testing.T) {
	s1, s2 := clustertest.SsdDisk("/dev/sdb", "S1"), clustertest.SsdDisk("/dev/sdc", "S2")
	for _, tc := range []choice{
		{name: "udev knows the disk", empty: []linstor.Device{s1},
			spoil: func(w *clustertest.World) { w.Inventory("n01", clustertest.Lsblk("sdb", "S1", "")) },
			use:   []linstor.Device{s1}},
		{name: "wiped since, as udev knows", empty: []linstor.Device{s1},
			spoil: func(w *clustertest.World) { w.Inventory("n01", clustertest.Lsblk("sdb", "S1", "ext4")) },
			use:   []linstor.Device{s1}},
		{name: "attached since, where udev knows all disks", empty: []linstor.Device{s1},
			spoil: func(w *clustertest.World) { w.Inventory("n01") },
			use:   []linstor.Device{s1}},
		{name: "attached since, and matched by its size alone", empty: []linstor.Device{s1, s2},
			spoil: func(w *clustertest.World) {
				w.Inventory("n01", clustertest.Lsblk("sdc", "S2", ""))
				bySize(w)
			},
			use:    []linstor.Device{s1, s2},
			doubts: "/dev/sdb (serial S1) was added after the satellite started, so its contents have not been inspected"},
		{name: "attached since, and named by another entry", empty: []linstor.Device{s1},
			spoil: func(w *clustertest.World) {
				w.Inventory("n01")
				bySize(w, v1alpha1.DeviceMatch{Serial: "S1"})
			},
			use: []linstor.Device{s1}},
		{name: "matched by its size alone, under another name than before", empty: []linstor.Device{s1},
			spoil: func(w *clustertest.World) {
				w.Inventory("n01", clustertest.Lsblk("sdx", "S1", ""))
				bySize(w)
			},
			use: []linstor.Device{s1}},
		{name: "without record, and not empty", empty: []linstor.Device{s1},
			spoil: func(w *clustertest.World) {
				w.InventoryOf("n01", someUnknownToUdev, clustertest.InventoryLine("sdb", "S1", "xfs", ""))
			},
			occupied: "/dev/sdb (serial S1) contains xfs"},
		{name: "several signatures, of which udev records none", empty: []linstor.Device{s1},
			spoil: func(w *clustertest.World) {
				w.InventoryOf("n01", someUnknownToUdev, clustertest.InventoryLine("sdb", "S1", "several signatures", `IN=" ?"`))
			},
			occupied: "/dev/sdb (serial S1) contains several signatures"},
		{name: "without record, beside one that is empty", empty: []linstor.Device{s1, s2},
			spoil: func(w *clustertest.World) {
				w.InventoryOf("n01", someUnknownToUdev, clustertest.InventoryLine("sdb", "S1", "xfs", ""),
					clustertest.Lsblk("sdc", "S2", ""))
			},
			use:      []linstor.Device{s2},
			occupied: "/dev/sdb (serial S1) contains xfs"},
		{name: "without record, and empty when the satellite started", empty: []linstor.Device{s1},
			spoil: func(w *clustertest.World) {
				w.InventoryOf("n01", someUnknownToUdev, clustertest.InventoryLine("sdb", "S1", "", ""))
			},
			use:    []linstor.Device{s1},
			doubts: "/dev/sdb (serial S1) was empty when the satellite started, but udev has no"},
		{name: "attached since, where udev does not know all disks", empty: []linstor.Device{s1},
			spoil:  func(w *clustertest.World) { w.InventoryOf("n01", someUnknownToUdev) },
			unseen: "/dev/sdb (serial S1) was not present when the satellite started, and udev does"},
		{name: "not readable", empty: []linstor.Device{s1},
			spoil: func(w *clustertest.World) {
				w.Inventory("n01", strings.Replace(clustertest.Lsblk("sdb", "S1", ""), `SEEN="1"`, "", 1))
			},
			unseen: "/dev/sdb (serial S1) could not be read when the satellite started: restart"},
		{name: "held by another device", empty: []linstor.Device{s1},
			spoil:  func(w *clustertest.World) { w.Inventory("n01", clustertest.Lsblk("sdb", "S1", "")+` HELD=" dm-0"`) },
			unseen: "/dev/sdb (serial S1) was in use by dm-0 when the satellite started: restart"},
		{name: "no inventory yet", empty: []linstor.Device{s1},
			spoil: func(w *clustertest.World) {
				w.Kube.Pods[v1alpha1.ComponentSatellite]["n01"].Status.InitContainerStatuses = nil
			},
			unseen: "/dev/sdb (serial S1) has not been inspected yet: the satellite's disk inventory is"},
		{name: "an older version's inventory", empty: []linstor.Device{s1},
			spoil:  func(w *clustertest.World) { w.InventoryOf("n01", clustertest.Lsblk("sdb", "S1", "")) },
			unseen: "/dev/sdb (serial S1) has not been inspected yet: the satellite's disk inventory is"},
		{name: "begun, but it is not empty after all", empty: []linstor.Device{s1},
			spoil: func(w *clustertest.World) {
				w.Node("n01").Properties[remembered.PoolIntent+"hot"] = "serial:S1"
				w.InventoryOf("n01", someUnknownToUdev, clustertest.InventoryLine("sdb", "S1", "xfs", ""))
			},
			occupied: "/dev/sdb (serial S1) contains xfs",
			there:    "/dev/sdb (serial S1), from which it was created, is present and contains xfs:"},
	} {
		t.Run(tc.name, tc.check)
	}
}

// What is known of one of two disks says nothing about the other, even where both have the serial number that the
// entry names.
func TestDisksOfOneSerialNumber(t *testing.T) {
	s1, twin, s2 := clustertest.SsdDisk("/dev/sdb", "S1"), clustertest.SsdDisk("/dev/sdc", "S1"),
		clustertest.SsdDisk("/dev/sdd", "S2")
	for _, tc := range []choice{
		{name: "both empty", empty: []linstor.Device{s1, twin},
			spoil:   func(w *clustertest.World) { w.Inventory("n01") },
			refused: "/dev/sdc (serial S1) cannot be distinguished from /dev/sdb, which has the same serial"},
		{name: "one carries something", empty: []linstor.Device{s1},
			spoil: func(w *clustertest.World) {
				w.Inventory("n01", clustertest.Lsblk("sdb", "S1", ""), clustertest.Lsblk("sdc", "S1", "xfs"))
			},
			refused:  "/dev/sdb (serial S1) cannot be distinguished from /dev/sdc, which has the same serial",
			occupied: "/dev/sdc (serial S1) contains xfs"},
		{name: "one does not match", empty: []linstor.Device{s1},
			spoil: func(w *clustertest.World) {
				w.Inventory("n01", clustertest.Lsblk("sdb", "S1", ""), clustertest.Lsblk("sdc", "S1", "xfs"))
				w.Cluster.Spec.StoragePools[0].Devices.Match = []v1alpha1.DeviceMatch{{Path: "/dev/sdb"}}
				w.Accept()
			},
			refused: "/dev/sdb (serial S1) cannot be distinguished from /dev/sdc, which has the same serial"},
		{name: "one carries the group", empty: []linstor.Device{s1, s2},
			spoil: func(w *clustertest.World) {
				w.InventoryOf("n01", `DISKS="3" UDEV="1" VGS=" vg_hot" ZPOOLS=""`, clustertest.Lsblk("sdb", "S1", ""),
					clustertest.Lsblk("sdc", "S1", "LVM2_member")+` IN=" vg_hot"`, clustertest.Lsblk("sdd", "S2", ""))
			},
			use:      []linstor.Device{s2},
			refused:  "/dev/sdb (serial S1) cannot be distinguished from /dev/sdc, which has the same serial",
			occupied: "/dev/sdc (serial S1) contains LVM2_member of vg_hot",
			there:    "volume group vg_hot already exists on /dev/sdc (serial S1)"},
		{name: "one disk under another name", empty: []linstor.Device{s1},
			spoil: func(w *clustertest.World) { w.Inventory("n01", clustertest.Lsblk("sdx", "S1", "")) },
			use:   []linstor.Device{s1}},
	} {
		t.Run(tc.name, tc.check)
	}
}

func TestWhatADiskCarries(t *testing.T) {
	for want, d := range map[string]cluster.Disk{
		"ext4":                      {Signature: "ext4"},
		"LVM2_member of vg_a, vg_b": {Signature: "LVM2_member", Groups: []string{"vg_a", "vg_b"}},
		"several signatures":        {Signature: "several signatures", Groups: []string{disks.UnknownGroup}},
	} {
		if got := disks.Content(&d); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// Two volume groups of one name can both not be used by name any more, and LINSTOR makes the second one without a
// word.
func TestNoSecondGroupOfOneName(t *testing.T) {
	s1, s2 := clustertest.SsdDisk("/dev/sdb", "S1"), clustertest.SsdDisk("/dev/sdc", "S2")
	sum := func(vgs string) string { return `DISKS="2" UDEV="1" VGS="` + vgs + `" ZPOOLS=""` }
	for _, tc := range []choice{
		{name: "on a disk that matches", empty: []linstor.Device{s2},
			spoil: func(w *clustertest.World) {
				w.InventoryOf("n01", sum(" vg_hot"), clustertest.Lsblk("sdb", "S1", "LVM2_member")+` IN=" vg_hot"`,
					clustertest.Lsblk("sdc", "S2", ""))
			},
			use:      []linstor.Device{s2},
			occupied: "/dev/sdb (serial S1) contains LVM2_member of vg_hot",
			there:    "volume group vg_hot already exists on /dev/sdb (serial S1)"},
		{name: "on a disk that does not match", empty: []linstor.Device{s2},
			spoil: func(w *clustertest.World) {
				w.InventoryOf("n01", sum(" vg_hot"), clustertest.Lsblk("sdz", "other", "LVM2_member")+` IN=" vg_hot"`,
					clustertest.Lsblk("sdc", "S2", ""))
			},
			use:   []linstor.Device{s2},
			there: "volume group vg_hot already exists on /dev/sdz (serial other)"},
		{name: "somewhere", empty: []linstor.Device{s2},
			spoil: func(w *clustertest.World) {
				w.InventoryOf("n01", sum(" vg_os vg_hot"), clustertest.Lsblk("sdc", "S2", ""))
			},
			use:   []linstor.Device{s2},
			there: "volume group vg_hot already exists on disks or partitions that do not match"},
		{name: "another group on a disk that matches", empty: []linstor.Device{s2},
			spoil: func(w *clustertest.World) {
				w.InventoryOf("n01", sum(" vg_other"), clustertest.Lsblk("sdb", "S1", "LVM2_member")+` IN=" vg_other"`,
					clustertest.Lsblk("sdc", "S2", ""))
			},
			use:      []linstor.Device{s2},
			occupied: "/dev/sdb (serial S1) contains LVM2_member of vg_other"},
		{name: "a zpool of that name", empty: []linstor.Device{s2},
			spoil: func(w *clustertest.World) {
				w.InventoryOf("n01", `DISKS="2" UDEV="1" VGS="" ZPOOLS=" vg_hot"`,
					clustertest.Lsblk("sdb", "S1", "zfs_member")+` IN=" vg_hot"`, clustertest.Lsblk("sdc", "S2", ""))
			},
			use:      []linstor.Device{s2},
			occupied: "/dev/sdb (serial S1) contains zfs_member of vg_hot"},
		{name: "groups that could not be told", empty: []linstor.Device{s2},
			spoil: func(w *clustertest.World) {
				w.InventoryOf("n01", sum(" ?"), clustertest.Lsblk("sdb", "S1", "LVM2_member"), clustertest.Lsblk("sdc", "S2", ""))
			},
			use:      []linstor.Device{s2},
			doubts:   "some volume groups on the node could not be identified when the satellite",
			occupied: "/dev/sdb (serial S1) contains LVM2_member",
			there:    "/dev/sdb (serial S1) contains LVM2_member, and it is unknown whether"},
		{name: "groups that could not be told, and partitions", empty: []linstor.Device{s2},
			spoil: func(w *clustertest.World) {
				w.InventoryOf("n01", sum(" ?"), clustertest.Lsblk("sda", "OS", "")+` PTTYPE="gpt"`,
					clustertest.Lsblk("sdc", "S2", ""))
			},
			use:    []linstor.Device{s2},
			doubts: "some volume groups on the node could not be identified when the satellite"},
		{name: "zpools that could not be told", empty: []linstor.Device{s2},
			spoil: func(w *clustertest.World) {
				w.InventoryOf("n01", `DISKS="2" UDEV="1" VGS="" ZPOOLS=" ?"`, clustertest.Lsblk("sda", "OS", "")+` PTTYPE="gpt"`,
					clustertest.Lsblk("sdc", "S2", ""))
			},
			use: []linstor.Device{s2}},
		{name: "wiped since", empty: []linstor.Device{s1, s2},
			spoil: func(w *clustertest.World) {
				w.InventoryOf("n01", sum(" vg_hot"), clustertest.Lsblk("sdb", "S1", "LVM2_member")+` IN=" vg_hot"`,
					clustertest.Lsblk("sdc", "S2", ""))
			},
			use: []linstor.Device{s1, s2}},
		{name: "begun, and on another disk", empty: []linstor.Device{s1},
			spoil: func(w *clustertest.World) {
				w.Node("n01").Properties[remembered.PoolIntent+"hot"] = "serial:S1"
				w.InventoryOf("n01", sum(" vg_hot"), clustertest.Lsblk("sdb", "S1", ""),
					clustertest.Lsblk("sdc", "S2", "LVM2_member")+` IN=" vg_hot"`)
			},
			use:      []linstor.Device{s1},
			occupied: "/dev/sdc (serial S2) contains LVM2_member of vg_hot",
			there:    "volume group vg_hot already exists on /dev/sdc (serial S2)"},
		{name: "begun, and nothing happened yet", empty: []linstor.Device{s1},
			spoil: func(w *clustertest.World) { w.Node("n01").Properties[remembered.PoolIntent+"hot"] = "serial:S1" },
			use:   []linstor.Device{s1}},
		{name: "made, removed, and empty by now", empty: []linstor.Device{s1},
			spoil: func(w *clustertest.World) {
				props := w.Node("n01").Properties
				props[remembered.PoolIntent+"hot"], props[remembered.PoolRemoved+"hot"] = "serial:S1", "serial:S1"
			},
			use:    []linstor.Device{s1},
			doubts: "a pool was created from serial:S1 earlier and has since been removed: volume group vg_hot"},
		{name: "made, removed, and begun anew from another disk", empty: []linstor.Device{s2},
			spoil: func(w *clustertest.World) {
				props := w.Node("n01").Properties
				props[remembered.PoolIntent+"hot"], props[remembered.PoolRemoved+"hot"] = "serial:S2", "serial:S1"
			},
			use: []linstor.Device{s2}},
		{name: "a disk was empty and is away or in use now", empty: []linstor.Device{s2},
			spoil: func(w *clustertest.World) {
				w.Inventory("n01", clustertest.Lsblk("sdb", "S1", ""), clustertest.Lsblk("sdc", "S2", ""))
			},
			use:    []linstor.Device{s2},
			doubts: "/dev/sdb (serial S1) was empty when the satellite started and is now missing or in use"},
		{name: "which the operator made a pool from", empty: []linstor.Device{s2},
			spoil: func(w *clustertest.World) {
				w.Node("n01").Properties[remembered.PoolIntent+"other"] = "serial:S1"
				w.Inventory("n01", clustertest.Lsblk("sdb", "S1", ""), clustertest.Lsblk("sdc", "S2", ""))
			},
			use: []linstor.Device{s2}},
	} {
		t.Run(tc.name, tc.check)
	}
}

// Pods get the raw disk behind a local PersistentVolume: it may hold data without a signature.
func TestLocalVolumesAreKeptOut(t *testing.T) {
	d := linstor.Device{Path: "/dev/nvme0n1", Serial: "PHLJ 42", WWN: "0x5000C500A1B2", SizeBytes: 1 << 40}
	other := linstor.Device{Path: "/dev/nvme1n1", Serial: "PHLJ 43", WWN: "0x5000C500A1B3", SizeBytes: 1 << 40}
	for path, want := range map[string]struct{ names, anywhere bool }{
		"/dev/nvme0n1":                                     {names: true},
		"/dev/disk/by-id/wwn-0x5000c500a1b2":               {names: true},
		"/dev/disk/by-id/scsi-35000c500a1b2":               {names: true},
		"/mnt/local-storage/localblock/nvme-X_PHLJ_42":     {names: true},
		"/mnt/local-storage/localblock/wwn-0x5000c500a1b2": {names: true},
		// The name may have moved at a reboot.
		"/mnt/disks/nvme0n1":                        {names: true, anywhere: true},
		"/mnt/disks/disk-1":                         {anywhere: true},
		"/dev/disk/by-path/pci-0000:00:1f.2-ata-42": {anywhere: true},
		"/dev/fast/one":                             {anywhere: true},
		"/dev/disk/by-id/nvme-X_PHLJ_43":            {},
		"/dev/nvme1n1":                              {},
		"/dev/nvme1n1p2":                            {},
		"/dev/mapper/vg-lv":                         {},
		"/dev/disk/by-uuid/0000":                    {},
	} {
		v := nodevolumes.Volume{Name: "pv", Path: path, Raw: true}
		if got := disks.Names(&v, &d); got != want.names {
			t.Errorf("%s names the disk: %t", path, got)
		}
		w := clustertest.NewWorld(t, 1)
		w.Kube.DiskVolumes = map[string][]nodevolumes.Volume{"n01": {v}}
		w.Node("n01").Devices = []linstor.Device{d, other}
		s := w.Snapshot()
		if got := disks.Anywhere(&s.Facts, s.Members[0]); (len(got) > 0) != want.anywhere {
			t.Errorf("%s may be anywhere: %v", path, got)
		}
	}
}

func TestUnresolvedLocalVolumes(t *testing.T) {
	on := func(volumes ...nodevolumes.Volume) func(*clustertest.World) {
		return func(w *clustertest.World) { w.Kube.DiskVolumes = map[string][]nodevolumes.Volume{"n01": volumes} }
	}
	s1 := clustertest.SsdDisk("/dev/sdb", "S1")
	link := nodevolumes.Volume{Name: "local-pv-1", Path: "/mnt/local-storage/localblock/disk-1", Raw: true}
	for _, tc := range []choice{
		{name: "a link whose name says nothing", empty: []linstor.Device{s1}, spoil: on(link),
			use:    []linstor.Device{s1},
			doubts: "one of the disks may belong to PersistentVolume local-pv-1"},
		{name: "a raw disk of another driver", empty: []linstor.Device{s1},
			spoil:  on(nodevolumes.Volume{Name: "pvc-1", Note: "a raw disk attached by ebs.csi.aws.com", Raw: true}),
			use:    []linstor.Device{s1},
			doubts: "one of the disks may belong to PersistentVolume pvc-1 (a raw disk attached by ebs.csi.aws.com): exclude"},
		{name: "a directory", empty: []linstor.Device{s1}, spoil: on(nodevolumes.Volume{Name: "d", Path: "/mnt/data"}),
			use: []linstor.Device{s1}},
		{name: "a link with another disk's name", empty: []linstor.Device{s1, clustertest.SsdDisk("/dev/sdx", "ZZ9")},
			spoil: on(nodevolumes.Volume{Name: "l", Path: "/mnt/local-storage/localblock/ata-ZZ9",
				Raw: true}),
			use: []linstor.Device{s1}},
	} {
		t.Run(tc.name, tc.check)
	}
}
