package etcd_test

import (
	"errors"
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
