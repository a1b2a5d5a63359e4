// Package copies judges the replicas of volumes that LINSTOR reports: which one is the last, which ones replicate to
// each other, and how well each volume is. It is pure, and the operator and its kubectl plugin share it.
package copies

import (
	"slices"
	"strings"

	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
)

// going are flags of nodes, and of replicas, that are being removed or are deactivated.
var going = []string{linstor.FlagDelete, linstor.FlagDrbdDelete, linstor.FlagEvicted, linstor.FlagInactive,
	linstor.FlagEvacuate}

// Going reports whether LINSTOR is removing the node or the replica that has these flags, or has deactivated it.
func Going(flags []string) bool {
	return slices.ContainsFunc(going, func(f string) bool {
		return slices.ContainsFunc(flags, func(have string) bool { return strings.EqualFold(f, have) })
	})
}

// LastOn names the volumes that might not have a good replica any more if the node went, sorted. all has the replicas
// of every volume that the node has a replica of; stays reports whether a node is ONLINE and is to stay.
//
// What is not known counts against the change: a replica elsewhere is good only if its satellite reports it UpToDate
// now and DRBD shows that it has what the replica on the node has (hasDataOf). The replica on the node counts as
// possibly the good one unless it is known to be none. If a volume has a single replica, data may be recovered from it
// in any state.
func LastOn(all []linstor.Resource, node string, stays func(node string) bool) []string {
	var here []*linstor.Resource
	elsewhere := map[string][]*linstor.Resource{} // by volume
	for i := range all {
		r := &all[i]
		switch key := strings.ToLower(r.Name); {
		case !r.Diskful:
		case strings.EqualFold(r.Node, node):
			here = append(here, r)
		default:
			elsewhere[key] = append(elsewhere[key], r)
		}
	}
	var out []string
	for _, r := range here {
		others := elsewhere[strings.ToLower(r.Name)]
		replaced := slices.ContainsFunc(others, func(o *linstor.Resource) bool {
			return o.UpToDate() && stays(o.Node) && !Going(o.Flags) && hasDataOf(o, r)
		})
		if !replaced && (!worthless(r) || len(others) == 0) {
			out = append(out, r.Name)
		}
	}
	slices.Sort(out)
	return out
}

// worthless reports whether a replica is known not to be complete: DRBD says of every volume that it is half written
// or that its disk is gone. An outdated replica is old, but complete.
func worthless(r *linstor.Resource) bool { return within(r, "Inconsistent", "Diskless", "Failed") }

// within reports whether all volumes of a replica are known to be in one of these states.
func within(r *linstor.Resource, states ...string) bool {
	return len(r.States) > 0 && !slices.ContainsFunc(r.States, func(state string) bool {
		return !slices.Contains(states, state)
	})
}

// hasDataOf reports whether an UpToDate replica has all data of another one of its volume. UpToDate alone does not say
// so, because it is each replica's opinion of itself: after a split brain both are UpToDate, and one whose node was
// cut off stays UpToDate while another one is written to (DRBD 9.3.3, as LINSTOR 1.33.3 reports it).
func hasDataOf(good, other *linstor.Resource) bool {
	if within(other, "Inconsistent", "Diskless", "Failed", "Outdated") { // DRBD reports that it is not the newest
		return true
	}
	if up, _ := linked(good, other); up {
		return true
	}
	// The other node is down or its satellite is: what is left counts unless DRBD refuses I/O to it for lack of a
	// quorum, since the nodes that had the quorum may have written without it.
	return !HasState(other) && !good.Unusable()
}

// linked reports whether DRBD connects two replicas of a volume. known is false if neither side reports the
// connection. Where the sides differ, one of them has not noticed yet that it is down.
func linked(a, b *linstor.Resource) (up, known bool) {
	upA, knownA := a.ConnectedTo(b.Node)
	upB, knownB := b.ConnectedTo(a.Node)
	known = knownA || knownB
	return known && (upA || !knownA) && (upB || !knownB), known
}

// HasState reports whether LINSTOR reports a disk state of the replica.
func HasState(r *linstor.Resource) bool {
	return slices.ContainsFunc(r.States, func(s string) bool { return s != "" })
}
