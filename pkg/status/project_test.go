package status

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/volumespec"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
)

func transition(s *cluster.Snapshot, e fsm.Event, to fsm.State, message string) Input {
	return Input{Snapshot: s, Outcome: step.Move(e, string(e), message),
		Transition: &fsm.Transition{From: fsm.State(s.Phase()), Event: e, To: to}}
}

func TestAllConditionsArePresentFromTheFirstWrite(t *testing.T) {
	s := judged(t, "", 0)
	s.Target, s.Linstor = nil, cluster.Linstor{}
	s.Cluster.Status = v1alpha1.StorageClusterStatus{}
	st := Project(resting(s))
	want := map[string]metav1.ConditionStatus{
		"Ready": "False", "Reconciling": "True", "Stalled": "False", "Available": "Unknown", "Degraded": "False",
		"HumanInterventionRequired": "False",
		"Suspended":                 "False", "KernelModuleLoaded": "Unknown", "DatabaseReady": "Unknown",
		"ControllerReady": "Unknown",
		"SatellitesReady": "Unknown",
		"NodesRegistered": "Unknown", "StoragePoolsReady": "Unknown", "MassFailure": "Unknown", "PoolsNearlyFull": "Unknown",
		"VolumesHealthy": "Unknown", "VolumeDriverReady": "Unknown", "StorageClassesReady": "Unknown",
		"SnapshotsReady": "Unknown", "CanaryPassed": "Unknown",
		"MonitoringReady": "Unknown", "HighAvailabilityReady": "Unknown", "DrainGuardReady": "Unknown",
		"AffinityReady": "Unknown", "BackupReady": "Unknown", "CertificatesValid": "Unknown",
	}
	got := map[string]metav1.ConditionStatus{}
	for i, c := range st.Conditions {
		got[c.Type] = c.Status
		if c.Type != conditions.Types()[i] {
			t.Errorf("condition %d is %s", i, c.Type)
		}
		if c.Reason == "" || c.ObservedGeneration != 3 || !c.LastTransitionTime.Equal(ptr.To(metav1.NewTime(begin))) {
			t.Errorf("incomplete: %+v", c)
		}
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if st.Phase != v1alpha1.PhasePending || st.PhaseSince == nil || st.ObservedGeneration != 3 {
		t.Errorf("phase %s since %v, generation %d", st.Phase, st.PhaseSince, st.ObservedGeneration)
	}
}

func TestConditions(t *testing.T) {
	silent := func(s *cluster.Snapshot) {
		s.Linstor = cluster.Linstor{Asked: true, Err: errors.New("refused")}
		s.Health = cluster.Health{Degraded: true, Reason: "ControllerUnreachable"}
		s.Evidence = map[fsm.State]cluster.Evidence{fsm.NodeRegistration: {State: cluster.Unknown,
			Reason: conditions.ReasonUnknown}}
	}
	held := func(s *cluster.Snapshot) {
		s.Cluster.Status.Hold = &v1alpha1.Hold{ID: "h-1", Reason: v1alpha1.HoldDeviceMissing, Message: "no disk"}
	}
	for _, tc := range []struct {
		name    string
		phase   v1alpha1.Phase
		members int
		spoil   func(*cluster.Snapshot)
		outcome *step.Outcome
		want    map[string]string // condition: status/reason
	}{
		{name: "degraded but usable", phase: v1alpha1.PhaseDegraded, members: 10, spoil: lose(1), want: map[string]string{
			"Ready": "True/Degraded", "Reconciling": "False/Degraded", "Available": "True/ControllerAnswers"}},
		{name: "degraded and below minReady", phase: v1alpha1.PhaseDegraded, members: 10, spoil: lose(2),
			want: map[string]string{"Ready": "False/"}},
		{name: "degraded, LINSTOR silent", phase: v1alpha1.PhaseDegraded, members: 3, spoil: silent, want: map[string]string{
			"Ready": "False/ControllerUnreachable", "Degraded": "True/ControllerUnreachable",
			"Available": "False/ControllerUnreachable", "NodesRegistered": "Unknown/Unknown"}},
		{name: "ready, LINSTOR silent for a moment", phase: v1alpha1.PhaseReady, members: 3, spoil: and(silent, wasReady),
			want: map[string]string{
				"Ready": "True/Ready", "Available": "False/ControllerUnreachable"}},
		{name: "nodes join while a spec is refused", phase: v1alpha1.PhaseHumanIntervention, members: 3,
			spoil: and(installed, refused, join(2)), want: map[string]string{
				"Degraded": "False/HumanIntervention"}},
		{name: "nodes join while a spec is refused, and one is down", phase: v1alpha1.PhaseHumanIntervention, members: 3,
			spoil: and(installed, refused, join(2), lose(1)),
			want:  map[string]string{"Degraded": "True/NodesMissing"}},
		{name: "no members", phase: v1alpha1.PhaseReady, members: 0,
			want: map[string]string{"Ready": "False/NoMatchingNodes"}},
		{name: "working", phase: v1alpha1.PhaseSatellites, members: 3, want: map[string]string{
			"Ready": "False/Satellites", "Reconciling": "True/Satellites", "Degraded": "False/Satellites",
			"Stalled": "False/NoHold"}},
		{name: "working fails", phase: v1alpha1.PhaseSatellites, members: 3, outcome: ptr.To(step.Fail(errors.New("boom"))),
			want: map[string]string{
				"Reconciling": "True/Error"}},
		{name: "held, and a step fails", phase: v1alpha1.PhaseHumanIntervention, members: 3, spoil: held,
			outcome: ptr.To(step.Fail(errors.New("boom"))), want: map[string]string{
				"Stalled": "True/DeviceMissing", "Reconciling": "False/HumanIntervention"}},
		{name: "suspended", phase: v1alpha1.PhaseSatellites, members: 3,
			spoil: func(s *cluster.Snapshot) { s.Cluster.Spec.Suspend = true }, want: map[string]string{
				"Suspended": "True/Suspended", "Reconciling": "False/Suspended"}},
		{name: "held before it was ever installed", phase: v1alpha1.PhaseHumanIntervention, members: 3, spoil: held,
			want: map[string]string{
				"Ready": "False/HumanIntervention", "Stalled": "True/DeviceMissing",
				"HumanInterventionRequired": "True/DeviceMissing",
				"Reconciling":               "False/HumanIntervention", "Degraded": "False/HumanIntervention"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := judged(t, tc.phase, tc.members)
			if tc.spoil != nil {
				tc.spoil(s)
			}
			in := resting(s)
			if tc.outcome != nil {
				in.Outcome = *tc.outcome
			}
			st := Project(in)
			for kind, want := range tc.want {
				c := meta.FindStatusCondition(st.Conditions, kind)
				if got := string(c.Status) + "/" + c.Reason; got != want && (want[len(want)-1] != '/' || got[:len(want)] != want) {
					t.Errorf("%s is %s (%s), want %s", kind, got, c.Message, want)
				}
			}
		})
	}
}

func TestTransitionTimesAreKept(t *testing.T) {
	s := judged(t, v1alpha1.PhaseDegraded, 3)
	first := Project(resting(s))
	later := next(s, first, time.Hour)
	later.Linstor = cluster.Linstor{Asked: true, Err: errors.New("refused")}
	second := Project(resting(later))
	for _, c := range second.Conditions {
		old := meta.FindStatusCondition(first.Conditions, c.Type)
		if same := c.Status == old.Status; same != c.LastTransitionTime.Equal(&old.LastTransitionTime) {
			t.Errorf("%s went from %s to %s, its time from %s to %s", c.Type, old.Status, c.Status, old.LastTransitionTime,
				c.LastTransitionTime)
		}
	}
	if c := meta.FindStatusCondition(second.Conditions,
		conditions.Available); !c.LastTransitionTime.Time.Equal(later.Now) {
		t.Errorf("Available changed at %s", c.LastTransitionTime)
	}
}

func TestWhatLinstorSaidLastStays(t *testing.T) {
	s := judged(t, v1alpha1.PhaseReady, 3, "ssd")
	s.Linstor.View.Volumes = 7
	before := Project(resting(s))
	s = next(s, before, time.Minute)
	s.Linstor = cluster.Linstor{Asked: true, Err: errors.New("refused")}
	for _, m := range s.Members {
		m.State = v1alpha1.NodeRegistering
		m.Pools[0].Ready, m.Pools[0].Have = false, nil
	}
	after := Project(resting(s))
	if after.Nodes.Summary != "3/3" || after.Pools.Summary != "3/3" || after.Volumes.Total != 7 ||
		after.Pools.Capacity.Cmp(*before.Pools.Capacity) != 0 {
		t.Errorf("nodes %s, pools %s, volumes %d, capacity %v", after.Nodes.Summary, after.Pools.Summary,
			after.Volumes.Total, after.Pools.Capacity)
	}
}

func TestCapacity(t *testing.T) {
	s := judged(t, v1alpha1.PhaseReady, 3, "ssd")
	st := Project(resting(s))
	check := func(when, capacity, free string, updated time.Time) {
		t.Helper()
		p := st.Pools
		if p.Capacity.String() != capacity || p.Free.String() != free || !p.Updated.Time.Equal(updated) {
			t.Errorf("%s: %s of %s free, written at %s; want %s of %s at %s", when, p.Free, p.Capacity, p.Updated, free,
				capacity, updated)
		}
		if b := p.ByPool[0]; b.Capacity.String() != capacity || b.Free.String() != free || b.Ready != 3 || b.Wanted != 3 {
			t.Errorf("%s: by pool %+v", when, b)
		}
	}
	check("first", "3000Gi", "1800Gi", begin)

	set := func(after time.Duration, kib int64) {
		s = next(s, st, after)
		for _, m := range s.Members {
			m.Pools[0].Have = &linstor.Pool{TotalKiB: ptr.To[int64](1000 << 20), FreeKiB: ptr.To(kib)}
		}
		st = Project(resting(s))
	}
	set(time.Minute, 500<<20)
	check("before its time", "3000Gi", "1800Gi", begin)
	set(4*time.Minute, 599<<20)
	check("within a per cent", "3000Gi", "1770Gi", begin.Add(5*time.Minute)) // rounded down
	set(time.Hour, 599<<20-1)
	check("nearly the same", "3000Gi", "1770Gi", begin.Add(5*time.Minute))
	set(time.Minute, 300<<20)
	check("long after", "3000Gi", "900Gi", begin.Add(66*time.Minute))
}

func TestCapacityIsWrittenAtOnceWithANewPool(t *testing.T) {
	s := judged(t, v1alpha1.PhaseReady, 2, "ssd")
	s.Members[1].Pools[0].Ready = false
	st := Project(resting(s))
	if got := st.Pools.Summary + " " + st.Pools.Capacity.String(); got != "1/2 1000Gi" {
		t.Errorf("pools %s", got)
	}
	s = next(s, st, time.Second)
	s.Members[1].Pools[0].Ready = true
	st = Project(resting(s))
	if got := st.Pools.Summary + " " + st.Pools.Capacity.String(); got != "2/2 2000Gi" {
		t.Errorf("pools %s", got)
	}
}

func TestQuantisedMovesInSteps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		whole := rapid.Int64Range(0, 1<<45).Draw(t, "whole")
		free := rapid.Int64Range(0, whole).Draw(t, "free")
		got := quantised(free, whole).Value() / 1024
		if got > free || free-got > whole/100+1+1<<20 {
			t.Fatalf("%d of %d KiB becomes %d", free, whole, got)
		}
	})
}

// Within a tenth of a per cent the free space may move as it likes: a status is written for at most one step.
func TestBusyPoolsAreNotWrittenAllTheTime(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := judged(t, v1alpha1.PhaseReady, 3, "ssd")
		s.Cluster.Spec.Volumes.DrainGuard = volumespec.DrainGuardNone
		st := Project(resting(s))
		writes := 0
		for range 60 { // ten seconds apart
			s = next(s, st, 10*time.Second)
			for i, m := range s.Members {
				m.Pools[0].Have = &linstor.Pool{TotalKiB: ptr.To[int64](1000 << 20),
					FreeKiB: ptr.To(rapid.Int64Range(0, 1000<<20).Draw(rt, fmt.Sprint(i)))}
			}
			after := Project(resting(s))
			if !cmp.Equal(after, st) {
				writes++
			}
			st = after
		}
		if writes > 2 {
			rt.Fatalf("%d writes in ten minutes", writes)
		}
	})
}

func TestProjectIsPureAndSettles(t *testing.T) {
	states := []v1alpha1.NodeState{v1alpha1.NodeOnline, v1alpha1.NodeRegistering, v1alpha1.NodeUnreachable,
		v1alpha1.NodeHeld}
	rapid.Check(t, func(rt *rapid.T) {
		phase := rapid.SampledFrom(fsm.Cluster().States).Draw(rt, "phase").State
		s := judged(t, v1alpha1.Phase(phase), rapid.IntRange(0, 8).Draw(rt, "nodes"), "ssd", "hdd")
		for i, m := range s.Members {
			m.State = rapid.SampledFrom(states).Draw(rt, fmt.Sprintf("state %d", i))
			m.Selected = rapid.Bool().Draw(rt, "selected")
			if m.State != v1alpha1.NodeOnline {
				m.Pools[0].Ready = false
				m.Problem = &cluster.Problem{Reason: rapid.SampledFrom([]string{"A", "B"}).Draw(rt, "reason"),
					Message: rapid.String().Draw(rt, "message"), Pool: "ssd",
					Hold: rapid.SampledFrom([]v1alpha1.HoldReason{"", v1alpha1.HoldDeviceNotEmpty,
						v1alpha1.HoldDeviceMissing}).Draw(rt, "hold")}
			}
		}
		if rapid.Bool().Draw(rt, "silent") {
			s.Linstor = cluster.Linstor{Asked: true, Err: errors.New("refused")}
		}
		s.Cluster.Spec.Suspend = rapid.Bool().Draw(rt, "suspend")
		if phase == fsm.HumanIntervention {
			s.Cluster.Status.Hold = &v1alpha1.Hold{ID: "h-1", Reason: v1alpha1.HoldDeviceMissing}
		}
		in := resting(s)
		before := s.Cluster.DeepCopy()
		st := Project(in)
		if d := cmp.Diff(st, Project(in)); d != "" {
			rt.Fatalf("the same input gives another status: %s", d)
		}
		if d := cmp.Diff(before, s.Cluster); d != "" {
			rt.Fatalf("the input was changed: %s", d)
		}
		again := Project(resting(next(s, st, 17*time.Second)))
		if d := cmp.Diff(st, again); d != "" {
			rt.Fatalf("nothing happened, and the status differs: %s", d)
		}
	})
}

func TestPhaseAndProgress(t *testing.T) {
	s := judged(t, v1alpha1.PhaseAssessing, 3)
	s.Cluster.Status.Progress, s.Cluster.Status.ProgressSince = 2, ptr.To(metav1.NewTime(begin))
	st := Project(transition(s, fsm.ModuleMissing, fsm.KernelModule, "why"))
	if st.Phase != v1alpha1.PhaseKernelModule || !st.PhaseSince.Time.Equal(begin) || st.Progress != 0 ||
		st.ProgressSince != nil {
		t.Errorf("after a change: %+v", st)
	}
	want := v1alpha1.Transition{Time: metav1.NewTime(begin), From: v1alpha1.PhaseAssessing, Event: "ModuleMissing",
		To: v1alpha1.PhaseKernelModule, Message: "why"}
	if d := cmp.Diff([]v1alpha1.Transition{want}, st.History); d != "" {
		t.Error(d)
	}
	for from, message := range map[fsm.State]string{fsm.Satellites: "", fsm.Upgrading: "why"} {
		in := transition(judged(t, v1alpha1.Phase(from), 3), fsm.Advanced, fsm.NodeRegistration, "why")
		if got := Project(in).History[0].Message; got != message {
			t.Errorf("%s has ended well: the history says %q, not %q", from, got, message)
		}
	}
}

func TestHoldLivesAsLongAsItsPhase(t *testing.T) {
	request := cluster.HoldRequest{Reason: v1alpha1.HoldControllerFailed, Message: "crash"}
	s := judged(t, v1alpha1.PhaseController, 3)
	in := Input{Snapshot: s, Outcome: step.NeedsHuman(request),
		Transition: &fsm.Transition{From: fsm.Controller, Event: fsm.HumanNeeded, To: fsm.HumanIntervention}}
	st := Project(in)
	if st.Hold == nil || st.Hold.Reason != request.Reason || st.Hold.Resume == "" || st.Hold.ID == "" {
		t.Fatalf("hold %+v", st.Hold)
	}
	s = next(s, st, time.Minute)
	kept := Project(resting(s))
	if d := cmp.Diff(st.Hold, kept.Hold); d != "" {
		t.Errorf("the hold changed: %s", d)
	}
	gone := Project(transition(s, fsm.Cleared, fsm.Assessing, "back"))
	if gone.Hold != nil {
		t.Errorf("after it was cleared: %+v", gone.Hold)
	}
	s.Now = s.Now.Add(time.Minute)
	another := Project(Input{Snapshot: next(s, gone, time.Minute), Outcome: in.Outcome, Transition: in.Transition})
	if another.Hold.ID == st.Hold.ID {
		t.Error("a later hold has the id of the earlier one: an old token would resume it")
	}
}

func TestLeavingNodesAreListedByWhatGoesOn(t *testing.T) {
	s := judged(t, v1alpha1.PhaseReady, 5)
	for i, state := range []v1alpha1.LeavingState{v1alpha1.LeavingRetained, v1alpha1.LeavingWaiting,
		v1alpha1.LeavingRemoving, v1alpha1.LeavingEvacuating} {
		s.Members[i].Selected, s.Members[i].Leave = false, &cluster.Leave{State: state, Message: "m"}
	}
	s.Members[4].Maintenance = true
	st := Project(resting(s))
	var got []string
	for _, l := range st.Nodes.Leaving {
		got = append(got, l.Name+" "+string(l.State))
	}
	want := []string{s.Members[3].Name + " Evacuating", s.Members[2].Name + " Removing", s.Members[1].Name + " Waiting",
		s.Members[0].Name + " Retained"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if st.Nodes.LeavingCount != 4 || st.Nodes.Members != 1 ||
		!cmp.Equal(st.Nodes.Maintenance, []string{s.Members[4].Name}) {
		t.Errorf("%+v", st.Nodes)
	}
	// While LINSTOR does not answer, what it said last stays.
	for _, view := range []cluster.Linstor{{Asked: true, Err: errors.New("refused")}, {}} {
		later := next(s, st, time.Second)
		later.Linstor = view
		for _, m := range later.Members {
			m.Leave = &cluster.Leave{State: v1alpha1.LeavingWaiting}
		}
		if again := Project(resting(later)); !cmp.Equal(again.Nodes.Leaving, st.Nodes.Leaving) {
			t.Errorf("asked %t: %+v", view.Asked, again.Nodes.Leaving)
		}
	}
}
