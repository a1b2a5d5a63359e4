package chaos

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/linstor-dev/storagecluster-operator/pkg/catalogue"
	"github.com/linstor-dev/storagecluster-operator/test/chaosenv"
)

var newestVersion = catalogue.Embedded().Newest()

// delay lets something happen of which the operator is told late, until release.
type delay func(w *staleWorld, happens func(*staleWorld)) (release func())

// play goes through a situation and checks how it ends. It returns what the operator made.
func (w *staleWorld) play(s *situation, d delay) map[string]int {
	w.T.Helper()
	mark := roundBegins(w.Env)
	if s.before != nil {
		w.judge.change(func() { s.before(w) })
	}
	release := d(w, func(w *staleWorld) { w.judge.change(func() { s.happens(w) }) })
	w.During(s.lingers, "while the operator's view is stale", w.judge.err)
	release()
	if s.after != nil {
		s.after(w)
	}
	w.atRest()
	if err := w.judge.err(); err != nil {
		w.T.Fatal(err)
	}
	return madeSince(w.Env, mark)
}

// run goes through situations, each once without delay and once with it. Nothing may be made more often with it.
func (w *staleWorld) run(t *testing.T, situations []situation, class string, d delay) {
	for _, s := range situations {
		var without map[string]int
		ok := t.Run(s.name+"/in time", func(t *testing.T) {
			without = w.with(t).play(&s, func(w *staleWorld, happens func(*staleWorld)) func() { happens(w); return func() {} })
		})
		ok = ok && t.Run(s.name+"/late", func(t *testing.T) {
			for what, n := range w.with(t).play(&s, d) {
				if n > without[what]+s.again {
					t.Errorf("%s was made %d times, without delay %d times", what, n, without[what])
				}
			}
			injected("stale: " + class)
		})
		if !ok {
			return // the world is not at rest
		}
	}
}

// TestStaleViews holds back what the operator is told about one kind while things happen.
func TestStaleViews(t *testing.T) {
	t.Parallel()
	kinds := staleKinds
	if !full() {
		kinds = []string{"nodes", "storageclusters"}
	}
	for i, kind := range kinds {
		situations := boundedSituations()
		if full() {
			situations = everyNth(2, i)
		}
		if !chaosenv.Part(t, kind) {
			continue
		}
		t.Run(kind, func(t *testing.T) {
			startStale(t, newestVersion).run(t, situations, kind+" informer held back",
				func(w *staleWorld, happens func(*staleWorld)) func() {
					release := w.views.hold(kind)
					happens(w)
					return release
				})
		})
	}
}

// TestStaleStart restarts the operator after things happened, with an API server that fills the cache for one kind
// with what was before.
func TestStaleStart(t *testing.T) {
	t.Parallel()
	kinds := staleKinds
	if !full() {
		kinds = []string{"nodes"}
	}
	for i, kind := range kinds {
		situations := boundedSituations()[:1]
		if full() {
			situations = everyNth(3, i)
		}
		if !chaosenv.Part(t, kind) {
			continue
		}
		t.Run(kind, func(t *testing.T) {
			startStale(t, newestVersion).run(t, situations, kind+" listed from the past",
				func(w *staleWorld, happens func(*staleWorld)) func() {
					version := w.version()
					happens(w)
					w.top.StopOperator()
					release := w.views.travel(kind, version)
					w.top.Run()
					return release
				})
		})
	}
}

// TestStaleLists answers the lists of LINSTOR's view with old ones, each of another age.
func TestStaleLists(t *testing.T) {
	t.Parallel()
	ages, situations := []int{1, 5}, staleSituations()
	if !full() {
		ages = ages[1:]
		situations = slices.DeleteFunc(situations, func(s situation) bool {
			return !slices.ContainsFunc([]string{"last copy", "has a volume", "volume group", "udev"},
				func(part string) bool { return strings.Contains(s.name, part) })
		})
	}
	for _, seconds := range ages {
		t.Run(fmt.Sprintf("%ds", seconds), func(t *testing.T) {
			random := seeded(t)
			startStale(t, newestVersion).run(t, situations, fmt.Sprintf("LINSTOR lists up to %ds old", seconds),
				func(w *staleWorld, happens func(*staleWorld)) func() {
					back := map[string]time.Time{}
					for _, l := range staleLists {
						back[l] = time.Now().Add(-time.Duration(random.IntN(seconds*1000)) * time.Millisecond)
					}
					release := w.lists.freeze(back)
					happens(w)
					return release
				})
		})
	}
}
