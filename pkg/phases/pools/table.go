package pools

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/decisiontable"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/disks"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/hold"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/remembered"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
	"github.com/linstor-dev/storagecluster-operator/pkg/work"
)

// situation is all that the decision about one pool of a member depends on.
type situation struct {
	*cluster.MemberPool
	s *cluster.Snapshot
	m *cluster.Member

	// chosen and spared are kept once they were looked for.
	chosen *disks.Choice
	spared *spare
}

func (c *situation) entry() string             { return c.Entry.Name }
func (c *situation) prop(prefix string) string { return c.m.Linstor.Properties[prefix+c.entry()] }
func (c *situation) task() work.State          { return c.s.TaskStates[step.PoolKey(c.m, c.MemberPool)] }
func (c *situation) devicesErr() error         { return c.s.Linstor.View.DevicesErr }
func (c *situation) intent() string            { return disks.Intent(c.m, c.MemberPool) }
func (c *situation) refused() bool             { return c.task().Refusals >= step.RefusalsThatLast }

// choice is which disks the entry may use. LINSTOR must have listed the node's disks.
func (c *situation) choice() *disks.Choice {
	if c.chosen == nil {
		c.chosen = disks.Choose(c.s, c.MemberPool, c.m, c.m.Linstor.Devices)
	}
	return c.chosen
}

// table is the one that decides about the pool.
func (c *situation) table() *decisiontable.Table[*situation] {
	if c.Have == nil {
		return &absence
	}
	return &presence
}

// ours reports whether the operator registered the pool, on a group that is there by itself.
func (c *situation) ours() bool {
	return c.Entry.Devices == nil && c.Have.Properties[remembered.Entry] != ""
}

func (c *situation) change() linstor.Change {
	return linstor.Diff(c.Have.Properties, properties(c.MemberPool), c.s.Linstor.View.Version)
}

// intended counts the disks that LINSTOR lists as empty and that the operator had begun to make the pool from.
func (c *situation) intended() (empty, all int) {
	for i := range c.m.Linstor.Devices {
		if disks.Intended(c.intent(), &c.m.Linstor.Devices[i]) {
			empty++
		}
	}
	return empty, len(strings.Split(c.intent(), ","))
}

// usable are the disks that the pool is made from: those that it was begun with, or those that match.
func (c *situation) usable() []linstor.Device { return usable(c.choice(), c.m, c.MemberPool) }

// noDisk reports whether there is no disk that may be used, or not all of those that the pool was begun with.
func (c *situation) noDisk() bool {
	empty, _ := c.intended()
	return len(c.usable()) < max(empty, 1)
}

func (c *situation) unapproved() bool {
	return c.choice().Asks(c.Entry) && !consented(c.m, c.entry(), c.usable())
}

type row = decisiontable.Row[*situation]

type outcome struct {
	ready     bool
	notWanted bool
	step      cluster.PoolStep
	hold      v1alpha1.HoldReason
	// reason is the problem's; the hold's if empty. A row without a message and a problem has none.
	reason  string
	message func(*situation) string
	// problem is for a row whose problem depends on a task.
	problem func(*situation) *cluster.Problem
	also    func(*situation)
}

func rule(name, when string, holds func(*situation) bool, o outcome) row {
	var words []string
	if o.ready {
		words = append(words, "ready")
	}
	if o.notWanted {
		words = append(words, "the node works without it")
	}
	decide := func(c *situation) {
		p := c.MemberPool
		p.Ready, p.NotWanted, p.Step = o.ready, o.notWanted, o.step
		switch {
		case o.problem != nil:
			p.Problem = o.problem(c)
		case o.message != nil:
			p.Problem = &cluster.Problem{Reason: cmp.Or(o.reason, string(o.hold)), Hold: o.hold, Pool: c.entry(),
				Message: o.message(c)}
		}
		if o.also != nil {
			o.also(c)
		}
	}
	then := decisiontable.Then(string(o.step), string(o.hold), words...)
	return row{Name: name, When: when, Then: then, Holds: holds, Decide: decide}
}

var presence = decisiontable.Table[*situation]{
	Title: "LINSTOR has the pool",
	Intro: "Applies to each pool of a registered member if LINSTOR has the pool.",
	Rows: slices.Concat([]row{
		rule("another-kind", "its provider or its backing storage differs from the spec",
			func(c *situation) bool {
				return !strings.EqualFold(c.Have.Provider, c.Provider) || c.Have.Backing != c.Backing
			},
			outcome{hold: v1alpha1.HoldUnsupportedChange, message: func(c *situation) string {
				return fmt.Sprintf("spec.storagePools[%s] requires %s on %s, but LINSTOR has pool %s as %s on %s; "+
					"it may contain volumes: use a different pool name",
					c.entry(), c.Provider, c.Backing, c.Name, c.Have.Provider, c.Have.Backing)
			}}),
	}, lostRows, []row{
		rule("repair-refused", "it has never worked, and registering it again did not help",
			func(c *situation) bool { return c.broken() && c.ours() && c.refused() },
			outcome{step: stepRepair, hold: v1alpha1.HoldPoolBackendMissing, message: brokenMessage}),
		// LINSTOR registers a pool before it checks the volume group, and does not check again; registering it anew does.
		rule("repair", "it has never worked, and the operator registered it on an existing group",
			func(c *situation) bool { return c.broken() && c.ours() },
			outcome{step: stepRepair, reason: string(v1alpha1.HoldPoolBackendMissing), message: brokenMessage}),
		rule("not-ours", "it has never worked, and the operator did not register it",
			func(c *situation) bool { return c.broken() && c.Entry.Devices == nil },
			outcome{hold: v1alpha1.HoldPoolBackendMissing, message: func(c *situation) string {
				return brokenMessage(c) + "; the operator did not create the pool, so it does not change it"
			}}),
		// Its disks may be gone, and a repair could end in formatting what came in their place.
		rule("unusable", "it has never worked, and is created from disks", (*situation).broken,
			outcome{hold: v1alpha1.HoldPoolBackendMissing, message: brokenMessage}),
		rule("properties", "its properties differ from the spec",
			func(c *situation) bool { change := c.change(); return !change.Empty() },
			outcome{step: stepModify, also: func(c *situation) { c.Change = c.change() }, problem: (*situation).taskProblem}),
		rule("offline", "its node is not ONLINE, and LINSTOR does not report its size",
			func(c *situation) bool { return brokenPool(c.Have) }, outcome{}),
		rule("consents-left", "it works, but options recorded for it remain",
			func(c *situation) bool { return len(consents(c.m, c.entry())) > 0 }, outcome{ready: true, step: stepForget}),
		rule("ready", "it works", nil, outcome{ready: true}),
	}),
}

var absence = decisiontable.Table[*situation]{
	Title: "LINSTOR does not have the pool",
	Intro: "Applies to each pool of a registered member if LINSTOR does not have the pool.",
	Rows: []row{
		rule("skipped", "a hold was resumed with `skip` for this entry and these disks",
			func(c *situation) bool { return answered(c.m, c.MemberPool, remembered.PoolSkip) },
			outcome{notWanted: true, also: func(c *situation) { c.Skipped = true }}),
		rule("not-mounted", "the satellite pod does not mount the pool's directory",
			func(c *situation) bool { return !mountsPool(c.m, c.MemberPool) },
			outcome{reason: "SatelliteOutdated", message: func(c *situation) string {
				return c.says("the satellite cannot use the directory %s until it is restarted", c.Backing)
			}}),
		rule("register", "the spec names an existing group, or a hold was resumed with `use-existing`",
			func(c *situation) bool {
				return c.Entry.Devices == nil || answered(c.m, c.MemberPool, remembered.PoolUseExisting)
			},
			outcome{step: stepRegister, problem: registerProblem}),
		rule("disks-unlisted",
			"LINSTOR cannot list the node's disks, or Kubernetes cannot list the volumes attached to the node",
			func(c *situation) bool { return c.devicesErr() != nil },
			outcome{reason: reasonDevicesUnknown, message: func(c *situation) string {
				return text.OneLine("the disks are unknown: " + c.devicesErr().Error())
			}}),
		rule("disks-unknown", "the node is not ONLINE, its disks have not been requested from LINSTOR, or an empty "+
			"list is not trusted yet",
			func(c *situation) bool { return !c.m.Linstor.DevicesKnown }, outcome{}),
		// The disks seem to have been made ready: only the pool is missing.
		rule("finish", "its creation was started, and none of its disks is empty anymore",
			func(c *situation) bool { empty, _ := c.intended(); return c.intent() != "" && empty == 0 },
			outcome{step: stepFinish, problem: (*situation).taskProblem}),
		rule("half-made", "its creation was started, and some of its disks are still empty",
			func(c *situation) bool {
				empty, all := c.intended()
				return c.intent() != "" && empty != all && !c.noDisk()
			},
			outcome{hold: v1alpha1.HoldStoragePoolsFailed, also: noteDevices, message: func(c *situation) string {
				return c.says("its creation from %s stopped halfway; some of the disks are still empty", c.intent())
			}}),
		rule("occupied", "no disk is usable, and a matching disk is not empty",
			func(c *situation) bool { return c.noDisk() && len(c.choice().Occupied) > 0 },
			outcome{hold: v1alpha1.HoldDeviceNotEmpty, also: noteDevices, message: func(c *situation) string {
				return c.says("no empty disk matches, and the operator never overwrites data: %s",
					text.QuoteList(c.choice().Occupied))
			}}),
		rule("never-seen-empty", "no disk is usable, and a matching disk has not been verified to be empty",
			func(c *situation) bool { return c.noDisk() && len(c.choice().Unseen) > 0 },
			outcome{reason: reasonDevicesUnknown, also: noteDevices, message: func(c *situation) string {
				return c.says("the operator uses only disks that are verified to be empty: %s",
					text.QuoteList(c.choice().Unseen))
			}}),
		rule("refused", "no disk is usable, and a matching disk is rejected",
			func(c *situation) bool { return c.noDisk() && len(c.choice().Refused) > 0 },
			outcome{reason: "DeviceRefused", hold: v1alpha1.HoldDeviceMissing, also: noteDevices,
				message: func(c *situation) string { return c.says("%s", text.QuoteList(c.choice().Refused)) }}),
		rule("optional", "no disk is usable, and the entry is optional",
			func(c *situation) bool { return c.noDisk() && c.Entry.Devices.Optional },
			outcome{notWanted: true, also: noteDevices}),
		rule("no-disk", "no disk is usable", (*situation).noDisk,
			outcome{hold: v1alpha1.HoldDeviceMissing, also: noteDevices, message: func(c *situation) string {
				return c.says("no disk matches spec.storagePools[%s].devices (LINSTOR lists only empty disks larger than 1 GiB)",
					c.entry())
			}}),
		rule("group-there", "a volume group or zpool with the pool's name already exists on the node",
			func(c *situation) bool { return c.choice().GroupThere != "" },
			outcome{hold: v1alpha1.HoldDeviceNotEmpty, message: func(c *situation) string {
				return c.says("%s; the operator does not create another one with the same name from %s",
					c.choice().GroupThere, deviceNames(c.usable()))
			}}),
		rule("too-many-disks", "more disks match than a hold can list",
			func(c *situation) bool { return c.unapproved() && !hold.DisksFit(hold.Devices("", c.usable())) },
			outcome{reason: string(v1alpha1.HoldDeviceApproval), also: awaitApproval, message: func(c *situation) string {
				return c.says("%d disks match, but a hold can list only %d: match fewer disks, "+
					"or set spec.storagePools[%s].devices.approval to Auto", len(c.usable()), hold.MostDevices, c.entry())
			}}),
		rule("unapproved", "the disks have not been approved yet", (*situation).unapproved,
			outcome{hold: v1alpha1.HoldDeviceApproval, also: awaitApproval, message: func(c *situation) string {
				return c.says("creating %s from %s, which will be overwritten, requires approval%s",
					c.Backing, deviceNames(c.usable()), c.choice().LookFirst())
			}}),
		rule("make", "nothing prevents its creation", nil,
			outcome{step: StepDevices, also: noteDevices, problem: (*situation).taskProblem}),
	},
}

func (c *situation) says(format string, args ...any) string {
	return "pool " + c.entry() + ": " + fmt.Sprintf(format, args...)
}

func (c *situation) taskProblem() *cluster.Problem {
	return step.TaskProblem(&c.s.Facts, step.PoolKey(c.m, c.MemberPool), c.entry(), v1alpha1.HoldStoragePoolsFailed)
}

func registerProblem(c *situation) *cluster.Problem {
	p := c.taskProblem()
	if p != nil && p.Reason == string(v1alpha1.HoldPoolBackendMissing) {
		p.Message = brokenMessage(c)
	}
	return p
}

func brokenMessage(c *situation) string { return text.OneLine(c.cannotUse()) }

func noteDevices(c *situation) { c.Devices = c.usable() }

// awaitApproval makes a pool wait whose disks nobody has approved yet. A node that may be without the pool is well
// meanwhile.
func awaitApproval(c *situation) {
	noteDevices(c)
	c.NotWanted, c.Spare = c.Entry.Devices.Optional, c.Devices
}

// Markdown is the page about a pool, made from the tables.
func Markdown() string {
	return decisiontable.Page("A storage pool on a node", "pkg/phases/pools",
		"On each reconcile, the operator re-evaluates each pool that a member should have, based on the observed "+
			"state and on the records in LINSTOR's properties. In each table, the first matching row applies. If two "+
			"entries claim the same resource on a node, the operator acts on neither of them (hold "+
			"[PoolConflict](../runbooks/PoolConflict.md)). It does not change a pool while a hold about it is open, and it "+
			"does not repair or recreate pools during a mass failure.",
		presence.Markdown(), absence.Markdown())
}
