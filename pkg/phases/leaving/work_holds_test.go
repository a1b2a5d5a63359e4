package leaving_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/hold"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/leaving"
)

// held is the node hold of a reason after a reconcile that may begin some; nil for none.
func held(w *clustertest.World, reason v1alpha1.HoldReason, released *hold.Answer) *v1alpha1.Hold {
	w.T.Helper()
	holds := phases.NodeHolds(w.Snapshot(), true, released)
	w.Cluster.Status.NodeHolds = holds
	w.Now = w.Now.Add(time.Second) // the id of a hold follows from the moment
	for i := range holds {
		if holds[i].Reason == reason {
			return &holds[i]
		}
	}
	return nil
}

// An answer is consent for the listed nodes: with one more it is another question.
func TestAnotherNodeIsAnotherQuestion(t *testing.T) {
	const reason = v1alpha1.HoldTooManyNodesLeaving
	w := clustertest.NewWorld(t, 5)
	w.Leaves(v1alpha1.NodesEvacuate, "n02", "n03")
	first := held(w, reason, nil)
	if first == nil || !cmp.Equal(first.Nodes, []string{"n02", "n03"}) {
		t.Fatalf("%+v", first)
	}
	if same := held(w, reason, nil); same.ID != first.ID {
		t.Errorf("seen again it is hold %s instead of %s", same.ID, first.ID)
	}
	w.Leaves(v1alpha1.NodesEvacuate, "n01")
	more := held(w, reason, nil)
	if more.ID == first.ID || !cmp.Equal(more.Nodes, []string{"n01", "n02", "n03"}) {
		t.Errorf("with one more: %+v", more)
	}
	w.KubeNode("n03").Spec.Taints = nil
	if less := held(w, reason, nil); less.ID != more.ID || !cmp.Equal(less.Nodes, []string{"n01", "n02"}) {
		t.Errorf("with one less: %+v", less)
	}
	w.KubeNode("n02").Spec.Taints = nil
	if none := held(w, reason, nil); none != nil {
		t.Errorf("one alone: %+v", none)
	}
}

// A hold lists fifty nodes; it is the same one as long as it lists the same.
func TestQuestionAboutVeryManyNodesIsOne(t *testing.T) {
	const reason = v1alpha1.HoldTooManyNodesLeaving
	w := clustertest.NewWorld(t, 99)
	var names []string
	for _, n := range w.Kube.Nodes[:80] {
		names = append(names, n.Name)
	}
	w.Leaves(v1alpha1.NodesEvacuate, names...)
	first := held(w, reason, nil)
	if first.Count != 80 || len(first.Nodes) != 50 {
		t.Fatalf("%d counted, %d listed", first.Count, len(first.Nodes))
	}
	w.Cluster.Status.NodeHolds[0].Nodes = slices.Clone(first.Nodes[:10]) // the status had to be cut
	if same := held(w, reason, nil); same.ID != first.ID {
		t.Error("cut shorter it is another question")
	}
	w.KubeNode("n01").Spec.Taints = nil
	if other := held(w, reason, nil); other.ID == first.ID {
		t.Error("it lists another node, and is the same question")
	}
}

// risky is a node that leaves with the last good copy of a volume, and the hold about that.
func risky(t *testing.T) (*clustertest.World, *v1alpha1.Hold) {
	t.Helper()
	w := clustertest.Going(t)
	w.Spread("a@n01 Outdated", "b@n01 -", "a@n02 Inconsistent")
	h := held(w, v1alpha1.HoldLastReplicaAtRisk, nil)
	if h == nil || !cmp.Equal(h.Nodes, []string{"n01"}) || !cmp.Equal(h.Resources, []string{"a", "b"}) {
		t.Fatalf("%+v", h)
	}
	return w, h
}

// The hold for a last copy stands until it is answered, unless nothing is left to ask about.
func TestLastReplicaHoldStands(t *testing.T) {
	const reason = v1alpha1.HoldLastReplicaAtRisk
	w, h := risky(t)
	w.Spread("a@n01 UpToDate", "a@n02 UpToDate")
	if again := held(w, reason, nil); again == nil || again.ID != h.ID || again.Message != h.Message ||
		!cmp.Equal(again.Resources, h.Resources) {
		t.Errorf("the cause is gone, the token has not come: %+v", again)
	}
	if l := w.Snapshot().MemberByName("n01").Leave; l.Step != leaving.StepNone {
		t.Errorf("held, and step %q", l.Step)
	}
	if after := held(w, reason, &hold.Answer{Hold: h, Option: v1alpha1.OptionRetry}); after != nil {
		t.Errorf("answered: %+v", after)
	}
	if l := w.Snapshot().MemberByName("n01").Leave; l.Step != leaving.StepEvacuate {
		t.Errorf("answered, and step %q (%s)", l.Step, l.Message)
	}

	for name, end := range map[string]func(*clustertest.World){
		"it stays":             func(w *clustertest.World) { w.KubeNode("n01").Spec.Taints = nil },
		"it holds nothing":     func(w *clustertest.World) { w.Spread("a@n02 UpToDate") },
		"the policy is Retain": func(w *clustertest.World) { w.Leaves(v1alpha1.NodesRetain) },
	} {
		w, _ := risky(t)
		end(w)
		if left := held(w, reason, nil); left != nil {
			t.Errorf("%s: %+v", name, left)
		}
	}

	for name, hide := range map[string]func(*clustertest.World){
		"LINSTOR silent":           func(w *clustertest.World) { w.Silent(fmt.Errorf("refused")) },
		"LINSTOR has just started": startsLinstor,
	} {
		w, h := risky(t)
		hide(w)
		if left := held(w, reason, nil); left == nil || left.ID != h.ID {
			t.Errorf("%s: %+v", name, left)
		}
	}
}
