package leaving_test

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/leaving"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/replica"
	"github.com/linstor-dev/storagecluster-operator/pkg/remembered"
	"github.com/linstor-dev/storagecluster-operator/pkg/work"
)

// decided is what a scenario expects about n01, and which row decides so.
type decided struct {
	row     string
	state   v1alpha1.LeavingState // Waiting if empty
	step    cluster.LeaveStep
	hold    v1alpha1.HoldReason
	volumes []string
	message string // a part of it
}

func (d *decided) check(t *testing.T, l *cluster.Leave) {
	t.Helper()
	row := leaving.RowOf(l)
	if row != d.row || l.State != cmp.Or(d.state, v1alpha1.LeavingWaiting) || l.Step != d.step || l.Hold != d.hold ||
		!slices.Equal(l.Resources, d.volumes) || !strings.Contains(l.Message, d.message) {
		t.Errorf("got %s %+v, want %+v", row, *l, *d)
	}
}

const (
	evacuating, removing = v1alpha1.LeavingEvacuating, v1alpha1.LeavingRemoving
	atRisk, stuckHold    = v1alpha1.HoldLastReplicaAtRisk, v1alpha1.HoldEvacuationStuck
)

var timing = cluster.DefaultTiming()

// note writes a time that the operator remembers of n01.
func note(w *clustertest.World, key string, ago time.Duration) {
	w.Node("n01").Properties[key] = clustertest.Ago(ago)
}

func fails(w *clustertest.World, task string, err error) {
	w.Tasks[task] = work.State{Attempts: 1, Err: err}
}

// foundOne is the error of a step that found a last copy.
func foundOne(volume string) error {
	return fmt.Errorf("x: %w", &replica.LastReplicaError{Node: "n01", Resources: []string{volume}})
}

// asked opens a hold about n01.
func asked(w *clustertest.World, reason v1alpha1.HoldReason) {
	w.Cluster.Status.NodeHolds = []v1alpha1.Hold{{ID: "h-1", Reason: reason, Nodes: []string{"n01"}}}
}

// local takes DRBD out of all copies.
func local(w *clustertest.World) {
	for i := range w.Linstor.View.Resources {
		w.Linstor.View.Resources[i].Local = true
	}
}

func replaced(w *clustertest.World) { w.KubeNode("n01").Status.NodeInfo.SystemUUID = "new" }

// givenUp is n01 on another machine, with a human's word that the data of the earlier one is gone.
func givenUp(w *clustertest.World) {
	replaced(w)
	w.Node("n01").Properties[remembered.MachineReplaced] = "new"
}

// standsStill is an evacuation of n01 that stopped some time ago.
func standsStill(w *clustertest.World, ago time.Duration, copies ...string) {
	w.Evacuating("n01")
	note(w, remembered.EvacuateStuck, ago)
	w.Spread(copies...)
}

// scenario is about a member n01 that leaves, among five.
type scenario struct {
	name   string
	policy v1alpha1.NodeRemovalPolicy // Evacuate if empty
	// new says that it was not noted before that it leaves, nor that it may.
	new   bool
	spoil func(*clustertest.World)
	want  decided
}

var leavingScenarios = []scenario{
	{name: "not in LINSTOR", policy: v1alpha1.NodesRemove,
		spoil: func(w *clustertest.World) { delete(w.Linstor.View.Nodes, "n01") },
		want: decided{row: "not-registered", state: removing, step: leaving.StepForget,
			message: "it is not registered in LINSTOR"}},
	{name: "retained, and never registered", policy: v1alpha1.NodesRetain,
		spoil: func(w *clustertest.World) { delete(w.Linstor.View.Nodes, "n01") },
		want:  decided{row: "not-registered", state: removing, step: leaving.StepForget}},
	{name: "retained after another policy, on a machine that was given up", policy: v1alpha1.NodesRetain, spoil: givenUp,
		want: decided{row: "given-up-again", state: v1alpha1.LeavingRetained, step: leaving.StepUndo,
			message: "the earlier machine is removed from LINSTOR, which completes the removal"}},
	{name: "retained, on a machine that was given up", policy: v1alpha1.NodesRetain, new: true, spoil: givenUp,
		want: decided{row: "given-up", state: v1alpha1.LeavingRetained, message: "the earlier machine is removed"}},
	{name: "on a machine that was given up", spoil: givenUp,
		want: decided{row: "given-up", message: "the earlier machine is removed"}},
	{name: "retained after another policy, on another machine", policy: v1alpha1.NodesRetain, spoil: replaced,
		want: decided{row: "replaced-again", state: v1alpha1.LeavingRetained, step: leaving.StepUndo,
			hold: v1alpha1.HoldMachineReplaced, message: "a different machine (systemUUID new)"}},
	{name: "retained, on another machine", policy: v1alpha1.NodesRetain, new: true, spoil: replaced,
		want: decided{row: "replaced", state: v1alpha1.LeavingRetained, hold: v1alpha1.HoldMachineReplaced}},
	{name: "on another machine", spoil: replaced,
		want: decided{row: "replaced", hold: v1alpha1.HoldMachineReplaced, message: "a different machine (systemUUID new)"}},
	{name: "retained after another policy", policy: v1alpha1.NodesRetain, spoil: func(*clustertest.World) {},
		want: decided{row: "retained-again", state: v1alpha1.LeavingRetained, step: leaving.StepUndo,
			message: "under removalPolicy Retain, its satellite"}},
	{name: "retained", policy: v1alpha1.NodesRetain, new: true, spoil: func(*clustertest.World) {},
		want: decided{row: "retained", state: v1alpha1.LeavingRetained, message: "Retain, its satellite"}},
	{name: "LINSTOR silent", spoil: func(w *clustertest.World) { w.Silent(errors.New("refused")) },
		want: decided{row: "unknown", message: "does not respond"}},
	{name: "under maintenance",
		spoil: func(w *clustertest.World) {
			w.KubeNode("n01").Annotations = map[string]string{v1alpha1.AnnotationMaintenance: ""}
		},
		want: decided{row: "maintenance", message: "maintenance"}},
	{name: "evicted",
		spoil: func(w *clustertest.World) { w.Node("n01").Flags = []string{linstor.FlagDelete, linstor.FlagEvicted} },
		want:  decided{row: "evicted", step: leaving.StepStuck, message: "evicted"}},
	{name: "evicted for long",
		spoil: func(w *clustertest.World) {
			w.Node("n01").Flags = []string{linstor.FlagDelete, linstor.FlagEvicted}
			note(w, remembered.EvacuateStuck, timing.EvacuationStuck)
		},
		want: decided{row: "evicted-for-long", hold: stuckHold, message: "evicted"}},
	{name: "evicted for less long",
		spoil: func(w *clustertest.World) {
			w.Node("n01").Flags = []string{linstor.FlagDelete, linstor.FlagEvicted}
			note(w, remembered.EvacuateStuck, timing.EvacuationStuck-time.Second)
		},
		want: decided{row: "evicted-noted", message: "evicted"}},
	{name: "marked for deletion, and LINSTOR refuses it",
		spoil: func(w *clustertest.World) {
			w.Node("n01").Flags = []string{linstor.FlagDelete}
			fails(w, "leave/n01", errors.New("refused"))
		},
		want: decided{row: "deleted-refused", step: leaving.StepDelete, message: "refused"}},
	{name: "marked for deletion, and nothing waits",
		spoil: func(w *clustertest.World) { w.Node("n01").Flags = []string{linstor.FlagDelete} },
		want:  decided{row: "deleted-empty", state: removing, step: leaving.StepDelete, message: "it is empty"}},
	{name: "being deleted, with copies",
		spoil: func(w *clustertest.World) {
			w.Spread("a@n01 UpToDate", "a@n02 UpToDate")
			w.Node("n01").Flags = []string{linstor.FlagDelete}
		},
		want: decided{row: "deleted", state: removing, message: "will delete it"}},
	{name: "being deleted by somebody", new: true,
		spoil: func(w *clustertest.World) { w.Node("n01").Flags = []string{linstor.FlagDelete} },
		want:  decided{row: "deleted", state: removing, message: "will delete it"}},

	{name: "just begun, and another one too", new: true,
		spoil: func(w *clustertest.World) { w.Leaves(v1alpha1.NodesEvacuate, "n02") },
		want: decided{row: "new-among-many", step: leaving.StepNote, hold: v1alpha1.HoldTooManyNodesLeaving,
			message: "2 of 5 nodes are leaving at once, which requires approval"}},
	{name: "long enough ago, and another one has just begun", new: true,
		spoil: func(w *clustertest.World) {
			w.Leaves(v1alpha1.NodesEvacuate, "n02")
			note(w, remembered.Leaving, time.Hour)
		},
		want: decided{row: "one-of-many", hold: v1alpha1.HoldTooManyNodesLeaving,
			message: "2 of 5 nodes are leaving at once"}},
	{name: "just begun", new: true, spoil: func(*clustertest.World) {},
		want: decided{row: "new", step: leaving.StepNote,
			message: "retired:NoSchedule; under removalPolicy Evacuate, LINSTOR will start moving its data in 30s"}},
	{name: "let go, and not noted",
		spoil: func(w *clustertest.World) { delete(w.Node("n01").Properties, remembered.Leaving) },
		want:  decided{row: "new", step: leaving.StepNote}},
	{name: "what is noted is refused", new: true,
		spoil: func(w *clustertest.World) { fails(w, "leave/n01", errors.New("refused")) },
		want:  decided{row: "new", step: leaving.StepNote, message: "will start moving its data in 30s: refused"}},
	{name: "short ago", new: true,
		spoil: func(w *clustertest.World) { note(w, remembered.Leaving, timing.Leave-time.Second) },
		want:  decided{row: "announced", message: "will start moving its data at 2026-03-01T12:00:01Z"}},
	{name: "long enough ago", new: true, spoil: func(w *clustertest.World) { note(w, remembered.Leaving, timing.Leave) },
		want: decided{row: "due", step: leaving.StepAdmit, message: "at 2026-03-01T12:00:00Z"}},

	{name: "copies not known", spoil: func(w *clustertest.World) { w.Linstor.View.ResourcesKnown = false },
		want: decided{row: "copies-unknown", message: "not known yet"}},
	{name: "empty but for snapshots",
		spoil: func(w *clustertest.World) { fails(w, "leave/n01", errors.New("node n01 holds 1 snapshot: a/s")) },
		want:  decided{row: "empty-refused", step: leaving.StepDelete, message: "holds 1 snapshot"}},
	{name: "empty", spoil: func(w *clustertest.World) { w.Evacuating("n01"); w.Spread("a@n02 UpToDate") },
		want: decided{row: "empty", state: removing, step: leaving.StepDelete, message: "it is empty"}},
	{name: "removed: empty", policy: v1alpha1.NodesRemove, spoil: func(*clustertest.World) {},
		want: decided{row: "empty", state: removing, step: leaving.StepDelete}},
	{name: "removed: waits until empty", policy: v1alpha1.NodesRemove,
		spoil: func(w *clustertest.World) { w.Spread("a@n01 UpToDate", "b@n01 Diskless DISKLESS", "a@n02 UpToDate") },
		want:  decided{row: "remove-waits", message: "holds 2 replicas (a, b)"}},
	{name: "taken back by hand",
		spoil: func(w *clustertest.World) {
			w.Evacuating("n01")
			w.Node("n01").Flags = nil
			w.Spread("a@n01 UpToDate")
		},
		want: decided{row: "taken-back", hold: stuckHold, message: "linstor node restore"}},
	{name: "asked",
		spoil: func(w *clustertest.World) {
			note(w, remembered.EvacuateAsked, timing.EvacuationAnswer-time.Second)
			w.Spread("a@n01 UpToDate")
		},
		want: decided{row: "asked", state: evacuating, message: "has not started"}},
	{name: "asked in vain",
		spoil: func(w *clustertest.World) {
			note(w, remembered.EvacuateAsked, timing.EvacuationAnswer)
			w.Spread("a@n01 UpToDate")
		},
		want: decided{row: "asked-in-vain", state: evacuating, step: leaving.StepEvacuate, message: "sent again"}},
	{name: "begun",
		spoil: func(w *clustertest.World) {
			w.Evacuating("n01")
			delete(w.Node("n01").Properties, remembered.EvacuateSeen)
			w.Spread("a@n01 UpToDate EVACUATE", "a@n02 Inconsistent")
		},
		want: decided{row: "begun", state: evacuating, step: leaving.StepConfirm,
			message: "still to be moved: 1 replica (a)"}},
	{name: "moving again",
		spoil: func(w *clustertest.World) { standsStill(w, time.Hour, "a@n01 UpToDate EVACUATE", "a@n02 Inconsistent") },
		want: decided{row: "moves-again", state: evacuating, step: leaving.StepMoving,
			message: "still to be moved: 1 replica (a)"}},
	{name: "moving",
		spoil: func(w *clustertest.World) {
			w.Evacuating("n01")
			w.Spread("a@n01 UpToDate EVACUATE", "a@n02 Inconsistent", "b@n01 UpToDate EVACUATE")
		},
		want: decided{row: "moves", state: evacuating, message: "still to be moved: 2 replicas (a, b)"}},
	{name: "begun by hand",
		spoil: func(w *clustertest.World) {
			w.Node("n01").Flags = []string{linstor.FlagEvacuate}
			w.Spread("a@n01 UpToDate EVACUATE", "a@n02 Inconsistent")
		},
		want: decided{row: "moves", state: evacuating, message: "still to be moved: 1 replica (a)"}},
	{name: "standing still",
		spoil: func(w *clustertest.World) { w.Evacuating("n01"); w.Spread("a@n01 UpToDate EVACUATE", "a@n02 UpToDate") },
		want: decided{row: "stops", state: evacuating, step: leaving.StepStuck,
			message: "still to be moved: 1 replica (a)"}},
	{name: "standing still with the last copy",
		spoil: func(w *clustertest.World) { standsStill(w, timing.EvacuationStuck, "a@n01 UpToDate EVACUATE") },
		want: decided{row: "no-place-for-the-last-copy", state: evacuating, hold: atRisk, volumes: []string{"a"},
			message: "LINSTOR cannot find another node for the last up-to-date replica of a"}},
	{name: "standing still with a copy that was asked about",
		spoil: func(w *clustertest.World) {
			standsStill(w, timing.EvacuationStuck, "a@n01 UpToDate EVACUATE", "a@n02 UpToDate")
			asked(w, atRisk)
		},
		want: decided{row: "no-place-for-the-last-copy", state: evacuating, hold: atRisk,
			message: "the hold for this reason is still open"}},
	{name: "standing still for long, with a volume without DRBD that is elsewhere, too",
		spoil: func(w *clustertest.World) {
			standsStill(w, timing.EvacuationStuck, "a@n01 UpToDate EVACUATE", "a@n02 UpToDate", "b@n01 LOCAL", "b@n02 LOCAL")
		},
		want: decided{row: "no-place-for-the-last-copy", state: evacuating, hold: atRisk, volumes: []string{"b"},
			message: "LINSTOR cannot move volumes that do not use DRBD (b)"}},
	{name: "standing still for long",
		spoil: func(w *clustertest.World) {
			standsStill(w, timing.EvacuationStuck, "a@n01 UpToDate EVACUATE", "a@n02 UpToDate")
		},
		want: decided{row: "stuck", state: evacuating, hold: stuckHold, volumes: []string{"a"},
			message: "is not moving 1 replica (a)"}},
	{name: "standing still for less long",
		spoil: func(w *clustertest.World) {
			standsStill(w, timing.EvacuationStuck-time.Second, "a@n01 UpToDate EVACUATE")
		},
		want: decided{row: "stands-still", state: evacuating, message: "still to be moved: 1 replica (a)"}},
	{name: "new copies still come",
		spoil: func(w *clustertest.World) {
			delete(w.Node("n01").Properties, linstor.PropAutoplace)
			w.Spread("a@n01 UpToDate", "a@n02 UpToDate")
		},
		want: decided{row: "still-placed", message: "once new placements"}},
	{name: "LINSTOR does not keep that no new copies come",
		spoil: func(w *clustertest.World) {
			delete(w.Node("n01").Properties, linstor.PropAutoplace)
			w.Spread("a@n01 UpToDate", "a@n02 UpToDate")
			fails(w, "placement/n01", errors.New("refused"))
		},
		want: decided{row: "still-placed", message: "disabled; n01: refused"}},
	{name: "offline",
		spoil: func(w *clustertest.World) { w.Node("n01").Status = linstor.StatusOffline; w.Spread("a@n01 -") },
		want:  decided{row: "offline", step: leaving.StepStuck, message: "OFFLINE"}},
	{name: "offline for long",
		spoil: func(w *clustertest.World) {
			w.Node("n01").Status = linstor.StatusOffline
			note(w, remembered.EvacuateStuck, timing.EvacuationStuck)
			w.Spread("a@n01 -")
		},
		want: decided{row: "offline-for-long", hold: stuckHold, message: "OFFLINE"}},
	{name: "offline for less long",
		spoil: func(w *clustertest.World) {
			w.Node("n01").Status = linstor.StatusOffline
			note(w, remembered.EvacuateStuck, timing.EvacuationStuck-time.Second)
			w.Spread("a@n01 -")
		},
		want: decided{row: "offline-noted", message: "OFFLINE"}},
	{name: "back from offline",
		spoil: func(w *clustertest.World) { note(w, remembered.EvacuateStuck, time.Hour); w.Spread("a@n01 UpToDate") },
		want:  decided{row: "online-again", step: leaving.StepMoving, message: "ONLINE again"}},
	{name: "a last copy that LINSTOR would drop",
		spoil: func(w *clustertest.World) { w.Spread("a@n01 Outdated", "b@n01 UpToDate") },
		want: decided{row: "last-copy", hold: atRisk, volumes: []string{"a"},
			message: "it may hold the last replica of a, but that replica is not known to be up to date"}},
	{name: "one without DRBD", spoil: func(w *clustertest.World) { w.Spread("a@n01 Outdated"); local(w) },
		want: decided{row: "last-copy", hold: atRisk, volumes: []string{"a"},
			message: "LINSTOR cannot move volumes that do not use DRBD (a)"}},
	{name: "a look at the very moment found one",
		spoil: func(w *clustertest.World) { w.Spread("b@n01 UpToDate"); fails(w, "leave/n01", foundOne("b")) },
		want:  decided{row: "last-copy", hold: atRisk, volumes: []string{"b"}, message: "last replica of b"}},
	{name: "offline, with a copy that was asked about",
		spoil: func(w *clustertest.World) {
			w.Node("n01").Status = linstor.StatusOffline
			w.Spread("a@n01 UpToDate")
			asked(w, atRisk)
		},
		want: decided{row: "last-copy", hold: atRisk, message: "the hold for this reason is still open"}},
	{name: "not its turn",
		spoil: func(w *clustertest.World) {
			w.Leaves(v1alpha1.NodesEvacuate, "n02")
			w.LeavingSince("n02")
			w.Evacuating("n02")
			w.Spread("a@n01 UpToDate", "b@n02 UpToDate EVACUATE", "b@n03 Inconsistent")
		},
		want: decided{row: "no-slot", message: "maxConcurrentEvacuations"}},
	{name: "its turn", spoil: func(w *clustertest.World) { w.Spread("a@n01 UpToDate", "b@n02 UpToDate") },
		want: decided{row: "evacuate", state: evacuating, step: leaving.StepEvacuate, message: "1 replica (a)"}},
}

func (tc *scenario) run(t *testing.T) {
	w := clustertest.NewWorld(t, 5)
	w.Leaves(cmp.Or(tc.policy, v1alpha1.NodesEvacuate), "n01")
	if !tc.new {
		w.LeavingSince("n01")
	}
	tc.spoil(w)
	s := w.Snapshot()
	m := s.MemberByName("n01")
	tc.want.check(t, m.Leave)
	if m.State != v1alpha1.NodeLeaving || (m.Problem != nil) != m.Replaced {
		t.Errorf("member %s, problem %+v", m.State, m.Problem)
	}
	if left := len(s.Members) - len(leaving.AllLeavers(s)); s.Counted() != left || s.MemberByName("n05").Leave != nil {
		t.Errorf("%d counted, %d stay", s.Counted(), left)
	}
	if s.Linstor.Known() && s.Health.Degraded {
		t.Errorf("health %+v", s.Health)
	}
}

func TestLeavingSteps(t *testing.T) {
	for _, tc := range slices.Concat(leavingScenarios, drbdScenarios) {
		t.Run(tc.name, tc.run)
	}
}

// Each row decides in some scenario, and has a name of its own.
func TestEachRowIsReached(t *testing.T) {
	reached := map[string]bool{}
	for _, tc := range slices.Concat(leavingScenarios, drbdScenarios, etcdScenarios) {
		reached[tc.want.row] = true
	}
	for _, tc := range goneScenarios {
		reached[tc.want.row] = true
	}
	named := map[string]bool{}
	for _, name := range leaving.Rows() {
		if named[name] {
			t.Errorf("two rows are named %s", name)
		}
		if named[name] = true; !reached[name] {
			t.Errorf("no scenario reaches %s", name)
		}
	}
}
