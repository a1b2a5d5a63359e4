package cluster

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
)

// Linstor is the view of LINSTOR, if there is one.
type Linstor struct {
	// View is nil when Err is set or LINSTOR was not asked.
	View *linstor.View
	Err  error
	// Asked is false when no controller can be there to answer.
	Asked bool
	// Foreign is what LINSTOR says of a database that is not this cluster's; View is nil then, and Err set. What it says
	// of nodes, pools and volumes is about other data, so that nothing is decided on it but what to ask a human.
	Foreign *linstor.View
	// Why is the hold that Foreign is about.
	Why v1alpha1.HoldReason
	// Behind reports whether the claim itself, past the cache, was of a time before LINSTOR's.
	Behind bool
	// Down remembers the nodes that are not ONLINE, by lower-case name.
	Down map[string]Down
}

// Known reports whether there is a view to decide on.
func (l Linstor) Known() bool { return l.View != nil }

// ErrForeign is the error of a view of another LINSTOR's data.
var ErrForeign = errors.New("LINSTOR is running with another cluster's data")

// Foreign says whose data a view is of when that is not the database of the claim: it was emptied or replaced under a
// LINSTOR that goes on answering. It is nil for a view of ours, for no view, and before the claim names its database.
func (f *Facts) Foreign(v *linstor.View) error {
	claim, _ := f.Claim()
	if v == nil || claim.LocalID == "" || v.LocalID == claim.LocalID {
		return nil
	}
	return fmt.Errorf("%w: its Cluster/LocalID is %s, but this cluster's is %s", ErrForeign, v.LocalID, claim.LocalID)
}

// Down is what the looks at LINSTOR remember of a node that is not ONLINE. It is memory only: after a restart of the
// operator all nodes that are down seem to have gone down together, which is the cautious guess.
type Down struct {
	Since time.Time
	// Status is the last state that says why, At when it was seen; "" if there was none. OFFLINE is shown in between.
	Status string
	At     time.Time
}

// toldFor is how long a state that says why outlives LINSTOR's OFFLINE and CONNECTED in between: a little more than
// the ten seconds of LINSTOR's own loop. Else a wrong version would be another problem every few seconds.
const toldFor = 15 * time.Second

// RememberDown carries the memory on with a new view. The result is a new map: snapshots have the old one.
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

// StatusOf is LINSTOR's word for a node, without the flapping.
func (f *Facts) StatusOf(n *linstor.Node) string {
	d := f.Linstor.Down[strings.ToLower(n.Name)]
	told := d.Status == linstor.StatusVersionMismatch && f.Now.Sub(d.At) < toldFor
	if told && (n.Status == linstor.StatusOffline || n.Status == linstor.StatusConnected) {
		return d.Status
	}
	return n.Status
}

// DownSince is when a node was first seen down; zero if it is not.
func (f *Facts) DownSince(node string) time.Time {
	return f.Linstor.Down[strings.ToLower(node)].Since
}

// ConnectedNow is LINSTOR's own test before it gives a node up (CtrlNodeApiCallHandler.lostNode): connecting counts.
func ConnectedNow(n *linstor.Node) bool {
	return n.Status == linstor.StatusOnline || n.Status == linstor.StatusConnected
}

// SatelliteInterfaces are the interfaces of a node at which LINSTOR looks for its satellite.
func SatelliteInterfaces(n *linstor.Node) []linstor.Interface {
	return slices.DeleteFunc(slices.Clone(n.Interfaces), func(i linstor.Interface) bool { return i.Port == 0 })
}
