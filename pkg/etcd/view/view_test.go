package view_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/view"
)

const (
	a = "http://a"
	b = "http://b"
	c = "http://c"
)

// list is of three voters and a learner.
func list() []view.Member {
	return []view.Member{{ID: 1, Name: "a"}, {ID: 2, Name: "b"}, {ID: 3, Name: "c"}, {ID: 4, Name: "d", Learner: true}}
}

// voter is one that serves, with member 1 as its leader.
func voter(endpoint string, id view.ID) view.Answer {
	return view.Answer{Endpoint: endpoint, ClusterID: 9, MemberID: id, Leader: 1, Term: 5, Committed: 2000, Applied: 2000,
		Revision: 7, Linearizable: true, Agreed: list()}
}

func learner(leader view.ID) view.Answer {
	return view.Answer{Endpoint: "http://d", ClusterID: 9, MemberID: 4, Leader: leader, Learner: true, Term: 5,
		Committed: 2000, Applied: 2000}
}

func without(an view.Answer) view.Answer {
	an.Linearizable, an.Agreed, an.Alarms = false, nil, nil
	return an
}

// TestLeaderOfLearner: a learner goes on naming a leader that is gone.
func TestLeaderOfLearner(t *testing.T) {
	v := view.New(learner(1), without(voter(b, 2)), view.Answer{Endpoint: a, Err: errors.New("refused")})
	if v.Quorum() || v.Leader() != 0 || v.Members() != nil || v.Fit("http://d", 4) {
		t.Errorf("quorum %v, leader %x, %v", v.Quorum(), v.Leader(), v.Members())
	}
	if v = view.New(learner(3), voter(b, 2)); v.Leader() != 1 || v.Fit("http://d", 4) {
		t.Errorf("leader %x, a learner with another one is fit: %v", v.Leader(), v.Fit("http://d", 4))
	}
	if v = view.New(learner(1), voter(b, 2)); !v.Fit("http://d", 4) {
		t.Error("a learner with the same leader is not fit")
	}
}

func TestNewest(t *testing.T) {
	old, newer, newest := voter(a, 1), voter(b, 2), voter(c, 3)
	old.Term, old.Leader = 4, 3
	old.Alarms = []view.Alarm{{Member: 1, Type: view.NoSpace}}
	newer.Applied, newer.Alarms = 1999, []view.Alarm{{Member: 2, Type: view.NoSpace}}
	newest.Revision = 8
	for _, v := range []view.View{view.New(old, newer, newest), view.New(newest, newer, old)} {
		if len(v.Alarms()) != 0 || v.Leader() != 1 || v.Revision() != 8 || len(v.Voters()) != 3 {
			t.Errorf("alarms %v, leader %x, revision %d, voters %v", v.Alarms(), v.Leader(), v.Revision(), v.Voters())
		}
	}
	if v := view.New(old, newer); len(v.Alarms()) != 1 || v.Alarms()[0].Member != 2 {
		t.Errorf("alarms %v", v.Alarms())
	}
}

func TestFit(t *testing.T) {
	for name, tc := range map[string]struct {
		spoil func(*view.Answer)
		want  bool
	}{
		"fit":                   {func(*view.Answer) {}, true},
		"behind a little":       {func(an *view.Answer) { an.Applied -= view.MaxLag }, true},
		"behind":                {func(an *view.Answer) { an.Applied -= view.MaxLag + 1 }, false},
		"silent":                {func(an *view.Answer) { an.Err = errors.New("refused") }, false},
		"another member":        {func(an *view.Answer) { an.MemberID = 3 }, false},
		"another cluster":       {func(an *view.Answer) { an.ClusterID = 8 }, false},
		"another leader":        {func(an *view.Answer) { an.Leader = 3 }, false},
		"no leader":             {func(an *view.Answer) { an.Leader = 0 }, false},
		"not in the list":       {func(an *view.Answer) { an.MemberID = 5 }, false},
		"a learner in its eyes": {func(an *view.Answer) { an.Learner = true }, false},
	} {
		an := without(voter(b, 2))
		tc.spoil(&an)
		id := view.ID(2)
		if name == "not in the list" {
			id = 5
		}
		if got := view.New(voter(a, 1), an).Fit(b, id); got != tc.want {
			t.Errorf("%s: fit %v", name, got)
		}
	}
}

func TestDivided(t *testing.T) {
	forced := voter(c, 3)
	forced.Agreed = []view.Member{{ID: 3, Name: "c"}}
	for name, tc := range map[string]struct {
		v    view.View
		want bool
	}{
		"one cluster":             {view.New(voter(a, 1), voter(b, 2), learner(1)), false},
		"forced to be new":        {view.New(voter(a, 1), voter(b, 2), forced), true},
		"forced, without the old": {view.New(without(voter(a, 1)), forced), false},
		"nobody":                  {view.New(), false},
	} {
		if got := tc.v.Divided(); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	other := voter(b, 2)
	other.ClusterID = 8
	if ids := view.New(voter(a, 1), other, voter(c, 3)).ClusterIDs(); len(ids) != 2 {
		t.Errorf("clusters %v", ids)
	}
}

// TestUnchanged: what is done with answers does not change a view.
func TestUnchanged(t *testing.T) {
	given := []view.Answer{voter(a, 1)}
	v := view.New(given...)
	given[0].Leader = 7
	v.Answers()[0].Leader = 8
	v.Members()[0].ID = 8
	if v.Leader() != 1 || v.Members()[0].ID != 1 {
		t.Errorf("leader %x, members %v", v.Leader(), v.Members())
	}
}

func TestQuorum(t *testing.T) {
	for voters, want := range []int{1, 1, 2, 2, 3, 3} {
		if got := view.Quorum(voters); got != want {
			t.Errorf("%d of %d, want %d", got, voters, want)
		}
	}
}

// TestID: an ID larger than a float64 can hold survives JSON.
func TestID(t *testing.T) {
	const id = view.ID(1<<64 - 2)
	text, err := json.Marshal(map[string]view.ID{"id": id})
	if err != nil || string(text) != `{"id":"fffffffffffffffe"}` {
		t.Fatalf("%s, %v", text, err)
	}
	var back map[string]view.ID
	if err := json.Unmarshal(text, &back); err != nil || back["id"] != id {
		t.Errorf("%v, %v", back, err)
	}
	if json.Unmarshal([]byte(`{"id":"x"}`), &back) == nil {
		t.Error("x was read")
	}
}

// TestOf: what a foreign etcd says at a member's address is no answer.
func TestOf(t *testing.T) {
	foreign := voter(c, 3)
	foreign.ClusterID = 8
	v := view.New(voter(a, 1), foreign)
	if of := v.Of(9); len(of.ClusterIDs()) != 1 || !of.Quorum() || len(v.ClusterIDs()) != 2 {
		t.Errorf("%v of %v", of, v)
	}
	if of := v.Of(7); of.Quorum() {
		t.Errorf("%v is of cluster 7", of)
	}
}

// TestArmed: who cannot list the alarms proves no quorum.
func TestArmed(t *testing.T) {
	newer := voter(b, 2)
	newer.Applied++
	v := view.New(voter(a, 1), newer).Armed(func(endpoint string) ([]view.Alarm, error) {
		if endpoint == b {
			return nil, errors.New("timeout")
		}
		return []view.Alarm{{Member: 1, Type: view.Corrupt}}, nil
	})
	if b, _ := v.At(b); !v.Quorum() || b.Linearizable || len(v.Alarms()) != 1 {
		t.Errorf("%+v", v)
	}
	v = v.Armed(func(string) ([]view.Alarm, error) { return nil, errors.New("timeout") })
	if v.Quorum() {
		t.Errorf("%+v", v)
	}
}
