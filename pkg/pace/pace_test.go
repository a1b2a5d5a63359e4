package pace_test

import (
	"errors"
	"go/parser"
	"go/token"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/pace"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
)

// timing has durations that cannot be taken for one another: the pause after a slow step or look is 500ms at most.
var timing = cluster.Timing{PollWorking: 2 * time.Second, PollSteady: 15 * time.Second, Safety: time.Minute}

type bench struct {
	pace.Steps
	clock *clocktesting.FakePassiveClock
}

func newBench() *bench {
	c := clocktesting.NewFakePassiveClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	return &bench{Steps: pace.Steps{Timing: timing, Clock: c}, clock: c}
}

func (b *bench) pass(d time.Duration) { b.clock.SetTime(b.clock.Now().Add(d)) }

// object is the StorageCluster as the cache has it.
func object(uid types.UID, version string, finalizers ...string) *v1alpha1.StorageCluster {
	meta := metav1.ObjectMeta{UID: uid, ResourceVersion: version, Finalizers: finalizers}
	return &v1alpha1.StorageCluster{ObjectMeta: meta}
}

func TestMayAReconcileStartNow(t *testing.T) {
	stepped := func(took, next time.Duration, err error) func(b *bench) {
		return func(b *bench) {
			b.Start(object("a", "7", v1alpha1.Finalizer))
			b.pass(took)
			b.Ended(next, err)
		}
	}
	wrote := func(b *bench) { b.Wrote(object("a", "8"), "12"); b.WroteTwice(object("a", "7")) }
	named := func(b *bench) { b.Wrote(object("a", "z"), "a"); b.WroteTwice(object("a", "y")) }
	now, old := object("a", "12", v1alpha1.Finalizer), object("a", "7", v1alpha1.Finalizer)
	for _, tc := range []struct {
		name   string
		before func(b *bench)
		passes time.Duration
		given  *v1alpha1.StorageCluster
		want   time.Duration
	}{
		{"at first", func(*bench) {}, 0, now, 0},
		{"from before the write", wrote, 0, old, 50 * time.Millisecond},
		{"from between two writes", wrote, 0, object("a", "8", v1alpha1.Finalizer), 50 * time.Millisecond},
		{"from others between two writes", wrote, 0, object("a", "11", v1alpha1.Finalizer), 50 * time.Millisecond},
		{"a later one of others", wrote, 0, object("a", "100", v1alpha1.Finalizer), 0},
		{"versions are no numbers", named, 0, object("a", "y", v1alpha1.Finalizer), 50 * time.Millisecond},
		{"and the cache has caught up", named, 0, object("a", "a", v1alpha1.Finalizer), 0},
		{"still from before the write", wrote, 2*time.Second - 1, old, 50 * time.Millisecond},
		{"the cache does not catch up", wrote, 2 * time.Second, old, 0},
		{"the cache has caught up", wrote, 0, now, 0},
		{"of a new object", wrote, 0, object("b", "7", v1alpha1.Finalizer), 0},
		{"the object goes", func(b *bench) { wrote(b); b.Forget() }, 0, old, 0},
		{"after a quick step", stepped(time.Millisecond, time.Second, nil), 0, now, 9 * time.Millisecond},
		{"after a slow step", stepped(time.Second, time.Second, nil), 0, now, 500 * time.Millisecond},
		{"in a rest", stepped(time.Second, time.Second, nil), 400 * time.Millisecond, now, 100 * time.Millisecond},
		{"after a rest", stepped(time.Second, time.Second, nil), 500 * time.Millisecond, now, 0},
		{"after a step that moved", stepped(time.Second, 10*time.Millisecond, nil), 0, now, 0},
		{"after a step that failed", stepped(time.Second, time.Second, errors.New("refused")), 0, now, 0},
		{"after a step that ended the object", stepped(time.Second, 0, nil), 0, now, 0},
		{"after a slow step, without finalizer", stepped(time.Second, time.Second, nil), 0, object("a", "9"), 0},
		{"from before the write, without finalizer", wrote, 0, object("a", "7"), 50 * time.Millisecond},
		{"a step that moved ends the rest", func(b *bench) {
			stepped(time.Second, time.Second, nil)(b)
			stepped(0, 10*time.Millisecond, nil)(b)
		}, 0, now, 0},
	} {
		b := newBench()
		tc.before(b)
		b.pass(tc.passes)
		if got := b.Start(tc.given); got != tc.want {
			t.Errorf("%s: waits for %s, want %s", tc.name, got, tc.want)
		}
	}
}

func TestMayTalliesWait(t *testing.T) {
	for _, tc := range []struct {
		name   string
		before func(b *bench)
		passes time.Duration
		want   time.Duration
	}{
		{"nothing was written", func(*bench) {}, 0, 0},
		{"the status was written", func(b *bench) { b.WroteStatus(object("a", "7"), "8") }, 0, timing.PollWorking},
		{"a while ago", func(b *bench) { b.WroteStatus(object("a", "7"), "8") }, time.Second, time.Second},
		{"long ago", func(b *bench) { b.WroteStatus(object("a", "7"), "8") }, timing.PollWorking, 0},
		{"something else was written", func(b *bench) { b.Wrote(object("a", "7"), "8") }, 0, 0},
	} {
		b := newBench()
		tc.before(b)
		b.pass(tc.passes)
		if got := b.TalliesWait(); got != tc.want {
			t.Errorf("%s: %s, want %s", tc.name, got, tc.want)
		}
	}
	b := newBench()
	b.WroteStatus(object("a", "7"), "8")
	if got := b.Start(object("a", "7", v1alpha1.Finalizer)); got == 0 {
		t.Error("a step starts on an object from before its status was written")
	}
}

func TestWhenTheNextLookIs(t *testing.T) {
	wait := step.Wait("Waiting", "", 15*time.Second)
	hold := step.HoldHere("", cluster.HoldRequest{})
	for _, tc := range []struct {
		name          string
		o             step.Outcome
		tallies, look time.Duration
		want          time.Duration
	}{
		{"waits", wait, pace.Never, pace.Never, 15 * time.Second},
		{"waits, tallies are due", wait, time.Second, pace.Never, time.Second},
		{"waits, LINSTOR is due first", wait, time.Second, 90 * time.Millisecond, 90 * time.Millisecond},
		{"waits, LINSTOR is due already", wait, pace.Never, -time.Second, 10*time.Millisecond + 1},
		{"waits for what is over", step.Wait("Waiting", "", -time.Second), pace.Never, pace.Never, 10*time.Millisecond + 1},
		{"holds", hold, pace.Never, pace.Never, timing.PollWorking},
		{"holds, tallies are due", hold, time.Second, pace.Never, time.Second},
		{"holds, LINSTOR is due", hold, pace.Never, time.Millisecond, timing.PollWorking},
		{"moves", step.Move("Advanced", "", ""), time.Millisecond, time.Millisecond, 10 * time.Millisecond},
	} {
		b := newBench()
		got := b.Next(tc.o, tc.tallies, tc.look)
		if got != tc.want {
			t.Errorf("%s: %s, want %s", tc.name, got, tc.want)
		}
		// Only what moves the machine is followed without a rest.
		b.Start(object("a", "9", v1alpha1.Finalizer))
		b.pass(time.Second)
		b.Ended(got, nil)
		if rests := b.Start(object("a", "9", v1alpha1.Finalizer)) > 0; rests != (tc.o.Kind != step.KindMove) {
			t.Errorf("%s: rests: %t", tc.name, rests)
		}
	}
}

func TestAFailedReconcileDoesNotWaitForLong(t *testing.T) {
	limit, again := pace.BackOff(timing), reconcile.Request{}
	var last time.Duration
	for range 30 { // an outage of minutes
		wait := limit.When(again)
		if wait < last || wait > timing.PollSteady {
			t.Fatalf("%s after %s", wait, last)
		}
		last = wait
	}
	if last != timing.PollSteady {
		t.Errorf("%s in the end, want %s", last, timing.PollSteady)
	}
	limit.Forget(again)
	if wait := limit.When(again); wait > 10*time.Millisecond {
		t.Errorf("%s after a success", wait)
	}
}

func TestHowOldTheViewMayBe(t *testing.T) {
	for _, tc := range []struct {
		name            string
		took            time.Duration
		dirty, underWay bool
		// serves until then, and is due after that because of a write.
		until, due time.Duration
	}{
		{"under way", 0, false, true, 1800 * time.Millisecond, pace.Never},
		{"at rest", 0, false, false, 13500 * time.Millisecond, pace.Never},
		{"after a write", 0, true, true, 0, 0},
		{"after a write, at rest", 0, true, false, 0, 0},
		{"after a write and a quick look", 10 * time.Millisecond, true, true, 100 * time.Millisecond,
			100 * time.Millisecond},
		{"after a write and a slow look", time.Second, true, false, 500 * time.Millisecond, 500 * time.Millisecond},
		{"after a slow look", time.Second, false, true, 1800 * time.Millisecond, pace.Never},
	} {
		c := newBench().clock
		l := pace.Looks{At: c.Now(), Took: tc.took, Dirty: tc.dirty}
		serves := func(age time.Duration) bool {
			return l.Serve(timing, c.Now().Add(age), func() bool { return tc.underWay })
		}
		if tc.until > 0 && !serves(tc.until-1) || serves(tc.until) {
			t.Errorf("%s: does not serve until %s, or still does then", tc.name, tc.until)
		}
		if got := l.Due(timing, c.Now()); got != tc.due {
			t.Errorf("%s: due in %s, want %s", tc.name, got, tc.due)
		}
		if later := l.Due(timing, c.Now().Add(time.Minute)); tc.due != pace.Never && later != tc.due-time.Minute {
			t.Errorf("%s: due in %s a minute later", tc.name, later)
		}
	}
	var never pace.Looks
	if soon := (time.Time{}).Add(time.Second); never.Serve(timing, soon, func() bool { return false }) {
		t.Error("what was never looked at serves")
	}
	never.Dirty = true
	if got := never.Due(timing, newBench().clock.Now()); got != pace.Never {
		t.Errorf("what was never looked at is due in %s because of a write", got)
	}
}

func TestRareLooks(t *testing.T) {
	last := newBench().clock.Now()
	for age, want := range map[time.Duration]bool{0: false, timing.Safety - 1: false, timing.Safety: true} {
		if pace.Rare(timing, last, last.Add(age)) != want {
			t.Errorf("after %s: want %t", age, want)
		}
	}
	if !pace.Rare(timing, time.Time{}, last) {
		t.Error("the first one waits")
	}
}

// TestTheTableHasAllWaits compares the table of the package's comment with cluster.Timing, settings and defaults.
func TestTheTableHasAllWaits(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "pace.go", nil, parser.ParseComments|parser.PackageClauseOnly)
	if err != nil {
		t.Fatal(err)
	}
	lasts := map[string]string{} // by setting
	for _, row := range regexp.MustCompile(`(?m)^\t.+?  +(.+?)  +(.+?)  +.+$`).FindAllStringSubmatch(file.Doc.Text(),
		-1) {
		lasts[row[2]] += row[1] + "\n"
	}
	defaults := reflect.ValueOf(cluster.DefaultTiming())
	for field, value := range defaults.Fields() {
		if lasts[field.Name] == "" {
			t.Errorf("%s is not in the table", field.Name)
		}
		if d, ok := value.Interface().(time.Duration); ok && !strings.Contains(lasts[field.Name], short(d)) {
			t.Errorf("the default %s of %s is not in the table: %s", short(d), field.Name, lasts[field.Name])
		}
	}
	for setting := range lasts {
		if setting[0] >= 'A' && setting[0] <= 'Z' && !defaults.FieldByName(setting).IsValid() {
			t.Errorf("%s is no field of cluster.Timing", setting)
		}
	}
}

// short is a duration as people write it: 2m for 2m0s.
func short(d time.Duration) string {
	return regexp.MustCompile(`([hm])0[ms](0s)?$`).ReplaceAllString(d.String(), "$1")
}
