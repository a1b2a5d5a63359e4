// Package seats has what is planned, noted and found of the members of an etcd cluster on nodes.
package seats

import (
	"maps"
	"slices"
	"time"

	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/view"
)

// Seat is a member as the operator has planned it. It is noted before anything is done for it, and forgotten when the
// operator has removed it from the quorum's list and from its node.
type Seat struct {
	// Name is that of the member and is never used again; Node is where it is.
	Name string `json:"name"`
	Node string `json:"node"`
	// PeerURL and ClientURL are where it is reached.
	PeerURL   string `json:"peerURL"`
	ClientURL string `json:"clientURL"`
	// Former are the peer URLs that the quorum's list may still have after the node's address has changed.
	Former []string `json:"former,omitempty"`
	// ID is 0 until the quorum's list has the member.
	ID view.ID `json:"id,omitempty"`
	// Seed is the first member of the cluster.
	Seed bool `json:"seed,omitempty"`
	// Started is true once the member was seen at work: it has data, and is configured to start on that data only. Sealed
	// is true once the guard has reported that it does.
	Started bool `json:"started,omitempty"`
	Sealed  bool `json:"sealed,omitempty"`
	// Force is the ID of the recovery while a new cluster is made from its data.
	Force string `json:"force,omitempty"`
	// Learner is true while the quorum's list has it without a vote, by the last look with a quorum.
	Learner bool `json:"learner,omitempty"`
	// Removing is noted before its membership is ended. A member that vanishes without it is not taken away.
	Removing bool `json:"removing,omitempty"`
	// Version and Revision are what it is to run with now, Ran the version that it ran last.
	Version  string   `json:"version"`
	Revision string   `json:"revision,omitempty"`
	Ran      string   `json:"ran,omitempty"`
	Restarts Restarts `json:"restarts,omitzero"`
}

// Restarts are those of one member for one purpose, until it runs with what is wanted and is fit.
type Restarts struct {
	// For is what it is restarted for.
	For string `json:"for,omitempty"`
	// Pod is the UID of the pod that was deleted last, At when, and Tries how many were.
	Pod   string    `json:"pod,omitempty"`
	At    time.Time `json:"at,omitzero"`
	Tries int       `json:"tries,omitempty"`
}

// MaxTries is how many pods of a member are deleted for one purpose. A new pod may run with what was there before: the
// kubelet's copy of a ConfigMap, and the controller's of a DaemonSet, may be old.
const MaxTries = 5

// Cure is what was done about a full database. Each member is tried once: a defragmentation that does not end in time
// would not do so the next time, and the member serves nobody meanwhile.
type Cure struct {
	Began    time.Time `json:"began"`
	Revision int64     `json:"revision"`
	// Compacted and Defragmented are the members at which it was tried, with or without success.
	Compacted    []view.ID `json:"compacted,omitempty"`
	Defragmented []view.ID `json:"defragmented,omitempty"`
}

// CureEvery is how long after one cure the next one may begin. A database that is full again before that grows for a
// reason that defragmenting does not remove.
const CureEvery = 24 * time.Hour

// Avoided is a node on which a member never came up, or has lost its data.
type Avoided struct {
	Why   string    `json:"why"`
	Since time.Time `json:"since"`
	// Lost is true for one that had no data of its member any more. It gets another member if there is no other node: its
	// disk may only be mounted late, and the new member's data would be beneath it.
	Lost bool `json:"lost,omitempty"`
}

// AvoidFor is how long that counts.
const AvoidFor = 24 * time.Hour

// Notes are what must outlive the operator's process. They are written before a step is carried out.
type Notes struct {
	Format Format `json:"format"`
	// Token is that of the cluster, made for it alone. GivenUp are those of clusters that never served.
	Token     string   `json:"token,omitempty"`
	GivenUp   []string `json:"givenUp,omitempty"`
	ClusterID view.ID  `json:"clusterID,omitempty"`
	TLS       bool     `json:"tls,omitempty"`
	// Serial counts the seats that there ever were, and makes their names.
	Serial int    `json:"serial,omitempty"`
	Seats  []Seat `json:"seats,omitempty"`
	// Endpoints are where clients find the cluster, as the last look with a quorum had them.
	Endpoints []string `json:"endpoints,omitempty"`
	// Avoid is by the node's name.
	Avoid map[string]Avoided `json:"avoid,omitempty"`
	// Since is when a row's condition began to hold, by "row/member"; of a row with a step, when it was first tried.
	Since map[string]time.Time `json:"since,omitempty"`
	Cure  *Cure                `json:"cure,omitempty"`
	// Recovered is the ID of the recovery that was begun last, or that a quorum has made pointless. Adopted is that of
	// the last answer with which a human had these notes made anew.
	Recovered string `json:"recovered,omitempty"`
	Adopted   string `json:"adopted,omitempty"`
	// Snapshot is the last one that was begun before an upgrade, unless it counts for none any more, and Kept the last
	// one that was taken; nil before the first one.
	Snapshot *Snapshot `json:"snapshot,omitempty"`
	Kept     *Snapshot `json:"kept,omitempty"`
	// Told is the outcome of which somebody was told last.
	Told string `json:"told,omitempty"`
}

// Clone returns a copy that shares nothing, and in which no time is later than now, as after the clock was set back.
// The zero time changes none.
func (n Notes) Clone(now time.Time) Notes {
	n.Seats, n.Avoid, n.Since = slices.Clone(n.Seats), maps.Clone(n.Avoid), maps.Clone(n.Since)
	if n.Avoid == nil {
		n.Avoid = map[string]Avoided{}
	}
	if n.Since == nil {
		n.Since = map[string]time.Time{}
	}
	past := func(t time.Time) time.Time {
		if !now.IsZero() && t.After(now) {
			return now
		}
		return t
	}
	for k, t := range n.Since {
		n.Since[k] = past(t)
	}
	for k, a := range n.Avoid {
		a.Since = past(a.Since)
		n.Avoid[k] = a
	}
	for i := range n.Seats {
		n.Seats[i].Restarts.At = past(n.Seats[i].Restarts.At)
	}
	if n.Cure != nil {
		c := *n.Cure
		c.Began, c.Compacted, c.Defragmented = past(c.Began), slices.Clone(c.Compacted), slices.Clone(c.Defragmented)
		n.Cure = &c
	}
	n.Snapshot, n.Kept = n.Snapshot.clone(), n.Kept.clone()
	if s := n.Snapshot; s != nil && !past(s.Begun).Equal(s.Begun) { // the clock was set back: nobody knows how old it is
		n.Snapshot = nil
	}
	return n
}

// Retried returns the notes after a human has answered a hold with "retry": all that was tried may be tried again.
func (n Notes) Retried() Notes {
	n = n.Clone(time.Time{})
	clear(n.Avoid)
	clear(n.Since)
	n.Cure = nil
	if s := n.Snapshot; s != nil && s.Taken == nil { // another member is asked, as after its time is over
		s.Begun, s.Tried = time.Time{}, nil
	}
	for i := range n.Seats {
		n.Seats[i].Restarts = Restarts{}
	}
	return n
}

// Is reports whether an entry of a member list is that of the seat: by peer URL, by name once it has one, and by ID
// once it is known. After a replacement two of the three may be those of another member.
func (seat Seat) Is(l view.Member) bool {
	return len(l.PeerURLs) == 1 && (l.PeerURLs[0] == seat.PeerURL || slices.Contains(seat.Former, l.PeerURLs[0])) &&
		(l.Name == "" || l.Name == seat.Name) && (seat.ID == 0 || l.ID == seat.ID)
}

// URL is where a member is asked: where it was started to listen, or else where it is planned to.
func (seat Seat) URL(site Site) string {
	if c := site.Reported(seat.Name); c != nil {
		return c.ClientURL
	}
	return seat.ClientURL
}

// Heard is a look without what other clusters say at seats that never started: such an answer is silence, and no
// reason to keep from a cluster that works.
func (n Notes) Heard(look view.View, sites map[string]Site) view.View {
	return view.New(slices.DeleteFunc(look.Answers(), func(a view.Answer) bool {
		return a.Err == nil && n.ClusterID != 0 && a.ClusterID != n.ClusterID &&
			slices.ContainsFunc(n.Seats, func(s Seat) bool { return !s.Started && s.URL(sites[s.Node]) == a.Endpoint })
	})...)
}

// Next are the restarts with that of a pod counted. The same pod is deleted again without being counted: the first
// call may have been lost. It returns false while the one before is not long enough ago.
func (r Restarts) Next(purpose, pod string, now time.Time, pause time.Duration) (Restarts, bool) {
	if r.For != purpose {
		r = Restarts{For: purpose}
	}
	switch {
	case r.Pod == pod:
	case r.Tries > 0 && now.Sub(r.At) < pause:
		return r, false
	default:
		r.Pod, r.At, r.Tries = pod, now, r.Tries+1
	}
	return r, true
}

// Exhausted reports whether as many pods were deleted for a purpose as may be, and this one is a new one.
func (r Restarts) Exhausted(purpose, pod string) bool {
	return r.For == purpose && r.Tries >= MaxTries && r.Pod != pod
}
