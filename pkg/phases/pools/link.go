// Package pools is the link that makes storage pools, and judges what became of them: from which disks a pool is made,
// when one is lost, and when one may be removed. No pool is made from a disk with data on it, and none is removed
// while it holds a copy.
package pools

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/nodespec"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/poolspec"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

// The steps of a pool.
const (
	StepNone     cluster.PoolStep = "" // waits
	stepRegister cluster.PoolStep = "register"
	stepFinish   cluster.PoolStep = "finish"
	StepDevices  cluster.PoolStep = "devices"
	stepRepair   cluster.PoolStep = "repair"
	stepModify   cluster.PoolStep = "modify"
	stepVerify   cluster.PoolStep = "verify"
	StepRecreate cluster.PoolStep = "recreate"
	stepForget   cluster.PoolStep = "forget"
)

// Link is the link that creates the storage pools.
func Link() step.Link {
	return step.Link{State: fsm.StoragePools, Missing: fsm.PoolsMissing, Condition: conditions.StoragePoolsReady,
		Hold: v1alpha1.HoldStoragePoolsFailed, Judge: judgePools, Work: workPools, Through: poolThrough, ByTrying: true,
		ClearsOn: []v1alpha1.HoldReason{v1alpha1.HoldStoragePoolsFailed, v1alpha1.HoldPoolBackendMissing}}
}

func poolThrough(m *cluster.Member) bool { return m.PoolsOK && m.State != v1alpha1.NodeHeld }

func judgePools(s *cluster.Snapshot) cluster.Evidence {
	if !s.Linstor.Known() {
		return step.LinstorUnknown(s)
	}
	registered := func(m *cluster.Member) bool { return m.ModuleOK && m.SatelliteOK && m.RegisteredOK }
	e := step.JudgeMembers(s, registered, poolThrough)
	e = step.Describe(e, "PoolsReady", "CreatingPools", "nodes have all their storage pools")
	if n := s.Count(awaitsApproval(s)); n > 0 && e.Hold == nil {
		e.Message += "; disks await approval on " + text.NodesOf(n)
	}
	if e.State == cluster.Satisfied {
		e.Message += unkeptNote(s)
	}
	return e
}

func workPools(_ context.Context, in *step.Input) error {
	s := in.Snapshot
	if !s.Linstor.Known() {
		return nil
	}
	for _, m := range s.Members {
		if !m.RegisteredOK || !m.Selected {
			continue
		}
		for _, p := range m.Pools {
			// A later trouble of a pool that is not lost, or of another one under its name, is counted from the beginning.
			if _, counted := s.TaskStates[verifyKey(m, p)]; counted && (p.Ready || p.Have == nil) {
				in.Tasks.Forget(verifyKey(m, p))
			}
			frozen := s.Frozen() && (p.Step == stepRepair || p.Step == StepRecreate)
			if !frozen && !s.HeldPool(m, p.Entry.Name) {
				makePool(in, m, p)
			}
		}
		removeOldPools(in, m)
	}
	return nil
}

// MakeNew makes the pools that LINSTOR does not have on members that are registered and whose satellites are ready.
func MakeNew(in *step.Input) {
	s := in.Snapshot
	if !s.Linstor.Known() {
		return
	}
	for _, m := range s.Members {
		if !m.SatelliteOK || !m.RegisteredOK || !m.Selected {
			continue
		}
		for _, p := range m.Pools {
			if p.Have == nil && !s.HeldPool(m, p.Entry.Name) {
				makePool(in, m, p)
			}
		}
	}
}

// AllReady reports whether the member has its pools without trouble.
func AllReady(m *cluster.Member) bool {
	return !slices.ContainsFunc(m.Pools, func(p *cluster.MemberPool) bool { return !p.Ready && !p.NotWanted })
}

// AllRegistered reports whether LINSTOR has the pools, whether their satellite answers or not.
func AllRegistered(m *cluster.Member) bool {
	return !slices.ContainsFunc(m.Pools, func(p *cluster.MemberPool) bool { return p.Have == nil && !p.NotWanted })
}

// Problem is what keeps the member from the first pool that it lacks; nil if nothing is known to.
func Problem(m *cluster.Member) *cluster.Problem {
	for _, p := range m.Pools {
		if p.Problem != nil && !p.NotWanted {
			own := *p.Problem
			return &own
		}
	}
	return nil
}

// Judge finds out which pools each member shall have, and what is missing.
func Judge(s *cluster.Snapshot) {
	for _, m := range s.Members {
		for i := range s.Target.Spec.StoragePools {
			e := &s.Target.Spec.StoragePools[i]
			if !nodespec.Picks(e.NodeSelector, e.NodeAffinity, m.Node.Labels) {
				continue
			}
			p := &cluster.MemberPool{Entry: e, Name: poolspec.LinstorName(e)}
			p.Provider, p.Backing = poolspec.Backing(e)
			m.Pools = append(m.Pools, p)
			if m.Linstor != nil {
				judgePool(s, m, p)
			}
		}
		if m.Linstor != nil {
			findOldPools(&s.Facts, m)
		}
		poolConflicts(m)
	}
}

// judgePool finds out what is to be done for one pool, by the tables of this package.
func judgePool(s *cluster.Snapshot, m *cluster.Member, p *cluster.MemberPool) {
	p.Have = m.Linstor.Pools[strings.ToLower(p.Name)]
	if p.Have != nil {
		p.Made = madeFrom(m, p)
	}
	c := &situation{MemberPool: p, s: s, m: m}
	c.table().Decide(c)
}

// cannotUse says that LINSTOR cannot use what the pool is on, in LINSTOR's own words if it has said why: in its answer
// to the write that it refused, or beside the pool.
func (c *situation) cannotUse() string {
	message := fmt.Sprintf("pool %s: LINSTOR cannot use %s", c.Name, space(c.Provider, c.Backing))
	if why := linstor.Reason(c.task().Err); why != "" {
		return message + ": " + why
	}
	if c.Have != nil && len(c.Have.Errors) > 0 {
		return message + ": " + strings.Join(c.Have.Errors, "; ")
	}
	return message
}

// reasonDevicesUnknown is the reason of a problem: it is not known what is on a node's disks.
const reasonDevicesUnknown = "DevicesUnknown"

// mountsPool reports whether the satellite's pod has the directory of a file pool. Without the mount LINSTOR would
// make the directory inside the container, and the pool would be gone with it.
func mountsPool(m *cluster.Member, p *cluster.MemberPool) bool {
	if !strings.HasPrefix(p.Provider, "FILE") || m.SatellitePod == nil {
		return true
	}
	return slices.ContainsFunc(m.SatellitePod.Spec.Containers, func(c corev1.Container) bool {
		return slices.ContainsFunc(c.VolumeMounts, func(v corev1.VolumeMount) bool { return v.MountPath == p.Backing })
	})
}

// unkeptNote says, as the end of a message, which properties of pools LINSTOR accepts and does not keep.
func unkeptNote(s *cluster.Snapshot) string {
	version, unkept := s.Linstor.View.Version, map[string]map[string]string{}
	for _, m := range s.Members {
		for i := range m.Pools {
			p := m.Pools[i]
			if p.Have == nil {
				continue
			}
			for key, value := range linstor.Unkept(p.Have.Properties, p.Entry.Properties, version) {
				if unkept[p.Entry.Name] == nil {
					unkept[p.Entry.Name] = map[string]string{}
				}
				unkept[p.Entry.Name][key] = value
			}
		}
	}
	out := ""
	for _, name := range slices.Sorted(maps.Keys(unkept)) {
		out += step.UnkeptNote(fmt.Sprintf("spec.storagePools[%s].properties", name), version, unkept[name])
	}
	return out
}
