package membership_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/membership"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/seats"
)

// joins are rows, and then those with which one member joins; with a "+" before that, two do.
func joins(rows ...string) (all []string) {
	one := []string{"grow", "place", "joining", "place", "restart", "joining", "promote"}
	for _, r := range rows {
		switch r {
		case "+":
			all = append(all, one...)
		default:
			all = append(all, r)
		}
	}
	return append(append(all, one...), "rest")
}

// aged are the notes of another time: without one of the members, and with one that was on its node before.
func aged(w *world) seats.Notes {
	n := w.facts.Notes.Clone(time.Time{})
	n.Seats[1].Name, n.Seats[1].ID = n.Seats[1].Node+"-0", 4711
	n.Serial = 1
	return n
}

// changed has the DaemonSet of a node never be as it was written.
func changed(node string) func(*membership.Facts) {
	return func(f *membership.Facts) {
		site := f.Sites[node]
		site.Edited = true
		f.Sites[node] = site
	}
}

// ruin has the disks of all members be lost but for one.
func ruin(w *world, survivor int) {
	for i := range w.list {
		if n := w.member(i); i != survivor && n != nil && !w.list[survivor].Learner && w.member(survivor) != nil {
			n.loseDisk()
		}
	}
	w.pass()
}

// down has machines of these members stop, as at a power failure.
func (w *world) down(members ...int) {
	for _, i := range members {
		n := w.member(i)
		n.up, n.running, n.Down = false, false, true
	}
	w.raft()
	w.probe()
}

func TestRows(t *testing.T) {
	seen := map[string]bool{}
	for name, tc := range scenarios {
		t.Run(name, func(t *testing.T) {
			w := settled(t, 3)
			if tc.spoil != nil {
				tc.spoil(w)
			}
			d := w.decide()
			seen[d.Row] = true
			if d.Row != tc.row || d.Step != tc.step {
				t.Fatalf("row %s: step %s, want row %s: step %s", d.Row, d.Step, tc.row, tc.step)
			}
			if tc.hold != "" {
				w.held(100, tc.hold)
			}
			if tc.then != nil {
				if diff := cmp.Diff(tc.then, w.rest(300)); diff != "" {
					t.Error(diff)
				}
				for row := range w.rows {
					seen[row] = true
				}
			}
		})
	}
	for name, spoil := range beginnings {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1, 1, "", "", "")
			for _, n := range w.machines {
				n.surveyed = true
			}
			w.pass()
			spoil(w)
			if row := w.decide().Row; row != name {
				t.Fatalf("row %s", row)
			}
			seen[name] = true
		})
	}
	for _, row := range membership.Rows() {
		if !seen[row] {
			t.Errorf("no scenario for row %s", row)
		}
	}
	if rows := membership.Unbounded(); len(rows) > 0 {
		t.Errorf("rows without a bound: %v", rows)
	}
}

func TestPage(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "state-diagrams", "etcd-membership.md"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(membership.Markdown(), string(page)); diff != "" {
		t.Errorf("make generate writes another page:\n%s", diff)
	}
}
