package pools

import (
	"cmp"
	"slices"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/holdkind"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/hold"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

// mostAllDeviceBytes bounds the JSON of the disks that all holds of nodes list together.
const mostAllDeviceBytes = 16 << 10

// RefreshHold is an open hold of a pool in the light of what is known now; false if it ends. It ends when other disks
// are to be asked about, and a hold with another id follows. Nodes that no longer need an approval leave it: the pool
// is there or not wanted any more, its disks are gone, or the accepted spec says Auto, which is the user's word for
// empty disks.
func RefreshHold(s *cluster.Snapshot, h v1alpha1.Hold) (v1alpha1.Hold, bool) {
	if h.Pool == "" {
		return h, h.Count > 0
	}
	if h.Count == 0 || s.Target != nil && cluster.PoolEntry(s.Target.Spec, h.Pool) == nil {
		return h, false
	}
	if s.Target == nil || !s.Linstor.Known() {
		return h, true
	}
	var gone []string
	for _, node := range h.Nodes {
		asked, same := stillAsked(s, &h, node)
		if !same {
			return h, false
		}
		if !asked {
			gone = append(gone, node)
		}
	}
	if len(gone) > 0 {
		h = hold.Remaining(h, gone)
	}
	return h, h.Count > 0 && len(h.Nodes) > 0
}

// stillAsked reports whether a hold still asks about a node, and whether it is about the same disks there.
func stillAsked(s *cluster.Snapshot, h *v1alpha1.Hold, node string) (asked, same bool) {
	approval := h.Reason == v1alpha1.HoldDeviceApproval
	m := s.MemberByName(node)
	switch away := m == nil || !m.Selected; {
	case away && !approval:
		return true, true // it may come back with what is on its disks
	case away, m.Pool(h.Pool) == nil, approval && m.Pool(h.Pool).Have != nil:
		return false, true
	case s.Linstor.View.DevicesErr != nil, outOfSight(m, m.Pool(h.Pool)):
		return true, true
	}
	p := m.Pool(h.Pool)
	if p.Problem == nil || p.Problem.Reason != string(h.Reason) {
		return !approval, true
	}
	return true, !holdkind.Of(h.Reason).ListsDisks || consentTo(p.Spare) == consentTo(devicesOf(h, node))
}

// outOfSight reports whether it cannot be told what is on the disks that a pool is to be made from, as while the
// member's satellite restarts: LINSTOR does not list them then, and who looked at them is gone with the pod.
func outOfSight(m *cluster.Member, p *cluster.MemberPool) bool {
	return m.Linstor == nil || !m.Linstor.DevicesKnown || p.Entry.Devices != nil && !m.Disks.Known
}

// awaitsApproval finds members that nothing but a human's word keeps from their pools. A question that is open stays
// one while its disks are out of sight.
func awaitsApproval(s *cluster.Snapshot) func(*cluster.Member) bool {
	asked := func(m *cluster.Member, p *cluster.MemberPool) bool {
		return slices.ContainsFunc(s.Cluster.Status.NodeHolds, func(h v1alpha1.Hold) bool {
			return h.Reason == v1alpha1.HoldDeviceApproval && h.Pool == p.Entry.Name && slices.Contains(h.Nodes, m.Name)
		}) && s.Linstor.View.DevicesErr == nil && outOfSight(m, p)
	}
	return func(m *cluster.Member) bool {
		waits := false
		for _, p := range m.Pools {
			switch {
			case p.Ready || p.NotWanted:
			case p.Problem != nil && p.Problem.Hold == v1alpha1.HoldDeviceApproval, m.RegisteredOK && asked(m, p):
				waits = true
			default:
				return false
			}
		}
		return waits && m.RegisteredOK
	}
}

// OnlyApprovalLacks reports whether all members have their pools but for disks that wait for approval.
func OnlyApprovalLacks(s *cluster.Snapshot) bool {
	awaits := awaitsApproval(s)
	lacks := func(m *cluster.Member) bool { return !m.PoolsOK && !awaits(m) }
	return s.Count(awaits) > 0 && s.Count(lacks) == 0
}

// Questions asks about the pools of members that nothing else stops, as far as no open hold asks already.
func Questions(s *cluster.Snapshot, open []v1alpha1.Hold) []*cluster.HoldRequest {
	type key struct {
		reason v1alpha1.HoldReason
		pool   string
	}
	groups := map[key][]*cluster.Member{}
	var order []key
	for _, m := range s.Members {
		if !m.RegisteredOK || !m.Selected {
			continue
		}
		for _, pool := range m.Pools {
			p := pool.Problem
			if p == nil || holdkind.Of(p.Hold).Scope != holdkind.ScopePool || cluster.HeldBy(open, m, p.Pool) {
				continue
			}
			k := key{p.Hold, p.Pool}
			if groups[k] == nil {
				order = append(order, k)
			}
			groups[k] = append(groups[k], m)
		}
	}
	var out []*cluster.HoldRequest
	for _, k := range order {
		if r := hold.Group(s, k.reason, k.pool, groups[k]); len(r.Nodes) > 0 {
			out = append(out, r)
		}
	}
	return out
}

// AddHold opens a hold if there is room for it. A hold that is open already never takes in further nodes: who answers
// it has not seen them.
func AddHold(s *cluster.Snapshot, holds []v1alpha1.Hold, r *cluster.HoldRequest) []v1alpha1.Hold {
	bytes := text.JSONBytes(r.Devices)
	for i := range holds {
		bytes += text.JSONBytes(holds[i].Devices)
	}
	if len(holds) >= hold.MostNodeHolds || hold.Alike(holds, r.Reason, r.Pool) >= hold.MostAlike ||
		len(r.Devices) > 0 && bytes > mostAllDeviceBytes {
		return holds // shown as problems; held as soon as there is room
	}
	holds = append(holds, *hold.NewOfNodes(s, r))
	slices.SortStableFunc(holds, func(a, b v1alpha1.Hold) int { return cmp.Compare(a.Since.Unix(), b.Since.Unix()) })
	return holds
}
