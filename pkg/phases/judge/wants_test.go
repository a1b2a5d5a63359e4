package judge_test

import (
	"testing"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/judge"
)

func TestCopiesAreListedWhenTheyMatter(t *testing.T) {
	for _, tc := range []struct {
		name  string
		spoil func(*clustertest.World)
		want  bool
	}{
		{"at rest", func(*clustertest.World) {}, false},
		{"a node leaves", func(w *clustertest.World) { w.Leaves(v1alpha1.NodesEvacuate, "n01") }, true},
		{"a node leaves and is kept", func(w *clustertest.World) { w.Leaves(v1alpha1.NodesRetain, "n01") }, false},
		{"a Node object is gone", func(w *clustertest.World) {
			w.Leaves(v1alpha1.NodesRemove)
			w.Kube.Nodes = w.Kube.Nodes[1:]
		}, true},
		{"a Node object is gone, and its data is kept", func(w *clustertest.World) { w.Kube.Nodes = w.Kube.Nodes[1:] },
			false},
		{"nodes left at the last look", func(w *clustertest.World) {
			w.Leaves(v1alpha1.NodesEvacuate)
			w.Cluster.Status.Nodes.LeavingCount = 1
		}, true},
		{"somebody evacuates a node", func(w *clustertest.World) { w.Node("n01").Flags = []string{linstor.FlagEvacuate} },
			true},
		{"an upgrade goes on", func(w *clustertest.World) { w.Cluster.Status.Upgrade = &v1alpha1.UpgradeStatus{} }, true},
	} {
		w := clustertest.NewWorld(t, 3)
		tc.spoil(w)
		if got := judge.WantsResources(&w.Snapshot().Facts, w.Linstor.View); got != tc.want {
			t.Errorf("%s: %t", tc.name, got)
		}
	}
}
