package pools

import (
	"context"
	"fmt"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/disks"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/hold"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/remembered"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
	"github.com/linstor-dev/storagecluster-operator/pkg/work"
)

// looksBeforeLost is how often in a row a pool's storage must be away in a fresh look before a human is asked: fifteen
// seconds at least with the default back-off. A volume group may become active a little after the satellite has
// started.
const looksBeforeLost = 5

// brokenPool reports whether a pool's storage cannot be used: LINSTOR reports errors for thin pools, for others only
// the size stays unknown or zero.
func brokenPool(p *linstor.Pool) bool {
	return len(p.Errors) > 0 || p.TotalKiB == nil || *p.TotalKiB == 0
}

// stillBroken reports whether a fresh look at a pool confirms that its storage cannot be used. While the satellite is
// being restarted, it cannot.
func stillBroken(p *linstor.Pool) bool { return brokenPool(p) && !p.Unseen() }

// broken reports whether LINSTOR cannot use the pool's storage although its node is ONLINE.
func (c *situation) broken() bool { return brokenPool(c.Have) && c.m.Online }

// lost reports whether the pool is broken and worked before: the volume group is not active, or a disk is gone.
func (c *situation) lost() bool { return c.broken() && c.Have.Properties[remembered.Worked] != "" }

// lostRows decide about a pool that is lost. Nothing is repaired or made anew there without a human's word.
var lostRows = []row{
	rule("recreate-refused", "it is lost, and an administrator approved recreating it, but LINSTOR rejects this",
		func(c *situation) bool { return c.mayRecreate() && c.refused() && c.askable() },
		outcome{step: StepRecreate, hold: v1alpha1.HoldPoolBackendLost, message: lostMessage, also: noteSpare}),
	rule("recreate", "it is lost, and an administrator approved recreating it from the disks that are now empty",
		(*situation).mayRecreate,
		outcome{step: StepRecreate, reason: string(v1alpha1.HoldPoolBackendLost), message: lostMessage, also: noteSpare}),
	rule("lost", "it worked before, but several consecutive checks found that LINSTOR cannot use it",
		func(c *situation) bool {
			return c.lost() && c.s.TaskStates[verifyKey(c.m, c.MemberPool)].Refusals >= looksBeforeLost && c.askable()
		},
		outcome{step: stepVerify, hold: v1alpha1.HoldPoolBackendLost, message: lostMessage, also: noteSpare}),
	rule("looked-at", "it worked before, but LINSTOR cannot use it now", (*situation).lost,
		outcome{step: stepVerify, reason: string(v1alpha1.HoldPoolBackendLost), message: lostMessage, also: noteSpare}),
}

// spare are the empty disks that a lost pool could be made anew from, and what is to be said about them.
type spare struct {
	disks []linstor.Device
	note  string
}

func (c *situation) spare() *spare {
	if c.spared != nil {
		return c.spared
	}
	c.spared = &spare{}
	if c.Entry.Devices == nil || !c.m.Linstor.DevicesKnown || c.devicesErr() != nil {
		return c.spared
	}
	switch chosen := c.choice(); {
	case len(chosen.Devices) == 0 || !hold.DisksFit(hold.Devices(c.m.Name, chosen.Devices)):
	case chosen.GroupThere != "":
		c.spared.note = fmt.Sprintf("; it is not recreated from %s because %s; if that is outdated, "+
			"restart the node's satellite pod", deviceNames(chosen.Devices), chosen.GroupThere)
	default:
		*c.spared = spare{chosen.Devices, chosen.LookFirst()}
	}
	return c.spared
}

// mayRecreate reports whether a human has agreed that the lost pool is made anew from the disks that are there now.
func (c *situation) mayRecreate() bool {
	consent := c.prop(remembered.PoolRecreate)
	return consent != "" && c.lost() && consent == consentTo(c.spare().disks)
}

// askable reports whether a human can be asked about the lost pool now: the node is not under maintenance, and its
// disks are known if the pool is made from disks.
func (c *situation) askable() bool {
	disksUnknown := c.Entry.Devices != nil && !c.m.Linstor.DevicesKnown && c.devicesErr() == nil
	return !c.m.Maintenance && !disksUnknown
}

// lostMessage says what is so of a lost pool, or why it is not made anew although a human agreed.
func lostMessage(c *situation) string {
	if failed := c.task().Err; failed != nil && c.mayRecreate() {
		return text.OneLine(failed.Error())
	}
	return text.OneLine(c.cannotUse() + "; it was usable before, so the operator does nothing without your approval" +
		c.spare().note)
}

func noteSpare(c *situation) { c.Spare = c.spare().disks }

func verifyKey(m *cluster.Member, p *cluster.MemberPool) string {
	return step.PoolKey(m, p) + "/verify"
}

// verifyPool looks whether LINSTOR still cannot use a pool. That is counted as the task's failure.
func verifyPool(in *step.Input, m *cluster.Member, p *cluster.MemberPool) {
	in.Ensure(work.Task{Key: verifyKey(m, p), Input: p.Backing, Do: func(ctx context.Context) error {
		have, err := in.API.Pool(ctx, m.Name, p.Name)
		if linstor.IsNotFound(err) {
			return nil // the next view shows it
		}
		if err != nil || !stillBroken(have) {
			return err
		}
		return fmt.Errorf("pool %s on node %s: its storage is missing", p.Name, m.Name)
	}})
}

// recreatePool makes a lost pool anew, from the empty disks that a human has named for it, as far as a last look
// agrees: the storage is still away, no copy of a volume is registered in the pool, the disks that match are those
// that were named, and its volume group or zpool is not on others.
func recreatePool(ctx context.Context, in *step.Input, m *cluster.Member, p *cluster.MemberPool) error {
	have, err := in.API.Pool(ctx, m.Name, p.Name)
	if linstor.IsNotFound(err) {
		return nil
	}
	if err != nil || !stillBroken(have) {
		return err // back again: its own storage is better than a new one
	}
	not := fmt.Sprintf("pool %s on node %s is not recreated", p.Name, m.Name)
	if err := poolUnused(ctx, in, m.Name, p.Name); err != nil {
		return fmt.Errorf("%s: %w; delete these replicas first (linstor resource delete %s <volume>)", not, err, m.Name)
	}
	// LINSTOR refuses to delete a pool with snapshots, but does not show which pool a snapshot is in.
	switch snapshots, err := in.API.Snapshots(ctx, m.Name); {
	case err != nil:
		return err
	case len(snapshots) > 0:
		return fmt.Errorf("%s: the node still has snapshots (%s); delete them first", not,
			text.QuoteList(linstor.SnapshotNames(snapshots, m.Name)))
	}
	c, err := disks.ChooseNow(ctx, in, m, p)
	if err != nil {
		return err
	}
	now := c.Devices
	if word := m.Linstor.Properties[remembered.PoolRecreate+p.Entry.Name]; word == "" || consentTo(now) != word {
		return fmt.Errorf("%s: the empty disks are %q, but %q was approved", not, consentTo(now), word)
	}
	if c.GroupThere != "" {
		return fmt.Errorf("%s: %s", not, c.GroupThere)
	}
	if err := in.Stands(ctx, m.Name); err != nil {
		return err
	}
	if err := in.API.SetNodeProperties(ctx, m.Name, newIntent(in.Snapshot, p, now), nil); err != nil {
		return err
	}
	// From here on the intent says what was begun: whoever comes next finishes it.
	if err := in.API.DeletePool(ctx, m.Name, p.Name); err != nil {
		return err
	}
	if err := makeOn(ctx, in, m, p, now); err != nil {
		return err
	}
	in.Notify(step.Notice{Warning: true, Reason: "PoolRecreated", Action: step.PoolOn(p.Name, m.Name),
		Note: fmt.Sprintf("pool %s on node %s was lost and has been recreated empty from %s, as approved",
			p.Name, m.Name, deviceNames(now))})
	return nil
}
