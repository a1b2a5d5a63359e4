package phases

import (
	"strings"
	"time"

	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
)

// Down is what the looks at LINSTOR remember of a node that is not ONLINE. It is memory only: after a restart of the operator
// all nodes that are down seem to have gone down together, which is the cautious guess.
type Down struct {
	// Since is when the node was first seen down.
	Since time.Time
	// Status is the last state that says why, At when it was seen; "" if there was none. LINSTOR tries again every ten seconds
	// and shows plain OFFLINE meanwhile.
	Status string
	At     time.Time
}

// toldFor is how long a state that says why outlives LINSTOR's OFFLINE and CONNECTED in between: a little more than the ten
// seconds of LINSTOR's own loop. Without it, a satellite of a wrong version would be another problem every few seconds.
const toldFor = 15 * time.Second

// RememberDown carries the memory on with a new view. The result is a new map: the old one belongs to an earlier snapshot.
func RememberDown(before map[string]Down, v *linstor.View, now time.Time) map[string]Down {
	after := map[string]Down{}
	for key, n := range v.Nodes {
		if n.Online() {
			continue
		}
		d, known := before[key]
		if !known {
			d.Since = now
		}
		switch n.Status {
		case linstor.StatusOffline, linstor.StatusConnected, linstor.StatusUnknown:
		default:
			d.Status, d.At = n.Status, now
		}
		after[key] = d
	}
	return after
}

// statusOf is LINSTOR's word for a node, without the flapping.
func (s *Snapshot) statusOf(n *linstor.Node) string {
	if n.Status != linstor.StatusOffline && n.Status != linstor.StatusConnected {
		return n.Status
	}
	if d := s.Linstor.Down[strings.ToLower(n.Name)]; d.Status == linstor.StatusVersionMismatch && s.Now.Sub(d.At) < toldFor {
		return d.Status
	}
	return n.Status
}

// downSince is when a node was first seen down; zero if it is not.
func (s *Snapshot) downSince(node string) time.Time {
	return s.Linstor.Down[strings.ToLower(node)].Since
}
