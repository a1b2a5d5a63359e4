package pools_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/hold"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/pools"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/remembered"
	"github.com/linstor-dev/storagecluster-operator/pkg/work"
)

// manual is a world of n nodes whose pool "hot" waits for an approval; each has one empty disk, S1-n01 and so on.
func manual(t *testing.T, n int) *clustertest.World {
	w := clustertest.NewWorld(t, n)
	e := clustertest.OnDevices("hot", "S*")
	e.Devices.Approval = v1alpha1.ApprovalManual
	w.Cluster.Spec.StoragePools = []v1alpha1.StoragePoolSpec{e}
	w.Settle()
	for _, name := range w.Names() {
		delete(w.Node(name).Pools, "hot")
		w.Node(name).Devices = []linstor.Device{clustertest.SsdDisk("/dev/sdb", "S1-"+name)}
	}
	return w
}

// approvalScenarios are about a pool whose disks a human must approve.
func approvalScenarios() []scenario {
	approved := func(text string) func(*clustertest.World) { return remember(remembered.PoolApprove+"hot", text) }
	reason := string(v1alpha1.HoldDeviceApproval)
	asks := func(disks string) verdict {
		return verdict{Row: "unapproved", Reason: reason, Hold: v1alpha1.HoldDeviceApproval, Devices: disks, Spare: disks}
	}
	optional := asks("serial:S1-n01")
	optional.NotWanted = true
	many := []linstor.Device{clustertest.SsdDisk("/dev/sdb", "S1-n01")}
	for i := range hold.MostDevices {
		many = append(many, clustertest.SsdDisk(fmt.Sprintf("/dev/sdx%d", i), fmt.Sprintf("SX%d", i)))
	}
	out := []scenario{
		{name: "not asked yet", want: asks("serial:S1-n01"),
			says: "creating vg_hot from /dev/sdb (serial S1-n01), which will be overwritten, requires approval"},
		{name: "approved", spoil: approved("serial:S1-n01"),
			want: verdict{Row: "make", Step: pools.StepDevices, Devices: "serial:S1-n01"}},
		{name: "another disk approved", spoil: approved("serial:S7"), want: asks("serial:S1-n01")},
		{name: "one of two approved", spoil: func(w *clustertest.World) {
			approved("serial:S1-n01")(w)
			w.Node("n01").Devices = append(w.Node("n01").Devices, clustertest.SsdDisk("/dev/sdc", "S2"))
		}, want: asks("serial:S1-n01,serial:S2")},
		{name: "optional", spoil: func(w *clustertest.World) {
			w.Cluster.Spec.StoragePools[0].Devices.Optional = true
			w.Accept()
		}, want: optional},
		{name: "an old intent, the disks wiped since", spoil: remember(remembered.PoolIntent+"hot", "serial:S1-n01"),
			want: asks("serial:S1-n01")},
		{name: "an old intent, the volume group still there", spoil: func(w *clustertest.World) {
			remember(remembered.PoolIntent+"hot", "serial:S1-n01")(w)
			w.Node("n01").Devices = nil
		}, want: verdict{Row: "finish", Step: pools.StepFinish}},
		{name: "a disk known by its path, of another size", spoil: func(w *clustertest.World) {
			w.Cluster.Spec.StoragePools[0].Devices.Match = []v1alpha1.DeviceMatch{{Path: "/dev/sdb"}}
			w.Accept()
			w.Node("n01").Devices = []linstor.Device{{Path: "/dev/sdb", SizeBytes: 2 << 40}}
			approved(pools.ConsentTo([]linstor.Device{{Path: "/dev/sdb", SizeBytes: 1 << 40}}))(w)
		}, want: asks("path:/dev/sdb;2199023255552")},
		{name: "too many to be listed", spoil: func(w *clustertest.World) { w.Node("n01").Devices = many },
			want: verdict{Row: "too-many-disks", Reason: reason, Devices: pools.ConsentTo(many), Spare: pools.ConsentTo(many)},
			says: "51 disks match, but a hold can list only 50"},
		{name: "too many to be listed, approved", spoil: func(w *clustertest.World) {
			w.Node("n01").Devices = many
			approved(pools.ConsentTo(many))(w)
		}, want: verdict{Row: "make", Step: pools.StepDevices, Devices: pools.ConsentTo(many)}},
	}
	for i := range out {
		out[i].world = func(t *testing.T) *clustertest.World { return manual(t, 1) }
	}
	return out
}

func TestApproval(t *testing.T) {
	for _, tc := range approvalScenarios() {
		t.Run(tc.name, tc.check)
	}
}

// The disks are looked up again where they are used: what was not approved is not touched.
func TestOnlyApprovedDisksAreUsed(t *testing.T) {
	w := manual(t, 1)
	w.Node("n01").Properties[remembered.PoolApprove+"hot"] = "serial:S1-n01"
	in, r := w.Input()
	if err := pools.Link().Work(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	r.DisksOf["n01"] = []linstor.Device{clustertest.SsdDisk("/dev/sdb", "S1-n01"), clustertest.SsdDisk("/dev/sdc", "S2")}
	if err := r.Run(t, "pool/n01/hot"); err == nil || !strings.Contains(err.Error(), "approved") || len(r.Calls) > 0 {
		t.Errorf("%v %v", err, r.Calls)
	}
	r.DisksOf["n01"] = []linstor.Device{clustertest.SsdDisk("/dev/sdc", "S1-n01")}
	if err := r.Run(t, "pool/n01/hot"); err != nil {
		t.Error(err)
	}
	want := []string{"node n01 set backing.hot=vg_hot intent.hot=serial:S1-n01 del ",
		"create devices n01 LVM vg_hot from /dev/sdc", "create pool n01/hot LVM vg_hot"}
	if d := cmp.Diff(want, r.Calls); d != "" {
		t.Error(d)
	}
}

func TestApproveKeepsTheListedDisks(t *testing.T) {
	for _, tc := range []struct {
		name  string
		nodes []string
		want  []string
	}{
		{name: "all", want: []string{"node n01 set approve.hot=serial:S1-n01 del ",
			"node n02 set approve.hot=serial:S1-n02 del "}},
		{name: "one", nodes: []string{"n02"}, want: []string{"node n02 set approve.hot=serial:S1-n02 del "}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := manual(t, 2)
			h := holdsBegin(w)[0]
			// What came after the list was made is not approved.
			w.Node("n01").Devices = append(w.Node("n01").Devices, clustertest.SsdDisk("/dev/sdc", "S2"))
			in, r := w.Input()
			in.Answer = &hold.Answer{Hold: &h, Option: v1alpha1.OptionApprove, Nodes: tc.nodes}
			if stored, err := phases.KeepAnswer(t.Context(), in); stored || err != nil {
				t.Fatalf("stored %t, %v", stored, err)
			}
			for _, task := range r.Queued {
				if err := task.Do(t.Context()); err != nil {
					t.Error(err)
				}
			}
			if d := cmp.Diff(tc.want, r.Calls); d != "" {
				t.Error(d)
			}
			for _, n := range []string{"n01", "n02"} {
				w.Node(n).Properties[remembered.PoolApprove+"hot"] = "serial:S1-" + n
			}
			in, _ = w.Input()
			in.Answer = &hold.Answer{Hold: &h, Option: v1alpha1.OptionApprove, Nodes: tc.nodes}
			if stored, err := phases.KeepAnswer(t.Context(), in); !stored || err != nil {
				t.Errorf("stored %t, %v", stored, err)
			}
		})
	}
}

// Who says retry takes back a recreate that could not be done.
func TestRetryTakesAConsentBack(t *testing.T) {
	w := lost(t)
	w.Node("n01").Properties[remembered.PoolRecreate+"hot"] = "serial:S2"
	w.Tasks["pool/n01/hot"] = work.State{Refusals: step.RefusalsThatLast, Err: fmt.Errorf("in use")}
	h := holdsBegin(w)[0]
	in, r := w.Input()
	in.Answer = &hold.Answer{Hold: &h, Option: v1alpha1.OptionRetry}
	if stored, err := phases.KeepAnswer(t.Context(), in); stored || err != nil || len(r.Queued) != 1 {
		t.Fatalf("stored %t, %v, %v", stored, err, r.Keys())
	}
	delete(w.Node("n01").Properties, remembered.PoolRecreate+"hot")
	in, r = w.Input()
	in.Answer = &hold.Answer{Hold: &h, Option: v1alpha1.OptionRetry}
	if stored, err := phases.KeepAnswer(t.Context(), in); !stored || err != nil || !slices.Contains(r.Calls, "forget ") {
		t.Errorf("stored %t, %v, %v", stored, err, r.Calls)
	}
}

func TestALostPoolOfManyNodesIsTheClustersHold(t *testing.T) {
	w := lost(t)
	verified(pools.LooksBeforeLost)(w)
	w.Phase(v1alpha1.PhaseStoragePools, 0)
	e := pools.Link().Judge(w.Snapshot())
	if e.State != cluster.Failed || e.Hold.Reason != v1alpha1.HoldPoolBackendLost || len(e.Hold.Devices) != 1 {
		t.Fatalf("%+v", e.Hold)
	}
	h := hold.New(w.Snapshot(), e.Hold)
	in, r := w.Input()
	in.Answer = &hold.Answer{Hold: h, Option: v1alpha1.OptionRecreate, Cluster: true}
	if stored, err := phases.KeepAnswer(t.Context(), in); stored || err != nil {
		t.Fatalf("stored %t, %v", stored, err)
	}
	if err := r.Run(t, "answer/n01/hot"); err != nil {
		t.Error(err)
	}
	if d := cmp.Diff([]string{"node n01 set recreate.hot=serial:S2 del "}, r.Calls); d != "" {
		t.Error(d)
	}
}
