package membership

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/datadir"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/seats"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/versions"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/view"
)

// desired is what a member's node is to have for it. What was seen at work starts on its own data only, long before
// it gets a vote.
func (s *situation) desired(m *member) seats.Configuration {
	c := seats.Configuration{Expectation: datadir.Expectation{Name: m.Name, Token: s.notes.Token, Mode: datadir.Join},
		PeerURL: m.PeerURL, ClientURL: m.ClientURL, Version: m.Version, Revision: m.Revision}
	switch {
	case m.Force != "":
		c.Mode, c.Recovery, c.Others = datadir.Force, m.Force, s.members.Others(m)
	case m.Started:
		c.Mode = datadir.Resume
	case m.Seed:
		c.Mode, c.Peers = datadir.Seed, m.Name+"="+m.PeerURL
	default:
		c.Peers = s.members.Peers(m)
	}
	return c
}

// misplaced reports whether a node is to be written for its member, and has something else. Without a quorum that is
// done only for members that have data, and for the first one.
func (s *situation) misplaced(m *member) bool {
	known := m.Listed != nil || !s.quorum && (m.Started || s.notes.ClusterID == 0) && !s.released(*m.Seat)
	return known && !m.Site.Gone && !m.Other() && (s.forcing() == nil || s.forcing() == m) && !m.Site.Has(s.desired(m))
}

// edited reports whether a member's DaemonSet is to be written again: it says what it shall, and has something else.
func (s *situation) edited(m *member) bool {
	return m.Listed != nil && m.Site.Edited && m.Site.Has(s.desired(m)) && !m.Site.Gone
}

// rewrites finds the members whose DaemonSets are written again. It may be the cure for one whose image cannot be
// pulled, and comes early therefore; something may change them back again and again, and must not hide all else.
func (s *situation) rewrites() {
	for _, m := range s.members.All(func(m *member) bool { return s.edited(m) }) {
		k := key(Rewrite, m)
		s.tried = append(s.tried, k)
		if tried, ok := s.notes.Since[k]; !ok || s.Now.Sub(tried) < s.Start {
			s.unwritten = append(s.unwritten, m)
		}
	}
}

// place has a node run its member. What runs there of a former one goes first: its DaemonSet has another name.
func place(s *situation, m *member) {
	if m.Replaces(m.Site) && m.Site.Label != m.Name {
		s.d.Step = Unplace
		return
	}
	s.d.Step, s.d.Configuration = Place, s.desired(m)
}

// forcing is the member from whose data a new cluster is made; nil if there is none.
func (s *situation) forcing() *member {
	if s.quorum || s.notes.ClusterID == 0 {
		return nil
	}
	if m := s.survivor(); m != nil {
		return m
	}
	return s.members.First(func(m *member) bool { return m.Force != "" })
}

// survivor is whom a human has chosen and who is not forced yet; nil if there is none. One look without a quorum does
// not carry out what may have been chosen long ago.
func (s *situation) survivor() *member {
	r := s.Recovery
	if r == nil || r.ID == s.notes.Recovered || s.notes.ClusterID == 0 || !s.quorumLostFor(s.Start) {
		return nil
	}
	return s.members.First(func(m *member) bool { return m.Name == r.Force && m.Started && m.Startable() })
}

// force takes all others away first: started beside a forced member they would be another cluster.
func force(s *situation, m *member) {
	if o := s.members.First(func(o *member) bool { return o != m && !o.Site.Empty() }); o != nil {
		s.d.Step, s.about, o.Force = Unplace, o, ""
		return
	}
	if o := s.members.First(func(o *member) bool { return o != m && o.Site.Pod != nil && !o.Site.Silent() }); o != nil {
		s.d.Step, s.about = Wait, o
		return
	}
	m.Force, m.Sealed, s.notes.Recovered = s.Recovery.ID, false, s.Recovery.ID
	place(s, m)
}

// moved reports whether the quorum is to learn a member's new address now. One that is fit is cut off from then until
// its restart, so that all other voters must be steady; one that is not must not be needed.
func moved(s *situation, m *member) bool {
	switch {
	case m.Listed == nil || m.Listed.PeerURLs[0] == m.Address():
		return false
	case m.Fit:
		others := s.members.First(func(o *member) bool { return o != m && o.Votes() && !s.steady(o) })
		return s.restartable(m) && others == nil
	}
	// One look alone may have lost the answer of a member that is needed, and would be cut off: its kubelet must not
	// report it ready, or be silent for a while, too.
	t, away := s.notes.Since[key("down", m)]
	silent := m.Site.Silent() && (!away || s.Now.Sub(t) < s.Start/2)
	return s.members.Spares(m) && !m.Serving() && !silent
}

func readdress(s *situation, m *member) {
	s.d.Endpoint = s.members.Contact()
	m.Move()
}

// handOver moves leadership away from a member before it is taken away, and reports whether it does.
func (s *situation) handOver(m *member) bool {
	f := s.members.Follower()
	if !m.Leads || !m.Fit || f == nil {
		return false
	}
	s.d.Step, s.d.Endpoint, s.d.Target, s.about = MoveLeader, m.Endpoint, *f.Seat, m
	return true
}

func remove(s *situation, m *member) {
	if s.handOver(m) {
		return
	}
	m.Removing = true
	s.d.Step, s.d.Endpoint, s.about = Remove, s.members.Contact(), m
}

// lose removes a member whose data is lost. Its disk may only be mounted late: another node is better for another one.
func lose(s *situation, m *member) {
	remove(s, m)
	if !m.Site.Gone {
		s.notes.Avoid[m.Node] = seats.Avoided{Lost: true, Since: s.Now,
			Why: "a member's data was lost on this node; check that its disk is mounted"}
	}
}

// giveUp removes a learner, and keeps others from its node for a while.
func giveUp(s *situation, m *member) {
	remove(s, m)
	why := "a member did not start on this node in time"
	if r := m.Site.Refused(m.Name); r != "" {
		why = fmt.Sprintf("the guard prevented a member from starting on this node (%s)", r)
	}
	s.notes.Avoid[m.Node] = seats.Avoided{Why: why, Since: s.Now}
}

// saved reports whether there is a snapshot for the upgrade between two minors, by what its pod has reported. A member
// whose data was lost is replaced by one of another name: then the snapshot on its disk is lost, too.
func (s *situation) saved(from, to string) bool {
	n := s.notes.Snapshot
	return n.Of(s.notes.ClusterID, from, to, s.Now) && n.Taken != nil &&
		s.members.First(func(m *member) bool { return m.Name == n.Member }) != nil
}

// save goes on with the snapshot that was begun, if its member can still be asked for it, and begins another one if
// not. Once it is noted that a member has failed, another one is asked. If all have, the last one is until its time is
// over: then all are again.
func save(s *situation, _ *member) {
	from, n := versions.Minor(s.target), s.notes.Snapshot
	inVain := n.InVain(s.notes.ClusterID, from, s.minor)
	m := s.members.First(func(m *member) bool {
		return n.Of(s.notes.ClusterID, from, s.minor, s.Now) && n.Taken == nil && m.Name == n.Member && m.FitVoter()
	})
	if m == nil || s.Notes.Snapshot.Failed != "" {
		other := s.members.Saver(inVain)
		if other == nil && m == nil {
			inVain, other = nil, s.members.Saver(nil)
		}
		if other != nil {
			m, n = other, seats.NewSnapshot(from, s.minor, s.notes.ClusterID, *other.Seat, s.Now)
			s.notes.Snapshot, n.Tried = n, inVain
		}
	}
	s.d.Endpoint, s.d.Snapshot, s.about = m.Endpoint, *n, m
}

// restart deletes a pod, and another one a while later if that one has the old things, too.
func restart(s *situation, m *member) {
	r, now := m.Restarts.Next(m.Purpose(), m.Pod.UID, s.Now, s.Start/5)
	if !now {
		s.d.Step = Wait
	} else if !s.handOver(m) {
		m.Restarts, s.d.PodUID = r, m.Pod.UID
	}
}

// exhausted reports whether a member was restarted as often as it may be, and its new pod has the old things, too.
func exhausted(_ *situation, m *member) bool {
	return m.Site.Stale() && m.Restarts.Exhausted(m.Purpose(), m.Pod.UID)
}

// outdated reports whether a member is to run with something else than it was planned with.
func outdated(s *situation, m *member) bool {
	client := m.Place != nil && m.Place.PeerURL == m.PeerURL && m.Place.ClientURL != m.ClientURL
	return s.target != "" && !versions.Equal(m.Version, s.target) || m.Revision != s.Revision || client
}

// due is the member that gets another version or other settings next: one that serves nobody, or else, if all voters
// are as they should be, a follower, and the leader last.
func (s *situation) due() *member {
	waiting := s.members.All(func(m *member) bool {
		return (m.Votes() || m.Listed == nil && (m.Started || s.notes.ClusterID == 0)) && outdated(s, m) && !m.Site.Gone
	})
	if m := slices.IndexFunc(waiting, func(m *member) bool {
		return !m.Fit && m.Site.Configuration != nil && s.restartable(m)
	}); m >= 0 {
		return waiting[m]
	}
	if !s.quorum || !s.steadyAll() {
		return nil
	}
	waiting = slices.DeleteFunc(waiting, func(m *member) bool { return !s.restartable(m) })
	if len(waiting) == 0 {
		return nil
	}
	return slices.MinFunc(waiting, func(a, b *member) int { return cmp.Compare(a.Worth(), b.Worth()) })
}

func renew(s *situation, m *member) {
	m.Revision = s.Revision
	if s.target != "" {
		m.Version = s.target
	}
	if m.Place != nil && m.Place.PeerURL == m.PeerURL {
		m.ClientURL = m.Place.ClientURL
	}
	place(s, m)
}

// steady reports whether a member is fit and known to run with what its node has for it, on its own data only.
func (s *situation) steady(m *member) bool {
	return m.Fit && m.Sealed && m.Site.Current() && !s.misplaced(m)
}

func (s *situation) steadyAll() bool {
	return s.members.First(func(m *member) bool { return m.Votes() && !s.steady(m) }) == nil
}

// plan makes a seat on the best node.
func (s *situation) plan(seed bool) *member {
	n := places(s).Candidate()
	s.notes.Serial++
	s.notes.Seats = append(s.notes.Seats, seats.Seat{Name: fmt.Sprintf("%s-%d", n.Name, s.notes.Serial), Node: n.Name,
		PeerURL: n.PeerURL, ClientURL: n.ClientURL, Seed: seed, Version: s.target, Revision: s.Revision})
	return &member{Seat: &s.notes.Seats[len(s.notes.Seats)-1], Place: n, Site: s.Sites[n.Name]}
}

func seed(s *situation, _ *member) {
	s.notes.Token, s.notes.TLS = s.NewToken, s.TLS
	s.about = s.plan(true)
	place(s, s.about)
}

// planned is a member that the quorum's list does not have yet.
func planned(_ *situation, m *member) bool { return m.ID == 0 && m.Listed == nil }

func grow(s *situation, m *member) {
	if m == cluster {
		m = s.plan(false)
	}
	s.about, s.d.Endpoint = m, s.members.Contact()
}

// few reports whether another member is to begin. While one does, none is.
func (s *situation) few() bool {
	begins := s.members.First(func(m *member) bool { return m.Listed == nil || m.Listed.Learner })
	return begins == nil && s.members.Count((*member).Wanted) < s.Size
}

func (s *situation) full() bool { return len(s.alarms(view.NoSpace)) > 0 }

func disarm(s *situation, _ *member) {
	id := s.alarms(view.NoSpace)[0].Member
	s.d.Endpoint, s.d.Target = s.members.Contact(), seats.Seat{ID: id, Name: id.String()}
}

// treatable reports whether something is left to be tried about a full database.
func (s *situation) treatable() bool {
	c := s.notes.Cure
	return c == nil || s.members.First(func(m *member) bool {
		return m.Learns() || m.Votes() && !slices.Contains(c.Defragmented, m.ID)
	}) != nil
}

// treat does the next thing about a full database. A learner can be neither compacted nor defragmented.
func treat(s *situation, _ *member) {
	if s.notes.Cure == nil {
		s.notes.Cure = &seats.Cure{Began: s.Now, Revision: s.Look.Revision()}
	}
	c := s.notes.Cure
	if l := s.members.First((*member).Learns); l != nil {
		remove(s, l)
		return
	}
	m := s.members.First(func(m *member) bool { return m.Votes() && !slices.Contains(c.Compacted, m.ID) })
	if m != nil {
		c.Compacted = append(c.Compacted, m.ID)
		s.d.Step, s.d.Endpoint, s.d.Revision, s.about = Compact, m.Endpoint, c.Revision, m
		return
	}
	left := s.members.All(func(m *member) bool { return m.Votes() && !slices.Contains(c.Defragmented, m.ID) })
	m = left[0]
	if m.Leads && len(left) > 1 {
		m = left[1]
	}
	if !s.handOver(m) {
		c.Defragmented = append(c.Defragmented, m.ID)
		s.d.Step, s.d.Endpoint, s.about = Defragment, m.Endpoint, m
	}
}
