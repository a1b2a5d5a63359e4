package membership_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/datadir"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/membership"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/seats"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/view"
)

// TestSurvivorCannotStart: for a survivor that cannot start, no other member is taken from its node.
func TestSurvivorCannotStart(t *testing.T) {
	for name, spoil := range map[string]func(w *world){
		"its data is lost": func(w *world) {
			w.member(2).loseDisk()
			w.down(0, 1)
			w.pass()
			w.pass()
		},
		"there is data of another one": func(w *world) {
			n := w.member(2)
			n.disk.Owner.Name, n.running = "n3-99", false
			w.down(0, 1)
			w.pass()
			w.pass()
		},
		"its node is down": func(w *world) { w.down(0, 1, 2) },
	} {
		w := settled(t, 3)
		spoil(w)
		survivor := w.machines[2].Configuration.Name
		w.facts.Recovery = &seats.Recovery{ID: "1", Force: survivor}
		h := w.held(100, membership.EtcdQuorumLost)
		if !strings.Contains(h.Message, `"`+survivor+`" is not a member that can start`) {
			t.Errorf("%s: %+v", name, h)
		}
		for _, n := range w.machines[:3] {
			if n.Empty() {
				t.Errorf("%s: %s was cleared", name, n.Name)
			}
		}
	}
}

// TestSurvivorReplaced: until the survivor serves, another one may be chosen.
func TestSurvivorReplaced(t *testing.T) {
	w, former := forced(t)
	former.loseDisk()
	other := w.machines[slices.IndexFunc(w.machines, func(n *machine) bool { return n != former && w.listed(n) != nil })]
	other.up = true
	w.facts.Recovery = &seats.Recovery{ID: "2", Force: other.disk.Owner.Name}
	w.recovers()
	if other.disk.Owner.Forced != "2" || w.list[0].Name != other.disk.Owner.Name {
		t.Errorf("%s", w)
	}
}

// TestRanksOwn: of data that a guard misses nothing is ranked, and a learner is called one.
func TestRanksOwn(t *testing.T) {
	w := settled(t, 3)
	w.facts.Size = 5
	w.until("promote")
	w.machines[0].loseDisk()
	w.down(1, 2, 3)
	w.pass()
	w.mangle = func(f *membership.Facts) {
		for _, name := range []string{"n1", "n2", "n3", "n4"} {
			f.Sites[name].Pod.Log = &datadir.Log{Term: 3, Index: 20, Commit: 10}
		}
	}
	h := w.held(60, membership.EtcdQuorumLost)
	ranks, _, _ := strings.Cut(h.Message, "Members that do not respond")
	if strings.Contains(ranks, "n1-1") || !strings.Contains(ranks, "n4-4 on node n4 (learner, no response") ||
		!strings.Contains(ranks, "n2-2 on node n2 (voter, no response") {
		t.Errorf("%s", h.Message)
	}
}

// TestSilentMayKnowMore: of members that do not answer, and whose guards have not read a log, it is said that they
// have data: else the only one that answers would be taken for the best.
func TestSilentMayKnowMore(t *testing.T) {
	w := settled(t, 3)
	w.down(1)
	w.machines[2].loseDisk()
	w.pass()
	h := w.held(60, membership.EtcdQuorumLost)
	_, silent, _ := strings.Cut(h.Message, "Members that do not respond")
	if !strings.Contains(silent, "its node is down; it has data, but it is unknown how recent it is: try to start it "+
		"before you force another member)") || strings.Count(silent, "unknown how recent it is") != 1 {
		t.Errorf("%s", h.Message)
	}
}

// TestForsakenAnswers: one that answers and takes no part is given up, and of one that works and is not sealed nobody
// is told to do so.
func TestForsakenAnswers(t *testing.T) {
	w := settled(t, 3)
	w.mangle = func(f *membership.Facts) {
		answers := f.Look.Answers()
		answers[1].Leader, answers[1].Linearizable = 0, false
		f.Look = view.New(answers...)
	}
	h := w.held(100, membership.EtcdMemberDown)
	if !strings.Contains(h.Message, "it responds, but") || !strings.Contains(h.Plan, "`forsake@n2-2`") {
		t.Errorf("%+v", h)
	}
	w.facts.Forsaken = []string{"n2-2"}
	if d := w.decide(); d.Row != "forsaken" || d.Step != membership.Remove || d.Seat.Name != "n2-2" {
		t.Errorf("row %s, step %s of %s", d.Row, d.Step, d.Seat.Name)
	}
	w = settled(t, 3)
	w.facts.Notes.Seats[1].Sealed = false
	w.mangle = func(f *membership.Facts) { f.Sites["n2"].Pod.Configuration = nil }
	if h := w.held(100, membership.EtcdMemberDown); strings.Contains(h.Plan, "forsake") ||
		!strings.Contains(h.Message, "n2-2 on node n2 is working, but") {
		t.Errorf("%+v", h)
	}
}

// TestDownAndReady: a member that the kubelet reports ready is not called dead.
func TestDownAndReady(t *testing.T) {
	w := settled(t, 3)
	w.mangle = func(f *membership.Facts) {
		answers := f.Look.Answers()
		answers[1] = view.Answer{Endpoint: answers[1].Endpoint, Err: errLost}
		f.Look = view.New(answers...)
	}
	if h := w.held(100, membership.EtcdMemberDown); !strings.Contains(h.Message, "its kubelet reports it as ready") {
		t.Errorf("%+v", h)
	}
}

// TestLostElsewhere: where data was lost, the disk may only be mounted late: the next member is on another node.
func TestLostElsewhere(t *testing.T) {
	w := settled(t, 3)
	n := w.member(1)
	n.loseDisk()
	w.pass()
	w.rest(100)
	if a := w.facts.Notes.Avoid[n.Name]; !a.Lost || n.disk.Data {
		t.Errorf("%+v, %+v", a, n.disk)
	}
}

// TestShrinkDownFirst: one that is down goes before one that works, also if it is on a node that is not wanted.
func TestShrinkDownFirst(t *testing.T) {
	w := settled(t, 3)
	w.down(1)
	w.member(1).selected = false
	w.facts.Size = 1
	if d := w.decide(); d.Step != membership.Remove || d.Seat.Name != "n2-2" {
		t.Errorf("row %s, step %s of %s", d.Row, d.Step, d.Seat.Name)
	}
}

// TestNoNodeSays: each node on which a member is wanted is named, with what keeps one from it.
func TestNoNodeSays(t *testing.T) {
	w := settled(t, 3, "", "", "", "", "", "", "")
	w.facts.Size = 5
	w.machines[3].Ready = false
	w.machines[4].PeerURL = "http://nowhere"
	w.machines[6].up = false
	w.mangle = func(f *membership.Facts) {
		site := f.Sites["n6"]
		site.Pod = &seats.Pod{UID: "left"}
		f.Sites["n6"] = site
	}
	w.pass()
	h := w.held(30, membership.EtcdStuck)
	for _, want := range []string{"n4: it is not ready", `n5: "http://nowhere"`, "n6: it still has a configuration",
		"n7: its kubelet is not reporting"} {
		if !strings.Contains(h.Message, want) {
			t.Errorf("%s is not in %s", want, h.Message)
		}
	}
}

// TestRemovingTakenBack: a removal that was noted and is not wanted any more does not hide that others remove the
// member.
func TestRemovingTakenBack(t *testing.T) {
	w := settled(t, 3)
	w.facts.Size = 1
	d := w.decide()
	if d.Step != membership.Remove {
		t.Fatalf("row %s, step %s", d.Row, d.Step)
	}
	w.facts.Notes, w.facts.Size = d.Notes, 3
	w.rest(1)
	i := slices.IndexFunc(w.list, func(m view.Member) bool { return m.ID == d.Seat.ID })
	w.list = slices.Delete(w.list, i, i+1)
	w.held(30, membership.EtcdMembersChanged)
}

// TestNoAddress: the others are not told an address at which a member cannot listen.
func TestNoAddress(t *testing.T) {
	w := settled(t, 3)
	w.member(1).PeerURL = "http://nowhere:3380"
	w.member(1).multi = true
	if d := w.decide(); d.Row != "rest" {
		t.Errorf("row %s, step %s", d.Row, d.Step)
	}
}

// TestForcedAgain: each recovery is a purpose of its own, whose restarts are counted anew.
func TestForcedAgain(t *testing.T) {
	w := settled(t, 3)
	w.down(0, 1)
	w.held(60, membership.EtcdQuorumLost)
	w.facts.Recovery = &seats.Recovery{ID: "1", Force: w.member(2).Configuration.Name}
	w.until("restart")
	if d := w.decide(); !strings.HasPrefix(d.Seat.Restarts.For, "Force1 ") {
		t.Errorf("%+v", d.Seat.Restarts)
	}
}
