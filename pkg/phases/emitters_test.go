package phases_test

import (
	"slices"
	"testing"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases"
)

// handlersEmit are the events that the handler of each state may fire.
func handlersEmit() map[fsm.State][]fsm.Event {
	out := map[fsm.State][]fsm.Event{
		fsm.Pending: {fsm.Accepted, fsm.HumanNeeded},
		fsm.Assessing: {fsm.UpgradePending, fsm.RestorePending, fsm.MovePending, fsm.Converged, fsm.ConvergedDegraded,
			fsm.HumanNeeded},
		fsm.Upgrading:         {fsm.Advanced, fsm.Retreated, fsm.SpecChanged, fsm.HumanNeeded},
		fsm.Migrating:         {fsm.Advanced, fsm.SpecChanged, fsm.HumanNeeded},
		fsm.Ready:             {fsm.HealthLost, fsm.HumanNeeded},
		fsm.Degraded:          {fsm.HealthRegained, fsm.HumanNeeded},
		fsm.HumanIntervention: {fsm.Resumed, fsm.Cleared},
		fsm.Deleting:          nil,
	}
	for _, l := range phases.Links() {
		out[l.State] = []fsm.Event{fsm.Advanced, fsm.HumanNeeded}
		out[fsm.Assessing] = append(out[fsm.Assessing], l.Missing)
	}
	return out
}

// emitted are all events that may be fired in a state, by its handler or by interrupts.
func emitted(state fsm.State) []fsm.Event {
	out := handlersEmit()[state]
	for _, i := range phases.Interrupts() {
		if i.Emits != "" && slices.Contains(i.In, state) {
			out = append(out, i.Emits)
		}
	}
	return out
}

func TestEveryEdgeHasAnEmitterAndEveryEmittedEventIsLegal(t *testing.T) {
	table := fsm.Cluster()
	for _, s := range table.States {
		if phases.Handlers()[s.State] == nil {
			t.Errorf("state %s has no handler", s.State)
			continue
		}
		for _, e := range emitted(s.State) {
			if _, ok := table.Next(s.State, e); !ok {
				t.Errorf("%s is emitted in %s, where it is not legal", e, s.State)
			}
		}
		for _, e := range table.Events(s.State) {
			if !slices.Contains(emitted(s.State), e) {
				t.Errorf("the edge %s from %s has no emitter", e, s.State)
			}
		}
	}
	if got, want := len(phases.Handlers()), len(table.States); got != want {
		t.Errorf("%d handlers for %d states", got, want)
	}
}

func TestStatesArePhases(t *testing.T) {
	phasesOfAPI := []v1alpha1.Phase{
		v1alpha1.PhasePending, v1alpha1.PhaseAssessing, v1alpha1.PhaseKernelModule, v1alpha1.PhaseDatabase,
		v1alpha1.PhaseController,
		v1alpha1.PhaseSatellites, v1alpha1.PhaseNodeRegistration, v1alpha1.PhaseStoragePools, v1alpha1.PhaseVolumeDriver,
		v1alpha1.PhaseCanary,
		v1alpha1.PhaseUpgrading, v1alpha1.PhaseMigrating,
		v1alpha1.PhaseReady, v1alpha1.PhaseDegraded,
		v1alpha1.PhaseHumanIntervention, v1alpha1.PhaseDeleting,
	}
	var states []v1alpha1.Phase
	for _, s := range fsm.Cluster().States {
		states = append(states, v1alpha1.Phase(s.State))
	}
	if !slices.Equal(phasesOfAPI, states) {
		t.Errorf("the API's phases %v are not the table's states %v", phasesOfAPI, states)
	}
}

func TestChainIsTheTablesChain(t *testing.T) {
	var states []fsm.State
	for _, l := range phases.Links() {
		states = append(states, l.State)
		if to, ok := fsm.Cluster().Next(fsm.Assessing, l.Missing); !ok || to != l.State {
			t.Errorf("%s leads to %q, not to %s", l.Missing, to, l.State)
		}
		if !slices.Contains(conditions.Types(), l.Condition) {
			t.Errorf("%s is no condition of the API", l.Condition)
		}
	}
	if !slices.Equal(states, fsm.Chain()) {
		t.Errorf("links are in the order %v", states)
	}
}

func TestEveryWorkingStateHasADeadline(t *testing.T) {
	timing := cluster.DefaultTiming()
	endless := []fsm.State{fsm.Ready, fsm.Degraded, fsm.HumanIntervention, fsm.Deleting}
	for _, s := range fsm.Cluster().States {
		if slices.Contains(endless, s.State) == (timing.Deadlines[s.State] > 0) {
			t.Errorf("state %s: deadline %s", s.State, timing.Deadlines[s.State])
		}
	}
}
