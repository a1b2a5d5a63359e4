package pools

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/disks"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/remembered"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
	"github.com/linstor-dev/storagecluster-operator/pkg/work"
)

func properties(p *cluster.MemberPool) map[string]string {
	want := map[string]string{remembered.Entry: p.Entry.Name}
	maps.Copy(want, p.Entry.Properties)
	// A pool is registered with the mark, which costs no write of its own, and loses it if that shows that it does not
	// work.
	if p.Have == nil || p.Have.Properties[remembered.Worked] != "" || !brokenPool(p.Have) {
		want[remembered.Worked] = "true"
	}
	return want
}

// makePool does the next step for one pool as a background task.
func makePool(in *step.Input, m *cluster.Member, p *cluster.MemberPool) {
	if p.Step == stepVerify {
		verifyPool(in, m, p)
	}
	do := map[cluster.PoolStep]func(context.Context) error{
		stepRegister: func(ctx context.Context) error { return registerPool(ctx, in, m, p) },
		stepFinish:   func(ctx context.Context) error { return finishFromDevices(ctx, in, m, p) },
		StepDevices:  func(ctx context.Context) error { return makeFromDevices(ctx, in, m, p) },
		stepRepair:   func(ctx context.Context) error { return repairPool(ctx, in, m, p) },
		StepRecreate: func(ctx context.Context) error { return recreatePool(ctx, in, m, p) },
		stepForget: func(ctx context.Context) error {
			return in.API.SetNodeProperties(ctx, m.Name, nil, consents(m, p.Entry.Name))
		},
		stepModify: func(ctx context.Context) error {
			return modifyPool(ctx, in, m, p)
		},
	}[p.Step]
	if do == nil {
		return
	}
	s, task := in.Snapshot, work.Task{Key: step.PoolKey(m, p), Input: taskInput(p, m), Do: do}
	if p.Step != stepRepair || step.RefusalOver(&s.Facts, s.TaskStates[task.Key], task.Input) {
		in.Ensure(task)
	}
}

func modifyPool(ctx context.Context, in *step.Input, m *cluster.Member, p *cluster.MemberPool) error {
	return p.Change.Send(in.Snapshot.Linstor.View.Version, func(set map[string]string, del []string) error {
		return in.API.SetPoolProperties(ctx, m.Name, p.Name, set, del)
	})
}

// taskInput names what the task does: with another one it starts at once, and its failures are counted from the
// beginning. To register a pool and to do so anew is one and the same. A satellite that was restarted may find what
// the last one did not.
func taskInput(p *cluster.MemberPool, m *cluster.Member) string {
	if p.Step == stepRegister || p.Step == stepRepair {
		satellite := ""
		if m.SatellitePod != nil {
			satellite = string(m.SatellitePod.UID)
		}
		return text.Digest([]any{stepRegister, p.Backing, satellite})
	}
	return text.Digest([]any{p.Step, p.Backing, disks.Paths(p.Devices), disks.Paths(p.Spare), p.Change})
}

func registerPool(ctx context.Context, in *step.Input, m *cluster.Member, p *cluster.MemberPool) error {
	want := properties(p)
	props := linstor.Initial(want)
	err := in.API.CreatePool(ctx, linstor.PoolSpec{
		Node: m.Name, Name: p.Name, Provider: p.Provider, Backing: p.Backing, Properties: props})
	if linstor.IsExists(err) {
		return nil // the next view shows what it is
	}
	if err != nil && want[remembered.Worked] != "" {
		delete(want, remembered.Worked)
		change := linstor.Diff(props, want, "")
		// Whatever the trouble was, LINSTOR may have registered the pool before. It stores the change and answers with the
		// pool's old trouble. If it was not stored, a human is asked about a pool that never worked, which is the safe side.
		_ = in.API.SetPoolProperties(ctx, m.Name, p.Name, change.Set, change.Delete)
	}
	return err
}

// repairPool registers a pool anew that LINSTOR could not use when it was registered. LINSTOR refuses to delete a pool
// that volumes use.
func repairPool(ctx context.Context, in *step.Input, m *cluster.Member, p *cluster.MemberPool) error {
	have, err := in.API.Pool(ctx, m.Name, p.Name)
	if !linstor.IsNotFound(err) {
		if err != nil || !stillBroken(have) {
			return err
		}
		if err := in.Stands(ctx, m.Name); err != nil {
			return err
		}
		if err := in.API.DeletePool(ctx, m.Name, p.Name); err != nil {
			return err
		}
	}
	return registerPool(ctx, in, m, p)
}

// makeFromDevices makes the volume group or zpool from empty disks and registers the pool. Everything that it decides
// on is looked up uncached here and now: kernel names move at reboot, and repeating the device step on a live pool's
// disks would destroy it.
func makeFromDevices(ctx context.Context, in *step.Input, m *cluster.Member, p *cluster.MemberPool) error {
	if _, err := in.API.Pool(ctx, m.Name, p.Name); !linstor.IsNotFound(err) {
		return err // nothing is left to be done if it is there
	}
	c, err := disks.ChooseNow(ctx, in, m, p)
	if err != nil {
		return err
	}
	now := usable(c, m, p)
	if c.Asks(p.Entry) && !consented(m, p.Entry.Name, now) {
		return fmt.Errorf("pool %s on node %s: the empty disks (%s) are not the approved ones%s",
			p.Entry.Name, m.Name, consentTo(now), c.LookFirst())
	}
	if disks.Identities(now) != disks.Identities(p.Devices) {
		return fmt.Errorf("pool %s on node %s: the empty disks changed from %s to %s while it was being created",
			p.Entry.Name, m.Name, disks.Identities(p.Devices), disks.Identities(now))
	}
	if c.GroupThere != "" {
		return fmt.Errorf("pool %s on node %s: %s", p.Name, m.Name, c.GroupThere)
	}
	if err := in.Stands(ctx, m.Name); err != nil {
		return err
	}
	if disks.Intent(m, p) != disks.Identities(now) {
		if err := in.API.SetNodeProperties(ctx, m.Name, newIntent(in.Snapshot, p, now), nil); err != nil {
			return err
		}
	}
	return makeOn(ctx, in, m, p, now)
}

// usable are the chosen disks that the pool is made from. What was begun is finished as it was begun: a disk that came
// since would otherwise stop it for ever.
func usable(c *disks.Choice, m *cluster.Member, p *cluster.MemberPool) []linstor.Device {
	intent := disks.Intent(m, p)
	return slices.DeleteFunc(slices.Clone(c.Devices), func(d linstor.Device) bool {
		return intent != "" && !disks.Intended(intent, &d)
	})
}

// makeOn makes the volume group or zpool from the disks and registers the pool.
func makeOn(ctx context.Context, in *step.Input, m *cluster.Member, p *cluster.MemberPool, ds []linstor.Device) error {
	spec := linstor.DeviceSpec{Node: m.Name, Provider: p.Provider, PoolName: p.Backing, Paths: disks.Paths(ds)}
	if err := in.API.CreateDevices(ctx, spec); err != nil {
		return err
	}
	return registerMade(ctx, in, m, p, madeNow(in.Snapshot, ds))
}

// registerMade registers a pool that was made from disks, and announces each of them: to overwrite a disk is the one
// thing that the operator cannot take back.
func registerMade(
	ctx context.Context, in *step.Input, m *cluster.Member, p *cluster.MemberPool, made *cluster.MadeFrom,
) error {
	if err := registerPool(ctx, in, m, p); err != nil || made == nil {
		return err
	}
	for _, d := range made.Disks {
		in.Notify(step.Notice{Reason: "PoolCreated", Action: step.PoolOn(d.Path, m.Name),
			Note: fmt.Sprintf("pool %s on node %s was created from %s", p.Name, m.Name, name(&d))})
	}
	return nil
}

// finishFromDevices registers the pool whose disks were made ready before the operator was interrupted. That the view
// lists none of them as empty is no proof: LINSTOR leaves the disks of a node out that is just connecting. Registering
// a pool on a volume group that is not there would leave a broken pool behind, so the node's own list is read, which
// is an error for a node that is not ONLINE.
func finishFromDevices(ctx context.Context, in *step.Input, m *cluster.Member, p *cluster.MemberPool) error {
	empty, err := in.API.Devices(ctx, m.Name)
	if err != nil {
		return err
	}
	intent := disks.Intent(m, p)
	if i := slices.IndexFunc(empty, func(d linstor.Device) bool { return disks.Intended(intent, &d) }); i >= 0 {
		return fmt.Errorf("pool %s on node %s: disk %s is still empty", p.Entry.Name, m.Name, disks.Name(&empty[i]))
	}
	if mark := remembered.PoolRemoved + p.Entry.Name; m.Linstor.Properties[mark] != "" {
		// Before the pool is there: an operator that dies in between finds a pool that was begun, as it is.
		if err := in.API.SetNodeProperties(ctx, m.Name, nil, []string{mark}); err != nil {
			return err
		}
	}
	return registerMade(ctx, in, m, p, madeFrom(m, p))
}

// mostDisksNoted bounds the disks in a property: LINSTOR stores values of 4096 characters.
const mostDisksNoted = 20

func madeNow(s *cluster.Snapshot, ds []linstor.Device) *cluster.MadeFrom {
	made := cluster.MadeFrom{At: s.Now.UTC().Truncate(time.Second), Count: len(ds)}
	for _, d := range ds[:min(len(ds), mostDisksNoted)] {
		made.Disks = append(made.Disks, cluster.MadeDisk{Path: d.Path, Serial: d.Serial, WWN: d.WWN, Size: d.SizeBytes})
	}
	return &made
}

func newIntent(s *cluster.Snapshot, p *cluster.MemberPool, ds []linstor.Device) map[string]string {
	entry := p.Entry.Name
	out := map[string]string{
		remembered.PoolIntent + entry:  disks.Identities(ds),
		remembered.PoolBacking + entry: p.Backing,
	}
	if value, err := json.Marshal(madeNow(s, ds)); err == nil { // texts and numbers always encode
		out[remembered.PoolDisks+entry] = string(value)
	}
	return out
}

// madeFrom is what the operator made the member's pool from; nil if it did not, or nothing is known about it.
func madeFrom(m *cluster.Member, p *cluster.MemberPool) *cluster.MadeFrom {
	var made cluster.MadeFrom
	value := m.Linstor.Properties[remembered.PoolDisks+p.Entry.Name]
	if disks.Intent(m, p) == "" || value == "" || json.Unmarshal([]byte(value), &made) != nil {
		return nil
	}
	return &made
}

func name(d *cluster.MadeDisk) string {
	id := ""
	switch {
	case d.Serial != "":
		id = "serial " + d.Serial + ", "
	case d.WWN != "":
		id = "WWN " + d.WWN + ", "
	}
	return fmt.Sprintf("%s (%s%dGi)", d.Path, id, d.Size>>30)
}
