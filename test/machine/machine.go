// Package machine tells tests how slow the machine is just now, so that no deadline expires because of that.
//
// Tests wait in machine time: a clock that runs like any other on two processors that run this project's tests and
// nothing else, and n times slower on a machine that is n times slower or busier. A deadline in machine time expires
// because something does not happen, and not because the machine was busy. A fixed amount of work, done every other
// second, shows how slow the machine is.
package machine

import (
	"context"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// probeEvery is how often the work is done, and probeWork how many steps it has: a hundredth of a processor.
	probeEvery = 2 * time.Second
	probeWork  = 10_000_000
	// usualProbe is what the work takes where machine time runs as fast as any other one: six times as long as on a
	// processor that does nothing else, because the tests keep all of them busy.
	usualProbe = 90 * time.Millisecond
	// looks is how many probes decide: their median, because the tests come in bursts and one probe says little.
	looks = 15
	// slowest bounds the result: a test that waits in vain must end within the time that all tests have.
	slowest = 10
)

// machine is the clock of this process. It runs from its first use on.
var machine = newClock(time.Now, work)

// clock counts machine time.
type clock struct {
	now   func() time.Time
	work  func()
	began time.Time

	mu       sync.Mutex
	took     []time.Duration // by the last probes, the newest at the end
	slowness float64         // since the last probe, at least 1
	elapsed  time.Duration   // machine time until the last probe
	probed   time.Time       // when that was
}

func newClock(now func() time.Time, work func()) *clock {
	return &clock{now: now, work: work, began: now(), slowness: 1, probed: now()}
}

// work is what probeWork says.
func work() {
	x := uint64(1)
	for range probeWork {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	if x == 0 { // never: without a use of x there would be no work
		panic("xorshift is 0")
	}
}

// start probes once, and from then on until the process ends.
func (c *clock) start() {
	c.probe()
	go func() {
		for range time.Tick(probeEvery) {
			c.probe()
		}
	}()
}

// probe does the work once.
func (c *clock) probe() {
	began := c.now()
	c.work()
	ended := c.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.elapsed += c.since(ended)
	c.probed = ended
	c.took = append(c.took[max(0, len(c.took)-looks+1):], ended.Sub(began))
	median := slices.Sorted(slices.Values(c.took))[len(c.took)/2]
	c.slowness = min(slowest, max(1, float64(median)/float64(usualProbe)))
}

// since is the machine time from the last probe until now. A probe that is overdue means that this process stood
// still: that time does not count. The mutex is held.
func (c *clock) since(now time.Time) time.Duration {
	return time.Duration(float64(min(now.Sub(c.probed), 2*probeEvery)) / c.slowness)
}

// read is the machine time since the clock was made, and how slow the machine is now: 1 for one that is not.
func (c *clock) read() (elapsed time.Duration, slowness float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.elapsed + c.since(c.now()), c.slowness
}

var startOnce = sync.OnceFunc(machine.start)

func read() (elapsed time.Duration, slowness float64) {
	startOnce()
	return machine.read()
}

// Slow is a duration as it must be on this machine just now, if it is that on two processors with nothing else to do.
// It is for times that the operator or a server is given. What a test itself waits for is in machine time anyway.
func Slow(d time.Duration) time.Duration {
	return time.Duration(float64(d) * Slowness())
}

// Slowness is by what Slow multiplies just now.
func Slowness() float64 {
	_, slowness := read()
	return slowness
}

// Average is the slowness on average since machine time began to run.
func Average() float64 {
	began := machine.began
	elapsed, _ := read()
	return max(1, float64(time.Since(began))/float64(max(elapsed, 1)))
}

// Now is a time that runs as machine time does, for code that takes a clock. It is not the time of day.
func Now() time.Time {
	elapsed, _ := read()
	return time.Unix(0, 0).Add(elapsed)
}

// Stopwatch measures machine time.
type Stopwatch struct{ began time.Duration }

// StartStopwatch starts one.
func StartStopwatch() Stopwatch {
	began, _ := read()
	return Stopwatch{began}
}

// Elapsed is the machine time since the start.
func (s Stopwatch) Elapsed() time.Duration {
	now, _ := read()
	return now - s.began
}

// After returns a channel that gets the time once d of machine time has passed.
func After(d time.Duration) <-chan time.Time {
	out := make(chan time.Time, 1)
	go func() {
		sleep(nil, d)
		out <- time.Now()
	}()
	return out
}

// sleep returns true after d of machine time, false as soon as done is closed.
func sleep(done <-chan struct{}, d time.Duration) bool {
	watch := StartStopwatch()
	for left := d; left > 0; left = d - watch.Elapsed() {
		select {
		case <-time.After(min(left, probeEvery)):
		case <-done:
			return false
		}
	}
	return true
}

// WithTimeout is [context.WithTimeout] in machine time.
func WithTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		if sleep(ctx.Done(), d) {
			cancel(context.DeadlineExceeded)
		}
	}()
	return ctx, func() { cancel(context.Canceled) }
}

// Poll looks whether a condition holds, at once and then every so often, for d of machine time at most.
func Poll(ctx context.Context, every, d time.Duration, condition wait.ConditionWithContextFunc) error {
	ctx, cancel := WithTimeout(ctx, d)
	defer cancel()
	return wait.PollUntilContextCancel(ctx, every, true, condition)
}
