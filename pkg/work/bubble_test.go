package work

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// newRunner returns a runner whose errors are all refusals and that notifies nobody, unless the options say otherwise.
func newRunner(o Options) *Runner {
	if o.Passing == nil {
		o.Passing = func(error) bool { return false }
	}
	if o.Notify == nil {
		o.Notify = func() {}
	}
	return New(o)
}

// inBubble runs f with a runner that runs, on fake time.
func inBubble(t *testing.T, o Options, f func(t *testing.T, r *Runner)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := newRunner(o)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- r.Start(ctx) }()
		synctest.Wait()
		f(t, r)
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Start: %v", err)
		}
	})
}

// sleep passes fake time.
func sleep(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func succeed(context.Context) error { return nil }

var errBroken = errors.New("broken")
