package membership

import (
	"fmt"

	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/advice"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/view"
)

func otherCluster(s *situation, _ *member) advice.Advice {
	var found []string
	for _, a := range s.everyone.Answers() {
		if a.Err == nil {
			found = append(found, fmt.Sprintf("%s is of cluster %s", a.Endpoint, a.ClusterID))
		}
	}
	return advice.OtherCluster(s.notes.ClusterID, found)
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

// told is a member as advice is given about it.
func (m *member) told() advice.Member {
	return advice.Member{Seat: *m.Seat, Site: m.site, Answer: m.answer, Answers: m.answers, Fit: m.fit}
}

func quorumLost(s *situation, _ *member) advice.Advice {
	all := make([]advice.Member, 0, len(s.members))
	for _, m := range s.members {
		all = append(all, m.told())
	}
	unknown := ""
	if r := s.Recovery; r != nil && r.ID != s.notes.Recovered && s.survivor() == nil {
		unknown = r.Force
	}
	return advice.QuorumLost(all, unknown)
}

func wrongVersion(_ *situation, m *member) advice.Advice {
	return advice.WrongVersion(*m.Seat, m.site.Configuration.Version, m.answer.Version)
}

func noNode(s *situation, _ *member) advice.Advice {
	return advice.NoNode(s.Size, places(s).Unfit())
}

func seedStuck(_ *situation, m *member) advice.Advice { return advice.SeedStuck(m.told()) }

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
	holds(EtcdMemberDown, func(_ *situation, m *member) advice.Advice { return advice.MemberDown(m.told()) }).do(s, m)
}

// These say all that there is to say.
func restartFailed(_ *situation, m *member) advice.Advice { return advice.RestartFailed(*m.Seat) }
func tlsChanged(*situation, *member) advice.Advice        { return advice.TLSChanged() }
func notRisen(s *situation, _ *member) advice.Advice      { return advice.NotRisen(s.minor) }
func refused(s *situation, _ *member) advice.Advice       { return advice.Refused(s.Version, s.refused) }
func notesLost(s *situation, _ *member) advice.Advice     { return advice.NotesLost(places(s).Remains()) }
func unfinished(_ *situation, m *member) advice.Advice    { return advice.Unfinished(*m.Seat) }
