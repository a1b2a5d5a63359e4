package phases

import (
	"slices"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
)

// wholeNodeHold is a question about whole nodes, not about a pool on them. The hold follows the facts: nodes that it is no
// longer about leave it, and it ends with the last one.
type wholeNodeHold struct {
	reason v1alpha1.HoldReason
	// ask finds the nodes that the question is about now; nil if there are none. known is false while that cannot be told:
	// what stands then stays as it stood.
	ask func(s *Snapshot) (r *HoldRequest, known bool)
	// anywhere is whether the hold begins in every phase.
	anywhere bool
	// exact is whether an answer is consent for the listed nodes: a node more is another question, with an id of its own.
	exact bool
}

// wholeNodeHolds lists the questions, the most urgent first.
func wholeNodeHolds() []wholeNodeHold {
	return []wholeNodeHold{
		{reason: v1alpha1.HoldMassFailure, ask: (*Snapshot).massFailureHold, anywhere: true},
		{reason: v1alpha1.HoldTooManyNodesLeaving, ask: leavingHold(v1alpha1.HoldTooManyNodesLeaving), exact: true},
		{reason: v1alpha1.HoldLastReplicaAtRisk, ask: leavingHold(v1alpha1.HoldLastReplicaAtRisk)},
		{reason: v1alpha1.HoldEvacuationStuck, ask: leavingHold(v1alpha1.HoldEvacuationStuck)},
		{reason: v1alpha1.HoldNodeGone, ask: leavingHold(v1alpha1.HoldNodeGone), exact: true},
		{reason: v1alpha1.HoldMachineReplaced, ask: (*Snapshot).replacedHold},
	}
}

// askAboutNodes brings the holds of whole nodes in line with the facts. released is what was answered in this reconcile, whose
// snapshot is older than the answer.
func (s *Snapshot) askAboutNodes(holds []v1alpha1.Hold, mayBegin bool, released *Answer) []v1alpha1.Hold {
	for _, q := range wholeNodeHolds() {
		r, known := q.ask(s)
		if !known {
			continue
		}
		if r == nil {
			r = &HoldRequest{Reason: q.reason}
		}
		grow := released == nil && (mayBegin || q.anywhere)
		i := slices.IndexFunc(holds, func(h v1alpha1.Hold) bool { return h.Reason == q.reason })
		switch {
		case i >= 0 && q.exact && grow && anotherQuestion(&holds[i], r):
			holds[i] = *NewHold(s, r)
		case i >= 0:
			if follow(&holds[i], r, grow); holds[i].Count == 0 {
				holds = slices.Delete(holds, i, i+1)
			}
		case grow && len(r.Nodes) > 0:
			holds = append(holds, *NewHold(s, r))
		}
	}
	return holds
}

// nobodyAsks is whether the question of that reason is about no node any more; whole is false for reasons that are not about
// whole nodes.
func (s *Snapshot) nobodyAsks(reason v1alpha1.HoldReason) (gone, whole bool) {
	for _, q := range wholeNodeHolds() {
		if q.reason == reason {
			r, known := q.ask(s)
			return known && r == nil, true
		}
	}
	return false, false
}

// anotherQuestion is whether a hold would list nodes that it does not list.
func anotherQuestion(h *v1alpha1.Hold, r *HoldRequest) bool {
	if int(h.Count) > len(h.Nodes) {
		return !slices.Equal(r.Nodes[:min(len(r.Nodes), len(h.Nodes))], h.Nodes)
	}
	return slices.ContainsFunc(r.Nodes, func(n string) bool { return !slices.Contains(h.Nodes, n) })
}

// follow brings the nodes of a hold in line with those that it would be about now.
func follow(h *v1alpha1.Hold, r *HoldRequest, grow bool) {
	if grow {
		h.Nodes, h.Count = r.Nodes[:min(len(r.Nodes), mostHeldNodes)], int32(len(r.Nodes))
		if h.Count > 0 {
			h.Message, h.Resources = r.Message, r.Resources
		}
		return
	}
	all := int(h.Count) == len(h.Nodes)
	h.Nodes = slices.DeleteFunc(slices.Clone(h.Nodes), func(n string) bool { return !slices.Contains(r.Nodes, n) })
	h.Count = min(h.Count, int32(len(r.Nodes)))
	if all {
		h.Count = int32(len(h.Nodes))
	}
}
