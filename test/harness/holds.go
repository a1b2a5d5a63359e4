package harness

import (
	"slices"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/holdkind"
)

// OpenHolds are the holds that an administrator reads in a status: those of nodes, and then that of the cluster.
func OpenHolds(s *v1alpha1.StorageClusterStatus) []v1alpha1.Hold {
	holds := slices.Clone(s.NodeHolds)
	if s.Hold != nil {
		holds = append(holds, *s.Hold)
	}
	return holds
}

// Token is the annotation's value that answers a hold.
func Token(h *v1alpha1.Hold, option string) string { return h.ID + ":" + option }

// Answer is the first of some options that a hold offers; "" for none.
func Answer(h *v1alpha1.Hold, preferred ...string) string {
	offered := holdkind.Answers(h.Options)
	if i := slices.IndexFunc(preferred, func(option string) bool { return slices.Contains(offered, option) }); i >= 0 {
		return preferred[i]
	}
	return ""
}
