package membership_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/datadir"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/membership"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/seats"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/versions"
)

// TestClockOfEach: a member that goes away and comes back again and again does not end the time of another one.
func TestClockOfEach(t *testing.T) {
	w := settled(t, 5)
	w.down(4)
	for i := range 100 {
		n := w.member(0)
		n.up = i%4 > 1
		n.running = n.up && n.running
		d := w.step()
		if d.Hold != nil {
			if w.now.Sub(begin) < membership.Default.Down || !strings.Contains(d.Hold.Message, w.list[4].Name) {
				t.Errorf("after %v: %+v", w.now.Sub(begin), d.Hold)
			}
			return
		}
		w.pass()
	}
	t.Error("no hold")
}

// TestMaintenance: nobody is called about a member whose node was announced to be down, unless others are away as
// well, or the announcement was forgotten.
func TestMaintenance(t *testing.T) {
	away := func(t *testing.T) *world {
		w := settled(t, 5)
		w.member(0).Maintained = true
		w.down(0)
		for range 2 {
			if d := w.step(); d.Row != "maintained" || d.Hold != nil {
				t.Fatalf("row %s: %+v", d.Row, d.Hold)
			}
			w.now = w.now.Add(2 * membership.Default.Down)
		}
		return w
	}
	t.Run("it ends", func(t *testing.T) {
		w := away(t)
		w.member(0).Maintained = false
		if d := w.step(); d.Row != "down" || d.Step != membership.Wait {
			t.Errorf("row %s: step %s", d.Row, d.Step)
		}
	})
	t.Run("another member is away", func(t *testing.T) {
		w := away(t)
		w.down(1)
		if d := w.step(); d.Row != "down" || d.Step != membership.Wait {
			t.Errorf("row %s: step %s", d.Row, d.Step)
		}
	})
	t.Run("it was forgotten", func(t *testing.T) {
		w := away(t)
		w.now = w.now.Add(24 * time.Hour)
		w.held(1, membership.EtcdMemberDown)
	})
}

// TestTriedOn: a step that has no effect calls a human, is tried on, and its hold ends with its effect.
func TestTriedOn(t *testing.T) {
	w := settled(t, 3)
	w.mangle = func(f *membership.Facts) {
		site := f.Sites["n1"]
		site.Label = ""
		f.Sites["n1"] = site
	}
	h := w.held(20, membership.EtcdStuck)
	if d := w.step(); d.Step != membership.Place || d.Hold == nil || !strings.Contains(h.Message, "n1-1 on node n1") {
		t.Errorf("row %s, step %s, hold %+v", d.Row, d.Step, h)
	}
	w.mangle = nil
	w.rest(1)
}

// TestAvoidEnds: a node on which a member never came up gets another one after a day.
func TestAvoidEnds(t *testing.T) {
	w := newWorld(t, 1, 3, "", "", "")
	w.until("joining")
	n := w.on(w.decide().Seat.Node)
	n.up = false
	w.held(100, membership.EtcdStuck)
	if _, ok := w.facts.Notes.Avoid[n.Name]; !ok {
		t.Fatalf("%+v", w.facts.Notes.Avoid)
	}
	n.up = true
	w.now = w.now.Add(24 * time.Hour)
	for range 30 {
		if w.step().Step == membership.Rest {
			w.wanted()
			return
		}
		w.pass()
	}
	t.Errorf("never at rest: %+v", w.facts.Notes.Avoid)
}

// TestUpgrade: from one minor to the next but one the release between is run first, by one member after the other.
func TestUpgrade(t *testing.T) {
	w := newWorld(t, 1, 3, "", "", "")
	w.facts.Version = "v3.5.33"
	w.rest(100)
	w.facts.Version = "v3.7.1"
	var seen []string
	saved := 0
	for range 100 {
		d := w.step()
		if d.Step == membership.Rest {
			w.wanted()
			if !slices.Contains(seen, "v3.6.14") || saved != 2 {
				t.Errorf("versions %v, %d snapshots", seen, saved)
			}
			return
		}
		var ran []string
		away := 0
		if d.Row == "save" {
			saved++
		}
		for i := range w.list {
			n := w.member(i)
			ran = append(ran, n.ran)
			if !n.running {
				away++
			}
		}
		seen = append(seen, ran...)
		slices.SortFunc(ran, func(a, b string) int {
			if versions.Older(a, b) {
				return -1
			}
			return 1
		})
		if away > 1 || versions.Replace(ran[0], ran[len(ran)-1]) != nil {
			t.Fatalf("%d members are away, versions %v", away, ran)
		}
		w.pass()
	}
	t.Error("never at rest")
}

// TestIdleRestarts: without a quorum pods are restarted one after the other, and only those that do not serve.
func TestIdleRestarts(t *testing.T) {
	w := settled(t, 3)
	for i := range w.list {
		n := w.member(i)
		n.Pod.Template.Version, n.running, n.Pod.Ready = "v3.6.99", false, false // does not start
	}
	var last time.Time
	nodes := map[string]bool{}
	lost := w.now
	for range 60 {
		d := w.step()
		if d.Step == membership.Restart {
			if w.now.Sub(lost) < membership.Default.Start/2 || w.now.Sub(last) < membership.Default.Start/5 {
				t.Fatalf("restarted at %v after %v, lost at %v", w.now, last, lost)
			}
			last = w.now
			nodes[d.Seat.Node] = true
		}
		if d.Step == membership.Rest {
			if len(nodes) < 2 {
				t.Errorf("restarted %v", nodes)
			}
			return
		}
		w.pass()
	}
	t.Error("never at rest")
}

// TestExhausted: a member whose pods always have old things keeps nobody from what others need.
func TestExhausted(t *testing.T) {
	w := settled(t, 3)
	w.facts.Revision = "r2"
	w.until("restart")
	w.on(w.decide().Seat.Node).lag = 1000
	if h := w.held(100, membership.EtcdStuck); !strings.Contains(h.Plan, "`retry`") || w.last.Row != "exhausted" {
		t.Errorf("row %s: %+v", w.last.Row, h)
	}
	w.fill()
	w.until("full-disarm")
	w.facts.Notes = w.facts.Notes.Retried()
	for _, n := range w.machines {
		n.lag = 0
	}
	w.rest(60)
}

// forced is a world with a survivor that is to be forced, up to the moment when its pod has copied the order.
func forced(t *testing.T) (w *world, survivor *machine) {
	t.Helper()
	w = settled(t, 3)
	survivor = w.member(2)
	w.down(0, 1)
	w.held(60, membership.EtcdQuorumLost)
	w.facts.Recovery = &seats.Recovery{ID: "1", Force: survivor.Configuration.Name}
	for range 60 {
		w.step()
		if c := survivor.copied; c != nil && c.Mode == datadir.Force && survivor.Pod != nil && !survivor.running {
			return w, survivor
		}
		w.pass()
	}
	w.fall("never forced")
	return nil, nil
}

// TestForcedOnce: container restarts and pods with old copies do not force again, which would lose what was
// acknowledged since.
func TestForcedOnce(t *testing.T) {
	w, n := forced(t)
	w.pass()
	if !w.quorum() || len(w.list) != 1 {
		t.Fatalf("not forced: %s", w)
	}
	n.lag = 3
	for i := range 60 {
		if i%3 == 0 {
			n.running = false
		}
		w.pass()
		w.step()
	}
	for _, o := range w.machines {
		o.up = true
	}
	w.rest(200)
}

// TestForceRecalled: members that come back after the survivor's pod has copied the order are not killed.
func TestForceRecalled(t *testing.T) {
	w, n := forced(t)
	for i, o := range w.machines { // their kubelets have not heard of the deletion of their pods
		if o != n && w.listed(o) != nil {
			w.machines[i].up, w.machines[i].deaf, o.running = true, true, true
		}
	}
	for range 30 {
		w.pass()
		w.step()
	}
	if len(w.list) != 3 || n.disk.Owner.Forced != "" {
		t.Fatalf("forced beside others: %s", w)
	}
	for _, o := range w.machines {
		o.deaf = false
	}
	w.rest(100)
}
