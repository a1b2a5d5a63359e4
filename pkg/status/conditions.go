package status

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/rollback"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/selection"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/judge"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/massfailure"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/migrating"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/status/notice"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
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

// projectConditions sets all conditions, in the order of conditions.Types. All are there from the first write on.
func projectConditions(st *v1alpha1.StorageClusterStatus, in Input) {
	s := in.Snapshot
	verdicts := map[string]verdict{
		conditions.Ready:                     ready(st, s),
		conditions.Reconciling:               reconciling(st, in),
		conditions.Stalled:                   stalled(st, in),
		conditions.Available:                 available(s),
		conditions.Degraded:                  degraded(st, s),
		conditions.HumanInterventionRequired: humanRequired(st),
		conditions.Suspended:                 suspended(s),
		conditions.MassFailure:               massFailure(in),
		conditions.PoolsNearlyFull:           nearlyFull(st, s),
		conditions.VolumesHealthy:            volumesHealthy(s),
		conditions.StorageClassesReady:       classesReady(s),
		conditions.SnapshotsReady:            snapshotsReady(st, s),
		conditions.MonitoringReady:           monitoringReady(in),
		conditions.HighAvailabilityReady:     highAvailabilityReady(in),
		conditions.DrainGuardReady:           drainGuardReady(in),
		conditions.AffinityReady:             affinityReady(in),
		conditions.BackupReady:               backupReady(st, in),
		conditions.CertificatesValid:         certificatesValid(in),
	}
	for _, l := range phases.Links() {
		verdicts[l.Condition] = linkVerdict(st, s, l)
	}
	verdicts[conditions.CanaryPassed] = canaryPassed(st, s)
	for _, kind := range conditions.Types() {
		verdicts[kind].set(st, kind, s.Cluster.Generation, s.Now)
	}
}

func (v verdict) set(st *v1alpha1.StorageClusterStatus, kind string, generation int64, now time.Time) {
	meta.SetStatusCondition(&st.Conditions, metav1.Condition{
		Type: kind, Status: v.status, Reason: v.reason, Message: truncate(v.message, 512),
		ObservedGeneration: generation, LastTransitionTime: metav1.NewTime(now),
	})
}

// written is what the status says of a condition; its status is "" if nothing yet.
func written(s *cluster.Snapshot, kind string) verdict {
	c := meta.FindStatusCondition(s.Cluster.Status.Conditions, kind)
	if c == nil {
		return verdict{}
	}
	return verdict{c.Status, c.Reason, c.Message}
}

// ready is the one judgement of Ready: the accepted spec is served by as many nodes as the user wants, whatever the
// operator does meanwhile and whatever was refused since. It is never True by default: a cluster that was not
// installed, has no members or is not seen serves nobody.
func ready(st *v1alpha1.StorageClusterStatus, s *cluster.Snapshot) verdict {
	summary := st.Nodes.Summary + " nodes online, " + st.Pools.Summary + " pools ready"
	before := written(s, conditions.Ready)
	switch {
	case st.Phase == v1alpha1.PhaseDeleting:
		return no(string(st.Phase), "the cluster is being deleted")
	case s.Target == nil && st.FirstReady != nil:
		return no(string(st.Phase), "the accepted spec is missing: see status.message")
	case s.Target == nil:
		return no(string(st.Phase), "the spec has not been accepted yet")
	case s.Staying() == 0:
		return no(conditions.ReasonNoMatchingNodes, selection.NoNodeMessage(&s.Facts))
	case st.FirstReady == nil:
		return no(string(st.Phase), "not installed yet: "+summary)
	case !s.Linstor.Known() && (s.Silent() || before.status != metav1.ConditionTrue):
		return no(conditions.ReasonControllerUnreachable, "number of serving nodes unknown: LINSTOR does not respond")
	case !s.Linstor.Known():
		return yes(string(st.Phase), summary+" when LINSTOR last responded")
	case s.Serving() < s.MinReady():
		return tooFew(st, s, summary, before)
	}
	if capped := s.Capped(); capped != "" {
		summary += "; " + capped
	}
	return yes(string(st.Phase), summary)
}

// tooFew is Ready where too few nodes serve. While LINSTOR may be about to connect to them it stays as it was, unless
// the cluster is Degraded: it has lost them for longer.
func tooFew(st *v1alpha1.StorageClusterStatus, s *cluster.Snapshot, summary string, before verdict) verdict {
	const connects = ": LINSTOR is responding again and is connecting to its satellites"
	switch {
	case !s.Reconnecting() || st.Phase == v1alpha1.PhaseDegraded:
	case before.status == metav1.ConditionTrue:
		return yes(string(st.Phase), summary+connects)
	case before.reason == conditions.ReasonControllerUnreachable:
		return no(before.reason, "number of serving nodes unknown"+connects)
	}
	return no(conditions.ReasonNodesMissing, judge.ServingMessage(s))
}

func reconciling(st *v1alpha1.StorageClusterStatus, in Input) verdict {
	s := in.Snapshot
	switch {
	case st.Hold != nil: // Stalled and Reconciling are never both True (kstatus)
		return no(string(st.Phase), "see status.hold")
	case in.Outcome.Kind == step.KindFail:
		return yes("Error", in.Outcome.Message)
	case s.Cluster.Spec.Suspend && s.SpecPending():
		return yes(conditions.ReasonSuspended,
			fmt.Sprintf("generation %d of the spec is applied once spec.suspend is no longer set", s.Cluster.Generation))
	case s.Cluster.Spec.Suspend:
		return no(conditions.ReasonSuspended, "spec.suspend is set")
	case st.Phase == v1alpha1.PhaseHumanIntervention:
		return no(string(st.Phase), "see status.hold")
	case notice.Steady(st.Phase):
		if r := judge.RolloutOf(s); r.Reason != "" {
			return yes(r.Reason, r.Message)
		}
		return no(string(st.Phase), "nothing is being changed")
	case phases.SpecWaits(s) && in.Transition == nil:
		return yes(string(st.Phase), phases.WaitMessage(s, st.NodeHolds)+"; now: "+in.Outcome.Message)
	default:
		return yes(string(st.Phase), in.Outcome.Message)
	}
}

func stalled(st *v1alpha1.StorageClusterStatus, in Input) verdict {
	switch {
	case st.Hold != nil:
		return yes(string(st.Hold.Reason), "hold "+st.Hold.ID+": see status.hold")
	case reconciling(st, in).status != metav1.ConditionTrue && takenBack(in.Snapshot) != "":
		return yes(migrating.ReasonTakenBack, takenBack(in.Snapshot))
	case in.Outcome.Kind == step.KindFail:
		return no(conditions.ReasonRetrying, "no hold blocks the cluster; the last step failed and is being retried")
	case len(st.NodeHolds) > 0:
		return no(conditions.ReasonNoHold, "no hold blocks the cluster, but some nodes are on hold: see status.nodeHolds")
	default:
		return no(conditions.ReasonNoHold, "no hold is open")
	}
}

// takenBack says that LINSTOR was taken back from the version that the spec asks for; "" if it was not.
func takenBack(s *cluster.Snapshot) string {
	claim, _ := s.Claim()
	if v := s.Cluster.Spec.Version; v != "" && rollback.Done(claim, v) {
		return rollback.Message(claim, v)
	}
	return ""
}

func available(s *cluster.Snapshot) verdict {
	switch {
	case s.Linstor.Known():
		return yes("ControllerAnswers", "LINSTOR's API responds")
	case s.Target == nil:
		return unknown(conditions.ReasonNotChecked, "the spec has not been accepted yet")
	case s.Linstor.Foreign != nil:
		return no(string(s.Linstor.Why), s.Linstor.Err.Error())
	default:
		message := "the LINSTOR controller is not running"
		if s.Linstor.Err != nil {
			message = "LINSTOR's API does not respond: " + s.Linstor.Err.Error()
		}
		return no("ControllerUnreachable", message)
	}
}

// degraded is about a cluster that was installed once: before that, missing nodes are work, not trouble.
func degraded(st *v1alpha1.StorageClusterStatus, s *cluster.Snapshot) verdict {
	switch {
	case notice.Steady(st.Phase) && s.Health.Degraded:
		return yes(s.Health.Reason, s.Health.Message)
	case notice.Steady(st.Phase):
		return no(conditions.ReasonAsExpected, "everything that was available before is still available")
	case st.FirstReady == nil:
		return no(string(st.Phase), "not installed yet")
	case s.Target == nil:
		return unknown(conditions.ReasonNotChecked, "it is unknown what is missing: the accepted spec does not exist")
	case s.Silent():
		return yes(conditions.ReasonControllerUnreachable, "LINSTOR does not respond")
	case s.Linstor.Known() && s.Away() > 0 && !s.Reconnecting():
		return yes(conditions.ReasonNodesMissing, s.OnlineMessage())
	default:
		return no(string(st.Phase), "everything that was available before is still available")
	}
}

func humanRequired(st *v1alpha1.StorageClusterStatus) verdict {
	switch h := st.Hold; {
	case h != nil:
		return yes(string(h.Reason), "hold "+h.ID+" stays open until it is resumed or its cause is gone: see status.hold")
	case len(st.NodeHolds) > 0:
		h = &st.NodeHolds[0]
		return yes(string(h.Reason), fmt.Sprintf("hold %s for %s: see status.nodeHolds", h.ID, text.NodesOf(int(h.Count))))
	default:
		return no(conditions.ReasonNoHold, "no hold is open")
	}
}

// massFailure keeps a human's word as its reason: while too many nodes are down, it is nowhere else.
func massFailure(in Input) verdict {
	m := in.Snapshot.MassFailure
	if in.Snapshot.Frozen() && massfailure.Acknowledges(in.Snapshot, in.Released) {
		m.State = cluster.MassFailureAcknowledged
	}
	message := massfailure.Message(&m)
	switch m.State {
	case cluster.MassFailureActive:
		return yes(conditions.ReasonNodesFailed, message)
	case cluster.MassFailureAcknowledged:
		return no(conditions.ReasonAcknowledged, message)
	case cluster.MassFailureNone:
		return no(conditions.ReasonAsExpected, message)
	default:
		return unknown(conditions.ReasonNotChecked, message)
	}
}

func suspended(s *cluster.Snapshot) verdict {
	if s.Cluster.Spec.Suspend {
		return yes(conditions.ReasonSuspended, phases.SuspendMessage(s))
	}
	return no(conditions.ReasonNotSuspended, "spec.suspend is not set")
}

func linkVerdict(st *v1alpha1.StorageClusterStatus, s *cluster.Snapshot, l step.Link) verdict {
	if s.Target == nil {
		return unknown(conditions.ReasonNotChecked, "the spec has not been accepted yet")
	}
	e := s.Evidence[l.State]
	if h := st.Hold; h != nil && e.State == cluster.Failed && e.Hold != nil && e.Hold.Reason == h.Reason {
		return no(e.Reason, "see status.hold") // which has the whole sentence
	}
	switch {
	case e.State == cluster.Satisfied, e.State == cluster.Enough && e.Done == e.Total:
		return yes(e.Reason, e.Message)
	case e.State == cluster.Unknown:
		return unknown(e.Reason, e.Message)
	default:
		return no(e.Reason, e.Message)
	}
}

// kept are the conditions that say what a human has said or is to do. No look is needed for them to go on being true.
var kept = []string{conditions.HumanInterventionRequired, conditions.Suspended, conditions.MassFailure}

// Unobserved makes the status after a look at the cluster that failed: nothing is known any more, and nothing is done,
// so that no condition may go on saying that all is well. Counts and lists stay as they were seen last.
func Unobserved(c *v1alpha1.StorageCluster, now time.Time, cause error) *v1alpha1.StorageClusterStatus {
	st := c.Status.DeepCopy()
	if st.Phase == "" {
		st.Phase, st.PhaseSince = v1alpha1.PhasePending, &metav1.Time{Time: now}
	}
	st.Message, st.Attention = truncate(cause.Error(), 256), conditions.ReasonObservationFailed
	for _, kind := range conditions.Types() {
		v := unknown(conditions.ReasonObservationFailed, cause.Error())
		switch {
		case slices.Contains(kept, kind) && meta.FindStatusCondition(st.Conditions, kind) != nil:
			continue
		case kind == conditions.Stalled:
			v.status = metav1.ConditionTrue
		case kind == conditions.Reconciling:
			v = no(conditions.ReasonObservationFailed, "the operator does nothing while it cannot observe the cluster")
		}
		v.set(st, kind, st.ObservedGeneration, now)
	}
	return st
}
