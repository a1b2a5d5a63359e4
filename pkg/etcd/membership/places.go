package membership

import (
	"cmp"
	"slices"

	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/seats"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/view"
)

func places(s *situation) seats.Places {
	return seats.Places{Nodes: s.Nodes, Sites: s.Sites, Notes: &s.notes}
}

// surplus is the member to be removed because there are enough without it; nil if there is none. Learners go first,
// then members that are down, then the voter that is furthest behind, and the leader last. A voter on a node that is
// not wanted goes when there is one more than the size, so that there is never more than one too many.
func (s *situation) surplus() *member {
	kept := s.all(func(m *member) bool { return m.listed != nil && m.wanted() })
	candidates := s.all(func(m *member) bool { return m.learner() && !m.wanted() })
	switch {
	case len(kept) > s.Size:
		candidates = kept
	case s.count((*member).voter) > s.Size:
		candidates = s.all(func(m *member) bool { return m.listed != nil && !m.wanted() })
	}
	if len(candidates) == 0 {
		return nil
	}
	m := slices.MinFunc(candidates, func(a, b *member) int {
		return cmp.Or(cmp.Compare(worth(s, a), worth(s, b)), cmp.Compare(a.answer.Applied, b.answer.Applied))
	})
	if !s.removable(m) {
		return nil
	}
	return m
}

// worth orders members by how much is lost with them.
func worth(s *situation, m *member) int {
	switch {
	case m.learner():
		return 0
	case !m.fit:
		return 1
	case !s.leads(m):
		return 2
	}
	return 3
}

// defaultQuota is etcd's own, in bytes.
const defaultQuota = 2 << 30

// quota is the largest size of a member's database. etcd 3.5 does not report it.
func quota(s *situation, m *member) int64 { return cmp.Or(m.answer.Quota, s.Quota, defaultQuota) }

// roomy reports whether the databases of all voters are smaller than nine tenths of their quota.
func (s *situation) roomy() bool {
	return s.first(func(m *member) bool {
		return m.voter() && (!m.fit || m.answer.DBSize >= quota(s, m)/10*9)
	}) == nil
}

// name is that of a member, or its ID if there is no seat for it.
func (s *situation) name(id view.ID) string {
	if m := s.first(func(m *member) bool { return m.ID == id }); m != nil {
		return m.Name
	}
	return id.String()
}
