package managedetcd

import (
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/etcdmember"
)

// Left are the objects that run members, look into their data directories, and take snapshots. LINSTOR's controller
// and its pod must be gone before they go.
func Left(f *cluster.Facts) (out []client.Object) {
	for _, ds := range append(Sets(f), helpers(f)...) {
		out = append(out, ds)
	}
	return out
}

// Stays reports whether an object outlives the StorageCluster. The members' data does, and the next cluster finds it
// by what was noted: without that it would take the data for somebody else's. So do the labels of their nodes.
func Stays(cm client.Object) bool {
	return slices.Contains([]string{etcdmember.Notes, etcdmember.Orders}, cm.GetName())
}
