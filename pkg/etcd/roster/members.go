package roster

import (
	"cmp"
	"slices"
	"strings"

	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/view"
)

// Members are those of one cluster, in the order of the notes.
type Members []*Member

// All are those of which something holds.
func (all Members) All(holds func(*Member) bool) (out Members) {
	for _, m := range all {
		if holds(m) {
			out = append(out, m)
		}
	}
	return out
}

// First is the first of which something holds; nil if there is none.
func (all Members) First(holds func(*Member) bool) *Member {
	if found := all.All(holds); len(found) > 0 {
		return found[0]
	}
	return nil
}

// Count is of how many something holds.
func (all Members) Count(holds func(*Member) bool) int { return len(all.All(holds)) }

// Name is that of a member, or its ID if there is no seat for it.
func (all Members) Name(id view.ID) string {
	if m := all.First(func(m *Member) bool { return m.ID == id }); m != nil {
		return m.Name
	}
	return id.String()
}

// Contact is where changes are sent: the leader, or another fit voter if the leader did not answer; "" if there is
// none.
func (all Members) Contact() string {
	if m := all.Speaker(); m != nil {
		return m.Endpoint
	}
	return ""
}

// Speaker is the one whose endpoint that is; nil if there is none.
func (all Members) Speaker() *Member {
	if m := all.First(func(m *Member) bool { return m.Fit && m.Leads }); m != nil {
		return m
	}
	return all.First((*Member).FitVoter)
}

// Follower is the fit voter that is to lead instead of the leader: one on a node that is wanted if there is one, and
// of those the one that has most of the log; nil if there is none.
func (all Members) Follower() *Member {
	found := all.All(func(m *Member) bool { return m.FitVoter() && !m.Leads })
	if len(found) == 0 {
		return nil
	}
	return slices.MaxFunc(found, order)
}

// Saver is the fit voter that is asked for a snapshot after some were asked in vain: a follower if one is left, since
// the leader has most to do; nil if none is.
func (all Members) Saver(inVain []string) *Member {
	left := all.All(func(m *Member) bool { return m.FitVoter() && !slices.Contains(inVain, m.Name) })
	if m := left.Follower(); m != nil {
		return m
	}
	return left.First((*Member).FitVoter)
}

// Least is the one with which least is lost; nil of none.
func (all Members) Least() *Member {
	if len(all) == 0 {
		return nil
	}
	return slices.MinFunc(all, func(a, b *Member) int { return cmp.Or(cmp.Compare(a.Worth(), b.Worth()), order(a, b)) })
}

// order has those last that are on nodes that are wanted, and of those the one that has most of the log.
func order(a, b *Member) int {
	switch {
	case a.Wanted() == b.Wanted():
		return cmp.Compare(a.Answer.Applied, b.Answer.Applied)
	case a.Wanted():
		return 1
	}
	return -1
}

// Spares reports whether a majority of the voters that are left without a member is fit.
func (all Members) Spares(m *Member) bool {
	if m.Listed == nil {
		return false
	}
	others := func(is func(*Member) bool) int { return all.Count(func(o *Member) bool { return o != m && is(o) }) }
	voters := others((*Member).Votes)
	return voters > 0 && others((*Member).FitVoter) >= view.Quorum(voters)
}

// Peers are the initial cluster of a learner: etcd does not start if they are not those of the quorum's list.
func (all Members) Peers(m *Member) string {
	peers := []string{m.Name + "=" + m.PeerURL}
	for _, o := range all {
		if o.Listed != nil && o != m {
			peers = append(peers, o.Name+"="+o.Listed.PeerURLs[0])
		}
	}
	slices.Sort(peers)
	return strings.Join(peers, ",")
}

// Others are the peer URLs that other members have or have had.
func (all Members) Others(m *Member) string {
	var urls []string
	for _, o := range all {
		if o != m {
			urls = append(append(urls, o.PeerURL), o.Former...)
		}
	}
	slices.Sort(urls)
	return strings.Join(slices.Compact(urls), ",")
}
