package plan

import (
	"fmt"
	"slices"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/disks"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/pools"
	"github.com/linstor-dev/storagecluster-operator/pkg/plan/result"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

// Bounds of what is listed.
const (
	mostPools = 50
	mostDisks = 100
)

// pools lists the pools that the edit makes or removes, with what the same code says of each node's disks that will
// decide about them.
func (p *planner) pools() {
	for _, m := range p.after.Members {
		b := p.base.MemberByName(m.Name)
		for _, mp := range m.Pools {
			if m.Selected && mp.Have == nil && (p.wakes || !samePool(b, mp)) {
				p.addPool(m, p.onNode(m, mp))
			}
		}
		for _, old := range m.OldPools {
			same := func(o *linstor.Pool) bool { return o.Name == old.Name }
			if p.wakes || b == nil || !slices.ContainsFunc(b.OldPools, same) {
				p.addPool(m, result.Pool{Name: old.Name, Do: "remove",
					Text: "the pool is removed from LINSTOR once it has no volumes; its volume group or zpool stays on the disks"})
			}
		}
	}
}

// samePool reports whether the same is to be said of a member's pool without the edit.
func samePool(b *cluster.Member, mp *cluster.MemberPool) bool {
	if b == nil || !b.Selected {
		return false
	}
	was := b.Pool(mp.Entry.Name)
	return was != nil && was.Backing == mp.Backing && was.Step == mp.Step && was.NotWanted == mp.NotWanted &&
		(was.Problem == nil) == (mp.Problem == nil) &&
		(was.Problem == nil || was.Problem.Message == mp.Problem.Message) &&
		slices.EqualFunc(was.Devices, mp.Devices, func(a, b linstor.Device) bool { return a.Path == b.Path })
}

// addPool adds a pool on a node, to what is said already where that is the same.
func (p *planner) addPool(m *cluster.Member, np result.Pool) {
	all := p.out.Pools
	i := slices.IndexFunc(all, func(o result.Pool) bool {
		return o.Name == np.Name && o.Do == np.Do && o.Text == np.Text && slices.Equal(o.Refused, np.Refused)
	})
	switch {
	case i < 0 && len(all) >= mostPools:
		p.unlisted++
		return
	case i < 0:
		i, p.out.Pools = len(all), append(all, np)
	default:
		all[i].Disks = append(all[i].Disks, np.Disks...)
	}
	at := &p.out.Pools[i]
	at.Disks = at.Disks[:min(len(at.Disks), mostDisks)]
	at.Nodes.Count++
	if len(at.Nodes.Names) < result.MostNames {
		at.Nodes.Names = append(at.Nodes.Names, m.Name)
	}
}

// onNode is what would become of a pool that LINSTOR does not have on a member.
func (p *planner) onNode(m *cluster.Member, mp *cluster.MemberPool) result.Pool {
	out := result.Pool{Name: mp.Entry.Name, Do: "unknown"}
	view := p.after.Linstor.View
	switch {
	case view == nil:
		out.Text = "the disks are unknown: LINSTOR does not respond"
		return out
	case m.Linstor == nil:
		out.Text = "the disks are unknown: the node has not been registered in LINSTOR yet"
		return out
	case mp.Entry.Devices == nil:
		return registered(out, mp)
	case view.DevicesErr != nil:
		out.Text = "the disks are unknown: " + text.OneLine(view.DevicesErr.Error())
		return out
	case !m.Linstor.DevicesKnown && m.Online:
		out.Text = "LINSTOR does not list any of the node's disks; if its satellite has just started, check again in a " +
			"few seconds"
		return out
	case !m.Linstor.DevicesKnown:
		out.Text = "the disks are unknown: LINSTOR lists disks only for ONLINE nodes"
		return out
	}
	choice := disks.Choose(p.after, mp, m, m.Linstor.Devices)
	out.Refused = slices.Concat(choice.Refused, choice.Occupied, choice.Unseen)
	why := mp.Problem
	switch {
	case mp.Step == pools.StepDevices:
		out.Do, out.Text = "make", fmt.Sprintf("%s is created on these disks, which overwrites them", mp.Backing)
		out.Disks = disksOf(m, mp.Devices)
	case why != nil && why.Hold == v1alpha1.HoldDeviceApproval:
		out.Do = "approve"
		out.Text = fmt.Sprintf("once approved, %s is created on these disks, which overwrites them%s",
			mp.Backing, choice.LookFirst())
		out.Disks = disksOf(m, mp.Devices)
		p.asks(why.Hold, "the disks for pool "+mp.Entry.Name+" require approval")
	case why != nil:
		out.Do, out.Text = "wait", why.Message
		if why.Hold != "" {
			p.asks(why.Hold, why.Message)
		}
	case mp.NotWanted:
		out.Do, out.Text = "skip", "no empty disk matches, and the entry is optional"
	default:
		out.Text = "not known yet"
	}
	return out
}

// registered is a pool on something that is there by itself.
func registered(out result.Pool, mp *cluster.MemberPool) result.Pool {
	out.Do = "register"
	out.Text = fmt.Sprintf("the pool uses %s %s, which must already exist; LINSTOR verifies this when it registers the "+
		"pool", mp.Provider, mp.Backing)
	if mp.Problem != nil {
		out.Do, out.Text = "wait", mp.Problem.Message
	}
	return out
}

// asks adds a question to a human, one of each reason.
func (p *planner) asks(reason v1alpha1.HoldReason, message string) {
	if slices.ContainsFunc(p.out.Holds, func(h result.Hold) bool { return h.Reason == string(reason) }) {
		return
	}
	p.out.Holds = append(p.out.Holds, result.Hold{Reason: string(reason), Message: message,
		Options: options(&cluster.HoldRequest{Reason: reason})})
}

func disksOf(m *cluster.Member, devices []linstor.Device) []result.Disk {
	var out []result.Disk
	for i := range devices {
		d := &devices[i]
		out = append(out, result.Disk{Node: m.Name, Path: d.Path, Serial: d.Serial, Model: d.Model, SizeBytes: d.SizeBytes})
	}
	return out
}
