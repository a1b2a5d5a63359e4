package chaos

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	refusals "github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
	"github.com/linstor-dev/storagecluster-operator/test/machine"
)

// course is a scenario on a cluster of its own, with what it comes to when nothing is broken.
type course struct {
	scenario
	*harness.Env
	wire *wire
	want []landing // by step
}

// landing is where a step ends.
type landing struct {
	picture picture
	// made counts what LINSTOR was told to create, and did.
	made map[string]int
	// asked is what a human was asked for.
	asked []string
	// calls are the calls to LINSTOR that the step needs.
	calls []string
}

// embark brings a scenario's cluster up, with a network to LINSTOR that can do harm, and goes through it once with
// nothing broken.
func embark(t *testing.T, s scenario) *course {
	t.Helper()
	c := &course{scenario: s, Env: s.start(t)}
	c.wire = &wire{world: c.Sim.World()}
	c.Transport = c.wire
	c.Lease = longLease
	c.Timing.Escalate = time.Minute // calls that go wrong one after the other are no outage
	c.wire.begin(nil, false)
	c.Run()
	c.learn()
	return c
}

// longLease lets an operator keep its lead on a machine with much else to do. Losing it is another campaign.
const longLease = 5 * time.Minute

// learn goes through the scenario once with nothing broken, while an operator runs.
func (c *course) learn() {
	c.T.Helper()
	if c.begin != nil {
		c.begin(c.Env)
	}
	for i := range c.steps {
		c.wire.begin(nil, false)
		before := c.depart()
		c.steps[i].play(c.Env)
		c.want = append(c.want, landing{picture: c.settle(), made: c.made(), asked: c.asked(before), calls: c.wire.seen()})
	}
	c.rewind()
}

// depart begins a step: what is counted is counted from here, the phases from those that were before.
func (c *course) depart() (before []v1alpha1.Transition) {
	c.Sim.World().ResetRequests()
	return steps(c.Env)
}

func (c *course) rewind() {
	if c.reset != nil {
		c.reset(c.Env)
	}
}

// restTime is longer than anything that the operator and LINSTOR wait for between two steps of their work.
const restTime = 4 * time.Second

// settle is the picture once it stays as it is.
func (c *course) settle() picture {
	c.T.Helper()
	last := look(c.Env)
	quiet := c.Silence(restTime)
	c.EventuallyEvery(lookEvery, "all is at rest", func() error {
		now := look(c.Env)
		if diff := cmp.Diff(last, now); diff != "" {
			last = now
			quiet.Broken()
			return errors.New(diff)
		}
		return quiet.Lasts()
	})
	return last
}

// made counts what LINSTOR created since the step began.
func (c *course) made() map[string]int {
	made := map[string]int{}
	for _, w := range c.Sim.World().Writes() {
		var body struct {
			Name   string `json:"name"`
			Pool   string `json:"storage_pool_name"`
			Backed string `json:"pool_name"`
		}
		if w.Method == http.MethodPost && w.Status == http.StatusCreated && w.Path != "/v1/controller/properties" &&
			json.Unmarshal(w.Body, &body) == nil {
			made[strings.TrimSpace(w.Path+" "+body.Name+body.Pool+body.Backed)]++
		}
	}
	return made
}

// asked lists why the cluster has waited for a human since a step began.
func (c *course) asked(before []v1alpha1.Transition) []string {
	now := steps(c.Env) // the newest first
	if len(before) > 0 {
		last := slices.IndexFunc(now, func(h v1alpha1.Transition) bool { return equality.Semantic.DeepEqual(h, before[0]) })
		if last >= 0 {
			now = now[:last]
		}
	}
	var out []string
	for i := range now {
		if now[i].To == v1alpha1.PhaseHumanIntervention {
			out = append(out, now[i].Message+": "+c.HoldText(&now[i]))
		}
	}
	return out
}

// steps are the changes of phase so far, the newest first.
func steps(e *harness.Env) []v1alpha1.Transition {
	return e.Steps(&v1alpha1.StorageCluster{Status: *status(e)})
}

// status is the StorageCluster's; empty when there is none.
func status(e *harness.Env) *v1alpha1.StorageClusterStatus {
	var c v1alpha1.StorageCluster
	if err := e.Client().Get(e.Ctx, client.ObjectKey{Name: v1alpha1.ClusterName}, &c); err != nil &&
		!apierrors.IsNotFound(err) {
		e.T.Fatal(err)
	}
	return &c.Status
}

// round goes through the scenario once more, with the harm that plan tells for each step, and compares. Harm that
// lasts is lifted when the status tells of it.
func (c *course) round(t *testing.T, plan func(step int) map[string]linstorFault, lasting bool) {
	t.Helper()
	r := *c
	r.Env = c.For(t)
	for i := range r.steps {
		s, want := &r.steps[i], &c.want[i]
		harm := plan(i)
		if s.way {
			harm = nil
		}
		before := r.depart()
		r.wire.begin(harm, lasting)
		s.do(r.Env)
		if lasting && len(harm) > 0 {
			r.awaitTold(s)
		}
		r.Eventually(s.name, func() error { return s.done(r.Env) })
		r.EventuallyEvery(lookEvery, s.name+": all is as it is without faults", func() error {
			if diff := cmp.Diff(want.picture, look(r.Env)); diff != "" {
				return fmt.Errorf("(-want +got):\n%s", diff)
			}
			return nil
		})
		r.wire.lift()
		for what, n := range r.made() {
			if n > max(1, want.made[what]) {
				t.Errorf("%s: %s was created %d times", s.name, what, n)
			}
		}
		got := r.asked(before)
		if r.wire.loops() {
			got = slices.DeleteFunc(got, func(message string) bool { return strings.Contains(message, "controller ended") })
		}
		// The test may be late to lift harm that lasts. What LINSTOR has refused so often by then is a human's matter.
		if lasting && len(r.wire.hit()) >= refusals.RefusalsThatLast {
			got = slices.DeleteFunc(got, func(message string) bool { return strings.Contains(message, outOfOrderWords) })
		}
		if len(got) != len(want.asked) {
			t.Errorf("%s: a human was asked for %q, want %q", s.name, got, want.asked)
		}
		if t.Failed() {
			t.Logf("%s: harm done: %s", s.name, harmText(r.wire.hit()))
		}
	}
	r.rewind()
}

// toldWithin bounds how long the operator may keep it to itself that calls fail. It is short of the deadlines of the
// states.
const toldWithin = 20 * time.Second

// awaitTold waits until the status tells what is wrong, or the step is over in spite of it.
func (c *course) awaitTold(s *step) {
	c.T.Helper()
	defer c.wire.lift()
	var first time.Time // when something went wrong
	c.Eventually(s.name+": the status tells what goes wrong, or it is done all the same", func() error {
		harm := c.wire.hit()
		if s.done(c.Env) == nil {
			return nil
		}
		text, err := json.Marshal(status(c.Env))
		if err != nil {
			c.T.Fatal(err)
		}
		for _, f := range harm {
			if f.told == "" || strings.Contains(string(text), f.told) {
				return nil
			}
			if first.IsZero() {
				first = time.Now()
			}
			if time.Since(first) > machine.Slow(toldWithin) {
				c.T.Errorf("%s: for %s the status does not tell of %s: %s", s.name, toldWithin, harmText(harm),
					status(c.Env).Message)
				return nil
			}
		}
		return fmt.Errorf("harm so far: %s", harmText(harm))
	})
}

func harmText(harm map[string]linstorFault) string {
	var out []string
	for _, call := range slices.Sorted(maps.Keys(harm)) {
		out = append(out, call+" "+harm[call].class)
	}
	return strings.Join(out, "; ")
}

// fits reports whether a call can go wrong so.
func (f *linstorFault) fits(call string) bool {
	return strings.HasPrefix(call, f.only) && (!f.writes || !strings.HasPrefix(call, http.MethodGet))
}

// boundedTurns is every which turn belongs to the bounded part.
const boundedTurns = 5

// TestLinstorFaults lets calls to LINSTOR go wrong in all ways. In every run of a scenario each call goes wrong once,
// and over the runs in every way.
func TestLinstorFaults(t *testing.T) {
	eachLife(t, []string{"install"}, func(t *testing.T, s scenario) {
		c := embark(t, s)
		for turn := range linstorFaults {
			if !full() && turn%boundedTurns != 0 {
				continue
			}
			began := time.Now()
			c.round(t, func(step int) map[string]linstorFault {
				plan := map[string]linstorFault{}
				for i, call := range c.want[step].calls {
					if f := linstorFaults[(i+turn)%len(linstorFaults)]; f.fits(call) {
						plan[call] = f
					}
				}
				return plan
			}, false)
			t.Logf("turn %d took %s", turn, time.Since(began).Round(100*time.Millisecond))
		}
	})
}

// TestLinstorFaultsAlone lets one call of each step go wrong at a time: once, and for as long as it takes the status
// to tell.
func TestLinstorFaultsAlone(t *testing.T) {
	eachLife(t, []string{"install"}, func(t *testing.T, s scenario) {
		c := embark(t, s)
		every := 1
		if s.name != "install" {
			every = aloneEvery
		}
		for i, f := range linstorFaults {
			c.alone(t, f, false, i%every, every)
			if f.told != "" {
				c.alone(t, f, true, i%every, every)
			}
		}
	})
}

// aloneEvery is every which call goes wrong alone in a life that is no installation, in each way another. That each
// goes wrong in every way is what TestLinstorFaults sees to.
const aloneEvery = 3

// alone does one kind of harm to one kind of call of each step after the other. The bounded part looks whether every
// write that is refused for long is told.
func (c *course) alone(t *testing.T, f linstorFault, lasting bool, begin, every int) {
	first := make([][]string, len(c.want)) // calls by step
	most := 0
	for i := range c.want {
		for _, name := range c.want[i].calls {
			write := !strings.HasPrefix(name, http.MethodGet)
			if strings.HasSuffix(name, "#1") && f.fits(name) && (full() || write && lasting && f.class == "refused") {
				first[i] = append(first[i], name)
			}
		}
		most = max(most, len(first[i]))
	}
	how := map[bool]string{false: "once", true: "lasting"}[lasting]
	for i := begin; i < most; i += every {
		t.Run(fmt.Sprintf("%s/%s/%d", f.class, how, i), func(t *testing.T) {
			c.round(t, func(step int) map[string]linstorFault {
				if i < len(first[step]) {
					return map[string]linstorFault{first[step][i]: f}
				}
				return nil
			}, lasting)
		})
		if t.Failed() && !full() {
			return
		}
	}
}
