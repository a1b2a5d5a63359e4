package status

import (
	"cmp"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/selection"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/judge"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/massfailure"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/status/notice"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

// mostAttention is how long the column may be, in characters: a terminal of 120 columns holds the line.
const mostAttention = 60

// projectAttention names the most urgent thing in the column of kubectl get. Where the operator's own message is about
// something less urgent, it begins with it as well.
func projectAttention(st *v1alpha1.StorageClusterStatus, in Input) {
	n := cmp.Or(urgentNotice(st, in), laterNotice(st, in))
	st.Attention = truncate(n.Short, mostAttention)
	if n.Long != "" && saysLess(st, in) && !strings.Contains(st.Message, n.Long) {
		st.Message = truncate(n.Long+"; "+st.Message, 256)
	}
}

// saysLess reports whether the operator's message is not what holds it up: it watches only, or is suspended.
func saysLess(st *v1alpha1.StorageClusterStatus, in Input) bool {
	return in.Transition == nil && in.Outcome.Kind == step.KindWait &&
		(notice.Steady(st.Phase) || in.Outcome.Reason == conditions.ReasonSuspended)
}

// urgentNotice is the first of what nobody wanted, and of what keeps the operator from going on.
func urgentNotice(st *v1alpha1.StorageClusterStatus, in Input) notice.Notice {
	s := in.Snapshot
	switch {
	case st.Hold != nil:
		return notice.Notice{Short: string(st.Hold.Reason) + " " + st.Hold.ID, Long: st.Hold.Message}
	case len(st.NodeHolds) > 0:
		h := &st.NodeHolds[0]
		short := fmt.Sprintf("%s %s, %s", h.Reason, h.ID, text.NodesOf(int(h.Count)))
		return notice.Notice{Short: short + others(len(st.NodeHolds)), Long: h.Message}
	case s.Frozen():
		return notice.Notice{Short: fmt.Sprintf("MassFailure: %d nodes", len(s.MassFailure.Nodes)),
			Long: massfailure.Message(&s.MassFailure)}
	case st.FirstReady != nil && s.Silent():
		return notice.Notice{Short: "LINSTOR does not respond", Long: "LINSTOR does not respond"}
	// before what may be its cause: somebody waits for these volumes
	case st.Volumes != nil && st.Volumes.Unavailable > 0:
		return notice.Notice{Short: volumeCount(int(st.Volumes.Unavailable)) + " unavailable"}
	// nothing goes on until the spec picks a node
	case st.Phase != v1alpha1.PhaseDeleting && s.Target != nil && s.Staying() == 0:
		return notice.Notice{Short: conditions.ReasonNoMatchingNodes, Long: selection.NoNodeMessage(&s.Facts)}
	case in.Outcome.Kind == step.KindFail: // which is the message already
		return notice.Notice{Short: "step failed: see MESSAGE"}
	case in.Outcome.Reason != conditions.ReasonVolumesExist:
		return notice.Notice{}
	case s.Linstor.Known() && s.Linstor.View.Volumes > 0: // a deletion waits until somebody has deleted them
		return notice.Notice{Short: volumeCount(s.Linstor.View.Volumes) + " left"}
	default:
		return notice.Notice{Short: "volumes left"} // made since the view
	}
}

// laterNotice is the first of what a human began, and of what passes or can be mended. What may last comes last.
func laterNotice(st *v1alpha1.StorageClusterStatus, in Input) notice.Notice {
	s, n := in.Snapshot, &st.Nodes
	full := meta.FindStatusCondition(st.Conditions, conditions.PoolsNearlyFull)
	retained := func(l v1alpha1.LeavingState) bool { return l == v1alpha1.LeavingRetained }
	moved := leavingNotice(n, func(l v1alpha1.LeavingState) bool { return !retained(l) })
	rollout := judge.RolloutOf(s)
	switch {
	case moved.Short != "":
		return moved
	case n.MaintenanceCount > 0:
		short := "maintenance: " + text.Listed(first(n.Maintenance, 2), int(n.MaintenanceCount))
		return notice.Notice{Short: short, Long: short}
	case len(n.Problems) > 0: // the message names the nodes that are not as they shall be
		p := &n.Problems[0]
		where := text.NodesOf(int(p.Count))
		if p.Count == 1 && len(p.Nodes) == 1 {
			where = p.Nodes[0]
		}
		return notice.Notice{Short: p.Reason + ": " + where + others(len(n.Problems))}
	case st.Volumes != nil && st.Volumes.Degraded > 0:
		return notice.Notice{Short: volumeCount(int(st.Volumes.Degraded)) + " degraded"}
	// its message changes no more often than the sizes in the status
	case full != nil && full.Status == metav1.ConditionTrue:
		return notice.Notice{Short: full.Message}
	}
	later := cmp.Or(canaryNotice(st), notice.Class(st), notice.Backup(st),
		notice.Notice{Short: rollout.Short, Long: rollout.Message}, notice.Lasting(st, s.Now, s.Timing.HealthLost),
		leavingNotice(n, retained))
	if why := takenBack(s); later.Short == "" && why != "" {
		later = notice.Notice{Short: "rolled back from LINSTOR " + s.Cluster.Spec.Version, Long: why}
	}
	if later.Short == "" && s.Cluster.Spec.Suspend {
		later.Short = "suspended"
		if s.SpecPending() {
			later.Short += fmt.Sprintf("; generation %d is waiting", s.Cluster.Generation)
		}
	}
	return later
}

// leavingNotice is about the nodes that leave and are in a state of that kind. The list may lack some of them: those
// count as what the last one is, since the list is in the order of the states.
func leavingNotice(n *v1alpha1.NodesStatus, kind func(v1alpha1.LeavingState) bool) notice.Notice {
	var names []string
	for _, l := range n.Leaving {
		if kind(l.State) {
			names = append(names, l.Name)
		}
	}
	if len(names) == 0 {
		return notice.Notice{}
	}
	count := len(names)
	if kind(n.Leaving[len(n.Leaving)-1].State) {
		count += int(n.LeavingCount) - len(n.Leaving)
	}
	short := fmt.Sprintf("%d leaving: %s", count, text.Listed(first(names, 2), count))
	return notice.Notice{Short: short, Long: short}
}

func volumeCount(n int) string { return text.Amount(n, "volume", "volumes") }

// others says how many of n things are not named, if only the first is.
func others(n int) string {
	if n == 1 {
		return ""
	}
	return fmt.Sprintf(" (+%d)", n-1)
}
