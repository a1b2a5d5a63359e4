package observe

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/poolspec"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/epoch"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/move"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/nodevolumes"
	"github.com/linstor-dev/storagecluster-operator/pkg/database/connection"
	"github.com/linstor-dev/storagecluster-operator/pkg/kube"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/pace"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/canary"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/controller"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/hold"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/judge"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/storageclass"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
)

// linstor is LINSTOR's view, at most as old as the phase allows.
func (o *Observer) linstor(ctx context.Context, f *cluster.Facts) cluster.Linstor {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !controller.Answers(&f.Kube) {
		o.last, o.looks = cluster.Linstor{}, pace.Looks{}
		return o.last
	}
	devices := o.Disks ||
		f.Target != nil && poolspec.WantsDevices(f.Target.Spec) && (missesPools(f) || o.disks.due(f))
	copies := judge.WantsResources(f, o.last.View) || o.copiesDue(f)
	leaving := o.leaving(f)
	if !o.enough(f, devices, copies) {
		o.look(ctx, f, devices, copies, leaving)
	}
	if f.Kube.DiskVolumes != nil {
		nodevolumes.Join(f.Kube.DiskVolumes, o.attached)
	}
	l := o.compareEpochs(ctx, f, o.last) // also where an earlier look serves: the claim may have gone back since
	o.last.Behind = l.Behind
	return l
}

// look takes a view of LINSTOR.
func (o *Observer) look(ctx context.Context, f *cluster.Facts, devices, copies bool, leaving []string) {
	began := o.Clock.Now()
	view, err := o.view(ctx, linstor.ViewOptions{Devices: devices, Resources: copies, Volumes: leaving,
		Groups: storageclass.Groups(f)})
	o.looks = pace.Looks{At: f.Now, Took: o.Clock.Now().Sub(began)}
	if err != nil && o.last.Err != nil && linstor.IsUnreachable(err) && linstor.IsUnreachable(o.last.Err) {
		// Which of the view's requests fails first, and from which port it came, is chance: with it, the status would be
		// written anew at each look as long as LINSTOR is away.
		err = o.last.Err
	}
	if view != nil {
		if devices {
			o.attachments(ctx, view)
		}
		o.doubtNoDisks(f, view)
		o.before = view
	}
	if f.Foreign(view) == nil { // the memory is of our nodes and disks; the snapshot sets such a view aside by itself
		if view != nil {
			o.down = cluster.RememberDown(o.down, view, f.Now)
			o.snapshotsOf(ctx, view, judge.SnapshotsMatter(f, view))
			if view.ResourcesKnown {
				o.copiesAt = f.Now
			}
		}
		o.disks.remember(f, view, devices)
	}
	o.last, o.devices = cluster.Linstor{Asked: true, View: view, Err: err, Down: o.down}, devices
}

// snapshotsOf adds the snapshots on these nodes to a view. If they cannot be read, they stay unknown; whatever else
// the view says is true all the same. Other looks do without them: there may be many more than volumes.
func (o *Observer) snapshotsOf(ctx context.Context, v *linstor.View, nodes []string) {
	if len(nodes) == 0 {
		return
	}
	if list, err := o.Linstor.Snapshots(ctx, nodes...); err == nil {
		v.Snapshots, v.SnapshotsOn = list, nodes
	}
}

// view takes a view of LINSTOR. Where LINSTOR has connected to a node since the look before, what was said of the
// node's copies is not true any more: then all are looked at in this turn. Until the next one the status would say
// that volumes are unavailable although the cluster is Ready again.
func (o *Observer) view(ctx context.Context, want linstor.ViewOptions) (*linstor.View, error) {
	v, err := o.Linstor.View(ctx, want)
	if err != nil || want.Resources || v.Volumes == 0 {
		return v, err
	}
	for key := range o.down {
		if n := v.Nodes[key]; n != nil && n.Online() {
			want.Resources = true
			return o.Linstor.View(ctx, want)
		}
	}
	return v, nil
}

// compareEpochs finds out whether the claim is of a time before LINSTOR's. If that cannot be told, nothing is known of
// LINSTOR.
func (o *Observer) compareEpochs(ctx context.Context, f *cluster.Facts, l cluster.Linstor) cluster.Linstor {
	claim, _ := f.Claim()
	if l.Behind || !epoch.Behind(claim.Epoch, l.View) || f.Foreign(l.View) != nil {
		return l
	}
	var err error
	if l.Behind, err = o.behind(ctx, l.View); err != nil {
		l.View, l.Err = nil, err
	}
	return l
}

// claimWithin bounds a look at the claim past the cache, for which all who look at LINSTOR wait.
const claimWithin = 3 * time.Second

// behind reports whether the claim itself is of a time before LINSTOR's. It is read past the cache, which may be of
// any time when the operator has just started: the CSI driver is stopped because of it, and a human called.
func (o *Observer) behind(ctx context.Context, v *linstor.View) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, claimWithin)
	defer cancel()
	live, err := kube.Live{Client: o.Live}.ConfigMap(ctx, resources.ClaimName)
	if err != nil {
		return false, fmt.Errorf("check whether the claim is older than LINSTOR's state: %w", err)
	}
	if live == nil {
		return false, nil
	}
	claim, err := resources.ClaimFrom(live)
	return epoch.Behind(claim.Epoch, v), err
}

// doubtNoDisks makes unknown whether nodes have empty disks of which LINSTOR has listed none, unless their satellites
// have been ready for a while, and the look before listed none either or did not come to list them. LINSTOR leaves out
// the disks of a satellite that it does not reach at that moment, also while it still calls the node ONLINE, and it is
// asked for nodes after disks. So a node whose satellite went, or came back in between, looked like one without any
// disk: a human was called, and an open question about its disks was lost.
func (o *Observer) doubtNoDisks(f *cluster.Facts, now *linstor.View) {
	for key, n := range now.Nodes {
		var was *linstor.Node
		if o.before != nil {
			was = o.before.Nodes[key]
		}
		switch satellite := f.Kube.Pods[v1alpha1.ComponentSatellite][key]; {
		case len(n.Devices) > 0, was != nil && was.DevicesKnown && len(was.Devices) == 0:
		case !f.Settled(satellite, now), o.before != nil && (was == nil || !was.Online() || len(was.Devices) > 0):
			n.DevicesKnown = false
		}
	}
}

// leaving are the volumes that LINSTOR is to have no longer. If the last look did not seek them, another follows.
func (o *Observer) leaving(f *cluster.Facts) []string {
	volumes := canary.Leaving(f)
	if o.last.View != nil && !slices.Equal(o.last.View.Sought, volumes) {
		o.looks.Dirty = true
	}
	return volumes
}

// enough reports whether the last look still serves, for what is to be seen.
func (o *Observer) enough(f *cluster.Facts, devices, copies bool) bool {
	if devices && !o.devices || copies && o.last.View != nil && !o.last.View.ResourcesKnown {
		return false
	}
	return o.looks.Serve(f.Timing, f.Now, func() bool { return underWay(f) })
}

// underWay reports whether something is being done that LINSTOR has a part in.
func underWay(f *cluster.Facts) bool {
	switch f.Phase() {
	case v1alpha1.PhaseReady, v1alpha1.PhaseDegraded, v1alpha1.PhaseHumanIntervention:
		return phases.Unfinished(&f.Cluster.Status) || judge.Rolling(f)
	default:
		return true
	}
}

// copiesDue reports whether it is time to look at all copies of volumes.
func (o *Observer) copiesDue(f *cluster.Facts) bool {
	return pace.Rare(f.Timing, o.copiesAt, f.Now) && (o.last.View == nil || o.last.View.Volumes > 0)
}

// Due is how long the next look at LINSTOR is off, because a write has ended since the last one or while it was taken;
// for ever if none has.
func (o *Observer) Due() time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.looks.Due(o.Timing, o.Clock.Now())
}

// missesPools reports whether empty disks matter now: not every pool is there. A look at all disks makes each
// satellite run lsblk, which a cluster at rest need not.
func missesPools(f *cluster.Facts) bool {
	p := f.Cluster.Status.Pools
	if f.Phase() != v1alpha1.PhaseReady {
		return true
	}
	return p.Ready < p.Wanted || int(f.Cluster.Status.Nodes.Online) < len(f.Kube.Nodes) &&
		f.Cluster.Status.Nodes.Online < f.Cluster.Status.Nodes.Members
}

// diskMemory keeps the empty disks of the last look for a cluster at rest some of whose nodes may be without a pool. A
// look at all disks is rare: in between the last one holds. Nothing is written to a disk on the word of this memory:
// whoever uses one looks again.
type diskMemory struct {
	// complete is true if the last snapshot had all pools that are optional.
	complete bool
	at       time.Time
	byNode   map[string][]linstor.Device
}

// due reports whether a cluster at rest needs a look for disks that came.
func (d *diskMemory) due(f *cluster.Facts) bool {
	return poolspec.MayLackDevices(f.Target.Spec) && !d.complete && pace.Rare(f.Timing, d.at, f.Now)
}

// remember takes over what a look found, or gives a view without one what the last look found.
func (d *diskMemory) remember(f *cluster.Facts, v *linstor.View, looked bool) {
	switch {
	case v == nil || f.Target == nil || !poolspec.MayLackDevices(f.Target.Spec):
	case looked && v.DevicesErr == nil:
		d.at, d.byNode = f.Now, map[string][]linstor.Device{}
		for key, n := range v.Nodes {
			if n.DevicesKnown {
				d.byNode[key] = n.Devices
			}
		}
	case !looked && f.Phase() == v1alpha1.PhaseReady:
		for key, n := range v.Nodes {
			if devices, known := d.byNode[key]; known && n.Online() {
				n.Devices, n.DevicesKnown = devices, true
			}
		}
	}
}

// adopts reports whether a human has just answered adopt. The answer is for the database that the hold named, so that
// it is compared with what is there now: an older look may show a database that was emptied and restored since, and
// the answer would be spent for nothing.
func adopts(c *v1alpha1.StorageCluster) bool {
	a, err := hold.ParseAnswer(c)
	return err == nil && a != nil && a.Option == v1alpha1.OptionAdopt
}

// database looks into the database while there is no claim. Once it is claimed, LINSTOR itself is the judge. Where its
// data is to go to another one, that is looked into before each try to write there.
func (o *Observer) database(ctx context.Context, f *cluster.Facts) cluster.Database {
	if f.Target == nil {
		return cluster.Database{}
	}
	spec := &f.Target.Spec.Database
	if claim, claimed := f.Claim(); claimed {
		if len(f.Kube.Restores) > 0 || move.Of(f.Cluster, claim, f.AcceptedDatabase()) == nil {
			return cluster.Database{}
		}
		spec = &f.Cluster.Spec.Database
	}
	access, err := controller.DatabaseAccess(f, spec)
	if err != nil {
		return cluster.Database{Checked: true, Err: err}
	}
	key := connection.URL(spec) + access.User
	if o.probed == key && f.Now.Sub(o.probeAt) < o.Timing.PollWorking && !adopts(f.Cluster) {
		return o.probe
	}
	contents, err := o.Prober.Look(ctx, spec, access)
	o.probe = cluster.Database{Checked: true, Err: err, Contents: contents}
	o.probed, o.probeAt = key, f.Now
	return o.probe
}
