package status

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/modulespec"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/leaving"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/module"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
)

// Bounds of the lists, so that the status stays small however many nodes there are.
const (
	mostProblems = 50
	mostExamples = 10
	mostLeaving  = 10
)

var nodeStates = []v1alpha1.NodeState{
	v1alpha1.NodeLoadingModule, v1alpha1.NodeStartingSatellite, v1alpha1.NodeRegistering, v1alpha1.NodeCreatingPools,
	v1alpha1.NodeStartingDriver, v1alpha1.NodeOnline, v1alpha1.NodeUnreachable, v1alpha1.NodeHeld,
	v1alpha1.NodeMaintenance, v1alpha1.NodeLeaving,
}

// projectNodes counts the nodes. While LINSTOR does not answer, what it said last stays, as far as the satellites'
// pods run: zero nodes online would be a lie, and so would all of them when the pods are gone.
func projectNodes(st *v1alpha1.StorageClusterStatus, s *cluster.Snapshot, failed *step.Failures) {
	n := &st.Nodes
	n.Members, n.MinReady = int32(s.Staying()), int32(s.MinReady())
	n.Maintenance = nil
	for _, m := range s.Where(func(m *cluster.Member) bool { return m.Selected && m.Maintenance }) {
		n.Maintenance = append(n.Maintenance, m.Name)
	}
	n.MaintenanceCount, n.Maintenance = int32(len(n.Maintenance)), first(n.Maintenance, mostExamples)
	projectLeaving(n, s)
	if s.Linstor.Known() {
		n.Online, n.Total = int32(s.NodesOnline()), int32(s.NodesAll())
	} else {
		n.Total = max(n.Total, int32(len(s.Members))) // only LINSTOR knows nodes without a Node
		n.Online = min(n.Online, int32(s.Running()))
	}
	if s.Linstor.Known() || n.Online == 0 {
		n.States = countStates(s)
	}
	n.Problems = problems(s, failed)
	n.Summary = fmt.Sprintf("%d/%d", n.Online, n.Total)
}

var leavingOrder = map[v1alpha1.LeavingState]int{
	v1alpha1.LeavingEvacuating: 1, v1alpha1.LeavingRemoving: 2, v1alpha1.LeavingWaiting: 3, v1alpha1.LeavingRetained: 4,
}

// projectLeaving lists nodes that leave. Only LINSTOR knows how far they are, and which nodes it has that Kubernetes
// has no more: while it does not answer, or its controller is being replaced and is not even asked, what it said last
// stays. Else nodes that are gone would be announced anew after each restart of the controller.
func projectLeaving(n *v1alpha1.NodesStatus, s *cluster.Snapshot) {
	if !s.Linstor.Known() {
		return
	}
	n.Leaving, n.LeavingCount = nil, 0
	for _, l := range leaving.AllLeavers(s) {
		n.LeavingCount++
		n.Leaving = append(n.Leaving, v1alpha1.LeavingNode{
			Name: l.Name, State: l.Leave.State, Message: truncate(l.Leave.Message, 256)})
	}
	slices.SortStableFunc(n.Leaving, func(a, b v1alpha1.LeavingNode) int {
		return cmp.Compare(leavingOrder[a.State], leavingOrder[b.State])
	})
	n.Leaving = first(n.Leaving, mostLeaving)
}

func countStates(s *cluster.Snapshot) []v1alpha1.NodeStateCount {
	counts := map[v1alpha1.NodeState]int32{}
	for _, m := range s.Members {
		counts[m.State]++
	}
	var out []v1alpha1.NodeStateCount
	for _, state := range nodeStates {
		if counts[state] > 0 {
			out = append(out, v1alpha1.NodeStateCount{State: state, Count: counts[state]})
		}
	}
	return out
}

func problems(s *cluster.Snapshot, failed *step.Failures) []v1alpha1.NodeProblem {
	type key struct{ reason, pool string }
	at := map[key]int{}
	var out []v1alpha1.NodeProblem
	tell := func(node string, p *cluster.Problem) {
		k := key{p.Reason, p.Pool}
		i, ok := at[k]
		if !ok {
			if len(out) == mostProblems {
				return
			}
			i = len(out)
			at[k] = i
			out = append(out, v1alpha1.NodeProblem{Reason: p.Reason, Message: truncate(p.Message, 256)})
		}
		out[i].Count++
		if len(out[i].Nodes) < mostExamples {
			out[i].Nodes = append(out[i].Nodes, node)
		}
	}
	s.Troubles(tell)
	failed.Each(tell)
	slices.SortStableFunc(out, func(a, b v1alpha1.NodeProblem) int { return cmp.Compare(b.Count, a.Count) })
	return out
}

const mostVersions = 10

// unknownVersion counts members whose version is not known: their satellite has not started yet.
const unknownVersion = "unknown"

// projectModule counts the versions of DRBD. A loader says nothing of them: it leaves a loaded module alone.
func projectModule(st *v1alpha1.StorageClusterStatus, s *cluster.Snapshot) {
	if s.Target == nil || len(s.Members) == 0 {
		st.KernelModule = nil
		return
	}
	k := &modulespec.KernelModuleStatus{}
	counts := map[string]int32{}
	var wanted []string
	for _, m := range s.Members {
		counts[cmp.Or(module.LoadedVersion(m), unknownVersion)]++
		if v := module.WantedVersion(&s.Facts, m); v != "" && !slices.Contains(wanted, v) {
			wanted = append(wanted, v)
		}
		if module.AwaitsReboot(&s.Facts, m) {
			k.PendingReboot++
			if len(k.Examples) < mostExamples {
				k.Examples = append(k.Examples, m.Name)
			}
		}
	}
	slices.Sort(wanted)
	k.Wanted = strings.Join(first(wanted, mostVersions), ", ")
	for version, count := range counts {
		k.Loaded = append(k.Loaded, modulespec.ModuleVersionCount{Version: version, Count: count})
	}
	slices.SortFunc(k.Loaded, func(a, b modulespec.ModuleVersionCount) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Version, b.Version))
	})
	k.Loaded = first(k.Loaded, mostVersions)
	st.KernelModule = k
}
