package membership

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

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
		c.Mode, c.Recovery, c.Others = datadir.Force, m.Force, others(s, m)
	case m.Started:
		c.Mode = datadir.Resume
	case m.Seed:
		c.Mode, c.Peers = datadir.Seed, m.Name+"="+m.PeerURL
	default:
		c.Peers = peers(s, m)
	}
	return c
}

// peers are the initial cluster of a learner: etcd does not start if they are not those of the quorum's list.
func peers(s *situation, m *member) string {
	peers := []string{m.Name + "=" + m.PeerURL}
	for _, o := range s.members {
		if o.listed != nil && o != m {
			peers = append(peers, o.Name+"="+o.listed.PeerURLs[0])
		}
	}
	slices.Sort(peers)
	return strings.Join(peers, ",")
}

// others are the peer URLs that other members have or have had.
func others(s *situation, m *member) string {
	var urls []string
	for _, o := range s.members {
		if o != m {
			urls = append(append(urls, o.PeerURL), o.Former...)
		}
	}
	slices.Sort(urls)
	return strings.Join(slices.Compact(urls), ",")
}

// misplaced reports whether a node is to be written for its member, and has something else. Without a quorum that is
// done only for members that have data, and for the first one.
func (s *situation) misplaced(m *member) bool {
	known := m.listed != nil || !s.quorum && (m.Started || s.notes.ClusterID == 0) && !s.released(*m.Seat)
	return known && !m.site.Gone && !m.other() && (s.forcing() == nil || s.forcing() == m) && !m.site.Has(s.desired(m))
}

// place has a node run its member. What runs there of a former one goes first: its DaemonSet has another name.
func place(s *situation, m *member) {
	if m.Replaces(m.site) && m.site.Label != m.Name {
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
	return s.first(func(m *member) bool { return m.Force != "" })
}

// survivor is whom a human has chosen and who is not forced yet; nil if there is none. One look without a quorum does
// not carry out what may have been chosen long ago.
func (s *situation) survivor() *member {
	r := s.Recovery
	if r == nil || r.ID == s.notes.Recovered || s.notes.ClusterID == 0 || !s.quorumLostFor(s.Start) {
		return nil
	}
	return s.first(func(m *member) bool { return m.Name == r.Force && m.Started && m.startable() })
}

// startable reports whether a member may start on its node, by what its guard has said. For one that may not, all
// others would be dismantled in vain. Of one that was dismantled itself, for another survivor, nothing more is known.
func (m *member) startable() bool {
	r := m.site.Refused(m.Name)
	known := m.site.Reported(m.Name) != nil && (r == "" || r == seats.Alive || r == seats.Older)
	return known || m.site.Empty() && !m.site.Silent()
}

// force takes all others away first: started beside a forced member they would be another cluster.
func force(s *situation, m *member) {
	if o := s.first(func(o *member) bool { return o != m && !o.site.Empty() }); o != nil {
		s.d.Step, s.about, o.Force = Unplace, o, ""
		return
	}
	if o := s.first(func(o *member) bool { return o != m && o.site.Pod != nil && !o.site.Silent() }); o != nil {
		s.d.Step, s.about = Wait, o
		return
	}
	m.Force, m.Sealed, s.notes.Recovered = s.Recovery.ID, false, s.Recovery.ID
	place(s, m)
}

// address is the peer URL that a member shall have. On a node that is not wanted any more it is the one that was
// noted.
func (m *member) address() string {
	if m.node != nil && m.node.Reached() {
		return m.node.PeerURL
	}
	return m.PeerURL
}

// move notes the node's new address beside the former one: the list has one or the other, whether or not a call has
// had its effect.
func (m *member) move() {
	if m.node == nil || !m.node.Reached() || m.PeerURL == m.node.PeerURL && m.ClientURL == m.node.ClientURL {
		return
	}
	if m.PeerURL != m.node.PeerURL {
		m.Former = append(slices.Clone(m.Former), m.PeerURL)
	}
	m.PeerURL, m.ClientURL = m.node.PeerURL, m.node.ClientURL
}

// moved reports whether the quorum is to learn a member's new address now. One that is fit is cut off from then until
// its restart, so that all other voters must be steady; one that is not must not be needed.
func moved(s *situation, m *member) bool {
	switch {
	case m.listed == nil || m.listed.PeerURLs[0] == m.address():
		return false
	case m.fit:
		others := s.first(func(o *member) bool { return o != m && o.voter() && !s.steady(o) })
		return s.restartable(m) && others == nil
	}
	// One look alone may have lost the answer of a member that is needed, and would be cut off: its kubelet must not
	// report it ready, or be silent for a while, too.
	t, away := s.notes.Since[key("down", m)]
	silent := m.site.Silent() && (!away || s.Now.Sub(t) < s.Start/2)
	return s.removable(m) && !m.serving() && !silent
}

func readdress(s *situation, m *member) {
	s.d.Endpoint = s.contact()
	m.move()
}

// contact is where changes are sent: the leader, or another fit voter if the leader did not answer.
func (s *situation) contact() string {
	m := s.first(func(m *member) bool { return m.fit && s.leads(m) })
	if m == nil {
		m = s.first((*member).fitVoter)
	}
	if m == nil {
		return ""
	}
	return m.url
}

// handOver moves leadership away from a member before it is taken away, and reports whether it does.
func (s *situation) handOver(m *member) bool {
	f := s.follower()
	if !s.leads(m) || !m.fit || f == nil {
		return false
	}
	s.d.Step, s.d.Endpoint, s.d.Target, s.about = MoveLeader, m.url, *f.Seat, m
	return true
}

func remove(s *situation, m *member) {
	if s.handOver(m) {
		return
	}
	m.Removing = true
	s.d.Step, s.d.Endpoint, s.about = Remove, s.contact(), m
}

// lose removes a member whose data is lost. Its disk may only be mounted late: another node is better for another one.
func lose(s *situation, m *member) {
	remove(s, m)
	if !m.site.Gone {
		s.notes.Avoid[m.Node] = seats.Avoided{Lost: true, Since: s.Now,
			Why: "a member's data was lost there: is its disk mounted?"}
	}
}

// giveUp removes a learner, and keeps others from its node for a while.
func giveUp(s *situation, m *member) {
	remove(s, m)
	why := "a member did not start there in time"
	if r := m.site.Refused(m.Name); r != "" {
		why = fmt.Sprintf("the guard did not start a member there (%s)", r)
	}
	s.notes.Avoid[m.Node] = seats.Avoided{Why: why, Since: s.Now}
}

// purpose is what a restart is for.
func purpose(m *member) string {
	c := m.site.Configuration
	return fmt.Sprint(c.Mode, c.Recovery, " ", c.Version, " ", c.PeerURL, " ", c.Revision, " ", c.Peers)
}

// restart deletes a pod, and another one a while later if that one has the old things, too.
func restart(s *situation, m *member) {
	r, now := m.Restarts.Next(purpose(m), m.pod.UID, s.Now, s.Start/5)
	if !now {
		s.d.Step = Wait
	} else if !s.handOver(m) {
		m.Restarts, s.d.PodUID = r, m.pod.UID
	}
}

// exhausted reports whether a member was restarted as often as it may be, and its new pod has the old things, too.
func exhausted(_ *situation, m *member) bool {
	return m.site.Stale() && m.Restarts.Exhausted(purpose(m), m.pod.UID)
}

// outdated reports whether a member is to run with something else than it was planned with.
func outdated(s *situation, m *member) bool {
	client := m.node != nil && m.node.PeerURL == m.PeerURL && m.node.ClientURL != m.ClientURL
	return s.target != "" && !versions.Equal(m.Version, s.target) || m.Revision != s.Revision || client
}

// due is the member that gets another version or other settings next: one that serves nobody, or else, if all voters
// are as they should be, a follower, and the leader last.
func (s *situation) due() *member {
	waiting := s.all(func(m *member) bool {
		return (m.voter() || m.listed == nil && (m.Started || s.notes.ClusterID == 0)) && outdated(s, m) && !m.site.Gone
	})
	if m := slices.IndexFunc(waiting, func(m *member) bool {
		return !m.fit && m.site.Configuration != nil && s.restartable(m)
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
	return slices.MinFunc(waiting, func(a, b *member) int { return cmp.Compare(worth(s, a), worth(s, b)) })
}

func renew(s *situation, m *member) {
	m.Revision = s.Revision
	if s.target != "" {
		m.Version = s.target
	}
	if m.node != nil && m.node.PeerURL == m.PeerURL {
		m.ClientURL = m.node.ClientURL
	}
	place(s, m)
}

// steady reports whether a member is fit and known to run with what its node has for it, on its own data only.
func (s *situation) steady(m *member) bool {
	return m.fit && m.Sealed && m.site.Current() && !s.misplaced(m)
}

func (s *situation) steadyAll() bool {
	return s.first(func(m *member) bool { return m.voter() && !s.steady(m) }) == nil
}

// plan makes a seat on the best node.
func (s *situation) plan(seed bool) *member {
	n := places(s).Candidate()
	s.notes.Serial++
	s.notes.Seats = append(s.notes.Seats, seats.Seat{Name: fmt.Sprintf("%s-%d", n.Name, s.notes.Serial), Node: n.Name,
		PeerURL: n.PeerURL, ClientURL: n.ClientURL, Seed: seed, Version: s.target, Revision: s.Revision})
	return &member{Seat: &s.notes.Seats[len(s.notes.Seats)-1], node: n, site: s.Sites[n.Name]}
}

func seed(s *situation, _ *member) {
	s.notes.Token, s.notes.TLS = s.NewToken, s.TLS
	s.about = s.plan(true)
	place(s, s.about)
}

// planned is a member that the quorum's list does not have yet.
func planned(_ *situation, m *member) bool { return m.ID == 0 && m.listed == nil }

func grow(s *situation, m *member) {
	if m == cluster {
		m = s.plan(false)
	}
	s.about, s.d.Endpoint = m, s.contact()
}

// few reports whether another member is to begin. While one does, none is.
func (s *situation) few() bool {
	begins := s.first(func(m *member) bool { return m.listed == nil || m.listed.Learner })
	return begins == nil && s.count((*member).wanted) < s.Size
}

func (s *situation) full() bool { return len(s.alarms(view.NoSpace)) > 0 }

func disarm(s *situation, _ *member) {
	id := s.alarms(view.NoSpace)[0].Member
	s.d.Endpoint, s.d.Target = s.contact(), seats.Seat{ID: id, Name: id.String()}
}

// treatable reports whether something is left to be tried about a full database.
func (s *situation) treatable() bool {
	c := s.notes.Cure
	return c == nil || s.first(func(m *member) bool {
		return m.learner() || m.voter() && !slices.Contains(c.Defragmented, m.ID)
	}) != nil
}

// treat does the next thing about a full database. A learner can be neither compacted nor defragmented.
func treat(s *situation, _ *member) {
	if s.notes.Cure == nil {
		s.notes.Cure = &seats.Cure{Began: s.Now, Revision: s.Look.Revision()}
	}
	c := s.notes.Cure
	if l := s.first((*member).learner); l != nil {
		remove(s, l)
		return
	}
	m := s.first(func(m *member) bool { return m.voter() && !slices.Contains(c.Compacted, m.ID) })
	if m != nil {
		c.Compacted = append(c.Compacted, m.ID)
		s.d.Step, s.d.Endpoint, s.d.Revision, s.about = Compact, m.url, c.Revision, m
		return
	}
	left := s.all(func(m *member) bool { return m.voter() && !slices.Contains(c.Defragmented, m.ID) })
	m = left[0]
	if s.leads(m) && len(left) > 1 {
		m = left[1]
	}
	if !s.handOver(m) {
		c.Defragmented = append(c.Defragmented, m.ID)
		s.d.Step, s.d.Endpoint, s.about = Defragment, m.url, m
	}
}
