// Package massfailure finds out whether so many nodes fail at about the same time that nothing should be repaired: a
// rack or the network is more likely to be broken than each of them.
package massfailure

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/hold"
	"github.com/linstor-dev/storagecluster-operator/pkg/remembered"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

// Message is one line for people.
func Message(m *cluster.MassFailure) string {
	switch m.State {
	case cluster.MassFailureActive:
		return fmt.Sprintf("%d of %d nodes failed at about the same time (%s): nothing is evacuated, declared lost, "+
			"restarted or removed until they recover or an administrator approves it",
			len(m.Nodes), m.Total, text.QuoteList(m.Nodes))
	case cluster.MassFailureAcknowledged:
		return fmt.Sprintf("%d of %d nodes are down (%s), which an administrator has acknowledged, so the operator "+
			"continues", len(m.Nodes), m.Total, text.QuoteList(m.Nodes))
	case cluster.MassFailureUnknown:
		return "the number of nodes that are down is unknown"
	default:
		// The nodes that are down are counted elsewhere: their coming and going is not written twice.
		return "no mass failure: few or no nodes failed at about the same time"
	}
}

// downNode is a node that is down, and since when; seen is from when on it counts.
type downNode struct {
	node        string
	since, seen time.Time
}

// TooMany is the bound of a mass failure: more than a fifth of all, and two at least.
func TooMany(n, of int) bool { return n >= 2 && n*5 > of }

// Judge finds out whether many nodes failed at once: it begins when too many fail within Timing.MassFailureWindow, and
// lasts while too many are down or not back for long (see returning). A human's word covers what was listed as failed
// by then; what fails later is judged anew. The condition in the status is the memory: True while it lasts,
// Acknowledged after the human's word, its transition the moment of that word.
func Judge(s *cluster.Snapshot) cluster.MassFailure {
	gone := goneFailures(s)
	failed := slices.Concat(failures(s), gone)
	m := cluster.MassFailure{State: cluster.MassFailureNone, Total: len(s.Members) + len(gone)}
	for _, f := range failed {
		m.Nodes = append(m.Nodes, f.node)
	}
	was := meta.FindStatusCondition(s.Cluster.Status.Conditions, conditions.MassFailure)
	acknowledged := was != nil && was.Reason == conditions.ReasonAcknowledged
	lasting := was != nil && was.Status == metav1.ConditionTrue
	m.Nodes = append(m.Nodes, returning(s, acknowledged)...)
	slices.Sort(m.Nodes)
	m.Nodes = slices.Compact(m.Nodes)
	many := TooMany(len(m.Nodes), m.Total)
	fresh := slices.DeleteFunc(slices.Clone(failed), func(f downNode) bool {
		return acknowledged && !f.seen.After(was.LastTransitionTime.Time)
	})
	switch silent := !s.Linstor.Known(); {
	case burst(&s.Facts, fresh, m.Total), lasting && (many || silent):
		m.State = cluster.MassFailureActive
	case acknowledged && (many || silent):
		m.State = cluster.MassFailureAcknowledged
	case silent || s.Target == nil || m.Total == 0:
		m.State = cluster.MassFailureUnknown
	}
	return m
}

// burst reports whether too many nodes failed within the window.
func burst(s *cluster.Facts, failed []downNode, of int) bool {
	failed = slices.Clone(failed)
	slices.SortFunc(failed, func(a, b downNode) int { return a.since.Compare(b.since) })
	for i, j := 0, 0; j < len(failed); j++ {
		for failed[j].since.Sub(failed[i].since) > s.Timing.MassFailureWindow {
			i++
		}
		if TooMany(j-i+1, of) {
			return true
		}
	}
	return false
}

// failures are the members that are down, by name. Only what was there can fail: a node that is still on its way into
// the cluster is not down. While LINSTOR does not answer, a running cluster is judged by what Kubernetes says.
func failures(s *cluster.Snapshot) []downNode {
	var out []downNode
	for _, m := range s.Members {
		if s.Linstor.Known() && !m.WasOnline || !s.Linstor.Known() && !s.Installed() {
			continue
		}
		if since, seen := failedAt(&s.Facts, m); !since.IsZero() {
			out = append(out, downNode{m.Name, since, seen})
		}
	}
	return out
}

// returning are the members that are not back for Timing.HealthRegained: a machine that boots brings up the kubelet,
// its satellite and LINSTOR's connection one after the other, and may lose one of them again. Counted as back at the
// first sign of life, nodes that return together would be a second mass failure a moment later, with what is
// destructive let go in between. While the hold is open that is about the nodes that it lists: one that restarts for
// another reason would make it another question. After a human's word there is no list, and nothing to ask.
func returning(s *cluster.Snapshot, acknowledged bool) []string {
	h := hold.OfNodes(&s.Facts, v1alpha1.HoldMassFailure)
	var out []string
	for _, m := range s.Members {
		listed := acknowledged || h != nil && slices.Contains(h.Nodes, m.Name)
		if listed && s.Linstor.Known() && m.WasOnline && !m.Maintenance && !m.Barred() && !isBack(&s.Facts, m) {
			out = append(out, m.Name)
		}
	}
	return out
}

// isBack reports whether node, satellite and connection of a member have been well for Timing.HealthRegained.
func isBack(s *cluster.Facts, m *cluster.Member) bool {
	well := func(ready bool, since metav1.Time) bool {
		return ready && s.Now.Sub(since.Time) >= s.Timing.HealthRegained
	}
	if c := cluster.NodeCondition(m.Node, corev1.NodeReady); c != nil &&
		!well(c.Status == corev1.ConditionTrue, c.LastTransitionTime) {
		return false
	}
	if restartedByUs(s, m) {
		return true
	}
	c := cluster.PodCondition(m.SatellitePod, corev1.PodReady)
	return (m.Linstor == nil || m.Linstor.Online()) &&
		(c == nil || well(c.Status == corev1.ConditionTrue, c.LastTransitionTime))
}

// failedAt is when a member went down, as far as possible from what Kubernetes recorded, and from when on that counts;
// zero if it is not down. Kubernetes calls a Node NotReady only after its grace time. A satellite or a connection must
// be away for a while: both are when they are restarted.
func failedAt(s *cluster.Facts, m *cluster.Member) (since, seen time.Time) {
	if m.Maintenance || m.Barred() { // one without a satellite on purpose has not failed
		return time.Time{}, time.Time{}
	}
	if c := cluster.NodeCondition(m.Node, corev1.NodeReady); c != nil && c.Status != corev1.ConditionTrue {
		return c.LastTransitionTime.Time, c.LastTransitionTime.Time
	}
	if c := cluster.PodCondition(m.SatellitePod, corev1.PodReady); c != nil && c.Status != corev1.ConditionTrue {
		since = c.LastTransitionTime.Time
	} else if m.Linstor != nil && m.Linstor.Status == linstor.StatusOffline {
		// A satellite that has just become ready is not lost: LINSTOR has yet to connect.
		since = s.DownSince(m.Name)
		if c != nil && since.Before(c.LastTransitionTime.Time) {
			since = c.LastTransitionTime.Time
		}
	}
	if since.IsZero() || s.Now.Sub(since) < s.Timing.HealthLost || restartedByUs(s, m) {
		return time.Time{}, time.Time{}
	}
	return since, since.Add(s.Timing.HealthLost)
}

// restartedByUs reports whether a member's satellite is away because it is restarted on purpose: an upgrade goes on,
// its pod is being deleted, or the pod that follows is still young. What an upgrade that was taken back has left is
// replaced by the roll, which a mass failure would stop.
func restartedByUs(s *cluster.Facts, m *cluster.Member) bool {
	p := m.SatellitePod
	if p == nil {
		return s.Cluster.Status.Upgrade != nil
	}
	claim, _ := s.Claim()
	left := claim.RolledBack != "" && s.Target != nil && !m.Runs(s.Target.Release.Satellite)
	return s.Cluster.Status.Upgrade != nil || left || p.DeletionTimestamp != nil ||
		s.Now.Sub(p.CreationTimestamp.Time) < s.Timing.Straggler
}

// Hold asks whether the operator may go on all the same. The question is about the failure as a whole. While LINSTOR
// does not answer, some of the nodes that are down are out of sight, and an open question stays as it is.
func Hold(s *cluster.Snapshot, _ hold.NodeFilter) (*cluster.HoldRequest, bool) {
	if !s.Frozen() {
		return nil, true
	}
	f := &s.MassFailure
	r := &cluster.HoldRequest{Reason: v1alpha1.HoldMassFailure, Message: Message(f), Nodes: f.Nodes}
	h := hold.OfNodes(&s.Facts, r.Reason)
	return r, s.Linstor.Known() || h == nil || hold.AnotherQuestion(h, r)
}

// Acknowledges reports whether an answer is a human's word about all the nodes that are down. One that failed after
// the hold was read is not in it, and then the answer is for nothing: the operator would go on with more nodes away
// than anybody has seen.
func Acknowledges(s *cluster.Snapshot, a *hold.Answer) bool {
	switch {
	case a == nil || a.Hold.Reason != v1alpha1.HoldMassFailure:
		return false
	case len(a.Nodes) > 0:
		return len(hold.Without(s.MassFailure.Nodes, a.Nodes)) == 0
	default:
		return !hold.AnotherQuestion(a.Hold, &cluster.HoldRequest{Nodes: s.MassFailure.Nodes})
	}
}

// goneFailures are nodes that are away together with their Node objects, as a cloud's autoscaler deletes them after an
// outage. Under the policy Retain nothing is done about them, and they may stay for ever.
func goneFailures(s *cluster.Snapshot) []downNode {
	if !s.Linstor.Known() || s.RemovalPolicy() == v1alpha1.NodesRetain {
		return nil
	}
	var out []downNode
	for _, g := range s.Gone {
		l := &cluster.Leaver{Name: g.Name, Node: g.Linstor}
		since, noted := s.DownSince(g.Name), l.Noted(remembered.GoneSince)
		if !noted.IsZero() && (since.IsZero() || noted.Before(since)) {
			since = noted
		}
		if l.Gone() && !since.IsZero() && s.Now.Sub(since) >= s.Timing.HealthLost {
			out = append(out, downNode{g.Name, since, since.Add(s.Timing.HealthLost)})
		}
	}
	return out
}
