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
		return fmt.Sprintf("%s (%s, no response; before its last start, its log ended at term %d, index %d, committed "+
			"index %d)", Label(*m.Seat), kind, l.Term, l.Index, l.Commit)
	}
	return fmt.Sprintf("%s (%s, term %d, committed index %d, applied index %d)", Label(*m.Seat), kind, l.Term, l.Commit,
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
		return "; it may have received data since its last start: try to start it before you force another member"
	}
	return "; it has data, but it is unknown how recent it is: try to start it before you force another member"
}

// why is why a member is not fit.
func why(m *roster.Member) string {
	switch {
	case m.Fit:
		return "it has not yet been confirmed that it would refuse to start without its data"
	case m.Answers:
		return "it responds, but is too far behind or is following a different leader from the others"
	case m.Site.Gone:
		return "its node was deleted"
	case m.Site.Down:
		return "its node is down"
	case m.Site.Refused(m.Name) != "":
		return refused(m)
	case m.Site.Reported(m.Name) != nil && m.Site.Pod.Ready:
		return "it does not respond to the operator, but its kubelet reports it as ready"
	}
	return "it does not respond"
}

// refused is why etcd was not started on a node.
func refused(m *roster.Member) string {
	p, disk := m.Site.Pod, m.Site.Disk()
	text := fmt.Sprintf("the guard prevents etcd from starting on its node (%s)", p.Refusal)
	switch {
	case p.Refusal == seats.Found && disk != nil && disk.Owner.Name != "":
		text += ": its data directory contains the data of member " + disk.Owner.Name
	case p.Refusal == seats.Found:
		text += ": its data directory contains the data of a different etcd cluster"
	case p.Refusal == seats.Lost:
		text += ": its data directory contains no data; check that its disk is mounted"
	}
	if p.Message != "" {
		text += "; the guard reports: " + p.Message
	}
	return text
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
	a := Advice{fmt.Sprintf("etcd has no quorum. Members with known data, most recent data first: %s. Members that do "+
		"not respond: %s", list(ranks), list(silent)),
		// A hold keeps 1,024 characters: both options come before the details, and the one that loses nothing comes first.
		"Bring the nodes of members that have data back up: no data is lost, and the hold ends automatically. If " +
			"Kubernetes was restored to an earlier state and `linstor-member.json` in a data directory names a later member " +
			"than the recorded one, resume with " + answer("adopt") + ". If the data cannot be recovered, power off the " +
			"machines of the other members and resume with " + answer("force@<member>") + ": a new cluster is created " +
			"from the data of this survivor. Acknowledged writes that it does not have are LOST, and it drops entries that " +
			"are not known to be committed. With adopt, the operator surveys all nodes and starts the later members again. " +
			"With force, the other data directories are renamed when their members rejoin. If another member is found " +
			"running, nothing is forced: power off its machine, then resume again. Until the survivor is serving requests, " +
			"you can choose a different one. The operator does not restore snapshots. If no node has data, delete the " +
			"operator's etcd records: a new cluster is created once no node has traces of the old one"}
	if unknown != "" {
		a.Message += fmt.Sprintf(". The chosen survivor %q is not a member that can start with its data", unknown)
	}
	return a
}

// SeedStuck is about a first member that has never served.
func SeedStuck(m *roster.Member) Advice {
	why := "the state of its pod is unknown"
	switch {
	case m.Site.Gone:
		why = "its node was deleted"
	case m.Site.Refused(m.Name) == seats.Found:
		why = "its data directory contains the data of a different etcd cluster, which was not modified"
	case m.Site.Refused(m.Name) != "":
		why = refused(m)
	case m.Site.Reported(m.Name) != nil:
		why = "etcd was started, but is not ready"
	}
	return Advice{fmt.Sprintf("the first member %s has never served: %s", Label(*m.Seat), why),
		"Check its pod and log. If the data on the node is LINSTOR's database, recover that etcd cluster. To start on " +
			"another node, resume with " + answer("forsake@"+m.Name) +
			". No data is lost, because no client has used this member"}
}

// MemberDown is about a voter that is not fit, or of which it is not known that it would refuse to start without its
// data. The latter works, and giving it up would change nothing.
func MemberDown(m *roster.Member) Advice {
	if m.Fit {
		return Advice{fmt.Sprintf("member %s is working, but %s", Label(*m.Seat), why(m)),
			"Check its pod and the kubelet on its node, which has not reported the configuration that the pod was started " +
				"with. If the kubelet is running, delete the pod: the DaemonSet recreates it"}
	}
	return Advice{fmt.Sprintf("member %s has been unhealthy for too long: %s", Label(*m.Seat), why(m)),
		"Recover the member: if its image cannot be pulled, fix it and delete its pod. If its data cannot be recovered, " +
			"resume with " + answer("forsake@"+m.Name) + ": the member is removed, and another one is added"}
}

// steps are what the operator tries, by the name of the step.
var steps = map[string]string{
	"Wait":       "rebuild its records",
	"Place":      "start it on the node",
	"Unplace":    "remove it from its node",
	"Restart":    "recreate its pod",
	"Survey":     "check the data directory",
	"Save":       "take a snapshot of the database",
	"AddLearner": "add it to the cluster",
	"Promote":    "promote it to a voter",
	"Remove":     "remove it from the cluster",
	"UpdateURL":  "update its address in the cluster",
	"MoveLeader": "move leadership to another member",
	"Compact":    "compact its database",
	"Defragment": "defragment its database",
	"Disarm":     "disarm the NOSPACE alarm",
}

// Stuck is about a step that has no effect.
func Stuck(step string, m *roster.Member) Advice {
	about, trouble := "etcd", ""
	if m.Node != "" {
		about = Label(*m.Seat)
	}
	if m.Name != "" && !m.Fit {
		trouble = ": " + why(m)
	}
	where := "the member's pod"
	if step == "Save" {
		where = "DaemonSet linstor-etcd-snapshot and its pod on that node"
	}
	return Advice{fmt.Sprintf("%s: the operator has been trying to %s for too long, without effect%s", about,
		cmp.Or(steps[step], step), trouble),
		"Check " + where + ", the termination messages of its containers, and its log. The operator keeps retrying, and " +
			"the hold ends when the step takes effect"}
}
