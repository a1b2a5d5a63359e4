package advice

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/datadir"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/roster"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/seats"
)

// known is what a member knows of the log: by its answer, or else by what its guard saw when it looked last. A cluster
// that is made from its data has what it knows to be committed. Of data that its guard misses, nothing is known.
func known(m *roster.Member) (l datadir.Log, ok bool) {
	p := m.Site.Pod
	switch {
	case m.Answers:
		return datadir.Log{Term: m.Answer.Term, Index: m.Answer.Committed, Commit: m.Answer.Committed}, true
	case p == nil || p.Log == nil || p.Configuration == nil || p.Configuration.Name != m.Name:
		return l, false
	}
	return *p.Log, p.Refusal != seats.Lost && p.Refusal != seats.Found
}

// rank describes what a member knows. What a learner has may be less than was acknowledged.
func rank(m *roster.Member) string {
	l, _ := known(m)
	kind := "voter"
	if m.Answers && m.Answer.Learner || !m.Answers && m.Learner {
		kind = "learner"
	}
	if !m.Answers {
		return fmt.Sprintf("%s (%s, no answer; before its last start its log went to term %d, index %d, committed %d)",
			Label(*m.Seat), kind, l.Term, l.Index, l.Commit)
	}
	return fmt.Sprintf("%s (%s, term %d, committed %d, applied %d)", Label(*m.Seat), kind, l.Term, l.Commit,
		m.Answer.Applied)
}

// untold is what is not known of a silent member's data; "" if there is none that could be started. A log grows after
// the last look at it, so that the member may know more than all that are ranked before it.
func untold(m *roster.Member) string {
	p := m.Site.Pod
	refused := p != nil && p.Configuration != nil && p.Configuration.Name == m.Name &&
		(p.Refusal == seats.Lost || p.Refusal == seats.Found)
	_, ok := known(m)
	switch {
	case !m.Started || refused:
		return ""
	case ok:
		return " It may have more than before its last start: try to start it before you force another one."
	}
	return " It has data, how much is not known: try to start it before you force another one."
}

// why is why a member is not fit.
func why(m *roster.Member) string {
	switch {
	case m.Fit:
		return "It is not known yet that it would refuse to start without its data."
	case m.Answers:
		return "It answers, but it is too far behind, or in touch with another leader than the others."
	case m.Site.Gone:
		return "Its node was deleted."
	case m.Site.Down:
		return "Its node is down."
	case m.Site.Refused(m.Name) != "":
		return refused(m)
	case m.Site.Reported(m.Name) != nil && m.Site.Pod.Ready:
		return "It does not answer the operator, but its kubelet reports that it serves."
	}
	return "It does not answer."
}

// refused is why etcd was not started on a node.
func refused(m *roster.Member) string {
	p, disk := m.Site.Pod, m.Site.Disk()
	text := fmt.Sprintf("etcd is not started on its node (%s)", p.Refusal)
	switch {
	case p.Refusal == seats.Found && disk != nil && disk.Owner.Name != "":
		text += ": its data directory has the data of member " + disk.Owner.Name
	case p.Refusal == seats.Found:
		text += ": its data directory has the data of another etcd"
	case p.Refusal == seats.Lost:
		text += ": its data directory has no data. Is its disk mounted?"
	}
	if p.Message != "" {
		text += ": " + p.Message
	}
	return text + "."
}

// QuorumLost ranks the members, the one that knows most to be committed first; unknown is a chosen survivor that
// cannot be used, or "".
func QuorumLost(all roster.Members, unknown string) Advice {
	found := slices.DeleteFunc(slices.Clone(all), func(m *roster.Member) bool {
		_, ok := known(m)
		return !ok
	})
	slices.SortStableFunc(found, func(a, b *roster.Member) int {
		x, _ := known(a)
		y, _ := known(b)
		return cmp.Or(cmp.Compare(y.Commit, x.Commit), cmp.Compare(y.Term, x.Term), cmp.Compare(y.Index, x.Index))
	})
	var ranks, silent []string
	for _, m := range found {
		ranks = append(ranks, rank(m))
	}
	for _, m := range all {
		if !m.Answers {
			silent = append(silent, fmt.Sprintf("%s (%s%s)", Label(*m.Seat), why(m), untold(m)))
		}
	}
	a := Advice{fmt.Sprintf("etcd has no quorum. Members whose data is known, the one that knows most first: %s. "+
		"No answer from: %s.", list(ranks), list(silent)),
		"Bring back the nodes of members that have data. That loses nothing, and the hold ends by itself. Was Kubernetes " +
			"restored to an earlier time? Look at the data directories first: `linstor-member.json` names the member whose " +
			"data it is. Where there is that of a later member than is noted, answer " + answer("adopt") +
			": all nodes are looked into, and these members are started again. " +
			"If the data does not come back, power off the machines of the other members and answer " +
			answer("force@<member>") + ": a new cluster is made from the data of this survivor, and the directories of the " +
			"others are set aside when they join again. It loses what was acknowledged and is not there, and drops entries " +
			"that the survivor has and does not know to be committed. Until the survivor serves, the choice of another one " +
			"replaces the first. Nothing is forced if the survivor finds another member running; then answer again when that " +
			"one is off. Where a member's log ends is also in the log of its pod. The operator restores no snapshot. If no " +
			"node has its data, delete the operator's notes about etcd: a new cluster begins when the nodes have nothing " +
			"of it."}
	if unknown != "" {
		a.Message += fmt.Sprintf(" The chosen survivor %q is no member that can start on its data.", unknown)
	}
	return a
}

// SeedStuck is about a first member that has never served.
func SeedStuck(m *roster.Member) Advice {
	why := "Nothing is known of its pod."
	switch {
	case m.Site.Gone:
		why = "Its node was deleted."
	case m.Site.Refused(m.Name) == seats.Found:
		why = "There is data of another etcd in its data directory, which was not touched."
	case m.Site.Refused(m.Name) != "":
		why = refused(m)
	case m.Site.Reported(m.Name) != nil:
		why = "etcd was started."
	}
	return Advice{fmt.Sprintf("The first member %s has never served. %s", Label(*m.Seat), why),
		"Look at its pod and log. If the data on the node is LINSTOR's database, bring that cluster back. To begin on " +
			"another node, answer " + answer("forsake@"+m.Name) + ". Nothing is lost: no client knew this member."}
}

// MemberDown is about a voter that is not fit, or of which it is not known that it would refuse to start without its
// data. The latter works, and giving it up would change nothing.
func MemberDown(m *roster.Member) Advice {
	if m.Fit {
		return Advice{fmt.Sprintf("Member %s works, but %s", Label(*m.Seat),
			"it is not known that it would refuse to start without its data."),
			"Look at its pod and at the kubelet of its node, which has not reported what the pod was started with. If the " +
				"kubelet reports, delete the pod: the DaemonSet makes another one."}
	}
	return Advice{fmt.Sprintf("Member %s has not worked for too long. %s", Label(*m.Seat), why(m)),
		"Bring it back: if its image cannot be pulled, correct that and delete its pod. If its data " +
			"does not come back, answer " + answer("forsake@"+m.Name) +
			": it is removed, and another member is added."}
}

// steps are what the operator tries, by the name of the step.
var steps = map[string]string{
	"Wait":       "make the notes anew",
	"Place":      "have the node run it",
	"Unplace":    "take it from its node",
	"Restart":    "make its pod anew",
	"Survey":     "look into the data directory",
	"Save":       "take a snapshot of the database",
	"AddLearner": "add it to the others",
	"Promote":    "give it a vote",
	"Remove":     "end its membership",
	"UpdateURL":  "tell the others its new address",
	"MoveLeader": "have another member lead",
	"Compact":    "compact its database",
	"Defragment": "defragment its database",
	"Disarm":     "disarm the alarm NOSPACE",
}

// Stuck is about a step that has no effect.
func Stuck(step string, m *roster.Member) Advice {
	about, trouble := "etcd", ""
	if m.Node != "" {
		about = Label(*m.Seat)
	}
	if m.Name != "" && !m.Fit {
		trouble = " " + why(m)
	}
	where := "the member's pod"
	if step == "Save" {
		where = "DaemonSet linstor-etcd-snapshot and its pod on that node"
	}
	return Advice{fmt.Sprintf("%s: the operator tries to %s, for too long without effect.%s", about,
		cmp.Or(steps[step], step), trouble),
		"Look at " + where + ", at the termination messages of its containers, and at its log. The step is tried on, " +
			"and the hold ends when it has its effect."}
}
