package leaving_test

import (
	"cmp"
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor/linstortest"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/leaving"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/replica"
	"github.com/linstor-dev/storagecluster-operator/pkg/remembered"
)

func lostAfter(w *clustertest.World, d time.Duration) {
	w.Cluster.Spec.Nodes.LostAfter = &metav1.Duration{Duration: d}
	w.Accept()
}

const day = 24 * time.Hour

// withinADay: by then the spec gives a gone node up.
func withinADay(w *clustertest.World) { lostAfter(w, day) }

// wordGiven is a human's word that n01 may be given up, with the snapshots that the question has named.
func wordGiven(w *clustertest.World, snapshots ...string) {
	word := "h-1"
	if len(snapshots) > 0 {
		word += ", " + replica.SnapshotSum(snapshots)
	}
	w.Node("n01").Properties[remembered.DeclareLost] = word
}

// snapshots are those that a look finds on n01.
func snapshots(w *clustertest.World, texts ...string) {
	w.Linstor.View.Snapshots = linstortest.Snapshots(texts...)
}

// startsLinstor is LINSTOR a moment after its start: it is connected to no satellite.
func startsLinstor(w *clustertest.World) {
	w.Condition(conditions.Available, metav1.ConditionTrue, time.Second)
	for _, n := range w.Linstor.View.Nodes {
		n.Status = linstor.StatusOffline
	}
}

// impostor lets LINSTOR be connected to n09 in the name of n01.
func impostor(w *clustertest.World) {
	w.Node("n01").Status = linstor.StatusOnline
	w.Node("n01").Properties[linstor.PropUname] = "n09"
}

// goneScenarios are about n01, whose Node object was deleted and that LINSTOR does not reach.
var goneScenarios = []struct {
	name   string
	policy v1alpha1.NodeRemovalPolicy // Remove if empty
	away   time.Duration
	spoil  func(*clustertest.World)
	want   decided
}{
	{name: "retained for ever", policy: v1alpha1.NodesRetain, away: 100 * day,
		spoil: func(w *clustertest.World) { lostAfter(w, time.Hour) },
		want: decided{row: "retained-again", state: v1alpha1.LeavingRetained, step: leaving.StepUndo,
			message: "under removalPolicy Retain, it stays in LINSTOR"}},
	{name: "a mass failure", away: day,
		spoil: func(w *clustertest.World) {
			withinADay(w)
			for _, n := range []string{"n04", "n05", "n06"} {
				w.NodeDown(n, time.Minute)
			}
		},
		want: decided{row: "mass-failure", message: "many nodes failed"}},
	{name: "LINSTOR has just started, and knows no copy", policy: v1alpha1.NodesEvacuate, away: day,
		spoil: func(w *clustertest.World) { w.Spread("a@n01 -", "a@n02 -"); startsLinstor(w) },
		want:  decided{row: "connecting", message: "connecting to its satellites"}},
	{name: "LINSTOR has just started, and it may be given up", away: day,
		spoil: func(w *clustertest.World) { withinADay(w); wordGiven(w); startsLinstor(w) },
		want:  decided{row: "connecting"}},
	{name: "evicted by LINSTOR, short ago", away: 59 * time.Minute,
		spoil: func(w *clustertest.World) { w.Node("n01").Flags = []string{linstor.FlagDelete, linstor.FlagEvicted} },
		want:  decided{row: "evicted-gone", message: "evicted"}},
	{name: "not let go yet", away: day,
		spoil: func(w *clustertest.World) {
			withinADay(w)
			delete(w.Node("n01").Properties, remembered.LeavingAdmitted)
		},
		want: decided{row: "due", step: leaving.StepAdmit}},
	{name: "announced, and a human's word", away: day,
		spoil: func(w *clustertest.World) {
			wordGiven(w)
			note(w, remembered.Leaving, 0)
			delete(w.Node("n01").Properties, remembered.LeavingAdmitted)
		},
		want: decided{row: "announced"}},
	{name: "another machine in its place, short ago", away: 59 * time.Minute, spoil: impostor,
		want: decided{row: "impostor", message: "n09"}},
	{name: "no policy, short ago", away: 59 * time.Minute, spoil: func(*clustertest.World) {},
		want: decided{row: "remove-waits", message: "holds 2 replicas (a, b)"}},
	{name: "never noted", away: day,
		spoil: func(w *clustertest.World) { withinADay(w); delete(w.Node("n01").Properties, remembered.GoneSince) },
		want:  decided{row: "remove-waits"}},
	{name: "LINSTOR does not keep the note", away: day,
		spoil: func(w *clustertest.World) {
			withinADay(w)
			delete(w.Node("n01").Properties, remembered.GoneSince)
			fails(w, "gone/n01", errors.New("refused"))
		},
		want: decided{row: "remove-waits", message: "when it became unreachable: refused"}},
	{name: "a note that cannot be read", away: day,
		spoil: func(w *clustertest.World) {
			withinADay(w)
			w.Node("n01").Properties[remembered.GoneSince] = "yesterday"
		},
		want: decided{row: "remove-waits"}},
	{name: "its satellite answers", away: day,
		spoil: func(w *clustertest.World) { withinADay(w); w.Node("n01").Status = linstor.StatusOnline },
		want:  decided{row: "remove-waits"}},
	{name: "its machine runs something", away: day,
		spoil: func(w *clustertest.World) { withinADay(w); w.Node("n01").Status = linstor.StatusVersionMismatch },
		want:  decided{row: "remove-waits"}},
	{name: "evacuated as far as it goes, short ago", policy: v1alpha1.NodesEvacuate, away: 59 * time.Minute,
		spoil: func(w *clustertest.World) { w.Evacuating("n01") },
		want: decided{row: "left-on-a-dead-machine", state: evacuating,
			message: "still to be moved: 2 replicas (a, b); its machine no longer exists"}},
	{name: "asked about its last copy", policy: v1alpha1.NodesEvacuate, away: day,
		spoil: func(w *clustertest.World) { w.Spread("a@n01 -") },
		want:  decided{row: "last-copy", hold: atRisk, volumes: []string{"a"}, message: "last replica of a"}},

	{name: "not known what is on it", away: day,
		spoil: func(w *clustertest.World) { wordGiven(w); w.Linstor.View.ResourcesKnown = false },
		want:  decided{row: "lost-copies-unknown", message: "not known yet"}},
	{name: "evicted, and not known what is on it", away: day,
		spoil: func(w *clustertest.World) {
			wordGiven(w)
			w.Node("n01").Flags = []string{linstor.FlagDelete, linstor.FlagEvicted}
			w.Linstor.View.ResourcesKnown = false
		},
		want: decided{row: "lost-copies-unknown", message: "not known yet"}},
	{name: "the last copy", away: day,
		spoil: func(w *clustertest.World) { withinADay(w); w.Spread("a@n01 -", "b@n01 -", "b@n03 UpToDate") },
		want: decided{row: "lost-last-copy", hold: atRisk, volumes: []string{"a"},
			message: "it may hold the last replica of a"}},
	{name: "the last copy, in spite of a human's word", away: day,
		spoil: func(w *clustertest.World) { wordGiven(w); w.Spread("a@n01 -", "a@n02 Inconsistent") },
		want: decided{row: "lost-last-copy", hold: atRisk, volumes: []string{"a"},
			message: "it may hold the last replica of a"}},
	{name: "the last copy, without DRBD", away: day,
		spoil: func(w *clustertest.World) { wordGiven(w); w.Spread("a@n01 -"); local(w) },
		want: decided{row: "lost-last-copy", hold: atRisk, volumes: []string{"a"},
			message: "volumes that do not use DRBD have no other"}},
	{name: "a copy that was asked about", away: day,
		spoil: func(w *clustertest.World) { wordGiven(w); asked(w, v1alpha1.HoldLastReplicaAtRisk) },
		want:  decided{row: "lost-last-copy", hold: atRisk, message: "not declared lost"}},
	{name: "a look at the very moment found one", away: day,
		spoil: func(w *clustertest.World) { withinADay(w); fails(w, "leave/n01", foundOne("b")) },
		want: decided{row: "lost-last-copy", hold: atRisk, volumes: []string{"b"},
			message: "it may hold the last replica of b"}},
	{name: "a connection", away: day,
		spoil: func(w *clustertest.World) {
			withinADay(w)
			w.Linstor.View.Resources[1].Connected = map[string]bool{"N01": true}
		},
		want: decided{row: "lost-connected", message: "n02 still has a DRBD connection"}},
	{name: "its time has come, and it has the only copy of a snapshot", away: day,
		spoil: func(w *clustertest.World) { withinADay(w); snapshots(w, "a/s1 n01", "b/s2 n01 n03") },
		want: decided{row: "lost-only-snapshot", hold: v1alpha1.HoldNodeGone, volumes: []string{"a", "b"},
			message: "it holds 2 snapshots; if you resume with declare-lost, you lose the only copy of 1 snapshot (a/s1)"}},
	{name: "a word that was given before a snapshot had its only copy there", away: day,
		spoil: func(w *clustertest.World) { wordGiven(w); snapshots(w, "a/s1 n01") },
		want: decided{row: "lost-only-snapshot", hold: v1alpha1.HoldNodeGone, volumes: []string{"a", "b"},
			message: "only copy of 1 snapshot (a/s1)"}},
	{name: "a word that named another snapshot", away: day,
		spoil: func(w *clustertest.World) { wordGiven(w, "a/s0"); snapshots(w, "a/s1 n01") },
		want: decided{row: "lost-only-snapshot", hold: v1alpha1.HoldNodeGone, volumes: []string{"a", "b"},
			message: "only copy of 1 snapshot (a/s1)"}},
	{name: "a word that named the snapshots", away: day,
		spoil: func(w *clustertest.World) { wordGiven(w, "a/s1", "b/s2"); snapshots(w, "b/s2 n01", "a/s1 n01") },
		want:  decided{row: "lost", state: removing, step: leaving.StepLose}},
	{name: "a word that named a snapshot that was deleted since", away: day,
		spoil: func(w *clustertest.World) { wordGiven(w, "a/s1"); snapshots(w, "a/s1 -n01") },
		want:  decided{row: "lost", state: removing, step: leaving.StepLose}},
	{name: "other nodes have its snapshots", away: day,
		spoil: func(w *clustertest.World) { withinADay(w); snapshots(w, "a/s1 n01 n02") },
		want:  decided{row: "lost", state: removing, step: leaving.StepLose}},
	{name: "its snapshots cannot be read", away: day,
		spoil: func(w *clustertest.World) { withinADay(w); w.Linstor.View.SnapshotsOn = nil },
		want:  decided{row: "lost-snapshots-unknown", message: "does not report which snapshots"}},
	{name: "its snapshots cannot be read for a moment, and were asked about", away: day,
		spoil: func(w *clustertest.World) {
			withinADay(w)
			asked(w, v1alpha1.HoldNodeGone)
			w.Linstor.View.SnapshotsOn = nil
		},
		want: decided{row: "lost-only-snapshot", hold: v1alpha1.HoldNodeGone, volumes: []string{"a", "b"}}},
	{name: "nothing but a snapshot on it, short ago", away: 59 * time.Minute,
		spoil: func(w *clustertest.World) { w.Spread(); snapshots(w, "a/s1 n01 n02") },
		want:  decided{row: "empty", state: removing, step: leaving.StepDelete}},
	{name: "nothing but a snapshot on it", away: day,
		spoil: func(w *clustertest.World) { withinADay(w); w.Spread(); snapshots(w, "a/s1 n01 n02") },
		want:  decided{row: "lost", state: removing, step: leaving.StepLose}},
	{name: "nothing but the only copy of a snapshot on it, a human is asked", away: time.Hour,
		spoil: func(w *clustertest.World) { w.Spread(); snapshots(w, "a/s1 n01") },
		want: decided{row: "gone-for-long", state: removing, hold: v1alpha1.HoldNodeGone,
			message: "only copy of 1 snapshot (a/s1)"}},
	{name: "LINSTOR refuses to give it up", away: day,
		spoil: func(w *clustertest.World) { withinADay(w); fails(w, "leave/n01", errors.New("refused")) },
		want:  decided{row: "lost-refused", state: removing, step: leaving.StepLose, message: "refused"}},
	{name: "its time has come", away: day, spoil: withinADay,
		want: decided{row: "lost", state: removing, step: leaving.StepLose, message: "is being declared lost"}},
	{name: "a human's word", away: time.Hour, spoil: func(w *clustertest.World) { wordGiven(w) },
		want: decided{row: "lost", state: removing, step: leaving.StepLose}},
	{name: "evacuated as far as it goes", policy: v1alpha1.NodesEvacuate, away: day,
		spoil: func(w *clustertest.World) { withinADay(w); w.Evacuating("n01") },
		want:  decided{row: "lost", state: removing, step: leaving.StepLose}},
	{name: "evicted by LINSTOR", policy: v1alpha1.NodesEvacuate, away: day,
		spoil: func(w *clustertest.World) {
			withinADay(w)
			w.Node("n01").Flags = []string{linstor.FlagDelete, linstor.FlagEvicted}
			delete(w.Node("n01").Properties, remembered.LeavingAdmitted)
		},
		want: decided{row: "lost", state: removing, step: leaving.StepLose}},
	{name: "being deleted by somebody", away: day,
		spoil: func(w *clustertest.World) {
			withinADay(w)
			w.Node("n01").Flags = []string{linstor.FlagDelete}
			delete(w.Node("n01").Properties, remembered.LeavingAdmitted)
		},
		want: decided{row: "lost", state: removing, step: leaving.StepLose}},
	{name: "its time has not come", away: day - time.Second, spoil: withinADay,
		want: decided{row: "lost-later", message: "2026-03-01T12:00:01Z"}},
	{name: "its time has not come, and its last copy was asked about", policy: v1alpha1.NodesEvacuate,
		away:  day - time.Second,
		spoil: func(w *clustertest.World) { withinADay(w); w.Spread("a@n01 -") },
		want: decided{row: "lost-later", hold: atRisk, volumes: []string{"a"},
			message: "2026-03-01T12:00:01Z"}},
	{name: "no policy, a human is asked", away: time.Hour, spoil: func(*clustertest.World) {},
		want: decided{row: "gone-for-long", hold: v1alpha1.HoldNodeGone, volumes: []string{"a", "b"},
			message: "replicas of a, b"}},
	{name: "another machine in its place", away: time.Hour, spoil: impostor,
		want: decided{row: "gone-for-long", hold: v1alpha1.HoldNodeGone, volumes: []string{"a", "b"},
			message: "connected to node n09"}},
	{name: "evacuated as far as it goes, a human is asked", policy: v1alpha1.NodesEvacuate, away: time.Hour,
		spoil: func(w *clustertest.World) { w.Evacuating("n01") },
		want: decided{row: "gone-for-long", state: evacuating, hold: v1alpha1.HoldNodeGone,
			volumes: []string{"a", "b"}, message: "replicas of a, b"}},
}

func TestGoneNodes(t *testing.T) {
	for _, tc := range goneScenarios {
		t.Run(tc.name, func(t *testing.T) {
			w := clustertest.GoneWorld(t, cmp.Or(tc.policy, v1alpha1.NodesRemove), tc.away)
			tc.spoil(w)
			tc.want.check(t, w.LeaveOf("n01"))
		})
	}
	w := clustertest.GoneWorld(t, v1alpha1.NodesRemove, day)
	delete(w.Linstor.View.Nodes, "n01")
	if ls := leaving.AllLeavers(w.Snapshot()); len(ls) > 0 {
		t.Errorf("%s leaves, and LINSTOR does not have it", ls[0].Name)
	}
}
