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
			found = append(found, fmt.Sprintf("%s belongs to cluster %s", a.Endpoint, a.ClusterID))
		}
	}
	return advice.OtherCluster(s.notes.ClusterID, found)
}

func twoClusters(s *situation, _ *member) advice.Advice {
	var found []string
	for _, a := range s.Look.Answers() {
		if a.Err == nil && a.Linearizable {
			found = append(found, fmt.Sprintf("%s, in a cluster of %d members", a.Endpoint, len(a.Agreed)))
		}
	}
	return advice.TwoClusters(found)
}

func corrupt(s *situation, _ *member) advice.Advice {
	var names []string
	for _, a := range s.alarms(view.Corrupt) {
		names = append(names, s.members.Name(a.Member))
	}
	return advice.Corrupt(names)
}

func unreachable(s *situation, _ *member) advice.Advice {
	var ready []string
	for _, m := range s.members.All((*member).Serving) {
		ready = append(ready, advice.Label(*m.Seat))
	}
	return advice.Unreachable(ready)
}

func quorumLost(s *situation, _ *member) advice.Advice {
	unknown := ""
	if r := s.Recovery; r != nil && r.ID != s.notes.Recovered && s.survivor() == nil {
		unknown = r.Force
	}
	return advice.QuorumLost(s.members, unknown)
}

func wrongVersion(_ *situation, m *member) advice.Advice {
	return advice.WrongVersion(*m.Seat, m.Site.Configuration.Version, m.Answer.Version)
}

func noNode(s *situation, _ *member) advice.Advice {
	return advice.NoNode(s.Size, places(s).Unfit())
}

func seedStuck(_ *situation, m *member) advice.Advice { return advice.SeedStuck(m) }

func changed(s *situation, _ *member) advice.Advice {
	var found []string
	for _, l := range s.strangers {
		found = append(found, fmt.Sprintf("member %s (%q at %v) was added", l.ID, l.Name, l.PeerURLs))
	}
	for _, m := range s.members.All(s.vanished) {
		found = append(found, advice.Label(*m.Seat)+" is missing from the member list")
	}
	for _, m := range s.members.All((*member).Other) {
		found = append(found, fmt.Sprintf("node %s is configured as member %s, but member %s is recorded for it", m.Node,
			m.Site.Configuration.Name, m.Name))
	}
	return advice.Changed(found)
}

func noSpace(s *situation, _ *member) advice.Advice {
	var sizes []string
	for _, m := range s.members.All((*member).Votes) {
		size := "does not respond"
		if m.Answers {
			size = fmt.Sprintf("has %d of %d bytes allocated, %d in use", m.Answer.DBSize, quota(s, m), m.Answer.InUse)
		}
		sizes = append(sizes, m.Name+" "+size)
	}
	return advice.NoSpace(sizes)
}

// maintained reports whether a voter is away because somebody has announced it. A human who knows is not called; the
// quorum must not need the member, and an announcement that was forgotten ends.
func (s *situation) maintained(m *member) bool {
	others := s.members.First(func(o *member) bool { return o != m && o.Unfit() })
	return m.Site.Maintained && m.Unfit() && others == nil && !s.full()
}

// memberDown calls a human about a voter. A full database is worse.
func memberDown(s *situation, m *member) {
	if s.full() {
		holds(EtcdNoSpace, noSpace).do(s, m)
		return
	}
	holds(EtcdMemberDown, away).do(s, m)
}

// These say all that there is to say.
func restartFailed(_ *situation, m *member) advice.Advice { return advice.RestartFailed(*m.Seat) }
func tlsChanged(*situation, *member) advice.Advice        { return advice.TLSChanged() }
func notRisen(s *situation, _ *member) advice.Advice      { return advice.NotRisen(s.minor) }
func notWritten(_ *situation, m *member) advice.Advice    { return advice.NotWritten(*m.Seat) }
func away(_ *situation, m *member) advice.Advice          { return advice.MemberDown(m) }
func refused(s *situation, _ *member) advice.Advice       { return advice.Refused(s.Version, s.refused) }
func notesLost(s *situation, _ *member) advice.Advice     { return advice.NotesLost(places(s).Remains()) }
func unfinished(_ *situation, m *member) advice.Advice    { return advice.Unfinished(*m.Seat) }
