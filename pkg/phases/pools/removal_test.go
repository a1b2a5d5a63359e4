package pools_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/pools"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/remembered"
	"github.com/linstor-dev/storagecluster-operator/pkg/work"
)

func TestOldPools(t *testing.T) {
	for _, tc := range []struct {
		name  string
		nodes int
		spoil func(*clustertest.World)
		want  []string
	}{
		{name: "an entry is gone", want: []string{"oldpool/n01/hot", "oldpool/n02/hot"}},
		{name: "somebody else's",
			spoil: func(w *clustertest.World) { delete(w.Node("n01").Pools["hot"].Properties, remembered.Entry) },
			want:  []string{"oldpool/n02/hot"}},
		{name: "another entry has the pool", spoil: func(w *clustertest.World) {
			e := clustertest.OnDevices("other", "S*")
			e.Pool, e.LVM = "HOT", &v1alpha1.LVMPool{VolumeGroup: "vg_hot"}
			w.Cluster.Spec.StoragePools = append(w.Cluster.Spec.StoragePools, e)
			w.Accept()
		}, want: []string{"pool/n01/HOT", "pool/n02/HOT"}}, // the mark follows
		{name: "it had answers", spoil: func(w *clustertest.World) {
			w.Node("n01").Properties[remembered.PoolSkip+"hot"] = "h-1"
		}, want: []string{"forget/n01", "oldpool/n01/hot", "oldpool/n02/hot"}},
		{name: "the entry leaves a node out", spoil: func(w *clustertest.World) {
			e := clustertest.OnDevices("hot", "S*")
			e.NodeSelector = map[string]string{corev1.LabelHostname: "n02"}
			w.Cluster.Spec.StoragePools = append(w.Cluster.Spec.StoragePools, e)
			w.Accept()
		}, want: []string{"oldpool/n01/hot"}},
		{name: "a node that leaves", spoil: func(w *clustertest.World) {
			w.KubeNode("n01").Spec.Taints = []corev1.Taint{{Key: "x", Effect: corev1.TaintEffectNoSchedule}}
		}, want: []string{"oldpool/n02/hot"}},
		{name: "a node that is being emptied", spoil: func(w *clustertest.World) {
			w.Node("n01").Flags = []string{linstor.FlagEvacuate}
		}, want: []string{"oldpool/n02/hot"}},
		{name: "a node that is not ONLINE", spoil: func(w *clustertest.World) {
			w.Node("n01").Status = linstor.StatusOffline
		}, want: []string{"oldpool/n02/hot"}},
		{name: "a node under maintenance", spoil: func(w *clustertest.World) {
			w.KubeNode("n01").Annotations = map[string]string{v1alpha1.AnnotationMaintenance: "true"}
		}, want: []string{"oldpool/n02/hot"}},
		{name: "while many nodes are down", nodes: 5, spoil: func(w *clustertest.World) {
			for _, n := range []string{"n03", "n04", "n05"} {
				w.NodeDown(n, time.Minute)
			}
		}},
		{name: "while a human is asked", spoil: func(w *clustertest.World) { w.Phase(v1alpha1.PhaseHumanIntervention, 0) }},
		{name: "while LINSTOR is silent", spoil: func(w *clustertest.World) { w.Silent(errors.New("x")) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := clustertest.WithoutEntry(t, max(2, tc.nodes))
			if tc.spoil != nil {
				tc.spoil(w)
			}
			in, r := w.Input()
			if err := pools.Link().Work(t.Context(), in); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(append([]string{}, tc.want...), r.Keys()); d != "" {
				t.Error(d)
			}
			if m := in.Snapshot.MemberByName("n02"); tc.name == "an entry is gone" && m.State != v1alpha1.NodeOnline {
				t.Errorf("the node is %s", m.State)
			}
		})
	}
}

func TestRemoveOldPool(t *testing.T) {
	const remove = "delete pool n01/hot"
	mine := &linstor.Pool{Name: "hot", Properties: map[string]string{remembered.Entry: "hot"}}
	for _, tc := range []struct {
		name  string
		spoil func(*clustertest.World)
		then  func(*clustertest.Record)
		want  []string
		fails string
	}{
		{name: "empty", want: []string{remove}},
		{name: "gone meanwhile", then: func(r *clustertest.Record) { delete(r.Pools, "n01/hot") }},
		{name: "taken over meanwhile",
			then: func(r *clustertest.Record) { r.Pools["n01/hot"] = &linstor.Pool{Name: "hot"} }},
		{name: "no look", then: func(r *clustertest.Record) { r.Fail["pool n01/hot"] = errors.New("timeout") },
			fails: "timeout"},
		{name: "no list of copies", then: func(r *clustertest.Record) { r.Fail["resources"] = errors.New("timeout") },
			fails: "timeout"},
		{name: "a copy is in it", then: func(r *clustertest.Record) {
			r.Now = &linstor.View{Resources: []linstor.Resource{{Name: "pvc-1", Node: "n01", Pools: []string{"ssd", "HOT"}}}}
		}, fails: "still in use by pvc-1"},
		{name: "copies elsewhere", then: func(r *clustertest.Record) {
			r.Now = &linstor.View{Resources: []linstor.Resource{{Name: "pvc-1", Node: "n02", Pools: []string{"hot"}},
				{Name: "pvc-2", Node: "n01", Pools: []string{"ssd"}}}}
		}, want: []string{remove}},
		{name: "a snapshot is in it",
			then: func(r *clustertest.Record) { r.Fail[remove] = clustertest.Refused(linstor.CodeInUse) },
			want: []string{remove}, fails: "volumes or snapshots"},
		{name: "with a consent",
			spoil: func(w *clustertest.World) { w.Node("n01").Properties[remembered.PoolApprove+"hot"] = "serial:S1" },
			want:  []string{"node n01 set  del " + remembered.PoolApprove + "hot", remove}},
		{name: "made from disks",
			spoil: func(w *clustertest.World) { w.Node("n01").Properties[remembered.PoolIntent+"hot"] = "serial:S1" },
			want:  []string{"node n01 set removed.hot=serial:S1 del ", remove}},
		{name: "made from disks, and tried before", spoil: func(w *clustertest.World) {
			props := w.Node("n01").Properties
			props[remembered.PoolIntent+"hot"], props[remembered.PoolRemoved+"hot"] = "serial:S1", "serial:S1"
		}, want: []string{remove}},
		{name: "the mark is not stored",
			spoil: func(w *clustertest.World) { w.Node("n01").Properties[remembered.PoolIntent+"hot"] = "serial:S1" },
			then: func(r *clustertest.Record) {
				r.Fail["node n01 set removed.hot=serial:S1 del "] = errors.New("no database")
			},
			want: []string{"node n01 set removed.hot=serial:S1 del "}, fails: "no database"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := clustertest.WithoutEntry(t, 2)
			if tc.spoil != nil {
				tc.spoil(w)
			}
			in, r := w.Input()
			if err := pools.Link().Work(t.Context(), in); err != nil {
				t.Fatal(err)
			}
			r.Pools["n01/hot"] = mine
			if tc.then != nil {
				tc.then(r)
			}
			err := r.Run(t, "oldpool/n01/hot")
			if (err == nil) != (tc.fails == "") || err != nil && !strings.Contains(err.Error(), tc.fails) {
				t.Errorf("err = %v, want %q", err, tc.fails)
			}
			if d := cmp.Diff(tc.want, r.Calls); d != "" {
				t.Error(d)
			}
		})
	}
}

// The recorder folds Events of equal reason and action: each pool that goes, and not only the first of a node, is to
// be named.
func TestPoolsThatGoAreNamed(t *testing.T) {
	in, r := clustertest.NewWorld(t, 1).Input()
	var told []step.Notice
	in.Announce = func(n step.Notice) { told = append(told, n) }
	for _, name := range []string{"fast", "tank"} {
		r.Pools["n01/"+name] = &linstor.Pool{Name: name, Properties: map[string]string{remembered.Entry: name}}
		if err := pools.RemoveOldPool(t.Context(), in, in.Snapshot.Members[0], r.Pools["n01/"+name]); err != nil {
			t.Fatal(err)
		}
	}
	if len(told) != 2 || told[0].Reason != told[1].Reason || told[0].Action == told[1].Action {
		t.Errorf("%+v", told)
	}
	for i, name := range []string{"fast", "tank"} {
		if !strings.Contains(told[i].Note, name) || !strings.Contains(told[i].Note, "n01") {
			t.Errorf("pool %s: %s", name, told[i].Note)
		}
	}
}

func TestAPoolInUseIsTold(t *testing.T) {
	w := clustertest.WithoutEntry(t, 2)
	w.Tasks["oldpool/n01/hot"] = work.State{Err: &pools.PoolInUseError{By: "pvc-1"}}
	m := w.Snapshot().Members[0]
	if len(m.Notes) != 1 || m.Notes[0].Reason != "PoolInUse" || !strings.Contains(m.Notes[0].Message, "pvc-1") {
		t.Errorf("%+v", m.Notes)
	}
	if m.State != v1alpha1.NodeOnline || m.Problem != nil {
		t.Errorf("the node is %s: %v", m.State, m.Problem)
	}
}

// TestAnswersGoWithTheirEntry: the same name added later is another question.
func TestAnswersGoWithTheirEntry(t *testing.T) {
	w := clustertest.WithoutEntry(t, 1)
	for _, prefix := range []string{remembered.PoolSkip, remembered.PoolUseExisting, remembered.PoolApprove,
		remembered.PoolRecreate} {
		w.Node("n01").Properties[prefix+"hot"] = "kept"
	}
	in, r := w.Input()
	if err := pools.Link().Work(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	if err := r.Run(t, "forget/n01"); err != nil {
		t.Fatal(err)
	}
	want := "node n01 set  del " + strings.Join([]string{remembered.PoolApprove + "hot", remembered.PoolRecreate + "hot",
		remembered.PoolSkip + "hot", remembered.PoolUseExisting + "hot"}, ",")
	if d := cmp.Diff([]string{want}, r.Calls); d != "" {
		t.Error(d)
	}
}
