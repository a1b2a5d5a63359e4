package phases

import (
	"context"
	"fmt"
	"slices"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/work"
)

// auxWorked marks a pool that LINSTOR could use once. Without it a pool whose storage is not there was never right and may be
// registered anew; with it, data was there, and nothing is done without a human's word.
const auxWorked = linstor.AuxPrefix + "worked"

// looksBeforeLost is how often in a row a pool's storage must be away in a fresh look before a human is asked: fifteen seconds at
// least with the default back-off. A volume group may become active a little after the satellite has started.
const looksBeforeLost = 5

// judgeLostPool is about a pool that worked and that LINSTOR cannot use now although its node is ONLINE: the volume group is not
// active, or a disk is gone.
func (s *Snapshot) judgeLostPool(m *Member, p *MemberPool, message string) {
	name := p.Entry.Name
	p.Problem = &Problem{Reason: string(v1alpha1.HoldPoolBackendLost), Pool: name, Message: oneLine(message + "; it worked before, so nothing is done without a word from you")}
	if p.Entry.Devices != nil && m.Linstor.DevicesKnown && s.Linstor.View.DevicesErr == nil {
		p.spare = s.choose(p.Entry.Devices, m, m.Linstor.Devices).devices
		if !listable(holdDevices(m.Name, p.spare)) {
			p.spare = nil
		}
	}
	failed := s.TaskStates[poolKey(m, p)]
	if text := m.Linstor.Properties[auxRecreate+name]; text != "" && text == consentTo(p.spare) {
		p.step = stepRecreate
		if failed.Err != nil {
			p.Problem.Message = oneLine(failed.Err.Error())
		}
		if failed.Refusals < refusalsThatLast {
			return
		}
	} else if p.step = stepVerify; s.TaskStates[verifyKey(m, p)].Refusals < looksBeforeLost {
		return
	}
	disksUnknown := p.Entry.Devices != nil && !m.Linstor.DevicesKnown && s.Linstor.View.DevicesErr == nil
	if !inMaintenance(m.Node) && !disksUnknown {
		p.Problem.Hold = v1alpha1.HoldPoolBackendLost
	}
}

func verifyKey(m *Member, p *MemberPool) string { return poolKey(m, p) + "/verify" }

// verifyPool looks whether LINSTOR still cannot use a pool. That is counted as the task's failure.
func (in *Input) verifyPool(m *Member, p *MemberPool) {
	in.ensure(work.Task{Key: verifyKey(m, p), Input: p.Backing, Do: func(ctx context.Context) error {
		have, err := in.API.Pool(ctx, m.Name, p.Name)
		if linstor.IsNotFound(err) {
			return nil // the next view shows it
		}
		if err != nil {
			return err
		}
		if brokenPool(have) {
			return fmt.Errorf("pool %s on node %s: its storage is not there", p.Name, m.Name)
		}
		return nil
	}})
}

// forgetLooks ends the count of failed looks at a pool that is not lost: a later trouble, of this pool or of another one under
// its name, is counted from the beginning.
func (in *Input) forgetLooks(m *Member, p *MemberPool) {
	if _, counted := in.TaskStates[verifyKey(m, p)]; counted && (p.Ready || p.Have == nil) {
		in.Tasks.Forget(verifyKey(m, p))
	}
}

// recreatePool makes a lost pool anew, from the empty disks that a human has named for it, as far as a last look agrees: the
// storage is still away, no copy of a volume is registered in the pool, none of its old disks is there with something on
// it, and the disks that match are those that were named.
func (in *Input) recreatePool(ctx context.Context, m *Member, p *MemberPool) error {
	have, err := in.API.Pool(ctx, m.Name, p.Name)
	if linstor.IsNotFound(err) {
		return nil
	}
	if err != nil || !brokenPool(have) {
		return err // back again: its own storage is better than a new one
	}
	if err := in.poolUnused(ctx, m.Name, p.Name); err != nil {
		return fmt.Errorf("pool %s on node %s is not made anew: %w; delete these copies first (linstor resource delete %s <volume>)", p.Name, m.Name, err, m.Name)
	}
	// LINSTOR refuses to delete a pool with snapshots, but does not tell which pool a snapshot is in.
	switch snapshots, err := in.API.Snapshots(ctx, m.Name); {
	case err != nil:
		return err
	case len(snapshots) > 0:
		return fmt.Errorf("pool %s on node %s is not made anew: snapshots are registered on the node: %s; delete them first", p.Name, m.Name, quoteList(snapshots))
	}
	empty, err := in.API.Devices(ctx, m.Name)
	if err != nil {
		return err
	}
	now := in.choose(p.Entry.Devices, m, empty).devices
	if text := m.Linstor.Properties[auxRecreate+p.Entry.Name]; text == "" || consentTo(now) != text {
		return fmt.Errorf("pool %s on node %s is not made anew: the empty disks are %q, and %q was approved", p.Name, m.Name, consentTo(now), text)
	}
	if old := m.oldDisks(p, now); len(old) > 0 {
		return fmt.Errorf("pool %s on node %s is not made anew: %s of it is there and not empty; its volume group or zpool may only be inactive", p.Name, m.Name, quoteList(old))
	}
	if err := in.stands(ctx, m.Name); err != nil {
		return err
	}
	if err := in.API.SetNodeProperties(ctx, m.Name, newIntent(p, now), nil); err != nil {
		return err
	}
	// From here on the intent says what was begun: whoever comes next finishes it.
	if err := in.API.DeletePool(ctx, m.Name, p.Name); err != nil {
		return err
	}
	if err := in.API.CreateDevices(ctx, linstor.DeviceSpec{Node: m.Name, Provider: p.Provider, PoolName: p.Backing, Paths: paths(now)}); err != nil {
		return err
	}
	if err := in.registerPool(ctx, m, p); err != nil {
		return err
	}
	in.announce(Notice{Warning: true, Reason: "PoolRecreated", Action: poolOn(p.Name, m.Name),
		Note: fmt.Sprintf("pool %s on node %s was lost and is made anew, empty, from %s, as a human agreed", p.Name, m.Name, deviceNames(now))})
	return nil
}

// oldDisks are disks that the pool was made from and that the satellite found with something on them when its pod started.
func (m *Member) oldDisks(p *MemberPool, empty []linstor.Device) []string {
	var out []string
	for i := range m.disks {
		d := &m.disks[i].Device
		isEmpty := slices.ContainsFunc(empty, func(e linstor.Device) bool { return sameDevice(&e, d) })
		if m.disks[i].Signature != "" && !isEmpty && intended(m.intent(p), d) {
			out = append(out, deviceName(d))
		}
	}
	return out
}

// forgetConsents drops what a human agreed to for a pool that is there now.
func (in *Input) forgetConsents(ctx context.Context, m *Member, p *MemberPool) error {
	return in.API.SetNodeProperties(ctx, m.Name, nil, m.consents(p.Entry.Name))
}
