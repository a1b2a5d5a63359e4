package leaving_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/etcd"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/membership"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/pods"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/seats"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/leaving"
)

// withEtcd has a member of etcd on n01, which waits for another one.
func withEtcd(w *clustertest.World) {
	w.Etcd = &etcd.Known{}
	w.Etcd.Facts.Size = 3
	w.Etcd.Facts.Notes.Seats = []seats.Seat{{Name: "n01-1", Node: "n01"}}
	w.Etcd.Decision.Row, w.Etcd.Decision.Step = "grow", membership.AddLearner
}

// etcdScenarios are about a member n01 that leaves and has a member of etcd.
var etcdScenarios = []scenario{
	{name: "not in LINSTOR, with a member of etcd",
		spoil: func(w *clustertest.World) { delete(w.Linstor.View.Nodes, "n01"); withEtcd(w) },
		want:  decided{row: "unregistered-with-etcd", message: "until etcd member n01-1 has been moved"}},
	{name: "marked for deletion, with a member of etcd",
		spoil: func(w *clustertest.World) { w.Node("n01").Flags = []string{linstor.FlagDelete}; withEtcd(w) },
		want:  decided{row: "deleted-with-etcd", message: "until etcd member n01-1 has been moved"}},
	{name: "empty, with a member of etcd", spoil: withEtcd,
		want: decided{row: "empty-with-etcd",
			message: "moved to another node: 0 of 3 etcd members can vote; current step: grow"}},
	{name: "removed, with a member of etcd", policy: v1alpha1.NodesRemove, spoil: withEtcd,
		want: decided{row: "empty-with-etcd", message: "member n01-1"}},
	{name: "empty, with a member of etcd that no other node can have",
		spoil: func(w *clustertest.World) {
			withEtcd(w)
			w.Etcd.Decision.Hold = &membership.Hold{Reason: membership.EtcdStuck}
			w.Etcd.Decision.Hold.Message = "there is no node"
		},
		want: decided{row: "empty-with-etcd", message: "(see hold EtcdStuck): there is no node"}},
	{name: "empty, with a member of etcd by its label alone",
		spoil: func(w *clustertest.World) {
			w.Etcd = etcd.Failed(errors.New("the notes cannot be read"))
			w.KubeNode("n01").Labels[pods.Label] = "n01-7"
		},
		want: decided{row: "empty-with-etcd",
			message: "etcd member n01-7 has been moved to another node: the notes cannot be read"}},
	{name: "empty, with the label of an etcd that the operator does not run any more",
		spoil: func(w *clustertest.World) { w.KubeNode("n01").Labels[pods.Label] = "n01-7" },
		want:  decided{row: "empty", state: removing, step: leaving.StepDelete}},
	{name: "retained, with a member of etcd", policy: v1alpha1.NodesRetain, new: true, spoil: withEtcd,
		want: decided{row: "retained", state: v1alpha1.LeavingRetained, message: "keep it running until etcd member n01-1"}},
}

func TestLeavingWithEtcd(t *testing.T) {
	for _, tc := range etcdScenarios {
		t.Run(tc.name, tc.run)
	}
}

// TestGoneWithEtcd: a deleted Node has lost its member's pod, and nothing waits for that.
func TestGoneWithEtcd(t *testing.T) {
	w := clustertest.GoneWorld(t, v1alpha1.NodesEvacuate, 0)
	w.Spread()
	withEtcd(w)
	if l := w.LeaveOf("n01"); l == nil || strings.Contains(l.Message, "etcd") {
		t.Errorf("%+v", l)
	}
}
