package phases

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/work"
)

// Properties of LINSTOR nodes that keep decisions about pools. What follows is the entry's name.
const (
	// auxIntent lists the disks that a pool is being made from. It is written before the disks are touched: if it is there
	// and the disks are no longer empty, they were made ready already and only the pool is to be registered.
	auxIntent = linstor.AuxPrefix + "intent."
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
	// NotWanted: optional devices are absent, or a human said skip.
	NotWanted bool
	Problem   *Problem

	step    poolStep
	devices []linstor.Device
	change  linstor.Change
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
	return describe(e, "PoolsReady", "CreatingPools", "nodes have their storage pools")
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
			if !in.heldPool(m, p.Entry.Name) {
				in.makePool(m, p)
			}
		}
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
	}
}

func (s *Snapshot) judgePool(m *Member, p *MemberPool) {
	p.Have = m.Linstor.Pools[strings.ToLower(p.Name)]
	if p.Have == nil {
		s.judgeMissingPool(m, p)
		return
	}
	want := p.properties()
	switch {
	case !strings.EqualFold(p.Have.Provider, p.Provider) || p.Have.Backing != p.Backing:
		p.Problem = &Problem{Reason: string(v1alpha1.HoldUnsupportedChange), Pool: p.Entry.Name, Hold: v1alpha1.HoldUnsupportedChange,
			Message: fmt.Sprintf("spec.storagePools[%s] asks for %s on %s, but LINSTOR has pool %s as %s on %s; volumes may live in it: use another pool name",
				p.Entry.Name, p.Provider, p.Backing, p.Name, p.Have.Provider, p.Have.Backing)}
	case brokenPool(p.Have) && m.Linstor.Online():
		s.judgeBrokenPool(m, p)
	default:
		p.Ready = !brokenPool(p.Have)
		if p.change = linstor.Diff(p.Have.Properties, want); !p.change.Empty() {
			p.step, p.Ready = stepModify, false
		}
	}
}

// brokenPool is whether a pool's storage cannot be used: LINSTOR reports errors for thin pools, for others only the size
// stays unknown or zero.
func brokenPool(p *linstor.Pool) bool {
	return len(p.Errors) > 0 || p.TotalKiB == nil || *p.TotalKiB == 0
}

// judgeBrokenPool: LINSTOR registers a pool before it checks the volume group, and does not check again; registering it
// anew does. A pool that was made from devices is left as it is: its disks may be gone, and a repair could end in
// formatting what came in their place.
func (s *Snapshot) judgeBrokenPool(m *Member, p *MemberPool) {
	message := fmt.Sprintf("LINSTOR cannot use %s %s for pool %s", p.Provider, p.Backing, p.Name)
	if len(p.Have.Errors) > 0 {
		message += ": " + strings.Join(p.Have.Errors, "; ")
	}
	p.Problem = &Problem{Reason: string(v1alpha1.HoldPoolBackendMissing), Message: oneLine(message), Pool: p.Entry.Name}
	if p.Entry.Devices == nil && p.Have.Properties[auxEntry] != "" {
		p.step = stepRepair
	} else if p.Entry.Devices == nil {
		p.Problem.Message += "; the pool was not made by the operator, which leaves it alone"
		p.Problem.Hold = v1alpha1.HoldPoolBackendMissing
		return
	}
	if st := s.TaskStates[poolKey(m, p)]; st.Attempts >= attemptsThatLast || p.step == stepNone {
		p.Problem.Hold = v1alpha1.HoldPoolBackendMissing
	}
}

// attemptsThatLast is after how many failed writes in a row a human is asked, if going on depends on it.
const attemptsThatLast = 3

func (s *Snapshot) judgeMissingPool(m *Member, p *MemberPool) {
	props, name := m.Linstor.Properties, p.Entry.Name
	if props[auxSkip+name] != "" {
		p.NotWanted = true
		return
	}
	if p.Entry.Devices == nil || props[auxUseExisting+name] != "" {
		p.step, p.Problem = stepRegister, s.taskProblem(poolKey(m, p), p.Entry.Name, v1alpha1.HoldStoragePoolsFailed)
		return
	}
	if s.Linstor.View.DevicesErr != nil {
		p.Problem = &Problem{Reason: "DevicesUnknown", Pool: name, Message: oneLine("LINSTOR cannot list the disks: " + s.Linstor.View.DevicesErr.Error())}
		return
	}
	if !m.Linstor.DevicesKnown {
		return // not ONLINE, or not asked for in this view
	}
	c := s.choose(p.Entry.Devices, m, m.Linstor.Devices)
	if intent := props[auxIntent+name]; intent != "" {
		s.judgeIntent(m, p, c, intent)
		return
	}
	p.devices = c.devices
	switch {
	case len(c.devices) > 0:
		p.step, p.Problem = stepDevices, s.taskProblem(poolKey(m, p), p.Entry.Name, v1alpha1.HoldStoragePoolsFailed)
	case len(c.occupied) > 0:
		p.Problem = &Problem{Reason: string(v1alpha1.HoldDeviceNotEmpty), Hold: v1alpha1.HoldDeviceNotEmpty, Pool: name,
			Message: fmt.Sprintf("pool %s: no empty disk matches, but %s; the operator never overwrites data", name, quoteList(c.occupied))}
	case len(c.refused) > 0:
		p.Problem = &Problem{Reason: "DeviceRefused", Hold: v1alpha1.HoldDeviceMissing, Pool: name,
			Message: fmt.Sprintf("pool %s: %s", name, quoteList(c.refused))}
	case p.Entry.Devices.Optional:
		p.NotWanted = true
	default:
		p.Problem = &Problem{Reason: string(v1alpha1.HoldDeviceMissing), Hold: v1alpha1.HoldDeviceMissing, Pool: name,
			Message: fmt.Sprintf("pool %s: no disk matches spec.storagePools[%s].devices (LINSTOR lists empty disks above 1 GiB only)", name, name)}
	}
}

// judgeIntent goes on with a pool whose disks were about to be made ready when the operator last wrote.
func (s *Snapshot) judgeIntent(m *Member, p *MemberPool, c choice, intent string) {
	empty := 0
	for i := range c.devices {
		if intended(intent, &c.devices[i]) {
			empty++
			p.devices = append(p.devices, c.devices[i])
		}
	}
	p.Problem = s.taskProblem(poolKey(m, p), p.Entry.Name, v1alpha1.HoldStoragePoolsFailed)
	switch total := len(strings.Split(intent, ",")); empty {
	case 0:
		p.step = stepFinish // the disks seem to have been made ready: only the pool is missing
	case total:
		p.step = stepDevices // nothing happened yet
	default:
		p.Problem = &Problem{Reason: string(v1alpha1.HoldStoragePoolsFailed), Hold: v1alpha1.HoldStoragePoolsFailed, Pool: p.Entry.Name,
			Message: fmt.Sprintf("pool %s: making it from %s stopped half-way; some of the disks are still empty", p.Entry.Name, intent)}
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

// properties are the properties that the operator wants on the pool.
func (p *MemberPool) properties() map[string]string {
	want := map[string]string{auxEntry: p.Entry.Name}
	maps.Copy(want, p.Entry.Properties)
	return want
}

func poolKey(m *Member, p *MemberPool) string { return "pool/" + m.Name + "/" + p.Name }

// makePool does the next step for one pool as a background task.
func (in *Input) makePool(m *Member, p *MemberPool) {
	if p.step == stepNone {
		return
	}
	do := map[poolStep]func(context.Context) error{
		stepRegister: func(ctx context.Context) error { return in.registerPool(ctx, m, p) },
		stepFinish:   func(ctx context.Context) error { return in.finishFromDevices(ctx, m, p) },
		stepDevices:  func(ctx context.Context) error { return in.makeFromDevices(ctx, m, p) },
		stepRepair:   func(ctx context.Context) error { return in.repairPool(ctx, m, p) },
		stepModify: func(ctx context.Context) error {
			return in.API.SetPoolProperties(ctx, m.Name, p.Name, p.change.Set, p.change.Delete)
		},
	}[p.step]
	in.ensure(work.Task{Key: poolKey(m, p), Input: digest([]any{p.step, p.Backing, paths(p.devices), p.change}), Do: do})
}

func (in *Input) registerPool(ctx context.Context, m *Member, p *MemberPool) error {
	err := in.API.CreatePool(ctx, linstor.PoolSpec{Node: m.Name, Name: p.Name, Provider: p.Provider, Backing: p.Backing, Properties: linstor.Diff(nil, p.properties()).Set})
	if linstor.IsExists(err) {
		return nil // the next view shows what it is
	}
	return err
}

// repairPool registers a pool anew that LINSTOR could not use when it was registered. LINSTOR refuses to delete a pool
// that volumes use.
func (in *Input) repairPool(ctx context.Context, m *Member, p *MemberPool) error {
	have, err := in.API.Pool(ctx, m.Name, p.Name)
	if err != nil && !linstor.IsNotFound(err) {
		return err
	}
	if err == nil {
		if !brokenPool(have) {
			return nil
		}
		if err := in.API.DeletePool(ctx, m.Name, p.Name); err != nil {
			return err
		}
	}
	return in.registerPool(ctx, m, p)
}

// makeFromDevices makes the volume group or zpool from empty disks and registers the pool. Everything that it decides on
// is looked up uncached here and now: kernel names move at reboot, and repeating the device step on a live pool's disks
// would destroy it.
func (in *Input) makeFromDevices(ctx context.Context, m *Member, p *MemberPool) error {
	if _, err := in.API.Pool(ctx, m.Name, p.Name); err == nil {
		return nil
	} else if !linstor.IsNotFound(err) {
		return err
	}
	empty, err := in.API.Devices(ctx, m.Name)
	if err != nil {
		return err
	}
	now := in.choose(p.Entry.Devices, m, empty).devices
	if intent := m.Linstor.Properties[auxIntent+p.Entry.Name]; intent != "" {
		// What was begun is finished as it was begun: a disk that came since would otherwise stop it for ever.
		now = slices.DeleteFunc(now, func(d linstor.Device) bool { return !intended(intent, &d) })
	}
	if identities(now) != identities(p.devices) {
		return fmt.Errorf("pool %s on node %s: the empty disks changed while it was being made: %s became %s",
			p.Entry.Name, m.Name, identities(p.devices), identities(now))
	}
	intent := map[string]string{auxIntent + p.Entry.Name: identities(now)}
	if m.Linstor.Properties[auxIntent+p.Entry.Name] != intent[auxIntent+p.Entry.Name] {
		if err := in.API.SetNodeProperties(ctx, m.Name, intent, nil); err != nil {
			return err
		}
	}
	err = in.API.CreateDevices(ctx, linstor.DeviceSpec{Node: m.Name, Provider: p.Provider, PoolName: p.Backing, Paths: paths(now)})
	if err != nil {
		return err
	}
	return in.registerPool(ctx, m, p)
}

// finishFromDevices registers the pool whose disks were made ready before the operator was interrupted. That the view lists
// none of them as empty is no proof: LINSTOR leaves the disks of a node out that is just connecting. Registering a pool on
// a volume group that is not there would leave a broken pool behind, so the node itself is asked, which is an error for a
// node that is not ONLINE.
func (in *Input) finishFromDevices(ctx context.Context, m *Member, p *MemberPool) error {
	empty, err := in.API.Devices(ctx, m.Name)
	if err != nil {
		return err
	}
	intent := m.Linstor.Properties[auxIntent+p.Entry.Name]
	for i := range empty {
		if intended(intent, &empty[i]) {
			return fmt.Errorf("pool %s on node %s: disk %s is still empty", p.Entry.Name, m.Name, deviceName(&empty[i]))
		}
	}
	return in.registerPool(ctx, m, p)
}

// intended is whether a disk is among those that an intent lists.
func intended(intent string, d *linstor.Device) bool {
	return strings.Contains(","+intent+",", ","+identity(d)+",")
}

// taskProblem explains a member whose write to LINSTOR failed; nil if none did. pool is the entry that it is about, if any.
func (s *Snapshot) taskProblem(key, pool string, reason v1alpha1.HoldReason) *Problem {
	st, ok := s.TaskStates[key]
	if !ok || st.Err == nil {
		return nil
	}
	p := &Problem{Reason: "WriteFailed", Message: oneLine(st.Err.Error()), Pool: pool}
	if linstor.Code(st.Err) == linstor.CodePoolConfiguration {
		reason = v1alpha1.HoldPoolBackendMissing
		p.Reason = string(reason)
	}
	// An answer that was lost says nothing about the write: nobody is asked before a later look shows that it was not done.
	seen := s.Linstor.View != nil && !s.Linstor.View.TakenAt.Before(st.FailedAt)
	if st.Attempts >= attemptsThatLast && !linstor.IsUnreachable(st.Err) && seen {
		p.Hold = reason
	}
	return p
}
