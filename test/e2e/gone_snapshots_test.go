package e2e

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
)

// The only copy of a snapshot is on a node that is gone, although its volume is well elsewhere: the time of the spec
// does not give it up. The question names it, and the answer does.
func TestOnlySnapshotIsNotLostByTime(t *testing.T) {
	e, victim, other := withVolume(t, 5, "  nodes: {removalPolicy: Remove, lostAfter: 10m}"+harness.ThinPool)
	for name, nodes := range map[string][]string{"old": {victim}, "new": {victim, other}} {
		if err := e.Sim.World().Volumes().CreateSnapshot("pvc-1", name, nodes...); err != nil {
			t.Fatal(err)
		}
	}
	e.dies(victim)
	e.goneMessage(victim, "declared lost at")
	e.backdate(victim, 11*time.Minute)
	h := e.WaitNodeHold(v1alpha1.HoldNodeGone)
	if !slices.Equal(h.Nodes, []string{victim}) || len(h.Identities) != 1 ||
		!strings.Contains(h.Message,
			"if you resume with declare-lost, you lose the only copy of 1 snapshot (pvc-1/old)") {
		t.Errorf("hold %+v", h)
	}
	e.notLost(victim)
	e.Resume(h, v1alpha1.OptionDeclareLost)
	e.noToken()
	e.lost(victim)
	e.ready("4/4", "4/4")
	if holds := e.Get().Status.NodeHolds; len(holds) > 0 {
		t.Errorf("holds %+v", holds)
	}
}
