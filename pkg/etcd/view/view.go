// Package view is what the members of an etcd cluster say of themselves and of each other, as one look found it, and
// what follows from that. A member that gave no answer is unknown: neither gone nor empty.
package view

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
)

// ID identifies a member or a cluster; 0 is none. In JSON it is a text, as etcdctl writes it: a JSON number cannot
// hold each uint64.
type ID uint64

// String returns the hexadecimal form.
func (id ID) String() string { return strconv.FormatUint(uint64(id), 16) }

// MarshalText implements encoding.TextMarshaler.
func (id ID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (id *ID) UnmarshalText(text []byte) error {
	n, err := strconv.ParseUint(string(text), 16, 64)
	if err != nil {
		return fmt.Errorf("%q is not a hexadecimal ID: %w", text, err)
	}
	*id = ID(n)
	return nil
}

// Member is one entry of a member list.
type Member struct {
	ID ID
	// Name is empty until the member has started for the first time.
	Name     string
	PeerURLs []string
	Learner  bool
}

// AlarmType is a kind of alarm.
type AlarmType string

// The alarms of etcd.
const (
	// NoSpace: a database has reached its quota. The whole cluster refuses writes until the alarm is disarmed, also
	// after there is space again (run with etcd 3.7).
	NoSpace AlarmType = "NOSPACE"
	// Corrupt: a member's contents differ from the others'.
	Corrupt AlarmType = "CORRUPT"
)

// Alarm is one that is armed.
type Alarm struct {
	Member ID
	Type   AlarmType
}

// Answer is what one endpoint said when it was asked by itself.
type Answer struct {
	Endpoint string
	// Err is why there is no answer; then nothing below is known.
	Err error

	ClusterID, MemberID ID
	Version             string
	// Storage is the release whose form the member's database has. It rises to a new minor once all members run that,
	// which is the edge from which no way leads back. It is "" in etcd 3.5, which does not say it.
	Storage string
	// DBSize, InUse and Quota are bytes; Quota is 0 before etcd 3.6, which does not say it.
	DBSize, InUse, Quota int64
	// Leader is 0 if the member knows none. That of a learner may be stale: it takes no part in elections, and goes on
	// naming a leader that is gone.
	Leader  ID
	Learner bool
	// Term, Committed and Applied are of raft. Committed is what the member knows to be committed.
	Term, Committed, Applied uint64
	// Revision is that of the store.
	Revision int64

	// Linearizable reports whether a linearizable read through this member passed, which proves that it has a quorum
	// behind it. Then Agreed is the member list at that moment. Alarms are set by Armed, in one answer.
	Linearizable bool
	Agreed       []Member
	Alarms       []Alarm
}

// View is one look at all endpoints. It does not change.
type View struct{ answers []Answer }

// New is a view of these answers.
func New(answers ...Answer) View { return View{slices.Clone(answers)} }

// Answers are all, in the order in which they were given.
func (v View) Answers() []Answer { return slices.Clone(v.answers) }

var errForeign = errors.New("a member of a different etcd cluster responded")

// Of is the view of one cluster: what members of other clusters said is no answer. All belong to cluster 0.
func (v View) Of(cluster ID) View {
	out := New(v.answers...)
	for i, a := range out.answers {
		if cluster != 0 && a.Err == nil && a.ClusterID != cluster {
			out.answers[i] = Answer{Endpoint: a.Endpoint, Err: errForeign}
		}
	}
	return out
}

// Armed is the view with the alarms, which list gets from an endpoint. It gets them from the best answer. An answer
// whose endpoint cannot list them proves no quorum: what is armed must never be taken for absent.
func (v View) Armed(list func(endpoint string) ([]Alarm, error)) View {
	out := New(v.answers...)
	for {
		best, ok := out.best()
		if !ok {
			return out
		}
		i := slices.IndexFunc(out.answers, func(a Answer) bool { return a.Endpoint == best.Endpoint })
		alarms, err := list(best.Endpoint)
		if err == nil {
			out.answers[i].Alarms = alarms
			return out
		}
		out.answers[i].Linearizable, out.answers[i].Agreed = false, nil
	}
}

// At is the answer of an endpoint, and false if it was not asked or gave none.
func (v View) At(endpoint string) (Answer, bool) {
	for _, a := range v.answers {
		if a.Endpoint == endpoint && a.Err == nil {
			return a, true
		}
	}
	return Answer{}, false
}

// best is the newest answer of a voter with a quorum behind it: that of the highest term, and of the highest applied
// index in it.
func (v View) best() (Answer, bool) {
	var best Answer
	for _, a := range v.answers {
		if a.Err != nil || a.Learner || !a.Linearizable {
			continue
		}
		if !best.Linearizable || a.Term > best.Term || a.Term == best.Term && a.Applied > best.Applied {
			best = a
		}
	}
	return best, best.Linearizable
}

// Quorum reports whether a linearizable read through a voter passed in this look. Nothing else proves it: not a leader
// that somebody names, not a majority of answers.
func (v View) Quorum() bool {
	_, ok := v.best()
	return ok
}

// Leader is the leader that the newest voter with a quorum behind it names; 0 without a quorum. What learners name is
// not taken: a stale name from one hid that the quorum was lost.
func (v View) Leader() ID {
	b, _ := v.best()
	return b.Leader
}

// Members is the list that the quorum agrees on; nil without one.
func (v View) Members() []Member {
	b, _ := v.best()
	return slices.Clone(b.Agreed)
}

// Voters are those of Members that vote.
func (v View) Voters() []Member {
	return slices.DeleteFunc(v.Members(), func(m Member) bool { return m.Learner })
}

// Alarms are those that are armed by the newest answer alone: one that is disarmed is still in older ones.
func (v View) Alarms() []Alarm {
	b, _ := v.best()
	return slices.Clone(b.Alarms)
}

// Revision is that of the store in the newest answer; 0 without a quorum.
func (v View) Revision() int64 {
	b, _ := v.best()
	return b.Revision
}

// MaxLag is by how many entries of the log a fit member may be behind.
const MaxLag = 1000

// Fit reports whether a member takes part at this endpoint: it is the member that is meant, a member of the quorum's
// list in the role that it takes itself for, names the quorum's leader as its own, and has applied nearly all that is
// committed. A learner whose leader is another one is not fit.
func (v View) Fit(endpoint string, id ID) bool {
	a, ok := v.At(endpoint)
	b, quorum := v.best()
	if !ok || !quorum || a.MemberID != id || a.ClusterID != b.ClusterID || b.Leader == 0 || a.Leader != b.Leader {
		return false
	}
	listed := func(m Member) bool { return m.ID == id && m.Learner == a.Learner }
	return slices.ContainsFunc(b.Agreed, listed) && a.Applied+MaxLag >= b.Committed
}

// ClusterIDs are those that answers have, in order, each once.
func (v View) ClusterIDs() []ID {
	var ids []ID
	for _, a := range v.answers {
		if a.Err == nil {
			ids = append(ids, a.ClusterID)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// Divided reports whether two members each have a quorum behind them that does not know the other one: after
// "--force-new-cluster" on one of them both clusters serve, with the same cluster ID.
func (v View) Divided() bool {
	knows := func(a, b Answer) bool {
		return slices.ContainsFunc(a.Agreed, func(m Member) bool { return m.ID == b.MemberID })
	}
	for _, a := range v.answers {
		for _, b := range v.answers {
			if a.Err == nil && b.Err == nil && a.Linearizable && b.Linearizable && !knows(a, b) {
				return true
			}
		}
	}
	return false
}

// Quorum is how many of so many voters are a majority.
func Quorum(voters int) int { return voters/2 + 1 }
