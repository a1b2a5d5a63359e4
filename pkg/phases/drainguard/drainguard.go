// Package drainguard holds back drains of nodes that volumes cannot do without. Each member has a guard, a small pod
// that a drain has to evict, and a PodDisruptionBudget allows one eviction at a time. The guard of a node with the
// last good copy of a volume falls under another budget, which allows none.
//
// It is no link of the chain: nothing waits for it, and what fails here is said by the condition DrainGuardReady
// alone. What the operator does not know it does not allow: a drain that waits can be forced, and a lost volume
// cannot be brought back.
package drainguard

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/volumespec"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/replica"
	objects "github.com/linstor-dev/storagecluster-operator/pkg/resources/drainguard"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

// Reasons of the condition DrainGuardReady, beside the common ones.
const (
	// ReasonNotWanted: spec.volumes.drainGuard is None.
	ReasonNotWanted = "NotWanted"
	// ReasonTooFewNodes: there is one node, or none, which cannot be spared in any case.
	ReasonTooFewNodes = "TooFewNodes"
	// ReasonNotReadyYet: the cluster has not been Ready yet.
	ReasonNotReadyYet = "NotReadyYet"
	// ReasonMaking: guards or budgets are being made, changed or removed.
	ReasonMaking = "MakingGuards"
	// ReasonHeldBack: a node that is cordoned must not be drained now.
	ReasonHeldBack = "DrainHeldBack"
	// ReasonFailed: Kubernetes refuses what is written.
	ReasonFailed = "Refused"
)

// verdict is which nodes may be drained.
type verdict struct {
	// off is the reason why there are to be no guards, and why in full; "" if there are to be some.
	off, why string
	// busy says why no node may be drained now; "" if one may be.
	busy string
	// guards are what is to be said of each node, by its name. Nodes whose guard was evicted and is not to come back
	// yet are in it as well: they count among those of which all others must stay.
	guards map[string]objects.Guard
	// away are the nodes whose guard is not there, with the reason why none is made now.
	away map[string]string
}

// wanted says why there are to be no guards, as a reason and in full; "" if there are to be some.
func wanted(s *cluster.Snapshot) (reason, why string) {
	switch v := &s.Target.Spec.Volumes; {
	case v.DrainGuard != volumespec.DrainGuardAuto:
		return ReasonNotWanted, "spec.volumes.drainGuard is None: drains are not held back"
	case !s.WasReady():
		return ReasonNotReadyYet, "drains are held back once the cluster has been Ready"
	case len(guarded(s)) < 2:
		return ReasonTooFewNodes, "a cluster of one node has no other that could take over: drains are not held back"
	default:
		return "", ""
	}
}

// guarded are the members that LINSTOR may have data on. While it does not answer, all count that have a guard.
func guarded(s *cluster.Snapshot) []*cluster.Member {
	var out []*cluster.Member
	for _, m := range s.Members {
		if m.Linstor != nil || !s.Linstor.Known() && guardOf(s, m.Name) != nil {
			out = append(out, m)
		}
	}
	return out
}

// guardOf is the guard on a node; nil if there is none.
func guardOf(s *cluster.Snapshot, node string) *corev1.Pod {
	return s.Kube.Pods[objects.Component][node]
}

// judge finds out which nodes may be drained. It is pure.
func judge(s *cluster.Snapshot) verdict {
	v := verdict{guards: map[string]objects.Guard{}, away: map[string]string{}}
	if v.off, v.why = wanted(s); v.off != "" {
		return v
	}
	v.busy = busy(s)
	needed, known := replica.NeededOn(s)
	for _, m := range guarded(s) {
		g, pod := objects.Guard{Node: m.Name}, guardOf(s, m.Name)
		switch {
		case known:
			if volumes := needed[strings.ToLower(m.Name)]; len(volumes) > 0 {
				g.Why = "it has the last up-to-date copy of " + text.Amount(len(volumes), "volume", "volumes") + ": " +
					text.ListSome(volumes)
			}
		case pod != nil:
			g.Why = pod.Annotations[objects.AnnotationWhy] // as it was when the copies were looked at last
		}
		if pod != nil {
			g.Seen = pod.UID
		} else if why := absent(m, known, v.busy); why != "" {
			v.away[m.Name] = why
		}
		v.guards[m.Name] = g
	}
	return v
}

// busy says why no node may be drained now, whichever it is; "" if one may be.
func busy(s *cluster.Snapshot) string {
	switch {
	case !s.Linstor.Known():
		return "LINSTOR does not answer, so that it is not known where good copies are"
	case s.Upgrade != nil:
		return "LINSTOR is being upgraded"
	case s.Frozen():
		return "many nodes failed at once"
	}
	for _, m := range guarded(s) {
		switch {
		case m.Restarting:
			return m.Name + " restarts its satellite"
		case m.Linstor == nil || !m.Linstor.Online():
			return m.Name + " is not ONLINE in LINSTOR"
		}
	}
	if volumes, known := replica.Volumes(&s.Facts); known {
		for i := range volumes {
			if v := &volumes[i]; v.State() == replica.VolumeResyncing {
				return "copies are being brought up to date: " + v.String()
			}
		}
	} else if closed(s) {
		return "it was not seen yet that all copies are up to date again"
	}
	return ""
}

// closed reports whether no node may be drained, as the budget says.
func closed(s *cluster.Snapshot) bool {
	b := s.Kube.Budgets[objects.BudgetName(objects.Allowed)]
	return b != nil && b.Spec.MinAvailable != nil && b.Spec.MinAvailable.IntVal == objects.Never
}

// absent says why no guard is made now on a node that has none; "" if one is to be made. A guard that was evicted must
// not come back before the node has: as long as it is missing, no other node can be drained.
func absent(m *cluster.Member, known bool, busy string) string {
	switch {
	case m.Node.Spec.Unschedulable:
		return "it is cordoned"
	case !cluster.NodeReady(m.Node):
		return "it is not ready"
	case busy != "":
		return busy
	case !known:
		return "the copies of its volumes were not looked at yet"
	default:
		return ""
	}
}

// least is how many of the guards that allow a drain must run: all but one. Those that are not there count, so that a
// node that is drained already is the one.
func (v *verdict) least() int32 {
	if v.busy != "" {
		return objects.Never
	}
	n := int32(0)
	for _, g := range v.guards {
		if g.Why == "" || g.Seen == "" {
			n++
		}
	}
	return max(0, n-1)
}

// WantsCopies reports whether the copies of all volumes matter now: a node waits to be drained, or has come back, or
// no node may be drained.
func WantsCopies(f *cluster.Facts) bool {
	if f.Target == nil || f.Target.Spec.Volumes.DrainGuard != volumespec.DrainGuardAuto || !f.WasReady() {
		return false
	}
	s := &cluster.Snapshot{Facts: *f}
	if closed(s) {
		return true
	}
	return slices.ContainsFunc(f.Kube.Nodes, func(n *corev1.Node) bool {
		guard := guardOf(s, n.Name)
		waits := guard != nil && n.Spec.Unschedulable && guard.Labels[objects.LabelDrain] == objects.Refused
		return n.Labels[v1alpha1.LabelMember] == f.Cluster.Name && (waits || guard == nil && !n.Spec.Unschedulable)
	})
}

// Condition is what the condition DrainGuardReady says: whether it is so, the reason and the message.
func Condition(s *cluster.Snapshot) (ready bool, reason, message string) {
	v := judge(s)
	if v.off != "" {
		if len(s.Kube.Pods[objects.Component])+len(s.Kube.Budgets) > 0 {
			return false, ReasonMaking, v.why + "; guards are being removed"
		}
		return true, v.off, v.why
	}
	if err := s.TaskStates[taskKey].Err; err != nil {
		return false, ReasonFailed, text.OneLine(err.Error())
	}
	if v.heldBack(s) {
		return true, ReasonHeldBack, v.words()
	}
	if v.undone(s) {
		return false, ReasonMaking, "guards and their budgets are being made or changed"
	}
	return true, conditions.ReasonAsExpected, v.words()
}

// heldBack reports whether a node with a guard is cordoned that must not be drained now.
func (v *verdict) heldBack(s *cluster.Snapshot) bool {
	return slices.ContainsFunc(guarded(s), func(m *cluster.Member) bool {
		g := v.guards[m.Name]
		return m.Node.Spec.Unschedulable && g.Seen != "" && (g.Why != "" || v.busy != "")
	})
}

// words say which nodes may be drained.
func (v *verdict) words() string {
	said := []string{"one node at a time may be drained"}
	if v.busy != "" {
		said[0] = "no node may be drained now: " + v.busy
	}
	for _, name := range slices.Sorted(maps.Keys(v.guards)) {
		switch g := v.guards[name]; {
		case v.away[name] != "" && v.away[name] != v.busy:
			said = append(said, fmt.Sprintf("%s has no guard: %s", name, v.away[name]))
		case g.Why != "":
			said = append(said, fmt.Sprintf("%s must not be drained: %s", name, g.Why))
		}
	}
	return strings.Join(first(said), "; ")
}

// most is how much is said of single nodes.
const most = 4

func first(said []string) []string {
	if n := len(said) - most; n > 0 {
		return append(said[:most:most], fmt.Sprintf("and %d more", n))
	}
	return said
}
