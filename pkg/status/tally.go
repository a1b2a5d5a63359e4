package status

import (
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
)

// OnlyTallies is whether two statuses differ in nothing but counts and words, which tell a reader how far something is. A
// thousand pods that start change them all the time, so they may be written a little later; nothing is decided on them.
func OnlyTallies(a, b *v1alpha1.StorageClusterStatus) bool {
	return equality.Semantic.DeepEqual(withoutTallies(a), withoutTallies(b))
}

func withoutTallies(st *v1alpha1.StorageClusterStatus) *v1alpha1.StorageClusterStatus {
	out := st.DeepCopy()
	out.Message, out.Progress, out.ProgressSince, out.KernelModule = "", 0, nil, nil
	out.Pools = v1alpha1.PoolsStatus{}
	n := &out.Nodes
	n.Summary, n.Online, n.States, n.Problems = "", 0, nil, nil
	for i := range out.Conditions {
		out.Conditions[i].Message = ""
	}
	return out
}
