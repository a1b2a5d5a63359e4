package etcd_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/etcd"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/membership"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/seats"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/view"
)

// known is a cluster of that size with these endpoints, which has a quorum.
func known(size int, endpoints ...string) *etcd.Known {
	k := &etcd.Known{}
	k.Facts.Size, k.Facts.Notes.ClusterID = size, 7
	k.Facts.Look = view.New(view.Answer{Endpoint: endpoints[0], ClusterID: 7, MemberID: 1, Leader: 1, Linearizable: true,
		Agreed: []view.Member{{ID: 1, Name: "a-1"}}})
	k.Decision.Endpoints = endpoints
	return k
}

// TestURL: LINSTOR is restarted for other members once they are all there, and at once when one that it has is gone.
func TestURL(t *testing.T) {
	const a, b, c = "http://10.0.0.1:3379", "http://10.0.0.2:3379", "http://10.0.0.3:3379"
	for name, tc := range map[string]struct {
		k         *etcd.Known
		has, want string
	}{
		"at first":              {known(1, a), "", "etcd://10.0.0.1:3379"},
		"a second one has come": {known(3, a, b), "etcd://10.0.0.1:3379", "etcd://10.0.0.1:3379"},
		"all are there": {known(3, a, b, c), "etcd://10.0.0.1:3379",
			"etcd://10.0.0.1:3379,10.0.0.2:3379,10.0.0.3:3379"},
		"one that it has is gone": {known(3, b, c), "etcd://10.0.0.1:3379,10.0.0.2:3379",
			"etcd://10.0.0.2:3379,10.0.0.3:3379"},
		"it was on something else": {known(3, a), "k8s", "etcd://10.0.0.1:3379"},
	} {
		if got, err := tc.k.URL(tc.has); got != tc.want || err != nil {
			t.Errorf("%s: %s, %v, want %s", name, got, err, tc.want)
		}
	}
	for name, k := range map[string]*etcd.Known{"nothing is known": nil, "no facts": etcd.Failed(errors.New("x")),
		"no member": {}} {
		if got, err := k.URL(""); err == nil {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// TestServes: without a linearizable read nothing proves that LINSTOR could write.
func TestServes(t *testing.T) {
	k := known(1, "http://10.0.0.1:3379")
	if !k.Serves() || !k.Complete() || !k.Ours() {
		t.Errorf("%+v", k)
	}
	k.Facts.Size = 3
	if !k.Serves() || k.Complete() {
		t.Error("two members lack")
	}
	k.Decision.Hold = &membership.Hold{Reason: membership.EtcdOtherCluster}
	if k.Ours() {
		t.Error("members of another cluster are taken for ours")
	}
	k.Facts.Look = view.New(view.Answer{Endpoint: "http://10.0.0.1:3379", ClusterID: 7, MemberID: 1, Leader: 1})
	if k.Serves() {
		t.Error("a leader that somebody names is no quorum")
	}
	var none *etcd.Known
	if none.Serves() || none.Ours() || none.UnderWay() || none.Message() == "" {
		t.Error("nothing is known")
	}
}

// TestUnderWay: a member that does not answer is not asked all the time.
func TestUnderWay(t *testing.T) {
	answers, silent := view.Answer{Endpoint: "a"}, view.Answer{Endpoint: "b", Err: errors.New("refused")}
	for _, tc := range []struct {
		step membership.Step
		look view.View
		want bool
	}{
		{membership.Rest, view.New(answers), false}, {membership.Stop, view.New(answers), false},
		{membership.Wait, view.New(answers), true}, {membership.Wait, view.New(answers, silent), false},
		{membership.Promote, view.New(answers, silent), true},
	} {
		k := &etcd.Known{}
		k.Decision.Step, k.Facts.Look = tc.step, tc.look
		if got := k.UnderWay(); got != tc.want {
			t.Errorf("%s: %t", tc.step, got)
		}
	}
}

// TestSame: facts are the same whenever they are read, until something of them has changed.
func TestSame(t *testing.T) {
	a := membership.Facts{Now: time.Unix(1, 0), NewToken: "x", NotesVersion: "1", Size: 3,
		Sites: map[string]seats.Site{"n1": {UID: "u"}}}
	b := a
	b.Now, b.NewToken, b.NotesVersion = time.Unix(2, 0), "y", "2"
	if !etcd.Same(a, b) {
		t.Error("only the time has changed")
	}
	b.Sites = map[string]seats.Site{"n1": {UID: "u", Down: true}}
	if etcd.Same(a, b) {
		t.Error("a node is down")
	}
}

// TestKeeps: a node with a member goes down only while all others take part and none is being changed.
func TestKeeps(t *testing.T) {
	three := func() *etcd.Known {
		k := &etcd.Known{}
		k.Facts.Size, k.Decision.Step = 3, membership.Rest
		k.Decision.Endpoints = []string{"http://c1", "http://c2", "http://c3"}
		var answers []view.Answer
		listed := []view.Member{{ID: 1, Name: "n1-1"}, {ID: 2, Name: "n2-2"}, {ID: 3, Name: "n3-3"}}
		for i, m := range listed {
			answers = append(answers, view.Answer{Endpoint: k.Decision.Endpoints[i], ClusterID: 7, MemberID: m.ID, Leader: 1,
				Linearizable: true, Agreed: listed})
			k.Facts.Notes.Seats = append(k.Facts.Notes.Seats, seats.Seat{Name: m.Name, Node: m.Name[:2], ID: m.ID,
				ClientURL: k.Decision.Endpoints[i]})
		}
		k.Facts.Look = view.New(answers...)
		k.Decision.Notes = k.Facts.Notes.Clone(time.Time{})
		return k
	}
	silence := func(k *etcd.Known, endpoint string) {
		answers := k.Facts.Look.Answers()
		for i := range answers {
			if answers[i].Endpoint == endpoint {
				answers[i] = view.Answer{Endpoint: endpoint, Err: errors.New("refused")}
			}
		}
		k.Facts.Look = view.New(answers...)
	}
	silent2 := func(k *etcd.Known) { silence(k, "http://c2") }
	unread := func(k *etcd.Known) { *k = *etcd.Failed(errors.New("no notes")) }
	for name, tc := range map[string]struct {
		node, label string
		spoil       func(*etcd.Known)
		want        string
	}{
		"all are well":          {"n1", "n1-1", func(*etcd.Known) {}, ""},
		"it is down itself":     {"n2", "n2-2", silent2, ""},
		"a node without":        {"n4", "", silent2, ""},
		"another one is down":   {"n1", "n1-1", silent2, "member n2-2 on node n2"},
		"there is a learner":    {"n1", "n1-1", func(k *etcd.Known) { k.Decision.Notes.Seats[2].Learner = true }, "n3-3"},
		"one is being removed":  {"n1", "n1-1", func(k *etcd.Known) { k.Decision.Notes.Seats[2].Removing = true }, "n3-3"},
		"one is planned":        {"n1", "n1-1", func(k *etcd.Known) { k.Decision.Notes.Seats[2].ID = 0 }, "n3-3"},
		"one has no vote":       {"n1", "n1-1", func(k *etcd.Known) { k.Facts.Size = 5 }, "3 of 5"},
		"one is to restart":     {"n1", "n1-1", func(k *etcd.Known) { k.Decision.Step = membership.Restart }, "changed"},
		"nothing can be read":   {"n1", "n1-1", unread, "no notes"},
		"nothing, and no label": {"n1", "", unread, ""},
	} {
		k := three()
		tc.spoil(k)
		if got := k.Keeps(tc.node, tc.label); !strings.Contains(got, tc.want) || (got == "") != (tc.want == "") {
			t.Errorf("%s: %q", name, got)
		}
	}
	var none *etcd.Known
	if why := none.Keeps("n1", "n1-1"); why != "" {
		t.Errorf("the operator runs none: %s", why)
	}
	one := known(1, "http://10.0.0.1:3379")
	one.Decision.Step = membership.Rest
	if why := one.Keeps("a", "a-1"); why != "" {
		t.Errorf("the only one: %s", why)
	}
}
