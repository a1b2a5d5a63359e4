package cluster

import (
	"time"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/remembered"
)

// Leave is how far a node is that leaves.
type Leave struct {
	State   v1alpha1.LeavingState
	Message string
	// Hold is the question that it stops for; "" for none. Resources are the volumes that it is about.
	Hold      v1alpha1.HoldReason
	Resources []string
	Step      LeaveStep
}

// LeaveStep is what is to be done for a leaving node.
type LeaveStep string

// Gone is a node that the operator registered in LINSTOR and whose Node object was deleted.
type Gone struct {
	Name    string
	Linstor *linstor.Node
	Leave   *Leave
	// Problem is another machine's trouble with it; nil if there is none.
	Problem *Problem
}

// Leaver is a node that leaves: a member that the spec no longer picks, or one whose Node object is gone.
type Leaver struct {
	Name string
	Node *linstor.Node // nil if it is not registered (any more)
	// Member is nil if the Node object is gone.
	Member *Member
	Leave  *Leave
}

// Noted is the time that a property keeps; the zero time if it keeps none.
func (l *Leaver) Noted(key string) time.Time {
	return remembered.Time(l.Node.Properties[key])
}

// Gone reports whether the Node object is deleted and LINSTOR does not reach the node, or reaches another machine in
// its place. Other states than OFFLINE show that its machine runs, unless LINSTOR has no address to look for it: an
// impostor is disconnected before, and if giving up fails then, it must be possible again.
func (l *Leaver) Gone() bool {
	switch {
	case l.Member != nil || l.Node == nil:
		return false
	case l.Node.Status == linstor.StatusOffline || l.Node.Impostor() != "":
		return true
	default:
		return !ConnectedNow(l.Node) && len(SatelliteInterfaces(l.Node)) == 0
	}
}
