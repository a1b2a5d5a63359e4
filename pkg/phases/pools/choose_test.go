package pools_test

import (
	"strings"
	"testing"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/pools"
	"github.com/linstor-dev/storagecluster-operator/pkg/remembered"
)

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
			w.Kube.LocalVolumes = map[string][]cluster.LocalVolume{"n01": {{Name: "pv", Path: "/mnt/disk-1", Raw: true}}}
			remember(remembered.PoolApprove+"hot", "serial:S1")(w)
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
		}, want: verdict{Row: "never-seen-empty", Reason: "DevicesUnknown"}, says: "restart the satellite's pod"},
		{name: "empty when the satellite started, and unknown to udev", world: hot(s1), spoil: func(w *clustertest.World) {
			w.InventoryOf("n01", `DISKS="3" UDEV="" VGS="" ZPOOLS=""`, clustertest.InventoryLine("sdb", "S1", "", ""))
		}, want: verdict{Row: "unapproved", Reason: "DeviceApproval", Hold: v1alpha1.HoldDeviceApproval,
			Devices: "serial:S1", Spare: "serial:S1"}, says: "; look first: /dev/sdb (serial S1) was empty"},
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
			if err == nil || !strings.Contains(err.Error(), "volume group vg_hot is there already, on /dev/sdb") ||
				len(r.Calls) > 0 {
				t.Errorf("%v %v", err, r.Calls)
			}
		})
	}
}
