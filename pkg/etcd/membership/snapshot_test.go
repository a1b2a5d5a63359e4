package membership_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/membership"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/seats"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/versions"
)

// saved fails if there is no snapshot, or only an old one when the first member is to get another version.
func saved(w *world, c seats.Configuration) {
	first := !slices.ContainsFunc(w.facts.Notes.Seats, func(s seats.Seat) bool {
		return s.Name != c.Name && versions.Minor(s.Version) == versions.Minor(c.Version)
	})
	old := first && w.last.Row == "renew" && w.now.Sub(w.savedAt) > time.Hour
	if w.saved != versions.Minor(c.Version) || old {
		w.fall("%s begins without a snapshot, or with an old one", c.Version)
	}
}

// upgrading is a world at rest in which the next minor is wanted.
func upgrading(t *testing.T) *world {
	w := settled(t, 3)
	w.facts.Version = "v3.7.1"
	return w
}

// TestSnapshotCounts for the upgrade before which it was taken, of this cluster, while it is young and its member is
// one still.
func TestSnapshotCounts(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(*world, *seats.Snapshot)
		row   string
	}{
		"a young one":                  {func(*world, *seats.Snapshot) {}, "renew"},
		"an old one":                   {func(w *world, _ *seats.Snapshot) { w.now = w.now.Add(2 * time.Hour) }, "save"},
		"one from before":              {func(_ *world, s *seats.Snapshot) { s.From = "3.5" }, "save"},
		"one for another upgrade":      {func(_ *world, s *seats.Snapshot) { s.To = "3.8" }, "save"},
		"one of another cluster":       {func(_ *world, s *seats.Snapshot) { s.ClusterID++ }, "save"},
		"one of a member that is gone": {func(_ *world, s *seats.Snapshot) { s.Member = "n1-99" }, "save"},
		"one that was only begun": {func(w *world, s *seats.Snapshot) {
			s.Taken = nil
			w.on(s.Node).Taken = nil
		}, "save"},
		"one of which another one was reported": {func(w *world, s *seats.Snapshot) {
			s.Taken = nil
			w.on(s.Node).Taken.ID = "before-3.7-20200101T000000Z"
		}, "save"},
	} {
		t.Run(name, func(t *testing.T) {
			w := upgrading(t)
			w.until("save")
			w.step()
			w.facts.Notes.Snapshot = w.decide().Notes.Snapshot
			c.spoil(w, w.facts.Notes.Snapshot)
			if d := w.decide(); d.Row != c.row {
				t.Errorf("row %s, want %s; %+v", d.Row, c.row, w.facts.Notes.Snapshot)
			}
		})
	}
}

// TestSnapshotKept: where the newest good one is stays known, whatever becomes of the one that counts.
func TestSnapshotKept(t *testing.T) {
	for name, spoil := range map[string]func(*world){
		"another one is begun": func(w *world) {
			w.packed, w.now = true, w.now.Add(2*time.Hour)
			w.until("save")
			w.step()
		},
		"the clock is set back": func(w *world) { w.now = w.now.Add(-2 * time.Hour) },
	} {
		t.Run(name, func(t *testing.T) {
			w := upgrading(t)
			w.until("save")
			w.step()
			n := w.decide().Notes
			w.facts.Notes.Snapshot, w.facts.Notes.Kept = n.Snapshot, n.Kept
			first := *n.Snapshot
			spoil(w)
			n = w.decide().Notes
			if n.Snapshot != nil && n.Snapshot.ID == first.ID || n.Kept == nil || n.Kept.ID != first.ID || n.Kept.Taken == nil {
				t.Errorf("%+v was taken; now %+v is begun, and %+v kept", first, n.Snapshot, n.Kept)
			}
		})
	}
}

// TestOneSnapshot: whoever dies, and whatever is lost, one snapshot is taken for one upgrade, before the first member
// gets the new minor. The model falls if a member begins without one.
func TestOneSnapshot(t *testing.T) {
	for seed := range uint64(20) {
		w := newWorld(t, seed, 3, "", "", "")
		w.rest(100)
		w.facts.Version, w.lose = "v3.7.1", 3
		older := func(n *machine) bool { return w.listed(n) != nil && n.ran != "v3.7.1" }
		for slices.ContainsFunc(w.machines, older) {
			w.step()
			w.pass()
			if w.now.Sub(begin) > 40*time.Hour {
				w.fall("never upgraded")
			}
		}
		if n := w.facts.Notes.Snapshot; len(w.snapshots) != 1 || n.ID != w.snapshots[0] || n.From != "3.6" || n.To != "3.7" {
			t.Errorf("seed %d: %v, %+v", seed, w.snapshots, n)
		}
	}
}

// TestSnapshotUnwanted: one that nobody wants any more is not asked for, and its pod goes. A wait ends nothing.
func TestSnapshotUnwanted(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(*world)
		stays bool
	}{
		"it is wanted":                {func(*world) {}, true},
		"a member is away":            {func(w *world) { w.member(0).up = false }, true},
		"the operator is cut off":     {func(w *world) { w.blind = true }, true},
		"the version is set back":     {func(w *world) { w.facts.Version = "v3.6.14" }, false},
		"a later patch is wanted":     {func(w *world) { w.facts.Version = "v3.6.15" }, false},
		"no such version can be run":  {func(w *world) { w.facts.Version = "v3.99.0" }, false},
		"another patch of that minor": {func(w *world) { w.facts.Version = "v3.7.2" }, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := upgrading(t)
			w.packed = true
			w.until("save")
			w.step()
			w.on(w.facts.Notes.Snapshot.Node).Taken = nil
			c.spoil(w)
			w.pass()
			if n := w.decide().Notes.Snapshot; (n != nil) != c.stays {
				t.Errorf("%+v", n)
			}
		})
	}
}

// TestSnapshotGoesOn: one that was begun is asked of the same member although another one leads by now, and of another
// one once that member is not fit.
func TestSnapshotGoesOn(t *testing.T) {
	w := upgrading(t)
	w.packed = true
	w.until("save")
	w.step()
	first := w.facts.Notes.Snapshot
	w.on(first.Node).Taken = nil // its pod is not there yet
	for _, m := range w.list {
		if m.Name != first.Member {
			w.leader = m.ID
		}
	}
	w.pass()
	d := w.decide()
	if d.Snapshot.ID != first.ID || d.Seat.Name != first.Member || d.Endpoint != w.on(first.Node).ClientURL {
		t.Errorf("%s of %s at %s is asked for, and %s of %s was begun", d.Snapshot.ID, d.Seat.Name, d.Endpoint, first.ID,
			first.Member)
	}
	w.on(first.Node).up = false
	w.pass()
	if d := w.decide(); d.Row != "down" {
		t.Errorf("a member is down: row %s", d.Row)
	}
	w.on(first.Node).up = true
	w.now = w.now.Add(2 * time.Hour)
	w.pass()
	w.until("save")
	if d := w.decide(); d.Snapshot.ID == first.ID || d.Seat.Name == first.Member {
		t.Errorf("after two hours %s is asked for still, or %s is", first.ID, first.Member)
	}
}

// TestSnapshotElsewhere: a follower is asked, and after a failure another member, the leader last. One failure of a
// disk must not keep the cluster from its upgrade for as long as that disk is full.
func TestSnapshotElsewhere(t *testing.T) {
	for name, c := range map[string]struct {
		full   int // how many of those that are asked have no space
		within time.Duration
		leads  bool
	}{
		"all have space":                      {0, 10 * time.Minute, false},
		"one follower is full":                {1, 10 * time.Minute, false},
		"both followers are full":             {2, 10 * time.Minute, true},
		"all were full, and the leader stays": {3, 2 * time.Hour, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := upgrading(t)
			w.until("save")
			asked, begun := map[string]bool{}, w.now
			for len(w.snapshots) == 0 {
				d := w.decide()
				if n := w.on(d.Seat.Node); d.Row == "save" && len(asked) < c.full && !asked[n.Name] {
					asked[n.Name], n.packed = true, true
				}
				w.step()
				w.pass()
				for _, n := range w.machines {
					n.packed = n.packed && (n.id == w.leader || w.now.Sub(begun) < 30*time.Minute)
				}
				if w.now.Sub(begun) > c.within {
					w.fall("nobody is asked who has space")
				}
			}
			if leads := w.on(w.facts.Notes.Snapshot.Node).id == w.leader; leads != c.leads || len(asked) != c.full {
				t.Errorf("%+v, the leader is asked: %t; %v are full", w.facts.Notes.Snapshot, leads, asked)
			}
			w.rest(100)
		})
	}
}

// TestSnapshotTriedOn: where all have failed the last one is tried on, and named, for an hour; and it is another one
// once a human says that it may be tried again.
func TestSnapshotTriedOn(t *testing.T) {
	w := upgrading(t)
	w.packed = true
	w.until("save")
	ids := map[string]bool{}
	for range 30 {
		ids[w.step().Snapshot.ID] = true
		w.pass()
	}
	last := w.facts.Notes.Snapshot
	if len(ids) != 3 || len(last.Tried) != 2 || last.Failed == "" || w.on(last.Node).id != w.leader {
		t.Errorf("%v; the last is %+v", ids, last)
	}
	w.facts.Notes = w.facts.Notes.Retried()
	if d := w.decide(); d.Seat.Name == last.Member || d.Seat.Name == "" {
		t.Errorf("%s is asked again", d.Seat.Name)
	}
}

// TestNoSnapshot: without one no member is restarted, somebody learns why, and it goes on by itself.
func TestNoSnapshot(t *testing.T) {
	w := upgrading(t)
	w.packed = true
	h := w.held(20, membership.EtcdStuck)
	if !strings.Contains(h.Message, "take a snapshot") || w.rows["renew"] > 0 {
		t.Errorf("%+v; rows %v", h, w.rows)
	}
	for i := range w.list {
		if n := w.member(i); n.ran != "v3.6.14" {
			t.Errorf("%s runs %s", n.Name, n.ran)
		}
	}
	w.packed = false
	w.on(w.facts.Notes.Snapshot.Node).Taken = nil // the container is started again
	w.rest(100)
	if len(w.snapshots) != 1 {
		t.Errorf("%v", w.snapshots)
	}
}

// TestSnapshotBeforeForce: a cluster that was forced may lack what a snapshot of before has.
func TestSnapshotBeforeForce(t *testing.T) {
	w := upgrading(t)
	w.until("save")
	w.step()
	w.facts.Version = "v3.6.14"
	w.rest(20)
	if w.facts.Notes.Snapshot == nil {
		t.Fatal("it is forgotten")
	}
	w.down(0, 1)
	w.held(60, membership.EtcdQuorumLost)
	w.facts.Recovery = &seats.Recovery{ID: "1", Force: w.member(2).Configuration.Name}
	for range 100 {
		if w.facts.Notes.Snapshot == nil {
			if w.facts.Notes.Kept == nil {
				t.Error("nobody knows where it is any more")
			}
			return
		}
		w.step()
		w.pass()
	}
	t.Errorf("%+v", w.facts.Notes.Snapshot)
}

// TestNoSnapshotForNothing: of two members none can be restarted. A snapshot would be too old by the time one can, and
// another one would be taken each hour, until those of earlier upgrades are pushed out.
func TestNoSnapshotForNothing(t *testing.T) {
	w := newWorld(t, 1, 3, "", "")
	w.held(100, membership.EtcdStuck)
	w.facts.Version = "v3.7.1"
	for range 200 {
		w.step()
		w.pass()
	}
	if w.rows["save"] > 0 || len(w.snapshots) > 0 {
		t.Errorf("rows %v, snapshots %v", w.rows, w.snapshots)
	}
}

// TestGrowthWithoutSnapshot: a disk without room for a snapshot keeps no member from being added.
func TestGrowthWithoutSnapshot(t *testing.T) {
	w := upgrading(t)
	w.packed = true
	w.until("save")
	w.facts.Size = 5
	for range 100 {
		w.step()
		w.pass()
	}
	voters := 0
	for i, m := range w.list {
		if n := w.member(i); n.ran != "v3.6.14" {
			t.Errorf("%s runs %s", n.Name, n.ran)
		}
		if !m.Learner {
			voters++
		}
	}
	if voters != 5 {
		t.Errorf("%d voters; rows %v", voters, w.rows)
	}
}
