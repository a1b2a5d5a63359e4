package sim

import "slices"

// Connection states of DRBD, as LINSTOR passes them on.
const (
	Connected  = "Connected"
	Connecting = "Connecting"
	StandAlone = "StandAlone"
)

// drbdLink is a DRBD connection of a volume between two nodes, in the order of their names.
type drbdLink struct{ volume, a, b string }

func newLink(volume, a, b string) drbdLink {
	return drbdLink{key(volume), min(key(a), key(b)), max(key(a), key(b))}
}

// SetLink changes the connection of a volume between two nodes: [Connecting] is a network that is cut between them,
// [StandAlone] what DRBD makes of it after a split brain. The copies keep their disk states, as UpToDate ones do when
// nothing writes to them.
func (v Volumes) SetLink(volume, a, b, state string) {
	v.world.lock()
	defer v.world.mu.Unlock()
	if state == Connected {
		delete(v.world.links, newLink(volume, a, b))
		return
	}
	v.world.links[newLink(volume, a, b)] = state
}

// connection is the state of the connection of a volume between a copy that DRBD knows and another one.
func connection(d *Database, dfn *rscDfn, r, peer *resource) string {
	switch state, cut := d.world.links[newLink(dfn.name, r.node, peer.node)]; {
	case cut:
		return state
	case !d.drbdUp(peer.node) || peer.diskState == stateUnknown:
		return Connecting
	default:
		return Connected
	}
}

// promotionScore is DRBD's: 0 for a copy without a quorum or without access to good data, else mostly the kind of the
// copy, and how many good ones it has access to (DRBD 9.3.3: 10102 with another one, 10101 alone, 10001 while it is
// being synced, 1 and 2 without a disk). LINSTOR gives volumes on three nodes a quorum.
func promotionScore(d *Database, dfn *rscDfn, r *resource) int {
	good, reached := 0, 1
	if r.good() {
		good++
	}
	for _, peer := range dfn.resources {
		if peer == r || connection(d, dfn, r, peer) != Connected {
			continue
		}
		reached++
		if peer.good() {
			good++
		}
	}
	const fewestWithQuorum = 3
	switch voters := len(dfn.resources); {
	case good == 0, voters >= fewestWithQuorum && 2*reached <= voters:
		return 0
	case r.good():
		return 10100 + good
	case r.diskless || slices.Contains([]string{stateDiskless, stateFailed}, r.diskState):
		return good
	default:
		return 10000 + good
	}
}
