package membership

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/advice"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/datadir"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/seats"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/view"
)

func otherCluster(s *situation, _ *member) advice.Advice {
	var found []string
	for _, a := range s.everyone.Answers() {
		if a.Err == nil {
			found = append(found, fmt.Sprintf("%s is of cluster %s", a.Endpoint, a.ClusterID))
		}
	}
	return advice.OtherCluster(found)
}

func twoClusters(s *situation, _ *member) advice.Advice {
	var found []string
	for _, a := range s.Look.Answers() {
		if a.Err == nil && a.Linearizable {
			found = append(found, fmt.Sprintf("%s with %d members", a.Endpoint, len(a.Agreed)))
		}
	}
	return advice.TwoClusters(found)
}

func corrupt(s *situation, _ *member) advice.Advice {
	var names []string
	for _, a := range s.alarms(view.Corrupt) {
		names = append(names, s.name(a.Member))
	}
	return advice.Corrupt(names)
}

func unreachable(s *situation, _ *member) advice.Advice {
	var ready []string
	for _, m := range s.all((*member).serving) {
		ready = append(ready, advice.Label(*m.Seat))
	}
	return advice.Unreachable(ready)
}

// known is what a member knows of the log: by its answer, or else by what its guard saw when it looked last. A cluster
// that is made from its data has what it knows to be committed.
func (m *member) known() (l datadir.Log, ok bool) {
	switch {
	case m.answers:
		return datadir.Log{Term: m.answer.Term, Index: m.answer.Committed, Commit: m.answer.Committed}, true
	case m.site.Pod != nil && m.site.Pod.Log != nil:
		return *m.site.Pod.Log, true
	}
	return l, false
}

// rank describes what a member knows.
func (m *member) rank() string {
	l, _ := m.known()
	if !m.answers {
		return fmt.Sprintf("%s (no answer; its guard saw a log to term %d, index %d, committed %d)", advice.Label(*m.Seat),
			l.Term, l.Index, l.Commit)
	}
	kind := "voter"
	if m.answer.Learner {
		kind = "learner"
	}
	return fmt.Sprintf("%s (%s, term %d, committed %d, applied %d)", advice.Label(*m.Seat), kind, l.Term, l.Commit,
		m.answer.Applied)
}

// quorumLost ranks the members: the one that knows most to be committed first.
func quorumLost(s *situation, _ *member) advice.Advice {
	found := s.all(func(m *member) bool {
		_, ok := m.known()
		return ok
	})
	slices.SortStableFunc(found, func(a, b *member) int {
		x, _ := a.known()
		y, _ := b.known()
		return cmp.Or(cmp.Compare(y.Commit, x.Commit), cmp.Compare(y.Term, x.Term), cmp.Compare(y.Index, x.Index))
	})
	var ranks, silent []string
	for _, m := range found {
		ranks = append(ranks, m.rank())
	}
	for _, m := range s.all(func(m *member) bool { return !m.answers }) {
		silent = append(silent, fmt.Sprintf("%s (%s)", advice.Label(*m.Seat), m.why()))
	}
	unknown := ""
	if r := s.Recovery; r != nil && r.ID != s.notes.Recovered && s.survivor() == nil {
		unknown = r.Force
	}
	return advice.QuorumLost(ranks, silent, unknown)
}

// why is why a member is not fit.
func (m *member) why() string {
	refused := m.site.Refused(m.Name)
	switch {
	case m.fit:
		return "Its guard has not reported that it starts on its own data only."
	case m.answers:
		return "It answers, but does not take part."
	case m.site.Gone:
		return "Its node was deleted."
	case m.site.Down:
		return "Its node is down."
	case refused == seats.Found:
		return "Its data directory has data of another etcd."
	case refused != "":
		return fmt.Sprintf("Its guard does not start it: %s.", refused)
	}
	return "It does not answer."
}

func wrongVersion(_ *situation, m *member) advice.Advice {
	return advice.WrongVersion(*m.Seat, m.site.Configuration.Version, m.answer.Version)
}

func noNode(s *situation, _ *member) advice.Advice {
	var avoided []string
	for _, n := range slices.Sorted(maps.Keys(s.notes.Avoid)) {
		avoided = append(avoided, n+": "+s.notes.Avoid[n].Why)
	}
	return advice.NoNode(s.Size, avoided)
}

func seedStuck(_ *situation, m *member) advice.Advice {
	why := "Its guard has reported nothing"
	switch {
	case m.site.Gone:
		why = "Its node was deleted"
	case m.site.Refused(m.Name) == seats.Found:
		why = "There is data of another etcd in its data directory, which was not touched"
	case m.site.Refused(m.Name) != "":
		why = fmt.Sprintf("Its guard did not start it: %s", m.site.Refused(m.Name))
	case m.site.Reported(m.Name) != nil:
		why = "Its guard has started etcd"
	}
	return advice.SeedStuck(*m.Seat, why)
}

func changed(s *situation, _ *member) advice.Advice {
	var found []string
	for _, l := range s.strangers {
		found = append(found, fmt.Sprintf("%s %q at %v was added", l.ID, l.Name, l.PeerURLs))
	}
	for _, m := range s.all(s.vanished) {
		found = append(found, advice.Label(*m.Seat)+" is not in the list any more")
	}
	for _, m := range s.all((*member).other) {
		found = append(found, fmt.Sprintf("node %s has member %s, and %s is noted", m.Node, m.site.Configuration.Name,
			m.Name))
	}
	return advice.Changed(found)
}

func noSpace(s *situation, _ *member) advice.Advice {
	var sizes []string
	for _, m := range s.all((*member).voter) {
		size := "does not answer"
		if m.answers {
			size = fmt.Sprintf("%d of %d bytes, %d in use", m.answer.DBSize, quota(s, m), m.answer.InUse)
		}
		sizes = append(sizes, m.Name+" "+size)
	}
	return advice.NoSpace(sizes)
}

// memberDown calls a human about a voter. A full database is worse.
func memberDown(s *situation, m *member) {
	if s.full() {
		holds(EtcdNoSpace, noSpace).do(s, m)
		return
	}
	holds(EtcdMemberDown, func(_ *situation, m *member) advice.Advice {
		return advice.MemberDown(*m.Seat, m.why())
	}).do(s, m)
}

// These say all that there is to say.
func restartFailed(_ *situation, m *member) advice.Advice { return advice.RestartFailed(*m.Seat) }
func tlsChanged(*situation, *member) advice.Advice        { return advice.TLSChanged() }
func notRisen(s *situation, _ *member) advice.Advice      { return advice.NotRisen(s.minor) }
func refused(s *situation, _ *member) advice.Advice       { return advice.Refused(s.Version, s.refused) }
func notesLost(s *situation, _ *member) advice.Advice     { return advice.NotesLost(places(s).Remains()) }
func unfinished(_ *situation, m *member) advice.Advice    { return advice.Unfinished(*m.Seat) }
