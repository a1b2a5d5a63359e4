package replica_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/replica"
	"github.com/linstor-dev/storagecluster-operator/test/drbd/states"
)

func TestLastReplicas(t *testing.T) {
	for _, tc := range []struct {
		name   string
		copies []string
		want   []string
	}{
		{"another good one", []string{"a@n01 UpToDate", "a@n02 UpToDate"}, nil},
		{"whatever the case of the names", []string{"a@N01 UpToDate", "A@n02 UpToDate"}, nil},
		{"the only one", []string{"a@n01 UpToDate", "b@n02 UpToDate"}, []string{"a"}},
		{"the only one in any state", []string{"a@n01 Inconsistent", "b@n01 -", "c@n01 Outdated", "d@n01 Failed"},
			[]string{"a", "b", "c", "d"}},
		{"not a copy", []string{"a@n01 Diskless DISKLESS", "a@n02 -"}, nil},
		{"the other is half written", []string{"a@n01 UpToDate", "a@n02 Inconsistent"}, []string{"a"}},
		{"the other is not known", []string{"a@n01 UpToDate", "a@n02 -"}, []string{"a"}},
		{"the other is old", []string{"a@n01 UpToDate", "a@n02 Outdated"}, []string{"a"}},
		{"one volume of the other is not good", []string{"a@n01 UpToDate,UpToDate", "a@n02 UpToDate,Inconsistent"},
			[]string{"a"}},
		{"the other is a client", []string{"a@n01 UpToDate", "a@n02 UpToDate DISKLESS"}, []string{"a"}},
		{"the other is offline", []string{"a@n01 UpToDate", "a@off UpToDate"}, []string{"a"}},
		{"the other leaves", []string{"a@n01 UpToDate", "a@leaves UpToDate"}, []string{"a"}},
		{"nobody knows the other's node", []string{"a@n01 UpToDate", "a@stranger UpToDate"}, []string{"a"}},
		{"the other is being deleted", []string{"a@n01 UpToDate", "a@n02 UpToDate DELETE"}, []string{"a"}},
		{"the other is evicted", []string{"a@n01 UpToDate", "a@n02 UpToDate INACTIVE EVICTED"}, []string{"a"}},
		{"the other is evacuated as well", []string{"a@n01 UpToDate", "a@n02 UpToDate EVACUATE"}, []string{"a"}},
		{"the third is good", []string{"a@n01 UpToDate", "a@n02 -", "a@n03 UpToDate"}, nil},
		{"half written here, unknown there", []string{"a@n01 Inconsistent", "a@n02 -"}, nil},
		{"half written in part here, unknown there", []string{"a@n01 Inconsistent,UpToDate", "a@n02 -"}, []string{"a"}},
		{"unknown on both sides", []string{"a@n01 -", "a@n02 -"}, []string{"a"}},
		{"no volume is known here", []string{"z@n01 UpToDate", "a@n01 UpToDate"}, []string{"a", "z"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := clustertest.NewWorld(t, 3)
			v := w.Linstor.View
			v.Nodes["off"] = &linstor.Node{Name: "off", Status: linstor.StatusOffline}
			v.Nodes["leaves"] = &linstor.Node{Name: "leaves", Status: linstor.StatusOnline}
			v.SetResources(states.Copies(tc.copies...))
			s := w.Snapshot()
			s.Members = slices.Insert(s.Members, 0, &cluster.Member{Name: "leaves"})
			if d := cmp.Diff(tc.want, replica.LastReplicasOn(s, "n01")); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestCheckLastReplicasLooksAgain(t *testing.T) {
	w := clustertest.NewWorld(t, 3)
	in, r := w.Input()
	check := func(copies ...string) error {
		now := *w.Linstor.View
		now.Resources = states.Copies(copies...)
		r.Now = &now
		return replica.CheckLastReplicas(t.Context(), in, "n01")
	}
	if err := check("a@n01 UpToDate", "a@n02 UpToDate", "b@n02 UpToDate"); err != nil {
		t.Error(err)
	}
	if err := check(); err != nil {
		t.Error(err)
	}
	var last *replica.LastReplicaError
	if err := check("a@n01 UpToDate", "a@n02 Inconsistent"); !errors.As(err, &last) || last.Node != "n01" ||
		!cmp.Equal(last.Resources, []string{"a"}) {
		t.Errorf("error is %v", err)
	}
	// What LINSTOR does not answer is not a yes.
	r.Fail["resources"] = errors.New("refused")
	if err := check("a@n01 UpToDate", "a@n02 UpToDate"); !errors.Is(err, r.Fail["resources"]) {
		t.Errorf("error is %v", err)
	}
	delete(r.Fail, "resources")
	r.Fail["view"] = errors.New("refused")
	if err := check("a@n01 UpToDate", "a@n02 UpToDate"); !errors.Is(err, r.Fail["view"]) {
		t.Errorf("error is %v", err)
	}
}

func TestLastReplicaErrorNamesSome(t *testing.T) {
	e := &replica.LastReplicaError{Node: "n01"}
	for i := range 12 {
		e.Resources = append(e.Resources, fmt.Sprintf("pvc-%02d", i))
	}
	if text := e.Error(); !strings.Contains(text, "12 volumes: pvc-00, ") ||
		!strings.HasSuffix(text, "pvc-09 and 2 more") {
		t.Error(text)
	}
}

// A view that does not know of copies names no volumes: it is for the task itself to look.
func TestLastReplicasNeedAView(t *testing.T) {
	s := clustertest.NewWorld(t, 2).Snapshot()
	s.Linstor.View.SetResources(states.Copies("a@n01 UpToDate"))
	s.Linstor.View.ResourcesKnown = false
	if names := replica.LastReplicasOn(s, "n01"); names != nil {
		t.Errorf("copies are not known, and these are named: %v", names)
	}
	s.Linstor.View = nil
	if names := replica.LastReplicasOn(s, "n01"); names != nil {
		t.Errorf("nothing is known, and these are named: %v", names)
	}
}

// A copy without any state may be the good one.
func TestACopyWithoutAStateCounts(t *testing.T) {
	s := clustertest.NewWorld(t, 2).Snapshot()
	s.Linstor.View.SetResources([]linstor.Resource{{Name: "a", Node: "n01", Diskful: true},
		{Name: "a", Node: "n02", Diskful: true}})
	if names := replica.LastReplicasOn(s, "n01"); !slices.Equal(names, []string{"a"}) {
		t.Errorf("%v are named, want a", names)
	}
}

func TestFreshCopies(t *testing.T) {
	w := clustertest.NewWorld(t, 3)
	in, r := w.Input()
	now := *w.Linstor.View
	now.Resources = states.Copies("a@n01 UpToDate", "a@n02 UpToDate", "b@n02 UpToDate")
	r.Now = &now
	if v, err := replica.FreshCopies(t.Context(), in, "n03"); v != nil || err != nil {
		t.Errorf("a node without copies: %+v, %v", v, err)
	}
	v, err := replica.FreshCopies(t.Context(), in, "n01")
	if err != nil || len(v.Resources) != 2 {
		t.Fatalf("%+v, %v, want both copies of a", v, err)
	}
	r.Fail["resources"] = errors.New("refused")
	here, all, err := replica.CopiesWith(t.Context(), in, "n01")
	if !errors.Is(err, r.Fail["resources"]) || all != nil {
		t.Errorf("LINSTOR refuses: %v, %v, %v", here, all, err)
	}
	if v, err := replica.FreshCopies(t.Context(), in, "n03"); v != nil || !errors.Is(err, r.Fail["resources"]) {
		t.Errorf("LINSTOR refuses: %+v, %v", v, err)
	}
}

// TestReplicationNeeds: a satellite is not restarted while another node's replica of one of its volumes is behind. On
// bare storage nothing is replicated: copies on two nodes never become UpToDate, and nothing waits for them.
func TestReplicationNeeds(t *testing.T) {
	state := func(volume, node, state string) func(w *clustertest.World) {
		return func(w *clustertest.World) {
			w.Copies("a n01 n02", "b n02")
			w.CopyState(volume, node, state)
		}
	}
	const behind = "replica on n02 is not UpToDate"
	for name, tc := range map[string]struct {
		spoil func(w *clustertest.World)
		want  string
	}{
		"all UpToDate":             {state("a", "n01", "UpToDate"), ""},
		"the other one is behind":  {state("a", "n02", "Outdated"), behind},
		"the other one is unknown": {state("a", "n02", ""), behind},
		"its own one is behind":    {state("a", "n01", "Outdated"), ""},
		"another volume is behind": {state("b", "n02", "Outdated"), ""},
		"without DRBD": {func(w *clustertest.World) {
			w.Copies()
			w.Spread("a@n01 LOCAL", "a@n02 LOCAL")
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := clustertest.NewWorld(t, 3)
			tc.spoil(w)
			s := w.Snapshot()
			got := replica.ReplicationNeeds(s, s.MemberByName("n01"), nil, w.Linstor.View.Resources)
			if !strings.Contains(got, tc.want) || (got == "") != (tc.want == "") {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
