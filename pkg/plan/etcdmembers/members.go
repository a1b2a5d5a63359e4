// Package etcdmembers says what becomes of the members of the etcd that the operator runs, if nothing fails on the
// way.
package etcdmembers

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/etcd"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/selection"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/advice"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/membership"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/seats"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/versions"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/managedetcd"
	"github.com/linstor-dev/storagecluster-operator/pkg/plan/result"
)

// How members of etcd come and go.
const (
	memberBegins = "pods first check the data directories on the nodes; if these contain no data from a previous " +
		"etcd cluster, one member is started; the others are added one at a time, and become voters once they have the " +
		"data; LINSTOR is then started"
	memberComes = "one at a time, each as a non-voting member until it has the data; the LINSTOR controller is " +
		"restarted once all members can vote"
	memberGoes = "one at a time, the leader last; the data stays on the nodes; the LINSTOR controller is restarted for " +
		"each removed member that is in its configuration"
	memberRestarts = "one at a time, the leader last, each after all others have become healthy; with three or more " +
		"members, etcd keeps its quorum; a single member is briefly unavailable"
)

// After is what would be known of the etcd if the spec of these facts were accepted. The members themselves are not
// asked once more: seen is what they have said.
func After(f cluster.Facts, seen *etcd.Known) *etcd.Known {
	if f.Target.Spec.Database.ManagedEtcd == nil {
		return nil
	}
	f.Kube.Nodes = joined(&f)
	facts, known := managedetcd.Facts(&f)
	if known.Err != nil {
		return known
	}
	if seen != nil && seen.Err == nil {
		facts.Look = seen.Facts.Look
	}
	out := etcd.Look(facts)
	out.Asked, out.Image, out.Answers, out.Heard = false, known.Image, known.Answers, known.Answers.Last
	return out
}

// joined are the nodes with the label of members on those that would get it: without it a node gets no member of etcd.
func joined(f *cluster.Facts) []*corev1.Node {
	all := slices.Clone(f.Kube.Nodes)
	for i, n := range all {
		if n.Labels[v1alpha1.LabelMember] == "" && selection.Selects(f.NodesSpec(), n) {
			all[i] = n.DeepCopy()
			if all[i].Labels == nil {
				all[i].Labels = map[string]string{}
			}
			all[i].Labels[v1alpha1.LabelMember] = f.Cluster.Name
		}
	}
	return all
}

// goal is what members of etcd come to if nothing fails on the way.
type goal struct {
	// starts are the nodes that get one, and among those of which ends are removed.
	starts, among []string
	ends          int
	// lacks says why there are too few; nil if there are not.
	lacks *advice.Advice
}

// goalOf adds members in the order in which the operator does.
func goalOf(k *etcd.Known) (g goal) {
	if k == nil || k.Err != nil {
		return g
	}
	f := &k.Facts
	notes := f.Notes.Clone(time.Time{})
	places := seats.Places{Nodes: f.Nodes, Sites: f.Sites, Notes: &notes}
	var stay, leave []string
	for _, s := range f.Notes.Seats {
		if slices.ContainsFunc(f.Nodes, func(n seats.Node) bool { return n.Name == s.Node }) {
			stay = append(stay, s.Node)
		} else {
			leave = append(leave, s.Node)
		}
	}
	for len(stay)+len(g.starts) < f.Size {
		n := places.Candidate()
		if n == nil {
			lacks := advice.NoNode(f.Size, places.Unfit())
			g.lacks = &lacks
			break
		}
		g.starts = append(g.starts, n.Name)
		notes.Seats = append(notes.Seats, seats.Seat{Node: n.Name})
	}
	g.ends, g.among = max(0, len(f.Notes.Seats)+len(g.starts)-f.Size), leave
	if g.ends > len(leave) {
		g.among = slices.Concat(leave, stay)
	}
	return g
}

// Changes are what an edit does to members.
type Changes struct {
	Members  []result.Members
	Restarts []result.Restart
	// Hold is nil if the edit does not end in a question about members.
	Hold           *cluster.HoldRequest
	Unknown, Notes []string
}

// Between are the changes from what is known to what would be; those are left out that would come without the edit.
func Between(was, is *etcd.Known) (c Changes) {
	switch {
	case is == nil:
		return c
	case is.Err != nil:
		c.Unknown = []string{fmt.Sprintf("what happens to the etcd members: %v", is.Err)}
		return c
	}
	to, from := goalOf(is), goalOf(was)
	c.starts(is, &to, &from)
	c.ends(&to, &from)
	if was == nil || was.Err != nil {
		return c
	}
	if is.Facts.Revision != was.Facts.Revision || !versions.Equal(is.Facts.Version, was.Facts.Version) {
		var nodes []string
		for _, s := range is.Facts.Notes.Seats {
			nodes = append(nodes, s.Node)
		}
		c.Restarts = []result.Restart{{What: "etcd members", Names: result.Of(nodes), How: memberRestarts}}
	}
	if (len(c.Restarts) > 0 || len(c.Members) > 0) && was.Decision.Step != membership.Rest {
		c.Notes = []string{"an etcd membership change is already in progress; the edit is applied to the members " +
			"afterwards: " + was.Message()}
	}
	return c
}

// starts says where members would be started, and where that ends for want of a node.
func (c *Changes) starts(is *etcd.Known, to, from *goal) {
	starts := slices.DeleteFunc(slices.Clone(to.starts), func(n string) bool { return slices.Contains(from.starts, n) })
	if len(starts) > 0 {
		how := memberComes
		if len(is.Facts.Notes.Seats) == 0 {
			how = memberBegins
			c.Unknown = append(c.Unknown, "whether nodes contain data from a previous etcd cluster: the operator checks this "+
				"when it accepts the edit, and does not start etcd while such data exists")
		}
		c.Members = append(c.Members, result.Members{Do: "start", Count: len(starts), Nodes: result.Of(starts), How: how})
	}
	if a := to.lacks; a != nil && (from.lacks == nil || *a != *from.lacks) {
		c.Hold = cluster.Request(v1alpha1.HoldEtcdStuck, "%s. %s", a.Message, a.Plan)
	}
}

// ends says how many members would be removed, and where they are.
func (c *Changes) ends(to, from *goal) {
	if to.ends == 0 || to.ends == from.ends && slices.Equal(to.among, from.among) {
		return
	}
	c.Members = append(c.Members, result.Members{Do: "remove", Count: to.ends, Nodes: result.Of(to.among),
		How: memberGoes})
	if to.ends < len(to.among) {
		c.Unknown = append(c.Unknown, fmt.Sprintf("which %d of the etcd members on %s would be removed: learners are "+
			"removed first, then members that are down, then the voter that is furthest behind, and the leader last", to.ends,
			strings.Join(to.among, ", ")))
	}
}
