package membership

import (
	"slices"
	"time"

	"github.com/linstor-dev/storagecluster-operator/pkg/decisiontable"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/seats"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/versions"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/view"
)

// rules are the table, in order.
var rules = slices.Concat(trouble, changes, renewal, growth)

// table decides about one cluster. The first row that holds decides.
var table = func() decisiontable.Table[*situation] {
	t := decisiontable.Table[*situation]{
		Title: "The next step",
		Intro: "A member is fit if it answers, is in the quorum's list, names the quorum's leader and is at most 1,000 " +
			"entries behind. A wait counts its time from when its condition began to hold, for each member by itself. A " +
			"step is done at each look until it has its effect; if it has none within `Start`, there is also the hold " +
			"`EtcdStuck`. `Start` is 10 minutes unless it is set, and `Down` 1 hour.",
	}
	for _, r := range rules {
		t.Rows = append(t.Rows, r.row())
	}
	t.Rows = append(t.Rows, decisiontable.Row[*situation]{Name: "rest", When: "else", Then: "nothing is done",
		Decide: func(s *situation) { s.d.Step = Rest }})
	return t
}()

// Rewrite is the row that changes no member.
const Rewrite = "rewrite"

// Markdown is the page about members of etcd, made from the table.
func Markdown() string {
	return decisiontable.Page("Members of a managed etcd", "pkg/etcd/membership",
		"Each reconcile asks all members anew, reads what the nodes have for them, and takes one step at most.",
		table.Markdown())
}

// noQuorum is the row that waits for a quorum; survey and search have nodes looked into.
const (
	noQuorum = "no-quorum"
	survey   = "survey"
	search   = "search"
)

// trouble is what must not be touched, and what is done without a quorum.
var trouble = []rule{
	acts("adopt", "a human says that the notes are lost or old, and members of one cluster answer, with a quorum; or "+
		"there was none for `Start`, and a node has the data of a later member of this cluster than is noted there", Wait,
		"the notes are made anew of what the nodes have and of the quorum's list; without one, the later members are "+
			"planned as they were",
		whenever(func(s *situation) bool {
			_, ok := s.adopted()
			return ok
		}), func(s *situation, _ *member) {
			s.notes, _ = s.adopted()
			s.notes.Adopted = s.Adopt
		}),
	acts(search, "a human says that the notes are old, there was no quorum for `Start`, and nobody has looked into a "+
		"node without a member whose kubelet reports; each is waited for no longer than `Start`", Survey,
		"a pod looks into its data directory", unsurveyed(true), func(*situation, *member) {}),
	stops("tls", "TLS was switched on or off, and the cluster has begun otherwise", whenever(func(s *situation) bool {
		return len(s.members) > 0 && s.TLS != s.notes.TLS
	}), holds(EtcdStuck, tlsChanged)),
	stops("other-cluster", "members that answer are of different clusters, or of another one than before; what answers "+
		"where a planned member has not started does not count",
		whenever(func(s *situation) bool {
			ids := s.everyone.ClusterIDs()
			return len(ids) > 1 || len(ids) == 1 && s.notes.ClusterID != 0 && ids[0] != s.notes.ClusterID ||
				s.notes.ClusterID == 0 && len(s.strangers) > 0
		}), holds(EtcdOtherCluster, otherCluster)),
	waits("two-clusters", "two members each have a quorum that does not know the other one, as after one was forced to "+
		"be a new cluster, or after one was removed a moment ago",
		whenever(func(s *situation) bool { return s.Look.Divided() }), start, holds(EtcdOtherCluster, twoClusters)),
	stops("corrupt", "the alarm CORRUPT is armed: the contents of members differ",
		whenever(func(s *situation) bool { return len(s.alarms(view.Corrupt)) > 0 }), holds(EtcdCorruptAlarm, corrupt)),
	waits("unreachable", "no linearizable read passes, and the kubelet reports that a member is ready: the operator is "+
		"cut off, not the members",
		anyone(func(s *situation, m *member) bool { return !s.quorum && s.notes.ClusterID != 0 && m.Serving() }), start,
		holds(EtcdUnreachable, unreachable)),
	waits("changed", "the quorum's list has a member that is not noted, by peer URL, name and ID, or lacks one that the "+
		"operator has not removed; or a node has the configuration of another member than is noted, and there is a quorum "+
		"or no other node to be written",
		whenever(func(s *situation) bool {
			if s.quorum && (len(s.strangers) > 0 || s.members.First(s.vanished) != nil) {
				return true
			}
			return s.members.First((*member).Other) != nil && (s.quorum || s.members.First(s.misplaced) == nil)
		}), start, holds(EtcdMembersChanged, changed)),
	acts("force", "there was no quorum for `Start`, and a human has chosen a survivor that has had data, whose kubelet "+
		"reports, and whose guard does not refuse the data", Place, "all other "+
		"members are taken from their nodes with the step `Unplace`; then the survivor is configured to make a new cluster "+
		"from its data, once, and not if its guard finds another member running", chosen((*situation).survivor), force),
	acts("gone", "the operator has removed a member, or a human has given up one that vanished, and the quorum's list "+
		"does not have it; or a human has given up a first member that never served", Unplace,
		"its node loses the label and the configuration; the data stays where it is",
		anyone(func(s *situation, m *member) bool { return m.Listed == nil && s.released(*m.Seat) }),
		func(*situation, *member) {}),
	acts("forsaken", "a member is not fit, a human says that its data does not come back, and a majority of the others "+
		"is fit", Remove, "its membership ends, before another one is added",
		anyone(func(s *situation, m *member) bool {
			return !m.Fit && slices.Contains(s.Forsaken, m.Name) && s.members.Spares(m)
		}), remove),
	waits("lost", "a member does not answer, no node has its data (the guard finds none, or the node was deleted), and "+
		"a majority of the others is fit", anyone(func(s *situation, m *member) bool {
		gone := m.Site.Gone || m.Site.Refused(m.Name) == seats.Lost && !m.Pod.Ready
		return !m.Answers && gone && s.members.Spares(m)
	}), start, outcome{words: "step `Remove`: its membership ends, before another one is added, and its node gets one " +
		"only if no other node can", do: lose}),
}

// changes are those of what members run with, and of who is a member.
var changes = []rule{
	acts("readdress", "a node's peer address has changed, and its member is not fit nor, as far as its kubelet reports, "+
		"ready while a majority of the others is fit; or it is fit, and all other voters are and run with what their nodes "+
		"have for them", UpdateURL,
		"the quorum learns it; then the configuration and the pod follow, before another member's turn",
		anyone(moved), readdress),
	acts("renew", "the version, the settings or the client address of a member are to change, and it serves nobody, or "+
		"all voters are fit and run with what their nodes have for them", Place,
		"its configuration is written: that of followers first, and of one member at a time", chosen((*situation).due),
		renew),
	acts("place", "a node has other things for its member than it must start with; without a quorum only if that member "+
		"has data, or is the first one", Place, "its configuration, its DaemonSet and the node's label are written, after "+
		"what runs there of a former member was taken away with the step `Unplace`",
		anyone((*situation).misplaced), place),
	acts(Rewrite, "a member's DaemonSet names what the member is to run with, and is not as it would be written now, "+
		"and that was not tried for `Start`", Place, "it is written again; no pod is made anew for that",
		func(s *situation) []*member { return s.unwritten }, place),
	acts("restart", "a member's pod runs with something else than its node has for it, and the quorum does not need the "+
		"member; or there was no quorum for half of `Start`, and the kubelet does not report it ready", Restart,
		"its pod is made anew, after a leader has handed over with the step `MoveLeader`; 5 pods at "+
			"most are deleted for the same purpose", anyone(func(s *situation, m *member) bool {
			return m.Site.Stale() && s.restartable(m) && !exhausted(s, m)
		}), restart),
	waits(noQuorum, "no linearizable read passes, whoever answers or names a leader",
		whenever(func(s *situation) bool { return s.notes.ClusterID != 0 && !s.quorum }), start,
		holds(EtcdQuorumLost, quorumLost)),
	waits("seed-starting", "the first member has never served",
		anyone(func(s *situation, _ *member) bool { return s.notes.ClusterID == 0 }), start,
		holds(EtcdStuck, seedStuck)),
	acts("shrink", "there are enough members without one of them, and a majority of the others is fit", Remove,
		"its membership ends, after a leader has handed over with the step `MoveLeader`: learners first, then members "+
			"that are down, then the voter that is furthest behind", chosen((*situation).surplus), remove),
}

// renewal is what keeps voters well. Below it all voters are fit.
var renewal = []rule{
	acts("full-disarm", "the alarm NOSPACE is armed, and all databases have room again", Disarm,
		"writes are accepted again", whenever(func(s *situation) bool { return s.full() && s.roomy() }), disarm),
	acts("full-treat", "the alarm NOSPACE is armed, all voters are fit, and there is something that was not tried for a "+
		"day", Defragment, "a learner is removed, then each voter is compacted with the step `Compact`, and then "+
		"defragmented, the leader last",
		whenever(func(s *situation) bool {
			return s.full() && s.members.First((*member).Unfit) == nil && s.treatable()
		}), treat),
	stops("full", "the alarm NOSPACE is armed, all voters are fit, and all was tried that gives space",
		whenever(func(s *situation) bool { return s.full() && s.members.First((*member).Unfit) == nil }),
		holds(EtcdNoSpace, noSpace)),
	stops("refused", "the wanted version cannot run: it is not known, or must not follow one that a member has run",
		whenever(func(s *situation) bool { return s.refused != nil }), holds(EtcdStuck, refused)),
	waits("maintained", "a voter is not fit, its node was announced to be in maintenance, and all other voters are fit",
		anyone((*situation).maintained), limit{"a day", func(*situation, *member) time.Duration { return 24 * time.Hour }},
		holds(EtcdMemberDown, away)),
	waits("down", "any other voter is not fit, or the guard has not reported that it starts on its own data only",
		anyone(func(s *situation, m *member) bool { return m.Votes() && (!m.Fit || !m.Sealed) && !s.maintained(m) }),
		limit{"`Start` if the member was restarted or a database is full, else `Down`",
			func(s *situation, m *member) time.Duration {
				if s.full() || m.Restarts.Tries > 0 {
					return s.Start
				}
				return s.Down
			}}, outcome{words: "hold `EtcdMemberDown`, or `EtcdNoSpace` if a database is full", hold: true, do: memberDown}),
}

// growth is another member, from its plan to its vote.
var growth = []rule{
	waits("remains", "no member is noted, and a node has a configuration, a DaemonSet, a label, a pod or data of a "+
		"former cluster, or has had a member and cannot be looked into",
		whenever(func(s *situation) bool { return len(places(s).Remains()) > 0 }), start,
		holds(EtcdNotesLost, notesLost)),
	acts(survey, "no member is noted, and nobody has looked into a node whose kubelet reports; one on which no member "+
		"is wanted, and that is not known to have had one, is waited for no longer than `Start`", Survey,
		"a pod looks into its data directory", unsurveyed(false), func(*situation, *member) {}),
	acts("seed", "there is no member, and a node for one", Place,
		"the node gets the configuration of a new cluster with a new token, and the label",
		whenever(func(s *situation) bool { return len(s.members) == 0 && places(s).Candidate() != nil }), seed),
	waits("joining", "a learner is not fit, or the guard has not reported that it starts on its own data only",
		anyone(func(s *situation, m *member) bool { return m.Learns() && !s.steady(m) }),
		limit{"`Start` if it was never at work, else `Down`", func(s *situation, m *member) time.Duration {
			if m.Started {
				return s.Down
			}
			return s.Start
		}}, outcome{words: "step `Remove`: its membership ends, and its node gets none for a day", do: giveUp}),
	acts("promote", "a learner and all voters are fit, and the guard has reported that the learner starts on its own "+
		"data only", Promote, "it gets a vote", anyone(func(_ *situation, m *member) bool { return m.Learns() }),
		func(s *situation, _ *member) { s.d.Endpoint = s.members.Contact() }),
	acts("add", "a member is planned that the quorum's list does not have", AddLearner, "it is added without a vote",
		anyone(planned), grow),
	acts("leftover", "a node has a configuration, a DaemonSet or a label, no member is noted there, and the quorum has "+
		"none that is not noted", Unplace, "it is cleared; the data stays where it is", anyLeft,
		func(*situation, *member) {}),
	acts("grow", "fewer members are on nodes that are wanted than there shall be, and there is a node for another one",
		AddLearner, "it is planned, and added without a vote",
		whenever(func(s *situation) bool { return s.few() && places(s).Candidate() != nil }), grow),
	// It comes after all that repairs and grows: a disk without room for a snapshot keeps no member from being replaced.
	acts("save", "members are to get the next minor release, all voters are fit and run with what their nodes have for "+
		"them, the quorum does not need one of them, and there is no snapshot for that which was begun within the last "+
		"hour and whose member is one still", Save,
		"a pod takes one from a follower, on whose node it stays: there is no way back from the new minor; one that was "+
			"begun is taken on, if its member is fit; after a failure another member is asked, the leader last",
		whenever((*situation).unsaved), save),
	waits("no-node", "fewer members are on nodes that are wanted than there shall be, and there is no node for another "+
		"one", whenever((*situation).few), start, holds(EtcdStuck, noNode)),
	waits("wrong-version", "a member's image is said to be of one version, and the member says that it is of another",
		anyone(func(_ *situation, m *member) bool {
			return m.Site.Current() && m.Fit && !versions.Equal(m.Answer.Version, m.Site.Configuration.Version)
		}), start, holds(EtcdStuck, wrongVersion)),
	stops("exhausted", "so many pods of a member were deleted for one purpose, and the new ones run with something else",
		anyone(exhausted), holds(EtcdStuck, restartFailed)),
	waits("rising", "members are to get the next minor release, and databases have not risen to the present one",
		whenever(func(s *situation) bool { return s.rising }), start, holds(EtcdStuck, notRisen)),
	waits("unfinished", "a voter is not known to run with what is wanted, and cannot be restarted now",
		anyone(func(s *situation, m *member) bool { return m.Votes() && (!m.Site.Current() || outdated(s, m)) }), down,
		holds(EtcdMemberDown, unfinished)),
	stops("not-written", "a member's DaemonSet was written again for as long as `Start`, and is not as it would be "+
		"written", anyone((*situation).edited), holds(EtcdStuck, notWritten)),
}

// unsaved reports whether a snapshot is all that keeps a first member from the next minor release. Where no member can
// be restarted none is taken: it would be too old by then, and others pushed out for it.
func (s *situation) unsaved() bool {
	return s.minor != "" && !s.rising && s.quorum && s.steadyAll() &&
		s.members.First(func(m *member) bool { return m.Votes() && s.restartable(m) }) != nil
}

// vanished reports whether a member is not in the quorum's list, and neither the operator nor a human has ended it.
func (s *situation) vanished(m *member) bool {
	return s.quorum && m.ID != 0 && m.Listed == nil && !s.released(*m.Seat)
}

// unsurveyed is about the nodes that are to be looked into, with or without members elsewhere.
func unsurveyed(members bool) subjects {
	return func(s *situation) []*member {
		if members != (len(s.members) > 0) {
			return nil
		}
		return s.unsurveyed
	}
}

// anyLeft is about a node on which something is left of a member that is not noted. The rows above have found that all
// members of the quorum's list are noted.
func anyLeft(s *situation) []*member {
	if node := places(s).Left(); node != "" && s.quorum {
		return []*member{s.empty(node)}
	}
	return nil
}
