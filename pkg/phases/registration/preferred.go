package registration

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/remembered"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

// reasonPreferredUnreachable is the reason where DRBD does not come to its peers over an interface.
const reasonPreferredUnreachable = "PreferredInterfaceUnreachable"

// preferred is the interface that the spec prefers on a member, out of those that it has or keeps; "" for none.
func preferred(s *cluster.Facts, m *cluster.Member, want []linstor.Interface) string {
	for _, i := range s.Target.Spec.Nodes.Interfaces {
		kept := m.Linstor != nil && keeps(m, i.Name) && m.Linstor.Interface(i.Name) != nil
		if i.Preferred && (kept || slices.ContainsFunc(want, func(w linstor.Interface) bool { return w.Name == i.Name })) {
			return i.Name
		}
	}
	return ""
}

// JudgePreferences finds out which node may change its preferred interface now.
func JudgePreferences(s *cluster.Snapshot) {
	v := s.Linstor.View
	if v == nil || v.Volumes == 0 { // nothing replicates yet
		return
	}
	p := &s.Preferences
	p.Pending = s.Where(func(m *cluster.Member) bool {
		want := WantedInterfaces(m)
		return m.Linstor != nil && len(want) > 0 && preferred(&s.Facts, m, want) != m.Property(PropPrefNic)
	})
	if len(p.Pending) == 0 {
		return
	}
	var first *cluster.Member
	for _, m := range p.Pending {
		if why := unable(s, m); why != "" {
			p.Unable = append(p.Unable, fmt.Sprintf("%s (%s)", m.Name, why))
		} else if first == nil {
			first = m
		}
	}
	if !v.ResourcesKnown {
		if first != nil { // else the connections matter for no one
			p.Waiting = "the state of the DRBD connections is not known yet"
		}
		return
	}
	if s.Connecting() { // a connection that is down would look like that of a node which is down
		p.Waiting = "LINSTOR is connecting to its satellites"
		return
	}
	for _, m := range s.Members {
		if at := preferredSince(m); !at.IsZero() && s.Now.Sub(at) < s.Timing.LinkSettled {
			p.Waiting, p.Settling = fmt.Sprintf("DRBD on %s is connecting over its new interface", m.Name), true
			return
		}
	}
	judgeLinks(s, p, first)
}

// unable says why nothing is written to LINSTOR for a member now, or would be refused; "" if it can be changed.
// A machine that is dead for good must not keep all others from their change.
func unable(s *cluster.Snapshot, m *cluster.Member) string {
	switch {
	case m.Replaced:
		return "its machine has been replaced"
	case m.AddressTaken != nil:
		return "LINSTOR has recorded its address for another node"
	case !m.Online:
		return "LINSTOR reports it as " + m.Linstor.Status
	case !m.NodeReady:
		return "its Node is not Ready"
	case m.Restarting || !m.PodReady || !s.RightVersion(m):
		return "its satellite is not ready"
	}
	st := s.TaskStates[step.NodeKey(m)]
	if st.Err == nil {
		return "" // nothing was refused; what would be registered need not be made up
	}
	if r := registrationWith(s, m, m); step.RefusalOver(&s.Facts, st, r.Digest()) {
		return ""
	}
	return "LINSTOR rejects the change: " + text.OneLine(st.Err.Error())
}

// judgeLinks lets the next node change if all connections are up. Of a connection that is down, the side that was
// changed last is to blame: that one may change back, and else all others wait.
func judgeLinks(s *cluster.Snapshot, p *cluster.Preferences, first *cluster.Member) {
	p.Next = first
	for i := range s.Linstor.View.Resources {
		r := &s.Linstor.View.Resources[i]
		for _, peer := range slices.Sorted(maps.Keys(r.Connected)) {
			a, b := s.MemberByName(r.Node), s.MemberByName(peer)
			if r.Connected[peer] || a == nil || b == nil || !a.Reachable() || !b.Reachable() {
				continue
			}
			if preferredSince(b).After(preferredSince(a)) {
				a, b = b, a
			}
			changed := !preferredSince(a).IsZero()
			switch {
			case changed && slices.Contains(p.Pending, a) && unable(s, a) == "":
				p.Next, p.Waiting, p.Trouble = a, "", nil // the way back
				return
			case changed && p.Trouble == nil:
				p.Next, p.Trouble, p.Volume, p.Missing = nil, a, r.Name, b.Name
				p.Waiting = a.Name + " has been disconnected since its interface was changed"
			case p.Next != nil:
				p.Next, p.Waiting = nil, fmt.Sprintf("DRBD on %s is not connected to %s (volume %s)", a.Name, b.Name, r.Name)
			}
		}
	}
}

func preferredSince(m *cluster.Member) time.Time {
	return remembered.Time(m.Property(remembered.PreferredSince))
}

// setPreferred adds the properties of the preferred interface: the wanted one if it may change now.
func setPreferred(s *cluster.Snapshot, m, next *cluster.Member, want []linstor.Interface, props map[string]string) {
	name := preferred(&s.Facts, m, want)
	have, since := m.Property(PropPrefNic), m.Property(remembered.PreferredSince)
	switch {
	case name == have, m.Linstor == nil:
	case !slices.Contains(s.Preferences.Pending, m): // it replicates nothing
	case m == next:
		since = remembered.Stamp(s.Now.Truncate(max(s.Timing.LinkSettled/3, time.Second)))
	default:
		name = have
	}
	if name != "" {
		props[PropPrefNic] = name
	}
	if since != "" {
		props[remembered.PreferredSince] = since
	}
}

// movesLinks reports whether the node's DRBD connections would move without its turn: no volume was seen.
func (r *Registration) movesLinks() bool {
	_, set := r.Props.Set[PropPrefNic]
	_, noted := r.Props.Set[remembered.PreferredSince]
	return !noted && (set || slices.Contains(r.Props.Delete, PropPrefNic))
}

// replicatesNothing is nil if LINSTOR has no copy of a volume on the node. It looks past the view, right before the
// write: volumes that were made since would lose their connections on all nodes at once.
func replicatesNothing(ctx context.Context, in *step.Input, node string) error {
	switch held, err := in.API.Resources(ctx, linstor.ResourceQuery{Nodes: []string{node}}); {
	case err != nil:
		return fmt.Errorf("check for volumes on node %s before changing its preferred interface: %w", node, err)
	case len(held) > 0:
		return fmt.Errorf("%w: node %s has volumes", step.ErrOutdated, node)
	default:
		return nil
	}
}

// PreferencesMessage says how far the change is, as the end of a message; "" if none is going on.
func PreferencesMessage(s *cluster.Snapshot) string {
	p := &s.Preferences
	if len(p.Pending) == 0 {
		return ""
	}
	message := "; the preferred interface still needs to be changed on " + text.NodesOf(len(p.Pending))
	if len(p.Pending) > 1 {
		message += ", one at a time"
	}
	if len(p.Unable) > 0 {
		message += ", but cannot be changed now on " + text.ListSome(p.Unable)
	}
	if p.Waiting != "" {
		message += ": waiting because " + p.Waiting
	}
	return message
}

// PreferredProblem is that of a member that is cut off since its preferred interface was changed; nil if it is not.
func PreferredProblem(s *cluster.Snapshot, m *cluster.Member) *cluster.Problem {
	p := &s.Preferences
	if p.Trouble != m || m == nil {
		return nil
	}
	over := "its own address"
	if nic := m.Property(PropPrefNic); nic != "" {
		over = "interface " + nic
		if i := m.Linstor.Interface(nic); i != nil {
			over += " (" + i.Address + ")"
		}
	}
	return &cluster.Problem{Reason: reasonPreferredUnreachable,
		Message: fmt.Sprintf("DRBD now replicates over %s, but volume %s is not connected to %s; the other nodes keep "+
			"their interfaces. Connect the two networks, or revert `preferred` in spec.nodes.interfaces",
			over, p.Volume, p.Missing)}
}

// ChangesPreferred reports whether the last view shows a node whose preferred interface is another than the spec's and
// can be changed, so that DRBD's connections matter. One that is not online may stay so for ever.
func ChangesPreferred(s *cluster.Facts, last *linstor.View) bool {
	if last.Volumes == 0 {
		return false
	}
	wanted := ""
	for _, i := range s.NodesSpec().Interfaces {
		if i.Preferred {
			wanted = i.Name
		}
	}
	for _, n := range last.Nodes {
		have := n.Properties[PropPrefNic]
		there := wanted != "" && n.Interface(wanted) != nil
		if n.Properties[linstor.PropNodeUID] != "" && n.Online() &&
			(have != "" && !strings.EqualFold(have, wanted) || have == "" && there) {
			return true
		}
	}
	return false
}
