package pools_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/pools"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/remembered"
	"github.com/linstor-dev/storagecluster-operator/pkg/work"
)

// lost is a world of one node whose pool "hot", made from disk S1, has lost its volume group; S2 is an empty disk that
// matches.
func lost(t *testing.T) *clustertest.World {
	w := clustertest.Hot(t, clustertest.SsdDisk("/dev/sdc", "S2"))
	w.Register()
	n := w.Node("n01")
	n.Pools["hot"].TotalKiB, n.Pools["hot"].Errors = nil, []string{"Volume group 'vg_hot' not found"}
	n.Devices = []linstor.Device{clustertest.SsdDisk("/dev/sdc", "S2")}
	n.Properties[remembered.PoolIntent+"hot"] = "serial:S1"
	return w
}

func verified(times int) func(*clustertest.World) {
	return func(w *clustertest.World) {
		w.Tasks["pool/n01/hot/verify"] = work.State{Err: errors.New("not there"), Refusals: times}
	}
}

// lostScenarios are about a pool that worked and whose storage LINSTOR cannot use now.
func lostScenarios() []scenario {
	consent := func(text string) func(*clustertest.World) { return remember(remembered.PoolRecreate+"hot", text) }
	maintained := func(w *clustertest.World) {
		w.KubeNode("n01").Annotations = map[string]string{v1alpha1.AnnotationMaintenance: "true"}
	}
	refused := func(w *clustertest.World) {
		consent("serial:S2")(w)
		w.Tasks["pool/n01/hot"] = work.State{Err: errors.New("in use"), Refusals: step.RefusalsThatLast}
	}
	const backendLost = string(v1alpha1.HoldPoolBackendLost)
	looked := verdict{Row: "looked-at", Step: pools.StepVerify, Reason: backendLost, Spare: "serial:S2"}
	lookedAlone := verdict{Row: "looked-at", Step: pools.StepVerify, Reason: backendLost}
	recreate := verdict{Row: "recreate", Step: pools.StepRecreate, Reason: backendLost, Spare: "serial:S2"}
	out := []scenario{
		{name: "first seen", want: looked,
			says: "pool hot: LINSTOR cannot use volume group vg_hot: Volume group 'vg_hot' not found; it was usable before"},
		{name: "seen a few times", spoil: verified(pools.LooksBeforeLost - 1), want: looked},
		{name: "seen often enough", spoil: verified(pools.LooksBeforeLost),
			want: verdict{Row: "lost", Step: pools.StepVerify,
				Reason: backendLost, Spare: "serial:S2", Hold: v1alpha1.HoldPoolBackendLost}},
		{name: "under maintenance", spoil: func(w *clustertest.World) {
			verified(pools.LooksBeforeLost)(w)
			maintained(w)
		}, want: looked},
		{name: "no disks known", spoil: func(w *clustertest.World) {
			verified(pools.LooksBeforeLost)(w)
			w.Node("n01").DevicesKnown = false
		}, want: lookedAlone},
		{name: "disks cannot be listed", spoil: func(w *clustertest.World) {
			verified(pools.LooksBeforeLost)(w)
			w.Node("n01").DevicesKnown, w.Linstor.View.DevicesErr = false, errors.New("timeout")
		}, want: verdict{Row: "lost", Step: pools.StepVerify, Reason: backendLost, Hold: v1alpha1.HoldPoolBackendLost}},
		{name: "consent", spoil: consent("serial:S2"), want: recreate},
		{name: "its disk is there", spoil: func(w *clustertest.World) {
			consent("serial:S2")(w)
			w.Inventory("n01", clustertest.Lsblk("sdb", "S1", "LVM2_member"))
		}, want: lookedAlone, says: "not recreated from /dev/sdc (serial S2) because /dev/sdb (serial S1), " +
			"from which it was created, is present and contains LVM2_member"},
		{name: "its volume group is on another disk", spoil: func(w *clustertest.World) {
			consent("serial:S2")(w)
			w.InventoryOf("n01", `DISKS="2" UDEV="1" VGS=" vg_hot" ZPOOLS=""`, clustertest.Lsblk("sdc", "S2", ""),
				clustertest.Lsblk("sdd", "other", "LVM2_member")+` IN=" vg_hot"`)
		}, want: lookedAlone, says: "because volume group vg_hot already exists on /dev/sdd (serial other); " +
			"if that is outdated, restart the node's satellite pod"},
		{name: "groups that could not be told", spoil: func(w *clustertest.World) {
			w.InventoryOf("n01", `DISKS="1" UDEV="1" VGS=" ?" ZPOOLS=""`, clustertest.Lsblk("sdc", "S2", ""))
		}, want: looked, says: "check first: some volume groups on the node"},
		{name: "its disk was wiped", spoil: func(w *clustertest.World) {
			consent("serial:S1")(w)
			w.Node("n01").Devices = []linstor.Device{clustertest.SsdDisk("/dev/sdb", "S1")}
			w.InventoryOf("n01", `DISKS="1" UDEV="1" VGS=" vg_hot" ZPOOLS=""`,
				clustertest.Lsblk("sdb", "S1", "LVM2_member")+` IN=" vg_hot"`)
		}, want: verdict{Row: "recreate", Step: pools.StepRecreate, Reason: backendLost, Spare: "serial:S1"}},
		{name: "consent to another disk", spoil: consent("serial:S3"), want: looked},
		{name: "consent, refused for long", spoil: refused, want: verdict{Row: "recreate-refused", Step: pools.StepRecreate,
			Reason: backendLost, Spare: "serial:S2", Hold: v1alpha1.HoldPoolBackendLost}, says: "in use"},
		{name: "consent, refused for long, under maintenance", spoil: func(w *clustertest.World) {
			refused(w)
			maintained(w)
		}, want: recreate, says: "in use"},
	}
	for i := range out {
		out[i].world = lost
	}
	return out
}

func TestJudgeLostPool(t *testing.T) {
	for _, tc := range lostScenarios() {
		t.Run(tc.name, tc.check)
	}
}

// A lost pool is only looked at, whatever empty disks are there.
func TestALostPoolIsLeftAlone(t *testing.T) {
	w := lost(t)
	in, r := w.Input()
	if err := pools.Link().Work(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"pool/n01/hot/verify"}, r.Keys()); d != "" {
		t.Fatal(d)
	}
	r.Pools["n01/hot"] = &linstor.Pool{}
	if err := r.Run(t, "pool/n01/hot/verify"); err == nil {
		t.Error("a pool that is away counts as there")
	}
	r.Pools["n01/hot"] = w.Node("n01").Pools["hot"]
	r.Pools["n01/hot"].Errors, r.Pools["n01/hot"].TotalKiB = nil, new(int64)
	*r.Pools["n01/hot"].TotalKiB = 7
	if err := r.Run(t, "pool/n01/hot/verify"); err != nil || len(r.Calls) > 0 {
		t.Errorf("%v %v", err, r.Calls)
	}
}

// Looks that found a pool's storage away are counted in a row: the pool being there, or being gone from LINSTOR, ends
// the count.
func TestLooksAtAPoolThatIsBack(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*clustertest.World)
		forget bool
	}{
		"still lost": {func(*clustertest.World) {}, false},
		"back": {func(w *clustertest.World) {
			p := w.Node("n01").Pools["hot"]
			p.Errors, p.TotalKiB = nil, ptr.To[int64](7)
		}, true},
		"removed": {func(w *clustertest.World) { delete(w.Node("n01").Pools, "hot") }, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := lost(t)
			w.Tasks["pool/n01/hot/verify"] = work.State{Err: errors.New("away"), Refusals: pools.LooksBeforeLost}
			tc.change(w)
			in, r := w.Input()
			if err := pools.Link().Work(t.Context(), in); err != nil {
				t.Fatal(err)
			}
			if got := slices.Contains(r.Calls, "forget pool/n01/hot/verify"); got != tc.forget {
				t.Errorf("forgotten: %t, want %t (%v)", got, tc.forget, r.Calls)
			}
		})
	}
}

func TestRecreatePool(t *testing.T) {
	const (
		intent = "node n01 set backing.hot=vg_hot intent.hot=serial:S2 del "
		remove = "delete pool n01/hot"
		device = "create devices n01 LVM vg_hot from /dev/sdc"
		create = "create pool n01/hot LVM vg_hot"
	)
	for _, tc := range []struct {
		name  string
		spoil func(*clustertest.World)
		then  func(*clustertest.Record)
		want  []string
		fails string
	}{
		{name: "as agreed", want: []string{intent, remove, device, create}},
		{name: "back again", then: func(r *clustertest.Record) {
			size := int64(7)
			r.Pools["n01/hot"] = &linstor.Pool{TotalKiB: &size}
		}},
		{name: "its satellite is being restarted", then: func(r *clustertest.Record) {
			r.Pools["n01/hot"] = &linstor.Pool{NotConnected: true}
		}},
		{name: "deregistered meanwhile", then: func(r *clustertest.Record) { delete(r.Pools, "n01/hot") }},
		{name: "no look", then: func(r *clustertest.Record) { r.Fail["pool n01/hot"] = errors.New("timeout") },
			fails: "timeout"},
		{name: "a copy is in it", then: func(r *clustertest.Record) {
			r.Now = &linstor.View{Resources: []linstor.Resource{{Name: "pvc-1", Node: "n01", Pools: []string{"hot"}}}}
		}, fails: "linstor resource delete n01"},
		{name: "copies not known", then: func(r *clustertest.Record) { r.Fail["resources"] = errors.New("timeout") },
			fails: "timeout"},
		{name: "a snapshot is on the node",
			then:  func(r *clustertest.Record) { r.SnapshotsOf = map[string][]string{"n01": {"pvc-1/daily n01"}} },
			fails: "pvc-1/daily"},
		{name: "snapshots not known", then: func(r *clustertest.Record) { r.Fail["snapshots n01"] = errors.New("timeout") },
			fails: "timeout"},
		{name: "the disk is not empty any more", then: func(r *clustertest.Record) { r.DisksOf["n01"] = nil },
			fails: "approved"},
		{name: "another disk came", then: func(r *clustertest.Record) {
			r.DisksOf["n01"] = append(r.DisksOf["n01"], clustertest.SsdDisk("/dev/sdd", "S3"))
		}, fails: "approved"},
		{name: "volumes that are attached not known",
			then: func(r *clustertest.Record) { r.Live.DisksErr = errors.New("forbidden") }, fails: "forbidden"},
		{name: "disks not known", then: func(r *clustertest.Record) { r.Fail["devices n01"] = errors.New("timeout") },
			fails: "timeout"},
		{name: "the old disk is another pool's",
			spoil: func(w *clustertest.World) { w.Inventory("n01", clustertest.Lsblk("sdb", "X1", "LVM2_member")) },
			want:  []string{intent, remove, device, create}},
		{name: "the intent is not stored", then: func(r *clustertest.Record) { r.Fail[intent] = errors.New("no database") },
			want: []string{intent}, fails: "no database"},
		{name: "LINSTOR refuses",
			then: func(r *clustertest.Record) { r.Fail[remove] = clustertest.Refused(linstor.CodeInUse) },
			want: []string{intent, remove}, fails: "997"},
		{name: "the volume group is there after all",
			then: func(r *clustertest.Record) { r.Fail[device] = errors.New("vgcreate failed") },
			want: []string{intent, remove, device}, fails: "vgcreate"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := lost(t)
			w.Node("n01").Properties[remembered.PoolRecreate+"hot"] = "serial:S2"
			if tc.spoil != nil {
				tc.spoil(w)
			}
			in, r := w.Input()
			if err := pools.Link().Work(t.Context(), in); err != nil {
				t.Fatal(err)
			}
			r.Pools["n01/hot"], r.DisksOf["n01"] = &linstor.Pool{}, []linstor.Device{clustertest.SsdDisk("/dev/sdc", "S2")}
			if tc.then != nil {
				tc.then(r)
			}
			err := r.Run(t, "pool/n01/hot")
			if (err == nil) != (tc.fails == "") || err != nil && !strings.Contains(err.Error(), tc.fails) {
				t.Errorf("err = %v, want %q", err, tc.fails)
			}
			if d := cmp.Diff(tc.want, r.Calls); d != "" {
				t.Error(d)
			}
		})
	}
}

// A pool is registered as one that works. If LINSTOR finds nothing behind it, the mark goes, and it is no lost pool
// later.
func TestTheMarkOfAPoolThatNeverWorked(t *testing.T) {
	for name, fail := range map[string]error{
		"no volume group":                   clustertest.Refused(linstor.CodePoolConfiguration),
		"the satellite went away meanwhile": clustertest.Refused(0),
		"no answer":                         errors.New("connection reset"),
	} {
		t.Run(name, func(t *testing.T) {
			w := plain(t)
			delete(w.Node("n01").Pools, "ssd")
			in, r := w.Input()
			if err := pools.Link().Work(t.Context(), in); err != nil {
				t.Fatal(err)
			}
			r.Fail["create pool n01/ssd LVM_THIN vg/thin"] = fail
			if err := r.Run(t, "pool/n01/ssd"); !errors.Is(err, fail) {
				t.Errorf("err = %v", err)
			}
			if d := cmp.Diff([]string{"create pool n01/ssd LVM_THIN vg/thin", "pool n01/ssd set  del " + remembered.Worked},
				r.Calls); d != "" {
				t.Error(d)
			}
		})
	}
}

// A pool that an older operator made, or that was there before, gets its mark once it is seen to work, and not before.
func TestTheMarkOfAnExistingPool(t *testing.T) {
	w := clustertest.NeverWorked(t)
	if p := w.Snapshot().Members[0].Pools[0]; p.Step != pools.StepModify || p.Change.Set[remembered.Worked] != "true" {
		t.Errorf("step %q, change %+v", p.Step, p.Change)
	}
	w.Node("n01").Pools["ssd"].TotalKiB = nil
	if p := w.Snapshot().Members[0].Pools[0]; p.Step != pools.StepRepair {
		t.Errorf("step %q", p.Step)
	}
}

func TestAConsentCountsOnce(t *testing.T) {
	w := lost(t)
	w.Register()
	w.Node("n01").Properties[remembered.PoolRecreate+"hot"] = "serial:S2"
	in, r := w.Input()
	if m := in.Snapshot.Members[0]; m.State != v1alpha1.NodeOnline || m.Pools[0].Step != pools.StepForget {
		t.Fatalf("%s, step %q", m.State, m.Pools[0].Step)
	}
	if err := pools.Link().Work(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	if err := r.Run(t, "pool/n01/hot"); err != nil {
		t.Error(err)
	}
	if d := cmp.Diff([]string{"node n01 set  del " + remembered.PoolRecreate + "hot"}, r.Calls); d != "" {
		t.Error(d)
	}
}

// Nothing else that the operator does cannot be taken back: each disk that it takes is told.
func TestDisksAreTold(t *testing.T) {
	s1 := linstor.Device{Path: "/dev/sdb", Serial: "S1", SizeBytes: 960 << 30}
	s2 := linstor.Device{Path: "/dev/sdc", Serial: "S2", SizeBytes: 960 << 30}
	w := clustertest.Hot(t, s1, s2)
	run := func(now ...linstor.Device) ([]step.Notice, map[string]string) {
		in, r := w.Input()
		var told []step.Notice
		in.Announce = func(n step.Notice) { told = append(told, n) }
		if err := pools.Link().Work(t.Context(), in); err != nil || len(r.Queued) != 1 {
			t.Fatalf("%v, tasks %v", err, r.Keys())
		}
		r.DisksOf["n01"] = now
		if err := r.Run(t, r.Queued[0].Key); err != nil {
			t.Fatal(err)
		}
		return told, pools.NewIntent(in.Snapshot, in.Snapshot.Members[0].Pools[0], now)
	}
	want := []step.Notice{
		{Reason: "PoolCreated", Action: "/dev/sdb on n01",
			Note: "pool hot on node n01 was created from /dev/sdb (serial S1, 960Gi)"},
		{Reason: "PoolCreated", Action: "/dev/sdc on n01",
			Note: "pool hot on node n01 was created from /dev/sdc (serial S2, 960Gi)"},
	}
	told, intent := run(s1, s2)
	if d := cmp.Diff(want, told); d != "" {
		t.Error(d)
	}
	// The operator was stopped after the disks were made ready.
	for key, value := range intent {
		w.Node("n01").Properties[key] = value
	}
	w.Node("n01").Devices = nil
	told, _ = run()
	if d := cmp.Diff(want, told); d != "" {
		t.Errorf("finished later: %s", d)
	}
	w.Register()
	for key, value := range intent {
		w.Node("n01").Properties[key] = value
	}
	if made := w.Snapshot().Members[0].Pools[0].Made; made == nil || made.Count != 2 || made.Disks[1].Serial != "S2" ||
		!made.At.Equal(clustertest.Begin) {
		t.Errorf("made from %+v", made)
	}
	w.Node("n01").Properties[remembered.PoolBacking+"hot"] = "vg_other"
	if made := w.Snapshot().Members[0].Pools[0].Made; made != nil {
		t.Errorf("another group's disks: %+v", made)
	}
}

// LINSTOR stores no values of more than 4096 characters.
func TestManyDisksFitIntoAProperty(t *testing.T) {
	w := clustertest.Hot(t)
	in, _ := w.Input()
	var many []linstor.Device
	for range 200 {
		many = append(many, linstor.Device{Path: "/dev/nvme100n1", Serial: strings.Repeat("S", 40),
			WWN: "eui." + strings.Repeat("0", 32), SizeBytes: 1 << 50})
	}
	if got := len(pools.NewIntent(in.Snapshot, in.Snapshot.Members[0].Pools[0],
		many)[remembered.PoolDisks+"hot"]); got > 4096 {
		t.Errorf("%d characters", got)
	}
}
