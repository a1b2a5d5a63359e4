package status

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases"
)

// verdict is a condition before it has a type and a time.
type verdict struct {
	status          metav1.ConditionStatus
	reason, message string
}

func yes(reason, message string) verdict { return verdict{metav1.ConditionTrue, reason, message} }
func no(reason, message string) verdict  { return verdict{metav1.ConditionFalse, reason, message} }
func unknown(reason, message string) verdict {
	return verdict{metav1.ConditionUnknown, reason, message}
}

// projectConditions sets all conditions, in the order of ConditionTypes. All are there from the first write on.
func projectConditions(st *v1alpha1.StorageClusterStatus, in Input) {
	s := in.Snapshot
	health := s.Health()
	verdicts := map[string]verdict{
		v1alpha1.ConditionReady:                     ready(st, s, health),
		v1alpha1.ConditionReconciling:               reconciling(st, in),
		v1alpha1.ConditionStalled:                   stalled(st),
		v1alpha1.ConditionAvailable:                 available(s),
		v1alpha1.ConditionDegraded:                  degraded(st, health),
		v1alpha1.ConditionHumanInterventionRequired: humanRequired(st),
		v1alpha1.ConditionSuspended:                 suspended(s),
		v1alpha1.ConditionMassFailure:               massFailure(in),
	}
	verdicts[v1alpha1.ConditionPoolsNearlyFull] = nearlyFull(st, s)
	for _, l := range phases.Links() {
		verdicts[l.Condition()] = linkVerdict(s, l)
	}
	for _, kind := range v1alpha1.ConditionTypes() {
		v := verdicts[kind]
		meta.SetStatusCondition(&st.Conditions, metav1.Condition{
			Type: kind, Status: v.status, Reason: v.reason, Message: truncate(v.message, 512),
			ObservedGeneration: s.Cluster.Generation, LastTransitionTime: metav1.NewTime(s.Now),
		})
	}
}

func ready(st *v1alpha1.StorageClusterStatus, s *phases.Snapshot, health phases.Health) verdict {
	switch {
	case s.Staying() == 0 && s.Target != nil:
		return no(v1alpha1.ReasonNoMatchingNodes, s.NoNodeMessage())
	case st.Phase == v1alpha1.PhaseReady && !health.Degraded:
		return yes(string(st.Phase), st.Nodes.Summary+" nodes online, "+st.Pools.Summary+" pools ready")
	case st.Phase == v1alpha1.PhaseReady, st.Phase == v1alpha1.PhaseDegraded:
		if s.Linstor.Known() && s.Online() >= s.MinReady() {
			return yes(string(st.Phase), health.Message)
		}
		if st.Phase == v1alpha1.PhaseReady && !s.Linstor.Known() {
			return yes(string(st.Phase), health.Message) // not for longer than the hysteresis
		}
		return no(health.Reason, health.Message)
	default:
		return no(string(st.Phase), st.Message)
	}
}

func reconciling(st *v1alpha1.StorageClusterStatus, in Input) verdict {
	switch {
	case in.Outcome.Kind() == phases.KindFail:
		return yes("Error", in.Outcome.Message())
	case in.Snapshot.Cluster.Spec.Suspend:
		return no(v1alpha1.ReasonSuspended, "spec.suspend is set")
	case st.Phase == v1alpha1.PhaseReady, st.Phase == v1alpha1.PhaseDegraded, st.Phase == v1alpha1.PhaseHumanIntervention:
		return no(string(st.Phase), st.Message)
	case in.Snapshot.SpecWaits() && in.Transition == nil:
		return yes(string(st.Phase), fmt.Sprintf("generation %d of the spec is taken up after %s at the latest, since what has begun is finished first; now: %s",
			in.Snapshot.Cluster.Generation, v1alpha1.PhaseStoragePools, st.Message))
	default:
		return yes(string(st.Phase), st.Message)
	}
}

func stalled(st *v1alpha1.StorageClusterStatus) verdict {
	if st.Hold != nil {
		return yes(string(st.Hold.Reason), st.Hold.Message)
	}
	return no(v1alpha1.ReasonAsExpected, "the operator can go on")
}

func available(s *phases.Snapshot) verdict {
	switch {
	case s.Linstor.Known():
		return yes("ControllerAnswers", "LINSTOR "+s.Linstor.View.Version+" answers")
	case s.Target == nil:
		return unknown(v1alpha1.ReasonNotChecked, "the spec is not accepted yet")
	default:
		message := "the LINSTOR controller is not running"
		if s.Linstor.Err != nil {
			message = "LINSTOR's API does not answer: " + s.Linstor.Err.Error()
		}
		return no("ControllerUnreachable", message)
	}
}

// degraded is about a cluster that was installed once: before that, missing nodes are work, not trouble.
func degraded(st *v1alpha1.StorageClusterStatus, health phases.Health) verdict {
	switch st.Phase {
	case v1alpha1.PhaseReady, v1alpha1.PhaseDegraded:
		if health.Degraded {
			return yes(health.Reason, health.Message)
		}
		return no(v1alpha1.ReasonAsExpected, health.Message)
	case v1alpha1.PhaseHumanIntervention:
		return yes(string(st.Phase), st.Message)
	default:
		return no(string(st.Phase), "not installed yet, or being changed")
	}
}

func humanRequired(st *v1alpha1.StorageClusterStatus) verdict {
	if h := st.Hold; h != nil {
		return yes(string(h.Reason), h.Message)
	}
	if len(st.NodeHolds) > 0 {
		h := st.NodeHolds[0]
		return yes(string(h.Reason), fmt.Sprintf("%d nodes are held: %s", h.Count, h.Message))
	}
	return no(v1alpha1.ReasonNoHold, "nothing waits for a human")
}

// massFailure keeps a human's word as its reason: as long as too many nodes are down, that is the only place where it is.
func massFailure(in Input) verdict {
	m := in.Snapshot.MassFailure()
	if a := in.Released; a != nil && a.Hold.Reason == v1alpha1.HoldMassFailure && m.State == phases.MassFailureActive {
		m.State = phases.MassFailureAcknowledged
	}
	switch m.State {
	case phases.MassFailureActive:
		return yes(v1alpha1.ReasonNodesFailed, m.Message())
	case phases.MassFailureAcknowledged:
		return no(v1alpha1.ReasonAcknowledged, m.Message())
	case phases.MassFailureNone:
		return no(v1alpha1.ReasonAsExpected, m.Message())
	default:
		return unknown(v1alpha1.ReasonNotChecked, m.Message())
	}
}

func suspended(s *phases.Snapshot) verdict {
	if s.Cluster.Spec.Suspend {
		return yes(v1alpha1.ReasonSuspended, s.SuspendMessage())
	}
	return no(v1alpha1.ReasonNotSuspended, "spec.suspend is not set")
}

func linkVerdict(s *phases.Snapshot, l phases.Link) verdict {
	if s.Target == nil {
		return unknown(v1alpha1.ReasonNotChecked, "the spec is not accepted yet")
	}
	switch e := l.Evidence(s); e.State {
	case phases.Satisfied:
		return yes(e.Reason, e.Message)
	case phases.Unknown:
		return unknown(e.Reason, e.Message)
	case phases.Enough:
		if e.Done == e.Total {
			return yes(e.Reason, e.Message)
		}
		return no(e.Reason, e.Message)
	default:
		return no(e.Reason, e.Message)
	}
}
