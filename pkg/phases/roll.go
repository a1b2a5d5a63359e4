package phases

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
)

// rollShare is the part of the members whose satellites may be down at a time while they are restarted: a quarter, one at
// least. LINSTOR cannot change volumes on a node without its satellite.
const rollShare = 4

// restartsPerRun bounds how many satellites one reconcile restarts.
const restartsPerRun = 200

// Roll is how far the satellites' pods have followed a change of what they are made from. It is found anew in each
// snapshot: a pod that is not as wanted has another hash than its DaemonSet's.
type Roll struct {
	// Done and Total count the members that have a satellite's pod: those whose pod is as wanted and serves LINSTOR, and all.
	Done, Total int
	// Outdated are members whose pod is not as wanted, without those under maintenance.
	Outdated []*Member
	// Restarting are members whose pod was replaced or is going, and that do not serve LINSTOR again yet.
	Restarting []*Member
	// Next are the members that may be restarted now.
	Next []*Member
	// Waiting says why Next is empty although pods are outdated.
	Waiting string
}

// Message says in a few words how far the roll is.
func (r *Roll) Message() string {
	text := fmt.Sprintf("rolling %d/%d", r.Done, r.Total)
	if r.Waiting != "" {
		text += ": " + r.Waiting
	}
	return text
}

// findOutdated marks the members whose satellite's pod is not as its platform's DaemonSet shall make it.
func (s *Snapshot) findOutdated() {
	wanted := map[string]string{}
	for _, ds := range s.satellites() {
		wanted[ds.Labels[v1alpha1.LabelPlatform]] = resources.SatelliteHash(ds)
	}
	for _, m := range s.Members {
		if p := m.SatellitePod; p != nil {
			hash, known := wanted[p.Labels[v1alpha1.LabelPlatform]]
			m.outdated = known && p.Annotations[resources.AnnotationTemplateHash] != hash
		}
		m.restarting = s.restarts(m)
	}
}

// Roll plans the next restarts of satellites.
//
// On the hosts' network DRBD's connections outlive the pods: one satellite goes first, and then up to a quarter at a time.
// On the pods' network a restart cuts replication: one satellite in each zone, whose peers all have all data, and no two
// that hold copies of the same volume. In both cases nothing more is restarted before LINSTOR reports the last ones ONLINE.
func (s *Snapshot) Roll() Roll {
	r := Roll{}
	var c rollCandidates
	for _, m := range s.Members {
		if m.SatellitePod == nil && m.Linstor == nil {
			continue // it has not come so far yet
		}
		r.Total++
		switch kind := s.rollKind(m); kind {
		case rollDone:
			r.Done++
		case rollRestarting:
			r.Restarting = append(r.Restarting, m)
		case rollUnused:
			c.unused = append(c.unused, m)
		case rollBroken:
			c.broken = append(c.broken, m)
		case rollServing:
			c.serving = append(c.serving, m)
		case rollDown:
			c.down++
			if m.outdated {
				r.Outdated = append(r.Outdated, m)
			}
		case rollNone:
		}
	}
	r.Outdated = slices.Concat(r.Outdated, c.unused, c.broken, c.serving)
	if len(r.Outdated) > 0 {
		s.planRoll(&r, &c)
	}
	return r
}

// rollKind is a member's part in a roll.
type rollKind int

const (
	rollNone       rollKind = iota // not concerned: under maintenance, or it has just joined
	rollDone                       // as wanted, and LINSTOR is connected to it
	rollRestarting                 // was replaced or is going, and is not back yet
	rollUnused                     // outdated, and LINSTOR has never used it
	rollBroken                     // outdated, and cannot serve LINSTOR as it is: it fails, or has another version
	rollServing                    // outdated, and serves LINSTOR
	rollDown                       // cannot be reached: its node is not ready, or LINSTOR does not reach it
)

func (s *Snapshot) rollKind(m *Member) rollKind {
	p := m.SatellitePod
	switch {
	case p != nil && !m.outdated && s.back(m):
		return rollDone
	case inMaintenance(m.Node):
		return rollNone // its time is the administrator's
	case !nodeReady(m.Node):
		return rollDown
	case p == nil, p.DeletionTimestamp != nil, !m.outdated && m.Linstor != nil:
		return rollRestarting
	case !m.outdated:
		return rollNone
	case m.Linstor == nil && s.neverUsed():
		return rollUnused
	case !podReady(p) || !s.rightVersion(m):
		return rollBroken
	case m.Linstor != nil && m.Linstor.Online():
		return rollServing
	default:
		return rollDown
	}
}

// neverUsed is whether LINSTOR has no volume on a member that is not in its view: it answers, or has never answered yet.
func (s *Snapshot) neverUsed() bool {
	claim, _, err := s.Claim()
	return s.Linstor.Known() || err == nil && claim.LocalID == "" && !claim.Adopted
}

// rollCandidates are the outdated members that could be restarted, and how many others are down.
type rollCandidates struct {
	unused, broken, serving []*Member
	down                    int
}

// planRoll fills in Next or Waiting. Satellites that do not serve LINSTOR anyway go first: a restart takes nothing from
// them, and may be what they need.
func (s *Snapshot) planRoll(r *Roll, c *rollCandidates) {
	limit := max(1, len(s.Members)/rollShare)
	candidates, room := c.serving, min(limit-c.down, restartsPerRun)
	if len(c.broken) > 0 {
		candidates, room = c.broken, limit
	}
	if r.Done == 0 {
		room = min(room, 1) // the first one shows whether the others would come back
	}
	switch {
	case s.frozen():
		r.Waiting = "many nodes failed at once; nothing is restarted until that is over"
	case len(c.unused) > 0:
		r.Next = c.unused[:min(len(c.unused), restartsPerRun)]
	case len(r.Restarting) > 0:
		r.Waiting = fmt.Sprintf("waiting for %s to be ONLINE in LINSTOR again", memberNames(r.Restarting))
	case len(c.broken) == 0 && s.movesLeft() > 0:
		r.Waiting = "satellites are exchanged for those of another platform first"
	case !s.Linstor.Known():
		r.Waiting = "LINSTOR does not answer" // and cannot tell who is back
	case len(candidates) == 0:
		r.Waiting = fmt.Sprintf("%s cannot be restarted: the Kubernetes node is not ready, or LINSTOR does not reach it", memberNames(r.Outdated))
	case room <= 0:
		r.Waiting = fmt.Sprintf("%d nodes are down, and no more than %d may be", c.down, limit)
	default:
		r.Next, r.Waiting = s.pickRoll(candidates, room)
	}
}

// pickRoll takes the first candidates that may be restarted together.
func (s *Snapshot) pickRoll(candidates []*Member, room int) ([]*Member, string) {
	var next []*Member
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
			if why := s.replicationNeeds(m, next, s.copies()); why != "" {
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

// copies are all copies of volumes; nil if they are not known.
func (s *Snapshot) copies() []linstor.Resource {
	if v := s.Linstor.View; v != nil && v.ResourcesKnown {
		return v.Resources
	}
	return nil
}

// replicationNeeds says why replication cannot do without a member for a moment; "" if it can. Every other copy of the
// member's volumes must have all data, and be on a node that is not restarted at the same time.
//
// LINSTOR does not know the copies of satellites whose version is not its own. These count unless a satellite that it does
// know misses the connection to them.
func (s *Snapshot) replicationNeeds(m *Member, together []*Member, copies []linstor.Resource) string {
	if copies == nil {
		return "it is not known which copies of volumes are UpToDate"
	}
	mine := map[string]bool{}
	for i := range copies {
		if strings.EqualFold(copies[i].Node, m.Name) {
			mine[copies[i].Name] = true
		}
	}
	for i := range copies {
		c := &copies[i]
		if !mine[c.Name] || strings.EqualFold(c.Node, m.Name) || !c.Diskful {
			continue
		}
		for _, other := range together {
			if strings.EqualFold(other.Name, c.Node) {
				return fmt.Sprintf("%s and %s hold copies of volume %s", m.Name, other.Name, c.Name)
			}
		}
		if !c.UpToDate() && !s.hiddenCopy(c, copies) {
			return fmt.Sprintf("%s holds a copy of volume %s, whose copy on %s is not UpToDate", m.Name, c.Name, c.Node)
		}
	}
	return ""
}

// hiddenCopy is whether LINSTOR cannot tell the state of a copy only because the satellite waits for its upgrade.
func (s *Snapshot) hiddenCopy(c *linstor.Resource, copies []linstor.Resource) bool {
	m := s.MemberByName(c.Node)
	if m == nil || !podReady(m.SatellitePod) || s.rightVersion(m) {
		return false
	}
	for i := range copies {
		if peer := &copies[i]; peer.Name == c.Name {
			if connected, known := peer.Connected[c.Node]; known && !connected {
				return false
			}
		}
	}
	return true
}

// back is whether a satellite runs and LINSTOR has connected to it since it started. What LINSTOR says sooner may be about
// the one before: it takes a moment to notice that a connection is gone.
func (s *Snapshot) back(m *Member) bool {
	if !podReady(m.SatellitePod) || m.Linstor == nil || !m.Linstor.Online() {
		return false
	}
	since := podCondition(m.SatellitePod, corev1.PodReady).LastTransitionTime.Time
	return !s.Linstor.View.TakenAt.Before(since.Add(s.Timing.LossNoticed))
}

// propUname is a property that LINSTOR sets on a node whenever it has connected to its satellite (linstor-server,
// CtrlAuthResponseApiCallHandler): a node without it was never ONLINE.
const propUname = "NodeUname"

// restarts is whether a member's satellite has just been replaced and may come back any moment: by the roll, or by somebody
// who deleted its pod. It is no failure of the node. Only what has been Ready can come back: while a cluster is set up, or adopted
// with all its satellites new, a satellite that is not there yet is one to be waited for.
func (s *Snapshot) restarts(m *Member) bool {
	p := m.SatellitePod
	if !s.wasReady() || p == nil || m.Linstor == nil || m.Linstor.Properties[propUname] == "" || !nodeReady(m.Node) || machineReplaced(m) {
		return false
	}
	t := troubleOf(p)
	if s.Now.Sub(restartedAt(p)) >= s.Timing.Straggler || t != nil && t.lasting {
		return false
	}
	back := podReady(p) && m.Linstor.Online()
	return p.DeletionTimestamp != nil || !m.outdated && !back
}

// wasReady is whether the cluster has been through the whole chain, as far as the status remembers.
func (s *Snapshot) wasReady() bool {
	steady := []v1alpha1.Phase{v1alpha1.PhaseReady, v1alpha1.PhaseDegraded, v1alpha1.PhaseUpgrading}
	st := &s.Cluster.Status
	return slices.Contains(steady, st.Phase) || slices.ContainsFunc(st.History, func(t v1alpha1.Transition) bool { return slices.Contains(steady, t.To) })
}

// satelliteSet is the DaemonSet that a satellite's pod belongs to; nil if it is not there.
func (k *Kube) satelliteSet(p *corev1.Pod) *appsv1.DaemonSet {
	for _, q := range resources.Profiles() {
		if q.Key() == p.Labels[v1alpha1.LabelPlatform] {
			return k.DaemonSets[q.SatelliteName()]
		}
	}
	return k.DaemonSets[resources.SatelliteName]
}

// roll restarts the next satellites by deleting their pods, which their DaemonSet makes anew.
func (in *Input) roll(ctx context.Context) error {
	if in.Cluster.DeletionTimestamp != nil {
		return nil
	}
	plan := in.Roll()
	if len(plan.Next) > 0 {
		if err := in.stands(ctx); err != nil {
			return ignoreOutdated(err)
		}
	}
	for i, m := range plan.Next {
		// A DaemonSet whose change was not seen yet would make the pod as it was.
		ds := in.Kube.satelliteSet(m.SatellitePod)
		if ds == nil || ds.Status.ObservedGeneration < ds.Generation || in.writing(m) {
			continue
		}
		if !m.SatellitePod.Spec.HostNetwork {
			if why, err := in.lookAtCopies(ctx, m, plan.Next[:i]); err != nil || why != "" {
				return err
			}
		}
		if err := in.Writer.Delete(ctx, m.SatellitePod); err != nil {
			return fmt.Errorf("restart the satellite on %s: %w", m.Name, err)
		}
	}
	return nil
}

// writing is whether a write to LINSTOR about the member is under way. A satellite that stops while it makes a volume group
// would leave it half made.
func (in *Input) writing(m *Member) bool {
	keys := []string{"node/" + m.Name}
	for _, p := range m.Pools {
		keys = append(keys, poolKey(m, p))
	}
	for _, k := range keys {
		if st := in.Tasks.State(k); st.Running || st.Queued {
			return true
		}
	}
	return false
}

// lookAtCopies asks LINSTOR once more, right before replication is cut: the view is a little old.
func (in *Input) lookAtCopies(ctx context.Context, m *Member, together []*Member) (string, error) {
	copies, err := in.API.Resources(ctx, linstor.ResourceQuery{})
	if err != nil {
		return "", fmt.Errorf("look at the copies of volumes before the satellite on %s is restarted: %w", m.Name, err)
	}
	return in.replicationNeeds(m, together, copies), nil
}

// rollStuck is the hold for satellites that did not come back, so that those after them are not restarted; nil if the roll
// may go on.
func (s *Snapshot) rollStuck() *HoldRequest {
	r := s.Roll()
	deadline := s.Timing.Deadlines[fsm.Satellites]
	if len(r.Outdated) == 0 || len(r.Restarting) == 0 || s.PhaseAge() < deadline {
		return nil
	}
	var late []*Member
	for _, m := range r.Restarting {
		if p := m.SatellitePod; p != nil && s.Now.Sub(restartedAt(p)) > deadline {
			late = append(late, m)
		}
	}
	if len(late) == 0 {
		return nil
	}
	why := "it is not ONLINE in LINSTOR"
	if p := late[0].Problem; p != nil {
		why = p.Message
	}
	h := &HoldRequest{Reason: v1alpha1.HoldSatellitesFailed, Message: fmt.Sprintf(
		"the satellite on %s did not come back after its restart within %s: %s. The %d outdated satellites left are not restarted until it does",
		memberNames(late), deadline, why, len(r.Outdated))}
	for _, m := range late {
		h.Nodes = append(h.Nodes, m.Name)
	}
	return h
}

// restartedAt is when a satellite's restart began, as far as its pod shows it.
func restartedAt(p *corev1.Pod) time.Time {
	if p.DeletionTimestamp != nil {
		return p.DeletionTimestamp.Time
	}
	return p.CreationTimestamp.Time
}

func memberNames(ms []*Member) string {
	names := make([]string, 0, len(ms))
	for _, m := range ms {
		names = append(names, m.Name)
	}
	return quoteList(names)
}
