package pools

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/holdkind"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/disks"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/hold"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/remembered"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

// mostAllDeviceBytes bounds the JSON of the disks that all holds of nodes list together.
const mostAllDeviceBytes = 16 << 10

// consentTo is the text of a consent to these disks. A disk that is known by its path alone is named with its size:
// after a reboot the path may be another disk's.
func consentTo(ds []linstor.Device) string {
	return disks.JoinSorted(ds, func(d *linstor.Device) string {
		if d.Serial == "" && d.WWN == "" {
			return fmt.Sprintf("%s;%d", disks.Identity(d), d.SizeBytes)
		}
		return disks.Identity(d)
	})
}

// consents are the member's properties that keep consents for an entry.
func consents(m *cluster.Member, entry string) []string {
	keys := []string{remembered.PoolApprove + entry, remembered.PoolRecreate + entry}
	return slices.DeleteFunc(keys, func(key string) bool {
		return m.Linstor == nil || m.Linstor.Properties[key] == ""
	})
}

// consented reports whether a human agreed to make the entry's pool from exactly these disks.
func consented(m *cluster.Member, entry string, ds []linstor.Device) bool {
	consent := consentTo(ds)
	return consent != "" && slices.ContainsFunc(consents(m, entry), func(key string) bool {
		return m.Linstor.Properties[key] == consent
	})
}

func deviceNames(ds []linstor.Device) string { return text.QuoteList(disks.Map(ds, disks.Name)) }

// devicesOf are the disks that a hold lists for a node.
func devicesOf(h *v1alpha1.Hold, node string) []linstor.Device {
	var out []linstor.Device
	for _, d := range h.Devices {
		if d.Node == node {
			out = append(out, linstor.Device{Path: d.Path, Serial: d.Serial, WWN: d.WWN, SizeBytes: d.Size.Value()})
		}
	}
	return out
}

// KeepConsent keeps the answers approve (prefix remembered.PoolApprove) and recreate (remembered.PoolRecreate): it
// writes the disks that the hold lists for a node, as consentTo names them, to a property of that node in LINSTOR. It
// reports whether all is stored.
func KeepConsent(in *step.Input, prefix string) bool {
	h := in.Answer.Hold
	stored := in.KeepOnNodes(h.Pool, func(m *cluster.Member) (set map[string]string, del []string) {
		key, consent := prefix+h.Pool, consentTo(devicesOf(h, m.Name))
		if consent == "" || m.Linstor.Properties[key] == consent {
			return nil, nil
		}
		return map[string]string{key: consent}, nil
	})
	if stored {
		in.Tasks.Forget("pool/") // what was refused before the answer is tried anew
	}
	return stored
}

// DropConsents takes back what an earlier answer to such a hold allowed: who says retry now has not said yes.
func DropConsents(in *step.Input) bool {
	pool := in.Answer.Hold.Pool
	return in.KeepOnNodes(pool, func(m *cluster.Member) (map[string]string, []string) { return nil, consents(m, pool) })
}

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
	case m.Linstor == nil, !m.Linstor.DevicesKnown, s.Linstor.View.DevicesErr != nil:
		return true, true
	}
	p := m.Pool(h.Pool)
	if p.Problem == nil || p.Problem.Reason != string(h.Reason) {
		return !approval, true
	}
	return true, !holdkind.Of(h.Reason).ListsDisks || consentTo(p.Spare) == consentTo(devicesOf(h, node))
}

// awaitsApproval reports whether nothing but a human's word keeps the member from its pools.
func awaitsApproval(m *cluster.Member) bool {
	waits := false
	for _, p := range m.Pools {
		switch {
		case p.Ready || p.NotWanted:
		case p.Problem != nil && p.Problem.Hold == v1alpha1.HoldDeviceApproval:
			waits = true
		default:
			return false
		}
	}
	return waits && m.RegisteredOK
}

// OnlyApprovalLacks reports whether all members have their pools but for disks that wait for approval.
func OnlyApprovalLacks(s *cluster.Snapshot) bool {
	lacks := func(m *cluster.Member) bool { return !m.PoolsOK && !awaitsApproval(m) }
	return s.Count(awaitsApproval) > 0 && s.Count(lacks) == 0
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
