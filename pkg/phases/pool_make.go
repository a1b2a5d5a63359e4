package phases

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/work"
)

// properties are the properties that the operator wants on the pool.
func (p *MemberPool) properties() map[string]string {
	want := map[string]string{auxEntry: p.Entry.Name}
	maps.Copy(want, p.Entry.Properties)
	// A pool is registered with the mark, which costs no write of its own, and loses it if that shows that it does not work.
	if p.Have == nil || p.Have.Properties[auxWorked] != "" || !brokenPool(p.Have) {
		want[auxWorked] = "true"
	}
	return want
}

func poolKey(m *Member, p *MemberPool) string { return "pool/" + m.Name + "/" + p.Name }

// makePool does the next step for one pool as a background task.
func (in *Input) makePool(m *Member, p *MemberPool) {
	if p.step == stepNone {
		return
	}
	if p.step == stepVerify {
		in.verifyPool(m, p)
		return
	}
	do := map[poolStep]func(context.Context) error{
		stepRegister: func(ctx context.Context) error { return in.registerPool(ctx, m, p) },
		stepFinish:   func(ctx context.Context) error { return in.finishFromDevices(ctx, m, p) },
		stepDevices:  func(ctx context.Context) error { return in.makeFromDevices(ctx, m, p) },
		stepRepair:   func(ctx context.Context) error { return in.repairPool(ctx, m, p) },
		stepRecreate: func(ctx context.Context) error { return in.recreatePool(ctx, m, p) },
		stepForget:   func(ctx context.Context) error { return in.forgetConsents(ctx, m, p) },
		stepModify: func(ctx context.Context) error {
			return in.API.SetPoolProperties(ctx, m.Name, p.Name, p.change.Set, p.change.Delete)
		},
	}[p.step]
	in.ensure(work.Task{Key: poolKey(m, p), Input: digest([]any{p.step, p.Backing, paths(p.devices), paths(p.spare), p.change}), Do: do})
}

func (in *Input) registerPool(ctx context.Context, m *Member, p *MemberPool) error {
	want := p.properties()
	props := linstor.Diff(nil, want).Set
	err := in.API.CreatePool(ctx, linstor.PoolSpec{Node: m.Name, Name: p.Name, Provider: p.Provider, Backing: p.Backing, Properties: props})
	if linstor.IsExists(err) {
		return nil // the next view shows what it is
	}
	if err != nil && want[auxWorked] != "" {
		delete(want, auxWorked)
		change := linstor.Diff(props, want)
		// Whatever the trouble was, LINSTOR may have registered the pool before. It stores the change and answers with the pool's
		// old trouble. If it was not stored, a human is asked about a pool that never worked, which is the safe side.
		_ = in.API.SetPoolProperties(ctx, m.Name, p.Name, change.Set, change.Delete)
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
		if err := in.stands(ctx, m.Name); err != nil {
			return err
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
	if intent := m.intent(p); intent != "" {
		// What was begun is finished as it was begun: a disk that came since would otherwise stop it for ever.
		now = slices.DeleteFunc(now, func(d linstor.Device) bool { return !intended(intent, &d) })
	}
	if needsApproval(p.Entry) && !m.consented(p.Entry.Name, now) {
		return fmt.Errorf("pool %s on node %s: the empty disks are not those that were approved: they are %s", p.Entry.Name, m.Name, consentTo(now))
	}
	if identities(now) != identities(p.devices) {
		return fmt.Errorf("pool %s on node %s: the empty disks changed while it was being made: %s became %s",
			p.Entry.Name, m.Name, identities(p.devices), identities(now))
	}
	if err := in.stands(ctx, m.Name); err != nil {
		return err
	}
	if m.intent(p) != identities(now) {
		if err := in.API.SetNodeProperties(ctx, m.Name, newIntent(p, now), nil); err != nil {
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
	intent := m.intent(p)
	for i := range empty {
		if intended(intent, &empty[i]) {
			return fmt.Errorf("pool %s on node %s: disk %s is still empty", p.Entry.Name, m.Name, deviceName(&empty[i]))
		}
	}
	return in.registerPool(ctx, m, p)
}

// intent lists the disks that the pool is being made from; "" if nothing was begun, or something else.
func (m *Member) intent(p *MemberPool) string {
	if backing, written := m.Linstor.Properties[auxBacking+p.Entry.Name]; written && backing != p.Backing {
		return ""
	}
	return m.Linstor.Properties[auxIntent+p.Entry.Name]
}

func newIntent(p *MemberPool, ds []linstor.Device) map[string]string {
	return map[string]string{auxIntent + p.Entry.Name: identities(ds), auxBacking + p.Entry.Name: p.Backing}
}

// intended is whether a disk is among those that an intent lists.
func intended(intent string, d *linstor.Device) bool {
	return strings.Contains(","+intent+",", ","+identity(d)+",")
}
