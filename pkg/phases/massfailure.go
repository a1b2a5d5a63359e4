package phases

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
)

// MassFailureState says whether many nodes failed at once.
type MassFailureState string

// States of a mass failure.
const (
	MassFailureUnknown      MassFailureState = "Unknown"
	MassFailureNone         MassFailureState = "None"
	MassFailureActive       MassFailureState = "Active"
	MassFailureAcknowledged MassFailureState = "Acknowledged"
)

// MassFailure is the judgement of how many nodes failed within a short time. Many nodes that fail together point to a switch, a
// power supply or a wrong change: what they hold will come back, and giving up on it would make the trouble worse.
type MassFailure struct {
	State MassFailureState
	// Nodes are those that are down now, by name; Total is the number that they are a part of.
	Nodes []string
	Total int
}

// Message is one line for people.
func (m *MassFailure) Message() string {
	switch m.State {
	case MassFailureActive:
		return fmt.Sprintf("%d of %d nodes failed at about the same time (%s): nothing is evacuated, given up, restarted or removed until they are back or a human says so",
			len(m.Nodes), m.Total, quoteList(m.Nodes))
	case MassFailureAcknowledged:
		return fmt.Sprintf("%d of %d nodes are down (%s), which a human knows: the operator goes on", len(m.Nodes), m.Total, quoteList(m.Nodes))
	case MassFailureUnknown:
		return "it cannot be told how many nodes are down"
	default:
		return "no more nodes than usual are down" // no count: each node that comes and goes would be a write
	}
}

// MassFailure is the judgement of the snapshot.
func (s *Snapshot) MassFailure() MassFailure { return s.mass }

// frozen is whether nothing destructive may be done now: nothing is evacuated, deleted, declared lost, restarted or made anew.
func (s *Snapshot) frozen() bool { return s.mass.State == MassFailureActive }

// downNode is a node that is down, and since when.
type downNode struct {
	node  string
	since time.Time
}

// tooMany is the bound of a mass failure: more than a fifth of all, and two at least.
func tooMany(n, of int) bool { return n >= 2 && n*5 > of }

// judgeMassFailure: it begins when too many nodes failed within Timing.MassFailureWindow, and lasts while too many are down.
// A human's word covers what had failed by then; what fails later is judged anew. The condition in the status is the memory:
// True while it lasts, Acknowledged after the human's word, its transition the moment of that word.
func (s *Snapshot) judgeMassFailure() MassFailure {
	gone := s.goneFailures()
	failed := slices.Concat(s.failures(), gone)
	m := MassFailure{State: MassFailureNone, Total: len(s.Members) + len(gone)}
	for _, f := range failed {
		m.Nodes = append(m.Nodes, f.node)
	}
	many := tooMany(len(failed), m.Total)
	was := meta.FindStatusCondition(s.Cluster.Status.Conditions, v1alpha1.ConditionMassFailure)
	acknowledged := was != nil && was.Reason == v1alpha1.ReasonAcknowledged
	lasting := was != nil && was.Status == metav1.ConditionTrue
	fresh := failed
	if acknowledged {
		fresh = slices.DeleteFunc(slices.Clone(failed), func(f downNode) bool { return !f.since.After(was.LastTransitionTime.Time) })
	}
	switch silent := !s.Linstor.Known(); {
	case s.burst(fresh, m.Total), lasting && (many || silent):
		m.State = MassFailureActive
	case acknowledged && (many || silent):
		m.State = MassFailureAcknowledged
	case silent || s.Target == nil || m.Total == 0:
		m.State = MassFailureUnknown
	}
	return m
}

// burst is whether too many nodes failed within the window.
func (s *Snapshot) burst(failed []downNode, of int) bool {
	failed = slices.Clone(failed)
	slices.SortFunc(failed, func(a, b downNode) int { return a.since.Compare(b.since) })
	for i, j := 0, 0; j < len(failed); j++ {
		for failed[j].since.Sub(failed[i].since) > s.Timing.MassFailureWindow {
			i++
		}
		if tooMany(j-i+1, of) {
			return true
		}
	}
	return false
}

// failures are the members that are down, by name. Only what was there can fail: a node that is still on its way into the
// cluster is not down. While LINSTOR does not answer, a running cluster is judged by what Kubernetes says.
func (s *Snapshot) failures() []downNode {
	var out []downNode
	for _, m := range s.Members {
		if s.Linstor.Known() && m.Linstor == nil || !s.Linstor.Known() && !s.installed() {
			continue
		}
		if since := s.failedAt(m); !since.IsZero() {
			out = append(out, downNode{m.Name, since})
		}
	}
	return out
}

// installed is whether the phase is one of a cluster that was Ready once.
func (s *Snapshot) installed() bool {
	switch s.Phase() {
	case v1alpha1.PhaseReady, v1alpha1.PhaseDegraded, v1alpha1.PhaseUpgrading:
		return true
	default:
		return false
	}
}

// failedAt is when a member went down, as far as possible from what Kubernetes recorded; zero if it is not down. Kubernetes
// calls a Node NotReady only after its grace time. A satellite or a connection must be away for a while: both are when they are
// restarted.
func (s *Snapshot) failedAt(m *Member) time.Time {
	if inMaintenance(m.Node) {
		return time.Time{}
	}
	if c := nodeCondition(m.Node, corev1.NodeReady); c != nil && c.Status != corev1.ConditionTrue {
		return c.LastTransitionTime.Time
	}
	var since time.Time
	if c := podCondition(m.SatellitePod, corev1.PodReady); c != nil && c.Status != corev1.ConditionTrue {
		since = c.LastTransitionTime.Time
	} else if m.Linstor != nil && m.Linstor.Status == linstor.StatusOffline {
		since = s.downSince(m.Name)
	}
	if since.IsZero() || s.Now.Sub(since) < s.Timing.HealthLost || s.restartedByUs(m) {
		return time.Time{}
	}
	return since
}

// restartedByUs is whether a member's satellite is away because somebody restarts it on purpose: an upgrade goes on, its pod is
// being deleted, or the pod that follows is still young.
func (s *Snapshot) restartedByUs(m *Member) bool {
	p := m.SatellitePod
	return s.Cluster.Status.Upgrade != nil || p != nil && (p.DeletionTimestamp != nil || s.Now.Sub(p.CreationTimestamp.Time) < s.Timing.Straggler)
}

// inMaintenance is whether an administrator has announced that the node will be down.
func inMaintenance(n *corev1.Node) bool {
	v, announced := n.Annotations[v1alpha1.AnnotationMaintenance]
	return announced && !strings.EqualFold(v, "false")
}

func nodeCondition(n *corev1.Node, kind corev1.NodeConditionType) *corev1.NodeCondition {
	for i := range n.Status.Conditions {
		if c := &n.Status.Conditions[i]; c.Type == kind {
			return c
		}
	}
	return nil
}

func podCondition(p *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	if p == nil {
		return nil
	}
	for i := range p.Status.Conditions {
		if c := &p.Status.Conditions[i]; c.Type == kind {
			return c
		}
	}
	return nil
}

// massFailureHold asks whether the operator may go on all the same.
func (s *Snapshot) massFailureHold() (*HoldRequest, bool) {
	if !s.frozen() {
		return nil, true
	}
	return &HoldRequest{Reason: v1alpha1.HoldMassFailure, Message: s.mass.Message(), Nodes: s.mass.Nodes}, true
}
