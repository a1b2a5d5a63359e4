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
					Text: "from LINSTOR, once no volume is in it; its volume group or zpool stays on the disks"})
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
		out.Text = "LINSTOR does not answer, so that nobody knows the disks"
		return out
	case m.Linstor == nil:
		out.Text = "LINSTOR does not have the node yet, so that nobody knows its disks"
		return out
	case mp.Entry.Devices == nil:
		return registered(out, mp)
	case view.DevicesErr != nil:
		out.Text = "the disks are not known: " + text.OneLine(view.DevicesErr.Error())
		return out
	case !m.Linstor.DevicesKnown && m.Online:
		out.Text = "LINSTOR lists no disk of the node, whose satellite may have just started: look again in a few seconds"
		return out
	case !m.Linstor.DevicesKnown:
		out.Text = "LINSTOR lists the disks of no node that is not ONLINE"
		return out
	}
	choice := disks.Choose(p.after, mp, m, m.Linstor.Devices)
	out.Refused = slices.Concat(choice.Refused, choice.Occupied, choice.Unseen)
	why := mp.Problem
	switch {
	case mp.Step == pools.StepDevices:
		out.Do, out.Text = "make", fmt.Sprintf("%s is made from these disks, which are overwritten", mp.Backing)
		out.Disks = disksOf(m, mp.Devices)
	case why != nil && why.Hold == v1alpha1.HoldDeviceApproval:
		out.Do = "approve"
		out.Text = fmt.Sprintf("%s is made from these disks once somebody has approved that they are overwritten%s",
			mp.Backing, choice.LookFirst())
		out.Disks = disksOf(m, mp.Devices)
		p.asks(why.Hold, "disks of pool "+mp.Entry.Name+" wait for approval")
	case why != nil:
		out.Do, out.Text = "wait", why.Message
		if why.Hold != "" {
			p.asks(why.Hold, why.Message)
		}
	case mp.NotWanted:
		out.Do, out.Text = "skip", "no disk matches that is empty, and the entry is optional"
	default:
		out.Text = "nobody knows yet"
	}
	return out
}

// registered is a pool on something that is there by itself.
func registered(out result.Pool, mp *cluster.MemberPool) result.Pool {
	out.Do = "register"
	out.Text = fmt.Sprintf("on %s %s, which must be there already: whether it is shows when LINSTOR tries", mp.Provider,
		mp.Backing)
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
