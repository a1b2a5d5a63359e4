package satellites

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/netcom"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/nodelabels"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/poddiagnosis"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/replica"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/netcomtls"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

// restartsPerRun bounds how many satellites one reconcile restarts.
const restartsPerRun = 200

// Message says how far the roll is, or which satellites restart although none is outdated.
func Message(r *cluster.Roll) string {
	if n := len(r.Restarting); len(r.Outdated) == 0 && n > 0 {
		return text.Amount(n, "satellite is", "satellites are") + " being restarted: " + MemberNames(r.Restarting)
	}
	message := fmt.Sprintf("restarting satellites: %d of %d done", r.Done, r.Total)
	if r.Waiting != "" {
		message += "; " + r.Waiting
	}
	return message
}

// FindOutdated marks the members whose satellite's pod is not as its platform's DaemonSet shall make it.
func FindOutdated(s *cluster.Snapshot) {
	wanted := map[string]string{}
	missing := netcom.Missing(&s.Facts, netcomtls.Satellite) != "" // then nobody knows how they shall be made
	for _, ds := range DaemonSets(s) {
		wanted[ds.Labels[v1alpha1.LabelPlatform]] = resources.TemplateHash(ds)
	}
	for _, m := range s.Members {
		if p := m.SatellitePod; p != nil {
			hash, known := wanted[p.Labels[v1alpha1.LabelPlatform]]
			m.Outdated = known && !missing && p.Annotations[resources.AnnotationTemplateHash] != hash
		}
		m.Restarting = restarts(&s.Facts, m)
	}
}

// JudgeRoll plans the next restarts of satellites.
//
// On the hosts' network DRBD's connections outlive the pods: one satellite goes first, and then up to a quarter at a
// time. On the pods' network a restart cuts replication: one satellite in each zone, whose peers all have all data,
// and no two that hold copies of the same volume. In both cases nothing more is restarted before LINSTOR reports the
// last ones ONLINE.
func JudgeRoll(s *cluster.Snapshot) cluster.Roll {
	r, of := cluster.Roll{}, map[rollKind][]*cluster.Member{}
	for _, m := range s.Members {
		if m.SatellitePod == nil && m.Linstor == nil {
			continue // it has not come so far yet
		}
		r.Total++
		kind := rollKindOf(s, m)
		of[kind] = append(of[kind], m)
	}
	r.Done, r.Restarting = len(of[rollDone]), of[rollRestarting]
	unreached := slices.DeleteFunc(slices.Clone(of[rollDown]), func(m *cluster.Member) bool { return !m.Outdated })
	r.Outdated = slices.Concat(unreached, of[rollUnused], of[rollBroken], of[rollCutOff], of[rollServing])
	if len(r.Outdated) > 0 {
		planRoll(s, &r, of)
	}
	return r
}

type rollKind int

const (
	rollNone       rollKind = iota // not concerned: under maintenance, or it has just joined
	rollDone                       // as wanted, and LINSTOR is connected to it
	rollRestarting                 // was replaced or is going, and is not back yet
	rollUnused                     // outdated, and LINSTOR has never used it
	rollBroken                     // outdated, and cannot serve LINSTOR as it is: it fails, or has another version
	rollCutOff                     // outdated, and LINSTOR does not reach it, maybe for its certificate
	rollServing                    // outdated, and serves LINSTOR
	rollDown                       // its node is not ready, LINSTOR does not reach it, or it must have no satellite
)

func rollKindOf(s *cluster.Snapshot, m *cluster.Member) rollKind {
	p := m.SatellitePod
	switch {
	case p != nil && !m.Outdated && s.Back(m):
		return rollDone
	case m.Maintenance:
		return rollNone // its time is the administrator's
	case !m.NodeReady, m.Barred():
		return rollDown
	case p == nil, p.DeletionTimestamp != nil, !m.Outdated && m.Linstor != nil:
		return rollRestarting
	case !m.Outdated:
		return rollNone
	case m.Linstor == nil && s.NeverUsed():
		return rollUnused
	case !m.PodReady || !s.RightVersion(m):
		return rollBroken
	case netcom.CutOff(s, m):
		return rollCutOff
	case m.Online:
		return rollServing
	default:
		return rollDown
	}
}

// rescuable are the members that may be restarted while many nodes fail at once: LINSTOR has lost them by their
// certificates, maybe all of them, and a restart takes nothing else from them.
func rescuable(cutOff []*cluster.Member) []*cluster.Member {
	return slices.DeleteFunc(slices.Clone(cutOff),
		func(m *cluster.Member) bool { return !m.SatellitePod.Spec.HostNetwork })
}

// planRoll fills in Next or Waiting. Satellites that do not serve LINSTOR anyway go first: a restart takes nothing
// from them, and may be what they need.
func planRoll(s *cluster.Snapshot, r *cluster.Roll, of map[rollKind][]*cluster.Member) {
	limit, down := step.RestartsAtOnce(s), len(of[rollDown])+len(of[rollCutOff])
	unused, broken := of[rollUnused], of[rollBroken]
	if s.Frozen() {
		unused = nil
	}
	candidates, room := first(s, of, limit, min(limit-down, restartsPerRun))
	if r.Done == 0 {
		room = min(room, 1) // the first one shows whether the others would come back
	}
	switch {
	case s.Frozen() && len(candidates) == 0:
		r.Waiting = "many nodes failed at once; no satellites are restarted until this is resolved"
	case len(unused) > 0:
		r.Next = unused[:min(len(unused), restartsPerRun)]
	case len(r.Restarting) > 0:
		r.Waiting = fmt.Sprintf("waiting for %s to be ONLINE in LINSTOR again", MemberNames(r.Restarting))
	case len(broken) == 0 && nodelabels.MovesLeft(s) > 0:
		r.Waiting = "satellites that need another platform's settings are replaced first"
	case !s.Linstor.Known():
		r.Waiting = "LINSTOR does not respond" // and nobody knows who is back
	case len(candidates) == 0:
		r.Waiting = "cannot restart the satellite on " + MemberNames(r.Outdated) +
			": the Kubernetes node is not ready, or LINSTOR cannot reach the satellite"
	case room <= 0:
		r.Waiting = fmt.Sprintf("%s down, but at most %d may be down at a time",
			text.Amount(down, "node is", "nodes are"), limit)
	default:
		r.Next, r.Waiting = pickRoll(s, candidates, room)
	}
}

// first are those that go first, and how many at a time, where so many of those that serve could be restarted.
func first(s *cluster.Snapshot, of map[rollKind][]*cluster.Member, limit, serving int) ([]*cluster.Member, int) {
	switch cut := of[rollCutOff]; {
	case s.Frozen():
		return rescuable(cut), limit
	case len(of[rollBroken]) > 0:
		return of[rollBroken], limit
	case len(cut) > 0 && (len(of[rollServing]) == 0 || serving <= 0):
		// Last, since it may be the network that keeps LINSTOR from them; and before nobody is restarted because of them.
		return cut, limit
	default:
		return of[rollServing], serving
	}
}

// pickRoll takes the first candidates that may be restarted together.
func pickRoll(s *cluster.Snapshot, candidates []*cluster.Member, room int) ([]*cluster.Member, string) {
	var copies []linstor.Resource
	if v := s.Linstor.View; v.ResourcesKnown {
		copies = v.Resources
	}
	var next []*cluster.Member
	zones, waiting := map[string]bool{}, ""
	for _, m := range candidates {
		if len(next) == room {
			break
		}
		if !m.SatellitePod.Spec.HostNetwork {
			zone := m.Node.Labels[corev1.LabelTopologyZone]
			if zones[zone] {
				continue
			}
			if why := replica.ReplicationNeeds(s, m, next, copies); why != "" {
				waiting = why
				continue
			}
			zones[zone] = true
		}
		next = append(next, m)
	}
	if len(next) > 0 {
		waiting = ""
	}
	return next, waiting
}

// restarts reports whether a member's satellite has just been replaced and may come back any moment: by the roll, or
// by somebody who deleted its pod. It is no failure of the node. Only what has been Ready can come back: while a
// cluster is set up, or adopted with all its satellites new, a satellite that is not there yet is one to be waited
// for.
func restarts(s *cluster.Facts, m *cluster.Member) bool {
	p := m.SatellitePod
	if !s.WasReady() || p == nil || !m.WasOnline || !m.NodeReady || m.Replaced {
		return false
	}
	t := poddiagnosis.Find(s, p)
	if s.Now.Sub(restartedAt(p)) >= s.Timing.Straggler || t != nil && t.Lasting {
		return false
	}
	back := m.PodReady && m.Online
	return p.DeletionTimestamp != nil || !m.Outdated && !back
}

// RollStuck is the hold for satellites that did not come back, so that those after them are not restarted; nil if the
// roll may go on.
func RollStuck(s *cluster.Snapshot) *cluster.HoldRequest {
	r := s.Roll
	deadline := s.Timing.Deadlines[fsm.Satellites]
	if len(r.Outdated) == 0 || len(r.Restarting) == 0 || s.PhaseAge() < deadline || s.Connecting() {
		return nil
	}
	late := slices.DeleteFunc(slices.Clone(r.Restarting), func(m *cluster.Member) bool {
		return m.SatellitePod == nil || s.Now.Sub(restartedAt(m.SatellitePod)) <= deadline
	})
	if len(late) == 0 {
		return nil
	}
	why := "it is not ONLINE in LINSTOR"
	if p := late[0].Problem; p != nil {
		why = p.Message
	}
	return &cluster.HoldRequest{Reason: v1alpha1.HoldSatellitesFailed, Nodes: names(late), Message: fmt.Sprintf(
		"the satellite on %s did not recover within %s of its restart: %s. "+
			"The remaining %d outdated satellites are not restarted until it does",
		MemberNames(late), deadline, why, len(r.Outdated))}
}

// restartedAt is when a satellite's restart began, as far as its pod shows it.
func restartedAt(p *corev1.Pod) time.Time {
	if p.DeletionTimestamp != nil {
		return p.DeletionTimestamp.Time
	}
	return p.CreationTimestamp.Time
}

// MemberNames lists some of the members.
func MemberNames(ms []*cluster.Member) string { return text.QuoteList(names(ms)) }

func names(ms []*cluster.Member) []string {
	out := make([]string, 0, len(ms))
	for _, m := range ms {
		out = append(out, m.Name)
	}
	return out
}
