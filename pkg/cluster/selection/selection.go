// Package selection says which Nodes are members: those that the spec picks, and keeps in spite of passing taints.
package selection

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/nodespec"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/taints"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/remembered"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

// untolerated are the taints of a node that keep it out if it is joining, or drive it away.
func untolerated(spec *v1alpha1.NodesSpec, n *corev1.Node, joining bool) []*corev1.Taint {
	var out []*corev1.Taint
	for i := range n.Spec.Taints {
		if t := &n.Spec.Taints[i]; taints.Counts(spec, t, joining) {
			out = append(out, t)
		}
	}
	return out
}

// KeepsFromJoining is the taint for which a node does not become a member; nil if there is none.
func KeepsFromJoining(spec *v1alpha1.NodesSpec, n *corev1.Node) *corev1.Taint {
	for _, t := range untolerated(spec, n, true) {
		return t
	}
	return nil
}

// drivesAway is the taint for which a member leaves if it lasts, the one that has been there for the longest time, and
// since when; nil if there is none. Another one that comes later must not bring a node back that leaves.
func drivesAway(s *cluster.Facts, n *corev1.Node) (first *corev1.Taint, since cluster.TaintSince, known bool) {
	for _, t := range untolerated(s.NodesSpec(), n, false) {
		if was, ok := s.Tainted[cluster.TaintOf(n, t)]; first == nil || ok && (!known || was.Since.Before(since.Since)) {
			first, since, known = t, was, ok
		}
	}
	return first, since, known
}

// Remember carries on since when Nodes have had taints for which a member leaves. It is memory only: after a restart
// the time begins anew, which is the cautious guess. The result is a new map; the first is made from nil.
func Remember(before map[cluster.TaintedNode]cluster.TaintSince,
	s *cluster.Facts) map[cluster.TaintedNode]cluster.TaintSince {
	after := map[cluster.TaintedNode]cluster.TaintSince{}
	for _, n := range s.Kube.Nodes {
		for _, t := range untolerated(s.NodesSpec(), n, false) {
			was, known := before[cluster.TaintOf(n, t)]
			if !known {
				was = cluster.TaintSince{Since: s.Now, AtStart: before == nil}
			}
			if t.TimeAdded != nil && t.TimeAdded.Time.Before(was.Since) {
				was.Since = t.TimeAdded.Time
			}
			after[cluster.TaintOf(n, t)] = was
		}
	}
	return after
}

// fits reports whether a node is one that the spec may pick, whatever its taints: it runs Linux and has the labels.
func fits(spec *v1alpha1.NodesSpec, n *corev1.Node) bool {
	return n.DeletionTimestamp == nil && n.Status.NodeInfo.OperatingSystem != "windows" &&
		n.Labels[corev1.LabelOSStable] != "windows" &&
		nodespec.Picks(spec.NodeSelector, spec.NodeAffinity, n.Labels)
}

// Selects reports whether the spec picks a node that is no member yet: it fits, and its taints are tolerated.
func Selects(spec *v1alpha1.NodesSpec, n *corev1.Node) bool {
	return fits(spec, n) && KeepsFromJoining(spec, n) == nil
}

// Keeps reports whether the spec picks a member still. A taint that it does not tolerate has to last: most are put
// there by others, for minutes. One that had begun to leave when the operator started goes on if it has the taint
// since then: for a taint that came later, its own time counts, whatever else the node leaves for.
func Keeps(s *cluster.Facts, n *corev1.Node) bool {
	switch t, was, known := drivesAway(s, n); {
	case !fits(s.NodesSpec(), n):
		return false
	case t == nil:
		return true
	case was.AtStart && wasLeaving(s, n.Name):
		return false
	default:
		return !known || s.Now.Sub(was.Since) < s.Timing.TaintLasts
	}
}

// wasLeaving reports whether a node leaves by what LINSTOR or the status keeps of it.
func wasLeaving(s *cluster.Facts, name string) bool {
	if s.Linstor.Known() {
		if have := s.Linstor.View.Node(name); have != nil && have.Properties[remembered.Leaving] != "" {
			return true
		}
	}
	return slices.ContainsFunc(s.Cluster.Status.Nodes.Leaving,
		func(l v1alpha1.LeavingNode) bool { return l.Name == name })
}

// TaintNote says that a member will leave because of a taint that it got lately; nil if it will not.
func TaintNote(s *cluster.Facts, m *cluster.Member) *cluster.Problem {
	t, was, known := drivesAway(s, m.Node)
	if t == nil || !m.Selected {
		return nil
	}
	at := "once the taint has been present for " + s.Timing.TaintLasts.String()
	if known {
		at = "at " + remembered.Stamp(was.Since.Add(s.Timing.TaintLasts))
	}
	return &cluster.Problem{Reason: "NodeTainted", Message: text.Sentence(fmt.Sprintf(
		"spec.nodes.tolerations does not tolerate taint %s: the node starts to leave the cluster %s unless the taint is "+
			"removed or tolerated before then", t.ToString(), at))}
}

// Cause is why a node leaves.
func Cause(s *cluster.Facts, l *cluster.Leaver) string {
	if l.Member == nil {
		return "its Node object has been deleted"
	}
	spec, n := s.NodesSpec(), l.Member.Node
	selector := labels.SelectorFromSet(spec.NodeSelector)
	switch t, _, _ := drivesAway(s, n); {
	case n.DeletionTimestamp != nil:
		return "its Node object is being deleted"
	case !selector.Matches(labels.Set(n.Labels)):
		return fmt.Sprintf("it does not have the labels in spec.nodes.nodeSelector (%s)", selector)
	case !nodespec.Picks(nil, spec.NodeAffinity, n.Labels):
		return "its labels do not match spec.nodes.nodeAffinity"
	case t != nil:
		return fmt.Sprintf("spec.nodes.tolerations does not tolerate its taint %s", t.ToString())
	case KeepsFromJoining(spec, n) != nil:
		return fmt.Sprintf("spec.nodes.tolerations does not tolerate its taint %s", KeepsFromJoining(spec, n).ToString())
	default:
		return "spec.nodes does not select it"
	}
}

// NoNodeMessage says why the spec picks no node: which field to look at, and what is in the way.
func NoNodeMessage(s *cluster.Facts) string {
	const none = "no nodes match spec.nodes"
	spec := s.NodesSpec()
	selector := labels.SelectorFromSet(spec.NodeSelector)
	labelled, example := 0, ""
	for _, n := range s.Kube.Nodes {
		if !nodespec.Picks(spec.NodeSelector, spec.NodeAffinity, n.Labels) {
			continue
		}
		labelled++
		if t := KeepsFromJoining(spec, n); example == "" && t != nil {
			example = fmt.Sprintf("%s on node %s", t.ToString(), n.Name)
		}
	}
	switch {
	case len(s.Kube.Nodes) == 0:
		return none + ": the cluster has no nodes"
	case labelled == 0 && spec.NodeAffinity != nil:
		return fmt.Sprintf("%s: none of the %d nodes has labels that match both spec.nodes.nodeSelector (%s) and "+
			"spec.nodes.nodeAffinity", none, len(s.Kube.Nodes), cmp.Or(selector.String(), "empty"))
	case labelled == 0:
		return fmt.Sprintf("%s: none of the %d nodes has the labels in spec.nodes.nodeSelector (%s)", none,
			len(s.Kube.Nodes), selector)
	case example != "":
		return fmt.Sprintf("%s: spec.nodes.tolerations does not tolerate taint %s", none, example)
	default:
		return none + ": the nodes whose labels match are being deleted or run Windows"
	}
}
