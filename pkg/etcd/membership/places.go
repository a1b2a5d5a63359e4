package membership

import (
	"cmp"
	"slices"

	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/seats"
)

func places(s *situation) seats.Places {
	return seats.Places{Nodes: s.Nodes, Sites: s.Sites, Notes: &s.notes}
}

// unseen finds the nodes that are to be looked into before there is a member, and before old notes are made anew
// without a quorum; those first for which that was not tried yet. A cluster must not begin before those are known on
// which members are wanted, or have been. Others are waited for like any step, but not longer: there may be nodes that
// run no such pod.
func (s *situation) unseen() {
	begins := len(s.members) == 0
	if !begins && (!s.Adopts() || !s.quorumLostFor(s.Start)) {
		return
	}
	for _, name := range places(s).Unseen() {
		m, row := s.empty(name), search
		if begins {
			row = survey
		}
		tried, ok := s.notes.Since[key(row, m)]
		s.tried = append(s.tried, key(row, m))
		wanted := slices.ContainsFunc(s.Nodes, func(n seats.Node) bool { return n.Name == name })
		switch {
		case !ok:
			s.unsurveyed = slices.Insert(s.unsurveyed, 0, m)
		case begins && (wanted || m.Site.Used != "") || s.Now.Sub(tried) < s.Start:
			s.unsurveyed = append(s.unsurveyed, m)
		}
	}
}

// empty is a node without a member, as something that a row is about.
func (s *situation) empty(node string) *member {
	return &member{Seat: &seats.Seat{Node: node}, Site: s.Sites[node]}
}

// adopted are notes made anew, as a human wants it; false if there is nothing that they could be made of.
func (s *situation) adopted() (seats.Notes, bool) {
	ids := s.everyone.ClusterIDs()
	switch {
	case !s.Adopts(), len(ids) > 1, len(ids) == 1 && !s.AdoptsFrom(ids[0]):
		return s.notes, false
	case s.quorum:
		return s.notes.Adopt(s.Sites, s.Look.Members(), ids[0])
	}
	n, ok := s.notes.Revive(s.Sites, s.Nodes)
	return n, ok && s.quorumLostFor(s.Start) && len(s.unsurveyed) == 0
}

// surplus is the member to be removed because there are enough without it; nil if there is none. Learners go first,
// then members that are down, then the voter that is furthest behind, and the leader last. A voter on a node that is
// not wanted goes when there is one more than the size, so that there is never more than one too many.
func (s *situation) surplus() *member {
	candidates := s.members.All(func(m *member) bool { return m.Learns() && !m.Wanted() })
	switch {
	case s.members.Count(func(m *member) bool { return m.Listed != nil && m.Wanted() }) > s.Size:
		// One that is down goes first wherever it is: without a fit one, the next failure would take the quorum away.
		candidates = s.members.All(func(m *member) bool { return m.Listed != nil })
	case s.members.Count((*member).Votes) > s.Size:
		candidates = s.members.All(func(m *member) bool { return m.Listed != nil && !m.Wanted() })
	}
	m := candidates.Least()
	if m == nil || !s.members.Spares(m) {
		return nil
	}
	return m
}

// defaultQuota is etcd's own, in bytes.
const defaultQuota = 2 << 30

// quota is the largest size of a member's database. etcd 3.5 does not report it.
func quota(s *situation, m *member) int64 { return cmp.Or(m.Answer.Quota, s.Quota, defaultQuota) }

// roomy reports whether the databases of all voters are smaller than nine tenths of their quota.
func (s *situation) roomy() bool {
	return s.members.First(func(m *member) bool {
		return m.Votes() && (!m.Fit || m.Answer.DBSize >= quota(s, m)/10*9)
	}) == nil
}
