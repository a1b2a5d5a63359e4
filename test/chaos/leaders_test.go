package chaos

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linstor-dev/storagecluster-operator/test/endstate"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
	"github.com/linstor-dev/storagecluster-operator/test/machine"
)

// TestLeaders stops the operator that leads, as a whole, at one of its writes, until another one has taken over and
// has gone on. Then it wakes up: what it had sent may land, and nothing else of it.
func TestLeaders(t *testing.T) {
	eachLife(t, []string{"install", "members"}, func(t *testing.T, s scenario) {
		newReign(t, &s).pauseAll(t)
	})
}

// The writes of a step at which the leader is stopped: every n-th, of which the bounded campaign takes but the first
// ones.
const (
	writesBetween        = 4
	writesBetweenBounded = 17
	boundedPauses        = 2
	mostPauses           = 100 // more than any step has writes for
)

// reign is a simulated cluster that goes round the steps of a scenario, each round with two leaders.
type reign struct {
	e *harness.Env
	s *scenario
	// want is how each step ends with one leader, made what that leader makes in a round.
	want []string
	made map[string]int
	// lease is that of the operators that are to lose it. The others' is longer: the machine may be busy.
	lease time.Duration
}

// newReign starts a cluster and goes round twice: the first time finds things that are there afterwards.
func newReign(t *testing.T, s *scenario) *reign {
	t.Helper()
	r := &reign{e: s.start(t), s: s, want: make([]string, len(s.steps)), lease: 6 * time.Second}
	r.e.Run()
	if s.begin != nil {
		s.begin(r.e)
	}
	for range 2 {
		mark := roundBegins(r.e)
		for i := range s.steps {
			s.steps[i].play(r.e)
			state, err := settledState(r.e)
			if err != nil {
				t.Fatal(err)
			}
			r.want[i] = state
			s.passed(r.e, i)
		}
		r.made = madeSince(r.e, mark)
	}
	return r
}

// settledState is the state once it has stayed the same for a while.
func settledState(e *harness.Env) (state string, err error) {
	e.T.Helper()
	quiet := e.Silence(1500 * time.Millisecond)
	e.EventuallyEvery(lookEvery, "the world comes to rest", func() error {
		var now string
		if now, err = endstate.Of(e.Ctx, e.Sim); now != state {
			state = now
			quiet.Broken()
		}
		return quiet.Lasts()
	})
	return state, err
}

// pauseAll stops leaders at writes of one step after the other. The world is at a step's beginning before and after
// each round.
func (r *reign) pauseAll(t *testing.T) {
	t.Helper()
	for i := range r.s.steps {
		step := &r.s.steps[i]
		for n, more := 0, true; more && n < mostPauses && !step.way; {
			k := n*writesBetween + 1
			if !full() {
				k = n*writesBetweenBounded + writesBetweenBounded/2 + 1
				if n == boundedPauses {
					break
				}
			}
			early := false
			ok := t.Run(fmt.Sprintf("%s/%d", step.name, k), func(t *testing.T) {
				more, early = r.round(r.e.For(t), i, k)
			})
			if !ok {
				t.FailNow() // the world is not where the next round begins
			}
			if early {
				r.lease *= 2 // the machine is busier than that: once more
			} else {
				n++
			}
		}
		step.play(r.e)
		r.s.passed(r.e, i)
	}
}

// round goes once through all steps, beginning with one in which the leader is stopped at its k-th write and another
// one takes over. Every other time the write lands late, right before the first leader goes on; else it lands at once,
// and the first leader goes on after the step that follows. more is false if the step has fewer writes; early reports
// whether the first leader lost its Lease before it came to the write.
func (r *reign) round(e *harness.Env, step, k int) (more, early bool) {
	e.T.Helper()
	r.e.StopOperator() // the one that led in the round before
	mark, before := roundBegins(e), len(e.Violations())
	play := func(i int) {
		r.s.steps[i%len(r.s.steps)].play(e)
		r.ends(e, i)
	}
	late, next := k%2 == 0, step+1
	p := startProcess(e, r.lease)
	p.arm(k, late)
	r.s.steps[step].do(e)
	paused := p.pausedBefore(func() error { return r.s.steps[step].done(e) })
	early = closed(p.exited)
	if paused {
		e.T.Log(p)
		injected("leader paused")
	} else {
		p.end()
	}
	r.e.Run()
	e.Eventually(r.s.steps[step].name+", with another leader", func() error { return r.s.steps[step].done(e) })
	if paused && late {
		p.resume()
	}
	r.ends(e, step)
	if paused && !late {
		if len(r.s.steps) > 1 {
			play(next)
			next++
		}
		p.resume()
	}
	for ; next < step+len(r.s.steps); next++ {
		play(next)
	}
	if diff := cmp.Diff(r.made, madeSince(e, mark)); diff != "" {
		e.T.Errorf("what was made by two leaders, and by one (-): %s\nwhen it went on, the first one sent %q", diff,
			p.sentLater())
	}
	for _, v := range e.Violations()[before:] {
		e.T.Errorf("violation: %s", v)
	}
	return paused || early, early
}

// ends waits until the world is as one leader leaves it after a step.
func (r *reign) ends(e *harness.Env, i int) {
	e.T.Helper()
	i %= len(r.s.steps)
	awaitState(e, r.want[i])
	r.s.passed(e, i)
}

// passed takes away what the last step leaves, after it.
func (s *scenario) passed(e *harness.Env, step int) {
	e.T.Helper()
	if step == len(s.steps)-1 && s.reset != nil {
		s.reset(e)
	}
}

// pausedBefore waits until the process is stopped; false if the step ends before, or the process, which loses its
// Lease where the machine is too busy.
func (p *process) pausedBefore(done func() error) bool {
	p.e.T.Helper()
	late := machine.After(p.e.Patience)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-p.paused:
			return true
		case <-p.exited:
			p.e.T.Logf("it ended before its write came: %v", p.fault)
			return false
		case <-late:
			p.e.T.Fatalf("the step did not end: %v", done())
		case <-tick.C:
			if done() == nil && !closed(p.reached) {
				return false
			}
		}
	}
}
