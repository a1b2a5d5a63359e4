// Package drainguard keeps nodes from being drained while that would cost a volume its last healthy copy or the
// operator's etcd its quorum, or while another node is not there: one pod on each member, which the eviction API takes
// only with the operator's word.
//
// All guards are protected by one PodDisruptionBudget. It lets none be evicted but those of the nodes that it leaves
// out, and that is one node at a time. So the word is given in one write to one object, made only if the object is as
// it was seen. Nobody has to be quick: what the operator has not looked at, or cannot look at, is closed.
//
// It is no link of the chain: nothing waits for it, and what fails here is told in the condition DrainGuardReady
// alone.
package drainguard

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/volumespec"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/pods"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor/copies"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/replica"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/drainguard"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

// fewest is how many nodes there must be: the only one can never go without harm, and would never be drained.
const fewest = 2

// Judgement is what is to be of the guards.
type Judgement struct {
	// Off says why there are to be none; "" if there are. Unknown: what is there stays as it is.
	Off     string
	Unknown bool
	// Guarded are the members that shall have a guard or may keep theirs, by name.
	Guarded []string
	// Missing are those of them that have none and shall get one.
	Missing []string
	// Free are the nodes whose guards may be evicted now. Drained are those that are drained and whose guards are gone.
	Free, Drained []string
	// Refused are the nodes that somebody drains and that may not be drained now, with the reason.
	Refused []Refusal
}

// Refusal is a node that may not be drained now.
type Refusal struct{ Node, Why string }

func (r Refusal) String() string { return r.Node + ": " + r.Why }

// Guards are the pods that are there, by node.
func Guards(f *cluster.Facts) map[string]*corev1.Pod {
	return f.Kube.Pods[v1alpha1.ComponentDrainGuard]
}

// Stands reports whether a node has a guard that a drain would have to evict.
func stands(p *corev1.Pod) bool {
	return p != nil && p.DeletionTimestamp == nil && p.Status.Phase != corev1.PodSucceeded &&
		p.Status.Phase != corev1.PodFailed
}

// Watched reports whether a node is being drained whose guard is still there: whether it may go depends on the copies
// of volumes, which are looked at as long as that lasts.
func Watched(f *cluster.Facts) bool {
	if Guards(f) == nil {
		return false
	}
	return slices.ContainsFunc(f.Kube.Nodes, func(n *corev1.Node) bool {
		return isDraining(n) && stands(Guards(f)[n.Name])
	})
}

// off says why there are to be no guards; "" if there are to be. What LINSTOR has counts, and not the spec alone: the
// pools of a cluster that was taken over, or whose entries were removed while they are in use, have copies of volumes.
func off(s *cluster.Snapshot) string {
	v := s.Linstor.View
	switch {
	case s.Cluster.Spec.Volumes.DrainGuard == volumespec.DrainGuardNone:
		return "spec.volumes.drainGuard is None"
	case s.Target != nil && len(s.Target.Spec.StoragePools) == 0 && v != nil && !hasPools(v) && s.Etcd == nil:
		return "no storage pools exist, so no node has volume replicas"
	default:
		return ""
	}
}

func hasPools(v *linstor.View) bool {
	for _, n := range v.Nodes {
		if len(n.Pools) > 0 {
			return true
		}
	}
	return false
}

// Judge judges all members. It is pure.
func Judge(s *cluster.Snapshot) Judgement {
	j := Judgement{Off: off(s)}
	if j.Off != "" {
		return j
	}
	v := s.Linstor.View
	if s.Target == nil || !s.WasReady() || v == nil && Guards(&s.Facts) == nil {
		j.Unknown = true
		return j
	}
	members := guarded(s)
	if v != nil && len(members) < fewest {
		j.Off = "a single node can never be drained safely"
		return j
	}
	judgeDrains(s, v, members, &j)
	return j
}

// guarded are the members that have a guard or shall have one: those that are registered. One that leaves, as one does
// whose Node object is being deleted, keeps its guard until it is no longer, and gets no new one.
func guarded(s *cluster.Snapshot) []*cluster.Member {
	return s.Where(func(m *cluster.Member) bool {
		has := Guards(&s.Facts)[m.Name] != nil
		if s.Linstor.View == nil {
			return has
		}
		return m.Linstor != nil && (m.Selected || has || isDraining(m.Node))
	})
}

func judgeDrains(s *cluster.Snapshot, v *linstor.View, members []*cluster.Member, j *Judgement) {
	var waiting []*cluster.Member
	for _, m := range members {
		j.Guarded = append(j.Guarded, m.Name)
		there := stands(Guards(&s.Facts)[m.Name])
		switch {
		case isDraining(m.Node) && there:
			waiting = append(waiting, m)
		case isDraining(m.Node):
			// One that goes with the drain is as good as gone.
			j.Drained = append(j.Drained, m.Name)
		case !there && m.Selected && v != nil:
			j.Missing = append(j.Missing, m.Name)
		}
	}
	// Whoever has the word keeps it, as long as it stands: else two nodes would take it from each other.
	before := drainguard.Free(s.Kube.DrainBudget)
	slices.SortStableFunc(waiting, func(a, b *cluster.Member) int {
		return cmp.Compare(has(before, b), has(before, a))
	})
	busy := slices.Clone(j.Drained)
	for _, m := range waiting {
		switch why := refuse(s, v, m, busy); {
		case down(v, m):
			j.Free = append(j.Free, m.Name)
		case why != "":
			j.Refused = append(j.Refused, Refusal{m.Name, why})
		default:
			j.Free, busy = append(j.Free, m.Name), append(busy, m.Name)
		}
	}
	slices.Sort(j.Free)
	slices.SortFunc(j.Refused, func(a, b Refusal) int { return cmp.Compare(a.Node, b.Node) })
}

func has(keys []string, m *cluster.Member) int {
	if slices.Contains(keys, drainguard.NodeKey(m.Name)) {
		return 1
	}
	return 0
}

// down reports whether a node serves nobody any more, by the word of LINSTOR and of its kubelet: to drain it takes
// nothing away. A satellite alone that is down says nothing, since DRBD goes on without it.
func down(v *linstor.View, m *cluster.Member) bool {
	return v != nil && !m.NodeReady && !replica.Online(v, m.Name)
}

// refuse says why a node may not be drained now; "" if it may. busy are the nodes that are drained already, or may be.
// What is not known counts against it.
func refuse(s *cluster.Snapshot, v *linstor.View, m *cluster.Member, busy []string) string {
	if v == nil {
		return "LINSTOR does not respond, so it is unknown which volume replicas are up to date"
	}
	for _, other := range busy {
		if other != m.Name {
			return busyWith(s.MemberByName(other))
		}
	}
	if s.Upgrade != nil {
		return "LINSTOR is being upgraded"
	}
	for _, other := range s.Members {
		if other != m && other.Linstor != nil && (!replica.Online(v, other.Name) || !other.NodeReady) {
			return fmt.Sprintf("node %s is down", other.Name)
		}
	}
	if len(s.Roll.Restarting) > 0 {
		return fmt.Sprintf("the satellite on %s is being restarted", s.Roll.Restarting[0].Name)
	}
	if why := s.Etcd.Keeps(m.Name, m.Node.Labels[pods.Label]); why != "" {
		return why
	}
	return needs(s, v, m)
}

// needs says which volumes cannot do without a node; "" if all can.
func needs(s *cluster.Snapshot, v *linstor.View, m *cluster.Member) string {
	if v.Volumes == 0 {
		return ""
	}
	if !v.ResourcesKnown {
		return "the volume replicas are being checked"
	}
	if isRemoved(m.Node) {
		if last := replica.LastOn(s, v, m.Name); len(last) > 0 {
			return fmt.Sprintf("the node is about to be removed, but has the last healthy replica of %s: %s; move the data to "+
				"another node, or delete the volume", text.Amount(len(last), "volume", "volumes"), text.QuoteList(last))
		}
	}
	if last := replica.Stranded(s, v, m.Name); len(last) > 0 {
		return fmt.Sprintf("it has the last healthy replica of %s: %s%s", text.Amount(len(last), "volume", "volumes"),
			text.QuoteList(last), copies.Separated(v.Resources, m.Name, last))
	}
	return replica.ReplicationNeeds(s, m, nil, v.Resources)
}

// busyWith says which other node is away or about to be, and what ends that.
func busyWith(other *cluster.Member) string {
	switch {
	case other.Node.DeletionTimestamp != nil:
		return fmt.Sprintf("node %s is being deleted: wait until its Node object is gone", other.Name)
	case isRemoved(other.Node):
		return fmt.Sprintf("node %s is about to be removed: wait until its Node object is gone", other.Name)
	default:
		return fmt.Sprintf("node %s is cordoned or being drained: uncordon it first", other.Name)
	}
}

// mostRefused is how many nodes that may not be drained are explained; the others are counted.
const mostRefused = 3

// Refusals says which nodes may not be drained now, and why; "" if there are none.
func (j *Judgement) Refusals() string {
	var out []string
	for _, r := range j.Refused {
		out = append(out, r.String())
	}
	if more := len(out) - mostRefused; more > 0 {
		out = append(out[:mostRefused:mostRefused], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(out, "; ")
}
