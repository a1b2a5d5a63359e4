package phases

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/work"
)

// goneWorld is a cluster of ten nodes, of which n01's Node object was deleted and LINSTOR does not reach it, for some time. Of
// its two volumes there are good copies elsewhere.
func goneWorld(t *testing.T, policy v1alpha1.NodeRemovalPolicy, away time.Duration) *world {
	w := newWorld(t, 10)
	w.leaves(policy)
	w.leavingSince("n01")
	w.kube.Nodes = slices.DeleteFunc(w.kube.Nodes, func(n *corev1.Node) bool { return n.Name == "n01" })
	w.linkDown("n01", away)
	w.node("n01").Properties[auxGone] = ago(away)
	w.spread("a@n01 -", "a@n02 UpToDate", "b@n01 -", "b@n03 UpToDate")
	return w
}

func (w *world) lostAfter(d time.Duration) {
	w.cluster.Spec.Nodes.LostAfter = &metav1.Duration{Duration: d}
	w.accept()
}

func (w *world) leaveOf(name string) *Leave {
	w.t.Helper()
	for _, l := range w.snapshot().leavers() {
		if l.name == name {
			return l.leave
		}
	}
	w.t.Fatalf("%s does not leave", name)
	return nil
}

func TestGoneNodes(t *testing.T) {
	const evacuate, remove, retain = v1alpha1.NodesEvacuate, v1alpha1.NodesRemove, v1alpha1.NodesRetain
	day := 24 * time.Hour
	for _, tc := range []struct {
		name    string
		policy  v1alpha1.NodeRemovalPolicy
		away    time.Duration
		spoil   func(*world)
		lost    bool
		hold    v1alpha1.HoldReason
		message string
	}{
		{name: "retained for ever", policy: retain, away: 100 * day, spoil: func(w *world) { w.lostAfter(time.Hour) }},
		{name: "its time has not come", policy: remove, away: day - time.Second, spoil: func(w *world) { w.lostAfter(day) }, message: "2026-03-01T12:00:01Z"},
		{name: "its time has come", policy: remove, away: day, spoil: func(w *world) { w.lostAfter(day) }, lost: true},
		{name: "no policy, short ago", policy: remove, away: 59 * time.Minute, spoil: func(*world) {}},
		{name: "no policy, a human is asked", policy: remove, away: time.Hour, spoil: func(*world) {}, hold: v1alpha1.HoldNodeGone, message: "copies of a, b"},
		{name: "a human's word", policy: remove, away: time.Hour, spoil: func(w *world) { w.node("n01").Properties[auxDeclareLost] = "h-1" }, lost: true},
		{name: "evacuated as far as it goes", policy: evacuate, away: day, spoil: func(w *world) { w.lostAfter(day); w.evacuating("n01") }, lost: true},
		{name: "evicted by LINSTOR", policy: evacuate, away: day, spoil: func(w *world) {
			w.lostAfter(day)
			w.node("n01").Flags = []string{linstor.FlagDelete, linstor.FlagEvicted}
			delete(w.node("n01").Properties, auxAdmitted)
		}, lost: true},
		{name: "not let go yet", policy: remove, away: day, spoil: func(w *world) { w.lostAfter(day); delete(w.node("n01").Properties, auxAdmitted) }},
		{name: "never noted", policy: remove, away: day, spoil: func(w *world) { w.lostAfter(day); delete(w.node("n01").Properties, auxGone) }},
		{name: "LINSTOR does not keep the note", policy: remove, away: day, spoil: func(w *world) {
			w.lostAfter(day)
			delete(w.node("n01").Properties, auxGone)
			w.tasks["gone/n01"] = work.State{Attempts: 1, Err: errors.New("refused")}
		}, message: "since when it is gone: refused"},
		{name: "a note that cannot be read", policy: remove, away: day, spoil: func(w *world) { w.lostAfter(day); w.node("n01").Properties[auxGone] = "yesterday" }},
		{name: "its satellite answers", policy: remove, away: day, spoil: func(w *world) { w.lostAfter(day); w.node("n01").Status = linstor.StatusOnline }},
		{name: "its machine runs something", policy: remove, away: day, spoil: func(w *world) { w.lostAfter(day); w.node("n01").Status = linstor.StatusVersionMismatch }},
		{name: "not known what is on it", policy: remove, away: day, spoil: func(w *world) {
			w.node("n01").Properties[auxDeclareLost] = "h-1"
			w.linstor.View.ResourcesKnown = false
		}},
		{name: "the last copy", policy: remove, away: day, spoil: func(w *world) { w.lostAfter(day); w.spread("a@n01 -", "b@n01 -", "b@n03 UpToDate") },
			hold: v1alpha1.HoldLastReplicaAtRisk, message: "last copy of a may"},
		{name: "the last copy, in spite of a human's word", policy: remove, away: day, spoil: func(w *world) {
			w.node("n01").Properties[auxDeclareLost] = "h-1"
			w.spread("a@n01 -", "a@n02 Inconsistent")
		}, hold: v1alpha1.HoldLastReplicaAtRisk, message: "last copy of a may"},
		{name: "a look at the very moment found one", policy: remove, away: day, spoil: func(w *world) {
			w.lostAfter(day)
			w.tasks["leave/n01"] = work.State{Err: fmt.Errorf("x: %w", &LastReplicaError{Node: "n01", Resources: []string{"b"}})}
		}, hold: v1alpha1.HoldLastReplicaAtRisk, message: "last copy of b may"},
		{name: "a connection", policy: remove, away: day, spoil: func(w *world) {
			w.lostAfter(day)
			w.linstor.View.Resources[1].Connected = map[string]bool{"N01": true}
		}, message: "n02 still has a DRBD connection"},
		{name: "a mass failure", policy: remove, away: day, spoil: func(w *world) {
			w.lostAfter(day)
			for _, n := range []string{"n04", "n05", "n06"} {
				w.nodeDown(n, time.Minute)
			}
		}, message: "many nodes failed"},
		{name: "LINSTOR silent", policy: remove, away: day, spoil: func(w *world) { w.lostAfter(day); w.linstor.View.Nodes = map[string]*linstor.Node{} }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := goneWorld(t, tc.policy, tc.away)
			tc.spoil(w)
			if w.linstor.View.Nodes["n01"] == nil {
				if len(w.snapshot().leavers()) > 0 {
					t.Error("a node leaves that LINSTOR does not have")
				}
				return
			}
			l := w.leaveOf("n01")
			if (l.step == leaveLose) != tc.lost || l.Hold != tc.hold || !strings.Contains(l.Message, tc.message) {
				t.Errorf("step %q, hold %q, message %q", l.step, l.Hold, l.Message)
			}
		})
	}
}

func TestDeclareLost(t *testing.T) {
	for _, tc := range []struct {
		name  string
		spoil func(w *world)
		fails string
		calls []string
	}{
		{name: "as decided", spoil: func(*world) {}, calls: []string{"lose node n01"}},
		{name: "connected by now", spoil: func(w *world) { w.node("n01").Status = linstor.StatusConnected }},
		{name: "another node of that name", spoil: func(w *world) { w.node("n01").UUID = "other" }},
		{name: "the word was taken back", spoil: func(w *world) { delete(w.node("n01").Properties, auxDeclareLost) }},
		{name: "gone already", spoil: func(w *world) { delete(w.linstor.View.Nodes, "n01") }},
		{name: "the last copy by now", spoil: func(w *world) { w.spread("a@n01 -", "a@n02 Outdated") }, fails: "last up-to-date copy"},
		{name: "a connection by now", spoil: func(w *world) { w.linstor.View.Resources[1].Connected = map[string]bool{"n01": true} }, fails: "n02 still has a DRBD connection"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := goneWorld(t, v1alpha1.NodesRemove, 2*time.Hour)
			w.node("n01").Properties[auxDeclareLost] = "h-1"
			in, r := w.input()
			if err := in.leave(t.Context()); err != nil {
				t.Fatal(err)
			}
			now := *w.linstor.View
			node := *w.node("n01")
			node.Properties = map[string]string{}
			for k, v := range w.node("n01").Properties {
				node.Properties[k] = v
			}
			w.linstor.View = &now
			now.Nodes = map[string]*linstor.Node{}
			for k, n := range in.Linstor.View.Nodes {
				now.Nodes[k] = n
			}
			now.Nodes["n01"] = &node
			tc.spoil(w)
			r.now = w.linstor.View
			var told []Notice
			in.Announce = func(n Notice) { told = append(told, n) }
			err := r.run(t, "leave/n01")
			if (err != nil) != (tc.fails != "") || err != nil && !strings.Contains(err.Error(), tc.fails) {
				t.Errorf("error %v, want %q", err, tc.fails)
			}
			if d := cmp.Diff(tc.calls, r.calls); d != "" {
				t.Errorf("calls: %s", d)
			}
			if len(told) > 0 != (len(tc.calls) > 0) || len(told) > 0 && (told[0].Reason != "NodeLost" || !strings.Contains(told[0].Note, "hold h-1")) {
				t.Errorf("told %+v", told)
			}
		})
	}
}

// The time counts from the first look at a node that is gone, is kept at the node, and starts anew when it was back.
func TestNoteGone(t *testing.T) {
	w := goneWorld(t, v1alpha1.NodesRemove, time.Minute)
	note := func() []string {
		t.Helper()
		in, r := w.input()
		in.noteGone()
		if slices.Contains(r.keys(), "gone/n01") {
			if err := r.run(t, "gone/n01"); err != nil {
				t.Fatal(err)
			}
		}
		return r.calls
	}
	if calls := note(); len(calls) > 0 {
		t.Errorf("noted already: %v", calls)
	}
	delete(w.node("n01").Properties, auxGone)
	if d := cmp.Diff([]string{"node n01 set gone-since=2026-03-01T12:00:00Z del "}, note()); d != "" {
		t.Error(d)
	}
	w.node("n01").Properties[auxGone], w.node("n01").Properties[auxDeclareLost] = ago(time.Hour), "h-1"
	w.node("n01").Status = linstor.StatusOnline
	if calls := note(); len(calls) != 1 || !strings.Contains(calls[0], "gone-since,Aux/storage.linstor.dev/declare-lost") {
		t.Errorf("it is back: %v", calls)
	}
	w = goneWorld(t, v1alpha1.NodesRetain, time.Minute)
	delete(w.node("n01").Properties, auxGone)
	if calls := note(); len(calls) > 0 {
		t.Errorf("retained: %v", calls)
	}
}

func TestNodeGoneHold(t *testing.T) {
	w := goneWorld(t, v1alpha1.NodesRemove, 2*time.Hour)
	holds := NodeHolds(w.snapshot(), true, nil)
	if len(holds) != 1 || holds[0].Reason != v1alpha1.HoldNodeGone || !slices.Equal(holds[0].Nodes, []string{"n01"}) || !slices.Equal(holds[0].Resources, []string{"a", "b"}) {
		t.Fatalf("%+v", holds)
	}
	w.cluster.Status.NodeHolds = holds
	in, r := w.input()
	in.Answer = &Answer{Hold: &holds[0], Option: v1alpha1.OptionDeclareLost}
	if stored, err := in.KeepAnswer(t.Context()); stored || err != nil {
		t.Fatalf("stored %t, %v", stored, err)
	}
	r.now = w.linstor.View
	if err := r.run(t, "answer/n01/leave"); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"node n01 set declare-lost=" + holds[0].ID + " del "}, r.calls); d != "" {
		t.Error(d)
	}
	w.node("n01").Properties[auxDeclareLost] = holds[0].ID
	in, _ = w.input()
	in.Answer = &Answer{Hold: &holds[0], Option: v1alpha1.OptionDeclareLost}
	if stored, err := in.KeepAnswer(t.Context()); !stored || err != nil {
		t.Errorf("stored %t, %v", stored, err)
	}
	if got := NodeHolds(in.Snapshot, true, nil); len(got) != 0 {
		t.Errorf("after the answer: %+v", got)
	}

	// The node is back in Kubernetes: nothing is asked any more.
	w = goneWorld(t, v1alpha1.NodesRemove, 2*time.Hour)
	w.cluster.Status.NodeHolds = holds
	w.kube.Nodes = append(w.kube.Nodes, newNode("n01"))
	if got := NodeHolds(w.snapshot(), true, nil); len(got) != 0 {
		t.Errorf("it is back: %+v", got)
	}
	w = goneWorld(t, v1alpha1.NodesRemove, 2*time.Hour)
	w.cluster.Status.NodeHolds = holds
	w.silent(errors.New("refused"))
	if got := NodeHolds(w.snapshot(), true, nil); len(got) != 1 {
		t.Errorf("LINSTOR silent: %+v", got)
	}
}

// A cloud that deletes the Nodes of a zone after an outage must not hide that many failed.
func TestGoneNodesCountAsFailed(t *testing.T) {
	for _, tc := range []struct {
		policy v1alpha1.NodeRemovalPolicy
		want   MassFailureState
	}{{v1alpha1.NodesEvacuate, MassFailureActive}, {v1alpha1.NodesRetain, MassFailureNone}} {
		w := goneWorld(t, tc.policy, 5*time.Minute)
		w.nodeDown("n02", 5*time.Minute)
		w.nodeDown("n03", 5*time.Minute)
		if tc.policy == v1alpha1.NodesRetain {
			w.kubeNode("n03").Status.Conditions[0].Status = corev1.ConditionTrue
		}
		if m := w.snapshot().MassFailure(); m.State != tc.want {
			t.Errorf("%s: %+v", tc.policy, m)
		}
	}
}
