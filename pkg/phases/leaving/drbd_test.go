package leaving_test

import (
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/leaving"
	"github.com/linstor-dev/storagecluster-operator/test/drbd/states"
)

// recorded is what a real LINSTOR reported with a real DRBD.
func recorded(state string, nodes ...string) func(*clustertest.World) {
	return func(w *clustertest.World) { states.Show(w.T, w.Linstor.View, state, nodes...) }
}

var drbdScenarios = []scenario{
	{name: "DRBD: a split brain: LINSTOR would delete one half",
		spoil: recorded("split-brain-StandAlone", "n02", "n01", "n03"),
		want: decided{row: "last-copy", hold: atRisk, volumes: []string{"pvc-2"},
			message: "or not connected to the others"}},
	{name: "DRBD: the other node was promoted while the I/O is suspended here",
		spoil: recorded("second-node-promoted", "n01", "n02", "n03"),
		want: decided{row: "last-copy", hold: atRisk, volumes: []string{"pvc-1"},
			message: "or not connected to the others"}},
	{name: "DRBD: its disk failed", spoil: recorded("failed-disk-node-b", "n02", "n01", "n03"),
		want: decided{row: "evacuate", state: evacuating, step: leaving.StepEvacuate,
			message: "requesting the evacuation of 2 replicas (pvc-1, pvc-2)"}},
}
