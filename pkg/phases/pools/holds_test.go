package pools_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/holdkind"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/hold"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/pools"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/remembered"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

// holdsBegin lets holds begin, as a reconcile in Ready does.
func holdsBegin(w *clustertest.World) []v1alpha1.Hold {
	w.Cluster.Status.NodeHolds = phases.NodeHolds(w.Snapshot(), true, nil)
	return w.Cluster.Status.NodeHolds
}

func TestApprovalHold(t *testing.T) {
	w := manual(t, 3)
	holds := holdsBegin(w)
	if len(holds) != 1 {
		t.Fatalf("%+v", holds)
	}
	h := holds[0]
	if h.Reason != v1alpha1.HoldDeviceApproval || h.Pool != "hot" || h.Count != 3 || len(h.Devices) != 3 ||
		!strings.Contains(h.Resume, ":approve") {
		t.Errorf("%+v", h)
	}
	d := h.Devices[1]
	if d.Node != "n02" || d.Path != "/dev/sdb" || d.Serial != "S1-n02" || d.Size.String() != "1Ti" {
		t.Errorf("%+v", d)
	}
	s := w.Snapshot()
	if m := s.Members[0]; m.State != v1alpha1.NodeHeld {
		t.Errorf("the node is %s", m.State)
	}
	if e := pools.Link().Judge(s); e.State != cluster.Missing || e.Hold != nil ||
		!strings.Contains(e.Message, "3 nodes") {
		t.Errorf("%+v", e)
	}
}

func TestApprovalHoldIsBounded(t *testing.T) {
	w := manual(t, 60)
	h := holdsBegin(w)[0]
	if len(h.Nodes) != hold.MostHeldNodes || int(h.Count) != len(h.Nodes) || len(h.Devices) != hold.MostDevices ||
		!strings.Contains(h.Message, "10 more nodes follow") {
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
		for _, n := range w.Names() {
			w.Node(n).Devices = append(w.Node(n).Devices,
				clustertest.SsdDisk(fmt.Sprintf("/dev/sdx%d", i), fmt.Sprintf("SX%d-%s", i, n)))
		}
	}
	if h := holdsBegin(w)[0]; !slices.Equal(h.Nodes, []string{"n01"}) || h.Count != 1 || len(h.Devices) != 31 {
		t.Errorf("%v of %d, %d disks", h.Nodes, h.Count, len(h.Devices))
	}
}

func TestStandingApprovalHold(t *testing.T) {
	for _, tc := range []struct {
		name  string
		spoil func(*clustertest.World)
		// same reports whether the hold keeps its id.
		same bool
		want []string
	}{
		{name: "nothing happens", same: true, want: []string{"n01", "n02"}},
		{name: "a disk has another name", spoil: func(w *clustertest.World) { w.Node("n01").Devices[0].Path = "/dev/sdz" },
			same: true, want: []string{"n01", "n02"}},
		{name: "a disk comes", spoil: func(w *clustertest.World) {
			w.Node("n01").Devices = append(w.Node("n01").Devices, clustertest.SsdDisk("/dev/sdc", "S2"))
		}, want: []string{"n01", "n02"}},
		{name: "a disk is exchanged", spoil: func(w *clustertest.World) { w.Node("n02").Devices[0].Serial = "S9" },
			want: []string{"n01", "n02"}},
		{name: "a disk goes", spoil: func(w *clustertest.World) { w.Node("n01").Devices = nil }, same: true,
			want: []string{"n02"}},
		{name: "a node is not ONLINE", spoil: func(w *clustertest.World) {
			w.Node("n01").Status, w.Node("n01").DevicesKnown = linstor.StatusOffline, false
		}, same: true, want: []string{"n01", "n02"}},
		{name: "its satellite's pod is gone", spoil: func(w *clustertest.World) {
			delete(w.Kube.Pods[v1alpha1.ComponentSatellite], "n01")
		}, same: true, want: []string{"n01", "n02"}},
		{name: "its satellite has yet to look at the disks", spoil: func(w *clustertest.World) {
			w.Kube.Pods[v1alpha1.ComponentSatellite]["n01"].Status.InitContainerStatuses = nil
		}, same: true, want: []string{"n01", "n02"}},
		{name: "LINSTOR is silent", spoil: func(w *clustertest.World) { w.Silent(fmt.Errorf("x")) }, same: true,
			want: []string{"n01", "n02"}},
		{name: "the pool is there", spoil: func(w *clustertest.World) {
			w.Node("n01").Pools["hot"] = &linstor.Pool{Name: "hot", Provider: "LVM", Backing: "vg_hot"}
		}, same: true, want: []string{"n02"}},
		{name: "the entry leaves a node out", spoil: func(w *clustertest.World) {
			w.Cluster.Spec.StoragePools[0].NodeSelector = map[string]string{"kubernetes.io/hostname": "n02"}
			w.Accept()
		}, same: true, want: []string{"n02"}},
		{name: "the entry says Auto", spoil: func(w *clustertest.World) {
			w.Cluster.Spec.StoragePools[0].Devices.Approval = v1alpha1.ApprovalAuto
			w.Accept()
		}},
		{name: "the entry is gone", spoil: func(w *clustertest.World) { w.Cluster.Spec.StoragePools = nil; w.Accept() }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := manual(t, 2)
			before := holdsBegin(w)[0]
			if tc.spoil != nil {
				tc.spoil(w)
			}
			w.Now = w.Now.Add(1)
			after := holdsBegin(w)
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

// A node that comes later is not in the hold that is open: who answers it has not seen its disks.
func TestLaterNodesGetAHoldOfTheirOwn(t *testing.T) {
	w := manual(t, 2)
	n := w.Node("n02")
	n.Devices, n.DevicesKnown = nil, false
	first := holdsBegin(w)[0]
	n.Devices, n.DevicesKnown = []linstor.Device{clustertest.SsdDisk("/dev/sdb", "S1-n02")}, true
	both := holdsBegin(w)
	if len(both) != 2 || both[0].ID != first.ID || !slices.Equal(both[0].Nodes, []string{"n01"}) ||
		!slices.Equal(both[1].Nodes, []string{"n02"}) {
		t.Fatalf("%+v", both)
	}
	w.Cluster.Status.NodeHolds = phases.NodeHolds(w.Snapshot(), false,
		&hold.Answer{Hold: &first, Option: v1alpha1.OptionApprove})
	w.Now = w.Now.Add(1)
	w.Node("n01").Properties[remembered.PoolApprove+"hot"] = "serial:S1-n01"
	if next := holdsBegin(w); len(next) != 1 || next[0].ID != both[1].ID ||
		!slices.Equal(next[0].Nodes, []string{"n02"}) {
		t.Errorf("%+v", next)
	}
}

func TestApprovalHasNoDeadline(t *testing.T) {
	w := manual(t, 2)
	w.Phase(v1alpha1.PhaseStoragePools, cluster.DefaultTiming().Deadlines["StoragePools"]*2)
	o := step.Wait("CreatingPools", "", 0)
	if h := phases.Overdue(w.Snapshot(), "StoragePools", &o); h != nil {
		t.Errorf("%+v", h)
	}
	w.Node("n02").DevicesKnown = false // nobody has been asked about it yet
	if h := phases.Overdue(w.Snapshot(), "StoragePools", &o); h == nil {
		t.Error("disks may be unknown for ever")
	}
	w.Node("n02").DevicesKnown = true
	holdsBegin(w)
	w.Node("n02").DevicesKnown = false // as while its satellite restarts
	s := w.Snapshot()
	if h := phases.Overdue(s, "StoragePools", &o); h != nil {
		t.Errorf("%+v", h)
	}
	if e := pools.Link().Judge(s); !strings.Contains(e.Message, "disks await approval on 2 nodes") {
		t.Error(e.Message)
	}
	w.Node("n02").DevicesKnown = true
	w.Node("n02").Devices = nil // its disk is missing: that is no question of approval
	if h := phases.Overdue(w.Snapshot(), "StoragePools", &o); h == nil {
		t.Error("a node without disks may take for ever")
	}
}

func TestLostHoldOffersWhatCanBeDone(t *testing.T) {
	w := lost(t)
	verified(pools.LooksBeforeLost)(w)
	h := holdsBegin(w)[0]
	if !slices.Equal(holdkind.Answers(h.Options), []string{v1alpha1.OptionRetry, v1alpha1.OptionRecreate}) ||
		len(h.Devices) != 1 || h.Devices[0].Serial != "S2" {
		t.Errorf("%+v", h)
	}
	w.Node("n01").Devices = nil
	w.Now = w.Now.Add(1)
	after := holdsBegin(w)
	if len(after) != 1 || after[0].ID == h.ID ||
		!slices.Equal(holdkind.Answers(after[0].Options), []string{v1alpha1.OptionRetry}) || len(after[0].Devices) > 0 {
		t.Fatalf("without disks: %+v", after)
	}
	// The storage is back. The pool is used again, and the hold waits for its token all the same.
	size := int64(7)
	p := w.Node("n01").Pools["hot"]
	p.Errors, p.TotalKiB, p.FreeKiB = nil, &size, &size
	if again := holdsBegin(w); len(again) != 1 || again[0].ID != after[0].ID {
		t.Errorf("%+v", again)
	}
	if m := w.Snapshot().Members[0]; m.State != v1alpha1.NodeOnline {
		t.Errorf("the node is %s", m.State)
	}
}

// A node may wait for the disks of several pools at once.
func TestSeveralPoolsAreAskedAboutTogether(t *testing.T) {
	w := manual(t, 1)
	e := clustertest.OnDevices("cold", "C*")
	e.Devices.Approval = v1alpha1.ApprovalManual
	w.Cluster.Spec.StoragePools = append(w.Cluster.Spec.StoragePools, e)
	w.Accept()
	w.Node("n01").Devices = append(w.Node("n01").Devices, clustertest.SsdDisk("/dev/sdc", "C1"))
	holds := holdsBegin(w)
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
	w.Cluster.Spec.StoragePools = nil
	var disks []linstor.Device
	for i := range 5 {
		e := clustertest.OnDevices(fmt.Sprintf("pool%d", i), fmt.Sprintf("S%d*", i))
		e.Devices.Approval = v1alpha1.ApprovalManual
		w.Cluster.Spec.StoragePools = append(w.Cluster.Spec.StoragePools, e)
		for d := range 30 {
			disk := clustertest.SsdDisk(fmt.Sprintf("/dev/sd%d-%d", i, d), fmt.Sprintf("S%d-%d-%s", i, d, long))
			disk.Model = long
			disks = append(disks, disk)
		}
	}
	w.Accept()
	w.Node("n01").Devices = disks
	holds := holdsBegin(w)
	all := 0
	for _, h := range holds {
		all += text.JSONBytes(h.Devices)
		if len(h.Devices) != 30 {
			t.Errorf("%d disks", len(h.Devices))
		}
	}
	if len(holds) == 0 || len(holds) == 5 || all > pools.MostAllDeviceBytes {
		t.Errorf("%d holds with %d bytes of disks", len(holds), all)
	}
}
