package etcd

import (
	"fmt"

	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/membership"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/seats"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/view"
)

// Again is what would be known if the members had said this.
func (k *Known) Again(look view.View) *Known {
	f := k.Facts
	f.Look = look
	return Look(f)
}

// Keeps says why a node must not go down because of its member, or is "" if it may. Each of the others must take part
// and stay: a member whose node comes back with an empty disk gets its vote much later than LINSTOR has its copies in
// sync, and the next node would take the quorum away. The only member may go, because nobody can take its place.
func (k *Known) Keeps(node, label string) string {
	name := k.On(node, label)
	switch {
	case name == "":
		return ""
	case k.Err != nil:
		return fmt.Sprintf("it hosts etcd member %s, and the state of the other members is unknown: %v", name, k.Err)
	}
	for _, s := range k.Decision.Notes.Seats {
		if s.Name != name && !k.takesPart(s) {
			return fmt.Sprintf("it hosts etcd member %s, and member %s on node %s is unhealthy, non-voting or being "+
				"removed", name, s.Name, s.Node)
		}
	}
	switch votes := len(k.Decision.Endpoints); {
	case votes < k.Facts.Size && len(k.Decision.Notes.Seats) > 1:
		return fmt.Sprintf("it hosts etcd member %s, and only %d of %d members can vote", name, votes, k.Facts.Size)
	case k.acts():
		return fmt.Sprintf("it hosts etcd member %s, and the etcd membership is being changed", name)
	}
	return ""
}

// takesPart reports whether a member has a vote, is well, and is to stay.
func (k *Known) takesPart(s seats.Seat) bool {
	return s.ID != 0 && !s.Learner && !s.Removing && k.Facts.Look.Fit(s.URL(k.Facts.Sites[s.Node]), s.ID)
}

// acts reports whether the next step changes a member, or who the members are.
func (k *Known) acts() bool {
	switch k.Decision.Step {
	case membership.Rest, membership.Wait, membership.Stop, membership.Save:
		return false
	default:
		return k.Decision.Row != membership.Rewrite
	}
}
