// Package pace decides when the operator looks again. It answers four questions: may a reconcile start now
// (Steps.Start), when is the next one (Steps.Next, BackOff), may a status wait that differs in tallies alone
// (Steps.TalliesWait), and how old may the view of LINSTOR be (Looks.Serve, Rare).
//
// This is every wait, with its default. A setting in capital letters is a field of cluster.Timing;
// docs/installation.md lists those that have a flag. Others are constants, of this package unless another one is
// named.
//
//	wait                            how long              setting             why
//	next step, after a move         10ms                  again               what follows can begin at once
//	next step, after a wait         as the handler says   step.Wait           sooner if tallies or LINSTOR are due
//	next step, after a hold         2s                    PollWorking         its cause may be gone
//	next step, after a lost race    100ms                 pace.LostRace       the next read shows who won
//	next step, after a failure      5ms, doubled to 15s   PollSteady          no event says that an outage is over
//	next step, seeing nothing       15s                   PollSteady          only a change from outside helps
//	next step, unknown phase        1m                    Safety              only another operator knows it
//	rest from a slow step           9 times it, to 500ms  PollWorking         steps take a tenth of the time
//	cache behind the last write     50ms each, 2s in all  cacheLag            an old object would repeat the last step
//	tallies alone have changed      2s from the last      PollWorking         a thousand pods change them all the time
//	look at LINSTOR, under way      2s                    PollWorking         the next step waits for what it shows
//	look at LINSTOR, at rest        15s                   PollSteady          trouble must be seen soon
//	look at LINSTOR, after a write  10 looks, to 500ms    PollWorking         looks take a tenth of the time
//	look at all copies or disks     1m                    Safety              long lists; lsblk on every satellite
//	look for optional APIs          1m                    Safety              they come with definitions of others
//	the same, after no answer       15s                   PollSteady          trouble with the API server is short
//	look at monitors and rules      15s                   PollSteady          nobody waits for them
//	look at members of etcd         2s, 15s at rest     PollWorking         sooner if nodes, pods or notes have changed
//	step of etcd without effect     10m                 Deadlines           that of Database: then it is stuck
//	member of etcd that is away     1h                  NodeGone            then a human is asked
//	look into unclaimed database    2s                    PollWorking         it may come, or be emptied
//	progress of a working phase     as pkg/fsm says       Deadlines           then a human is asked
//	the same, losing races          1m longer             racesEnd            phases: the next look decides anew
//	last nodes of a phase           2m                    Straggler           they are listed, and the phase goes on
//	trouble before Degraded         30s                   HealthLost          a restart is no alarm
//	satellites connected anew       30s                   HealthLost          LINSTOR has just begun to answer
//	no trouble before Ready         1m                    HealthRegained      what comes and goes is not well
//	node that has just joined       15m                   Join                it is no trouble yet
//	controller or database away     15m                   Escalate            then a human is asked
//	DRBD on another interface       30s                   LinkSettled         its connections are not judged yet
//	node beside a driver that runs  1m30s                 DriverLearns        the driver does not know the node yet
//	satellite that has stopped      3s                    LossNoticed         LINSTOR still calls it ONLINE
//	controller that may hang        6m, doubled to 2h     restLongest         phases/satellites: a restart may not help
//	taint before a node leaves      10m                   TaintLasts          most taints go away by themselves
//	node before it leaves           30s                   Leave               one edit removes nodes one by one
//	evacuation that has not begun   10m                   EvacuationAnswer    the request may be lost, and is repeated
//	evacuation that stands still    10m                   EvacuationStuck     then a human is asked
//	capacity in the status          5m                    Capacity            it changes all the time
//	pool that LINSTOR refused       10m, doubled to 2h    Repair              each try leaves an error report
//	node without Node object        1h                    NodeGone            then a human is asked whether it is lost
//	nodes that fail together        2m                    MassFailureWindow   then nothing is destroyed
//	number of claim and LINSTOR     1h                    Epoch               two writes, while volumes come and go
//	eviction after a restoration    1h                    restoreAgain        phases/registration: it is meant
//	backup that failed              1m, doubled to 30m    PollSteady          its cause may pass
//	pod that takes a backup         45m                   longest             databasebackup: its node may be dead
//	backup before an upgrade        1h                    freshFor            databasebackup: an older one lacks much
//	pod that does not end           1m over its time      endGrace            phases/controller: its node may be dead
//	question before destruction     3s                    confirmWithin       phases/step: what was seen must be young
//	reason why a node is OFFLINE    15s                   toldFor             cluster: LINSTOR forgets it every 10s
//	run of a task                   2m                    package work        others wait for its place
//	task that failed                1s, doubled to 5m     work.Options        --retry-base and --retry-max
//	request to LINSTOR              10s, writes 60s       package restclient  its answer may be lost
//	look into a database            5s                    package database    LINSTOR could not use it either
//	lease of a leader               15s                   operator.Options    --lease-duration: it may have died
package pace

import (
	"math"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
)

const (
	// again is when the next step follows one that moved the machine.
	again = 10 * time.Millisecond
	// LostRace is when the next step follows one whose write was refused because the object had changed.
	LostRace = 100 * time.Millisecond
	// firstRetry is when the next step follows one that failed. Each further failure doubles it.
	firstRetry = 5 * time.Millisecond
	// cacheRetry is how often a cache that is behind the last write is read again, and cacheLag bounds that in all: the
	// optimistic lock of the patch protects afterwards.
	cacheRetry, cacheLag = 50 * time.Millisecond, 2 * time.Second
	// Never is how long off is what nothing has made due.
	Never = time.Duration(math.MaxInt64)
)

// Poll is how often LINSTOR is looked at: more often while the next step waits for what it does.
func Poll(t cluster.Timing, underWay bool) time.Duration {
	if underWay {
		return t.PollWorking
	}
	return t.PollSteady
}

// pause is how long something rests that took its time. That grows with the time it took, so that a tenth of the time
// is spent on it; what comes one by one is followed without delay.
func pause(t cluster.Timing, long time.Duration) time.Duration { return min(long, t.PollWorking/4) }

// BackOff is how long a failed reconcile waits. controller-runtime's own back-off grows to a quarter of an hour
// (v0.25), and nothing wakes the operator when the API server is well again: its watches go on where they were,
// without an event. A cluster that waits for that stays as it is for longer than the outage was.
func BackOff(t cluster.Timing) workqueue.TypedRateLimiter[reconcile.Request] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, t.PollSteady)
}

// Steps paces the reconciles. The steps of one Reconciler never overlap, so that nothing guards it.
type Steps struct {
	Timing cluster.Timing
	Clock  clock.PassiveClock

	// began is when the last step began, rests until when none may follow it, and status when the status was written.
	began, rests, status time.Time
	// behind is what the cache may still have: the versions of an object that are older than the one that its last write
	// made, and until when. Deciding on one of them would repeat the last step.
	behind struct {
		uid      types.UID
		versions []string
		made     string
		until    time.Time
	}
}

// Start is how long a step must wait that is given the object as the cache has it; 0 if it may start now. What only
// puts the finalizer on the object does not wait for the rest from another step.
func (s *Steps) Start(c *v1alpha1.StorageCluster) time.Duration {
	s.began = s.Clock.Now()
	switch b := s.behind; {
	case c.UID == b.uid && s.began.Before(b.until) &&
		(slices.Contains(b.versions, c.ResourceVersion) || older(c.ResourceVersion, b.made)):
		return cacheRetry
	case !slices.Contains(c.Finalizers, v1alpha1.Finalizer):
		return 0
	default:
		return max(0, s.rests.Sub(s.began))
	}
}

// Ended notes the end of a step, and when the next one is wanted. One that moved the machine is not rested from.
func (s *Steps) Ended(next time.Duration, err error) {
	s.rests = time.Time{}
	if end := s.Clock.Now(); err == nil && next > again {
		s.rests = end.Add(pause(s.Timing, 9*end.Sub(s.began)))
	}
}

// Wrote notes a write of the object, with the version that it made: the next step waits until the cache has that one.
// Others may have written since the object was read, and what they wrote was never seen. Where versions are no numbers
// it waits until the cache is past the version that was read.
func (s *Steps) Wrote(c *v1alpha1.StorageCluster, made string) {
	b := &s.behind
	b.uid, b.versions, b.made = c.UID, []string{c.ResourceVersion}, made
	b.until = s.Clock.Now().Add(cacheLag)
}

// WroteTwice notes that the last write has followed another one in the same step, which began with this object.
func (s *Steps) WroteTwice(c *v1alpha1.StorageCluster) {
	s.behind.versions = append(s.behind.versions, c.ResourceVersion)
}

// older reports whether a version is known to be before another one: that of a custom resource is a number
// (Kubernetes 1.35, API concepts, "Resource versions").
func older(version, than string) bool {
	a, errA := strconv.ParseUint(version, 10, 64)
	b, errB := strconv.ParseUint(than, 10, 64)
	return errA == nil && errB == nil && a < b
}

// Forget ends the wait for the cache, because the object goes.
func (s *Steps) Forget() { s.behind.versions, s.behind.made = nil, "" }

// WroteStatus is Wrote for a write of the status.
func (s *Steps) WroteStatus(c *v1alpha1.StorageCluster, made string) {
	s.Wrote(c, made)
	s.status = s.Clock.Now()
}

// TalliesWait is how long a status is kept back that differs in tallies alone; 0 if it may be written now.
func (s *Steps) TalliesWait() time.Duration {
	return max(0, s.status.Add(s.Timing.PollWorking).Sub(s.Clock.Now()))
}

// Next is when the next step follows one that did not fail, given when tallies and the next look at LINSTOR are due.
func (s *Steps) Next(o step.Outcome, tallies, look time.Duration) time.Duration {
	switch o.Kind {
	case step.KindWait:
		return max(min(o.After, tallies, look), again+1)
	case step.KindHold:
		return min(s.Timing.PollWorking, tallies)
	default:
		return again
	}
}

// Looks paces the looks at LINSTOR. The observer guards it. The zero value makes the next snapshot look.
type Looks struct {
	// At is the time of the snapshot that the last look was for, and Took how long it took.
	At   time.Time
	Took time.Duration
	// Dirty is set when a write to LINSTOR has ended since the last look, or while it was taken.
	Dirty bool
}

// Serve reports whether what was seen last is young enough. A burst of ended writes must not list all nodes of LINSTOR
// after each one. When a poll is over, what was seen before is too old, even if the timer was a little early.
func (l *Looks) Serve(t cluster.Timing, now time.Time, underWay func() bool) bool {
	age := now.Sub(l.At)
	return !l.At.IsZero() && (age < pause(t, 10*l.Took) || !l.Dirty && age < Poll(t, underWay())*9/10)
}

// Due is how long the next look is off that a write has made due; Never if none has.
func (l *Looks) Due(t cluster.Timing, now time.Time) time.Duration {
	if !l.Dirty || l.At.IsZero() {
		return Never
	}
	return l.At.Add(pause(t, 10*l.Took)).Sub(now)
}

// Rare reports whether it is time again for a look that costs much: at all copies of volumes, whose list grows with
// them, or at all disks, for which each satellite runs lsblk.
func Rare(t cluster.Timing, last, now time.Time) bool { return now.Sub(last) >= t.Safety }
