// Package work runs slow writes in the background, so that a reconcile never waits for one.
//
// A [Runner] holds keyed tasks. Reconciles call [Runner.Ensure] with the tasks that the last observation calls for, as
// often as they like: a task that is queued, running or backing off is not started again. Nothing is remembered across
// a restart, and nothing needs to be: what is still missing is observed and ensured again.
//
// The runner is a controller-runtime Runnable that needs leadership. Before it runs, and after it ended, Ensure starts
// nothing; when leadership is lost, the contexts of all running tasks end.
package work

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"sync"
	"time"
)

// Options configures a Runner.
type Options struct {
	// Parallel bounds how many tasks run at once. Default 8.
	Parallel int
	// Base is how long a task waits after its first failure; each further failure doubles it up to Max. Defaults 1s, 5m.
	Base, Max time.Duration
	// Passing reports whether an error says nothing of the next try, as when nobody answered. Required.
	Passing func(error) bool
	// Notify is called after each run of a task, from that task's goroutine. It must not block for long; whoever gives it
	// folds calls that come in quick succession. Required.
	Notify func()
}

// Task is a piece of work.
type Task struct {
	// Key names the task; a key runs once at a time.
	Key string
	// Input is a hash of what Do does: with another input a task that is queued is replaced, and one that
	// is backing off starts at once.
	Input string
	// Do does the work. It must be safe to repeat and must end when ctx does.
	Do func(ctx context.Context) error
}

// State is what is known about a key.
type State struct {
	Running, Queued bool
	// DoneAt is the end of the last success, zero if there was none. An observation that began earlier may not show it.
	DoneAt time.Time
	// Err is the last failure; nil after a success.
	Err error
	// FailedAt is the end of the run that Err is of; zero after a success. What failed may have been done all the same,
	// and only an observation that began later shows it.
	FailedAt time.Time
	// Input is that of the last run, and what the counted failures belong to.
	Input string
	// Attempts counts the failures with the current input since the last success.
	Attempts int
	// Refusals counts those of the Attempts whose errors were not Passing.
	Refusals int
	// NextTry is the earliest time at which Ensure starts the failed task again; zero if it did not fail, and while it
	// runs. Nothing happens by itself at that time.
	NextTry time.Time
}

// Runner runs keyed tasks. It is safe for concurrent use.
type Runner struct {
	o Options

	mu      sync.Mutex
	ctx     context.Context //nolint:containedctx // the leadership under which tasks may start; nil: none
	running int
	tasks   map[string]*task
	queue   []*task // in the order of Ensure; entries that are no longer queued are skipped
	wg      sync.WaitGroup
}

// task is a Task with its state. It stays after its run, for the state.
type task struct {
	Task
	state State
	// forgotten: drop it when its run ends.
	forgotten bool
}

// known is what is said about the task. That a forgotten one still runs is not kept back: a satellite that is
// restarted meanwhile would leave half done what the task makes.
func (t *task) known() State {
	switch {
	case t == nil:
		return State{}
	case t.forgotten:
		return State{Running: true}
	default:
		return t.state
	}
}

// timeout bounds each run of a task.
const timeout = 2 * time.Minute

// New returns a runner that waits for Start.
func New(o Options) *Runner {
	if o.Passing == nil || o.Notify == nil {
		panic("work: Passing and Notify are required") // else the first failure would end the process
	}
	o.Parallel = cmp.Or(max(o.Parallel, 0), 8)
	o.Base = cmp.Or(max(o.Base, 0), time.Second)
	o.Max = cmp.Or(max(o.Max, 0), 5*time.Minute)
	return &Runner{o: o, tasks: map[string]*task{}}
}

// NeedLeaderElection makes the manager run the runner on the leader alone.
func (r *Runner) NeedLeaderElection() bool { return true }

// Start lets tasks start until ctx is done, and returns when those that are running have ended. What is queued by then
// is dropped.
func (r *Runner) Start(ctx context.Context) error {
	r.mu.Lock()
	if r.ctx != nil {
		r.mu.Unlock()
		return errors.New("the runner is already running")
	}
	r.ctx = ctx
	r.mu.Unlock()

	<-ctx.Done()

	r.mu.Lock()
	for _, t := range r.queue {
		t.state.Queued = false
	}
	r.queue = nil
	r.mu.Unlock()
	r.wg.Wait()

	r.mu.Lock()
	r.ctx = nil
	r.mu.Unlock()
	return nil
}

// Ensure queues t unless it is queued, running or backing off with the same input, and returns the state after that.
// It never blocks. While the runner does not run, nothing is queued.
func (r *Runner) Ensure(t Task) State {
	r.mu.Lock()
	defer r.mu.Unlock()
	have := r.tasks[t.Key]
	if r.ctx == nil || r.ctx.Err() != nil {
		return have.known()
	}
	if have == nil {
		have = &task{}
		r.tasks[t.Key] = have
	}
	switch {
	case have.state.Running:
		// A changed input is taken up by the next Ensure, with an observation that includes this run.
	case have.state.Queued:
		have.Task = t
	case t.Input == have.state.Input && time.Now().Before(have.state.NextTry):
	default:
		have.Task = t
		have.state.Queued = true
		r.queue = append(r.queue, have)
		r.dispatch()
	}
	return have.known()
}

// State returns what is known about a key; the zero State if nothing is.
func (r *Runner) State(key string) State {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.tasks[key].known()
}

// Forget drops all keys with the prefix. A task that runs is not stopped, and is known to run until it ends; its
// outcome is dropped.
func (r *Runner) Forget(prefix string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, t := range r.tasks {
		if !strings.HasPrefix(key, prefix) {
			continue
		}
		if t.state.Running {
			t.forgotten = true // it keeps its key until it ends, so that the key does not run twice
			continue
		}
		t.state.Queued = false
		delete(r.tasks, key)
	}
}

// Quiesce drops what waits, keys with the prefix aside, and says how many other tasks still run. Nothing that was
// asked for before is done any more once it returns 0.
func (r *Runner) Quiesce(except string) (running int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, t := range r.tasks {
		switch {
		case strings.HasPrefix(key, except):
		case t.state.Running:
			running++
		default:
			t.state.Queued = false
		}
	}
	return running
}

// Errors returns the last failure of every key that has one.
func (r *Runner) Errors() map[string]error {
	r.mu.Lock()
	defer r.mu.Unlock()
	errs := map[string]error{}
	for key, t := range r.tasks {
		if t.state.Err != nil && !t.forgotten {
			errs[key] = t.state.Err
		}
	}
	return errs
}

// dispatch starts queued tasks while there is room. The caller holds the lock.
func (r *Runner) dispatch() {
	for r.running < r.o.Parallel && len(r.queue) > 0 {
		t := r.queue[0]
		r.queue = r.queue[1:]
		if !t.state.Queued {
			continue
		}
		if t.Input != t.state.Input {
			t.state.Input, t.state.Attempts, t.state.Refusals = t.Input, 0, 0
		}
		t.state.Queued, t.state.Running, t.state.NextTry = false, true, time.Time{}
		r.running++
		ctx, do := r.ctx, t.Do
		t.Do = nil // it holds on to all that its reconcile knew, and the state outlives it
		r.wg.Go(func() {
			r.finish(ctx, t, r.run(ctx, do))
			r.o.Notify()
		})
	}
}

// run does one task within its time. A panic is the task's failure, not the operator's end.
func (r *Runner) run(ctx context.Context, do func(context.Context) error) (err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the task panicked: %v\n%s", p, debug.Stack())
		}
	}()
	return do(ctx)
}

// finish records the outcome of a run and starts what waits for its place.
func (r *Runner) finish(ctx context.Context, t *task, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.running--
	t.state.Running = false
	now := time.Now()
	switch {
	case t.forgotten:
		delete(r.tasks, t.Key)
	case err == nil:
		t.state = State{DoneAt: now, Input: t.state.Input}
	case ctx.Err() != nil:
		// Leadership ended during the run: that is not the task's failure.
	default:
		t.state.Err, t.state.FailedAt = err, now
		t.state.Attempts++
		if !r.o.Passing(err) {
			t.state.Refusals++
		}
		t.state.NextTry = now.Add(r.backoff(t.state.Attempts))
	}
	if ctx.Err() == nil {
		r.dispatch()
	}
}

// backoff returns the wait after the n-th failure in a row, n from 1.
func (r *Runner) backoff(n int) time.Duration {
	d := r.o.Base
	for ; n > 1 && d < r.o.Max; n-- {
		d *= 2
	}
	return min(d, r.o.Max)
}
