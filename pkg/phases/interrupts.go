package phases

import (
	"fmt"
	"slices"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
)

// Interrupt looks at the snapshot before the state's handler does. The first one that hits wins.
type Interrupt struct {
	Name string
	// Emits is the event that it fires; "" for one that only stops the handler.
	Emits fsm.Event
	// In lists the states in which it looks.
	In []fsm.State
	// Look says how the reconcile ends; nil if the interrupt does not hit.
	Look func(s *Snapshot) *Outcome
}

// Interrupts are looked at in this order.
func Interrupts() []Interrupt {
	var all, undeleted []fsm.State
	for _, s := range fsm.Cluster().States {
		all = append(all, s.State)
		if s.State != fsm.Deleting {
			undeleted = append(undeleted, s.State)
		}
	}
	steadyAndChain := append(fsm.Chain(), fsm.Ready, fsm.Degraded)
	return []Interrupt{
		{Name: "delete", Emits: fsm.DeleteRequested, In: undeleted, Look: lookDelete},
		{Name: "suspend", In: all, Look: lookSuspend},
		{Name: "spec", Emits: fsm.SpecChanged, In: append(slices.Clone(steadyAndChain), fsm.HumanIntervention), Look: lookSpec},
		{Name: "evidence", Emits: fsm.EvidenceLost, In: steadyAndChain, Look: lookEvidence},
	}
}

func lookDelete(s *Snapshot) *Outcome {
	if s.Cluster.DeletionTimestamp == nil {
		return nil
	}
	o := Move(fsm.DeleteRequested, "DeleteRequested", "the StorageCluster is being deleted")
	return &o
}

// SuspendMessage says what a suspended cluster does without.
func (s *Snapshot) SuspendMessage() string {
	text := "spec.suspend is set: the operator observes and changes nothing"
	if u := s.upgrade; u != nil {
		text += fmt.Sprintf("; the upgrade from LINSTOR %s to %s keeps its step %s (%d/%d satellites)", u.From, u.To, u.Step, u.Done, u.Total)
		if no := u.Unavailable(); no != "" {
			text += ": " + no
		}
	}
	return text
}

func lookSuspend(s *Snapshot) *Outcome {
	if !s.Cluster.Spec.Suspend {
		return nil
	}
	o := Wait(v1alpha1.ReasonSuspended, s.SuspendMessage(), s.Timing.PollSteady)
	return &o
}

func lookSpec(s *Snapshot) *Outcome {
	if s.Phase() == v1alpha1.PhaseHumanIntervention {
		hold := s.Cluster.Status.Hold
		// What was refused stays refused until the spec changes once more; a hold that needs an answer waits for it.
		takenBack := hold != nil && hold.Reason == v1alpha1.HoldBackupTooOld && s.takesUpgradeBack()
		if s.Cluster.Generation == s.Cluster.Status.ObservedGeneration || hold != nil && hold.Reason.Kind().Class == v1alpha1.HoldAnswer && !takenBack {
			return nil
		}
	} else if !s.SpecPending() || s.SpecWaits() {
		return nil
	}
	o := Move(fsm.SpecChanged, "SpecChanged", fmt.Sprintf("the spec changed (generation %d)", s.Cluster.Generation))
	return &o
}

// lookEvidence finds cluster-wide objects of links that were satisfied already and are away or changed now.
func lookEvidence(s *Snapshot) *Outcome {
	if s.Target == nil {
		o := Move(fsm.EvidenceLost, "RevisionMissing", "the ControllerRevision "+s.Cluster.Status.Target+" with the accepted spec is missing")
		return &o
	}
	for _, l := range Links() {
		if l.State() == fsm.State(s.Phase()) {
			return nil
		}
		if e := l.Evidence(s); e.Lost {
			o := Move(fsm.EvidenceLost, e.Reason, e.Message)
			return &o
		}
	}
	return nil
}
