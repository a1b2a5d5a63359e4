package phases

import (
	"testing"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
)

func TestCopiesAreListedWhenTheyMatter(t *testing.T) {
	for _, tc := range []struct {
		name  string
		spoil func(*world)
		want  bool
	}{
		{"at rest", func(*world) {}, false},
		{"a node leaves", func(w *world) { w.leaves(v1alpha1.NodesEvacuate, "n01") }, true},
		{"a node leaves and is kept", func(w *world) { w.leaves(v1alpha1.NodesRetain, "n01") }, false},
		{"a Node object is gone", func(w *world) {
			w.leaves(v1alpha1.NodesRemove)
			w.kube.Nodes = w.kube.Nodes[1:]
		}, true},
		{"a Node object is gone, and its data is kept", func(w *world) { w.kube.Nodes = w.kube.Nodes[1:] }, false},
		{"nodes left at the last look", func(w *world) {
			w.leaves(v1alpha1.NodesEvacuate)
			w.cluster.Status.Nodes.LeavingCount = 1
		}, true},
		{"somebody evacuates a node", func(w *world) { w.node("n01").Flags = []string{linstor.FlagEvacuate} }, true},
		{"an upgrade goes on", func(w *world) { w.cluster.Status.Upgrade = &v1alpha1.UpgradeStatus{} }, true},
	} {
		w := newWorld(t, 3)
		tc.spoil(w)
		if got := w.snapshot().WantsResources(w.linstor.View); got != tc.want {
			t.Errorf("%s: %t", tc.name, got)
		}
	}
}
