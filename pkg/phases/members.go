package phases

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/catalogue"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
)

// Member is a node that takes part. Everything in it follows from the snapshot.
type Member struct {
	Name string
	// Node is the Kubernetes Node.
	Node *corev1.Node
	// Selected is whether the spec picks the node now; a member that it no longer picks is leaving.
	Selected bool
	// Labelled is whether the node has the labels of a member and of its operating system.
	Labelled bool
	// Profile is what its platform makes different.
	Profile resources.Profile
	// OSKey is the value of the label that its module loader's DaemonSet selects on.
	OSKey string
	// Loader is the module loader for its operating system.
	Loader catalogue.Loader
	// LoaderPod and SatellitePod are nil when there is none.
	LoaderPod, SatellitePod *corev1.Pod
	// Linstor is its LINSTOR node; nil when it is not registered or LINSTOR is not known.
	Linstor *linstor.Node
	// interfaces are its network interfaces.
	interfaces []memberInterface
	// Pools are what the spec wants on it.
	Pools []*MemberPool

	// oldPools are pools that the operator made and that the spec no longer wants there.
	oldPools []*linstor.Pool
	// Notes tell what is worth knowing although it keeps the member from nothing.
	Notes []*Problem
	// disks are what the satellite's inventory found; nil while no pool is made from devices.
	disks []disk

	// State and Problem are the judgement.
	State   v1alpha1.NodeState
	Problem *Problem
	// Joining is whether it came so lately that being unfinished is no trouble.
	Joining bool
	// Maintenance is whether an administrator has announced that the node will be down.
	Maintenance bool
	// Leave is how far a member is that the spec no longer picks; nil for others.
	Leave *Leave

	moduleOK, satelliteOK, registeredOK, poolsOK bool
	// outdated: its satellite's pod is not as wanted any more.
	outdated bool
	// restarting: its satellite was replaced a moment ago, which is no trouble yet.
	restarting bool
}

// Problem is what keeps a member from going on.
type Problem struct {
	Reason  string
	Message string
	// Pool is the entry of spec.storagePools that it is about; "" for others.
	Pool string
	// Hold is the reason of a hold if going on by itself does not help; "" while it may.
	Hold v1alpha1.HoldReason
}

// Told is what the status tells of a member: its trouble, and what is worth knowing besides.
func (m *Member) Told() []*Problem {
	if m.Problem == nil {
		return m.Notes
	}
	return append([]*Problem{m.Problem}, m.Notes...)
}

// MemberByName finds a member.
func (s *Snapshot) MemberByName(name string) *Member {
	i, ok := slices.BinarySearchFunc(s.Members, name, func(m *Member, n string) int { return cmp.Compare(m.Name, n) })
	if !ok {
		return nil
	}
	return s.Members[i]
}

// Derive fills in the members. It is the last step of taking a snapshot.
func (s *Snapshot) Derive() {
	s.mass.State = MassFailureUnknown
	spec := s.nodesSpec()
	if spec == nil {
		return
	}
	for _, n := range s.Kube.Nodes {
		labelled := n.Labels[v1alpha1.LabelMember] == s.Cluster.Name
		selected := Selects(spec, n)
		if !labelled && !selected && !s.registered(n) {
			continue
		}
		m := &Member{Name: n.Name, Node: n, Selected: selected, Maintenance: inMaintenance(n), Loader: s.Catalogue.LoaderFor(n.Status.NodeInfo.OSImage)}
		m.Profile = resources.ProfileOf(resources.PlatformOf(s.platform(), n))
		m.OSKey = m.Profile.OSKey(s.moduleMode(), m.Loader)
		m.Labelled = labelled && n.Labels[v1alpha1.LabelOS] == m.OSKey
		m.LoaderPod = s.Kube.Pods[v1alpha1.ComponentModuleLoader][n.Name]
		m.SatellitePod = s.Kube.Pods[v1alpha1.ComponentSatellite][n.Name]
		if s.Linstor.Known() {
			m.Linstor = s.Linstor.View.Nodes[strings.ToLower(n.Name)]
		}
		s.Members = append(s.Members, m)
	}
	slices.SortFunc(s.Members, func(a, b *Member) int { return cmp.Compare(a.Name, b.Name) })
	if s.Target == nil {
		return
	}
	if s.Target.Spec.WantsDevices() {
		s.indexDisks()
	}
	s.indexAddresses()
	s.upgrade = s.judgeUpgrade()
	s.findOutdated()
	s.derivePools()
	s.deriveGone()
	for _, m := range s.Members {
		s.judge(m)
	}
	s.mass = s.judgeMassFailure()
	s.judgeLeaving()
	s.judgeGone()
}

// registered is whether the operator registered the node in LINSTOR: one without the member's label that is there is leaving.
func (s *Snapshot) registered(n *corev1.Node) bool {
	if !s.Linstor.Known() {
		return false
	}
	have := s.Linstor.View.Node(n.Name)
	return have != nil && have.Properties[auxUID] == string(n.UID)
}

func (s *Snapshot) nodesSpec() *v1alpha1.NodesSpec {
	if s.Target != nil {
		return &s.Target.Spec.Nodes
	}
	return &s.Cluster.Spec.Nodes
}

func (s *Snapshot) platform() v1alpha1.Platform {
	if s.Target != nil {
		return s.Target.Spec.Platform
	}
	return s.Cluster.Spec.Platform
}

func (s *Snapshot) moduleMode() v1alpha1.KernelModuleMode {
	if s.Target != nil {
		return s.Target.Spec.KernelModule.Mode
	}
	return s.Cluster.Spec.KernelModule.Mode
}

// Selects says whether the spec picks a node: it runs Linux, is not being deleted, its labels match, and its taints that
// keep new pods away are tolerated.
func Selects(spec *v1alpha1.NodesSpec, n *corev1.Node) bool {
	if n.DeletionTimestamp != nil || n.Status.NodeInfo.OperatingSystem == "windows" || n.Labels[corev1.LabelOSStable] == "windows" {
		return false
	}
	if !labels.SelectorFromSet(spec.NodeSelector).Matches(labels.Set(n.Labels)) {
		return false
	}
	for i := range n.Spec.Taints {
		if t := &n.Spec.Taints[i]; keepsAway(t) && !tolerated(spec.Tolerations, t) {
			return false
		}
	}
	return true
}

// keepsAway leaves out the taints that Kubernetes itself puts on nodes in trouble: a node that is not ready for a while,
// short of memory or cordoned stays a member, because its data is there.
func keepsAway(t *corev1.Taint) bool {
	if t.Effect == corev1.TaintEffectPreferNoSchedule {
		return false
	}
	return !strings.HasPrefix(t.Key, "node.kubernetes.io/") && !strings.HasPrefix(t.Key, "drbd.linbit.com/")
}

func tolerated(ts []v1alpha1.Toleration, taint *corev1.Taint) bool {
	return slices.ContainsFunc(ts, func(t v1alpha1.Toleration) bool {
		switch {
		case t.Effect != "" && t.Effect != taint.Effect:
			return false
		case t.Operator == corev1.TolerationOpExists:
			return t.Key == "" || t.Key == taint.Key
		default:
			return t.Key == taint.Key && t.Value == taint.Value
		}
	})
}

// Counts is whether the cluster counts on the member: it does not leave, and is not down for maintenance.
func (m *Member) Counts() bool { return m.Selected && m.State != v1alpha1.NodeMaintenance }

// Counted is the number of members that the cluster counts on.
func (s *Snapshot) Counted() int { return s.count((*Member).Counts) }

// Staying is the number of members that do not leave.
func (s *Snapshot) Staying() int { return s.count(func(m *Member) bool { return m.Selected }) }

// MinReady is how many members must be through, of those that the cluster counts on. Percentages round up; the default
// leaves out a tenth, one at least, and never goes below one.
func (s *Snapshot) MinReady() int {
	n := s.Counted()
	spec := s.nodesSpec()
	if spec == nil || spec.MinReady == nil {
		return max(1, n-max(1, n/10))
	}
	ready, err := intstr.GetScaledValueFromIntOrPercent(spec.MinReady, n, true)
	if err != nil {
		ready = n
	}
	return max(1, min(ready, n))
}

// judge finds the first link that is not satisfied on the member.
func (s *Snapshot) judge(m *Member) {
	m.moduleOK = s.moduleOn(m)
	m.satelliteOK = podReady(m.SatellitePod) && s.rightVersion(m)
	m.registeredOK = m.Linstor != nil && m.Linstor.Online() && !machineReplaced(m) && s.drbdSeen(m) && interfacesMatch(s, m)
	m.poolsOK = m.registeredOK && allPoolsReady(m)
	m.restarting = m.restarting && allPoolsRegistered(m)
	m.Joining = s.joining(m)
	switch {
	case !m.Selected:
		m.State, m.Joining = v1alpha1.NodeLeaving, false
	case s.heldNode(m), machineReplaced(m):
		m.State = v1alpha1.NodeHeld
	default:
		m.State = s.placeInChain(m)
	}
	if m.Selected && m.Maintenance && m.State != v1alpha1.NodeOnline {
		m.State, m.Joining = v1alpha1.NodeMaintenance, false
	}
	m.Problem = s.problemOf(m)
	s.notePlacement(m)
}

// placeInChain is the first link that is not satisfied on the member, or that it cannot be reached.
func (s *Snapshot) placeInChain(m *Member) v1alpha1.NodeState {
	switch {
	case m.Linstor != nil && !m.Linstor.Online() && !nodeReady(m.Node):
		return v1alpha1.NodeUnreachable
	case !m.moduleOK:
		return v1alpha1.NodeLoadingModule
	case !m.satelliteOK:
		return v1alpha1.NodeStartingSatellite
	case m.Linstor == nil || !m.registeredOK && (m.Joining || m.Linstor.Online() && s.drbdSeen(m)):
		return v1alpha1.NodeRegistering
	case !m.registeredOK:
		return v1alpha1.NodeUnreachable
	case !m.poolsOK:
		return v1alpha1.NodeCreatingPools
	default:
		return v1alpha1.NodeOnline
	}
}

// joining is whether the member's satellite pod is so young that the member may still be on its way through the chain.
// A member that LINSTOR has lost is not on its way, however young its pod is.
func (s *Snapshot) joining(m *Member) bool {
	if m.Linstor != nil && m.registeredOK && m.poolsOK {
		return false
	}
	since := m.Node.CreationTimestamp.Time
	for _, p := range []*corev1.Pod{m.LoaderPod, m.SatellitePod} {
		if p != nil && p.CreationTimestamp.After(since) {
			since = p.CreationTimestamp.Time
		}
	}
	if m.SatellitePod == nil && m.LoaderPod == nil && m.Linstor == nil {
		return nodeReady(m.Node)
	}
	return m.Linstor == nil && s.Now.Sub(since) < s.Timing.Join
}

// Online are the members that have all they shall have.
func (s *Snapshot) Online() int {
	return s.count(func(m *Member) bool { return m.State == v1alpha1.NodeOnline })
}

func (s *Snapshot) count(f func(*Member) bool) int {
	n := 0
	for _, m := range s.Members {
		if f(m) {
			n++
		}
	}
	return n
}

// perMember judges a link that is about members: those that earlier links let through, and those that this one lets
// through as well. Members that leave or are under maintenance do not count.
func (s *Snapshot) perMember(before, through func(*Member) bool) Evidence {
	e := Evidence{Total: s.Counted()}
	e.Done = s.count(func(m *Member) bool { return m.Counts() && before(m) && through(m) })
	e.Waiting = s.count(func(m *Member) bool { return m.Counts() && before(m) && !through(m) && !m.restarting })
	// Satellites that are just being restarted were through, and will be again: the cluster does not change for that moment.
	// Those that LINSTOR has not all pools of were not.
	restarting := s.count(func(m *Member) bool { return m.Counts() && m.restarting && (!before(m) || !through(m)) })
	switch {
	case s.Staying() == 0:
		e.State, e.Reason, e.Message = Missing, v1alpha1.ReasonNoMatchingNodes, s.NoNodeMessage()
	case e.Done+restarting == e.Total:
		e.State = Satisfied
	case e.Done+restarting >= s.MinReady():
		e.State = Enough
	default:
		e.State = Missing
		e.Hold = s.blocked(through)
		if e.Hold != nil {
			e.State = Failed
		}
	}
	return e
}

// blocked is the hold for a link that cannot reach minReady any more: too many members have trouble that does not go away
// by itself. The reason with the most members speaks for all.
func (s *Snapshot) blocked(through func(*Member) bool) *HoldRequest {
	type key struct {
		reason v1alpha1.HoldReason
		pool   string
	}
	groups := map[key][]*Member{}
	stuck := 0
	for _, m := range s.Members {
		// Disks that wait for approval are no failure: the cluster goes on without a stop while somebody makes up their mind.
		if m.Counts() && !through(m) && m.Problem != nil && m.Problem.Hold != "" && m.Problem.Hold != v1alpha1.HoldDeviceApproval {
			k := key{m.Problem.Hold, m.Problem.Pool}
			groups[k] = append(groups[k], m)
			stuck++
		}
	}
	if s.Counted()-stuck >= s.MinReady() || stuck == 0 {
		return nil
	}
	var worst key
	for k, ms := range groups {
		// Between equals the names decide: the order of a map would change the hold from one look to the next.
		order := cmp.Or(cmp.Compare(len(groups[worst]), len(ms)), cmp.Compare(k.reason, worst.reason), cmp.Compare(k.pool, worst.pool))
		if order < 0 {
			worst = k
		}
	}
	return groupHold(worst.reason, worst.pool, groups[worst])
}

func groupHold(reason v1alpha1.HoldReason, pool string, ms []*Member) *HoldRequest {
	message := ""
	if p := ms[0].pool(pool); p != nil && p.Problem != nil && p.Problem.Hold == reason {
		message = p.Problem.Message // which need not be the member's first trouble
	} else if ms[0].Problem != nil {
		message = ms[0].Problem.Message
	}
	h := &HoldRequest{Reason: reason, Pool: pool, Message: message}
	for _, m := range ms {
		h.Nodes = append(h.Nodes, m.Name)
	}
	if len(ms) > 1 {
		h.Message = fmt.Sprintf("%d nodes: %s (on %s)", len(ms), message, ms[0].Name)
	} else {
		h.Message = fmt.Sprintf("node %s: %s", ms[0].Name, message)
	}
	if listsDevices(reason) {
		listDevices(h, ms)
	}
	return h
}

func nodeReady(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

func podReady(p *corev1.Pod) bool {
	return p != nil && p.DeletionTimestamp == nil && slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

func since(now time.Time, t time.Time) time.Duration {
	if t.IsZero() {
		return 0
	}
	return now.Sub(t)
}
