package status

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases"
)

// mostHistory bounds the history.
const mostHistory = 20

// Input is what a reconcile saw and did.
type Input struct {
	Snapshot *phases.Snapshot
	Outcome  phases.Outcome
	// Transition is the machine's move; nil if it stayed.
	Transition *fsm.Transition
	// Released is the answer that was carried out; nil if none was.
	Released *phases.Answer
}

// Project makes the status after a reconcile.
func Project(in Input) *v1alpha1.StorageClusterStatus {
	s := in.Snapshot
	st := s.Cluster.Status.DeepCopy()
	st.ObservedGeneration = s.Cluster.Generation
	projectPhase(st, in)
	if a := in.Outcome.Acceptance(); a != nil {
		st.Target, st.AcceptedGeneration, st.Version, st.Database = a.Revision, a.Generation, a.Version, a.Database
	} else if s.Target != nil && !s.SpecPending() {
		st.AcceptedGeneration = s.Cluster.Generation // only switches changed, which hold at once
	}
	st.Message = truncate(in.Outcome.Message(), 256)
	if !s.Cluster.Spec.Suspend || in.Released != nil {
		st.NodeHolds = phases.NodeHolds(s, nodeHoldsBegin(st, in), in.Released)
	}
	projectHold(st, in)
	projectNodes(st, s)
	projectPools(st, s)
	projectModule(st, s)
	if v := s.Linstor.View; v != nil {
		n := int32(v.Volumes)
		st.Volumes = &n
	}
	projectUpgrade(st, in)
	projectProgress(st, in)
	projectConditions(st, in)
	fit(st)
	return st
}

func projectPhase(st *v1alpha1.StorageClusterStatus, in Input) {
	now := metav1.NewTime(in.Snapshot.Now)
	if st.Phase == "" {
		st.Phase, st.PhaseSince = v1alpha1.PhasePending, &now
	}
	t := in.Transition
	if t == nil {
		return
	}
	st.Phase, st.PhaseSince = v1alpha1.Phase(t.To), &now
	st.Progress, st.ProgressSince = 0, nil
	entry := v1alpha1.Transition{Time: now, From: v1alpha1.Phase(t.From), Event: string(t.Event), To: v1alpha1.Phase(t.To), Message: truncate(in.Outcome.Message(), 256)}
	st.History = slices.Insert(st.History, 0, entry)
	st.History = st.History[:min(len(st.History), mostHistory)]
}

// nodeHoldsBegin is whether holds of single nodes may begin in this reconcile.
func nodeHoldsBegin(st *v1alpha1.StorageClusterStatus, in Input) bool {
	switch st.Phase {
	case v1alpha1.PhaseStoragePools, v1alpha1.PhaseReady, v1alpha1.PhaseDegraded:
		return in.Transition == nil && in.Released == nil
	default:
		return false
	}
}

func projectHold(st *v1alpha1.StorageClusterStatus, in Input) {
	s := in.Snapshot
	switch request := in.Outcome.Hold(); {
	case request != nil && st.Hold != nil && st.Hold.Reason == request.Reason && in.Transition == nil:
		st.Hold.Message = truncate(request.Message, 1024) // the same hold, seen again
	case request != nil:
		st.Hold = phases.NewHold(s, request)
		// A hold of the cluster speaks for the nodes too; answering it must not leave a second one for the same disks. What
		// was held on nodes already keeps its id, which somebody may be about to answer.
		for _, h := range st.NodeHolds {
			if h.Reason == request.Reason && h.Pool == request.Pool {
				st.Hold.ID, st.Hold.Since, st.Hold.Resume = h.ID, h.Since, h.Resume
			}
		}
		st.Hold.Message = truncate(st.Hold.Message, 1024)
		st.NodeHolds = slices.DeleteFunc(st.NodeHolds, func(h v1alpha1.Hold) bool { return h.Reason == request.Reason && h.Pool == request.Pool })
	case in.Outcome.Reason() == v1alpha1.ReasonSuspended, in.Outcome.Kind() == phases.KindFail: // nothing was judged: a hold stands as it stood
	case st.Phase != v1alpha1.PhaseHumanIntervention && (st.Phase != v1alpha1.PhaseDeleting || in.Outcome.Reason() != string(v1alpha1.HoldVolumesUnknown)):
		st.Hold = nil
	}
	if in.Released != nil && in.Released.Cluster {
		st.Hold = nil
	}
}

// projectProgress notes when a phase went on. Counting nodes is enough: the first node that goes through shows that the
// others may follow.
func projectProgress(st *v1alpha1.StorageClusterStatus, in Input) {
	if in.Transition != nil {
		return
	}
	if st.Phase == v1alpha1.PhaseUpgrading && upgradeProgress(in.Snapshot.Cluster.Status.Upgrade, st.Upgrade) {
		now := metav1.NewTime(in.Snapshot.Now)
		st.ProgressSince, st.Progress = &now, st.Upgrade.NodesDone
	}
	for _, l := range phases.Links() {
		if string(l.State()) != string(st.Phase) || in.Snapshot.Target == nil {
			continue
		}
		if done := int32(l.Evidence(in.Snapshot).Done); done != st.Progress {
			now := metav1.NewTime(in.Snapshot.Now)
			if done > st.Progress {
				st.ProgressSince = &now
			}
			st.Progress = done
		}
	}
}

func truncate(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}
