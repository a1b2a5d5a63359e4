package seats

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/view"
)

// Snapshot is one of the database, taken before members begin with the next minor release. It is noted before it is
// begun, so that whoever goes on after a crash asks for the same one.
type Snapshot struct {
	// ID names it, and its file: no two on one node have the same.
	ID string `json:"id"`
	// From and To are the minors, such as 3.6 and 3.7, between which it is taken. It counts for no other upgrade.
	From string `json:"from"`
	To   string `json:"to"`
	// ClusterID is that of the cluster whose database it is.
	ClusterID view.ID `json:"clusterID"`
	// Member is the one that is asked for it, and Node where that one is, and where the file is kept.
	Member string `json:"member"`
	Node   string `json:"node"`
	// Begun is when it was noted. The snapshot was taken later, so that it is never older than it seems.
	Begun time.Time `json:"begun"`
	// Taken is what its pod has reported; nil before it is on the disk as a whole. Failed is the first error that it has
	// reported; "" for none.
	Taken  *Taken `json:"taken,omitempty"`
	Failed string `json:"failed,omitempty"`
	// Tried are the members that were asked before this one for the same upgrade, without success.
	Tried []string `json:"tried,omitempty"`
}

// Taken is what came of taking a snapshot.
type Taken struct {
	// ID is that of the snapshot, and ClusterID that of the cluster whose database it is, in hexadecimal.
	ID        string `json:"id"`
	ClusterID string `json:"clusterID,omitempty"`
	// At is when it was taken, by the clock of the node.
	At time.Time `json:"at,omitzero"`
	// Revision is one that is in it; later ones may be.
	Revision int64 `json:"revision,omitempty"`
	// Bytes is the size of the file, and SHA256 the hash at its end, in hexadecimal.
	Bytes  int64  `json:"bytes,omitempty"`
	SHA256 string `json:"sha256,omitempty"`
	// Error is why there is none; "" if there is one.
	Error string `json:"error,omitempty"`
}

// SnapshotFor is how long a snapshot counts for an upgrade that has not begun, and how long one is asked for before
// another one is. What LINSTOR has changed since would be lost with it.
const SnapshotFor = time.Hour

// NewSnapshot is one that is begun now.
func NewSnapshot(from, to string, cluster view.ID, of Seat, now time.Time) *Snapshot {
	return &Snapshot{ID: fmt.Sprintf("before-%s-%s", to, now.UTC().Format("20060102T150405Z")), From: from, To: to,
		ClusterID: cluster, Member: of.Name, Node: of.Node, Begun: now}
}

// Of reports whether it is one of a cluster's database for an upgrade between two minors, and young enough.
func (s *Snapshot) Of(cluster view.ID, from, to string, now time.Time) bool {
	return s.before(cluster, from, to) && now.Sub(s.Begun) < SnapshotFor
}

// before reports whether it is one of a cluster's database for an upgrade between two minors, however old it is.
func (s *Snapshot) before(cluster view.ID, from, to string) bool {
	return s != nil && s.ClusterID == cluster && s.From == from && s.To == to
}

// InVain are the members that were asked for an upgrade between two minors, and gave no snapshot: that of this one
// included, which may have failed, or may have said nothing for as long as one is asked for.
func (s *Snapshot) InVain(cluster view.ID, from, to string) []string {
	if !s.before(cluster, from, to) || s.Taken != nil {
		return nil
	}
	return append(slices.Clone(s.Tried), s.Member)
}

// Outcome is what has come of it, and where, in a few words; "" before anything has.
func (s *Snapshot) Outcome() string {
	switch {
	case s == nil || s.Taken == nil && s.Failed == "":
		return ""
	case s.Taken == nil:
		return "failed " + s.On()
	}
	return "taken " + s.On()
}

// On is its name, and where it is: two that are begun within a second on different nodes have the same name.
func (s *Snapshot) On() string { return s.ID + " on " + s.Node }

// Hear notes what the pods on nodes have reported of the snapshot. One that was taken is kept in mind until the next
// one is: it lies on its node, whatever becomes of the upgrade and of the cluster.
func (n *Notes) Hear(sites map[string]Site) {
	if n.Snapshot == nil {
		return
	}
	n.Snapshot = n.Snapshot.Heard(sites[n.Snapshot.Node].Taken)
	if n.Snapshot.Taken != nil {
		n.Kept = n.Snapshot.clone()
	}
}

// Wants forgets a snapshot that is asked for, unless it is one before an upgrade to a minor that members are to get:
// its pod would try on for as long as it is noted, after a human has set the version back.
func (n *Notes) Wants(minor string) {
	if s := n.Snapshot; s != nil && s.Taken == nil && s.To != minor {
		n.Snapshot = nil
	}
}

// clone is a copy that shares nothing that is changed; nil of nil.
func (s *Snapshot) clone() *Snapshot {
	if s == nil {
		return nil
	}
	c := *s
	c.Tried = slices.Clone(s.Tried)
	return &c
}

// Heard is the snapshot after its node's pod has reported. What was reported of another one says nothing. Of errors
// the first one stays: others have other numbers in them, and each would be written anew.
func (s *Snapshot) Heard(r *Taken) *Snapshot {
	if s == nil || s.Taken != nil || r == nil || r.ID != s.ID {
		return s
	}
	heard, report := *s, *r
	if r.Error == "" {
		heard.Taken = &report
	} else {
		heard.Failed = cmp.Or(heard.Failed, r.Error)
	}
	return &heard
}
