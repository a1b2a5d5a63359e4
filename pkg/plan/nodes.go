package plan

import (
	"fmt"
	"maps"
	"slices"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/selection"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/leaving"
	"github.com/linstor-dev/storagecluster-operator/pkg/plan/result"
)

// joins says what becomes of nodes that are picked; back of those that were about to leave.
const (
	joins = "they get the DRBD module, a satellite and their pools, and are registered in LINSTOR"
	back  = "their removal is canceled; replicas that have already been moved stay where they are"
)

// nodes lists those that would join or leave, and those that leave in another way than without the edit.
func (p *planner) nodes() {
	join := map[string][]string{}
	for _, m := range p.after.Members {
		switch b := p.base.MemberByName(m.Name); {
		case !m.Selected || p.was(m, b):
		case b != nil && b.Leave != nil && m.Linstor != nil:
			join[back] = append(join[back], m.Name)
		default:
			join[joins] = append(join[joins], m.Name)
		}
	}
	p.listNodes("join", join, nil)
	p.leavers()
}

// was reports whether a member is one without the edit, too.
func (p *planner) was(m, before *cluster.Member) bool {
	if p.out.Of == result.Creation || before == nil || !before.Selected {
		return false
	}
	return !p.wakes || m.Linstor != nil || !p.after.Linstor.Known() // a node that came meanwhile was not taken in
}

// leavers lists the nodes that leave with the edit, where the same is not to be said of them without it.
func (p *planner) leavers() {
	was := map[string]*cluster.Leave{}
	if !p.wakes {
		for _, l := range leaving.AllLeavers(p.base) {
			was[l.Name] = l.Leave
		}
	}
	policy, old := p.after.RemovalPolicy(), p.base.RemovalPolicy()
	leave, differ, first := map[string][]string{}, map[string][]string{}, map[string]string{}
	for _, l := range leaving.AllLeavers(p.after) {
		b := was[l.Name]
		switch {
		case l.Leave == nil || b != nil && policy == old && sameLeave(b, l.Leave):
			continue
		case b == nil:
			how := p.whyLeaves(l) + "; " + departures[policy]
			leave[how] = append(leave[how], l.Name)
		default:
			how := "they are already being removed; " + departures[policy]
			if state := string(l.Leave.State); policy == old {
				how += "; " + state
			}
			differ[how] = append(differ[how], l.Name)
			if len(differ[how]) == 1 && l.Leave.Message != "" { // there may be as many messages as nodes
				first[how] = fmt.Sprintf("; %s: %s", l.Name, l.Leave.Message)
			}
		}
		if l.Leave.Hold != "" && (b == nil || b.Hold != l.Leave.Hold) {
			p.asks(l.Leave.Hold, l.Leave.Message)
		}
	}
	p.listNodes("leave", leave, nil)
	p.listNodes("leave differently", differ, first)
}

// whyLeaves says why a node leaves.
func (p *planner) whyLeaves(l *cluster.Leaver) string {
	if l.Member == nil {
		return "its Node object no longer exists"
	}
	return selection.Cause(&p.after.Facts, l)
}

// sameLeave reports whether the same is done for a node that leaves.
func sameLeave(a, b *cluster.Leave) bool {
	return a.State == b.State && a.Step == b.Step && a.Hold == b.Hold && a.Message == b.Message
}

// listNodes adds nodes by what becomes of them, with what is said of the first of each.
func (p *planner) listNodes(do string, by map[string][]string, first map[string]string) {
	for _, how := range slices.Sorted(maps.Keys(by)) {
		p.out.Nodes = append(p.out.Nodes, result.NodeChange{Names: result.Of(by[how]), Do: do, How: how + first[how]})
	}
}

// departures say what becomes of nodes that leave.
var departures = map[v1alpha1.NodeRemovalPolicy]string{
	v1alpha1.NodesRetain: "removalPolicy Retain: their satellites, registrations and data remain; LINSTOR places " +
		"nothing new on them",
	v1alpha1.NodesEvacuate: "removalPolicy Evacuate: LINSTOR recreates their replicas on other nodes; then they are " +
		"removed from LINSTOR",
	v1alpha1.NodesRemove: "removalPolicy Remove: they are removed from LINSTOR once they have no data",
}
