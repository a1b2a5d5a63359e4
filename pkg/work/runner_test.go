package work

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestEnsureStartsNothingWithoutLeadership(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRunner(Options{})
		started := false
		task := Task{Key: "a", Do: func(context.Context) error { started = true; return nil }}
		if got := r.Ensure(task); got != (State{}) {
			t.Errorf("Ensure before Run = %+v, want nothing", got)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- r.Start(ctx) }()
		synctest.Wait()
		if started {
			t.Error("a task from before Run was started")
		}
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Start: %v", err)
		}
		r.Ensure(task)
		synctest.Wait()
		if started {
			t.Error("a task from after Run was started")
		}
	})
}

func TestWhatATaskKnewIsLetGoAfterItsRun(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, r *Runner) {
		known := func() weak.Pointer[[1 << 10]byte] {
			snapshot := new([1 << 10]byte)
			r.Ensure(Task{Key: "a", Do: func(context.Context) error { return fmt.Errorf("%w: %d", errBroken, snapshot[0]) }})
			return weak.Make(snapshot)
		}()
		synctest.Wait()
		runtime.GC()
		if r.State("a").Err == nil || known.Value() != nil {
			t.Errorf("after %v it is kept: %t", r.State("a").Err, known.Value() != nil)
		}
	})
}

func TestRunTwice(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, r *Runner) {
		if err := r.Start(t.Context()); err == nil {
			t.Error("a second Run at the same time succeeded")
		}
	})
}

func TestStateAfterEachOutcome(t *testing.T) {
	inBubble(t, Options{Base: time.Second}, func(t *testing.T, r *Runner) {
		release := make(chan error)
		do := func(context.Context) error { return <-release }
		if got := r.Ensure(Task{Key: "a", Do: do}); !got.Running || got.Queued {
			t.Errorf("after Ensure: %+v, want it running", got)
		}
		release <- errBroken
		synctest.Wait()
		failedAt := time.Now()
		want := State{Err: errBroken, FailedAt: failedAt, Attempts: 1, Refusals: 1, NextTry: failedAt.Add(time.Second)}
		if diff := cmp.Diff(want, r.State("a"), cmpopts.EquateErrors()); diff != "" {
			t.Errorf("after a failure (-want +got):\n%s", diff)
		}
		if got := r.Errors(); len(got) != 1 || !errors.Is(got["a"], errBroken) {
			t.Errorf("Errors = %v", got)
		}

		sleep(time.Second)
		r.Ensure(Task{Key: "a", Do: do})
		release <- nil
		synctest.Wait()
		if diff := cmp.Diff(State{DoneAt: time.Now()}, r.State("a")); diff != "" {
			t.Errorf("after a success (-want +got):\n%s", diff)
		}
		if got := r.Errors(); len(got) != 0 {
			t.Errorf("Errors after a success = %v", got)
		}

		// A key that succeeded is wanted again: whoever ensures has looked and found something missing.
		if got := r.Ensure(Task{Key: "a", Do: succeed}); !got.Running {
			t.Errorf("after a success and Ensure: %+v, want it running", got)
		}
		synctest.Wait()
	})
}

func TestBackoff(t *testing.T) {
	inBubble(t, Options{Base: time.Second, Max: 5 * time.Second}, func(t *testing.T, r *Runner) {
		runs := 0
		ensure := func(input string) {
			r.Ensure(Task{Key: "a", Input: input, Do: func(context.Context) error { runs++; return errBroken }})
			synctest.Wait()
		}
		ensure("x")
		for i, wait := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 5 * time.Second,
			5 * time.Second} {
			if got := time.Until(r.State("a").NextTry); got != wait {
				t.Errorf("wait after failure %d = %v, want %v", i+1, got, wait)
			}
			sleep(wait - time.Nanosecond)
			if ensure("x"); runs != i+1 {
				t.Fatalf("ran again %v after failure %d", wait-time.Nanosecond, i+1)
			}
			sleep(time.Nanosecond)
			if ensure("x"); runs != i+2 {
				t.Fatalf("did not run %v after failure %d", wait, i+1)
			}
		}
		before := runs
		if ensure("y"); runs != before+1 {
			t.Error("a changed input waited")
		}
		if got := r.State("a"); got.Attempts != 1 || time.Until(got.NextTry) != time.Second {
			t.Errorf("a changed input kept the count of failures: %+v", got)
		}
	})
}

// What passes by itself is tried again as well, but is no refusal.
func TestRefusals(t *testing.T) {
	errAway := errors.New("away")
	inBubble(t, Options{Passing: func(err error) bool { return errors.Is(err, errAway) }}, func(t *testing.T, r *Runner) {
		for i, tc := range []struct {
			input string
			err   error
			want  int
		}{
			{"x", errAway, 0},
			{"x", errBroken, 1},
			{"x", errAway, 1},
			{"x", errBroken, 2},
			{"x", nil, 0},
			{"x", errBroken, 1},
			{"y", errAway, 0},
		} {
			sleep(time.Hour)
			r.Ensure(Task{Key: "a", Input: tc.input, Do: func(context.Context) error { return tc.err }})
			synctest.Wait()
			if got := r.State("a").Refusals; got != tc.want {
				t.Errorf("after run %d (%v): %d refusals, want %d", i, tc.err, got, tc.want)
			}
		}
	})
}

func TestEachKeyOnceAndBounded(t *testing.T) {
	const parallel = 3
	inBubble(t, Options{Parallel: parallel}, func(t *testing.T, r *Runner) {
		var running, most atomic.Int32
		var mu sync.Mutex
		var order []string
		ensure := func(key string) {
			r.Ensure(Task{Key: key, Do: func(context.Context) error {
				most.Store(max(most.Load(), running.Add(1)))
				defer running.Add(-1)
				<-time.After(time.Second)
				mu.Lock()
				defer mu.Unlock()
				order = append(order, key)
				return nil
			}})
		}
		var keys []string
		for i := range 10 {
			keys = append(keys, fmt.Sprintf("k%d", i))
			ensure(keys[i])
			ensure(keys[i])
		}
		if got := r.State("k9"); !got.Queued || got.Running {
			t.Errorf("the last of ten = %+v, want it queued", got)
		}
		sleep(10 * time.Second)
		slices.Sort(order)
		if diff := cmp.Diff(keys, order); diff != "" {
			t.Errorf("runs (-want +got):\n%s", diff)
		}
		if got := most.Load(); got != parallel {
			t.Errorf("at most %d ran at once, want %d", got, parallel)
		}
	})
}

func TestQueuedTaskIsReplaced(t *testing.T) {
	inBubble(t, Options{Parallel: 1}, func(t *testing.T, r *Runner) {
		release := make(chan struct{})
		r.Ensure(Task{Key: "first", Do: func(context.Context) error { <-release; return nil }})
		var ran []string
		for _, input := range []string{"old", "new"} {
			r.Ensure(Task{Key: "second", Input: input,
				Do: func(context.Context) error { ran = append(ran, input); return nil }})
		}
		close(release)
		synctest.Wait()
		if diff := cmp.Diff([]string{"new"}, ran); diff != "" {
			t.Errorf("runs (-want +got):\n%s", diff)
		}
	})
}

func TestTimeout(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, r *Runner) {
		r.Ensure(Task{Key: "a", Do: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }})
		sleep(timeout - time.Nanosecond)
		if !r.State("a").Running {
			t.Error("ended before its time")
		}
		sleep(time.Nanosecond)
		if got := r.State("a"); got.Running || !errors.Is(got.Err, context.DeadlineExceeded) {
			t.Errorf("after the timeout: %+v", got)
		}
	})
}

func TestPanicIsAFailure(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, r *Runner) {
		r.Ensure(Task{Key: "a", Do: func(context.Context) error { panic("boom") }})
		synctest.Wait()
		if got := r.State("a"); got.Running || got.Err == nil || !strings.Contains(got.Err.Error(), "boom") {
			t.Errorf("after a panic: %+v", got)
		}
	})
}

func TestForget(t *testing.T) {
	inBubble(t, Options{Parallel: 1}, func(t *testing.T, r *Runner) {
		release := make(chan error)
		starts := map[string]int{}
		ensure := func(key string) State {
			return r.Ensure(Task{Key: key, Do: func(context.Context) error { starts[key]++; return <-release }})
		}
		ensure("node/n1/register")
		ensure("node/n1/pool")
		ensure("node/n2/register")
		synctest.Wait()
		r.Forget("node/n1/")
		if got := r.State("node/n1/register"); got != (State{Running: true}) {
			t.Errorf("a forgotten key that runs = %+v, want the run alone", got)
		}
		if got := ensure("node/n1/register"); !got.Running {
			t.Errorf("Ensure of a forgotten key that still runs = %+v, want the run", got)
		}
		synctest.Wait()
		release <- errBroken // node/n1/register
		release <- nil       // node/n2/register
		synctest.Wait()
		want := map[string]int{"node/n1/register": 1, "node/n2/register": 1}
		if diff := cmp.Diff(want, starts); diff != "" {
			t.Errorf("starts (-want +got):\n%s", diff)
		}
		if got := r.Errors(); len(got) != 0 {
			t.Errorf("the outcome of a forgotten key was kept: %v", got)
		}
		ensure("node/n1/register")
		release <- nil
		synctest.Wait()
		if starts["node/n1/register"] != 2 {
			t.Error("a forgotten key did not start again")
		}
		synctest.Wait()
		if r.State("node/n1/register").DoneAt.IsZero() {
			t.Error("a key that started again stayed forgotten")
		}
	})
}

func TestNotifyAfterEachRun(t *testing.T) {
	var notified atomic.Int32
	inBubble(t, Options{Notify: func() { notified.Add(1) }}, func(t *testing.T, r *Runner) {
		r.Ensure(Task{Key: "a", Do: succeed})
		r.Ensure(Task{Key: "b", Do: func(context.Context) error { return errBroken }})
		synctest.Wait()
		if got := notified.Load(); got != 2 {
			t.Errorf("notified %d times, want 2", got)
		}
	})
}

func TestEndOfLeadership(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRunner(Options{Parallel: 1})
		ctx, cancel := context.WithCancel(t.Context())
		returned := make(chan error, 1)
		go func() { returned <- r.Start(ctx) }()
		synctest.Wait()
		release, sawEnd := make(chan struct{}), false
		r.Ensure(Task{Key: "runs", Do: func(ctx context.Context) error {
			<-ctx.Done()
			sawEnd = true
			<-release
			return ctx.Err()
		}})
		waited := false
		r.Ensure(Task{Key: "waits", Do: func(context.Context) error { waited = true; return nil }})
		cancel()
		synctest.Wait()
		if !sawEnd {
			t.Error("the running task was not told")
		}
		select {
		case err := <-returned:
			t.Fatalf("Run returned before its task ended: %v", err)
		default:
		}
		r.Ensure(Task{Key: "late", Do: func(context.Context) error { waited = true; return nil }})
		close(release)
		if err := <-returned; err != nil {
			t.Errorf("Start: %v", err)
		}
		if waited || r.State("waits").Queued || r.State("late").Queued {
			t.Error("a task was started after the leadership")
		}
		if got := r.State("runs"); got.Running || got.Err != nil {
			t.Errorf("the end of leadership counted as a failure: %+v", got)
		}
	})
}

func TestQuiesce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRunner(Options{Parallel: 1})
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go func() { _ = r.Start(ctx) }()
		synctest.Wait()
		release := make(chan struct{})
		var done []string
		task := func(key string) Task {
			return Task{Key: key, Do: func(context.Context) error {
				if key == "a/1" {
					<-release
				}
				done = append(done, key)
				return nil
			}}
		}
		for _, key := range []string{"a/1", "a/2", "b/1"} {
			r.Ensure(task(key))
		}
		synctest.Wait()
		if n := r.Quiesce("b/"); n != 1 {
			t.Errorf("%d tasks run, want 1", n)
		}
		close(release)
		synctest.Wait()
		if n := r.Quiesce("b/"); n != 0 {
			t.Errorf("%d tasks run after their end", n)
		}
		if got := strings.Join(done, " "); got != "a/1 b/1" {
			t.Errorf("done: %s", got)
		}
	})
}
