package invariants

import (
	"fmt"
	"slices"
)

// Restart is the moment at which the operator deletes the pod of a satellite that runs or may run.
type Restart struct {
	// Node is the satellite's.
	Node string
	// Zones are the topology zones of all members, "" for nodes without one.
	Zones map[string]string
	// Down are the other nodes whose satellite the operator took down, and that LINSTOR has not seen ONLINE since.
	Down []string
	// PodNetwork reports whether satellites have addresses of their own: a restart cuts replication then.
	PodNetwork bool
	// Proved reports whether a satellite runs already that was made otherwise than the one that is deleted.
	Proved bool
}

// Check says what is wrong with the restart; "" if nothing is.
//
// On the host's network: one first, and once that one has shown that it works, a quarter of all nodes at the same
// time, one at least. With addresses of their own: one in each zone.
func (r Restart) Check() string {
	down := slices.Clone(r.Down)
	slices.Sort(down)
	if r.PodNetwork {
		for _, n := range down {
			if r.Zones[n] == r.Zones[r.Node] {
				return fmt.Sprintf("the operator deletes the satellite of %s while %s in the same zone %q is not back ONLINE "+
					"after it deleted that one: "+
					"with nodes.network.mode Pod a restart cuts replication, so one in each zone is allowed", r.Node, n, r.Zones[n])
			}
		}
		return ""
	}
	allowed, why := 1, "no satellite of the new make has shown that it works"
	if r.Proved {
		allowed, why = max(1, len(r.Zones)/4), fmt.Sprintf("a quarter of %d members, one at least", len(r.Zones))
	}
	if len(down)+1 > allowed {
		return fmt.Sprintf("the operator deletes the satellite of %s while %v are not back ONLINE after it deleted "+
			"theirs: %d at the same time are allowed (%s). "+
			"Look at the gate before the next batch", r.Node, down, allowed, why)
	}
	return ""
}
