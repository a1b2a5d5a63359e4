package harness

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/test/machine"
)

// Waiter waits for a test, and ends the test when it waited in vain.
type Waiter struct {
	// T is the test.
	T testing.TB
	// Patience is how long Eventually waits, in machine time; see [machine.Slow].
	Patience time.Duration
	// Slowness is how slow the machine was when durations were given to the operator, see [machine.Slow]: it keeps to
	// them, and Eventually waits as much longer, even if the machine has become faster since.
	Slowness float64
	// Passes returns how many passes the running operator has made; -1 while none runs. nil where that is not known.
	Passes func() int
	// Next returns a channel that is closed when the next version of the StorageCluster is seen; nil where nobody
	// watches it, so that the functions that wait for its status poll.
	Next func() <-chan struct{}
}

// often and seldom are how long Eventually pauses between its first looks, and between later ones. Looks of all who
// wait, each taken twenty times a second for as long as it takes, would be a tenth of what the API server has to do.
const (
	often  = 50 * time.Millisecond
	seldom = 5 * often
)

// Eventually looks until the condition holds: at each new version of the StorageCluster, and in between.
func (w *Waiter) Eventually(what string, f func() error) {
	w.T.Helper()
	looks := 0
	w.eventually(func() time.Duration {
		looks++
		return min(often*time.Duration(1+looks/5), seldom)
	}, w.Next, what, f)
}

// OnChange is Eventually for a condition that hangs on the StorageCluster alone: without a new version it has no need
// to look, but now and then it does.
func (w *Waiter) OnChange(what string, f func() error) {
	w.T.Helper()
	if w.Next == nil {
		w.Eventually(what, f)
		return
	}
	w.eventually(func() time.Duration { return time.Second }, w.Next, what, f)
}

// EventuallyEvery is Eventually for a look that costs so much that it is not taken all the time.
func (w *Waiter) EventuallyEvery(every time.Duration, what string, f func() error) {
	w.T.Helper()
	w.eventually(func() time.Duration { return every }, nil, what, f)
}

// eventually looks until the condition holds. Between two looks it pauses, but for no longer than until the next
// version comes.
func (w *Waiter) eventually(pause func() time.Duration, next func() <-chan struct{}, what string, f func() error) {
	w.T.Helper()
	watch, least := machine.StartStopwatch(), time.Now().Add(time.Duration(float64(w.Patience)*w.Slowness))
	for {
		var version <-chan struct{}
		if next != nil {
			version = next() // before the look, so that none is missed
		}
		begin := time.Now()
		err := f()
		if err == nil {
			return
		}
		if watch.Elapsed() > w.Patience && time.Now().After(least) {
			w.T.Fatalf("%s: not within %s: %v", what, w.Patience, err)
		}
		select {
		case <-version:
		case <-time.After(Pause(pause(), time.Since(begin))):
		}
	}
}

// Pause is how long to wait after a look that took so long, and at least. Where the machine is busy, looks take
// longer; they are not to be what keeps it busy.
func Pause(least, took time.Duration) time.Duration { return max(least, 4*took) }

// passEvery is how often an operator makes a pass that has nothing to do, in tests with the timing of [Fast].
const passEvery = 500 * time.Millisecond

// Silence ends once nothing has happened for long enough for the operator to have looked and acted: for a duration,
// and for as many of its passes as a usual machine makes in that time. On a machine on which they take longer it lasts
// longer. An operator that makes no passes, because it has nothing to look at, gets machine time alone.
type Silence struct {
	w      *Waiter
	d      time.Duration
	since  time.Time
	watch  machine.Stopwatch
	passes int
}

// Silence returns one that starts now.
func (w *Waiter) Silence(d time.Duration) *Silence {
	s := &Silence{w: w, d: d}
	s.Broken()
	return s
}

// Broken starts the wait again: something happened.
func (s *Silence) Broken() {
	s.since, s.watch, s.passes = time.Now(), machine.StartStopwatch(), s.made()
}

func (s *Silence) made() int {
	if s.w.Passes == nil {
		return -1
	}
	return s.w.Passes()
}

// Lasts is nil once it was silent for long enough.
func (s *Silence) Lasts() error {
	const most = 4 // times the duration
	quiet, wanted := time.Since(s.since), int(s.d/passEvery)
	made := s.made()
	switch {
	case quiet < s.d:
		return fmt.Errorf("quiet for %s only", quiet)
	case made < 0 && s.passes < 0, made-s.passes >= wanted, s.watch.Elapsed() > most*s.d:
		return nil
	case made < s.passes: // another operator runs since
		s.passes = made
	}
	return fmt.Errorf("quiet for %s and %d of %d passes of the operator", quiet, made-s.passes, wanted)
}

// Quiet waits until look has found nothing new for d, and for the passes that the operator makes in that time. look
// says what is new, which starts the wait again; "" if there is nothing.
func (w *Waiter) Quiet(d time.Duration, what string, look func() string) {
	w.T.Helper()
	s := w.Silence(d)
	w.EventuallyEvery(often, what, func() error {
		if news := look(); news != "" {
			s.Broken()
			return errors.New(news)
		}
		return s.Lasts()
	})
}

// During checks that a condition holds all the time: for d, and for the passes that the operator makes in that time.
func (w *Waiter) During(d time.Duration, what string, f func() error) {
	w.T.Helper()
	s := w.Silence(d)
	tick := time.NewTicker(often)
	defer tick.Stop()
	for {
		begin := time.Now()
		if err := f(); err != nil {
			w.T.Fatalf("%s: %v", what, err)
		}
		if s.Lasts() == nil {
			return
		}
		tick.Reset(Pause(often, time.Since(begin)))
		<-tick.C
	}
}

// onCluster waits for a condition of the StorageCluster, and returns the version that it holds of. The first version
// comes from the API server, so that the test's own writes are in it. The later ones come from the watch: to read each
// of them once more was a tenth of what the API server had to do.
func onCluster(a *Administrator, what string, f func(*v1alpha1.StorageCluster) error) *v1alpha1.StorageCluster {
	a.T.Helper()
	var c *v1alpha1.StorageCluster
	a.OnChange(what, func() error {
		if next := after(a, c); next != nil {
			c = next
		} else {
			c = a.Get()
		}
		return f(c)
	})
	return c
}

// after returns what the watch brought after this version; nil if there is nothing, or no version to compare with.
func after(a *Administrator, c *v1alpha1.StorageCluster) *v1alpha1.StorageCluster {
	if c == nil || a.Last == nil {
		return nil
	}
	last := a.Last()
	if last == nil {
		return nil
	}
	order, err := resourceversion.CompareResourceVersion(last.ResourceVersion, c.ResourceVersion)
	if err != nil || order <= 0 {
		return nil
	}
	return last
}

// WaitPhase waits for a phase.
func (a *Administrator) WaitPhase(p v1alpha1.Phase) *v1alpha1.StorageCluster {
	a.T.Helper()
	return onCluster(a, "phase "+string(p), func(c *v1alpha1.StorageCluster) error {
		if c.Status.Phase != p {
			return fmt.Errorf("phase is %s: %s", c.Status.Phase, c.Status.Message)
		}
		return nil
	})
}

// WaitHold waits for the cluster's hold of a reason.
func (a *Administrator) WaitHold(r v1alpha1.HoldReason) *v1alpha1.Hold {
	a.T.Helper()
	return onCluster(a, "hold "+string(r), func(c *v1alpha1.StorageCluster) error {
		if hold := c.Status.Hold; hold == nil || hold.Reason != r {
			return fmt.Errorf("phase is %s, hold is %+v: %s", c.Status.Phase, hold, c.Status.Message)
		}
		return nil
	}).Status.Hold
}

// WaitNodeHold waits for a hold of single nodes.
func (a *Administrator) WaitNodeHold(r v1alpha1.HoldReason) *v1alpha1.Hold {
	a.T.Helper()
	var hold *v1alpha1.Hold
	onCluster(a, "node hold "+string(r), func(c *v1alpha1.StorageCluster) error {
		holds := c.Status.NodeHolds
		i := slices.IndexFunc(holds, func(h v1alpha1.Hold) bool { return h.Reason == r })
		if i < 0 {
			return fmt.Errorf("node holds are %+v", holds)
		}
		hold = &holds[i]
		return nil
	})
	return hold
}

// WaitGone waits until the StorageCluster is gone.
func (a *Administrator) WaitGone() {
	a.T.Helper()
	a.OnChange("the StorageCluster is gone", func() error {
		c := &v1alpha1.StorageCluster{}
		err := a.Client().Get(a.Ctx, client.ObjectKey{Name: v1alpha1.ClusterName}, c)
		if err == nil {
			return fmt.Errorf("still there: %s %s", c.Status.Phase, c.Status.Message)
		}
		return client.IgnoreNotFound(err)
	})
}

// WaitStatus waits until the status is as wanted.
func (a *Administrator) WaitStatus(what string,
	ok func(*v1alpha1.StorageClusterStatus) bool) *v1alpha1.StorageCluster {
	a.T.Helper()
	return onCluster(a, what, func(c *v1alpha1.StorageCluster) error {
		if !ok(&c.Status) {
			return fmt.Errorf("phase %s, nodes %+v, pools %s: %s", c.Status.Phase, c.Status.Nodes, c.Status.Pools.Summary,
				c.Status.Message)
		}
		return nil
	})
}

// WaitPools waits until the status counts pools like this: "2/3".
func (a *Administrator) WaitPools(summary string) {
	a.T.Helper()
	a.WaitStatus("pools "+summary, func(s *v1alpha1.StorageClusterStatus) bool { return s.Pools.Summary == summary })
}

// WaitVolumes waits until the status counts so many volumes.
func (a *Administrator) WaitVolumes(total int32) {
	a.T.Helper()
	a.WaitStatus(fmt.Sprintf("%d volumes", total), func(s *v1alpha1.StorageClusterStatus) bool {
		return s.Volumes != nil && s.Volumes.Total == total
	})
}

// WaitConnection waits until LINSTOR has such a connection to the satellite of a node: "ONLINE", "OFFLINE", or "" once
// it does not know the node.
func (a *Administrator) WaitConnection(node, status string) {
	a.T.Helper()
	a.Eventually(fmt.Sprintf("LINSTOR's connection to %s is %q", node, status), func() error {
		if got, _ := a.Sim.World().NodeStatus(node); got != status {
			return fmt.Errorf("it is %q", got)
		}
		return nil
	})
}

// Await waits for a channel to be closed.
func (a *Administrator) Await(what string, ch <-chan struct{}) {
	a.T.Helper()
	select {
	case <-ch:
	case <-machine.After(a.Patience):
		a.T.Fatalf("%s: not within %s; the cluster is %+v", what, a.Patience, a.Get().Status)
	}
}
