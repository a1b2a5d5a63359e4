package disklist

import (
	"fmt"
	"slices"
	"strings"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/disks"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/pools"
	"github.com/linstor-dev/storagecluster-operator/pkg/plan/result"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

// node is a member while its disks are judged.
type node struct {
	s *cluster.Snapshot
	m *cluster.Member
	// listed is true if LINSTOR has listed the node's empty disks.
	listed bool
	// choices are what was chosen for each pool that is made from disks, by entry; empty if LINSTOR has listed none.
	choices map[string]*disks.Choice
	// said are the entries that some disk's sentence is about.
	said map[string]bool
}

func onNode(s *cluster.Snapshot, m *cluster.Member) result.NodeDisks {
	n := &node{s: s, m: m, choices: map[string]*disks.Choice{}, said: map[string]bool{}}
	n.listed = m.Linstor != nil && m.Linstor.DevicesKnown && s.Linstor.View.DevicesErr == nil
	for _, p := range m.Pools {
		if n.listed && p.Entry.Devices != nil {
			n.choices[p.Entry.Name] = disks.Choose(s, p, m, m.Linstor.Devices)
		}
	}
	out := result.NodeDisks{Name: m.Name, Unknown: n.unknown()}
	for _, d := range disks.All(m) {
		fate := n.judge(&d)
		fate.Path, fate.SizeBytes, fate.Model, fate.Serial, fate.WWN = d.Path, d.SizeBytes, d.Model, d.Serial, d.WWN
		fate.Type = kind(&d)
		out.Disks = append(out.Disks, fate)
	}
	out.Notes = n.notes()
	return out
}

func kind(d *disks.Seen) string {
	switch {
	case d.Noted:
		return ""
	case strings.HasPrefix(d.Path, "/dev/nvme"):
		return "NVMe"
	case d.Rotational:
		return "HDD"
	default:
		return "SSD"
	}
}

// unknown says what could not be looked at.
func (n *node) unknown() []string {
	var out []string
	m, view := n.m, n.s.Linstor.View
	switch {
	case view == nil:
		out = append(out, "it is unknown which disks are empty: LINSTOR does not respond")
	case m.Linstor == nil:
		out = append(out, "it is unknown which disks are empty: the node has not been registered in LINSTOR yet")
	case view.DevicesErr != nil:
		out = append(out, "LINSTOR cannot list the node's disks")
	case !m.Linstor.DevicesKnown && m.Online:
		out = append(out, "LINSTOR does not list any of the node's disks as empty; if its satellite has just started, "+
			"check again in a few seconds")
	case !m.Linstor.DevicesKnown:
		out = append(out, fmt.Sprintf("the node is %s in LINSTOR, which lists disks only for ONLINE nodes",
			m.Linstor.Status))
	}
	switch more := m.Disks.Count - len(m.Disks.List); {
	case m.SatellitePod == nil:
		out = append(out, "no satellite is running on the node")
	case !m.Disks.Known:
		out = append(out, "the satellite has not yet reported the contents of the node's disks")
	case more > 0:
		out = append(out, "the satellite's report omits "+text.Amount(more, "disk", "disks")+
			"; of these, only disks that LINSTOR lists as empty, or that a pool was created from, are shown")
	}
	return out
}

// notes say what keeps the node from its pools, as far as no disk says it.
func (n *node) notes() []string {
	var out []string
	switch p := n.m.Problem; {
	case !n.m.Selected:
		out = append(out, "spec.nodes no longer selects the node: no pools are created on it")
	case p != nil && p.Pool == "" && p.Message != "":
		out = append(out, p.Reason+": "+p.Message)
	}
	for _, p := range n.m.Pools {
		if p.Problem != nil && !n.said[p.Entry.Name] && p.Problem.Message != "" {
			out = append(out, p.Problem.Message)
		}
	}
	return out
}

// judge says what becomes of a disk. The first pool that takes it counts, as for the operator: two that match the same
// disk are a conflict.
func (n *node) judge(d *disks.Seen) result.NodeDisk {
	if in := disks.PoolsOn(n.m, &d.Disk); len(in) > 0 {
		return n.inPool(in, d)
	}
	var matching *result.NodeDisk
	var told, problems []string
	for _, p := range n.m.Pools {
		if p.Entry.Devices == nil {
			continue
		}
		fate := n.forPool(p, d)
		if fate == nil {
			continue
		}
		told = append(told, p.Entry.Name)
		if fate.Pool = p.Entry.Name; fate.Fate == result.BecomesPool || fate.Fate == result.NeedsAnswer {
			n.said[fate.Pool] = true // of the others nothing is said here
			return *fate
		}
		switch same := p.Problem != nil && slices.Contains(problems, p.Problem.Message); {
		case matching == nil:
			matching = fate
		case same:
			matching.Text += "; also matches " + fate.Pool
		default:
			matching.Text += "; " + fate.Text
		}
		if p.Problem != nil {
			problems = append(problems, p.Problem.Message)
		}
	}
	if matching != nil {
		for _, pool := range told {
			n.said[pool] = true
		}
		return *matching
	}
	return n.unmatched(d)
}

// inPool is said of a disk that these pools of LINSTOR are on, and of what is wrong with them.
func (n *node) inPool(names []string, d *disks.Seen) result.NodeDisk {
	out := result.NodeDisk{Fate: result.InPool, Pool: names[0],
		Text: "is in pool " + strings.Join(names, " and in pool ")}
	if d.Noted {
		out.Text = "pool " + strings.Join(names, " and pool ") + " was created from this disk; the satellite has not " +
			"reported it since then"
	}
	for _, p := range n.m.Pools {
		if p.Have != nil && slices.Contains(names, p.Have.Name) && p.Problem != nil && p.Problem.Message != "" {
			out.Fate, out.Text = result.NotUsed, out.Text+", but "+plain(p)
			n.said[p.Entry.Name] = true
		}
	}
	return out
}

// forPool says what the pool's entry makes of the disk; nil if it does not match.
func (n *node) forPool(p *cluster.MemberPool, d *disks.Seen) *result.NodeDisk {
	if out := n.planned(p, d); out != nil {
		return out
	}
	if !disks.Matches(p.Entry.Devices, &d.Device) {
		return nil
	}
	out := &result.NodeDisk{Fate: result.NotUsed, Text: "matches " + p.Entry.Name + ", "}
	switch v := n.verdict(p, d); {
	case v == nil:
		out.Fate = result.Unknown
		out.Text += "but it is unknown whether it is empty"
	case v.Fitness != disks.Fit:
		out.Text += "but " + v.Why
	default:
		out.Text += unused(p)
	}
	return out
}

// planned says what is about to be done with the disk for the pool, or is asked; nil for nothing.
func (n *node) planned(p *cluster.MemberPool, d *disks.Seen) *result.NodeDisk {
	entry := p.Entry.Name
	will := func(fate result.Fate, format string, args ...any) *result.NodeDisk {
		return &result.NodeDisk{Fate: fate, Text: fmt.Sprintf(format, args...)}
	}
	spare := n.taken(p.Spare, d)
	switch {
	case p.Step == pools.StepDevices && n.taken(p.Devices, d):
		if hold := n.hold(entry); hold != "" {
			return will(result.NeedsAnswer, "becomes part of pool %s once hold %s is resumed", entry, hold)
		}
		return will(result.BecomesPool, "becomes part of pool %s%s", entry, failed(p, "; the last attempt failed: "))
	case spare && p.Step == pools.StepRecreate:
		return will(result.BecomesPool, "will replace the lost storage of pool %s, as approved", entry)
	case spare && asks(p):
		return will(result.NeedsAnswer, "%s", n.asked(p))
	case n.begun(p, d) && p.Problem != nil:
		return will(result.NotUsed, "is being used for pool %s, which has not been created yet: %s", entry, plain(p))
	case n.begun(p, d):
		return will(result.BecomesPool, "is being used for pool %s, which has not been created yet", entry)
	default:
		return nil
	}
}

// begun reports whether the operator has begun to make the pool from the disk.
func (n *node) begun(p *cluster.MemberPool, d *disks.Seen) bool {
	return n.m.Linstor != nil && p.Have == nil && !p.Skipped && disks.Intended(disks.Intent(n.m, p), &d.Device)
}

// asks reports whether a human is asked about the pool's spare disks. Another problem, such as two entries that claim
// one disk, hides that question.
func asks(p *cluster.MemberPool) bool {
	return p.Problem != nil && slices.Contains([]string{string(v1alpha1.HoldDeviceApproval),
		string(v1alpha1.HoldPoolBackendLost)}, p.Problem.Reason)
}

// hold is the id of an open hold that keeps the operator from making a pool on the node; "" for none. An edit may end
// one.
func (n *node) hold(entry string) string {
	if !n.s.HeldPool(n.m, entry) {
		return ""
	}
	st := &n.s.Cluster.Status
	for _, h := range st.NodeHolds {
		if now, open := pools.RefreshHold(n.s, h); open && h.Pool == entry && slices.Contains(now.Nodes, n.m.Name) {
			return h.ID
		}
	}
	if st.Hold != nil && st.Hold.Pool == entry {
		return st.Hold.ID
	}
	return ""
}

func (n *node) taken(by []linstor.Device, d *disks.Seen) bool {
	return d.Empty && slices.ContainsFunc(by, func(o linstor.Device) bool {
		return o.Path == d.Path && disks.SameDevice(&o, &d.Device)
	})
}

// verdict is what was found of a disk that the pool's entry matches; nil where nobody knows.
func (n *node) verdict(p *cluster.MemberPool, d *disks.Seen) *disks.Verdict {
	if c := n.choices[p.Entry.Name]; c != nil {
		return c.Of(&d.Device)
	}
	if v := disks.JudgeUnlisted(&d.Disk); v.Fitness == disks.Occupied {
		return &v
	}
	return nil
}

// unused says why a pool is not made from a disk that could be used for it.
func unused(p *cluster.MemberPool) string {
	switch {
	case p.Have != nil:
		return "which the node already has: no disks are added to an existing pool"
	case p.Skipped:
		return "which was skipped on this node (option skip)"
	case p.Problem != nil:
		return "but " + plain(p)
	default:
		return "but the pool is not being created at the moment"
	}
}

// failed is what a pool's problem says, after some words; "" if it has none.
func failed(p *cluster.MemberPool, before string) string {
	if p.Problem == nil {
		return ""
	}
	return before + plain(p)
}

// plain is the message of a pool's problem, without the words that say which pool it is about.
func plain(p *cluster.MemberPool) string {
	return strings.TrimPrefix(p.Problem.Message, "pool "+p.Entry.Name+": ")
}

// asked says of which question a disk is part.
func (n *node) asked(p *cluster.MemberPool) string {
	out := "becomes part of pool " + p.Entry.Name + " once approved"
	if p.Have != nil {
		out = "can replace the lost storage of pool " + p.Entry.Name + " once approved (option recreate)"
	}
	if p.Problem.Hold == "" && p.Have == nil {
		return out + ": " + plain(p) // more disks than a hold can list
	}
	if id := n.hold(p.Entry.Name); id != "" {
		out += " (hold " + id + ")"
	}
	if c := n.choices[p.Entry.Name]; c != nil {
		out += c.LookFirst()
	}
	return out
}

// unmatched is said of a disk that no entry of the node matches.
func (n *node) unmatched(d *disks.Seen) result.NodeDisk {
	out := result.NodeDisk{Fate: result.NoMatch, Text: "is empty"}
	if d.Empty {
		switch v := disks.JudgeEmpty(n.s, n.m, &d.Device); {
		case v.Fitness == disks.Unseen:
			out = result.NodeDisk{Fate: result.Unknown, Text: v.Why}
		case v.Fitness != disks.Fit:
			return result.NodeDisk{Fate: result.InUse, Text: v.Why}
		}
	} else {
		switch v := disks.JudgeUnlisted(&d.Disk); {
		case v.Fitness == disks.Vanished && !n.listed:
			out = result.NodeDisk{Fate: result.Unknown, Text: "was empty when the satellite started"}
		case !d.Seen && d.Signature == "":
			out = result.NodeDisk{Fate: result.Unknown, Text: v.Why}
		default:
			return result.NodeDisk{Fate: result.InUse, Text: v.Why}
		}
	}
	if why := n.mismatches(d); len(why) > 0 {
		out.Text += "; no entry matches it: " + strings.Join(why, "; ")
	} else {
		out.Text += "; no entry of spec.storagePools has devices"
	}
	return out
}

// mismatches say of each entry with devices why it does not take the disk.
func (n *node) mismatches(d *disks.Seen) (why []string) {
	for i := range n.s.Target.Spec.StoragePools {
		e := &n.s.Target.Spec.StoragePools[i]
		switch {
		case e.Devices == nil:
		case n.m.Pool(e.Name) == nil && disks.Matches(e.Devices, &d.Device):
			why = append(why, e.Name+" excludes the node (nodeSelector, nodeAffinity)")
		default:
			why = append(why, fmt.Sprintf("for %s, %s", e.Name, disks.Mismatch(e.Devices, &d.Device)))
		}
	}
	return why
}
