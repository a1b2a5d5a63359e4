package pools_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/pools"
	"github.com/linstor-dev/storagecluster-operator/pkg/remembered"
)

// What a task does, step by step, on what LINSTOR says at that moment.
func TestPoolWork(t *testing.T) {
	const device = "create devices n01 LVM vg_hot from /dev/sdb"
	notThere := func(*clustertest.Record) {}
	for _, tc := range []struct {
		name  string
		w     func(t *testing.T) *clustertest.World
		spoil func(*clustertest.World)
		then  func(*clustertest.Record) // what changes until the task runs
		want  []string
		fails string // part of the error
	}{
		{name: "register", w: plain, spoil: func(w *clustertest.World) { delete(w.Node("n01").Pools, "ssd") },
			then: notThere, want: []string{"create pool n01/ssd LVM_THIN vg/thin"}},
		{name: "register what somebody has registered meanwhile", w: plain,
			spoil: func(w *clustertest.World) { delete(w.Node("n01").Pools, "ssd") },
			then: func(r *clustertest.Record) {
				r.Fail["create pool n01/ssd LVM_THIN vg/thin"] = clustertest.Refused(linstor.CodePoolExists)
			}, want: []string{"create pool n01/ssd LVM_THIN vg/thin"}},
		{name: "repair", w: clustertest.NeverWorked,
			spoil: func(w *clustertest.World) { w.Node("n01").Pools["ssd"].TotalKiB = nil },
			then:  func(r *clustertest.Record) { r.Pools["n01/ssd"] = &linstor.Pool{} }, want: []string{"delete pool n01/ssd",
				"create pool n01/ssd LVM_THIN vg/thin"}},
		{name: "repair what is well meanwhile", w: clustertest.NeverWorked,
			spoil: func(w *clustertest.World) { w.Node("n01").Pools["ssd"].TotalKiB = nil },
			then:  func(r *clustertest.Record) { r.Pools["n01/ssd"] = &linstor.Pool{TotalKiB: ptr.To[int64](1)} }},
		{name: "repair what nobody can look at", w: clustertest.NeverWorked,
			spoil: func(w *clustertest.World) { w.Node("n01").Pools["ssd"].TotalKiB = nil },
			then:  func(r *clustertest.Record) { r.Pools["n01/ssd"] = &linstor.Pool{NotConnected: true} }},
		{name: "repair what is gone meanwhile", w: clustertest.NeverWorked,
			spoil: func(w *clustertest.World) { w.Node("n01").Pools["ssd"].TotalKiB = nil }, then: notThere,
			want: []string{"create pool n01/ssd LVM_THIN vg/thin"}},
		{name: "repair of a pool in use is refused by LINSTOR", w: clustertest.NeverWorked,
			spoil: func(w *clustertest.World) { w.Node("n01").Pools["ssd"].TotalKiB = nil },
			then: func(r *clustertest.Record) {
				r.Pools["n01/ssd"] = &linstor.Pool{}
				r.Fail["delete pool n01/ssd"] = clustertest.Refused(linstor.CodeInUse)
			}, want: []string{"delete pool n01/ssd"}, fails: "997"},
		{name: "repair without a look", w: clustertest.NeverWorked,
			spoil: func(w *clustertest.World) { w.Node("n01").Pools["ssd"].TotalKiB = nil },
			then:  func(r *clustertest.Record) { r.Fail["pool n01/ssd"] = errors.New("timeout") }, fails: "timeout"},
		{name: "modify", w: plain, spoil: func(w *clustertest.World) {
			w.Cluster.Spec.StoragePools[0].Properties = map[string]string{"PrefNic": "storage"}
			w.Accept()
		}, then: notThere, want: []string{"pool n01/ssd set PrefNic=storage del "}},
		{name: "devices: intent, device step, pool", w: hot(clustertest.SsdDisk("/dev/sdb", "S1")),
			then: func(r *clustertest.Record) {
				r.DisksOf["n01"] = []linstor.Device{clustertest.SsdDisk("/dev/sdb", "S1")}
			},
			want: []string{"node n01 set backing.hot=vg_hot intent.hot=serial:S1 del ", device,
				"create pool n01/hot LVM vg_hot"}},
		{name: "devices: the name moved at a reboot", w: hot(clustertest.SsdDisk("/dev/sdx", "S1")),
			then: func(r *clustertest.Record) {
				r.DisksOf["n01"] = []linstor.Device{clustertest.SsdDisk("/dev/sdb", "S1"),
					clustertest.SsdDisk("/dev/sdx", "other")}
			},
			want: []string{"node n01 set backing.hot=vg_hot intent.hot=serial:S1 del ", device,
				"create pool n01/hot LVM vg_hot"}},
		{name: "devices: no longer empty", w: hot(clustertest.SsdDisk("/dev/sdb", "S1")), then: notThere, fails: "changed"},
		{name: "devices: another disk came", w: hot(clustertest.SsdDisk("/dev/sdb", "S1")),
			then: func(r *clustertest.Record) {
				r.DisksOf["n01"] = []linstor.Device{clustertest.SsdDisk("/dev/sdb", "S1"), clustertest.SsdDisk("/dev/sdc", "S2")}
			}, fails: "changed"},
		{name: "devices: another disk came after a crash",
			w:     hot(clustertest.SsdDisk("/dev/sdb", "S1"), clustertest.SsdDisk("/dev/sdc", "S2")),
			spoil: func(w *clustertest.World) { w.Node("n01").Properties[remembered.PoolIntent+"hot"] = "serial:S1" },
			then: func(r *clustertest.Record) {
				r.DisksOf["n01"] = []linstor.Device{clustertest.SsdDisk("/dev/sdb", "S1"), clustertest.SsdDisk("/dev/sdc", "S2")}
			},
			want: []string{device, "create pool n01/hot LVM vg_hot"}},
		{name: "devices: the pool is there meanwhile", w: hot(clustertest.SsdDisk("/dev/sdb", "S1")),
			then: func(r *clustertest.Record) {
				r.Pools["n01/hot"] = &linstor.Pool{}
				r.DisksOf["n01"] = []linstor.Device{clustertest.SsdDisk("/dev/sdb", "S1")}
			}},
		{name: "devices: no look, no step", w: hot(clustertest.SsdDisk("/dev/sdb", "S1")),
			then: func(r *clustertest.Record) { r.Fail["devices n01"] = errors.New("timeout") }, fails: "timeout"},
		{name: "devices: pool not looked up, no step", w: hot(clustertest.SsdDisk("/dev/sdb", "S1")),
			then: func(r *clustertest.Record) { r.Fail["pool n01/hot"] = errors.New("timeout") }, fails: "timeout"},
		{name: "devices: no intent, no step", w: hot(clustertest.SsdDisk("/dev/sdb", "S1")),
			then: func(r *clustertest.Record) {
				r.DisksOf["n01"] = []linstor.Device{clustertest.SsdDisk("/dev/sdb", "S1")}
				r.Fail["node n01 set backing.hot=vg_hot intent.hot=serial:S1 del "] = errors.New("no database")
			}, want: []string{"node n01 set backing.hot=vg_hot intent.hot=serial:S1 del "}, fails: "no database"},
		{name: "devices: step failed, no pool", w: hot(clustertest.SsdDisk("/dev/sdb", "S1")),
			then: func(r *clustertest.Record) {
				r.DisksOf["n01"] = []linstor.Device{clustertest.SsdDisk("/dev/sdb", "S1")}
				r.Fail[device] = errors.New("pvcreate failed")
			}, want: []string{"node n01 set backing.hot=vg_hot intent.hot=serial:S1 del ", device}, fails: "pvcreate failed"},
		{name: "finish", w: hot(), spoil: func(w *clustertest.World) {
			w.Node("n01").Properties[remembered.PoolIntent+"hot"] = "serial:S1"
		}, then: notThere,
			want: []string{"create pool n01/hot LVM vg_hot"}},
		{name: "finish: the entry was added again", w: hot(), spoil: func(w *clustertest.World) {
			props := w.Node("n01").Properties
			props[remembered.PoolIntent+"hot"], props[remembered.PoolRemoved+"hot"] = "serial:S1", "serial:S1"
		}, then: notThere, want: []string{"node n01 set  del " + remembered.PoolRemoved + "hot",
			"create pool n01/hot LVM vg_hot"}},
		{name: "finish: still empty after all", w: hot(),
			spoil: func(w *clustertest.World) { w.Node("n01").Properties[remembered.PoolIntent+"hot"] = "serial:S1" },
			then: func(r *clustertest.Record) {
				r.DisksOf["n01"] = []linstor.Device{clustertest.SsdDisk("/dev/sdb", "S1")}
			}, fails: "still empty"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := tc.w(t)
			if tc.spoil != nil {
				tc.spoil(w)
			}
			in, r := w.Input()
			if err := pools.Link().Work(t.Context(), in); err != nil || len(r.Queued) != 1 {
				t.Fatalf("%v, tasks %v", err, r.Keys())
			}
			tc.then(r)
			err := r.Run(t, r.Queued[0].Key)
			if (err == nil) != (tc.fails == "") || err != nil && !strings.Contains(err.Error(), tc.fails) {
				t.Errorf("err = %v, want %q", err, tc.fails)
			}
			if d := cmp.Diff(tc.want, r.Calls); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestPoolWorkLeavesAlone(t *testing.T) {
	for name, spoil := range map[string]func(*clustertest.World){
		"a node that is not ONLINE": func(w *clustertest.World) { w.Node("n01").Status = linstor.StatusOffline },
		"a node that leaves": func(w *clustertest.World) {
			w.KubeNode("n01").Spec.Taints = []corev1.Taint{{Key: "x", Effect: corev1.TaintEffectNoSchedule}}
		},
		"a pool that is held": func(w *clustertest.World) {
			w.Cluster.Status.NodeHolds = []v1alpha1.Hold{{ID: "h", Pool: "hot", Nodes: []string{"n01"}, Count: 1}}
		},
		"all while LINSTOR is silent": func(w *clustertest.World) { w.Silent(errors.New("x")) },
	} {
		w := clustertest.Hot(t, clustertest.SsdDisk("/dev/sdb", "S1"))
		spoil(w)
		in, r := w.Input()
		if err := pools.Link().Work(t.Context(), in); err != nil || len(r.Queued)+len(r.Calls) > 0 {
			t.Errorf("%s: %v %v %v", name, err, r.Keys(), r.Calls)
		}
	}
}

func TestADiskForTwoPoolsIsUsedByNone(t *testing.T) {
	w := clustertest.Hot(t, clustertest.SsdDisk("/dev/sdb", "S1"))
	w.Cluster.Spec.StoragePools = append(w.Cluster.Spec.StoragePools, clustertest.OnDevices("cold", "*1"))
	w.Accept()
	in, r := w.Input()
	if err := pools.Link().Work(t.Context(), in); err != nil || len(r.Queued) > 0 {
		t.Errorf("%v %v", err, r.Keys())
	}
	clustertest.CheckEvidence(t, pools.Link().Judge(in.Snapshot), cluster.Failed, "PoolConflict", false,
		v1alpha1.HoldPoolConflict)
}

func TestFullPools(t *testing.T) {
	const gib = 1 << 20 // in KiB
	for _, tc := range []struct {
		name  string
		free  map[string]*int64 // by node, of 100 GiB
		warn  int32
		now   metav1.ConditionStatus
		want  []pools.FullPool
		total *int64
	}{
		{name: "at the limit", free: map[string]*int64{"n01": ptr.To[int64](15 * gib)}},
		{name: "above", free: map[string]*int64{"n01": ptr.To[int64](15*gib - 1)},
			want: []pools.FullPool{{"ssd", "n01", 86, 85}}},
		{name: "full", free: map[string]*int64{"n01": ptr.To[int64](0)}, want: []pools.FullPool{{"ssd", "n01", 100, 85}}},
		{name: "the fullest first", free: map[string]*int64{"n01": ptr.To[int64](10 * gib), "n02": ptr.To[int64](3 * gib)},
			want: []pools.FullPool{{"ssd", "n02", 97, 85}, {"ssd", "n01", 90, 85}}},
		{name: "the entry's limit", warn: 30, free: map[string]*int64{"n01": ptr.To[int64](65 * gib),
			"n02": ptr.To[int64](75 * gib)}, want: []pools.FullPool{{"ssd", "n01", 35, 30}}},
		{name: "a little below while the condition is True", now: metav1.ConditionTrue,
			free: map[string]*int64{"n01": ptr.To[int64](16 * gib)}, want: []pools.FullPool{{"ssd", "n01", 84, 85}}},
		{name: "well below while the condition is True", now: metav1.ConditionTrue,
			free: map[string]*int64{"n01": ptr.To[int64](17 * gib)}},
		{name: "a little below while it is not", now: metav1.ConditionFalse,
			free: map[string]*int64{"n01": ptr.To[int64](16 * gib)}},
		{name: "more free than there is", free: map[string]*int64{"n01": ptr.To[int64](200 * gib)}},
		{name: "unknown", free: map[string]*int64{"n01": nil}},
		{name: "broken", free: map[string]*int64{"n01": ptr.To[int64](0)}, total: ptr.To[int64](0)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := clustertest.NewWorld(t, 2)
			w.Cluster.Spec.StoragePools[0].WarnUsedPercent = tc.warn
			w.Accept()
			if tc.now != "" {
				w.Condition(conditions.PoolsNearlyFull, tc.now, time.Hour)
			}
			for _, n := range []string{"n01", "n02"} {
				p := w.Node(n).Pools["ssd"]
				p.TotalKiB, p.FreeKiB = ptr.To[int64](100*gib), ptr.To[int64](90*gib)
				if free, set := tc.free[n]; set {
					p.FreeKiB = free
				}
				if tc.total != nil {
					p.TotalKiB = tc.total
				}
			}
			if d := cmp.Diff(tc.want, pools.Full(w.Snapshot())); d != "" {
				t.Error(d)
			}
		})
	}
}
