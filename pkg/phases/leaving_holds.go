package phases

import (
	"context"
	"fmt"
	"slices"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/work"
)

// heldLeaver is whether a hold of the reason stands that names the node.
func (s *Snapshot) heldLeaver(name string, reason v1alpha1.HoldReason) bool {
	return slices.ContainsFunc(s.Cluster.Status.NodeHolds, func(h v1alpha1.Hold) bool { return h.Reason == reason && slices.Contains(h.Nodes, name) })
}

// nodeHold is the standing hold of nodes of that reason; nil if there is none.
func (s *Snapshot) nodeHold(reason v1alpha1.HoldReason) *v1alpha1.Hold {
	for i := range s.Cluster.Status.NodeHolds {
		if h := &s.Cluster.Status.NodeHolds[i]; h.Reason == reason {
			return h
		}
	}
	return nil
}

// leavingHold asks about the leaving nodes that stop for the reason. The last replica's hold stands until it is answered, and
// ends by itself only where nothing is left to ask about: the node stays, or holds no copy any more.
func leavingHold(reason v1alpha1.HoldReason) func(*Snapshot) (*HoldRequest, bool) {
	return func(s *Snapshot) (*HoldRequest, bool) {
		if !s.Linstor.Known() || s.frozen() || s.Target == nil {
			return nil, false
		}
		var r *HoldRequest
		for _, l := range s.leavers() {
			v := l.leave
			if v.Hold != reason {
				continue
			}
			if r == nil {
				r = &HoldRequest{Reason: reason, Message: fmt.Sprintf("node %s: %s", l.name, v.Message)}
			}
			r.Nodes = append(r.Nodes, l.name)
			r.Resources = append(r.Resources, v.Resources...)
		}
		if r == nil {
			return nil, true
		}
		slices.Sort(r.Resources)
		r.Resources = slices.Compact(r.Resources)
		r.Resources = r.Resources[:min(len(r.Resources), mostResources)]
		switch h := s.nodeHold(reason); {
		case reason == v1alpha1.HoldTooManyNodesLeaving:
			r.Message = fmt.Sprintf("%d of %d nodes leave at once under removalPolicy %s: %s", len(r.Nodes), len(s.Members)+len(s.Gone), s.removalPolicy(), quoteList(r.Nodes))
		case reason == v1alpha1.HoldLastReplicaAtRisk && h != nil && len(r.Resources) == 0:
			r.Message, r.Resources = h.Message, slices.Clone(h.Resources) // the question stands as it was asked
		case len(r.Nodes) > 1:
			r.Message = fmt.Sprintf("%d nodes: %s", len(r.Nodes), r.Message)
		}
		return r, true
	}
}

// keepLeaving keeps the answer that the listed nodes may leave although they are many. It is consent for exactly these: nodes
// that a long hold counts without listing them are asked about anew.
func (in *Input) keepLeaving() bool {
	return in.answerLeavers(func(l *leaver) (set map[string]string, del []string, restore bool) {
		if l.has(auxAdmitted) {
			return nil, nil, false
		}
		return map[string]string{auxAdmitted: in.Answer.Hold.ID}, nil, false
	})
}

// retryLeaving lets nodes be evacuated anew: what was begun is taken back, so that the flag shows once more whether LINSTOR has
// taken up the request.
func (in *Input) retryLeaving() bool {
	in.Tasks.Forget(leaveKey(""))
	return in.answerLeavers(func(l *leaver) (map[string]string, []string, bool) {
		var del []string
		for _, k := range []string{auxEvacuate, auxEvacuated, auxStuck} {
			if l.has(k) {
				del = append(del, k)
			}
		}
		return nil, del, l.node.HasFlag(linstor.FlagEvacuate) || l.member != nil && l.node.HasFlag(linstor.FlagEvicted)
	})
}

// answerLeavers carries an answer out on the nodes that it is for, and tells whether that is done.
func (in *Input) answerLeavers(change func(*leaver) (set map[string]string, del []string, restore bool)) bool {
	if !in.Linstor.Known() {
		return false
	}
	a := in.Answer
	nodes := a.Nodes
	if len(nodes) == 0 {
		nodes = a.Hold.Nodes
	}
	done := true
	for _, l := range in.leavers() {
		if l.node == nil || !slices.Contains(nodes, l.name) {
			continue
		}
		set, del, restore := change(l)
		if len(set)+len(del) == 0 && !restore {
			continue
		}
		done = false
		name := l.node.Name
		in.ensure(work.Task{Key: answerKey(l.name, "leave"), Input: a.Hold.ID + a.Option, Do: func(ctx context.Context) error {
			if restore {
				if n, err := in.API.Node(ctx, name); err != nil {
					return err
				} else if n.HasFlag(linstor.FlagEvacuate) || n.HasFlag(linstor.FlagEvicted) {
					if err := in.API.RestoreNode(ctx, name); err != nil {
						return err
					}
				}
			}
			if len(set)+len(del) == 0 {
				return nil
			}
			return in.API.SetNodeProperties(ctx, name, set, del)
		}})
	}
	return done
}
