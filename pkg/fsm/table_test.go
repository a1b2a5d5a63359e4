package fsm_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
)

func TestClusterTableIsSound(t *testing.T) {
	for _, fault := range fsm.Cluster().Validate() {
		t.Error(fault)
	}
}

func TestEveryStateButDeletingCanBeDeletedAndHeld(t *testing.T) {
	table := fsm.Cluster()
	for _, s := range table.States {
		_, deletable := table.Next(s.State, fsm.DeleteRequested)
		if deletable != (s.State != fsm.Deleting) {
			t.Errorf("%s: can be deleted is %v", s.State, deletable)
		}
		_, holdable := table.Next(s.State, fsm.HumanNeeded)
		if want := s.State != fsm.Deleting && s.State != fsm.HumanIntervention; holdable != want {
			t.Errorf("%s: can be held is %v, want %v", s.State, holdable, want)
		}
	}
}

func TestDeletingIsLeftByNothing(t *testing.T) {
	if events := fsm.Cluster().Events(fsm.Deleting); len(events) != 0 {
		t.Errorf("Deleting has edges %v", events)
	}
}

func TestValidateFindsFaults(t *testing.T) {
	good := func() *fsm.Table { return fsm.Cluster() }
	cases := map[string]struct {
		spoil func(*fsm.Table)
		want  string
	}{
		"duplicate row":        {func(t *fsm.Table) { t.Rows = append(t.Rows, t.Rows[0]) }, "twice"},
		"unknown state":        {func(t *fsm.Table) { t.Rows[0].To = "Nowhere" }, "unknown state"},
		"self loop":            {func(t *fsm.Table) { t.Rows[0].To = t.Rows[0].From }, "goes nowhere"},
		"no evidence":          {func(t *fsm.Table) { t.Rows[0].Evidence = "" }, "no evidence"},
		"working, no deadline": {func(t *fsm.Table) { t.States[0].Deadline = 0 }, "needs a deadline"},
		"unreachable": {func(t *fsm.Table) {
			t.States = append(t.States, fsm.StateInfo{State: "Island", Class: fsm.Steady, Meaning: "x"})
		}, "cannot be reached"},
		"escalation is no edge": {func(t *fsm.Table) { t.States[0].Escalation = fsm.Cleared }, "is no edge"},
		"duplicate state":       {func(t *fsm.Table) { t.States = append(t.States, t.States[0]) }, "listed twice"},
		"no meaning":            {func(t *fsm.Table) { t.States[0].Meaning = "" }, "no meaning"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			table := good()
			c.spoil(table)
			if got := strings.Join(table.Validate(), "\n"); !strings.Contains(got, c.want) {
				t.Errorf("faults %q do not say %q", got, c.want)
			}
		})
	}
}

func TestMachineFollowsTheTableOnly(t *testing.T) {
	table := fsm.Cluster()
	events := map[fsm.Event]bool{}
	for _, r := range table.Rows {
		events[r.Event] = true
	}
	for _, s := range table.States {
		for e := range events {
			m, err := fsm.Restore(table, s.State)
			if err != nil {
				t.Fatal(err)
			}
			to, legal := table.Next(s.State, e)
			// A context that is cancelled already must not keep the machine from moving.
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			tr, err := m.Fire(ctx, e)
			if legal {
				if err != nil || tr != (fsm.Transition{From: s.State, Event: e, To: to}) || m.Current() != to {
					t.Errorf("%s in %s: %+v, %v", e, s.State, tr, err)
				}
				continue
			}
			var illegal *fsm.IllegalEventError
			if !errors.As(err, &illegal) || m.Current() != s.State {
				t.Errorf("%s in %s: error %v, state %s", e, s.State, err, m.Current())
			}
		}
	}
}

func TestRestore(t *testing.T) {
	m, err := fsm.Restore(fsm.Cluster(), "")
	if err != nil || m.Current() != fsm.Pending {
		t.Errorf("empty state: %v, %v", m, err)
	}
	if _, err := fsm.Restore(fsm.Cluster(), "FromTheFuture"); !errors.Is(err, fsm.ErrUnknownState) {
		t.Errorf("unknown state: %v", err)
	}
}

func TestDiagramIsUpToDate(t *testing.T) {
	path := filepath.Join("..", "..", "docs", "state-diagrams", "cluster.md")
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != fsm.Cluster().Markdown("The states of a StorageCluster") {
		t.Errorf("%s is stale: run `make generate`", path)
	}
}
