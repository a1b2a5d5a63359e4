package nodelabels_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/holdkind"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/leaving"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/nodelabels"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/registration"
	"github.com/linstor-dev/storagecluster-operator/pkg/remembered"
)

const unlabelled = "label n02 member=- os=- platform=-"

// In whatever phase and during whatever hold: the kubelet of the new machine starts the satellite, and LINSTOR makes
// its volumes there.
func TestABarredMemberLosesItsLabelsInEveryPhase(t *testing.T) {
	decide := func(t *testing.T, w *clustertest.World) []string {
		t.Helper()
		in, r := w.Input()
		phases.Decide(t.Context(), in)
		return slices.DeleteFunc(r.Calls, func(call string) bool { return !strings.HasPrefix(call, "label n02") })
	}
	for _, s := range fsm.Cluster().States {
		state := s.State
		t.Run(string(state), func(t *testing.T) {
			w := clustertest.ReplacedWorld(t)
			switch state {
			case fsm.Upgrading:
				w.Upgrading(v1alpha1.UpgradePrechecks)
			case fsm.Deleting:
				w.Cluster.DeletionTimestamp = clustertest.At(clustertest.Begin)
				fallthrough
			default:
				w.Phase(v1alpha1.Phase(state), 0)
			}
			if got := decide(t, w); !slices.Equal(got, []string{unlabelled}) {
				t.Errorf("calls %v", got)
			}
			w.Cluster.Spec.Suspend = true
			if got := decide(t, w); len(got) > 0 {
				t.Errorf("suspended: %v", got)
			}
		})
	}
	for _, kind := range holdkind.All() {
		t.Run(string(kind.Reason), func(t *testing.T) {
			w := clustertest.ReplacedWorld(t)
			w.Phase(v1alpha1.PhaseHumanIntervention, 0)
			w.Cluster.Status.Hold = &v1alpha1.Hold{ID: "h-1", Reason: kind.Reason, Message: "m", Options: kind.Options}
			if got := decide(t, w); !slices.Equal(got, []string{unlabelled}) {
				t.Errorf("calls %v", got)
			}
		})
	}
}

// TestAServingSatelliteIsNotBarredByAMissedConnection: on the pod network its labels take replication with them.
func TestAServingSatelliteIsNotBarredByAMissedConnection(t *testing.T) {
	for name, tc := range map[string]struct {
		down    time.Duration // since when LINSTOR is not connected to it
		answers time.Duration // since when LINSTOR answers
		barred  bool
	}{
		"LINSTOR has just started":     {time.Hour, 2 * time.Second, false},
		"the connection has just gone": {2 * time.Second, time.Hour, false},
		"it stays away":                {time.Hour, time.Hour, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := clustertest.ReplacedWorld(t)
			w.PutPod(v1alpha1.ComponentSatellite, "n02", w.ReadyPod(v1alpha1.ComponentSatellite, "n02"))
			w.Satellite("n02").Spec.HostNetwork = false
			w.Node("n02").Status = linstor.StatusOffline
			w.LinkDown("n02", tc.down)
			w.Condition(conditions.Available, metav1.ConditionTrue, tc.answers)
			in, r := w.Input()
			if err := nodelabels.Bar(t.Context(), in); err != nil {
				t.Fatal(err)
			}
			if barred := slices.Contains(r.Calls, unlabelled); barred != tc.barred {
				t.Errorf("calls %v", r.Calls)
			}
		})
	}
}

// A node that leaves runs on another machine: its labels go as well, nothing is evacuated or deleted, and a human is
// asked.
func TestALeavingNodeOnAnotherMachineStops(t *testing.T) {
	for _, tc := range []struct {
		name   string
		policy v1alpha1.NodeRemovalPolicy
		spoil  func(w *clustertest.World)
		state  v1alpha1.LeavingState
		step   cluster.LeaveStep
	}{
		{"it has just begun to leave", v1alpha1.NodesEvacuate, func(*clustertest.World) {}, v1alpha1.LeavingWaiting,
			leaving.StepNone},
		{"it may go", v1alpha1.NodesEvacuate, func(w *clustertest.World) { w.LeavingSince("n02") }, v1alpha1.LeavingWaiting,
			leaving.StepNone},
		{"it is evacuated", v1alpha1.NodesEvacuate,
			func(w *clustertest.World) { w.LeavingSince("n02"); w.Evacuating("n02") }, v1alpha1.LeavingWaiting,
			leaving.StepNone},
		{"it is empty", v1alpha1.NodesRemove, func(w *clustertest.World) { w.LeavingSince("n02"); w.Spread() },
			v1alpha1.LeavingWaiting, leaving.StepNone},
		{"it stays in LINSTOR", v1alpha1.NodesRetain, func(*clustertest.World) {}, v1alpha1.LeavingRetained,
			leaving.StepNone},
		{"its evacuation was taken back", v1alpha1.NodesRetain,
			func(w *clustertest.World) { w.LeavingSince("n02"); w.Evacuating("n02") }, v1alpha1.LeavingRetained,
			leaving.StepUndo},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := clustertest.NewWorld(t, 10)
			w.Leaves(tc.policy, "n02")
			w.Spread("a@n02 UpToDate", "a@n03 UpToDate")
			tc.spoil(w)
			w.KubeNode("n02").Status.NodeInfo.SystemUUID = "new"
			l := w.LeaveOf("n02")
			if l.State != tc.state || l.Step != tc.step || l.Hold != v1alpha1.HoldMachineReplaced ||
				!strings.Contains(l.Message, "a different machine") {
				t.Errorf("%+v", l)
			}
			if got := clustertest.Labelled(t, w); !slices.Equal(got, []string{unlabelled}) {
				t.Errorf("labels: %v", got)
			}
			holds := phases.NodeHolds(w.Snapshot(), true, nil)
			if len(holds) != 1 || holds[0].Reason != v1alpha1.HoldMachineReplaced ||
				!strings.Contains(holds[0].Message, "systemUUID new") {
				t.Errorf("holds %+v", holds)
			}
			if p := w.Snapshot().MemberByName("n02").Problem; p == nil || p.Hold != v1alpha1.HoldMachineReplaced {
				t.Errorf("problem %+v", p)
			}
		})
	}
}

// What a human says of it lets it go on: with its disks it gets its satellite back, so that its data can leave;
// without them it goes.
func TestALeavingNodeGoesOnAfterTheAnswer(t *testing.T) {
	going := func() *clustertest.World {
		w := clustertest.NewWorld(t, 10)
		w.Leaves(v1alpha1.NodesEvacuate, "n02")
		w.LeavingSince("n02")
		w.Spread("a@n02 UpToDate", "a@n03 UpToDate")
		w.KubeNode("n02").Status.NodeInfo.SystemUUID = "new"
		for _, key := range []string{v1alpha1.LabelMember, v1alpha1.LabelOS, v1alpha1.LabelPlatform} {
			delete(w.KubeNode("n02").Labels, key)
		}
		return w
	}
	w := going()
	if got := clustertest.Labelled(t, w); got != nil {
		t.Errorf("before the answer: %v", got)
	}
	w.Node("n02").Properties[remembered.SystemUUID] = "new"
	if got := clustertest.Labelled(t, w); !slices.Equal(got,
		[]string{"label n02 member=linstor os=noble platform=generic"}) {
		t.Errorf("adopted: %v", got)
	}
	if l := w.LeaveOf("n02"); l.Step != leaving.StepEvacuate {
		t.Errorf("adopted: %+v", l)
	}
	w.Spread()
	if got := clustertest.Labelled(t, w); got != nil {
		t.Errorf("adopted, and it holds nothing: %v", got)
	}

	w = going()
	w.Spread("a@n02 -", "a@n03 UpToDate") // the new machine does not have the volume
	w.Node("n02").Properties[remembered.MachineReplaced] = "new"
	in, r := w.Input()
	if l := w.LeaveOf("n02"); l.Hold != "" || !strings.Contains(l.Message, "which completes the removal of the node") {
		t.Errorf("given up: %+v", l)
	}
	if err := registration.Link().Work(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	r.Now = w.Linstor.View
	if err := r.Run(t, "replace/n02"); err != nil || !slices.Contains(r.Calls, "lose node n02") {
		t.Errorf("given up: %v, %v", err, r.Calls)
	}
}
