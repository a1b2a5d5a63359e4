// Package judge makes a cluster.Snapshot of cluster.Facts, with each node's state and its worst trouble, the evidence
// of each link, health, and what has to wait. It runs once for each reconcile, in the order of Facts, and writes
// nothing.
package judge

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/poolspec"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/epoch"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/move"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/restore"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/selection"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/address"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/controller"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/disks"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/drainguard"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/leaving"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/massfailure"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/module"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/netcom"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/pools"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/registration"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/satellites"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/snapshotclass"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/storageclass"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/upgrade"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/volumedriver"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/platform"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

// Facts finds out what the facts mean, each thing once, so that every judgement uses earlier ones alone: who takes
// part; what the disks, addresses, versions and pods of the members say; their pools; the nodes that are gone; the
// state and trouble of each member; whether too many failed; who leaves; restarts; StorageClasses; the links of the
// chain; health.
func Facts(f cluster.Facts, chain []step.Link) *cluster.Snapshot {
	// What LINSTOR says of another database is unknown: that it has no volumes, for example, says nothing of ours.
	if why, err := distrusted(&f); err != nil {
		f.Linstor.Foreign, f.Linstor.Why, f.Linstor.Err, f.Linstor.View = f.Linstor.View, why, err, nil
	}
	s := &cluster.Snapshot{Facts: f, MassFailure: cluster.MassFailure{State: cluster.MassFailureUnknown},
		Evidence: map[fsm.State]cluster.Evidence{},
		Health:   cluster.Health{Reason: conditions.ReasonNotChecked, Message: "the spec has not been accepted yet"}}
	claim, _ := s.Claim()
	if s.Restore = restore.Of(s.Cluster, claim); s.Restore != nil {
		s.Restore.Stopped = !controller.Runs(&s.Facts)
	} else if s.Move = move.Of(s.Cluster, claim, f.AcceptedDatabase()); s.Move != nil {
		s.Move.Stopped = !controller.Runs(&s.Facts)
	}
	s.Netcom = netcom.Connections(&s.Facts)
	judgeNodes(s)
	if s.Target == nil {
		return s
	}
	s.Roll = satellites.JudgeRoll(s)
	s.Classes = storageclass.Judge(s)
	s.SnapshotClasses = snapshotclass.Judge(s)
	for _, l := range chain {
		s.Evidence[l.State] = l.Judge(s)
	}
	s.Health = judgeHealth(s)
	return s
}

// distrusted says why nothing is decided on the view of LINSTOR, and which hold is about it; nil if all is well.
func distrusted(f *cluster.Facts) (v1alpha1.HoldReason, error) {
	v := f.Linstor.View
	if err := f.Foreign(v); err != nil {
		return v1alpha1.HoldForeignLinstorFound, err
	}
	// The claim itself was seen to be behind, and nobody has answered since.
	if claim, _ := f.Claim(); f.Linstor.Behind && epoch.Behind(claim.Epoch, v) {
		return v1alpha1.HoldKubernetesRestored, fmt.Errorf("%w: %s is %d in LINSTOR, but %d in the claim", epoch.ErrBehind,
			linstor.PropEpoch, epoch.In(v), epoch.Parse(claim.Epoch).Number)
	}
	return "", nil
}

// judgeNodes finds out who takes part, and what is to be said of each node.
func judgeNodes(s *cluster.Snapshot) {
	spec := s.NodesSpec()
	for _, n := range s.Kube.Nodes {
		labelled := n.Labels[v1alpha1.LabelMember] == s.Cluster.Name
		selected := selection.Selects(spec, n)
		if labelled || s.Registered(n) {
			selected = selection.Keeps(&s.Facts, n)
		}
		if !labelled && !selected && !s.Registered(n) {
			continue
		}
		m := &cluster.Member{Name: n.Name, Node: n, Selected: selected,
			Loader: s.Catalogue.LoaderFor(n.Status.NodeInfo.OSImage)}
		m.Profile = platform.ProfileOf(platform.Of(s.Spec().Platform, n))
		m.OSKey = m.Profile.OSKey(s.Spec().KernelModule.Mode, m.Loader)
		m.Labelled = labelled && n.Labels[v1alpha1.LabelOS] == m.OSKey
		m.LoaderPod = s.Kube.Pods[v1alpha1.ComponentModuleLoader][n.Name]
		m.SatellitePod = s.Kube.Pods[v1alpha1.ComponentSatellite][n.Name]
		m.DriverPod = s.Kube.Pods[v1alpha1.ComponentDriverNode][n.Name]
		if s.Linstor.Known() {
			m.Linstor = s.Linstor.View.Nodes[strings.ToLower(n.Name)]
		}
		m.Presence = cluster.PresenceOf(n, m.SatellitePod, m.Linstor)
		s.Members = append(s.Members, m)
	}
	slices.SortFunc(s.Members, func(a, b *cluster.Member) int { return cmp.Compare(a.Name, b.Name) })
	if s.Target == nil {
		return
	}
	if poolspec.WantsDevices(s.Target.Spec) {
		disks.Index(s)
	}
	registration.IndexAddresses(s)
	s.Upgrade = upgrade.Judge(s)
	satellites.FindOutdated(s)
	module.FindOldLoaders(s)
	pools.Judge(s)
	leaving.DeriveGone(s)
	address.FindTakenAddresses(s)
	registration.JudgePreferences(s)
	address.ReportImpostors(s)
	for _, m := range s.Members {
		judge(s, m)
	}
	s.MassFailure = massfailure.Judge(s)
	leaving.Judge(s)
}

func judge(s *cluster.Snapshot, m *cluster.Member) {
	m.ModuleOK = module.Loaded(&s.Facts, m)
	m.SatelliteOK = m.PodReady && s.RightVersion(m)
	m.RegisteredOK = m.Connected() && m.DrbdSeen() && registration.InterfacesMatch(s, m)
	m.PoolsOK = m.RegisteredOK && pools.AllReady(m)
	m.DriverOK = volumedriver.Registered(&s.Facts, m)
	m.Restarting = m.Restarting && pools.AllRegistered(m)
	m.Joining = joining(&s.Facts, m)
	switch {
	case !m.Selected:
		m.State, m.Joining = v1alpha1.NodeLeaving, false
	case held(&s.Facts, m), m.Replaced, m.AddressTaken != nil:
		m.State = v1alpha1.NodeHeld
	default:
		m.State = placeInChain(m)
	}
	if m.Selected && m.Maintenance && m.State != v1alpha1.NodeOnline {
		m.State, m.Joining = v1alpha1.NodeMaintenance, false
	}
	m.Problem = problemOf(s, m)
	registration.NotePlacement(&s.Facts, m)
	registration.NoteTopology(s, m)
	if p := selection.TaintNote(&s.Facts, m); p != nil {
		m.Notes = append(m.Notes, p)
	}
}

// held reports whether a hold stops the member at one of its pools.
func held(f *cluster.Facts, m *cluster.Member) bool {
	return slices.ContainsFunc(m.Pools, func(p *cluster.MemberPool) bool {
		return !p.Ready && !p.NotWanted && f.HeldPool(m, p.Entry.Name)
	})
}

// placeInChain is the first link that is not satisfied on the member, or that it cannot be reached.
func placeInChain(m *cluster.Member) v1alpha1.NodeState {
	switch {
	case m.Linstor != nil && !m.Online && !m.NodeReady:
		return v1alpha1.NodeUnreachable
	case !m.ModuleOK:
		return v1alpha1.NodeLoadingModule
	case !m.SatelliteOK:
		return v1alpha1.NodeStartingSatellite
	case m.Linstor == nil || !m.RegisteredOK && (m.Joining || m.Online && m.DrbdSeen()):
		return v1alpha1.NodeRegistering
	case !m.RegisteredOK:
		return v1alpha1.NodeUnreachable
	case !m.PoolsOK:
		return v1alpha1.NodeCreatingPools
	case !m.DriverOK:
		return v1alpha1.NodeStartingDriver
	default:
		return v1alpha1.NodeOnline
	}
}

// joining reports whether the member's satellite pod is so young that the member may still be on its way through the
// chain. A member that LINSTOR has lost is not on its way, however young its pod is.
func joining(s *cluster.Facts, m *cluster.Member) bool {
	if m.RegisteredOK && m.PoolsOK && m.DriverOK {
		return false
	}
	since := m.Node.CreationTimestamp.Time
	for _, p := range []*corev1.Pod{m.LoaderPod, m.SatellitePod} {
		if p != nil && p.CreationTimestamp.After(since) {
			since = p.CreationTimestamp.Time
		}
	}
	if m.SatellitePod == nil && m.LoaderPod == nil && m.Linstor == nil && m.AddressTaken == nil {
		return m.NodeReady
	}
	return !m.WasOnline && s.Now.Sub(since) < s.Timing.Join
}

// Deadline is when a human is asked if the phase of a status makes no progress until then; nil if nobody is.
func Deadline(s *cluster.Snapshot, st *v1alpha1.StorageClusterStatus) *metav1.Time {
	limit, limited := s.Timing.Deadlines[fsm.State(st.Phase)]
	begin := cluster.LastProgress(st)
	if !limited || begin.IsZero() || s.Cluster.Spec.Suspend ||
		st.Phase == v1alpha1.PhaseStoragePools && pools.OnlyApprovalLacks(s) {
		return nil
	}
	at := metav1.NewTime(begin.Add(limit))
	return &at
}

// WantsResources reports whether the copies of all volumes matter now, judged by Kubernetes' objects, the status and
// the last view of LINSTOR, which may be nil. A cluster at rest need not list them: the list grows with the volumes.
func WantsResources(s *cluster.Facts, last *linstor.View) bool {
	// Under the policy Retain nothing is done about nodes that leave, for as long as they do.
	removes := s.RemovalPolicy() != v1alpha1.NodesRetain
	if s.Cluster.Status.Upgrade != nil || drainguard.Watched(s) || removes && s.Cluster.Status.Nodes.LeavingCount > 0 ||
		satellites.OutdatedPods(s, func(p *corev1.Pod) bool { return !p.Spec.HostNetwork }) ||
		removes && slices.ContainsFunc(s.Kube.Nodes, func(n *corev1.Node) bool {
			return n.Labels[v1alpha1.LabelMember] == s.Cluster.Name && !selection.Keeps(s, n)
		}) {
		return true
	}
	return last != nil && (registration.ChangesPreferred(s, last) || leavesLinstor(s, last, removes))
}

// leavesLinstor reports whether LINSTOR moves copies away from a node or deletes it, or whether one that the operator
// has registered is to leave because its Node object is gone.
func leavesLinstor(s *cluster.Facts, last *linstor.View, removes bool) bool {
	known := map[string]bool{}
	for _, n := range s.Kube.Nodes {
		known[strings.ToLower(n.Name)] = true
	}
	for key, n := range last.Nodes {
		ours := n.Properties[linstor.PropNodeUID] != ""
		if removes && ours && !known[key] || n.HasFlag(linstor.FlagEvacuate) || n.HasFlag(linstor.FlagDelete) {
			return true
		}
	}
	return false
}

// SnapshotsMatter are the nodes of which it matters now which snapshots are on them: those that are gone or run on
// another machine, and that may be given up.
func SnapshotsMatter(s *cluster.Facts, v *linstor.View) []string {
	there := map[string]*corev1.Node{}
	for _, n := range s.Kube.Nodes {
		there[strings.ToLower(n.Name)] = n
	}
	var out []string
	for key, n := range v.Nodes {
		node := there[key]
		gone := node == nil && n.Properties[linstor.PropNodeUID] != "" && leaving.SnapshotsMatter(s, n)
		if gone || node != nil && cluster.PresenceOf(node, nil, n).Replaced {
			out = append(out, n.Name)
		}
	}
	slices.Sort(out)
	return out
}

// Rolling reports whether satellites are to be restarted, or one is stopping: LINSTOR is looked at more often.
func Rolling(s *cluster.Facts) bool {
	return satellites.OutdatedPods(s, func(*corev1.Pod) bool { return true })
}

// HasOptionalPools reports whether LINSTOR has all pools that nodes may be without. Else a new disk matters.
func HasOptionalPools(s *cluster.Snapshot) bool {
	return s.Linstor.Known() && s.Count(func(m *cluster.Member) bool {
		return slices.ContainsFunc(m.Pools, func(p *cluster.MemberPool) bool {
			return p.Have == nil && p.Entry.Devices != nil && p.Entry.Devices.Optional
		})
	}) == 0
}

// Rollout is what the accepted spec asks for and is carried out node by node, in whatever phase.
type Rollout struct {
	// Reason is one word for the conditions; "" if nothing is rolled out.
	Reason string
	// Short is for a column, Message is one line for people.
	Short, Message string
}

// RolloutOf is the first that is going on: satellites, module loaders, or the preferred interface.
func RolloutOf(s *cluster.Snapshot) Rollout {
	if s.Target == nil {
		return Rollout{}
	}
	count := func(reason, what string, done, all int) Rollout {
		return Rollout{reason, fmt.Sprintf("%s %d/%d", what, done, all), fmt.Sprintf("%s: %d of %d done", what, done, all)}
	}
	r, now := s.Roll, s.Where(func(m *cluster.Member) bool { return m.Restarting })
	if len(r.Outdated) > 0 {
		out := count(conditions.ReasonRollingSatellites, "restarting satellites", r.Done, r.Total)
		out.Message = satellites.Message(&r)
		return out
	}
	if len(now) > 0 { // a pod was deleted, or these are the last of a roll
		return Rollout{conditions.ReasonRollingSatellites, "restarting " + text.Amount(len(now), "satellite", "satellites"),
			satellites.Message(&cluster.Roll{Restarting: now})}
	}
	if old := module.OldLoaders(s); old > 0 {
		all := s.Count(func(m *cluster.Member) bool {
			return m.Counts() && m.LoaderPod != nil && module.HasLoader(&s.Facts, m)
		})
		return count(conditions.ReasonRollingLoaders, "replacing module loaders", all-old, all)
	}
	if n := len(s.Preferences.Pending); n > 0 {
		return Rollout{conditions.ReasonChangingInterface, fmt.Sprintf("changing interfaces, %d left", n),
			strings.TrimPrefix(registration.PreferencesMessage(s), "; ")}
	}
	return Rollout{}
}
