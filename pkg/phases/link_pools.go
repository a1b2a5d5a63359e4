package phases

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
)

// Properties of LINSTOR nodes that keep decisions about pools. What follows is the entry's name.
const (
	// auxIntent lists the disks that a pool is being made from. It is written before the disks are touched: if it is there
	// and the disks are no longer empty, they were made ready already and only the pool is to be registered.
	auxIntent = linstor.AuxPrefix + "intent."
	// auxBacking is the volume group or zpool of that intent: an entry that is added again with another one begins anew.
	auxBacking = linstor.AuxPrefix + "backing."
	// auxSkip and auxUseExisting keep a human's answer; their value is the hold's id.
	auxSkip        = linstor.AuxPrefix + "skip."
	auxUseExisting = linstor.AuxPrefix + "use-existing."
	// auxEntry marks a pool as made by the operator; its value is the entry's name.
	auxEntry = linstor.AuxPrefix + "entry"
)

// MemberPool is a storage pool that a member shall have.
type MemberPool struct {
	Entry *v1alpha1.StoragePoolSpec
	// Name, Provider and Backing are LINSTOR's.
	Name, Provider, Backing string
	// Have is the pool in LINSTOR; nil if it is not there.
	Have *linstor.Pool
	// Ready is whether it is there without trouble.
	Ready bool
	// NotWanted: optional devices are absent or not approved yet, or a human said skip.
	NotWanted bool
	Problem   *Problem

	step    poolStep
	devices []linstor.Device
	// spare are the empty disks that a human is asked about.
	spare  []linstor.Device
	change linstor.Change
}

// poolStep is what is to be done for a pool.
type poolStep string

const (
	stepNone     poolStep = ""
	stepRegister poolStep = "register"
	stepFinish   poolStep = "finish"
	stepDevices  poolStep = "devices"
	stepRepair   poolStep = "repair"
	stepModify   poolStep = "modify"
	stepVerify   poolStep = "verify"
	stepRecreate poolStep = "recreate"
	stepForget   poolStep = "forget"
)

// poolLink creates the storage pools.
type poolLink struct{}

func (poolLink) State() fsm.State          { return fsm.StoragePools }
func (poolLink) Missing() fsm.Event        { return fsm.PoolsMissing }
func (poolLink) Condition() string         { return v1alpha1.ConditionStoragePoolsReady }
func (poolLink) Hold() v1alpha1.HoldReason { return v1alpha1.HoldStoragePoolsFailed }

func (poolLink) Evidence(s *Snapshot) Evidence {
	if !s.Linstor.Known() {
		return s.linstorUnknown()
	}
	e := s.perMember(isRegistered, func(m *Member) bool { return m.poolsOK && m.State != v1alpha1.NodeHeld })
	e = describe(e, "PoolsReady", "CreatingPools", "nodes have their storage pools")
	if n := s.count((*Member).awaitsApproval); n > 0 && e.Hold == nil {
		e.Message += fmt.Sprintf("; on %d nodes disks wait for approval", n)
	}
	return e
}

func (poolLink) Work(_ context.Context, in *Input) error {
	if !in.Linstor.Known() {
		return nil
	}
	for _, m := range in.Members {
		if !m.registeredOK || !m.Selected {
			continue
		}
		for _, p := range m.Pools {
			in.forgetLooks(m, p)
			if in.heldPool(m, p.Entry.Name) || (p.step == stepRepair || p.step == stepRecreate) && in.frozen() {
				continue
			}
			in.makePool(m, p)
		}
		in.removeOldPools(m)
	}
	return nil
}

func isRegistered(m *Member) bool { return m.moduleOK && m.satelliteOK && m.registeredOK }

func allPoolsReady(m *Member) bool {
	for _, p := range m.Pools {
		if !p.Ready && !p.NotWanted {
			return false
		}
	}
	return true
}

// allPoolsRegistered is whether LINSTOR has the pools, whether their satellite can be asked about them or not.
func allPoolsRegistered(m *Member) bool {
	return !slices.ContainsFunc(m.Pools, func(p *MemberPool) bool { return p.Have == nil && !p.NotWanted })
}

func poolProblem(m *Member) *Problem {
	for _, p := range m.Pools {
		if p.Problem != nil && !p.NotWanted {
			return p.Problem
		}
	}
	return nil
}

// derivePools finds out which pools each member shall have, and what is missing.
func (s *Snapshot) derivePools() {
	for _, m := range s.Members {
		for i := range s.Target.Spec.StoragePools {
			e := &s.Target.Spec.StoragePools[i]
			if !labels.SelectorFromSet(e.NodeSelector).Matches(labels.Set(m.Node.Labels)) {
				continue
			}
			kind, backing := e.Backing()
			m.Pools = append(m.Pools, &MemberPool{Entry: e, Name: e.LinstorName(), Provider: kind, Backing: backing})
		}
		for _, p := range m.Pools {
			if m.Linstor != nil {
				s.judgePool(m, p)
			}
		}
		s.poolConflicts(m)
		if m.Linstor != nil {
			s.findOldPools(m)
		}
	}
}

// poolConflicts finds entries that would give one member the same pool twice, or use the same disk.
func (s *Snapshot) poolConflicts(m *Member) {
	for i, a := range m.Pools {
		for _, b := range m.Pools[i+1:] {
			message := ""
			if strings.EqualFold(a.Name, b.Name) {
				message = fmt.Sprintf("spec.storagePools[%s] and spec.storagePools[%s] both make LINSTOR's pool %s on one node", a.Entry.Name, b.Entry.Name, a.Name)
			} else if d := commonDevice(a, b); d != "" {
				message = fmt.Sprintf("spec.storagePools[%s] and spec.storagePools[%s] both match disk %s", a.Entry.Name, b.Entry.Name, d)
			}
			if message == "" {
				continue
			}
			for _, p := range []*MemberPool{a, b} {
				p.step, p.Ready = stepNone, false
				p.Problem = &Problem{Reason: string(v1alpha1.HoldPoolConflict), Hold: v1alpha1.HoldPoolConflict, Message: message, Pool: a.Entry.Name}
			}
		}
	}
}

func commonDevice(a, b *MemberPool) string {
	for i := range a.devices {
		for j := range b.devices {
			if sameDevice(&a.devices[i], &b.devices[j]) {
				return deviceName(&a.devices[i])
			}
		}
	}
	return ""
}
