package phases

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/work"
)

// manual is a world of n nodes whose pool "hot" waits for an approval; each has one empty disk, S1-n01 and so on.
func manual(t *testing.T, n int) *world {
	w := newWorld(t, n)
	e := onDevices("hot", "S*")
	e.Devices.Approval = v1alpha1.ApprovalManual
	w.cluster.Spec.StoragePools = []v1alpha1.StoragePoolSpec{e}
	w.settle()
	for _, name := range w.names() {
		delete(w.node(name).Pools, "hot")
		w.node(name).Devices = []linstor.Device{ssdDisk("/dev/sdb", "S1-"+name)}
	}
	return w
}

func (w *world) names() []string {
	var out []string
	for _, n := range w.kube.Nodes {
		out = append(out, n.Name)
	}
	return out
}

// hold lets holds begin, as a reconcile in Ready does.
func (w *world) hold() []v1alpha1.Hold {
	w.cluster.Status.NodeHolds = NodeHolds(w.snapshot(), true, nil)
	return w.cluster.Status.NodeHolds
}

func TestApproval(t *testing.T) {
	for _, tc := range []struct {
		name   string
		spoil  func(*world)
		step   poolStep
		hold   v1alpha1.HoldReason
		wanted bool
	}{
		{name: "not asked yet", hold: v1alpha1.HoldDeviceApproval, wanted: true},
		{name: "approved", spoil: func(w *world) { w.node("n01").Properties[auxApprove+"hot"] = "serial:S1-n01" }, step: stepDevices, wanted: true},
		{name: "another disk approved", spoil: func(w *world) { w.node("n01").Properties[auxApprove+"hot"] = "serial:S7" }, hold: v1alpha1.HoldDeviceApproval, wanted: true},
		{name: "one of two approved", spoil: func(w *world) {
			w.node("n01").Properties[auxApprove+"hot"] = "serial:S1-n01"
			w.node("n01").Devices = append(w.node("n01").Devices, ssdDisk("/dev/sdc", "S2"))
		}, hold: v1alpha1.HoldDeviceApproval, wanted: true},
		{name: "optional", spoil: func(w *world) { w.cluster.Spec.StoragePools[0].Devices.Optional = true; w.accept() }, hold: v1alpha1.HoldDeviceApproval},
		{name: "an old intent, the disks wiped since", spoil: func(w *world) { w.node("n01").Properties[auxIntent+"hot"] = "serial:S1-n01" }, hold: v1alpha1.HoldDeviceApproval, wanted: true},
		{name: "an old intent, the volume group still there", spoil: func(w *world) {
			w.node("n01").Properties[auxIntent+"hot"] = "serial:S1-n01"
			w.node("n01").Devices = nil
		}, step: stepFinish, wanted: true},
		{name: "a disk known by its path, of another size", spoil: func(w *world) {
			w.cluster.Spec.StoragePools[0].Devices.Match = []v1alpha1.DeviceMatch{{Path: "/dev/sdb"}}
			w.accept()
			w.node("n01").Devices = []linstor.Device{{Path: "/dev/sdb", SizeBytes: 2 << 40}}
			w.node("n01").Properties[auxApprove+"hot"] = consentTo([]linstor.Device{{Path: "/dev/sdb", SizeBytes: 1 << 40}})
		}, hold: v1alpha1.HoldDeviceApproval, wanted: true},
		{name: "too many to be listed", spoil: func(w *world) {
			for i := range mostDevices {
				w.node("n01").Devices = append(w.node("n01").Devices, ssdDisk(fmt.Sprintf("/dev/sdx%d", i), fmt.Sprintf("SX%d", i)))
			}
		}, wanted: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := manual(t, 1)
			if tc.spoil != nil {
				tc.spoil(w)
			}
			p := w.snapshot().Members[0].Pools[0]
			got := v1alpha1.HoldReason("")
			if p.Problem != nil {
				got = p.Problem.Hold
			}
			if p.step != tc.step || got != tc.hold || p.NotWanted == tc.wanted {
				t.Errorf("step %q hold %q not wanted %t, want %q %q %t", p.step, got, p.NotWanted, tc.step, tc.hold, !tc.wanted)
			}
		})
	}
}

// The disks are looked up again where they are used: what was not approved is not touched.
func TestOnlyApprovedDisksAreUsed(t *testing.T) {
	w := manual(t, 1)
	w.node("n01").Properties[auxApprove+"hot"] = "serial:S1-n01"
	in, r := w.input()
	if err := (poolLink{}).Work(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	r.devices["n01"] = []linstor.Device{ssdDisk("/dev/sdb", "S1-n01"), ssdDisk("/dev/sdc", "S2")}
	if err := r.run(t, "pool/n01/hot"); err == nil || !strings.Contains(err.Error(), "approved") || len(r.calls) > 0 {
		t.Errorf("%v %v", err, r.calls)
	}
	r.devices["n01"] = []linstor.Device{ssdDisk("/dev/sdc", "S1-n01")}
	if err := r.run(t, "pool/n01/hot"); err != nil {
		t.Error(err)
	}
	want := []string{"node n01 set backing.hot=vg_hot intent.hot=serial:S1-n01 del ", "create devices n01 LVM vg_hot from /dev/sdc", "create pool n01/hot LVM vg_hot"}
	if d := cmp.Diff(want, r.calls); d != "" {
		t.Error(d)
	}
}

func TestApprovalHold(t *testing.T) {
	w := manual(t, 3)
	holds := w.hold()
	if len(holds) != 1 {
		t.Fatalf("%+v", holds)
	}
	h := holds[0]
	if h.Reason != v1alpha1.HoldDeviceApproval || h.Pool != "hot" || h.Count != 3 || len(h.Devices) != 3 || !strings.Contains(h.Resume, ":approve") {
		t.Errorf("%+v", h)
	}
	d := h.Devices[1]
	if d.Node != "n02" || d.Path != "/dev/sdb" || d.Serial != "S1-n02" || d.Size.String() != "1Ti" {
		t.Errorf("%+v", d)
	}
	s := w.snapshot()
	if m := s.Members[0]; m.State != v1alpha1.NodeHeld {
		t.Errorf("the node is %s", m.State)
	}
	if e := (poolLink{}).Evidence(s); e.State != Missing || e.Hold != nil || !strings.Contains(e.Message, "3 nodes") {
		t.Errorf("%+v", e)
	}
}

func TestApprovalHoldIsBounded(t *testing.T) {
	w := manual(t, 60)
	h := w.hold()[0]
	if len(h.Nodes) != mostHeldNodes || int(h.Count) != len(h.Nodes) || len(h.Devices) != mostDevices || !strings.Contains(h.Message, "10 more nodes follow") {
		t.Errorf("%d nodes of %d, %d disks: %s", len(h.Nodes), h.Count, len(h.Devices), h.Message)
	}
	for _, d := range h.Devices {
		if !slices.Contains(h.Nodes, d.Node) {
			t.Errorf("disk of %s, which is not listed", d.Node)
		}
	}
	// A node is listed with all of its disks or not at all.
	w = manual(t, 3)
	for i := range 30 {
		for _, n := range w.names() {
			w.node(n).Devices = append(w.node(n).Devices, ssdDisk(fmt.Sprintf("/dev/sdx%d", i), fmt.Sprintf("SX%d-%s", i, n)))
		}
	}
	if h := w.hold()[0]; !slices.Equal(h.Nodes, []string{"n01"}) || h.Count != 1 || len(h.Devices) != 31 {
		t.Errorf("%v of %d, %d disks", h.Nodes, h.Count, len(h.Devices))
	}
}

func TestStandingApprovalHold(t *testing.T) {
	for _, tc := range []struct {
		name  string
		spoil func(*world)
		// same is whether the hold keeps its id.
		same bool
		want []string
	}{
		{name: "nothing happens", same: true, want: []string{"n01", "n02"}},
		{name: "a disk has another name", spoil: func(w *world) { w.node("n01").Devices[0].Path = "/dev/sdz" }, same: true, want: []string{"n01", "n02"}},
		{name: "a disk comes", spoil: func(w *world) { w.node("n01").Devices = append(w.node("n01").Devices, ssdDisk("/dev/sdc", "S2")) }, want: []string{"n01", "n02"}},
		{name: "a disk is exchanged", spoil: func(w *world) { w.node("n02").Devices[0].Serial = "S9" }, want: []string{"n01", "n02"}},
		{name: "a disk goes", spoil: func(w *world) { w.node("n01").Devices = nil }, same: true, want: []string{"n02"}},
		{name: "a node is not ONLINE", spoil: func(w *world) { w.node("n01").Status, w.node("n01").DevicesKnown = linstor.StatusOffline, false }, same: true, want: []string{"n01", "n02"}},
		{name: "LINSTOR is silent", spoil: func(w *world) { w.silent(fmt.Errorf("x")) }, same: true, want: []string{"n01", "n02"}},
		{name: "the pool is there", spoil: func(w *world) {
			w.node("n01").Pools["hot"] = &linstor.Pool{Name: "hot", Provider: "LVM", Backing: "vg_hot"}
		}, same: true, want: []string{"n02"}},
		{name: "the entry leaves a node out", spoil: func(w *world) {
			w.cluster.Spec.StoragePools[0].NodeSelector = map[string]string{"kubernetes.io/hostname": "n02"}
			w.accept()
		}, same: true, want: []string{"n02"}},
		{name: "the entry says Auto", spoil: func(w *world) { w.cluster.Spec.StoragePools[0].Devices.Approval = v1alpha1.ApprovalAuto; w.accept() }},
		{name: "the entry is gone", spoil: func(w *world) { w.cluster.Spec.StoragePools = nil; w.accept() }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := manual(t, 2)
			before := w.hold()[0]
			if tc.spoil != nil {
				tc.spoil(w)
			}
			w.now = w.now.Add(1)
			after := w.hold()
			if len(tc.want) == 0 {
				if len(after) > 0 {
					t.Errorf("%+v", after)
				}
				return
			}
			if len(after) != 1 || !slices.Equal(after[0].Nodes, tc.want) || (after[0].ID == before.ID) != tc.same {
				t.Fatalf("%s became %+v", before.ID, after)
			}
			for _, d := range after[0].Devices {
				if !slices.Contains(tc.want, d.Node) {
					t.Errorf("lists a disk of %s", d.Node)
				}
			}
		})
	}
}

// A node that comes later is not in the hold that stands: who answers has not seen its disks.
func TestLaterNodesComeInTheNextHold(t *testing.T) {
	w := manual(t, 2)
	n := w.node("n02")
	n.Devices, n.DevicesKnown = nil, false
	first := w.hold()[0]
	n.Devices, n.DevicesKnown = []linstor.Device{ssdDisk("/dev/sdb", "S1-n02")}, true
	if again := w.hold(); len(again) != 1 || again[0].ID != first.ID || !slices.Equal(again[0].Nodes, []string{"n01"}) {
		t.Fatalf("%+v", again)
	}
	w.cluster.Status.NodeHolds = NodeHolds(w.snapshot(), false, &Answer{Hold: &first, Option: v1alpha1.OptionApprove})
	w.now = w.now.Add(1)
	w.node("n01").Properties[auxApprove+"hot"] = "serial:S1-n01"
	if next := w.hold(); len(next) != 1 || next[0].ID == first.ID || !slices.Equal(next[0].Nodes, []string{"n02"}) {
		t.Errorf("%+v", next)
	}
}

func TestApproveKeepsTheListedDisks(t *testing.T) {
	for _, tc := range []struct {
		name  string
		nodes []string
		want  []string
	}{
		{name: "all", want: []string{"node n01 set approve.hot=serial:S1-n01 del ", "node n02 set approve.hot=serial:S1-n02 del "}},
		{name: "one", nodes: []string{"n02"}, want: []string{"node n02 set approve.hot=serial:S1-n02 del "}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := manual(t, 2)
			h := w.hold()[0]
			// What came after the list was made is not approved.
			w.node("n01").Devices = append(w.node("n01").Devices, ssdDisk("/dev/sdc", "S2"))
			in, r := w.input()
			in.Answer = &Answer{Hold: &h, Option: v1alpha1.OptionApprove, Nodes: tc.nodes}
			if stored, err := in.KeepAnswer(t.Context()); stored || err != nil {
				t.Fatalf("stored %t, %v", stored, err)
			}
			for _, task := range r.queued {
				if err := task.Do(t.Context()); err != nil {
					t.Error(err)
				}
			}
			if d := cmp.Diff(tc.want, r.calls); d != "" {
				t.Error(d)
			}
			for _, n := range []string{"n01", "n02"} {
				w.node(n).Properties[auxApprove+"hot"] = "serial:S1-" + n
			}
			in, _ = w.input()
			in.Answer = &Answer{Hold: &h, Option: v1alpha1.OptionApprove, Nodes: tc.nodes}
			if stored, err := in.KeepAnswer(t.Context()); !stored || err != nil {
				t.Errorf("stored %t, %v", stored, err)
			}
		})
	}
}

func TestApprovalHasNoDeadline(t *testing.T) {
	w := manual(t, 2)
	w.phase(v1alpha1.PhaseStoragePools, DefaultTiming().Deadlines["StoragePools"]*2)
	o := Wait("CreatingPools", "", 0)
	if h := w.snapshot().overdue("StoragePools", &o); h != nil {
		t.Errorf("%+v", h)
	}
	w.node("n02").Devices = nil // its disk is missing: that is no question of approval
	if h := w.snapshot().overdue("StoragePools", &o); h == nil {
		t.Error("a node without disks may take for ever")
	}
}

func TestLostHoldOffersWhatCanBeDone(t *testing.T) {
	w := lost(t)
	verified(looksBeforeLost)(w)
	h := w.hold()[0]
	if !slices.Equal(h.Options, []string{v1alpha1.OptionRetry, v1alpha1.OptionRecreate}) || len(h.Devices) != 1 || h.Devices[0].Serial != "S2" {
		t.Errorf("%+v", h)
	}
	w.node("n01").Devices = nil
	w.now = w.now.Add(1)
	after := w.hold()
	if len(after) != 1 || after[0].ID == h.ID || !slices.Equal(after[0].Options, []string{v1alpha1.OptionRetry}) || len(after[0].Devices) > 0 {
		t.Fatalf("without disks: %+v", after)
	}
	// The storage is back. The pool is used again, and the hold waits for its token all the same.
	size := int64(7)
	p := w.node("n01").Pools["hot"]
	p.Errors, p.TotalKiB, p.FreeKiB = nil, &size, &size
	if again := w.hold(); len(again) != 1 || again[0].ID != after[0].ID {
		t.Errorf("%+v", again)
	}
	if m := w.snapshot().Members[0]; m.State != v1alpha1.NodeOnline {
		t.Errorf("the node is %s", m.State)
	}
}

// Who says retry takes back a recreate that could not be done.
func TestRetryTakesAConsentBack(t *testing.T) {
	w := lost(t)
	w.node("n01").Properties[auxRecreate+"hot"] = "serial:S2"
	w.tasks["pool/n01/hot"] = work.State{Refusals: refusalsThatLast, Err: fmt.Errorf("in use")}
	h := w.hold()[0]
	in, r := w.input()
	in.Answer = &Answer{Hold: &h, Option: v1alpha1.OptionRetry}
	if stored, err := in.KeepAnswer(t.Context()); stored || err != nil || len(r.queued) != 1 {
		t.Fatalf("stored %t, %v, %v", stored, err, r.keys())
	}
	delete(w.node("n01").Properties, auxRecreate+"hot")
	in, r = w.input()
	in.Answer = &Answer{Hold: &h, Option: v1alpha1.OptionRetry}
	if stored, err := in.KeepAnswer(t.Context()); !stored || err != nil || !slices.Contains(r.calls, "forget ") {
		t.Errorf("stored %t, %v, %v", stored, err, r.calls)
	}
}

// A node may wait for the disks of several pools at once.
func TestSeveralPoolsAreAskedAboutTogether(t *testing.T) {
	w := manual(t, 1)
	e := onDevices("cold", "C*")
	e.Devices.Approval = v1alpha1.ApprovalManual
	w.cluster.Spec.StoragePools = append(w.cluster.Spec.StoragePools, e)
	w.accept()
	w.node("n01").Devices = append(w.node("n01").Devices, ssdDisk("/dev/sdc", "C1"))
	holds := w.hold()
	if len(holds) != 2 || len(holds[0].Devices) != 1 || len(holds[1].Devices) != 1 || holds[0].Pool == holds[1].Pool {
		t.Fatalf("%+v", holds)
	}
	for _, h := range holds {
		if !strings.Contains(h.Message, "pool "+h.Pool) {
			t.Errorf("the hold of %s says %s", h.Pool, h.Message)
		}
	}
}

// What has no room in the status waits until something was answered.
func TestDisksOfAllHoldsAreBounded(t *testing.T) {
	long := strings.Repeat("x", 100)
	w := manual(t, 1)
	w.cluster.Spec.StoragePools = nil
	var disks []linstor.Device
	for i := range 5 {
		e := onDevices(fmt.Sprintf("pool%d", i), fmt.Sprintf("S%d*", i))
		e.Devices.Approval = v1alpha1.ApprovalManual
		w.cluster.Spec.StoragePools = append(w.cluster.Spec.StoragePools, e)
		for d := range 30 {
			disk := ssdDisk(fmt.Sprintf("/dev/sd%d-%d", i, d), fmt.Sprintf("S%d-%d-%s", i, d, long))
			disk.Model = long
			disks = append(disks, disk)
		}
	}
	w.accept()
	w.node("n01").Devices = disks
	holds := w.hold()
	all := 0
	for _, h := range holds {
		all += deviceBytes(h.Devices)
		if len(h.Devices) != 30 {
			t.Errorf("%d disks", len(h.Devices))
		}
	}
	if len(holds) == 0 || len(holds) == 5 || all > mostAllDeviceBytes {
		t.Errorf("%d holds with %d bytes of disks", len(holds), all)
	}
}

func TestALostPoolOfManyNodesIsTheClustersHold(t *testing.T) {
	w := lost(t)
	verified(looksBeforeLost)(w)
	w.phase(v1alpha1.PhaseStoragePools, 0)
	e := poolLink{}.Evidence(w.snapshot())
	if e.State != Failed || e.Hold.Reason != v1alpha1.HoldPoolBackendLost || len(e.Hold.Devices) != 1 {
		t.Fatalf("%+v", e.Hold)
	}
	h := NewHold(w.snapshot(), e.Hold)
	in, r := w.input()
	in.Answer = &Answer{Hold: h, Option: v1alpha1.OptionRecreate, Cluster: true}
	if stored, err := in.KeepAnswer(t.Context()); stored || err != nil {
		t.Fatalf("stored %t, %v", stored, err)
	}
	if err := r.run(t, "answer/n01/hot"); err != nil {
		t.Error(err)
	}
	if d := cmp.Diff([]string{"node n01 set recreate.hot=serial:S2 del "}, r.calls); d != "" {
		t.Error(d)
	}
}
