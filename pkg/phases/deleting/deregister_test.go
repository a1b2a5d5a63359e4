package deleting_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/leaving"
	"github.com/linstor-dev/storagecluster-operator/pkg/remembered"
	"github.com/linstor-dev/storagecluster-operator/pkg/work"
)

func TestDeregisterLeavesNodesOfOthers(t *testing.T) {
	w := clustertest.DeletedWorld(t, 1)
	w.Cluster.Spec.DeletionPolicy = v1alpha1.DeletionDelete
	w.Linstor.View.Nodes["theirs"] = &linstor.Node{Name: "theirs", Status: linstor.StatusOnline}
	w.Node("n01").Pools["aaa"] = &linstor.Pool{Name: "aaa"}
	w.Node("n01").Pools["zzz"] = &linstor.Pool{Name: "zzz"}
	input := ""
	for range 50 {
		in, r := w.Input()
		phases.Decide(t.Context(), in)
		if !slices.Equal(r.Keys(), []string{"deregister/n01"}) {
			t.Fatalf("tasks %v", r.Keys())
		}
		if input != "" && input != r.Queued[0].Input {
			t.Fatal("the task's input changes although nothing did")
		}
		input = r.Queued[0].Input
		r.Now = &linstor.View{Nodes: w.Linstor.View.Nodes}
		r.Fail["delete pool n01/ssd"] = clustertest.Refused(linstor.CodeInUse)
		if err := r.Run(t, "deregister/n01"); err == nil || slices.Contains(r.Calls, "delete node n01") {
			t.Fatalf("a pool in use: %v, %v", err, r.Calls)
		}
	}
}

func TestDeregisterLooksForCopiesFirst(t *testing.T) {
	w := clustertest.DeletedWorld(t, 1)
	w.Cluster.Spec.DeletionPolicy = v1alpha1.DeletionDelete
	in, r := w.Input()
	phases.Decide(t.Context(), in)
	r.Now = &linstor.View{Resources: []linstor.Resource{{Name: "pvc-new", Node: "n01"}}}
	r.Calls = nil
	if err := r.Run(t, "deregister/n01"); err == nil || len(r.Calls) > 0 {
		t.Errorf("a node with a copy: %v, %v", err, r.Calls)
	}
	r.Fail["resources"] = errors.New("timeout")
	if err := r.Run(t, "deregister/n01"); err == nil || len(r.Calls) > 0 {
		t.Errorf("nobody knows: %v, %v", err, r.Calls)
	}
	delete(r.Fail, "resources")
	r.Now = &linstor.View{Nodes: w.Linstor.View.Nodes}
	if err := r.Run(t, "deregister/n01"); err != nil || r.Calls[len(r.Calls)-1] != "delete node n01" {
		t.Errorf("an empty node: %v, %v", err, r.Calls)
	}
}

// A deletion that waits for LINSTOR says what LINSTOR refuses.
func TestDeregisterTellsWhatFails(t *testing.T) {
	w := clustertest.DeletedWorld(t, 2)
	w.Cluster.Spec.DeletionPolicy = v1alpha1.DeletionDelete
	w.Tasks["deregister/n02"] = work.State{Err: errors.New("delete node n02: connection refused")}
	in, _ := w.Input()
	const want = "2 nodes are still registered in LINSTOR: delete node n02: connection refused"
	if o := phases.Decide(t.Context(), in); o.Message != want {
		t.Errorf("message %q", o.Message)
	}
}

// A deletion ends with each node that the operator registered, whatever became of it: LINSTOR deletes no evicted node
// and no more than marks one that had a snapshot a moment ago, and answers 200 to both.
func TestDeregisterTakesEachNodeOut(t *testing.T) {
	for _, tc := range []struct {
		name   string
		spoil  func(w *clustertest.World, r *clustertest.Record)
		calls  []string
		fails  string
		copies bool
	}{
		{name: "at rest", spoil: func(*clustertest.World, *clustertest.Record) {},
			calls: []string{"delete pool n01/ssd", "delete node n01"}},
		{name: "deleted twice",
			spoil: func(_ *clustertest.World, r *clustertest.Record) { r.Sticks = map[string]int{"n01": 1} },
			calls: []string{"delete pool n01/ssd", "delete node n01", "delete node n01"}},
		{name: "it stays", spoil: func(_ *clustertest.World, r *clustertest.Record) { r.Sticks = map[string]int{"n01": 9} },
			calls: []string{"delete pool n01/ssd", "delete node n01", "delete node n01"}, fails: "still in LINSTOR"},
		{name: "evicted", spoil: func(w *clustertest.World, _ *clustertest.Record) {
			w.Node("n01").Flags = []string{linstor.FlagDelete, linstor.FlagEvicted}
			w.Node("n01").Status = linstor.StatusOffline
		}, calls: []string{"lose node n01"}},
		{name: "evicted, with a copy", spoil: func(w *clustertest.World, r *clustertest.Record) {
			w.Node("n01").Flags = []string{linstor.FlagDelete, linstor.FlagEvicted}
			r.Now.Resources = []linstor.Resource{{Name: "pvc-new", Node: "n01"}}
		}, fails: "replica of volume pvc-new"},
		{name: "another machine answers",
			spoil: func(w *clustertest.World, _ *clustertest.Record) { w.Node("n01").Properties[linstor.PropUname] = "n09" },
			calls: []string{"delete interface n01/default", "lose node n01"}},
		{name: "gone", spoil: func(w *clustertest.World, _ *clustertest.Record) { delete(w.Linstor.View.Nodes, "n01") }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := clustertest.DeletedWorld(t, 1)
			w.Cluster.Spec.DeletionPolicy = v1alpha1.DeletionDelete
			in, r := w.Input()
			phases.Decide(t.Context(), in)
			r.Calls, r.Now = nil, w.Linstor.View
			tc.spoil(w, r)
			err := r.Run(t, "deregister/n01")
			if (err == nil) != (tc.fails == "") || err != nil && !strings.Contains(err.Error(), tc.fails) {
				t.Error(err)
			}
			if d := cmp.Diff(tc.calls, r.Calls); d != "" {
				t.Error(d)
			}
		})
	}
}

// A node that leaves is deleted once more at once, and after a restart of the operator in between.
func TestALeavingNodeIsDeletedUntilItIsGone(t *testing.T) {
	w := clustertest.NewWorld(t, 6)
	w.Leaves(v1alpha1.NodesRemove, "n01")
	w.LeavingSince("n01")
	w.Node("n01").Properties[remembered.LeavingAdmitted] = "few"
	w.Node("n01").Properties[linstor.PropAutoplace] = "false"
	w.Spread()
	w.Linstor.View.ResourcesKnown = true
	in, r := w.Input()
	r.Sticks = map[string]int{"n01": 2}
	err := clustertest.RunLeave(t, in, r, w.Linstor.View)
	if err == nil || !strings.Contains(err.Error(), "still in LINSTOR") {
		t.Errorf("a node that stays: %v", err)
	}
	in, r = w.Input() // it is flagged DELETE by now
	if l := leaving.AllLeavers(in.Snapshot)[0]; !l.Node.HasFlag(linstor.FlagDelete) ||
		l.Leave.Step != leaving.StepDelete {
		t.Fatalf("flags %v, step %q, message %q", l.Node.Flags, l.Leave.Step, l.Leave.Message)
	}
	if err := clustertest.RunLeave(t, in, r, w.Linstor.View); err != nil || w.Linstor.View.Node("n01") != nil {
		t.Errorf("%v, calls %v", err, r.Calls)
	}
}
