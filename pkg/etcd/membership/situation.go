package membership

import (
	"slices"
	"time"

	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/datadir"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/roster"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/seats"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/versions"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/view"
)

// member is one with what is known of it.
type member = roster.Member

// cluster stands for no member in particular.
var cluster = &member{Seat: &seats.Seat{}}

// situation is what a decision rests on, and what was decided.
type situation struct {
	Facts
	// everyone is what was heard, with the answers of other clusters; Look is without them.
	everyone view.View
	quorum   bool
	notes    seats.Notes
	members  roster.Members
	// strangers are members of the quorum's list without a seat.
	strangers []view.Member
	// target is the version that members are to run next on the way to the wanted one; "" if that one is refused.
	target  string
	refused error
	// minor is the one that all members shall have next, and that none may have yet: a snapshot is missing, or the
	// databases of members are rising to the minor that they run.
	minor  string
	rising bool
	// unsurveyed are nodes that are to be looked into, and unwritten members whose DaemonSets are to be written again;
	// tried are the keys of when that was begun.
	unsurveyed, unwritten []*member
	tried                 []string
	d                     Decision
	// about is the member that a row has chosen after it held; nil for the one of which it held.
	about *member
}

// newSituation puts together what is known of each member, and notes what was seen of it.
func newSituation(f Facts) *situation {
	s := &situation{Facts: f, everyone: f.Notes.Heard(f.Look, f.Sites), notes: f.Notes.Clone(f.Now)}
	s.Look = f.Look.Of(s.cluster())
	list := s.Look.Members()
	s.quorum = s.Look.Quorum() && len(s.Look.ClusterIDs()) == 1 && !s.Look.Divided()
	if !s.quorum {
		list = nil
	}
	s.forget(list)
	for i := range s.notes.Seats {
		s.members = append(s.members, s.member(&s.notes.Seats[i], list))
	}
	for _, l := range list {
		if !slices.ContainsFunc(s.members, func(m *member) bool { return m.Listed != nil && m.Listed.ID == l.ID }) {
			s.strangers = append(s.strangers, l)
		}
	}
	s.learn(list)
	s.unseen()
	s.rewrites()
	return s
}

// cluster is the one whose members' answers count; 0 for any. The noted one may be that of other notes than a human
// wants to be made anew: of it nobody answers then.
func (s *situation) cluster() view.ID {
	if ids := s.everyone.ClusterIDs(); len(ids) == 1 && s.AdoptsFrom(ids[0]) {
		return 0
	}
	return s.Notes.ClusterID
}

// forget drops the seats of which nothing is left, and what has become old.
func (s *situation) forget(list []view.Member) {
	n := &s.notes
	n.Seats = slices.DeleteFunc(n.Seats, func(seat seats.Seat) bool {
		left := !s.Sites[seat.Node].Empty() || slices.ContainsFunc(list, seat.Is)
		switch {
		case left || !s.released(seat):
			return false
		case n.ClusterID == 0:
			n.GivenUp, n.Token = append(slices.Clone(n.GivenUp), n.Token), ""
			n.Avoid[seat.Node] = seats.Avoided{Why: "the first member never served there", Since: s.Now}
		}
		return true
	})
	for k, a := range n.Avoid {
		if s.Now.Sub(a.Since) >= seats.AvoidFor {
			delete(n.Avoid, k)
		}
	}
	if n.Cure != nil && s.Now.Sub(n.Cure.Began) >= seats.CureEvery {
		n.Cure = nil
	}
}

// released reports whether a seat that the quorum's list does not have may be taken from its node: the operator has
// removed it, or a human has given it up. The first member may also be given up before it has ever served.
func (s *situation) released(seat seats.Seat) bool {
	forsaken := slices.Contains(s.Forsaken, seat.Name)
	if s.notes.ClusterID == 0 {
		return forsaken && !s.quorum
	}
	return s.quorum && (seat.Removing || seat.ID != 0 && forsaken)
}

func (s *situation) member(seat *seats.Seat, list []view.Member) *member {
	m := &member{Seat: seat, Site: s.Sites[seat.Node]}
	m.Pod, m.Endpoint = m.Site.Live(), seat.URL(m.Site)
	if i := slices.IndexFunc(s.Nodes, func(n seats.Node) bool { return n.Name == seat.Node }); i >= 0 {
		m.Place = &s.Nodes[i]
	}
	if i := slices.IndexFunc(list, seat.Is); i >= 0 {
		m.Listed = &list[i]
		seat.ID = m.Listed.ID
	}
	m.Answer, m.Answers = s.Look.At(m.Endpoint)
	m.Fit = m.Listed != nil && s.Look.Fit(m.Endpoint, seat.ID)
	m.Leads = m.Listed != nil && seat.ID == s.Look.Leader()
	s.seen(m)
	return m
}

// seen notes what the look says of a member.
func (s *situation) seen(m *member) {
	itself := m.Answers && m.ID != 0 && m.Answer.MemberID == m.ID
	m.Started = m.Started || itself || m.Listed != nil && m.Listed.Name == m.Name
	if itself {
		m.Ran = m.Answer.Version
	}
	if m.Listed != nil {
		m.Learner = m.Listed.Learner
	}
	m.Amend()
	c := m.Site.Reported(m.Name)
	m.Sealed = m.Sealed || m.Started && m.Force == "" && c != nil && c.Mode == datadir.Resume
	if m.Site.Current() && (m.Fit || !s.quorum) {
		m.Restarts = seats.Restarts{}
	}
	s.located(m)
}

// located notes where a member is to be reached.
func (s *situation) located(m *member) {
	begun := m.Started || s.notes.ClusterID == 0
	switch {
	case s.TLS != s.notes.TLS: // the node's URLs are of another scheme
	case m.Listed == nil && !s.quorum && begun && !m.Answers:
		// Without a quorum the new address must be configured first. One look alone may have lost all answers, and all
		// members would be moved at once.
		if s.notes.ClusterID == 0 || s.quorumLostFor(s.Start/2) {
			m.Move()
		}
	case m.Listed == nil:
	case m.Listed.PeerURLs[0] == m.PeerURL:
		m.Former = nil
	case m.Listed.PeerURLs[0] == m.Address(): // the node has its former address again
		m.Move()
	}
}

// learn notes what the look says of the cluster as a whole.
func (s *situation) learn(list []view.Member) {
	s.notes.Hear(s.Sites)
	if s.notes.ClusterID == 0 && s.quorum && len(s.members) == 1 && s.members[0].Fit {
		s.notes.ClusterID = s.members[0].Answer.ClusterID
	}
	if s.quorum {
		s.forced(list)
		s.endpoints()
	}
	var all []versions.Member
	for _, m := range s.members {
		v := versions.Member{Planned: m.Version, Ran: m.Ran}
		if m.Started && s.members.First(func(m *member) bool { return m.Ran != "" }) == nil { // nobody has said what runs
			v.Ran = m.Version
		}
		if m.Fit {
			v.Storage = m.Answer.Storage
		}
		all = append(all, v)
	}
	s.target, s.refused = versions.Plan(all, s.Version, s.Releases)
	next := versions.Minor(s.target)
	stay, rising := versions.Edge(all, s.target, s.Releases)
	if stay != "" && (rising || !s.saved(versions.Minor(stay), next)) {
		s.minor, s.rising, s.target = next, rising, stay
	}
	s.notes.Wants(s.minor)
}

// forced ends a recovery. With a quorum nothing is forced any more, whatever a human has chosen before; if the quorum
// is the survivor alone, the others are forgotten.
func (s *situation) forced(list []view.Member) {
	if s.Recovery != nil {
		s.notes.Recovered = s.Recovery.ID
	}
	for _, m := range s.members {
		for _, o := range s.members {
			o.Removing = o.Removing || m.Force != "" && m.Listed != nil && len(list) == 1 && o != m
		}
		if m.Force != "" { // it may have what the new cluster has dropped
			s.notes.Snapshot = nil
		}
		m.Force = ""
	}
}

func (s *situation) alarms(kind view.AlarmType) []view.Alarm {
	return slices.DeleteFunc(s.Look.Alarms(), func(a view.Alarm) bool { return a.Type != kind })
}

// quorumLostFor is for how long looks have not found a quorum. One look alone may have lost answers.
func (s *situation) quorumLostFor(d time.Duration) bool {
	t, ok := s.notes.Since[noQuorum+"/"]
	return ok && !s.quorum && s.Now.Sub(t) >= d
}

// restartable reports whether a member's pod may be deleted now without taking the quorum away.
func (s *situation) restartable(m *member) bool {
	voters, fit := s.members.Count((*member).Votes), s.members.Count((*member).FitVoter)
	switch {
	case m.Learns() || m.Force != "":
		return true
	case m.Unfit():
		return fit >= view.Quorum(voters)
	case m.Votes():
		return voters == 1 || voters == fit && fit-1 >= view.Quorum(voters)
	}
	return s.idle(m)
}

// idle reports whether a member serves nobody while there is no quorum, by what its kubelet says, and no other member
// was restarted a moment ago.
func (s *situation) idle(m *member) bool {
	if s.quorum || m.Pod == nil || m.Pod.Ready {
		return false
	}
	busy := s.members.First(func(o *member) bool {
		return o != m && o.Restarts.Tries > 0 && s.Now.Sub(o.Restarts.At) < s.Start/5
	})
	return s.notes.ClusterID == 0 || busy == nil && s.quorumLostFor(s.Start/2)
}
