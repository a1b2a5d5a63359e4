package observe

import (
	"context"
	"math"
	"time"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
)

// linstor is LINSTOR's view, at most as old as the phase allows.
func (o *Observer) linstor(ctx context.Context, s *phases.Snapshot) phases.Linstor {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !phases.ControllerAnswers(&s.Kube) {
		o.last, o.lastAt = phases.Linstor{}, time.Time{}
		return o.last
	}
	devices := s.Target != nil && s.Target.Spec.WantsDevices() && (missesPools(s) || o.disks.due(s, o.Timing.Safety))
	copies := s.WantsResources(o.last.View)
	if age := s.Now.Sub(o.lastAt); !o.lastAt.IsZero() && (!devices || o.devices) && (!copies || o.last.View == nil || o.last.View.ResourcesKnown) {
		if age < o.minAge() || !o.dirty && age < o.maxAge(s) {
			return o.last
		}
	}
	o.dirty = false
	began := o.Clock.Now()
	view, err := o.Linstor.View(ctx, linstor.ViewOptions{Devices: devices, Resources: copies})
	o.took = o.Clock.Now().Sub(began)
	if err != nil && o.last.Err != nil && linstor.IsUnreachable(err) && linstor.IsUnreachable(o.last.Err) {
		// Which of the view's requests fails first, and from which port it came, is chance: were it told, the status would
		// be written anew at each look as long as LINSTOR is away.
		err = o.last.Err
	}
	if view != nil {
		o.down = phases.RememberDown(o.down, view, s.Now)
	}
	o.disks.remember(s, view, devices)
	o.last = phases.Linstor{Asked: true, View: view, Err: err, Down: o.down}
	o.lastAt, o.devices = s.Now, devices
	return o.last
}

// minAge keeps a burst of ended writes from asking LINSTOR for all of its nodes after each one: it is looked at for a tenth of the
// time, and no less often than a quarter of the poll.
func (o *Observer) minAge() time.Duration { return min(10*o.took, o.Timing.PollWorking/4) }

// Due is how long the next look at LINSTOR is off, because a write has ended since the last one or while it was taken; for ever
// if none has.
func (o *Observer) Due() time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.dirty || o.lastAt.IsZero() {
		return math.MaxInt64
	}
	return o.lastAt.Add(o.minAge()).Sub(o.Clock.Now())
}

func (o *Observer) maxAge(s *phases.Snapshot) time.Duration {
	poll := o.Timing.PollWorking
	switch s.Phase() {
	case v1alpha1.PhaseReady, v1alpha1.PhaseDegraded, v1alpha1.PhaseHumanIntervention:
		if !phases.Unfinished(&s.Cluster.Status) && !s.Rolling() {
			poll = o.Timing.PollSteady
		}
	default: // something is being done
	}
	return poll * 9 / 10
}

// missesPools is whether empty disks matter now: not every pool is there. A look at all disks makes each satellite run
// lsblk, which a cluster at rest need not.
func missesPools(s *phases.Snapshot) bool {
	p := s.Cluster.Status.Pools
	if s.Phase() != v1alpha1.PhaseReady {
		return true
	}
	return p.Ready < p.Wanted || int(s.Cluster.Status.Nodes.Online) < len(s.Kube.Nodes) && s.Cluster.Status.Nodes.Online < s.Cluster.Status.Nodes.Members
}

// database looks into the database while there is no claim. Once it is claimed, LINSTOR itself is the judge.
func (o *Observer) database(ctx context.Context, s *phases.Snapshot) phases.Database {
	if s.Target == nil {
		return phases.Database{}
	}
	if _, claimed, err := s.Claim(); claimed || err != nil {
		return phases.Database{}
	}
	access, err := s.DatabaseAccess()
	if err != nil {
		return phases.Database{Checked: true, Err: err}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	key := resources.DatabaseURL(&s.Target.Spec.Database) + access.User
	if o.probed == key && s.Now.Sub(o.probeAt) < o.Timing.PollWorking {
		return o.probe
	}
	nodes, err := o.Prober.Nodes(ctx, &s.Target.Spec.Database, access)
	o.probe = phases.Database{Checked: true, Err: err, Nodes: nodes}
	o.probed, o.probeAt = key, s.Now
	return o.probe
}
