package cluster

import (
	"fmt"
	"slices"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/holdkind"
)

// HoldRequest is a stop for a human before it has an id.
type HoldRequest struct {
	Reason  v1alpha1.HoldReason
	Message string
	Pool    string
	Nodes   []string
	// Resources are names of volumes that it is about, ten at most.
	Resources []string
	Devices   []v1alpha1.HoldDevice
	// Identities are the machines, or the database, that are asked about.
	Identities []string
	// Options are fewer than the reason's; nil for all of them.
	Options []string
}

// Request is a question to a human about the cluster.
func Request(reason v1alpha1.HoldReason, format string, args ...any) *HoldRequest {
	return &HoldRequest{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// HeldPool reports whether a hold keeps the operator from making a pool on a member. It is open until its token comes.
func (f *Facts) HeldPool(m *Member, entry string) bool {
	h := f.Cluster.Status.Hold
	return HeldBy(f.Cluster.Status.NodeHolds, m, entry) ||
		// The cluster's hold is about all nodes if it counts more than it lists.
		h != nil && h.Pool == entry && holdkind.Of(h.Reason).Class == holdkind.Answer &&
			(slices.Contains(h.Nodes, m.Name) || int(h.Count) > len(h.Nodes))
}

// HeldBy reports whether one of the holds is about a pool on a member.
func HeldBy(holds []v1alpha1.Hold, m *Member, entry string) bool {
	return slices.ContainsFunc(holds, func(h v1alpha1.Hold) bool {
		return h.Pool == entry && slices.Contains(h.Nodes, m.Name)
	})
}
