package phases

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
)

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
			p.Problem = s.taskProblem(poolKey(m, p), p.Entry.Name, v1alpha1.HoldStoragePoolsFailed)
		} else if p.Ready && len(m.consents(p.Entry.Name)) > 0 {
			p.step = stepForget
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
// formatting what came in their place. So is one that worked before.
func (s *Snapshot) judgeBrokenPool(m *Member, p *MemberPool) {
	message := fmt.Sprintf("LINSTOR cannot use %s %s for pool %s", p.Provider, p.Backing, p.Name)
	if len(p.Have.Errors) > 0 {
		message += ": " + strings.Join(p.Have.Errors, "; ")
	}
	if p.Have.Properties[auxWorked] != "" {
		s.judgeLostPool(m, p, message)
		return
	}
	p.Problem = &Problem{Reason: string(v1alpha1.HoldPoolBackendMissing), Message: oneLine(message), Pool: p.Entry.Name}
	if p.Entry.Devices == nil && p.Have.Properties[auxEntry] != "" {
		p.step = stepRepair
	} else if p.Entry.Devices == nil {
		p.Problem.Message += "; the pool was not made by the operator, which leaves it alone"
		p.Problem.Hold = v1alpha1.HoldPoolBackendMissing
		return
	}
	if st := s.TaskStates[poolKey(m, p)]; st.Refusals >= refusalsThatLast || p.step == stepNone {
		p.Problem.Hold = v1alpha1.HoldPoolBackendMissing
	}
}

// refusalsThatLast is after how many refused writes in a row a human is asked, if going on depends on it. Those that passed between
// them do not count: three errors of which one alone says that something is wrong are no reason to stop.
const refusalsThatLast = 3

func (s *Snapshot) judgeMissingPool(m *Member, p *MemberPool) {
	props, name := m.Linstor.Properties, p.Entry.Name
	if props[auxSkip+name] != "" {
		p.NotWanted = true
		return
	}
	if !mountsPool(m, p) {
		p.Problem = &Problem{Reason: "SatelliteOutdated", Pool: name,
			Message: fmt.Sprintf("pool %s: the satellite does not see the directory %s before its restart", name, p.Backing)}
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
	if intent := m.intent(p); intent != "" {
		s.judgeIntent(m, p, c, intent)
		return
	}
	p.devices = c.devices
	switch {
	case len(c.devices) > 0 && needsApproval(p.Entry) && !m.consented(name, c.devices):
		s.askForApproval(p)
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

// mountsPool is whether the satellite's pod has the directory of a file pool. Without the mount LINSTOR would make the
// directory inside the container, and the pool would be gone with it.
func mountsPool(m *Member, p *MemberPool) bool {
	if !strings.HasPrefix(p.Provider, "FILE") || m.SatellitePod == nil {
		return true
	}
	for _, c := range m.SatellitePod.Spec.Containers {
		if slices.ContainsFunc(c.VolumeMounts, func(v corev1.VolumeMount) bool { return v.MountPath == p.Backing }) {
			return true
		}
	}
	return false
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
		if needsApproval(p.Entry) && !m.consented(p.Entry.Name, p.devices) {
			s.askForApproval(p) // the intent is an old one, whose disks were wiped since
		}
	default:
		p.Problem = &Problem{Reason: string(v1alpha1.HoldStoragePoolsFailed), Hold: v1alpha1.HoldStoragePoolsFailed, Pool: p.Entry.Name,
			Message: fmt.Sprintf("pool %s: making it from %s stopped half-way; some of the disks are still empty", p.Entry.Name, intent)}
	}
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
	if st.Refusals >= refusalsThatLast && !Passes(st.Err) && seen {
		p.Hold = reason
	}
	return p
}

// Passes is whether a human can do nothing but wait: LINSTOR or the API server does not answer, or not in a way that tells
// anything, or LINSTOR itself says that the same call will work later, as while its database is busy. How long such an error may
// last is for the deadline of the phase to say, not for a count of tries.
func Passes(err error) bool { return errors.Is(err, errUnasked) || linstor.IsTransient(err) }
