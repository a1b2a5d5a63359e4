package chaos

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linstor-dev/storagecluster-operator/test/chaosenv"
	"github.com/linstor-dev/storagecluster-operator/test/endstate"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
)

// TestCrash ends the operator at every single write, to Kubernetes and to LINSTOR, of every step of every scenario, in
// three ways: right after the write, with its reply lost, and right before it (in a slow scenario by turns). A new
// operator with empty caches goes on. The end must be the one of the undisturbed run, and nothing may be created or
// deleted more often than there.
func TestCrash(t *testing.T) {
	t.Parallel()
	for i, s := range crashScenarios() {
		every := bounded[s.name]
		switch {
		case full() && s.slow:
			if !chaosenv.Part(t, s.name) {
				continue
			}
			t.Run(s.name+"/turns", func(t *testing.T) {
				t.Parallel()
				crashEverywhere(t, &s, 1, deaths...)
			})
		case full():
			for _, d := range deaths {
				if !chaosenv.Part(t, s.name+"/"+string(d)) {
					continue
				}
				t.Run(s.name+"/"+string(d), func(t *testing.T) {
					t.Parallel()
					own := crashScenarios()[i] // what it remembers of its cluster is not to be another one's
					crashEverywhere(t, &own, 1, d)
				})
			}
		case every > 0:
			t.Run(s.name+"/some", func(t *testing.T) {
				t.Parallel()
				crashEverywhere(t, &s, every, deaths...)
			})
		}
	}
}

// crashScenarios are those of all campaigns and more. Their installation is locked, as it is where nobody says
// otherwise.
func crashScenarios() []scenario {
	lives := scenarios()
	lives[0] = installScenario(harness.NoMode)
	return append(lives, canaryScenario(), snapshotsScenario(), drainScenario(), lostScenario(), doubtScenario(),
		backupScenario(), restoreScenario(), moveScenario(), lockScenario(), bringScenario(), upgradeBackScenario(),
		etcdScenario())
}

// bounded says which scenarios run in every test run, and at which of their writes the operator dies: every n-th, in
// one of the three ways.
var bounded = map[string]int{"install": 6, "members": 5, "resume": 5, "canary": 9, "backup": 9, "move": 9, "lock": 18,
	"bring": 25, "upgrade-back": 12, "etcd": 25}

// together is how many ends an operator comes to in one step of the bounded part: each takes a new operator, but all
// of them together take the step's own time only once.
const together = 8

// maxFailures ends a scenario: after each failure it goes on with a new cluster.
const maxFailures = 8

// end is one that an operator comes to: at this write, in this way.
type end struct {
	number int // of the write in its step, from 0
	point  string
	how    death
}

// name is a test's. Where the way is by turns it is a part of it.
func (d end) name(step string, byTurns bool) string {
	name := fmt.Sprintf("%s_%03d_%s", step, d.number+1, unfriendly.ReplaceAllString(d.point, "_"))
	if byTurns {
		name = string(d.how) + "_" + name
	}
	return name
}

// crashEverywhere goes round a scenario until the operator has been killed at every n-th of its writes, in these ways
// by turns: in the full campaign at one of them in each step, else at several, one after the other.
func crashEverywhere(t *testing.T, s *scenario, every int, by ...death) {
	c := newCircle(t, s)
	atOnce := together
	if full() {
		atOnce = 1
	}
	failures := 0
	for k, more := every/2, true; more; k += every * atOnce {
		more = false
		for i := range s.steps {
			ends := c.ends(i, k, every, atOnce, by)
			if s.steps[i].way || len(ends) == 0 {
				continue
			}
			more = true
			name := ends[0].name(s.steps[i].name, len(by) > 1)
			if n := len(ends) - 1; n > 0 {
				name += fmt.Sprintf("_and_%d_more", n)
			}
			if t.Run(name, func(t *testing.T) { c.crash(t, i, ends) }) {
				continue
			}
			if failures++; failures >= maxFailures {
				t.Fatalf("%d failures: that is enough", failures)
			}
			fresh := newCircle(t, s)
			fresh.points = c.points
			c = fresh
		}
	}
	total := 0
	for i := range s.steps {
		t.Logf("chaos: %s has %d writes: %s", s.steps[i].name, len(c.points[i]), strings.Join(c.points[i], "; "))
		total += len(c.points[i])
	}
	t.Logf("chaos: %s has %d writes in all; the operator ended at %d", s.name, total, c.killed)
}

// ends are those at a step's every n-th write, from the k-th, and at most so many.
func (c *circle) ends(i, k, every, most int, by []death) []end {
	var ends []end
	for ; len(ends) < most && k < len(c.points[i]); k += every {
		ends = append(ends, end{k, c.points[i][k], by[k/every%len(by)]})
	}
	return ends
}

// unfriendly are characters that do not belong into a test's name.
var unfriendly = regexp.MustCompile(`[^A-Za-z0-9.#-]+`)

// circle is a simulated cluster that goes round the steps of a scenario.
type circle struct {
	e    *harness.Env
	s    *scenario
	tap  *tap
	next int // the step that comes next
	// killed is how often an operator came to its end.
	killed int
	// want and points are by step: how it ends undisturbed, and the writes at which the operator is to die.
	want   []outcome
	points [][]string
}

// outcome is how a step ends.
type outcome struct {
	state        string
	made, events map[string]int
}

// rounds is how often a circle goes round undisturbed. In the full campaign the second time is what all others must be
// like: the first one creates what is there afterwards, such as drain guards. In the bounded part it goes round once,
// where the rounds differ in nothing else.
func rounds(s *scenario) int {
	if full() || s.name == "backup" { // its later rounds delete what the first one has left
		return 2
	}
	return 1
}

// newCircle starts a cluster and goes round undisturbed.
func newCircle(t *testing.T, s *scenario) *circle {
	t.Helper()
	c := &circle{e: s.start(t), s: s, tap: &tap{}, want: make([]outcome, len(s.steps)),
		points: make([][]string, len(s.steps))}
	c.tap.begin("", seen)
	c.tap.run(c.e)
	if s.begin != nil {
		s.begin(c.e)
	}
	for range rounds(s) * len(s.steps) {
		i := c.next
		c.play(c.e)
		writes, made, events := c.settled(c.e, &s.steps[i])
		state, err := endstate.Of(c.e.Ctx, c.e.Sim)
		if err != nil {
			t.Fatal(err)
		}
		c.want[i], c.points[i] = outcome{state, made, events}, writes
		c.turn()
	}
	c.e.StopOperator()
	return c
}

// settled waits until nothing is written any more and a step is still done: it may be so for a moment before the last
// satellite is restarted, and then nothing is written while LINSTOR connects to that. A step that is only passed
// through is no longer done at rest.
func (c *circle) settled(e *harness.Env, s *step) (writes []string, made, events map[string]int) {
	e.T.Helper()
	n, quiet, long := -1, e.Silence(1500*time.Millisecond), e.Silence(10*time.Second)
	e.EventuallyEvery(50*time.Millisecond, "the operator comes to rest", func() error {
		writes, made, events = c.tap.ledger()
		if len(writes) != n {
			n = len(writes)
			quiet.Broken()
			long.Broken()
		}
		if s.done(e) != nil {
			return long.Lasts()
		}
		return quiet.Lasts()
	})
	return writes, made, events
}

// play does the next step undisturbed.
func (c *circle) play(e *harness.Env) {
	e.T.Helper()
	c.tap.begin("", seen)
	c.s.steps[c.next].play(e)
}

// turn goes on to the step after the present one.
func (c *circle) turn() {
	if c.next++; c.next == len(c.s.steps) {
		c.next = 0
		if c.s.reset != nil {
			c.s.reset(c.e)
		}
	}
}

// crash kills the operator at writes of a step, one after the other: each time a new one goes on.
func (c *circle) crash(t *testing.T, i int, ends []end) {
	e, outer := c.e, c.e.T
	e.T = t
	defer func() { e.T = outer }()
	c.tap.begin("", seen)
	c.tap.run(e)
	for c.next != i {
		c.play(e)
		c.turn()
	}
	s, before, killed := &c.s.steps[i], len(e.Violations()), c.killed
	c.tap.begin(ends[0].point, ends[0].how)
	s.do(e)
	alive := true
	for n, d := range ends {
		if n > 0 && !c.tap.aim(d.point, d.how) {
			t.Logf("chaos: %s had come before", d.point)
			continue
		}
		if !alive {
			c.tap.run(e)
		}
		if alive = !c.waitDeath(e, s); alive {
			t.Logf("chaos: %s did not come this time", d.point)
			break
		}
		c.killed++
		t.Logf("chaos: the operator came to its end at %s: %s", d.point, d.how)
		injected("crash: " + map[death]string{seen: "after a write", lost: "after a write, reply lost",
			unsent: "before a write"}[d.how])
		c.learn(i)
		e.StopOperator()
	}
	if !alive {
		c.tap.run(e)
	}
	e.Eventually(s.name, func() error { return s.done(e) })
	c.compare(e, i, c.killed-killed)
	for _, v := range e.Violations()[before:] {
		t.Errorf("violation: %s", v)
	}
	e.StopOperator()
	c.turn()
}

// waitDeath waits until the write has come; false if the step is through without it.
func (c *circle) waitDeath(e *harness.Env, s *step) bool {
	e.T.Helper()
	dead, through := false, e.Silence(2*time.Second)
	e.Eventually("the operator dies", func() error {
		select {
		case <-c.tap.died:
			dead = true
			return nil
		default:
		}
		if err := s.done(e); err != nil {
			through.Broken()
			return err
		}
		return through.Lasts()
	})
	if !dead && !c.tap.spare() { // it came right now
		<-c.tap.died
		dead = true
	}
	return dead
}

// learn notes writes that the undisturbed run did not have, in this order or at all.
func (c *circle) learn(i int) {
	writes, _, _ := c.tap.ledger()
	for _, w := range writes {
		if !slices.Contains(c.points[i], w) {
			c.points[i] = append(c.points[i], w)
		}
	}
}

// compare waits for the undisturbed run's end, and checks what was done on the way by operators of which so many came
// to their end.
func (c *circle) compare(e *harness.Env, i, killed int) {
	e.T.Helper()
	want := &c.want[i]
	awaitState(e, want.state)
	_, made, events := c.tap.ledger()
	expected := maps.Clone(want.made)
	if rounds(c.s) == 1 {
		maps.DeleteFunc(expected, func(what string, _ int) bool { // it is there since the first round
			return strings.HasPrefix(what, "create ") && made[what] == 0
		})
	}
	if diff := cmp.Diff(expected, made); diff != "" {
		e.T.Errorf("created and deleted (-want +got):\n%s", diff)
	}
	for _, reason := range slices.Sorted(maps.Keys(events)) {
		// An Event that was told just before an end may be told again, not more.
		if events[reason] > want.events[reason]+2*max(1, killed) {
			e.T.Errorf("%d Events %s, undisturbed %d", events[reason], reason, want.events[reason])
		}
	}
}
