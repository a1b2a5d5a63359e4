package pools_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/nodevolumes"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/pools"
	"github.com/linstor-dev/storagecluster-operator/pkg/remembered"
)

var rawDisk = nodevolumes.Volume{Name: "pvc-1", Note: "a raw disk attached by ebs.csi.aws.com", Raw: true}

// raw lets another driver's raw disk be attached to n01.
func raw(w *clustertest.World) {
	w.Kube.DiskVolumes = map[string][]nodevolumes.Volume{"n01": {rawDisk}}
}

// The disks' approval and an intent count, whatever else is said of the disks.
func TestChosenDisksOfAPool(t *testing.T) {
	s1, s2 := clustertest.SsdDisk("/dev/sdb", "S1"), clustertest.SsdDisk("/dev/sdc", "S2")
	intent := func(key string) func(*clustertest.World) { return remember(key+"hot", "serial:S1") }
	for _, tc := range []scenario{
		{name: "groups that are unknown, approved", world: hot(s2), spoil: func(w *clustertest.World) {
			w.InventoryOf("n01", `DISKS="2" UDEV="1" VGS=" ?" ZPOOLS=""`, clustertest.Lsblk("sda", "OS", "")+` PTTYPE="gpt"`,
				clustertest.Lsblk("sdc", "S2", ""))
			remember(remembered.PoolApprove+"hot", "serial:S2")(w)
		}, want: verdict{Row: "make", Step: pools.StepDevices, Devices: "serial:S2"}},
		{name: "a local volume that may be anywhere, approved", world: hot(s1), spoil: func(w *clustertest.World) {
			w.Kube.DiskVolumes = map[string][]nodevolumes.Volume{"n01": {{Name: "pv", Path: "/mnt/disk-1", Raw: true}}}
			remember(remembered.PoolApprove+"hot", "serial:S1")(w)
		}, want: verdict{Row: "make", Step: pools.StepDevices, Devices: "serial:S1"}},
		{name: "another driver's raw disk is attached", world: hot(s1), spoil: raw,
			want: verdict{Row: "unapproved", Reason: "DeviceApproval", Hold: v1alpha1.HoldDeviceApproval,
				Devices: "serial:S1", Spare: "serial:S1"},
			says: "; check first: one of the disks may belong to PersistentVolume pvc-1 " +
				"(a raw disk attached by ebs.csi.aws.com)"},
		{name: "another driver's raw disk is attached, approved", world: hot(s1), spoil: func(w *clustertest.World) {
			raw(w)
			remember(remembered.PoolApprove+"hot", "serial:S1")(w)
		}, want: verdict{Row: "make", Step: pools.StepDevices, Devices: "serial:S1"}},
		{name: "another driver's raw disk is attached to another node", world: hot(s1), spoil: func(w *clustertest.World) {
			w.Kube.DiskVolumes = map[string][]nodevolumes.Volume{"n02": {rawDisk}}
		}, want: verdict{Row: "make", Step: pools.StepDevices, Devices: "serial:S1"}},
		{name: "made, removed, and still there", world: hot(), spoil: func(w *clustertest.World) {
			intent(remembered.PoolIntent)(w)
			intent(remembered.PoolRemoved)(w)
		}, want: verdict{Row: "finish", Step: pools.StepFinish}},
		{name: "begun by the operator", world: hot(), spoil: func(w *clustertest.World) {
			intent(remembered.PoolIntent)(w)
			w.InventoryOf("n01", `DISKS="2" UDEV="1" VGS=" vg_hot" ZPOOLS=""`,
				clustertest.Lsblk("sdb", "S1", "LVM2_member")+` IN=" vg_hot"`)
		}, want: verdict{Row: "finish", Step: pools.StepFinish}},
		{name: "attached since, where udev does not know all disks", world: hot(s1), spoil: func(w *clustertest.World) {
			w.InventoryOf("n01", `DISKS="3" UDEV="" VGS="" ZPOOLS=""`)
		}, want: verdict{Row: "never-seen-empty", Reason: "DevicesUnknown"}, says: "restart the satellite pod"},
		{name: "empty when the satellite started, and unknown to udev", world: hot(s1), spoil: func(w *clustertest.World) {
			w.InventoryOf("n01", `DISKS="3" UDEV="" VGS="" ZPOOLS=""`, clustertest.InventoryLine("sdb", "S1", "", ""))
		}, want: verdict{Row: "unapproved", Reason: "DeviceApproval", Hold: v1alpha1.HoldDeviceApproval,
			Devices: "serial:S1", Spare: "serial:S1"}, says: "; check first: /dev/sdb (serial S1) was empty"},
	} {
		t.Run(tc.name, tc.check)
	}
}

// A disk that was wiped when the judge looked carries the group when the disks are used.
func TestGroupThereWhenThePoolIsMade(t *testing.T) {
	for name, spoil := range map[string]func(*clustertest.World){
		"the first time": func(*clustertest.World) {},
		"begun before":   func(w *clustertest.World) { w.Node("n01").Properties[remembered.PoolIntent+"hot"] = "serial:S2" },
		"lost": func(w *clustertest.World) {
			w.Register()
			w.Node("n01").Pools["hot"].TotalKiB = nil
			w.Node("n01").Properties[remembered.PoolRecreate+"hot"] = "serial:S2"
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := clustertest.Hot(t)
			spoil(w)
			w.Node("n01").Devices = []linstor.Device{clustertest.SsdDisk("/dev/sdb", "other"),
				clustertest.SsdDisk("/dev/sdc", "S2")}
			w.InventoryOf("n01", `DISKS="2" UDEV="1" VGS=" vg_hot" ZPOOLS=""`,
				clustertest.Lsblk("sdb", "other", "LVM2_member")+` IN=" vg_hot"`, clustertest.Lsblk("sdc", "S2", ""))
			in, r := w.Input()
			if err := pools.Link().Work(t.Context(), in); err != nil || len(r.Queued) != 1 {
				t.Fatalf("%v, tasks %v", err, r.Keys())
			}
			if have := w.Node("n01").Pools["hot"]; have != nil {
				r.Pools["n01/hot"] = have
			}
			r.Now = w.Linstor.View
			r.DisksOf["n01"] = []linstor.Device{clustertest.SsdDisk("/dev/sdc", "S2")}
			err := r.Run(t, "pool/n01/hot")
			if err == nil || !strings.Contains(err.Error(), "volume group vg_hot already exists on /dev/sdb") ||
				len(r.Calls) > 0 {
				t.Errorf("%v %v", err, r.Calls)
			}
		})
	}
}

// A disk that another driver attaches after the look that decided is in LINSTOR's list of empty disks as well: what is
// attached is looked up once more, and what cannot be is no yes.
func TestAttachedWhenThePoolIsMade(t *testing.T) {
	s1 := clustertest.SsdDisk("/dev/sdb", "S1")
	attach := func(r *clustertest.Record) { r.Live.NewDisks = map[string][]nodevolumes.Volume{"n01": {rawDisk}} }
	for _, tc := range []struct {
		name  string
		spoil func(*clustertest.World)
		then  func(*clustertest.Record)
		fails string
	}{
		{name: "nothing", then: func(*clustertest.Record) {}},
		{name: "a raw disk", then: attach, fails: "PersistentVolume pvc-1 (a raw disk attached by ebs.csi.aws.com)"},
		{name: "a raw disk, approved", then: attach, spoil: remember(remembered.PoolApprove+"hot", "serial:S1")},
		{name: "not known", fails: "forbidden",
			then: func(r *clustertest.Record) { r.Live.DisksErr = errors.New("forbidden") }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := clustertest.Hot(t, s1)
			if tc.spoil != nil {
				tc.spoil(w)
			}
			in, r := w.Input()
			if err := pools.Link().Work(t.Context(), in); err != nil || len(r.Queued) != 1 {
				t.Fatalf("%v, tasks %v", err, r.Keys())
			}
			r.DisksOf["n01"] = []linstor.Device{s1}
			tc.then(r)
			err := r.Run(t, "pool/n01/hot")
			if (err == nil) != (tc.fails == "") || err != nil &&
				(!strings.Contains(err.Error(), tc.fails) || len(r.Calls) > 0) {
				t.Errorf("%v %v", err, r.Calls)
			}
		})
	}
}
