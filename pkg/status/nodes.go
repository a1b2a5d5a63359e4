package status

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases"
)

// Bounds of the lists, so that the status stays small however many nodes there are.
const (
	mostProblems = 50
	mostExamples = 10
	mostLeaving  = 10
)

var nodeStates = []v1alpha1.NodeState{
	v1alpha1.NodeLoadingModule, v1alpha1.NodeStartingSatellite, v1alpha1.NodeRegistering, v1alpha1.NodeCreatingPools,
	v1alpha1.NodeOnline, v1alpha1.NodeUnreachable, v1alpha1.NodeHeld, v1alpha1.NodeMaintenance, v1alpha1.NodeLeaving,
}

// projectNodes counts the members. While LINSTOR does not answer, what it said last stays: zero nodes online would be a lie.
func projectNodes(st *v1alpha1.StorageClusterStatus, s *phases.Snapshot) {
	n := &st.Nodes
	n.Members, n.MinReady = int32(s.Staying()), int32(s.MinReady())
	n.Maintenance, n.MaintenanceCount = nil, 0
	for _, m := range s.Members {
		if m.Selected && m.Maintenance {
			n.MaintenanceCount++
			if len(n.Maintenance) < mostExamples {
				n.Maintenance = append(n.Maintenance, m.Name)
			}
		}
	}
	projectLeaving(n, s)
	if s.Linstor.Known() || !s.Linstor.Asked && n.Online == 0 {
		n.Online = int32(s.Online())
		n.States = countStates(s)
	}
	n.Online = min(n.Online, n.Members)
	n.Problems = problems(s)
	n.Summary = fmt.Sprintf("%d/%d", n.Online, n.Members)
}

// leavingOrder is by what is going on: what waits for ever comes last.
var leavingOrder = map[v1alpha1.LeavingState]int{
	v1alpha1.LeavingEvacuating: 1, v1alpha1.LeavingRemoving: 2, v1alpha1.LeavingWaiting: 3, v1alpha1.LeavingRetained: 4,
}

// projectLeaving lists nodes that leave. Only LINSTOR knows how far they are, and which nodes it has that Kubernetes has no more:
// while it does not answer, what it said last stays.
func projectLeaving(n *v1alpha1.NodesStatus, s *phases.Snapshot) {
	if s.Linstor.Asked && !s.Linstor.Known() {
		return
	}
	n.Leaving, n.LeavingCount = nil, 0
	s.Leavers(func(name string, l *phases.Leave) {
		n.LeavingCount++
		n.Leaving = append(n.Leaving, v1alpha1.LeavingNode{Name: name, State: l.State, Message: truncate(l.Message, 256)})
	})
	slices.SortStableFunc(n.Leaving, func(a, b v1alpha1.LeavingNode) int {
		return cmp.Compare(leavingOrder[a.State], leavingOrder[b.State])
	})
	n.Leaving = first(n.Leaving, mostLeaving)
}

func countStates(s *phases.Snapshot) []v1alpha1.NodeStateCount {
	counts := map[v1alpha1.NodeState]int32{}
	for _, m := range s.Members {
		if m.State != "" {
			counts[m.State]++
		}
	}
	var out []v1alpha1.NodeStateCount
	for _, state := range nodeStates {
		if counts[state] > 0 {
			out = append(out, v1alpha1.NodeStateCount{State: state, Count: counts[state]})
		}
	}
	return out
}

func problems(s *phases.Snapshot) []v1alpha1.NodeProblem {
	type key struct{ reason, pool string }
	at := map[key]int{}
	var out []v1alpha1.NodeProblem
	for _, m := range s.Members {
		for _, p := range m.Told() {
			k := key{p.Reason, p.Pool}
			i, ok := at[k]
			if !ok {
				if len(out) == mostProblems {
					continue
				}
				i = len(out)
				at[k] = i
				out = append(out, v1alpha1.NodeProblem{Reason: p.Reason, Message: truncate(p.Message, 256)})
			}
			out[i].Count++
			if len(out[i].Nodes) < mostExamples {
				out[i].Nodes = append(out[i].Nodes, m.Name)
			}
		}
	}
	slices.SortStableFunc(out, func(a, b v1alpha1.NodeProblem) int { return cmp.Compare(b.Count, a.Count) })
	return out
}

// poolCount sums up one entry of spec.storagePools.
type poolCount struct {
	status      v1alpha1.PoolStatus
	total, free int64 // KiB
}

// projectPools counts the pools. Sizes move with every write to a volume; they are written in steps of one per cent, and
// no more often than Timing.Capacity says, so that a busy cluster does not write its status all the time.
func projectPools(st *v1alpha1.StorageClusterStatus, s *phases.Snapshot) {
	if s.Target == nil || !s.Linstor.Known() && st.Pools.Ready > 0 {
		return
	}
	prev := st.Pools
	next := v1alpha1.PoolsStatus{Capacity: prev.Capacity, Free: prev.Free, Updated: prev.Updated}
	counts := countPools(s)
	var total, free int64
	for i := range counts {
		next.Wanted += counts[i].status.Wanted
		next.Ready += counts[i].status.Ready
		total += counts[i].total
		free += counts[i].free
	}
	next.Summary = fmt.Sprintf("%d/%d", next.Ready, next.Wanted)
	due := prev.Updated == nil || s.Now.Sub(prev.Updated.Time) >= s.Timing.Capacity || prev.Ready != next.Ready || prev.Wanted != next.Wanted
	changed := false
	for i := range counts {
		c := &counts[i]
		old := poolByName(prev.ByPool, c.status.Name)
		capacity, freeQ := quantised(c.total, c.total), quantised(c.free, c.total)
		if due && c.status.Ready > 0 {
			c.status.Capacity, c.status.Free = capacity, freeQ
		} else if old != nil {
			c.status.Capacity, c.status.Free = old.Capacity, old.Free
		}
		changed = changed || old == nil || !sameQuantity(old.Capacity, c.status.Capacity) || !sameQuantity(old.Free, c.status.Free)
		next.ByPool = append(next.ByPool, c.status)
	}
	if due && changed && next.Ready > 0 {
		now := metav1.NewTime(s.Now)
		next.Capacity, next.Free, next.Updated = quantised(total, total), quantised(free, total), &now
	}
	st.Pools = next
}

func countPools(s *phases.Snapshot) []poolCount {
	counts := make([]poolCount, len(s.Target.Spec.StoragePools))
	at := map[string]*poolCount{}
	for i := range counts {
		e := &s.Target.Spec.StoragePools[i]
		counts[i].status = v1alpha1.PoolStatus{Name: e.Name, Provider: e.Provider()}
		at[e.Name] = &counts[i]
	}
	for _, m := range s.Members {
		if !m.Selected {
			continue
		}
		for _, p := range m.Pools {
			c := at[p.Entry.Name]
			if c == nil || p.NotWanted {
				continue
			}
			c.status.Wanted++
			if !p.Ready {
				continue
			}
			c.status.Ready++
			if p.Have.TotalKiB != nil && p.Have.FreeKiB != nil {
				c.total += *p.Have.TotalKiB
				c.free += *p.Have.FreeKiB
			}
		}
	}
	return counts
}

func poolByName(ps []v1alpha1.PoolStatus, name string) *v1alpha1.PoolStatus {
	for i := range ps {
		if ps[i].Name == name {
			return &ps[i]
		}
	}
	return nil
}

// quantised rounds a size down to a step of one per cent of the whole, and to MiB.
func quantised(kib, wholeKiB int64) *resource.Quantity {
	const mib = 1024
	if kib == wholeKiB {
		return resource.NewQuantity(kib/mib*mib*1024, resource.BinarySI)
	}
	step := int64(math.Ceil(float64(wholeKiB) / 100))
	if step == 0 {
		return resource.NewQuantity(0, resource.BinarySI)
	}
	return resource.NewQuantity(kib/step*step/mib*mib*1024, resource.BinarySI)
}

func sameQuantity(a, b *resource.Quantity) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Cmp(*b) == 0
}
