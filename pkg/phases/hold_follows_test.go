package phases_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/holdkind"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/hold"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/remembered"
	"github.com/linstor-dev/storagecluster-operator/pkg/work"
)

// cannotUse has LINSTOR refuse a node's pool for good, as where its volume group is not there.
func cannotUse(w *clustertest.World, nodes ...string) {
	err := &linstor.Error{Op: "x", Status: 500, Codes: []int{linstor.CodePoolConfiguration}, Message: "no vg",
		Why: "no vg"}
	for _, n := range nodes {
		p := w.Node(n).Pools["ssd"]
		delete(p.Properties, remembered.Worked)
		p.TotalKiB = nil
		w.Tasks["pool/"+n+"/ssd"] = work.State{Attempts: 3, Refusals: 3, FailedAt: w.Now, Err: err}
	}
}

// TestAStuckRollKeepsItsNodes: to the link a satellite that runs is through, also while LINSTOR does not reach it. So
// others that crash do not take the place of the one on which the roll is stuck.
func TestAStuckRollKeepsItsNodes(t *testing.T) {
	w := clustertest.NewWorld(t, 4)
	w.Outdate("n04")
	w.Restarted("n01")
	w.UnreadyPod(v1alpha1.ComponentSatellite, "n02", "n03")
	for _, n := range []string{"n02", "n03"} {
		w.FailPod(v1alpha1.ComponentSatellite, n, "it crashes")
	}
	w.Phase(v1alpha1.PhaseHumanIntervention, 0)
	w.Cluster.Status.Hold = hold.New(w.Snapshot(), &cluster.HoldRequest{Reason: v1alpha1.HoldSatellitesFailed,
		Message: "stuck on n01", Nodes: []string{"n01"}})
	in, _ := w.Input()
	if e := in.Snapshot.Evidence[fsm.Satellites]; e.State != cluster.Failed {
		t.Fatalf("the link is not in trouble: %+v", e)
	}
	if o := phases.Decide(t.Context(), in); o.Hold != nil || !strings.Contains(o.Message, "stuck on n01") {
		t.Errorf("%+v", o)
	}
}

// TestAHoldFollowsItsNodes: a hold of the cluster whose only answer is to look again names the nodes that have the
// trouble now, and not those that had it first. One that decides about its nodes keeps to those that it lists.
func TestAHoldFollowsItsNodes(t *testing.T) {
	const cannot = "pool ssd: LINSTOR cannot use thin pool vg/thin: no vg on "
	for name, tc := range map[string]struct {
		spoil func(*clustertest.World)
		nodes []string // nil if it stays as it is
		says  string
	}{
		"nothing has changed": {func(*clustertest.World) {}, []string{"n01", "n02"}, cannot + "2 of 4 nodes (n01, n02)"},
		"a third one fails": {func(w *clustertest.World) { cannotUse(w, "n04") }, []string{"n01", "n02", "n04"},
			cannot + "3 of 4 nodes (n01, n02, n04)"},
		"all fail": {func(w *clustertest.World) { cannotUse(w, "n03", "n04") }, []string{"n01", "n02", "n03", "n04"},
			cannot + "4 of 4 nodes (n01, n02, n03 and 1 more)"},
		"the first one works, two others fail": {func(w *clustertest.World) {
			good := *w.Node("n04").Pools["ssd"]
			good.Properties = maps.Clone(good.Properties)
			cannotUse(w, "n03", "n04")
			w.Node("n01").Pools["ssd"] = &good
			delete(w.Tasks, "pool/n01/ssd")
		}, []string{"n02", "n03", "n04"}, cannot + "3 of 4 nodes (n02, n03, n04)"},
		"a third one fails, and the first one is tried anew": {func(w *clustertest.World) {
			cannotUse(w, "n03", "n04")
			delete(w.Node("n01").Pools, "ssd")
			st := w.Tasks["pool/n01/ssd"]
			st.FailedAt = w.Now.Add(1) // nobody has looked since
			w.Tasks["pool/n01/ssd"] = st
		}, nil, "as it began"},
		"its answers decide about its nodes": {func(w *clustertest.World) {
			cannotUse(w, "n03")
			w.Cluster.Status.Hold.Options = holdkind.Of(v1alpha1.HoldDeviceMissing).Options
		}, nil, "as it began"},
		"it is about another pool": {func(w *clustertest.World) {
			cannotUse(w, "n03")
			w.Cluster.Status.Hold.Pool = "hdd"
		}, nil, "as it began"},
	} {
		t.Run(name, func(t *testing.T) {
			w := clustertest.NewWorld(t, 4)
			cannotUse(w, "n01", "n02")
			w.Phase(v1alpha1.PhaseHumanIntervention, 0)
			w.Cluster.Status.Hold = hold.New(w.Snapshot(), &cluster.HoldRequest{Reason: v1alpha1.HoldPoolBackendMissing,
				Pool: "ssd", Message: "as it began", Nodes: []string{"n01", "n02"}})
			tc.spoil(w)
			in, _ := w.Input()
			o := phases.Decide(t.Context(), in)
			var nodes []string
			if o.Hold != nil {
				nodes = o.Hold.Nodes
			}
			if o.Kind != step.KindWait || o.Message != tc.says || !slices.Equal(nodes, tc.nodes) {
				t.Errorf("%s %s %v (%s)", o.Kind, o.Event, nodes, o.Message)
			}
		})
	}
}
