package leaving_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/hold"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/leaving"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/replica"
	"github.com/linstor-dev/storagecluster-operator/pkg/remembered"
	"github.com/linstor-dev/storagecluster-operator/test/drbd/states"
)

// later is LINSTOR's view after something that the snapshot does not know yet.
func later(w *clustertest.World, change func(*linstor.View, *linstor.Node)) *linstor.View {
	v := *w.Linstor.View
	v.Nodes = map[string]*linstor.Node{}
	for k, n := range w.Linstor.View.Nodes {
		v.Nodes[k] = n
	}
	n := *v.Nodes["n01"]
	n.Properties = map[string]string{}
	for k, p := range v.Nodes["n01"].Properties {
		n.Properties[k] = p
	}
	v.Nodes["n01"] = &n
	change(&v, &n)
	return &v
}

func TestEvacuationIsAskedForOnce(t *testing.T) {
	noted := "node n01 set evacuate=" + clustertest.Begin.Format(time.RFC3339Nano) + " del "
	for _, tc := range []struct {
		name string
		now  func(*linstor.View, *linstor.Node)
		want []string
	}{
		{"nothing has happened", func(*linstor.View, *linstor.Node) {}, []string{noted, "evacuate node n01"}},
		{"LINSTOR does it already", func(_ *linstor.View, n *linstor.Node) { n.Flags = []string{linstor.FlagEvacuate} },
			nil},
		{"another task asked", func(_ *linstor.View, n *linstor.Node) {
			n.Properties[remembered.EvacuateAsked] = clustertest.Ago(time.Second)
		}, nil},
		{"the node came back", func(_ *linstor.View, n *linstor.Node) {
			delete(n.Properties, remembered.LeavingAdmitted)
		}, nil},
		{"it is another node", func(_ *linstor.View, n *linstor.Node) { n.UUID = "new" }, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := clustertest.Going(t)
			in, r := w.Input()
			if err := clustertest.RunLeave(t, in, r, later(w, tc.now)); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tc.want, r.Calls); d != "" {
				t.Error(d)
			}
		})
	}
}

// What would be lost is looked at once more, right before.
func TestEvacuationLooksForLastCopiesFirst(t *testing.T) {
	w := clustertest.Going(t)
	in, r := w.Input()
	err := clustertest.RunLeave(t, in, r, later(w, func(v *linstor.View, _ *linstor.Node) {
		v.Resources = states.Copies("a@n01 Outdated", "a@n02 -")
	}))
	var last *replica.LastReplicaError
	if !errors.As(err, &last) || len(r.Calls) > 0 {
		t.Errorf("error %v, calls %v", err, r.Calls)
	}
	in, r = w.Input()
	r.Fail["resources"] = errors.New("refused")
	if err := clustertest.RunLeave(t, in, r, w.Linstor.View); err == nil || len(r.Calls) > 0 {
		t.Errorf("error %v, calls %v: what is not known is not fine", err, r.Calls)
	}
}

// The note comes first: if it cannot be written, LINSTOR is not asked; if LINSTOR's answer is lost, the note stays.
func TestEvacuationIsNotedFirst(t *testing.T) {
	noted := "node n01 set evacuate=" + clustertest.Begin.Format(time.RFC3339Nano) + " del "
	w := clustertest.Going(t)
	in, r := w.Input()
	r.Fail[noted] = errors.New("cut")
	if err := clustertest.RunLeave(t, in, r, w.Linstor.View); err == nil || !cmp.Equal(r.Calls, []string{noted}) {
		t.Errorf("error %v, calls %v", err, r.Calls)
	}
	in, r = w.Input()
	r.Fail["evacuate node n01"] = errors.New("cut")
	if err := clustertest.RunLeave(t, in, r, w.Linstor.View); err == nil ||
		!cmp.Equal(r.Calls, []string{noted, "evacuate node n01"}) {
		t.Errorf("error %v, calls %v", err, r.Calls)
	}
}

// LINSTOR moves nothing from a node that it does not reach: it deletes. A machine that is gone is evicted, one that
// may come back is waited for.
func TestOfflineNodesAreNotEvacuated(t *testing.T) {
	w := clustertest.Going(t)
	in, r := w.Input()
	if err := clustertest.RunLeave(t, in, r, later(w,
		func(_ *linstor.View, n *linstor.Node) { n.Status = linstor.StatusOffline })); err == nil || len(r.Calls) > 0 {
		t.Errorf("it went offline: %v %v", err, r.Calls)
	}
	w.Kube.Nodes = w.Kube.Nodes[1:]
	w.Node("n01").Status = linstor.StatusOffline
	w.Node("n01").Properties[remembered.GoneSince] = clustertest.Ago(time.Minute)
	w.Spread("a@n01 -", "a@n02 UpToDate")
	in, r = w.Input()
	if err := clustertest.RunLeave(t, in, r, w.Linstor.View); err != nil || len(r.Calls) != 2 ||
		r.Calls[1] != "evict node n01" {
		t.Errorf("its machine is gone: %v %v", err, r.Calls)
	}
	w.Spread("a@n01 -", "a@n02 Outdated")
	in, r = w.Input()
	if err := leaving.Leave(t.Context(), in); err != nil || len(r.Queued) > 0 ||
		in.Snapshot.Gone[0].Leave.Hold != v1alpha1.HoldLastReplicaAtRisk {
		t.Errorf("with the last copy: %v %v %+v", err, r.Keys(), in.Snapshot.Gone[0].Leave)
	}
}

func TestANodeIsDeletedOnlyWhenItHoldsNothing(t *testing.T) {
	for _, tc := range []struct {
		name  string
		now   func(*linstor.View, *linstor.Node)
		snaps []string
		fails bool
		want  []string
	}{
		{name: "empty", now: func(*linstor.View, *linstor.Node) {}, want: []string{"delete node n01"}},
		{name: "a copy has come",
			now:   func(v *linstor.View, _ *linstor.Node) { v.Resources = states.Copies("a@n01 Diskless DISKLESS") },
			fails: true},
		{name: "a snapshot is there", now: func(*linstor.View, *linstor.Node) {}, snaps: []string{"a/s n01"}, fails: true},
		{name: "the node came back",
			now: func(_ *linstor.View, n *linstor.Node) { delete(n.Properties, remembered.LeavingAdmitted) }},
		{name: "it is another node", now: func(_ *linstor.View, n *linstor.Node) { n.UUID = "new" }},
		{name: "it is gone", now: func(v *linstor.View, _ *linstor.Node) { delete(v.Nodes, "n01") }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := clustertest.Going(t)
			w.Spread("a@n02 UpToDate")
			in, r := w.Input()
			r.SnapshotsOf = map[string][]string{"n01": tc.snaps}
			if err := clustertest.RunLeave(t, in, r, later(w, tc.now)); (err != nil) != tc.fails {
				t.Fatal(err)
			}
			if d := cmp.Diff(tc.want, r.Calls); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestLabelsGoLast(t *testing.T) {
	w := clustertest.NewWorld(t, 5)
	w.Leaves(v1alpha1.NodesRemove, "n01")
	in, r := w.Input()
	if err := leaving.Leave(t.Context(), in); err != nil || len(r.Calls) > 0 {
		t.Errorf("in LINSTOR still: %v %v", err, r.Calls)
	}
	delete(w.Linstor.View.Nodes, "n01")
	in, r = w.Input()
	if err := leaving.Leave(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"label n01 member=- os=- platform=-"}, r.Calls); d != "" {
		t.Error(d)
	}
	in, r = w.Input()
	r.Now = &linstor.View{Nodes: map[string]*linstor.Node{"n01": {Name: "n01"}}}
	if err := leaving.Leave(t.Context(), in); err != nil || len(r.Calls) > 0 {
		t.Errorf("in LINSTOR, and the view is old: %v %v", err, r.Calls)
	}
	in, r = w.Input()
	r.Fail["node n01"] = errors.New("refused")
	if err := leaving.Leave(t.Context(), in); err == nil || len(r.Calls) > 0 {
		t.Errorf("LINSTOR does not say: %v %v", err, r.Calls)
	}
	w.Silent(errors.New("refused"))
	in, r = w.Input()
	if err := leaving.Leave(t.Context(), in); err != nil || len(r.Calls) > 0 {
		t.Errorf("LINSTOR silent: %v %v", err, r.Calls)
	}
}

func TestANodeThatComesBackIsAsBefore(t *testing.T) {
	w := clustertest.Going(t)
	w.Evacuating("n01")
	w.Node("n01").Properties[remembered.EvacuateStuck] = clustertest.Ago(time.Minute)
	props := w.Node("n01").Properties
	props[remembered.GoneSince], props[remembered.DeclareLost] = clustertest.Ago(time.Hour), "h-1"
	w.KubeNode("n01").Spec.Taints = nil
	in, r := w.Input()
	if err := clustertest.RunLeave(t, in, r, w.Linstor.View); err != nil {
		t.Fatal(err)
	}
	keys := ""
	for _, k := range leaving.Marks {
		keys += "," + k
	}
	if d := cmp.Diff([]string{"restore node n01", "node n01 set  del " + keys[1:]}, r.Calls); d != "" {
		t.Error(d)
	}

	// Somebody else's evacuation is theirs.
	delete(w.Node("n01").Properties, remembered.EvacuateAsked)
	delete(w.Node("n01").Properties, remembered.EvacuateSeen)
	in, r = w.Input()
	if err := clustertest.RunLeave(t, in, r, w.Linstor.View); err != nil || len(r.Calls) != 1 {
		t.Errorf("%v %v", err, r.Calls)
	}

	// A request that may still be on its way is waited for.
	w.Node("n01").Flags = nil
	w.Node("n01").Properties[remembered.EvacuateAsked] = clustertest.Ago(time.Second)
	in, r = w.Input()
	if err := leaving.Leave(t.Context(), in); err != nil || len(r.Queued) > 0 {
		t.Errorf("%v %v", err, r.Keys())
	}
	w.Node("n01").Properties[remembered.EvacuateAsked] = clustertest.Ago(time.Hour)
	in, r = w.Input()
	if err := clustertest.RunLeave(t, in, r, w.Linstor.View); err != nil || len(r.Calls) != 1 {
		t.Errorf("%v %v", err, r.Calls)
	}
}

func TestAnswersAboutLeavingNodes(t *testing.T) {
	w := clustertest.NewWorld(t, 4)
	w.Leaves(v1alpha1.NodesEvacuate, "n01", "n02", "n03")
	for _, n := range []string{"n01", "n02", "n03"} {
		w.Node(n).Properties[remembered.Leaving] = clustertest.Ago(time.Hour)
	}
	r0, known := leaving.Hold(v1alpha1.HoldTooManyNodesLeaving)(w.Snapshot(), hold.AnyNode)
	if !known || r0 == nil || !cmp.Equal(r0.Nodes, []string{"n01", "n02", "n03"}) {
		t.Fatalf("%+v %t", r0, known)
	}
	open := hold.New(w.Snapshot(), r0)
	in, r := w.Input()
	r.Now = w.Linstor.View
	in.Answer = &hold.Answer{Hold: open, Option: v1alpha1.OptionContinue, Nodes: []string{"n01", "n02"}}
	if leaving.Keep(in) {
		t.Fatal("stored before it is written")
	}
	if d := cmp.Diff([]string{"answer/n01/leave", "answer/n02/leave"}, r.Keys()); d != "" {
		t.Fatal(d)
	}
	if err := r.Run(t, "answer/n01/leave"); err != nil ||
		!cmp.Equal(r.Calls, []string{"node n01 set leaving-admitted=" + open.ID + " del "}) {
		t.Errorf("%v %v", err, r.Calls)
	}
	w.Node("n01").Properties[remembered.LeavingAdmitted] = open.ID
	w.Node("n02").Properties[remembered.LeavingAdmitted] = open.ID
	in, _ = w.Input()
	in.Answer = &hold.Answer{Hold: open, Option: v1alpha1.OptionContinue, Nodes: []string{"n01", "n02"}}
	if !leaving.Keep(in) {
		t.Error("not stored")
	}
	if l := w.Snapshot().MemberByName("n03").Leave; l.Step != leaving.StepAdmit { // one alone is no longer many
		t.Errorf("n03: %+v", l)
	}
}

// TestRetryOfAStuckEvacuation takes an evacuation back that did not go on, so that it can be asked for once more.
func TestRetryOfAStuckEvacuation(t *testing.T) {
	w := clustertest.Going(t)
	w.Evacuating("n01")
	w.Node("n01").Properties[remembered.EvacuateStuck] = clustertest.Ago(time.Hour)
	r0, _ := leaving.Hold(v1alpha1.HoldEvacuationStuck)(w.Snapshot(), hold.AnyNode)
	if r0 == nil || !cmp.Equal(r0.Resources, []string{"a"}) {
		t.Fatalf("%+v", r0)
	}
	in, r := w.Input()
	r.Now = w.Linstor.View
	in.Answer = &hold.Answer{Hold: hold.New(w.Snapshot(), r0), Option: v1alpha1.OptionRetry}
	if leaving.Retry(in) {
		t.Fatal("stored before it is written")
	}
	if err := r.Run(t, "answer/n01/leave"); err != nil {
		t.Fatal(err)
	}
	want := []string{"forget leave/", "restore node n01",
		"node n01 set  del " + remembered.EvacuateAsked + "," + remembered.EvacuateSeen + "," + remembered.EvacuateStuck}
	if d := cmp.Diff(want, r.Calls); d != "" {
		t.Error(d)
	}
	if r0, known := leaving.Hold(v1alpha1.HoldLastReplicaAtRisk)(w.Snapshot(), hold.AnyNode); r0 != nil || !known {
		t.Errorf("%+v %t", r0, known)
	}
	w.Silent(errors.New("refused"))
	if _, known := leaving.Hold(v1alpha1.HoldLastReplicaAtRisk)(w.Snapshot(), hold.AnyNode); known {
		t.Error("LINSTOR silent: a hold is judged")
	}
}
