package disks_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/disks"
)

// TestMismatch: it is said of a disk exactly if none of the entries matches.
func TestMismatch(t *testing.T) {
	d := linstor.Device{Path: "/dev/sdb", Model: "INTEL", Serial: "S4EV1", SizeBytes: 500 << 30}
	size := func(s string) *resource.Quantity { return ptr.To(resource.MustParse(s)) }
	for _, tc := range []struct {
		match []v1alpha1.DeviceMatch
		want  string
	}{
		{[]v1alpha1.DeviceMatch{{Serial: "S4EV*"}}, ""},
		{[]v1alpha1.DeviceMatch{{Serial: "X*"}, {Serial: "S4EV*"}}, ""},
		{[]v1alpha1.DeviceMatch{{Path: "/dev/sdc"}}, "its path is not /dev/sdc"},
		{[]v1alpha1.DeviceMatch{{Serial: "X*"}}, "its serial number is not X*"},
		{[]v1alpha1.DeviceMatch{{WWN: "0x5*"}}, "it has no WWN"},
		{[]v1alpha1.DeviceMatch{{Model: "ST*"}}, "its model is not ST*"},
		{[]v1alpha1.DeviceMatch{{MinSize: size("1Ti")}}, "it is smaller than 1Ti"},
		{[]v1alpha1.DeviceMatch{{MaxSize: size("400Gi")}}, "it is larger than 400Gi"},
		{[]v1alpha1.DeviceMatch{{Rotational: ptr.To(true)}}, "it is not rotational"},
		{[]v1alpha1.DeviceMatch{{Serial: "X*"}, {Serial: "X*", Model: "ST*"}, {MinSize: size("1Ti")}},
			"its serial number is not X*, and it is smaller than 1Ti"},
	} {
		spec := &v1alpha1.DevicesSpec{Match: tc.match}
		if got := disks.Mismatch(spec, &d); got != tc.want || (got == "") != disks.Matches(spec, &d) {
			t.Errorf("%+v: %q, want %q", tc.match, got, tc.want)
		}
	}
}

func TestJudgeUnlisted(t *testing.T) {
	for _, tc := range []struct {
		name    string
		spoil   func(*cluster.Disk)
		fitness disks.Fitness
		why     string
	}{
		{"empty then", func(*cluster.Disk) {}, disks.Vanished,
			"was empty when the satellite started and is now missing or in use"},
		{"with something", func(d *cluster.Disk) { d.Signature, d.Groups = "LVM2_member", []string{"vg", "?"} },
			disks.Occupied, "contains LVM2_member of vg"},
		{"virtual", func(d *cluster.Disk) { d.Path = "/dev/loop0" }, disks.Unlisted,
			"is a virtual or removable device, which cannot be used"},
		{"small", func(d *cluster.Disk) { d.SizeBytes = 1 << 30 }, disks.Unlisted,
			"is too small: LINSTOR uses only disks larger than 1 GiB"},
		{"held", func(d *cluster.Disk) { d.Held = "dm-0 a mount" }, disks.Unlisted,
			"was in use by dm-0 a mount when the satellite started"},
		{"not readable", func(d *cluster.Disk) { d.Seen = false }, disks.Unlisted,
			"could not be read when the satellite started"},
	} {
		d := cluster.Disk{Device: clustertest.SsdDisk("/dev/sdb", "S1"), Seen: true}
		tc.spoil(&d)
		if v := disks.JudgeUnlisted(&d); v.Fitness != tc.fitness || v.Why != tc.why {
			t.Errorf("%s: %s, %q", tc.name, v.Fitness, v.Why)
		}
	}
}

// TestPoolsOn: a disk that LINSTOR lists as empty is part of no pool, whatever the satellite saw when it started.
func TestPoolsOn(t *testing.T) {
	w := clustertest.NewWorld(t, 1) // its pool ssd is in volume group vg
	w.InventoryOf("n01", `DISKS="2" UDEV="1" VGS=" vg" ZPOOLS=" tank"`,
		clustertest.Lsblk("sdb", "S1", "LVM2_member")+` IN=" vg"`,
		clustertest.Lsblk("sdc", "S2", "zfs_member")+` IN=" tank"`)
	on := func() []string {
		s := w.Snapshot()
		disks.Index(s)
		m := s.Members[0]
		return append(disks.PoolsOn(m, &m.Disks.List[0]), disks.PoolsOn(m, &m.Disks.List[1])...)
	}
	if got := on(); len(got) != 1 || got[0] != "ssd" {
		t.Errorf("%v", got)
	}
	w.Node("n01").Devices = []linstor.Device{clustertest.SsdDisk("/dev/sdb", "S1")}
	if got := on(); len(got) > 0 {
		t.Errorf("it is empty, and in %v", got)
	}
}

// TestAllDisks: each is listed once, under the path that it has now, in the order of the kernel.
func TestAllDisks(t *testing.T) {
	w := clustertest.Hot(t, clustertest.SsdDisk("/dev/sdc", "S1"), clustertest.SsdDisk("/dev/sdaa", "S2"))
	w.Inventory("n01", clustertest.Lsblk("sdb", "S1", ""), clustertest.Lsblk("sda", "OS", "ext4"))
	s := w.Snapshot()
	got := ""
	for _, d := range disks.All(s.Members[0]) {
		got += d.Path + map[bool]string{true: " empty, ", false: ", "}[d.Empty]
	}
	if want := "/dev/sda, /dev/sdc empty, /dev/sdaa empty, "; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
