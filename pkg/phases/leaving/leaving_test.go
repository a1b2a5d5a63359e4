package leaving_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/leaving"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/registration"
	"github.com/linstor-dev/storagecluster-operator/pkg/remembered"
	"github.com/linstor-dev/storagecluster-operator/test/drbd/states"
)

// A gone node is one of LINSTOR's that the operator made and Kubernetes has no more.
func TestGoneNodesLeave(t *testing.T) {
	w := clustertest.NewWorld(t, 5)
	w.Leaves(v1alpha1.NodesEvacuate)
	w.Linstor.View.Nodes["stranger"] = &linstor.Node{Name: "stranger", Properties: map[string]string{}}
	w.Kube.Nodes = w.Kube.Nodes[1:]
	w.Node("n01").Status = linstor.StatusOffline
	w.Spread("a@n01 -", "a@n02 UpToDate")
	steps := func() (out []string) {
		for _, l := range leaving.AllLeavers(w.Snapshot()) {
			out = append(out, fmt.Sprintf("%s %s: %s %s", l.Name, leaving.RowOf(l.Leave), l.Leave.State, l.Leave.Step))
		}
		return out
	}
	if d := cmp.Diff([]string{"n01 new: Waiting note"}, steps()); d != "" {
		t.Error(d)
	}
	w.LeavingSince("n01")
	delete(w.Node("n01").Properties, linstor.PropAutoplace) // nothing is placed on a node that is away
	if d := cmp.Diff([]string{"n01 evacuate: Evacuating evacuate"}, steps()); d != "" {
		t.Error(d)
	}
	w.Evacuating("n01")
	w.Node("n01").Properties[remembered.EvacuateStuck] = clustertest.Ago(time.Hour)
	if d := cmp.Diff([]string{"n01 left-on-a-dead-machine: Evacuating "}, steps()); d != "" {
		t.Errorf("its end is not the evacuation's: %s", d)
	}
	w.Spread("a@n02 UpToDate")
	if d := cmp.Diff([]string{"n01 empty: Removing delete"}, steps()); d != "" {
		t.Error(d)
	}
	w.Leaves(v1alpha1.NodesRetain)
	if d := cmp.Diff([]string{"n01 retained-again: Retained undo"}, steps()); d != "" {
		t.Error(d)
	}
}

func TestOnlySoManyAreEvacuatedAtOnce(t *testing.T) {
	for _, tc := range []struct {
		name  string
		most  int32
		spoil func(*clustertest.World)
		want  string
	}{
		{"one", 1, func(*clustertest.World) {}, "n02:evacuate n03:no-slot n04:no-slot"},
		{"two", 2, func(*clustertest.World) {}, "n02:evacuate n03:evacuate n04:no-slot"},
		{"those that have begun come first", 1, func(w *clustertest.World) {
			w.Evacuating("n04")
			w.Spread("a@n02 UpToDate", "a@n03 UpToDate", "b@n04 UpToDate EVACUATE", "b@n01 Inconsistent")
		}, "n02:no-slot n03:no-slot n04:moves"},
		{"one that was asked has begun", 1, func(w *clustertest.World) {
			w.Node("n03").Properties[remembered.EvacuateAsked] = clustertest.Ago(0)
		}, "n02:no-slot n03:asked n04:no-slot"},
		{"one that a human is asked about takes no place", 1, func(w *clustertest.World) {
			w.Evacuating("n02")
			w.Node("n02").Properties[remembered.EvacuateStuck] = clustertest.Ago(time.Hour)
			w.Spread("a@n02 UpToDate EVACUATE", "b@n03 UpToDate")
		}, "n02:no-place-for-the-last-copy n03:evacuate n04:empty"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := clustertest.NewWorld(t, 20)
			w.Cluster.Spec.Nodes.MaxConcurrentEvacuations = tc.most
			w.Leaves(v1alpha1.NodesEvacuate, "n02", "n03", "n04")
			w.LeavingSince("n02", "n03", "n04")
			w.Spread("a@n02 UpToDate", "a@n03 UpToDate", "b@n04 UpToDate", "a@n01 UpToDate")
			tc.spoil(w)
			var got []string
			for _, l := range leaving.AllLeavers(w.Snapshot()) {
				got = append(got, l.Name+":"+leaving.RowOf(l.Leave))
			}
			if text := strings.Join(got, " "); text != tc.want {
				t.Errorf("%s, want %s", text, tc.want)
			}
		})
	}
}

func TestManyThatLeaveAtOnceAreAskedAbout(t *testing.T) {
	for _, tc := range []struct {
		members, leave int
		asked          bool
	}{{3, 1, false}, {3, 2, true}, {10, 2, false}, {10, 3, true}, {100, 20, false}, {100, 21, true}} {
		w := clustertest.NewWorld(t, tc.members)
		var names []string
		for _, n := range w.Kube.Nodes[:tc.leave] {
			names = append(names, n.Name)
		}
		w.Leaves(v1alpha1.NodesRemove, names...)
		for i, n := range names { // the last ones have only just been seen
			if i < len(names)-1 {
				w.Node(n).Properties[remembered.Leaving] = clustertest.Ago(time.Hour)
			}
		}
		s := w.Snapshot()
		steps := map[string]int{}
		for _, l := range leaving.AllLeavers(s) {
			steps[leaving.RowOf(l.Leave)+": "+string(l.Leave.Step)]++
			if asked := l.Leave.Hold == v1alpha1.HoldTooManyNodesLeaving; asked != tc.asked {
				t.Errorf("%d of %d, %s: hold %q", tc.leave, tc.members, l.Name, l.Leave.Hold)
			}
		}
		want := map[string]int{"new: note": 1, "due: admit": tc.leave - 1}
		if tc.asked {
			want = map[string]int{"new-among-many: note": 1, "one-of-many: ": tc.leave - 1}
		}
		if tc.leave == 1 {
			want = map[string]int{"new: note": 1}
		}
		if d := cmp.Diff(want, steps); d != "" {
			t.Errorf("%d of %d: %s", tc.leave, tc.members, d)
		}
	}
	// Those that were let go before are another edit's.
	w := clustertest.NewWorld(t, 10)
	w.Leaves(v1alpha1.NodesRemove, "n01", "n02", "n03", "n04")
	w.LeavingSince("n01", "n02", "n03")
	if l := w.Snapshot().MemberByName("n04").Leave; l.Hold != "" || leaving.RowOf(l) != "new" {
		t.Errorf("the fourth after three: %+v", l)
	}
}

func TestContentsAreCountedAndNamed(t *testing.T) {
	for want, copies := range map[string][]string{
		"1 replica (a)":     {"a@n01 UpToDate", "b@n02 UpToDate"},
		"2 replicas (a, b)": {"b@n01 UpToDate", "a@n01 UpToDate"},
	} {
		v := &linstor.View{Resources: states.Copies(copies...)}
		if got := leaving.ContentsOf(v, "n01").String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// While many nodes fail at once nothing goes on, and nothing is taken back.
func TestLeavingIsFrozen(t *testing.T) {
	for name, spoil := range map[string]func(*clustertest.World){
		"about to be asked for":  func(w *clustertest.World) { w.Spread("a@n01 UpToDate") },
		"about to be deleted":    func(*clustertest.World) {},
		"about to be noted":      func(w *clustertest.World) { delete(w.Node("n01").Properties, remembered.Leaving) },
		"about to be taken back": func(w *clustertest.World) { w.KubeNode("n01").Spec.Taints = nil },
	} {
		w := clustertest.NewWorld(t, 5)
		w.Leaves(v1alpha1.NodesEvacuate, "n01")
		w.LeavingSince("n01")
		spoil(w)
		w.NodeDown("n02", 0)
		w.NodeDown("n03", 0)
		in, r := w.Input()
		if !in.Snapshot.Frozen() {
			t.Fatal("two of five are no mass failure")
		}
		if err := leaving.Leave(t.Context(), in); err != nil || len(r.Queued)+len(r.Calls) > 0 {
			t.Errorf("%s: %v, tasks %v, calls %v", name, err, r.Keys(), r.Calls)
		}
		if in.Snapshot.MemberByName("n01").Selected {
			continue
		}
		if err := registration.Link().Work(t.Context(), in); err != nil || slices.Contains(r.Keys(), "placement/n01") {
			t.Errorf("%s: %v, placement is changed: %v", name, err, r.Keys())
		}
	}
}
