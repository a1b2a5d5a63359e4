package membership

import (
	"cmp"
	"slices"
	"time"

	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/datadir"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/seats"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/versions"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/view"
)

// member is a seat with what is known of it.
type member struct {
	*seats.Seat
	site seats.Site
	// pod is nil if the kubelet does not report on it, or if it is deleted.
	pod *seats.Pod
	// url is where the member was asked.
	url string
	// node is nil if no member is wanted there.
	node *seats.Node
	// listed is nil without a quorum, and if the quorum's list does not have it.
	listed *view.Member
	// answers reports whether it answered at all; fit whether it takes part.
	answers, fit bool
	answer       view.Answer
}

// cluster stands for no member in particular.
var cluster = &member{Seat: &seats.Seat{}}

// situation is what a decision rests on, and what was decided.
type situation struct {
	Facts
	// everyone is what was heard, with the answers of other clusters; Look is without them.
	everyone view.View
	quorum   bool
	notes    seats.Notes
	members  []*member
	// strangers are members of the quorum's list without a seat.
	strangers []view.Member
	// target is the version that members are to run next on the way to the wanted one; "" if that one is refused.
	target  string
	refused error
	// minor is the one that all members shall have next, and that none may have yet: a snapshot is missing, or the
	// databases of members are rising to the minor that they run.
	minor  string
	rising bool
	// unsurveyed are nodes that are to be looked into, tried the keys of when that was begun.
	unsurveyed []*member
	tried      []string
	d          Decision
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
		if !slices.ContainsFunc(s.members, func(m *member) bool { return m.listed != nil && m.listed.ID == l.ID }) {
			s.strangers = append(s.strangers, l)
		}
	}
	s.learn(list)
	s.unseen()
	return s
}

// cluster is the one whose members' answers count; 0 for any. The noted one may be that of other notes than a human
// wants to be made anew: of it nobody answers then.
func (s *situation) cluster() view.ID {
	if s.Adopts() && len(s.everyone.ClusterIDs()) == 1 {
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
	m := &member{Seat: seat, site: s.Sites[seat.Node]}
	m.pod, m.url = m.site.Live(), seat.URL(m.site)
	if i := slices.IndexFunc(s.Nodes, func(n seats.Node) bool { return n.Name == seat.Node }); i >= 0 {
		m.node = &s.Nodes[i]
	}
	if i := slices.IndexFunc(list, seat.Is); i >= 0 {
		m.listed = &list[i]
		seat.ID = m.listed.ID
	}
	m.answer, m.answers = s.Look.At(m.url)
	m.fit = m.listed != nil && s.Look.Fit(m.url, seat.ID)
	s.seen(m)
	return m
}

// seen notes what the look says of a member.
func (s *situation) seen(m *member) {
	itself := m.answers && m.ID != 0 && m.answer.MemberID == m.ID
	m.Started = m.Started || itself || m.listed != nil && m.listed.Name == m.Name
	if itself {
		m.Ran = m.answer.Version
	}
	if m.listed != nil {
		m.Learner = m.listed.Learner
	}
	m.amend()
	c := m.site.Reported(m.Name)
	m.Sealed = m.Sealed || m.Started && m.Force == "" && c != nil && c.Mode == datadir.Resume
	if m.site.Current() && (m.fit || !s.quorum) {
		m.Restarts = seats.Restarts{}
	}
	s.located(m)
}

// amend takes back what must not be: an older version than the member has run, as its disk may know alone after
// Kubernetes was restored; a recovery that its guard refuses; and a removal that was never carried out.
func (m *member) amend() {
	if d := m.site.Disk(); m.site.Refused(m.Name) == seats.Older && d != nil && versions.Older(m.Ran, d.Owner.Version) {
		m.Ran = d.Owner.Version
	}
	m.Removing = m.Removing && !m.fit
	if versions.Older(m.Version, m.Ran) {
		m.Version = m.Ran
	}
	if m.site.Refused(m.Name) == seats.Alive && m.pod.Configuration.Recovery == m.Force {
		m.Force = ""
	}
}

// located notes where a member is to be reached.
func (s *situation) located(m *member) {
	begun := m.Started || s.notes.ClusterID == 0
	switch {
	case s.TLS != s.notes.TLS: // the node's URLs are of another scheme
	case m.listed == nil && !s.quorum && begun && !m.answers:
		// Without a quorum the new address must be configured first. One look alone may have lost all answers, and all
		// members would be moved at once.
		if s.notes.ClusterID == 0 || s.quorumLostFor(s.Start/2) {
			m.move()
		}
	case m.listed == nil:
	case m.listed.PeerURLs[0] == m.PeerURL:
		m.Former = nil
	case m.listed.PeerURLs[0] == m.address(): // the node has its former address again
		m.move()
	}
}

// learn notes what the look says of the cluster as a whole.
func (s *situation) learn(list []view.Member) {
	if s.notes.ClusterID == 0 && s.quorum && len(s.members) == 1 && s.members[0].fit {
		s.notes.ClusterID = s.members[0].answer.ClusterID
	}
	if s.quorum {
		s.forced(list)
		s.endpoints()
	}
	var all []versions.Member
	for _, m := range s.members {
		v := versions.Member{Planned: m.Version, Ran: m.Ran}
		if m.Started && s.first(func(m *member) bool { return m.Ran != "" }) == nil { // nobody has said what runs
			v.Ran = m.Version
		}
		if m.fit {
			v.Storage = m.answer.Storage
		}
		all = append(all, v)
	}
	s.target, s.refused = versions.Plan(all, s.Version, s.Releases)
	next := versions.Minor(s.target)
	if stay, rising := versions.Edge(all, s.target, s.Releases); stay != "" && (rising || !s.SavedNow(next)) {
		s.minor, s.rising, s.target = next, rising, stay
	}
}

// forced ends a recovery. With a quorum nothing is forced any more, whatever a human has chosen before; if the quorum
// is the survivor alone, the others are forgotten.
func (s *situation) forced(list []view.Member) {
	if s.Recovery != nil {
		s.notes.Recovered = s.Recovery.ID
	}
	for _, m := range s.members {
		for _, o := range s.members {
			o.Removing = o.Removing || m.Force != "" && m.listed != nil && len(list) == 1 && o != m
		}
		m.Force = ""
	}
}

// serving reports whether the kubelet says that a member has a quorum.
func (m *member) serving() bool { return m.site.Reported(m.Name) != nil && m.pod.Ready }

func (s *situation) alarms(kind view.AlarmType) []view.Alarm {
	return slices.DeleteFunc(s.Look.Alarms(), func(a view.Alarm) bool { return a.Type != kind })
}

func (s *situation) all(holds func(*member) bool) (out []*member) {
	for _, m := range s.members {
		if holds(m) {
			out = append(out, m)
		}
	}
	return out
}

// first is the first member of which something holds; nil if there is none.
func (s *situation) first(holds func(*member) bool) *member {
	if found := s.all(holds); len(found) > 0 {
		return found[0]
	}
	return nil
}

func (s *situation) count(holds func(*member) bool) int { return len(s.all(holds)) }

func (m *member) voter() bool    { return m.listed != nil && !m.listed.Learner }
func (m *member) learner() bool  { return m.listed != nil && m.listed.Learner }
func (m *member) wanted() bool   { return m.node != nil }
func (m *member) fitVoter() bool { return m.voter() && m.fit }
func (m *member) unfit() bool    { return m.voter() && !m.fit }

func (s *situation) leads(m *member) bool { return m.listed != nil && m.ID == s.Look.Leader() }

// follower is the fit voter that is to lead instead of the leader: one on a node that is wanted if there is one, and
// of those the one that has most of the log.
func (s *situation) follower() *member {
	found := s.all(func(m *member) bool { return m.fitVoter() && !s.leads(m) })
	if len(found) == 0 {
		return nil
	}
	return slices.MaxFunc(found, func(a, b *member) int {
		return cmp.Or(boolean(a.wanted())-boolean(b.wanted()), cmp.Compare(a.answer.Applied, b.answer.Applied))
	})
}

// removable reports whether a majority of the voters that are left without a member is fit.
func (s *situation) removable(m *member) bool {
	if m.listed == nil {
		return false
	}
	others := func(is func(*member) bool) int { return s.count(func(o *member) bool { return o != m && is(o) }) }
	voters := others((*member).voter)
	return voters > 0 && others((*member).fitVoter) >= view.Quorum(voters)
}

// quorumLostFor is for how long looks have not found a quorum. One look alone may have lost answers.
func (s *situation) quorumLostFor(d time.Duration) bool {
	t, ok := s.notes.Since[noQuorum+"/"]
	return ok && !s.quorum && s.Now.Sub(t) >= d
}

// restartable reports whether a member's pod may be deleted now without taking the quorum away.
func (s *situation) restartable(m *member) bool {
	voters, fit := s.count((*member).voter), s.count((*member).fitVoter)
	switch {
	case m.learner() || m.Force != "":
		return true
	case m.unfit():
		return fit >= view.Quorum(voters)
	case m.voter():
		return voters == 1 || voters == fit && fit-1 >= view.Quorum(voters)
	}
	return s.idle(m)
}

// idle reports whether a member serves nobody while there is no quorum, by what its kubelet says, and no other member
// was restarted a moment ago.
func (s *situation) idle(m *member) bool {
	if s.quorum || m.pod == nil || m.pod.Ready {
		return false
	}
	busy := s.first(func(o *member) bool {
		return o != m && o.Restarts.Tries > 0 && s.Now.Sub(o.Restarts.At) < s.Start/5
	})
	return s.notes.ClusterID == 0 || busy == nil && s.quorumLostFor(s.Start/2)
}
