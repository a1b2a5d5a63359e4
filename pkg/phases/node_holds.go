package phases

import (
	"slices"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/holdkind"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/hold"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/noderemoval"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/pools"
)

// askAboutNodes brings the holds of whole nodes in line with the facts. released is what was answered in this
// reconcile, whose snapshot is older than the answer.
func askAboutNodes(s *cluster.Snapshot, holds []v1alpha1.Hold, mayBegin bool, released *hold.Answer) []v1alpha1.Hold {
	for _, q := range questions {
		if q.Ask == nil {
			continue
		}
		all, known := q.Ask(s, hold.AnyNode)
		if !known {
			continue
		}
		if all == nil {
			all = &cluster.HoldRequest{Reason: q.Reason}
		}
		grow := released == nil && (mayBegin || q.Anywhere)
		if holdkind.Of(q.Reason).Growth == holdkind.GrowsNever {
			holds = askApart(s, holds, q, grow)
		} else {
			holds = askTogether(s, holds, q, all, grow)
		}
	}
	return holds
}

// askApart is for questions of which each node is one of its own: holds lose nodes, and further nodes get a hold of
// their own. What the cluster's hold asks already is not asked again under another id.
func askApart(s *cluster.Snapshot, holds []v1alpha1.Hold, q question, grow bool) []v1alpha1.Hold {
	var listed []string
	out := make([]v1alpha1.Hold, 0, len(holds)+1)
	for _, h := range holds {
		if h.Reason == q.Reason {
			r, _ := q.Ask(s, asksAbout(s, &h))
			if r == nil {
				continue
			}
			h.Count = int32(len(h.Nodes)) // an older operator counted nodes that it did not list
			drop(&h, r, r)
			listed = append(listed, h.Nodes...)
		}
		out = append(out, h)
	}
	open := s.Cluster.Status.Hold
	more, _ := q.Ask(s, func(node string) bool {
		asked := open != nil && open.Reason == q.Reason && asksAbout(s, open)(node)
		return !asked && !slices.Contains(listed, node)
	})
	if grow && more != nil && len(more.Nodes) > 0 && hold.Alike(out, q.Reason, "") < hold.MostAlike {
		out = append(out, *hold.NewOfNodes(s, more))
	}
	return out
}

// asksAbout picks the nodes that a hold lists and is still about: none that another machine has taken the name of.
func asksAbout(s *cluster.Snapshot, h *v1alpha1.Hold) hold.NodeFilter {
	return func(node string) bool {
		return slices.Contains(h.Nodes, node) && noderemoval.AsksAboutMachine(h, s.MemberByName(node))
	}
}

// askTogether is for questions about all nodes at once: there is one hold.
func askTogether(s *cluster.Snapshot, holds []v1alpha1.Hold, q question, all *cluster.HoldRequest,
	grow bool) []v1alpha1.Hold {
	i := slices.IndexFunc(holds, func(h v1alpha1.Hold) bool { return h.Reason == q.Reason })
	if i < 0 {
		if grow && len(all.Nodes) > 0 {
			holds = append(holds, *hold.New(s, all))
		}
		return holds
	}
	switch h := &holds[i]; {
	case grow && holdkind.Of(q.Reason).Growth == holdkind.GrowsAnew && hold.AnotherQuestion(h, all):
		*h = *hold.New(s, all)
	case grow:
		h.Nodes, h.Count = all.Nodes[:min(len(all.Nodes), hold.MostHeldNodes)], int32(len(all.Nodes))
		if h.Count > 0 {
			h.Message, h.Resources = all.Message, all.Resources
		}
	default:
		listed, _ := q.Ask(s, func(node string) bool { return slices.Contains(h.Nodes, node) })
		drop(h, all, listed)
	}
	if holds[i].Count == 0 {
		return slices.Delete(holds, i, i+1)
	}
	return holds
}

// nobodyAsks reports whether the cluster's hold is about no node any more; whole is false where it is not about nodes.
func nobodyAsks(s *cluster.Snapshot, h *v1alpha1.Hold) (gone, whole bool) {
	ask := questionOf(h.Reason).Ask
	if ask == nil {
		return false, false
	}
	about := hold.AnyNode
	if holdkind.Of(h.Reason).Growth == holdkind.GrowsNever {
		about = asksAbout(s, h)
	}
	r, known := ask(s, about)
	return known && r == nil, true
}

// drop takes the nodes out of a hold that it is not about any more. all is what would be asked now, and listed that
// about the nodes which the hold lists; nil for none.
func drop(h *v1alpha1.Hold, all, listed *cluster.HoldRequest) {
	unlisted := int(h.Count) - len(h.Nodes)
	before := h.Nodes
	h.Nodes = slices.DeleteFunc(slices.Clone(h.Nodes), func(n string) bool { return !slices.Contains(all.Nodes, n) })
	h.Count = int32(len(h.Nodes) + min(unlisted, len(all.Nodes)-len(h.Nodes)))
	if listed != nil && unlisted == 0 && !slices.Equal(before, h.Nodes) {
		h.Message, h.Resources = listed.Message, listed.Resources
	}
	hold.Trim(h)
}

// NodeHolds are the holds of single nodes after this reconcile: those that are open, less what was answered, and new
// ones. Only troubles that need an answer become holds of nodes; others show as problems and go away by themselves.
//
// New ones begin only where mayBegin says so: in a phase that makes pools and stays, and not in the reconcile that
// answers one. Its snapshot is older than the answer, and what the human has just put right would be held again.
func NodeHolds(s *cluster.Snapshot, mayBegin bool, released *hold.Answer) []v1alpha1.Hold {
	out := []v1alpha1.Hold{}
	for _, before := range s.Cluster.Status.NodeHolds {
		h := before
		if released != nil && released.Hold.ID == h.ID {
			h = hold.Remaining(h, released.Nodes)
		}
		if h, open := pools.RefreshHold(s, h); open {
			if !slices.Equal(h.Nodes, before.Nodes) {
				h.Message = hold.Message(s, &h)
			}
			out = append(out, h)
		}
	}
	if mayBegin {
		for _, r := range pools.Questions(s, out) {
			out = pools.AddHold(s, out, r)
		}
	}
	return askAboutNodes(s, out, mayBegin, released)
}

// Narrow is what the present spec leaves of holds of nodes when it is accepted.
func Narrow(s *cluster.Snapshot, holds []v1alpha1.Hold) []v1alpha1.Hold {
	out := []v1alpha1.Hold{}
	for _, h := range holds {
		if find := questionOf(h.Reason).Left; s.Target != nil && find != nil {
			left := find(s, &h)
			if len(left) == 0 {
				continue
			}
			if gone := hold.Without(h.Nodes, left); len(gone) > 0 {
				h = hold.Remaining(h, gone)
				h.Message = hold.Message(s, &h)
			}
		}
		out = append(out, h)
	}
	return out
}
