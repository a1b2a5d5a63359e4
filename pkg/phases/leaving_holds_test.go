package phases

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
)

// held is the node hold of a reason after a reconcile that may begin some; nil for none.
func (w *world) held(reason v1alpha1.HoldReason, released *Answer) *v1alpha1.Hold {
	w.t.Helper()
	holds := NodeHolds(w.snapshot(), true, released)
	w.cluster.Status.NodeHolds = holds
	w.now = w.now.Add(time.Second) // the id of a hold follows from the moment
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
	w := newWorld(t, 5)
	w.leaves(v1alpha1.NodesEvacuate, "n02", "n03")
	first := w.held(reason, nil)
	if first == nil || !cmp.Equal(first.Nodes, []string{"n02", "n03"}) {
		t.Fatalf("%+v", first)
	}
	if same := w.held(reason, nil); same.ID != first.ID {
		t.Errorf("seen again it is hold %s instead of %s", same.ID, first.ID)
	}
	w.leaves(v1alpha1.NodesEvacuate, "n01")
	more := w.held(reason, nil)
	if more.ID == first.ID || !cmp.Equal(more.Nodes, []string{"n01", "n02", "n03"}) {
		t.Errorf("with one more: %+v", more)
	}
	w.kubeNode("n03").Spec.Taints = nil
	if less := w.held(reason, nil); less.ID != more.ID || !cmp.Equal(less.Nodes, []string{"n01", "n02"}) {
		t.Errorf("with one less: %+v", less)
	}
	w.kubeNode("n02").Spec.Taints = nil
	if none := w.held(reason, nil); none != nil {
		t.Errorf("one alone: %+v", none)
	}
}

// A hold lists fifty nodes; it is the same one as long as it lists the same.
func TestQuestionAboutVeryManyNodesIsOne(t *testing.T) {
	const reason = v1alpha1.HoldTooManyNodesLeaving
	w := newWorld(t, 99)
	var names []string
	for _, n := range w.kube.Nodes[:80] {
		names = append(names, n.Name)
	}
	w.leaves(v1alpha1.NodesEvacuate, names...)
	first := w.held(reason, nil)
	if first.Count != 80 || len(first.Nodes) != 50 {
		t.Fatalf("%d counted, %d listed", first.Count, len(first.Nodes))
	}
	w.cluster.Status.NodeHolds[0].Nodes = slices.Clone(first.Nodes[:10]) // the status had to be cut
	if same := w.held(reason, nil); same.ID != first.ID {
		t.Error("cut shorter it is another question")
	}
	w.kubeNode("n01").Spec.Taints = nil
	if other := w.held(reason, nil); other.ID == first.ID {
		t.Error("it lists another node, and is the same question")
	}
}

// The hold for a last copy stands until it is answered, unless nothing is left to ask about.
func TestLastReplicaHoldStands(t *testing.T) {
	const reason = v1alpha1.HoldLastReplicaAtRisk
	risky := func() (*world, *v1alpha1.Hold) {
		w := going(t)
		w.spread("a@n01 Outdated", "b@n01 -", "a@n02 Inconsistent")
		h := w.held(reason, nil)
		if h == nil || !cmp.Equal(h.Nodes, []string{"n01"}) || !cmp.Equal(h.Resources, []string{"a", "b"}) {
			t.Fatalf("%+v", h)
		}
		return w, h
	}
	w, h := risky()
	w.spread("a@n01 UpToDate", "a@n02 UpToDate")
	if again := w.held(reason, nil); again == nil || again.ID != h.ID || again.Message != h.Message || !cmp.Equal(again.Resources, h.Resources) {
		t.Errorf("the cause is gone, the token has not come: %+v", again)
	}
	if l := w.snapshot().MemberByName("n01").Leave; l.step != leaveNothing {
		t.Errorf("held, and step %q", l.step)
	}
	if after := w.held(reason, &Answer{Hold: h, Option: v1alpha1.OptionRetry}); after != nil {
		t.Errorf("answered: %+v", after)
	}
	if l := w.snapshot().MemberByName("n01").Leave; l.step != leaveEvacuate {
		t.Errorf("answered, and step %q (%s)", l.step, l.Message)
	}

	for name, end := range map[string]func(*world){
		"it stays":             func(w *world) { w.kubeNode("n01").Spec.Taints = nil },
		"it holds nothing":     func(w *world) { w.spread("a@n02 UpToDate") },
		"the policy is Retain": func(w *world) { w.leaves(v1alpha1.NodesRetain) },
	} {
		w, _ := risky()
		end(w)
		if left := w.held(reason, nil); left != nil {
			t.Errorf("%s: %+v", name, left)
		}
	}

	w, h = risky()
	w.silent(fmt.Errorf("refused"))
	if left := w.held(reason, nil); left == nil || left.ID != h.ID {
		t.Errorf("LINSTOR silent: %+v", left)
	}
}
