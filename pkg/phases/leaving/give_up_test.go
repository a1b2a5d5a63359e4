package leaving_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/hold"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/leaving"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/replica"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/remembered"
)

func TestDeclareLost(t *testing.T) {
	for _, tc := range []struct {
		name  string
		spoil func(w *clustertest.World)
		snaps []string
		fails string
		calls []string
	}{
		{name: "as decided", spoil: func(*clustertest.World) {}, calls: []string{"lose node n01"}},
		{name: "another node has its snapshots", spoil: func(*clustertest.World) {}, snaps: []string{"a/s n01 n02"},
			calls: []string{"lose node n01"}},
		{name: "the only copy of a snapshot by now", spoil: func(*clustertest.World) {}, snaps: []string{"a/s n01"},
			fails: "only copy of 1 snapshot (a/s)"},
		{name: "which the answer has named", snaps: []string{"a/s n01", "b/s n01"},
			spoil: func(w *clustertest.World) { wordGiven(w, "a/s", "b/s") }, calls: []string{"lose node n01"}},
		{name: "connected by now", spoil: func(w *clustertest.World) { w.Node("n01").Status = linstor.StatusConnected }},
		{name: "another node of that name", spoil: func(w *clustertest.World) { w.Node("n01").UUID = "other" }},
		{name: "the word was taken back",
			spoil: func(w *clustertest.World) { delete(w.Node("n01").Properties, remembered.DeclareLost) }},
		{name: "gone already", spoil: func(w *clustertest.World) { delete(w.Linstor.View.Nodes, "n01") }},
		{name: "the last copy by now", spoil: func(w *clustertest.World) { w.Spread("a@n01 -", "a@n02 Outdated") },
			fails: "last up-to-date replica"},
		{name: "a connection by now",
			spoil: func(w *clustertest.World) { w.Linstor.View.Resources[1].Connected = map[string]bool{"n01": true} },
			fails: "n02 still has a DRBD connection"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := clustertest.GoneWorld(t, v1alpha1.NodesRemove, 2*time.Hour)
			w.Node("n01").Properties[remembered.DeclareLost] = "h-1"
			in, r := w.Input()
			if err := leaving.Leave(t.Context(), in); err != nil {
				t.Fatal(err)
			}
			now := *w.Linstor.View
			node := *w.Node("n01")
			node.Properties = map[string]string{}
			for k, v := range w.Node("n01").Properties {
				node.Properties[k] = v
			}
			w.Linstor.View = &now
			now.Nodes = map[string]*linstor.Node{}
			for k, n := range in.Snapshot.Linstor.View.Nodes {
				now.Nodes[k] = n
			}
			now.Nodes["n01"] = &node
			tc.spoil(w)
			r.Now = w.Linstor.View
			r.SnapshotsOf = map[string][]string{"n01": tc.snaps}
			var told []step.Notice
			in.Announce = func(n step.Notice) { told = append(told, n) }
			err := r.Run(t, "leave/n01")
			if (err != nil) != (tc.fails != "") || err != nil && !strings.Contains(err.Error(), tc.fails) {
				t.Errorf("error %v, want %q", err, tc.fails)
			}
			if d := cmp.Diff(tc.calls, r.Calls); d != "" {
				t.Errorf("calls: %s", d)
			}
			if len(told) > 0 != (len(tc.calls) > 0) || len(told) > 0 &&
				(told[0].Reason != "NodeLost" || !strings.Contains(told[0].Note, "hold h-1")) {
				t.Errorf("told %+v", told)
			}
		})
	}
}

// The time counts from the first look at a node that is gone, is kept at the node, and starts anew when it was back.
func TestNoteGone(t *testing.T) {
	w := clustertest.GoneWorld(t, v1alpha1.NodesRemove, time.Minute)
	note := func() []string {
		t.Helper()
		in, r := w.Input()
		leaving.NoteGone(in)
		if slices.Contains(r.Keys(), "gone/n01") {
			if err := r.Run(t, "gone/n01"); err != nil {
				t.Fatal(err)
			}
		}
		return r.Calls
	}
	if calls := note(); len(calls) > 0 {
		t.Errorf("noted already: %v", calls)
	}
	delete(w.Node("n01").Properties, remembered.GoneSince)
	if d := cmp.Diff([]string{"node n01 set gone-since=2026-03-01T12:00:00Z del "}, note()); d != "" {
		t.Error(d)
	}
	startsLinstor(w)
	if calls := note(); len(calls) > 0 {
		t.Errorf("LINSTOR has just started: %v", calls)
	}
	props := w.Node("n01").Properties
	props[remembered.GoneSince], props[remembered.DeclareLost] = clustertest.Ago(time.Hour), "h-1"
	w.Node("n01").Status = linstor.StatusOnline
	if calls := note(); len(calls) != 1 ||
		!strings.Contains(calls[0], "gone-since,Aux/storage.linstor.dev/declare-lost") {
		t.Errorf("it is back: %v", calls)
	}
	w = clustertest.GoneWorld(t, v1alpha1.NodesRetain, time.Minute)
	delete(w.Node("n01").Properties, remembered.GoneSince)
	if calls := note(); len(calls) > 0 {
		t.Errorf("retained: %v", calls)
	}
}

func TestNodeGoneHold(t *testing.T) {
	w := clustertest.GoneWorld(t, v1alpha1.NodesRemove, 2*time.Hour)
	holds := phases.NodeHolds(w.Snapshot(), true, nil)
	if len(holds) != 1 || holds[0].Reason != v1alpha1.HoldNodeGone || !slices.Equal(holds[0].Nodes, []string{"n01"}) ||
		!slices.Equal(holds[0].Resources, []string{"a", "b"}) {
		t.Fatalf("%+v", holds)
	}
	w.Cluster.Status.NodeHolds = holds
	in, r := w.Input()
	in.Answer = &hold.Answer{Hold: &holds[0], Option: v1alpha1.OptionDeclareLost}
	if stored, err := phases.KeepAnswer(t.Context(), in); stored || err != nil {
		t.Fatalf("stored %t, %v", stored, err)
	}
	r.Now = w.Linstor.View
	if err := r.Run(t, "answer/n01/leave"); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"node n01 set declare-lost=" + holds[0].ID + " del "}, r.Calls); d != "" {
		t.Error(d)
	}
	w.Node("n01").Properties[remembered.DeclareLost] = holds[0].ID
	in, _ = w.Input()
	in.Answer = &hold.Answer{Hold: &holds[0], Option: v1alpha1.OptionDeclareLost}
	if stored, err := phases.KeepAnswer(t.Context(), in); !stored || err != nil {
		t.Errorf("stored %t, %v", stored, err)
	}
	if got := phases.NodeHolds(in.Snapshot, true, nil); len(got) != 0 {
		t.Errorf("after the answer: %+v", got)
	}

	// The node is back in Kubernetes: nothing is asked any more.
	w = clustertest.GoneWorld(t, v1alpha1.NodesRemove, 2*time.Hour)
	w.Cluster.Status.NodeHolds = holds
	w.Kube.Nodes = append(w.Kube.Nodes, clustertest.NewNode("n01"))
	if got := phases.NodeHolds(w.Snapshot(), true, nil); len(got) != 0 {
		t.Errorf("it is back: %+v", got)
	}
	w = clustertest.GoneWorld(t, v1alpha1.NodesRemove, 2*time.Hour)
	w.Cluster.Status.NodeHolds = holds
	w.Silent(errors.New("refused"))
	if got := phases.NodeHolds(w.Snapshot(), true, nil); len(got) != 1 {
		t.Errorf("LINSTOR silent: %+v", got)
	}
}

// The question names the only copies of snapshots, and the answer gives up these and no others.
func TestNodeGoneNamesSnapshots(t *testing.T) {
	w := clustertest.GoneWorld(t, v1alpha1.NodesRemove, 2*time.Hour)
	clustertest.Dies(w, "n04")
	w.LeavingSince("n04")
	w.Node("n04").Properties[remembered.GoneSince] = clustertest.Ago(2 * time.Hour)
	w.Linstor.View.SnapshotsOn = []string{"n01", "n04"}
	snapshots(w, "a/s1 n01", "b/s2 n01 n02", "c/s3 n04 n01")
	holds := phases.NodeHolds(w.Snapshot(), true, nil)
	if len(holds) != 1 || !slices.Equal(holds[0].Nodes, []string{"n01", "n04"}) ||
		!strings.Contains(holds[0].Message, "only copy of 2 snapshots (a/s1, c/s3)") ||
		!strings.HasSuffix(holds[0].Message, "; node n04 has the only copy of 1 snapshot (c/s3)") {
		t.Fatalf("%+v", holds)
	}
	first := replica.SnapshotSum([]string{"a/s1", "c/s3"})
	if want := []string{"n01=" + first, "n04=" + replica.SnapshotSum([]string{"c/s3"})}; !slices.Equal(
		holds[0].Identities, want) {
		t.Errorf("identities %q, want %q", holds[0].Identities, want)
	}
	w.Cluster.Status.NodeHolds = holds
	in, r := w.Input()
	in.Answer = &hold.Answer{Hold: &holds[0], Option: v1alpha1.OptionDeclareLost, Nodes: []string{"n01"}}
	if stored, err := phases.KeepAnswer(t.Context(), in); stored || err != nil {
		t.Fatalf("stored %t, %v", stored, err)
	}
	r.Now = w.Linstor.View
	if err := r.Run(t, "answer/n01/leave"); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"node n01 set declare-lost=" + holds[0].ID + ", " + first + " del "}, r.Calls); d != "" {
		t.Error(d)
	}
}

// A cloud that deletes the Nodes of a zone after an outage must not hide that many failed.
func TestGoneNodesCountAsFailed(t *testing.T) {
	for _, tc := range []struct {
		policy v1alpha1.NodeRemovalPolicy
		want   cluster.MassFailureState
	}{{v1alpha1.NodesEvacuate, cluster.MassFailureActive}, {v1alpha1.NodesRetain, cluster.MassFailureNone}} {
		w := clustertest.GoneWorld(t, tc.policy, 5*time.Minute)
		w.NodeDown("n02", 5*time.Minute)
		w.NodeDown("n03", 5*time.Minute)
		if tc.policy == v1alpha1.NodesRetain {
			w.KubeNode("n03").Status.Conditions[0].Status = corev1.ConditionTrue
		}
		if m := w.Snapshot().MassFailure; m.State != tc.want {
			t.Errorf("%s: %+v", tc.policy, m)
		}
	}
}
