package phases

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/work"
)

// withoutEntry is a world of n nodes whose second pool has just been taken out of the spec.
func withoutEntry(t *testing.T, n int) *world {
	w := newWorld(t, n)
	w.cluster.Spec.StoragePools = append(w.cluster.Spec.StoragePools, onDevices("hot", "S*"))
	w.settle()
	w.cluster.Spec.StoragePools = w.cluster.Spec.StoragePools[:1]
	w.accept()
	return w
}

func TestOldPools(t *testing.T) {
	for _, tc := range []struct {
		name  string
		nodes int
		spoil func(*world)
		want  []string
	}{
		{name: "an entry is gone", want: []string{"oldpool/n01/hot", "oldpool/n02/hot"}},
		{name: "somebody else's", spoil: func(w *world) { delete(w.node("n01").Pools["hot"].Properties, auxEntry) }, want: []string{"oldpool/n02/hot"}},
		{name: "another entry has the pool", spoil: func(w *world) {
			e := onDevices("other", "S*")
			e.Pool, e.LVM = "HOT", &v1alpha1.LVMPool{VolumeGroup: "vg_hot"}
			w.cluster.Spec.StoragePools = append(w.cluster.Spec.StoragePools, e)
			w.accept()
		}, want: []string{"pool/n01/HOT", "pool/n02/HOT"}}, // the mark follows
		{name: "the entry leaves a node out", spoil: func(w *world) {
			e := onDevices("hot", "S*")
			e.NodeSelector = map[string]string{corev1.LabelHostname: "n02"}
			w.cluster.Spec.StoragePools = append(w.cluster.Spec.StoragePools, e)
			w.accept()
		}, want: []string{"oldpool/n01/hot"}},
		{name: "a node that leaves", spoil: func(w *world) {
			w.kubeNode("n01").Spec.Taints = []corev1.Taint{{Key: "x", Effect: corev1.TaintEffectNoSchedule}}
		}, want: []string{"oldpool/n02/hot"}},
		{name: "a node that is being emptied", spoil: func(w *world) { w.node("n01").Flags = []string{linstor.FlagEvacuate} }, want: []string{"oldpool/n02/hot"}},
		{name: "a node that is not ONLINE", spoil: func(w *world) { w.node("n01").Status = linstor.StatusOffline }, want: []string{"oldpool/n02/hot"}},
		{name: "a node under maintenance", spoil: func(w *world) {
			w.kubeNode("n01").Annotations = map[string]string{v1alpha1.AnnotationMaintenance: "true"}
		}, want: []string{"oldpool/n02/hot"}},
		{name: "while many nodes are down", nodes: 5, spoil: func(w *world) {
			for _, n := range []string{"n03", "n04", "n05"} {
				w.nodeDown(n, time.Minute)
			}
		}},
		{name: "while a human is asked", spoil: func(w *world) { w.phase(v1alpha1.PhaseHumanIntervention, 0) }},
		{name: "while LINSTOR is silent", spoil: func(w *world) { w.silent(errors.New("x")) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := withoutEntry(t, max(2, tc.nodes))
			if tc.spoil != nil {
				tc.spoil(w)
			}
			in, r := w.input()
			if err := (poolLink{}).Work(t.Context(), in); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(append([]string{}, tc.want...), r.keys()); d != "" {
				t.Error(d)
			}
			if m := in.MemberByName("n02"); tc.name == "an entry is gone" && m.State != v1alpha1.NodeOnline {
				t.Errorf("the node is %s", m.State)
			}
		})
	}
}

func TestRemoveOldPool(t *testing.T) {
	const remove = "delete pool n01/hot"
	mine := &linstor.Pool{Name: "hot", Properties: map[string]string{auxEntry: "hot"}}
	for _, tc := range []struct {
		name  string
		spoil func(*world)
		then  func(*record)
		want  []string
		fails string
	}{
		{name: "empty", want: []string{remove}},
		{name: "gone meanwhile", then: func(r *record) { delete(r.pools, "n01/hot") }},
		{name: "taken over meanwhile", then: func(r *record) { r.pools["n01/hot"] = &linstor.Pool{Name: "hot"} }},
		{name: "no look", then: func(r *record) { r.fail["pool n01/hot"] = errors.New("timeout") }, fails: "timeout"},
		{name: "no list of copies", then: func(r *record) { r.fail["resources"] = errors.New("timeout") }, fails: "timeout"},
		{name: "a copy is in it", then: func(r *record) {
			r.now = &linstor.View{Resources: []linstor.Resource{{Name: "pvc-1", Node: "n01", Pools: []string{"ssd", "HOT"}}}}
		}, fails: "still used by pvc-1"},
		{name: "copies elsewhere", then: func(r *record) {
			r.now = &linstor.View{Resources: []linstor.Resource{{Name: "pvc-1", Node: "n02", Pools: []string{"hot"}}, {Name: "pvc-2", Node: "n01", Pools: []string{"ssd"}}}}
		}, want: []string{remove}},
		{name: "a snapshot is in it", then: func(r *record) { r.fail[remove] = refused(linstor.CodeInUse) }, want: []string{remove}, fails: "volumes or snapshots"},
		{name: "with a consent", spoil: func(w *world) { w.node("n01").Properties[auxApprove+"hot"] = "serial:S1" },
			want: []string{"node n01 set  del " + auxApprove + "hot", remove}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := withoutEntry(t, 2)
			if tc.spoil != nil {
				tc.spoil(w)
			}
			in, r := w.input()
			if err := (poolLink{}).Work(t.Context(), in); err != nil {
				t.Fatal(err)
			}
			r.pools["n01/hot"] = mine
			if tc.then != nil {
				tc.then(r)
			}
			err := r.run(t, "oldpool/n01/hot")
			if (err == nil) != (tc.fails == "") || err != nil && !strings.Contains(err.Error(), tc.fails) {
				t.Errorf("err = %v, want %q", err, tc.fails)
			}
			if d := cmp.Diff(tc.want, r.calls); d != "" {
				t.Error(d)
			}
		})
	}
}

// The recorder folds Events of equal reason and action: each pool that goes, and not only the first of a node, is to be named.
func TestPoolsThatGoAreNamed(t *testing.T) {
	in, r := newWorld(t, 1).input()
	var told []Notice
	in.Announce = func(n Notice) { told = append(told, n) }
	for _, name := range []string{"fast", "tank"} {
		r.pools["n01/"+name] = &linstor.Pool{Name: name, Properties: map[string]string{auxEntry: name}}
		if err := in.removeOldPool(t.Context(), in.Members[0], r.pools["n01/"+name]); err != nil {
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
	w := withoutEntry(t, 2)
	w.tasks["oldpool/n01/hot"] = work.State{Err: &poolInUseError{by: "pvc-1"}}
	m := w.snapshot().Members[0]
	if len(m.Notes) != 1 || m.Notes[0].Reason != "PoolInUse" || !strings.Contains(m.Notes[0].Message, "pvc-1") {
		t.Errorf("%+v", m.Notes)
	}
	if m.State != v1alpha1.NodeOnline || m.Problem != nil {
		t.Errorf("the node is %s: %v", m.State, m.Problem)
	}
}
