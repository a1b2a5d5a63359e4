package membership_test

import (
	"strings"
	"testing"
	"time"

	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/membership"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/seats"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/view"
)

// kubernetes is a backup of Kubernetes. What it returns restores that: disks are as they are, and all pods are made
// anew.
func (w *world) kubernetes() (restore func()) {
	notes, version := w.facts.Notes.Clone(time.Time{}), w.facts.Version
	sites := make([]seats.Site, 0, len(w.machines))
	for _, n := range w.machines {
		sites = append(sites, n.Site)
	}
	return func() {
		w.facts.Notes, w.facts.Version = notes.Clone(time.Time{}), version
		w.facts.NotesVersion, w.facts.ConfigVersion = "restored", "restored"
		for i, n := range w.machines {
			n.Configuration, n.Template, n.Label, n.Used = sites[i].Configuration, sites[i].Template, sites[i].Label,
				sites[i].Used
			n.old, n.oldTemplate, n.Pod, n.copied, n.running, n.Taken = nil, nil, nil, nil, false, nil
		}
		w.raft()
		w.pass()
	}
}

// recovers reconciles until nothing is left to be done, whatever holds there are meanwhile.
func (w *world) recovers() {
	w.t.Helper()
	for range 200 {
		if w.step().Step == membership.Rest {
			w.wanted()
			return
		}
		w.pass()
	}
	w.fall("never at rest")
}

// TestRestoredBeforeUpgrade: Kubernetes is of before an upgrade, and the databases are of after it. The members run
// the later release again, because their disks say so, and a human is told to want it, too.
func TestRestoredBeforeUpgrade(t *testing.T) {
	w := settled(t, 3)
	restore := w.kubernetes()
	w.facts.Version = "v3.7.1"
	w.rest(100)
	restore()
	w.until("refused")
	h := w.held(1, membership.EtcdStuck)
	if !w.quorum() || !strings.Contains(h.Message, "3.7.1 is running and cannot be downgraded to 3.6.14") {
		t.Errorf("%+v", h)
	}
	w.facts.Version = "v3.7.1"
	w.recovers()
}

// moved has most members be replaced, and then Kubernetes be restored to before that.
func (w *world) moved() {
	restore := w.kubernetes()
	for _, i := range []int{1, 2} {
		w.machines[i].loseDisk()
		w.pass()
		w.rest(200)
	}
	restore()
}

// TestRestoredBeforeReplacement: Kubernetes is of before most members were replaced. Their successors' data is whole,
// and a human has them planned again.
func TestRestoredBeforeReplacement(t *testing.T) {
	w := settled(t, 3, "", "", "")
	w.moved()
	h := w.held(100, membership.EtcdQuorumLost)
	if !strings.Contains(h.Message, "contains the data of member n2-4") || !strings.Contains(h.Plan, "`adopt`") {
		t.Errorf("%+v", h)
	}
	w.facts.Adopt = "1"
	w.recovers()
	names := map[string]bool{}
	for _, s := range w.facts.Notes.Seats {
		names[s.Name] = true
	}
	if !names["n1-1"] || !names["n2-4"] || !names["n3-5"] || w.facts.Notes.Serial != 5 || w.facts.Notes.Adopted != "1" {
		t.Errorf("%+v", w.facts.Notes)
	}
}

// TestRestoredBeforeMove: Kubernetes is of before most members were replaced on other nodes. Their data is found
// there.
func TestRestoredBeforeMove(t *testing.T) {
	w := settled(t, 3)
	w.moved()
	w.machines[5].closed = true
	w.held(100, membership.EtcdQuorumLost)
	w.facts.Adopt = "1"
	w.until("changed")
	if h := w.held(100, membership.EtcdMembersChanged); !w.quorum() || !strings.Contains(h.Plan, "`adopt`") {
		t.Errorf("%+v", h)
	}
	w.facts.Adopt = "2"
	w.recovers()
	if n := w.facts.Notes; w.rows["search"] == 0 || len(n.Seats) != 3 || n.Seats[1].Name != "n4-4" ||
		n.Seats[2].Name != "n5-5" {
		t.Errorf("rows %v, %+v", w.rows, n)
	}
}

// TestOldKey: the key of a node alone is of before its member was replaced. It is written again, and the member runs
// on: without that, members would be restarted together.
func TestOldKey(t *testing.T) {
	w := settled(t, 3, "", "", "")
	n := w.machines[1]
	former := *n.Configuration
	n.loseDisk()
	w.pass()
	w.rest(200)
	pod := n.Pod.UID
	n.Configuration = &former
	if d := w.decide(); d.Row != "place" || d.Step != membership.Place {
		t.Errorf("row %s, step %s", d.Row, d.Step)
	}
	if w.rest(10); n.Pod.UID != pod {
		t.Error("its pod was deleted")
	}
}

// TestAdoptsAnother: notes of another cluster than the one that answers are replaced once a human says so.
func TestAdoptsAnother(t *testing.T) {
	w := settled(t, 3)
	right := w.facts.Notes.ClusterID
	w.facts.Notes.ClusterID = 0xabc
	if h := w.held(20, membership.EtcdOtherCluster); !strings.Contains(h.Message, "than the recorded one (abc)") {
		t.Errorf("%+v", h)
	}
	w.facts.Adopt = "1"
	if w.recovers(); w.facts.Notes.ClusterID != right {
		t.Errorf("%+v", w.facts.Notes)
	}
}

// TestAdoptsNoOther: an answer that could not be carried out is for the clusters that were known when it was given.
// One that answers later is another question.
func TestAdoptsNoOther(t *testing.T) {
	w := settled(t, 3)
	right := w.facts.Notes.ClusterID
	w.facts.Notes.ClusterID = 0xabc
	w.facts.Adopt, w.facts.AdoptOf = "1", []view.ID{0xabc, 0xdef}
	w.held(20, membership.EtcdOtherCluster)
	if n := w.facts.Notes; n.ClusterID != 0xabc || n.Adopted != "" {
		t.Errorf("%+v", n)
	}
	w.facts.Adopt, w.facts.AdoptOf = "2", []view.ID{0xabc, right}
	if w.recovers(); w.facts.Notes.ClusterID != right {
		t.Errorf("%+v", w.facts.Notes)
	}
}

// TestAdoptsNothing: an answer that finds nothing of which notes could be made stays open, and hides no other row.
func TestAdoptsNothing(t *testing.T) {
	w := settled(t, 3)
	w.facts.Adopt = "1"
	w.mangle = func(f *membership.Facts) {
		for name, site := range f.Sites {
			site.Configuration, site.Pod = nil, nil
			f.Sites[name] = site
		}
	}
	if d := w.decide(); d.Row != "place" || d.Notes.Adopted != "" {
		t.Errorf("row %s, adopted %q", d.Row, d.Notes.Adopted)
	}
}

// TestOneLookIsBlind: a look without answers moves no member, although its node has another address by now.
func TestOneLookIsBlind(t *testing.T) {
	w := settled(t, 3)
	for i := range w.list {
		n := w.member(i)
		n.multi = true
		n.address(70 + i)
	}
	w.mangle = func(f *membership.Facts) {
		var silent []view.Answer
		for _, u := range f.Ask() {
			silent = append(silent, view.Answer{Endpoint: u, Err: errLost})
		}
		f.Look = view.New(silent...)
	}
	for _, s := range w.decide().Notes.Seats {
		if len(s.Former) > 0 {
			t.Errorf("%+v", s)
		}
	}
}
