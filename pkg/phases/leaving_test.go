package phases

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/work"
)

// leaves makes the spec pick the nodes no longer, under a policy.
func (w *world) leaves(policy v1alpha1.NodeRemovalPolicy, names ...string) {
	w.t.Helper()
	w.cluster.Spec.Nodes.RemovalPolicy = policy
	w.accept()
	for _, n := range names {
		w.kubeNode(n).Spec.Taints = []corev1.Taint{{Key: "example.com/retired", Effect: corev1.TaintEffectNoSchedule}}
	}
	w.linstor.View.ResourcesKnown = true
}

// leavingSince writes the operator's memory of leaving nodes: they left long ago and may go, and get no new copies.
func (w *world) leavingSince(names ...string) {
	for _, n := range names {
		p := w.node(n).Properties
		p[auxLeaving], p[auxAdmitted] = begin.Add(-time.Hour).Format(time.RFC3339), "few"
		p[propAutoplace], p[auxBefore+propAutoplace] = "false", wasUnset
	}
}

func (w *world) spread(texts ...string) { w.linstor.View.Resources = copiesOf(texts...) }

// evacuating is a node that LINSTOR evacuates because the operator asked for it.
func (w *world) evacuating(name string) {
	n := w.node(name)
	n.Flags = []string{linstor.FlagEvacuate}
	n.Properties[auxEvacuate], n.Properties[auxEvacuated] = begin.Add(-time.Hour).Format(time.RFC3339), begin.Add(-time.Hour).Format(time.RFC3339)
}

func ago(d time.Duration) string { return begin.Add(-d).Format(time.RFC3339) }

func TestLeavingSteps(t *testing.T) {
	const evacuate, remove = v1alpha1.NodesEvacuate, v1alpha1.NodesRemove
	timing := DefaultTiming()
	for _, tc := range []struct {
		name    string
		spoil   func(*world)
		state   v1alpha1.LeavingState
		step    leaveStep
		message string
		hold    v1alpha1.HoldReason
	}{
		{name: "retained", state: v1alpha1.LeavingRetained, spoil: func(w *world) { w.leaves(v1alpha1.NodesRetain, "n01") }},
		{name: "retained, and never registered", state: v1alpha1.LeavingRemoving, step: leaveForget, spoil: func(w *world) {
			w.leaves(v1alpha1.NodesRetain, "n01")
			delete(w.linstor.View.Nodes, "n01")
		}},
		{name: "retained after another policy", state: v1alpha1.LeavingRetained, step: leaveUndo, spoil: func(w *world) {
			w.leaves(v1alpha1.NodesRetain, "n01")
			w.leavingSince("n01")
		}},
		{name: "just begun", state: v1alpha1.LeavingWaiting, step: leaveNote, message: "just begun", spoil: func(w *world) { w.leaves(evacuate, "n01") }},
		{name: "what is noted is refused", state: v1alpha1.LeavingWaiting, step: leaveNote, message: "just begun to leave: refused", spoil: func(w *world) {
			w.leaves(evacuate, "n01")
			w.tasks["leave/n01"] = work.State{Attempts: 1, Err: errors.New("refused")}
		}},
		{name: "short ago", state: v1alpha1.LeavingWaiting, message: "less than 30s ago", spoil: func(w *world) {
			w.leaves(evacuate, "n01")
			w.node("n01").Properties[auxLeaving] = ago(timing.Leave - time.Second)
		}},
		{name: "long enough ago", state: v1alpha1.LeavingWaiting, step: leaveAdmit, spoil: func(w *world) {
			w.leaves(evacuate, "n01")
			w.node("n01").Properties[auxLeaving] = ago(timing.Leave)
		}},
		{name: "LINSTOR silent", state: v1alpha1.LeavingWaiting, message: "does not answer", spoil: func(w *world) {
			w.leaves(evacuate, "n01")
			w.silent(errors.New("refused"))
		}},
		{name: "under maintenance", state: v1alpha1.LeavingWaiting, message: "maintenance", spoil: func(w *world) {
			w.leaves(evacuate, "n01")
			w.leavingSince("n01")
			w.kubeNode("n01").Annotations = map[string]string{v1alpha1.AnnotationMaintenance: ""}
		}},
		{name: "new copies still come", state: v1alpha1.LeavingWaiting, message: "place nothing new", spoil: func(w *world) {
			w.leaves(evacuate, "n01")
			w.leavingSince("n01")
			delete(w.node("n01").Properties, propAutoplace)
			w.spread("a@n01 UpToDate", "a@n02 UpToDate")
		}},
		{name: "LINSTOR does not keep that no new copies come", state: v1alpha1.LeavingWaiting, message: "leave; n01: refused", spoil: func(w *world) {
			w.leaves(evacuate, "n01")
			w.leavingSince("n01")
			delete(w.node("n01").Properties, propAutoplace)
			w.spread("a@n01 UpToDate", "a@n02 UpToDate")
			w.tasks["placement/n01"] = work.State{Attempts: 1, Err: errors.New("refused")}
		}},
		{name: "copies not known", state: v1alpha1.LeavingWaiting, message: "not told", spoil: func(w *world) {
			w.leaves(evacuate, "n01")
			w.leavingSince("n01")
			w.linstor.View.ResourcesKnown = false
		}},
		{name: "its turn", state: v1alpha1.LeavingEvacuating, step: leaveEvacuate, message: "1 copies (a)", spoil: func(w *world) {
			w.leaves(evacuate, "n01")
			w.leavingSince("n01")
			w.spread("a@n01 UpToDate", "b@n02 UpToDate")
		}},
		{name: "a last copy that LINSTOR would drop", state: v1alpha1.LeavingWaiting, hold: v1alpha1.HoldLastReplicaAtRisk, message: "last copy of a", spoil: func(w *world) {
			w.leaves(evacuate, "n01")
			w.leavingSince("n01")
			w.spread("a@n01 Outdated", "b@n01 UpToDate")
		}},
		{name: "a look at the very moment found one", state: v1alpha1.LeavingWaiting, hold: v1alpha1.HoldLastReplicaAtRisk, message: "last copy of b", spoil: func(w *world) {
			w.leaves(evacuate, "n01")
			w.leavingSince("n01")
			w.spread("b@n01 UpToDate")
			w.tasks["leave/n01"] = work.State{Err: fmt.Errorf("x: %w", &LastReplicaError{Node: "n01", Resources: []string{"b"}})}
		}},
		{name: "offline", state: v1alpha1.LeavingWaiting, step: leaveStuck, message: "OFFLINE", spoil: func(w *world) {
			w.leaves(evacuate, "n01")
			w.leavingSince("n01")
			w.node("n01").Status = linstor.StatusOffline
			w.spread("a@n01 -")
		}},
		{name: "offline for long", state: v1alpha1.LeavingWaiting, hold: v1alpha1.HoldEvacuationStuck, message: "OFFLINE", spoil: func(w *world) {
			w.leaves(evacuate, "n01")
			w.leavingSince("n01")
			w.node("n01").Status, w.node("n01").Properties[auxStuck] = linstor.StatusOffline, ago(timing.EvacuationStuck)
			w.spread("a@n01 -")
		}},
		{name: "back from offline", state: v1alpha1.LeavingWaiting, step: leaveMoving, spoil: func(w *world) {
			w.leaves(evacuate, "n01")
			w.leavingSince("n01")
			w.node("n01").Properties[auxStuck] = ago(time.Hour)
			w.spread("a@n01 UpToDate")
		}},
		{name: "asked", state: v1alpha1.LeavingEvacuating, message: "has not begun", spoil: func(w *world) {
			w.leaves(evacuate, "n01")
			w.leavingSince("n01")
			w.node("n01").Properties[auxEvacuate] = ago(timing.EvacuationAnswer - time.Second)
			w.spread("a@n01 UpToDate")
		}},
		{name: "asked in vain", state: v1alpha1.LeavingEvacuating, step: leaveEvacuate, message: "asked again", spoil: func(w *world) {
			w.leaves(evacuate, "n01")
			w.leavingSince("n01")
			w.node("n01").Properties[auxEvacuate] = ago(timing.EvacuationAnswer)
			w.spread("a@n01 UpToDate")
		}},
		{name: "begun", state: v1alpha1.LeavingEvacuating, step: leaveConfirm, spoil: func(w *world) {
			w.leaves(evacuate, "n01")
			w.leavingSince("n01")
			w.evacuating("n01")
			delete(w.node("n01").Properties, auxEvacuated)
			w.spread("a@n01 UpToDate EVACUATE", "a@n02 Inconsistent")
		}},
		{name: "begun by hand", state: v1alpha1.LeavingEvacuating, message: "1 copies (a) to go", spoil: func(w *world) {
			w.leaves(evacuate, "n01")
			w.leavingSince("n01")
			w.node("n01").Flags = []string{linstor.FlagEvacuate}
			w.spread("a@n01 UpToDate EVACUATE", "a@n02 Inconsistent")
		}},
		{name: "taken back by hand", state: v1alpha1.LeavingWaiting, hold: v1alpha1.HoldEvacuationStuck, message: "linstor node restore", spoil: func(w *world) {
			w.leaves(evacuate, "n01")
			w.leavingSince("n01")
			w.evacuating("n01")
			w.node("n01").Flags = nil
			w.spread("a@n01 UpToDate")
		}},
		{name: "moving", state: v1alpha1.LeavingEvacuating, message: "2 copies (a, b) to go", spoil: func(w *world) {
			w.leaves(evacuate, "n01")
			w.leavingSince("n01")
			w.evacuating("n01")
			w.spread("a@n01 UpToDate EVACUATE", "a@n02 Inconsistent", "b@n01 UpToDate EVACUATE")
		}},
		{name: "moving again", state: v1alpha1.LeavingEvacuating, step: leaveMoving, spoil: func(w *world) {
			w.leaves(evacuate, "n01")
			w.leavingSince("n01")
			w.evacuating("n01")
			w.node("n01").Properties[auxStuck] = ago(time.Hour)
			w.spread("a@n01 UpToDate EVACUATE", "a@n02 Inconsistent")
		}},
		{name: "standing still", state: v1alpha1.LeavingEvacuating, step: leaveStuck, spoil: func(w *world) {
			w.leaves(evacuate, "n01")
			w.leavingSince("n01")
			w.evacuating("n01")
			w.spread("a@n01 UpToDate EVACUATE", "a@n02 UpToDate")
		}},
		{name: "standing still for long", state: v1alpha1.LeavingEvacuating, hold: v1alpha1.HoldEvacuationStuck, message: "does not move 1 copies (a)", spoil: func(w *world) {
			w.leaves(evacuate, "n01")
			w.leavingSince("n01")
			w.evacuating("n01")
			w.node("n01").Properties[auxStuck] = ago(timing.EvacuationStuck)
			w.spread("a@n01 UpToDate EVACUATE", "a@n02 UpToDate")
		}},
		{name: "standing still with the last copy", state: v1alpha1.LeavingEvacuating, hold: v1alpha1.HoldLastReplicaAtRisk, message: "no place for a", spoil: func(w *world) {
			w.leaves(evacuate, "n01")
			w.leavingSince("n01")
			w.evacuating("n01")
			w.node("n01").Properties[auxStuck] = ago(timing.EvacuationStuck)
			w.spread("a@n01 UpToDate EVACUATE")
		}},
		{name: "empty", state: v1alpha1.LeavingRemoving, step: leaveDelete, spoil: func(w *world) {
			w.leaves(evacuate, "n01")
			w.leavingSince("n01")
			w.evacuating("n01")
			w.spread("a@n02 UpToDate")
		}},
		{name: "empty but for snapshots", state: v1alpha1.LeavingWaiting, step: leaveDelete, message: "holds 1 snapshots", spoil: func(w *world) {
			w.leaves(evacuate, "n01")
			w.leavingSince("n01")
			w.tasks["leave/n01"] = work.State{Err: errors.New("node n01 holds 1 snapshots: a/s")}
		}},
		{name: "removed: waits until empty", state: v1alpha1.LeavingWaiting, message: "holds 2 copies (a, b)", spoil: func(w *world) {
			w.leaves(remove, "n01")
			w.leavingSince("n01")
			w.spread("a@n01 UpToDate", "b@n01 Diskless DISKLESS", "a@n02 UpToDate")
		}},
		{name: "removed: empty", state: v1alpha1.LeavingRemoving, step: leaveDelete, spoil: func(w *world) {
			w.leaves(remove, "n01")
			w.leavingSince("n01")
		}},
		{name: "not in LINSTOR", state: v1alpha1.LeavingRemoving, step: leaveForget, spoil: func(w *world) {
			w.leaves(remove, "n01")
			delete(w.linstor.View.Nodes, "n01")
		}},
		{name: "evicted", state: v1alpha1.LeavingWaiting, step: leaveStuck, message: "evicted", spoil: func(w *world) {
			w.leaves(evacuate, "n01")
			w.leavingSince("n01")
			w.node("n01").Flags = []string{linstor.FlagDelete, linstor.FlagEvicted}
		}},
		{name: "evicted for long", state: v1alpha1.LeavingWaiting, hold: v1alpha1.HoldEvacuationStuck, message: "evicted", spoil: func(w *world) {
			w.leaves(evacuate, "n01")
			w.leavingSince("n01")
			w.node("n01").Flags = []string{linstor.FlagDelete, linstor.FlagEvicted}
			w.node("n01").Properties[auxStuck] = ago(time.Hour)
		}},
		{name: "being deleted", state: v1alpha1.LeavingRemoving, message: "deletes it", spoil: func(w *world) {
			w.leaves(evacuate, "n01")
			w.leavingSince("n01")
			w.node("n01").Flags = []string{linstor.FlagDelete}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, 5)
			tc.spoil(w)
			s := w.snapshot()
			m := s.MemberByName("n01")
			l := m.Leave
			if l.State != tc.state || l.step != tc.step || l.Hold != tc.hold || !strings.Contains(l.Message, tc.message) {
				t.Errorf("%s step %q hold %q (%s), want %s %q %q (%s)", l.State, l.step, l.Hold, l.Message, tc.state, tc.step, tc.hold, tc.message)
			}
			if m.State != v1alpha1.NodeLeaving || m.Problem != nil || s.Counted() != 4 || s.MemberByName("n02").Leave != nil {
				t.Errorf("member %s, problem %+v, %d counted", m.State, m.Problem, s.Counted())
			}
			if s.Linstor.Known() && s.Health().Degraded {
				t.Errorf("health %+v", s.Health())
			}
		})
	}
}

// A gone node is one of LINSTOR's that the operator made and Kubernetes has no more.
func TestGoneNodesLeave(t *testing.T) {
	w := newWorld(t, 5)
	w.leaves(v1alpha1.NodesEvacuate)
	w.linstor.View.Nodes["stranger"] = &linstor.Node{Name: "stranger", Properties: map[string]string{}}
	w.kube.Nodes = w.kube.Nodes[1:]
	w.node("n01").Status = linstor.StatusOffline
	w.spread("a@n01 -", "a@n02 UpToDate")
	steps := func() (out []string) {
		for _, l := range w.snapshot().leavers() {
			out = append(out, fmt.Sprintf("%s %s %s", l.name, l.leave.State, l.leave.step))
		}
		return out
	}
	if d := cmp.Diff([]string{"n01 Waiting note"}, steps()); d != "" {
		t.Error(d)
	}
	w.leavingSince("n01")
	delete(w.node("n01").Properties, propAutoplace) // nothing is placed on a node that is away
	if d := cmp.Diff([]string{"n01 Evacuating evacuate"}, steps()); d != "" {
		t.Error(d)
	}
	w.evacuating("n01")
	w.node("n01").Properties[auxStuck] = ago(time.Hour)
	if d := cmp.Diff([]string{"n01 Evacuating "}, steps()); d != "" {
		t.Errorf("its end is not the evacuation's: %s", d)
	}
	w.spread("a@n02 UpToDate")
	if d := cmp.Diff([]string{"n01 Removing delete"}, steps()); d != "" {
		t.Error(d)
	}
	w.leaves(v1alpha1.NodesRetain)
	if d := cmp.Diff([]string{"n01 Retained undo"}, steps()); d != "" {
		t.Error(d)
	}
}

func TestOnlySoManyAreEvacuatedAtOnce(t *testing.T) {
	for _, tc := range []struct {
		name  string
		most  int32
		spoil func(*world)
		want  string
	}{
		{"one", 1, func(*world) {}, "n02:evacuate n03: n04:"},
		{"two", 2, func(*world) {}, "n02:evacuate n03:evacuate n04:"},
		{"those that have begun come first", 1, func(w *world) {
			w.evacuating("n04")
			w.spread("a@n02 UpToDate", "a@n03 UpToDate", "b@n04 UpToDate EVACUATE", "b@n01 Inconsistent")
		}, "n02: n03: n04:"},
		{"one that was asked has begun", 1, func(w *world) { w.node("n03").Properties[auxEvacuate] = ago(0) }, "n02: n03: n04:"},
		{"one that a human is asked about takes no place", 1, func(w *world) {
			w.evacuating("n02")
			w.node("n02").Properties[auxStuck] = ago(time.Hour)
			w.spread("a@n02 UpToDate EVACUATE", "b@n03 UpToDate")
		}, "n02: n03:evacuate n04:delete"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, 20)
			w.cluster.Spec.Nodes.MaxConcurrentEvacuations = tc.most
			w.leaves(v1alpha1.NodesEvacuate, "n02", "n03", "n04")
			w.leavingSince("n02", "n03", "n04")
			w.spread("a@n02 UpToDate", "a@n03 UpToDate", "b@n04 UpToDate", "a@n01 UpToDate")
			tc.spoil(w)
			var got []string
			for _, l := range w.snapshot().leavers() {
				got = append(got, l.name+":"+string(l.leave.step))
			}
			if text := strings.Join(got, " "); text != tc.want {
				t.Errorf("%s, want %s", text, tc.want)
			}
		})
	}
}

func TestManyThatLeaveAtOnceAreAskedAbout(t *testing.T) {
	for _, tc := range []struct {
		members, leave int
		asked          bool
	}{{3, 1, false}, {3, 2, true}, {10, 2, false}, {10, 3, true}, {100, 20, false}, {100, 21, true}} {
		w := newWorld(t, tc.members)
		var names []string
		for _, n := range w.kube.Nodes[:tc.leave] {
			names = append(names, n.Name)
		}
		w.leaves(v1alpha1.NodesRemove, names...)
		for i, n := range names { // the last ones have only just been seen
			if i < len(names)-1 {
				w.node(n).Properties[auxLeaving] = ago(time.Hour)
			}
		}
		s := w.snapshot()
		steps := map[leaveStep]int{}
		for _, l := range s.leavers() {
			steps[l.leave.step]++
			if asked := l.leave.Hold == v1alpha1.HoldTooManyNodesLeaving; asked != tc.asked {
				t.Errorf("%d of %d, %s: hold %q", tc.leave, tc.members, l.name, l.leave.Hold)
			}
		}
		want := map[leaveStep]int{leaveNote: 1, leaveAdmit: tc.leave - 1}
		if tc.asked {
			want = map[leaveStep]int{leaveNote: 1, leaveNothing: tc.leave - 1}
		}
		if tc.leave == 1 {
			want = map[leaveStep]int{leaveNote: 1}
		}
		if d := cmp.Diff(want, steps); d != "" {
			t.Errorf("%d of %d: %s", tc.leave, tc.members, d)
		}
	}
	// Those that were let go before are another edit's.
	w := newWorld(t, 10)
	w.leaves(v1alpha1.NodesRemove, "n01", "n02", "n03", "n04")
	w.leavingSince("n01", "n02", "n03")
	if l := w.snapshot().MemberByName("n04").Leave; l.Hold != "" || l.step != leaveNote {
		t.Errorf("the fourth after three: %+v", l)
	}
}

// While many nodes fail at once nothing goes on, and nothing is taken back.
func TestLeavingIsFrozen(t *testing.T) {
	for name, spoil := range map[string]func(*world){
		"about to be asked for":  func(w *world) { w.spread("a@n01 UpToDate") },
		"about to be deleted":    func(*world) {},
		"about to be noted":      func(w *world) { delete(w.node("n01").Properties, auxLeaving) },
		"about to be taken back": func(w *world) { w.kubeNode("n01").Spec.Taints = nil },
	} {
		w := newWorld(t, 5)
		w.leaves(v1alpha1.NodesEvacuate, "n01")
		w.leavingSince("n01")
		spoil(w)
		w.nodeDown("n02", 0)
		w.nodeDown("n03", 0)
		in, r := w.input()
		if !in.frozen() {
			t.Fatal("two of five are no mass failure")
		}
		if err := in.leave(t.Context()); err != nil || len(r.queued)+len(r.calls) > 0 {
			t.Errorf("%s: %v, tasks %v, calls %v", name, err, r.keys(), r.calls)
		}
		m := in.MemberByName("n01")
		if m.Selected {
			continue
		}
		if c := switching(m.Linstor.Properties, in.switches(m)); !c.Empty() {
			t.Errorf("%s: placement is changed: %+v", name, c)
		}
	}
}
