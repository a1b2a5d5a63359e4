package fsm_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
)

func TestClusterTableIsSound(t *testing.T) {
	for _, fault := range faultsOf(fsm.Cluster()) {
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

func TestFaultsAreFound(t *testing.T) {
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
			t.States = append(t.States, fsm.StateInfo{State: "Island", Meaning: "x"})
		}, "cannot be reached"},
		"escalation is no edge": {func(t *fsm.Table) {
			t.Rows = slices.DeleteFunc(t.Rows, func(r fsm.Row) bool { return r.Event == fsm.HumanNeeded })
		}, "is no edge"},
		"duplicate state": {func(t *fsm.Table) { t.States = append(t.States, t.States[0]) }, "listed twice"},
		"no meaning":      {func(t *fsm.Table) { t.States[0].Meaning = "" }, "no meaning"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			table := good()
			c.spoil(table)
			if got := strings.Join(faultsOf(table), "\n"); !strings.Contains(got, c.want) {
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

// steadyStates stay until something changes; all others do something.
var steadyStates = []fsm.State{fsm.Ready, fsm.Degraded, fsm.HumanIntervention, fsm.Deleting}

// faultsOf says what is wrong with a table, as a list of sentences; nothing if it is sound.
func faultsOf(t *fsm.Table) []string {
	var faults []string
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	seen := map[fsm.State]bool{}
	for _, s := range t.States {
		if seen[s.State] {
			fault("state %s is listed twice", s.State)
		}
		seen[s.State] = true
		if steady := slices.Contains(steadyStates, s.State); steady != (s.Deadline == 0) {
			fault("state %s with the deadline %s: a working state needs a deadline, no other has one", s.State, s.Deadline)
		}
		if _, ok := t.Next(s.State, fsm.HumanNeeded); s.Deadline > 0 && !ok {
			fault("the escalation of %s is no edge", s.State)
		}
		if s.Meaning == "" {
			fault("state %s has no meaning", s.State)
		}
	}
	type key struct {
		s fsm.State
		e fsm.Event
	}
	edges := map[key]bool{}
	for _, r := range t.Rows {
		k := key{r.From, r.Event}
		if edges[k] {
			fault("row %s --%s--> is there twice: looplab would take the last one silently", r.From, r.Event)
		}
		edges[k] = true
		if !seen[r.From] || !seen[r.To] {
			fault("row %s --%s--> %s names an unknown state", r.From, r.Event, r.To)
		}
		if r.From == r.To {
			fault("row %s --%s--> %s goes nowhere: staying is no event", r.From, r.Event, r.To)
		}
		if r.Evidence == "" {
			fault("row %s --%s--> %s has no evidence", r.From, r.Event, r.To)
		}
	}
	for _, s := range unreachable(t) {
		fault("state %s cannot be reached from %s", s, t.Initial)
	}
	return faults
}

func unreachable(t *fsm.Table) []fsm.State {
	reached := map[fsm.State]bool{t.Initial: true}
	for grew := true; grew; {
		grew = false
		for _, r := range t.Rows {
			if reached[r.From] && !reached[r.To] {
				reached[r.To], grew = true, true
			}
		}
	}
	var out []fsm.State
	for _, s := range t.States {
		if !reached[s.State] {
			out = append(out, s.State)
		}
	}
	return out
}
