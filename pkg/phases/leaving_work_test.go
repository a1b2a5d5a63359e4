package phases

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
)

// going is a node n01 whose turn to be evacuated has come.
func going(t *testing.T) *world {
	w := newWorld(t, 5)
	w.leaves(v1alpha1.NodesEvacuate, "n01")
	w.leavingSince("n01")
	w.spread("a@n01 UpToDate", "a@n02 UpToDate")
	return w
}

// runLeave does the step of n01 as a background task, on a LINSTOR that is as the world says.
func runLeave(t *testing.T, in *Input, r *record, now *linstor.View) error {
	t.Helper()
	r.now = now
	if err := in.leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	return r.run(t, "leave/n01")
}

// later is LINSTOR's view after something that the snapshot does not know yet.
func (w *world) later(change func(*linstor.View, *linstor.Node)) *linstor.View {
	v := *w.linstor.View
	v.Nodes = map[string]*linstor.Node{}
	for k, n := range w.linstor.View.Nodes {
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
	noted := "node n01 set evacuate=" + begin.Format(time.RFC3339Nano) + " del "
	for _, tc := range []struct {
		name string
		now  func(*linstor.View, *linstor.Node)
		want []string
	}{
		{"nothing has happened", func(*linstor.View, *linstor.Node) {}, []string{noted, "evacuate node n01"}},
		{"LINSTOR does it already", func(_ *linstor.View, n *linstor.Node) { n.Flags = []string{linstor.FlagEvacuate} }, nil},
		{"another task asked", func(_ *linstor.View, n *linstor.Node) { n.Properties[auxEvacuate] = ago(time.Second) }, nil},
		{"the node came back", func(_ *linstor.View, n *linstor.Node) { delete(n.Properties, auxAdmitted) }, nil},
		{"it is another node", func(_ *linstor.View, n *linstor.Node) { n.UUID = "new" }, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := going(t)
			in, r := w.input()
			if err := runLeave(t, in, r, w.later(tc.now)); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tc.want, r.calls); d != "" {
				t.Error(d)
			}
		})
	}
}

// What would be lost is looked at once more, right before.
func TestEvacuationLooksForLastCopiesFirst(t *testing.T) {
	w := going(t)
	in, r := w.input()
	err := runLeave(t, in, r, w.later(func(v *linstor.View, _ *linstor.Node) { v.Resources = copiesOf("a@n01 Outdated", "a@n02 -") }))
	var last *LastReplicaError
	if !errors.As(err, &last) || len(r.calls) > 0 {
		t.Errorf("error %v, calls %v", err, r.calls)
	}
	in, r = w.input()
	r.fail["resources"] = errors.New("refused")
	if err := runLeave(t, in, r, w.linstor.View); err == nil || len(r.calls) > 0 {
		t.Errorf("error %v, calls %v: what is not known is not fine", err, r.calls)
	}
}

// The note comes first: if it cannot be written, LINSTOR is not asked; if LINSTOR's answer is lost, the note stays.
func TestEvacuationIsNotedFirst(t *testing.T) {
	noted := "node n01 set evacuate=" + begin.Format(time.RFC3339Nano) + " del "
	w := going(t)
	in, r := w.input()
	r.fail[noted] = errors.New("cut")
	if err := runLeave(t, in, r, w.linstor.View); err == nil || !cmp.Equal(r.calls, []string{noted}) {
		t.Errorf("error %v, calls %v", err, r.calls)
	}
	in, r = w.input()
	r.fail["evacuate node n01"] = errors.New("cut")
	if err := runLeave(t, in, r, w.linstor.View); err == nil || !cmp.Equal(r.calls, []string{noted, "evacuate node n01"}) {
		t.Errorf("error %v, calls %v", err, r.calls)
	}
}

// LINSTOR moves nothing from a node that it does not reach: it deletes. A machine that is gone is evicted, one that may come
// back is waited for.
func TestOfflineNodesAreNotEvacuated(t *testing.T) {
	w := going(t)
	in, r := w.input()
	if err := runLeave(t, in, r, w.later(func(_ *linstor.View, n *linstor.Node) { n.Status = linstor.StatusOffline })); err == nil || len(r.calls) > 0 {
		t.Errorf("it went offline: %v %v", err, r.calls)
	}
	w.kube.Nodes = w.kube.Nodes[1:]
	w.node("n01").Status = linstor.StatusOffline
	w.node("n01").Properties[auxGone] = ago(time.Minute)
	w.spread("a@n01 -", "a@n02 UpToDate")
	in, r = w.input()
	if err := runLeave(t, in, r, w.linstor.View); err != nil || len(r.calls) != 2 || r.calls[1] != "evict node n01" {
		t.Errorf("its machine is gone: %v %v", err, r.calls)
	}
	w.spread("a@n01 -", "a@n02 Outdated")
	in, r = w.input()
	if err := in.leave(t.Context()); err != nil || len(r.queued) > 0 || in.Gone[0].Leave.Hold != v1alpha1.HoldLastReplicaAtRisk {
		t.Errorf("with the last copy: %v %v %+v", err, r.keys(), in.Gone[0].Leave)
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
		{name: "a copy has come", now: func(v *linstor.View, _ *linstor.Node) { v.Resources = copiesOf("a@n01 Diskless DISKLESS") }, fails: true},
		{name: "a snapshot is there", now: func(*linstor.View, *linstor.Node) {}, snaps: []string{"a/s"}, fails: true},
		{name: "the node came back", now: func(_ *linstor.View, n *linstor.Node) { delete(n.Properties, auxAdmitted) }},
		{name: "it is another node", now: func(_ *linstor.View, n *linstor.Node) { n.UUID = "new" }},
		{name: "it is gone", now: func(v *linstor.View, _ *linstor.Node) { delete(v.Nodes, "n01") }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := going(t)
			w.spread("a@n02 UpToDate")
			in, r := w.input()
			r.snapshots = map[string][]string{"n01": tc.snaps}
			if err := runLeave(t, in, r, w.later(tc.now)); (err != nil) != tc.fails {
				t.Fatal(err)
			}
			if d := cmp.Diff(tc.want, r.calls); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestLabelsGoLast(t *testing.T) {
	w := newWorld(t, 5)
	w.leaves(v1alpha1.NodesRemove, "n01")
	in, r := w.input()
	if err := in.leave(t.Context()); err != nil || len(r.calls) > 0 {
		t.Errorf("in LINSTOR still: %v %v", err, r.calls)
	}
	delete(w.linstor.View.Nodes, "n01")
	in, r = w.input()
	if err := in.leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"label n01 member=- os=- platform=-"}, r.calls); d != "" {
		t.Error(d)
	}
	in, r = w.input()
	r.now = &linstor.View{Nodes: map[string]*linstor.Node{"n01": {Name: "n01"}}}
	if err := in.leave(t.Context()); err != nil || len(r.calls) > 0 {
		t.Errorf("in LINSTOR, and the view is old: %v %v", err, r.calls)
	}
	in, r = w.input()
	r.fail["node n01"] = errors.New("refused")
	if err := in.leave(t.Context()); err == nil || len(r.calls) > 0 {
		t.Errorf("LINSTOR does not say: %v %v", err, r.calls)
	}
	w.silent(errors.New("refused"))
	in, r = w.input()
	if err := in.leave(t.Context()); err != nil || len(r.calls) > 0 {
		t.Errorf("LINSTOR silent: %v %v", err, r.calls)
	}
}

func TestANodeThatComesBackIsAsBefore(t *testing.T) {
	w := going(t)
	w.evacuating("n01")
	w.node("n01").Properties[auxStuck] = ago(time.Minute)
	w.node("n01").Properties[auxGone], w.node("n01").Properties[auxDeclareLost] = ago(time.Hour), "h-1"
	w.kubeNode("n01").Spec.Taints = nil
	in, r := w.input()
	if err := runLeave(t, in, r, w.linstor.View); err != nil {
		t.Fatal(err)
	}
	keys := ""
	for _, k := range leavingKeys {
		keys += "," + k
	}
	if d := cmp.Diff([]string{"restore node n01", "node n01 set  del " + keys[1:]}, r.calls); d != "" {
		t.Error(d)
	}

	// Somebody else's evacuation is theirs.
	delete(w.node("n01").Properties, auxEvacuate)
	delete(w.node("n01").Properties, auxEvacuated)
	in, r = w.input()
	if err := runLeave(t, in, r, w.linstor.View); err != nil || len(r.calls) != 1 {
		t.Errorf("%v %v", err, r.calls)
	}

	// A request that may still be on its way is waited for.
	w.node("n01").Flags = nil
	w.node("n01").Properties[auxEvacuate] = ago(time.Second)
	in, r = w.input()
	if err := in.leave(t.Context()); err != nil || len(r.queued) > 0 {
		t.Errorf("%v %v", err, r.keys())
	}
	w.node("n01").Properties[auxEvacuate] = ago(time.Hour)
	in, r = w.input()
	if err := runLeave(t, in, r, w.linstor.View); err != nil || len(r.calls) != 1 {
		t.Errorf("%v %v", err, r.calls)
	}
}

func TestAnswersAboutLeavingNodes(t *testing.T) {
	w := newWorld(t, 4)
	w.leaves(v1alpha1.NodesEvacuate, "n01", "n02", "n03")
	for _, n := range []string{"n01", "n02", "n03"} {
		w.node(n).Properties[auxLeaving] = ago(time.Hour)
	}
	r0, known := leavingHold(v1alpha1.HoldTooManyNodesLeaving)(w.snapshot())
	if !known || r0 == nil || !cmp.Equal(r0.Nodes, []string{"n01", "n02", "n03"}) {
		t.Fatalf("%+v %t", r0, known)
	}
	hold := NewHold(w.snapshot(), r0)
	in, r := w.input()
	r.now = w.linstor.View
	in.Answer = &Answer{Hold: hold, Option: v1alpha1.OptionContinue, Nodes: []string{"n01", "n02"}}
	if in.keepLeaving() {
		t.Fatal("stored before it is written")
	}
	if d := cmp.Diff([]string{"answer/n01/leave", "answer/n02/leave"}, r.keys()); d != "" {
		t.Fatal(d)
	}
	if err := r.run(t, "answer/n01/leave"); err != nil || !cmp.Equal(r.calls, []string{"node n01 set leaving-admitted=" + hold.ID + " del "}) {
		t.Errorf("%v %v", err, r.calls)
	}
	w.node("n01").Properties[auxAdmitted], w.node("n02").Properties[auxAdmitted] = hold.ID, hold.ID
	in, _ = w.input()
	in.Answer = &Answer{Hold: hold, Option: v1alpha1.OptionContinue, Nodes: []string{"n01", "n02"}}
	if !in.keepLeaving() {
		t.Error("not stored")
	}
	if l := w.snapshot().MemberByName("n03").Leave; l.step != leaveAdmit { // one alone is no longer many
		t.Errorf("n03: %+v", l)
	}

	// Retry takes an evacuation back that did not go on, so that it can be asked for once more.
	w = going(t)
	w.evacuating("n01")
	w.node("n01").Properties[auxStuck] = ago(time.Hour)
	r0, _ = leavingHold(v1alpha1.HoldEvacuationStuck)(w.snapshot())
	if r0 == nil || !cmp.Equal(r0.Resources, []string{"a"}) {
		t.Fatalf("%+v", r0)
	}
	in, r = w.input()
	r.now = w.linstor.View
	in.Answer = &Answer{Hold: NewHold(w.snapshot(), r0), Option: v1alpha1.OptionRetry}
	if in.retryLeaving() {
		t.Fatal("stored before it is written")
	}
	if err := r.run(t, "answer/n01/leave"); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"forget leave/", "restore node n01", "node n01 set  del " + auxEvacuate + "," + auxEvacuated + "," + auxStuck}, r.calls); d != "" {
		t.Error(d)
	}
	if r0, known := leavingHold(v1alpha1.HoldLastReplicaAtRisk)(w.snapshot()); r0 != nil || !known {
		t.Errorf("%+v %t", r0, known)
	}
	w.silent(errors.New("refused"))
	if _, known := leavingHold(v1alpha1.HoldLastReplicaAtRisk)(w.snapshot()); known {
		t.Error("LINSTOR silent: a hold is judged")
	}
}
