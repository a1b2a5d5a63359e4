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
		Intro: "A member is healthy if it responds, is in the quorum's member list, reports the quorum's leader, and is " +
			"at most 1,000 entries behind. Waiting times are measured separately for each member, from when the condition " +
			"first became true. A step is repeated at each reconcile until it takes effect. If it has no effect within " +
			"`Start`, the `EtcdStuck` hold also opens. `Start` is 10 minutes unless set otherwise, and `Down` is 1 hour.",
	}
	for _, r := range rules {
		t.Rows = append(t.Rows, r.row())
	}
	t.Rows = append(t.Rows, decisiontable.Row[*situation]{Name: "rest", When: "otherwise", Then: "nothing to do",
		Decide: func(s *situation) { s.d.Step = Rest }})
	return t
}()

// Rewrite is the row that changes no member.
const Rewrite = "rewrite"

// Markdown is the page about members of etcd, made from the table.
func Markdown() string {
	return decisiontable.Page("Members of a managed etcd", "pkg/etcd/membership",
		"Each reconcile queries all members, reads their configuration on the nodes, and takes at most one step.",
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
	acts("adopt", "an administrator resumed with `adopt`, and either members of a single cluster respond with a quorum, "+
		"or there has been no quorum for at least `Start`, and a node has data from a newer member of this cluster "+
		"than the one recorded for the node", Wait,
		"the records are rebuilt from the nodes and the quorum's member list; without a quorum, the later members are "+
			"added to the records under their previous names",
		whenever(func(s *situation) bool {
			_, ok := s.adopted()
			return ok
		}), func(s *situation, _ *member) {
			s.notes, _ = s.adopted()
			s.notes.Adopted = s.Adopt
		}),
	acts(search, "an administrator resumed with `adopt`, there has been no quorum for `Start`, and a node that has no "+
		"member and whose kubelet is reporting has not been surveyed; the operator waits at most `Start` for each node",
		Survey, "a pod checks the node's data directory", unsurveyed(true), func(*situation, *member) {}),
	stops("tls", "TLS was enabled or disabled, but the cluster was created with the opposite setting",
		whenever(func(s *situation) bool {
			return len(s.members) > 0 && s.TLS != s.notes.TLS
		}), holds(EtcdStuck, tlsChanged)),
	stops("other-cluster", "the members that respond belong to different clusters, or to a cluster other than the "+
		"recorded one; responses from the address of a planned member that has not started are ignored",
		whenever(func(s *situation) bool {
			ids := s.everyone.ClusterIDs()
			return len(ids) > 1 || len(ids) == 1 && s.notes.ClusterID != 0 && ids[0] != s.notes.ClusterID ||
				s.notes.ClusterID == 0 && len(s.strangers) > 0
		}), holds(EtcdOtherCluster, otherCluster)),
	waits("two-clusters", "two members each have a quorum that does not include the other member, for example after "+
		"a new cluster was forced from one of them, or just after one of them was removed",
		whenever(func(s *situation) bool { return s.Look.Divided() }), start, holds(EtcdOtherCluster, twoClusters)),
	stops("corrupt", "the CORRUPT alarm is active: the members' contents differ",
		whenever(func(s *situation) bool { return len(s.alarms(view.Corrupt)) > 0 }), holds(EtcdCorruptAlarm, corrupt)),
	waits("unreachable", "no linearizable read succeeds, but a kubelet reports a member as ready: the operator is cut "+
		"off, not the members",
		anyone(func(s *situation, m *member) bool { return !s.quorum && s.notes.ClusterID != 0 && m.Serving() }), start,
		holds(EtcdUnreachable, unreachable)),
	waits("changed", "the quorum's member list contains a member that is not recorded with this peer URL, name and ID, "+
		"or lacks a member that the operator has not removed; or a node is configured as a member other than the recorded "+
		"one, and either there is a quorum or no node needs a new configuration",
		whenever(func(s *situation) bool {
			if s.quorum && (len(s.strangers) > 0 || s.members.First(s.vanished) != nil) {
				return true
			}
			return s.members.First((*member).Other) != nil && (s.quorum || s.members.First(s.misplaced) == nil)
		}), start, holds(EtcdMembersChanged, changed)),
	acts("force", "there has been no quorum for `Start`, and an administrator chose a survivor that has had data, whose "+
		"kubelet is reporting, and whose guard does not reject the data", Place, "all other members are removed from "+
		"their nodes in the `Unplace` step; then the survivor is configured to create a new cluster from its data, only "+
		"once and only if its guard finds no other member running", chosen((*situation).survivor), force),
	acts("gone", "the quorum's member list lacks a member that the operator removed, or that disappeared and was given "+
		"up with `forsake`; or the first member was given up with `forsake` before it ever served", Unplace,
		"the label and the configuration are removed from its node; the data stays on the node",
		anyone(func(s *situation, m *member) bool { return m.Listed == nil && s.released(*m.Seat) }),
		func(*situation, *member) {}),
	acts("forsaken", "a member is not healthy, an administrator gave it up with `forsake`, and a majority of the other "+
		"members are healthy", Remove, "it is removed from the cluster before another member is added",
		anyone(func(s *situation, m *member) bool {
			return !m.Fit && slices.Contains(s.Forsaken, m.Name) && s.members.Spares(m)
		}), remove),
	waits("lost", "a member does not respond, no node has its data (the guard finds none, or the node was deleted), "+
		"and a majority of the other members are healthy", anyone(func(s *situation, m *member) bool {
		gone := m.Site.Gone || m.Site.Refused(m.Name) == seats.Lost && !m.Pod.Ready
		return !m.Answers && gone && s.members.Spares(m)
	}), start, outcome{words: "step `Remove`: it is removed from the cluster before another member is added, and its " +
		"node is used for a new member only if no other node is available", do: lose}),
}

// changes are those of what members run with, and of who is a member.
var changes = []rule{
	acts("readdress", "a node's peer address has changed, and either its member is neither healthy nor reported as "+
		"ready by its kubelet, and a majority of the other members are healthy; or all voters are healthy, and the other "+
		"voters are running with the configuration on their nodes", UpdateURL,
		"the address is updated in the cluster; then the configuration is written and the pod is restarted, before another "+
			"member is changed",
		anyone(moved), readdress),
	acts("renew", "the version, the settings or the client address of a member must change, and either the member is "+
		"not serving, or all voters are healthy and running with the configuration on their nodes", Place,
		"its configuration is written, one member at a time, followers first", chosen((*situation).due),
		renew),
	acts("place", "a member's configuration, its DaemonSet or the label of its node differs from what the member must "+
		"start with; without a quorum, only if the member has data or is the first one", Place, "the configuration, the "+
		"DaemonSet and the label are written; a previous member is first removed from the node in the `Unplace` step",
		anyone((*situation).misplaced), place),
	acts(Rewrite, "a member's DaemonSet has the right member, version and settings, but otherwise differs from what the "+
		"operator would write now, and the operator has been rewriting it for less than `Start`", Place,
		"it is rewritten; no pod is recreated for this",
		func(s *situation) []*member { return s.unwritten }, place),
	acts("restart", "a member's pod is not running with the configuration on its node, and either the quorum does not "+
		"need the member, or there has been no quorum for half of `Start` and the kubelet does not report it as ready",
		Restart, "its pod is deleted and recreated; a leader first hands over leadership in the `MoveLeader` step; at "+
			"most 5 pods are deleted for the same reason", anyone(func(s *situation, m *member) bool {
			return m.Site.Stale() && s.restartable(m) && !exhausted(s, m)
		}), restart),
	waits(noQuorum, "no linearizable read succeeds, even if members respond or report a leader",
		whenever(func(s *situation) bool { return s.notes.ClusterID != 0 && !s.quorum }), start,
		holds(EtcdQuorumLost, quorumLost)),
	waits("seed-starting", "the first member has never served",
		anyone(func(s *situation, _ *member) bool { return s.notes.ClusterID == 0 }), start,
		holds(EtcdStuck, seedStuck)),
	acts("shrink", "there are more members than required, and a majority of the members that would remain are "+
		"healthy", Remove, "a member is removed from the cluster; a leader first hands over leadership in the `MoveLeader` "+
		"step. Learners are removed first, then members that are down, then the voter that is furthest behind",
		chosen((*situation).surplus), remove),
}

// renewal is what keeps voters well. Below it all voters are fit.
var renewal = []rule{
	acts("full-disarm", "the NOSPACE alarm is active, and all databases have free space again", Disarm,
		"the alarm is disarmed, and writes are accepted again",
		whenever(func(s *situation) bool { return s.full() && s.roomy() }), disarm),
	acts("full-treat", "the NOSPACE alarm is active, all voters are healthy, and at least one of the following measures "+
		"has not been tried within the last day", Defragment, "learners are removed; then the database of each voter is "+
		"compacted in the `Compact` step and then defragmented, the leader last",
		whenever(func(s *situation) bool {
			return s.full() && s.members.First((*member).Unfit) == nil && s.treatable()
		}), treat),
	stops("full", "the NOSPACE alarm is active, all voters are healthy, and everything that frees space has been tried",
		whenever(func(s *situation) bool { return s.full() && s.members.First((*member).Unfit) == nil }),
		holds(EtcdNoSpace, noSpace)),
	stops("refused", "the requested version cannot be used: it is not supported, or cannot follow a version that a "+
		"member has run",
		whenever(func(s *situation) bool { return s.refused != nil }), holds(EtcdStuck, refused)),
	waits("maintained", "a voter is not healthy, maintenance has been announced for its node, and all other voters "+
		"are healthy",
		anyone((*situation).maintained), limit{"a day", func(*situation, *member) time.Duration { return 24 * time.Hour }},
		holds(EtcdMemberDown, away)),
	waits("down", "any other voter is not healthy, or its guard has not reported that it starts only with its own data",
		anyone(func(s *situation, m *member) bool { return m.Votes() && (!m.Fit || !m.Sealed) && !s.maintained(m) }),
		limit{"`Start` if the member was restarted or a database is full, otherwise `Down`",
			func(s *situation, m *member) time.Duration {
				if s.full() || m.Restarts.Tries > 0 {
					return s.Start
				}
				return s.Down
			}}, outcome{words: "hold `EtcdMemberDown`, or `EtcdNoSpace` if a database is full", hold: true, do: memberDown}),
}

// growth is another member, from its plan to its vote.
var growth = []rule{
	waits("remains", "no member is recorded, and a node still has a configuration, a DaemonSet, a label, a pod or data "+
		"from a previous cluster, or has had a member and cannot be surveyed",
		whenever(func(s *situation) bool { return len(places(s).Remains()) > 0 }), start,
		holds(EtcdNotesLost, notesLost)),
	acts(survey, "no member is recorded, and a node whose kubelet is reporting has not been surveyed; if a node does "+
		"not need a member and is not known to have had one, the operator waits at most `Start` for it", Survey,
		"a pod checks the node's data directory", unsurveyed(false), func(*situation, *member) {}),
	acts("seed", "no member exists, and a node is available for one", Place,
		"the configuration of a new cluster with a new token is written for the node, and the node is labeled",
		whenever(func(s *situation) bool { return len(s.members) == 0 && places(s).Candidate() != nil }), seed),
	waits("joining", "a learner is not healthy, or its guard has not reported that it starts only with its own data",
		anyone(func(s *situation, m *member) bool { return m.Learns() && !s.steady(m) }),
		limit{"`Start` if it has never worked, otherwise `Down`", func(s *situation, m *member) time.Duration {
			if m.Started {
				return s.Down
			}
			return s.Start
		}}, outcome{words: "step `Remove`: it is removed from the cluster, and its node does not get a member for a day",
			do: giveUp}),
	acts("promote", "a learner and all voters are healthy, and the learner's guard has reported that it starts only "+
		"with its own data", Promote, "the learner becomes a voter",
		anyone(func(_ *situation, m *member) bool { return m.Learns() }),
		func(s *situation, _ *member) { s.d.Endpoint = s.members.Contact() }),
	acts("add", "a member is planned, but is not yet in the quorum's member list", AddLearner,
		"it is added as a non-voting learner", anyone(planned), grow),
	acts("leftover", "a node has a configuration, a DaemonSet or a label, no member is recorded for the node, and every "+
		"member in the quorum's member list is recorded", Unplace, "they are removed; the data stays on the node",
		anyLeft, func(*situation, *member) {}),
	acts("grow", "too few members are on nodes that should have a member, and a node is available for another one",
		AddLearner, "another member is planned and added as a non-voting learner",
		whenever(func(s *situation) bool { return s.few() && places(s).Candidate() != nil }), grow),
	// It comes after all that repairs and grows: a disk without room for a snapshot keeps no member from being replaced.
	acts("save", "members must be upgraded to the next minor release, all voters are healthy and running with the "+
		"configuration on their nodes, at least one of them is not needed for the quorum, and there is no snapshot for "+
		"this upgrade that was started within the last hour and whose member still exists", Save,
		"a pod takes a snapshot from a follower and stores it on that node, because the new minor release cannot be rolled "+
			"back; a snapshot in progress is continued if its member is healthy; after a failure, another member is used, the "+
			"leader last",
		whenever((*situation).unsaved), save),
	waits("no-node", "too few members are on nodes that should have a member, and no node is available for another one",
		whenever((*situation).few), start, holds(EtcdStuck, noNode)),
	waits("wrong-version", "a member reports a version that differs from the one that its image should contain",
		anyone(func(_ *situation, m *member) bool {
			return m.Site.Current() && m.Fit && !versions.Equal(m.Answer.Version, m.Site.Configuration.Version)
		}), start, holds(EtcdStuck, wrongVersion)),
	stops("exhausted", "a member's pod was deleted 5 times for the same reason, but the member is still running with "+
		"the wrong settings",
		anyone(exhausted), holds(EtcdStuck, restartFailed)),
	waits("rising", "members must be upgraded to the next minor release, but the storage version of some databases "+
		"is still behind the current one",
		whenever(func(s *situation) bool { return s.rising }), start, holds(EtcdStuck, notRisen)),
	waits("unfinished", "it is unknown whether a voter is running with the required configuration, and the voter "+
		"cannot be restarted now",
		anyone(func(s *situation, m *member) bool { return m.Votes() && (!m.Site.Current() || outdated(s, m)) }), down,
		holds(EtcdMemberDown, unfinished)),
	stops("not-written", "the operator has been rewriting a member's DaemonSet for at least `Start`, but the DaemonSet "+
		"still differs from what the operator writes", anyone((*situation).edited), holds(EtcdStuck, notWritten)),
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
