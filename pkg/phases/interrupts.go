package phases

import (
	"fmt"
	"slices"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/holdkind"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/migrating"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/pools"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/specchange"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/upgrade"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

// interrupt looks at the snapshot before the state's handler does. The first one that hits wins.
type interrupt struct {
	// Emits is the event that it fires; "" for one that only stops the handler.
	Emits fsm.Event
	In    []fsm.State
	Look  func(s *cluster.Snapshot) (o step.Outcome, hits bool)
}

// interrupts are looked at in this order.
func interrupts() []interrupt {
	var all, undeleted []fsm.State
	for _, s := range fsm.Cluster().States {
		all = append(all, s.State)
		if s.State != fsm.Deleting {
			undeleted = append(undeleted, s.State)
		}
	}
	steadyAndChain := append(fsm.Chain(), fsm.Ready, fsm.Degraded)
	return []interrupt{
		{Emits: fsm.DeleteRequested, In: undeleted, Look: lookDelete},
		{In: all, Look: lookSuspend},
		{Emits: fsm.RestoreRequested, In: append(slices.Clone(steadyAndChain), fsm.Upgrading, fsm.HumanIntervention),
			Look: migrating.Pending},
		{Emits: fsm.SpecChanged, In: append(slices.Clone(steadyAndChain), fsm.HumanIntervention), Look: lookSpec},
		{Emits: fsm.EvidenceLost, In: steadyAndChain, Look: lookEvidence},
	}
}

func lookDelete(s *cluster.Snapshot) (o step.Outcome, hits bool) {
	o = step.Move(fsm.DeleteRequested, "DeleteRequested", "the StorageCluster is being deleted")
	return o, s.Cluster.DeletionTimestamp != nil
}

// SuspendMessage says what a suspended cluster does without.
func SuspendMessage(s *cluster.Snapshot) string {
	text := "spec.suspend is set: the operator observes the cluster but changes nothing"
	if u := s.Upgrade; u != nil {
		text += fmt.Sprintf("; the upgrade from LINSTOR %s to %s is paused at step %s (%d/%d satellites)", u.From, u.To,
			u.Step, u.Done, u.Total)
		if no := upgrade.Unavailable(u); no != "" {
			text += ": " + no
		}
	}
	return text
}

func lookSuspend(s *cluster.Snapshot) (o step.Outcome, hits bool) {
	if !s.Cluster.Spec.Suspend {
		return step.Outcome{}, false
	}
	return step.Wait(conditions.ReasonSuspended, SuspendMessage(s), s.Timing.PollSteady), true
}

func lookSpec(s *cluster.Snapshot) (o step.Outcome, hits bool) {
	held := s.Phase() == v1alpha1.PhaseHumanIntervention
	if held && !specEndsHold(s, s.Cluster.Status.Hold) || !held && (!s.SpecPending() || SpecWaits(s)) {
		return step.Outcome{}, false
	}
	return step.Move(fsm.SpecChanged, "SpecChanged",
		fmt.Sprintf("the spec changed (generation %d)", s.Cluster.Generation)), true
}

// specEndsHold reports whether a change of the spec ends the hold. What was refused stays refused until the spec
// changes once more; a hold that needs an answer waits for it, unless what it is about is not wanted any more.
func specEndsHold(s *cluster.Snapshot, h *v1alpha1.Hold) bool {
	if h != nil && holdkind.Of(h.Reason).Class == holdkind.Answer {
		withdrawn := questionOf(h.Reason).Withdrawn
		return withdrawn != nil && s.Target != nil && s.SpecPending() && withdrawn(s, h)
	}
	return s.Cluster.Generation != s.Cluster.Status.ObservedGeneration
}

// lookEvidence finds cluster-wide objects of links that were satisfied already and are away or changed now.
func lookEvidence(s *cluster.Snapshot) (o step.Outcome, hits bool) {
	if s.Target == nil {
		return step.Move(fsm.EvidenceLost, "RevisionMissing",
			"ControllerRevision "+s.Cluster.Status.Target+", which contains the accepted spec, is missing"), true
	}
	for _, l := range Links() {
		if l.State == fsm.State(s.Phase()) {
			return step.Outcome{}, false
		}
		if e := s.Evidence[l.State]; e.Lost {
			return step.Move(fsm.EvidenceLost, e.Reason, e.Message), true
		}
	}
	return step.Outcome{}, false
}

// SpecWaits reports whether a change of the spec waits for the end of the work in progress, which goes on with the
// accepted spec. That ends in any case: a phase that does not come to its end in time takes the change up as well.
func SpecWaits(s *cluster.Snapshot) bool {
	if !specchange.Working(&s.Facts) || s.Target == nil || !s.SpecPending() {
		return false
	}
	return !preempted(s) && specchange.Refuse(s) == nil // a refusal is shown at once
}

// WaitMessage says until when a change of the spec waits. These are the open holds of nodes.
func WaitMessage(s *cluster.Snapshot, holds []v1alpha1.Hold) string {
	change := fmt.Sprintf("generation %d of the spec ", s.Cluster.Generation)
	var open []string
	for i := range holds {
		if holds[i].Reason == v1alpha1.HoldDeviceApproval {
			open = append(open, holds[i].ID)
		}
	}
	if len(open) > 0 && s.Phase() == v1alpha1.PhaseStoragePools && pools.OnlyApprovalLacks(s) {
		if len(open) == 1 {
			return fmt.Sprintf("%sis applied once hold %s (%s) is resumed or its pool is removed from the spec", change,
				open[0], v1alpha1.HoldDeviceApproval)
		}
		return fmt.Sprintf("%sis applied once holds %s (%s) are resumed or their pools are removed from the spec", change,
			text.ListSome(open), v1alpha1.HoldDeviceApproval)
	}
	return fmt.Sprintf("%sis applied after phase %s at the latest: work in progress is finished first", change,
		v1alpha1.PhaseStoragePools)
}

// preempted reports whether a change may put right what the phase works on: a field has a part in the phase's own
// link, or in an earlier one that is not satisfied any more.
func preempted(s *cluster.Snapshot) bool {
	state := fsm.State(s.Phase())
	var open []fsm.State
	for _, l := range Links() {
		if l.State == state {
			break
		}
		if !s.Evidence[l.State].OK() {
			open = append(open, l.State)
		}
	}
	open = append(open, state)
	diff := specchange.Diff(s.Target.Spec, specchange.NewTarget("", s.WorkingSpec(), s.Target.Release, s.Cluster).Spec)
	fields := specchange.Fields()
	return slices.ContainsFunc(diff, func(path string) bool {
		i := slices.IndexFunc(fields, func(f specchange.Field) bool { return f.Path == path })
		return i < 0 || slices.ContainsFunc(open,
			func(o fsm.State) bool { return fields[i].In(o) == specchange.ClassPreempt })
	})
}
