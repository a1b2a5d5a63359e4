package alerts

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/rules"

	"github.com/linstor-dev/storagecluster-operator/pkg/monitoring"
)

// step is how often series have a sample and rules are evaluated.
const step = time.Minute

// evaluation is the rules on a storage with series, in Prometheus' own engine.
type evaluation struct {
	t      *testing.T
	suite  *promqltest.LazyLoader
	groups map[string]*rules.Group
	next   time.Time
}

// evaluate loads series, in the words of promtool's tests: one for each line, its name and labels and its values.
func evaluate(t *testing.T, series string) *evaluation {
	t.Helper()
	file := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(file, monitoring.Rules(), 0o600); err != nil {
		t.Fatal(err)
	}
	load := "load 1m\n"
	series = strings.NewReplacer("LINK", link, "DEVICE", device).Replace(strings.TrimSpace(series))
	for line := range strings.SplitSeq(series, "\n") {
		load += "  " + strings.TrimSpace(line) + "\n"
	}
	p := parser.NewParser(parser.Options{})
	suite, err := promqltest.NewLazyLoader(load, promqltest.LazyLoaderOpts{EnableAtModifier: true,
		EnableNegativeOffset: true, Parser: p})
	if err != nil {
		t.Fatalf("%v in\n%s", err, load)
	}
	t.Cleanup(func() {
		if err := suite.Close(); err != nil {
			t.Error(err)
		}
	})
	m := rules.NewManager(&rules.ManagerOptions{
		QueryFunc:    rules.EngineQueryFunc(suite.QueryEngine(), suite.Storage()),
		AppendableV2: suite.Storage(), Context: t.Context(), Logger: promslog.NewNopLogger(), Parser: p,
		NotifyFunc: func(context.Context, string, ...*rules.Alert) {},
	})
	groups, errs := m.LoadGroups(step, labels.EmptyLabels(), "", nil, false, file)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	return &evaluation{t: t, suite: suite, groups: groups, next: time.Unix(0, 0)}
}

// firing evaluates on until a time since the beginning, and returns the labels of the firing alerts of a name.
func (e *evaluation) firing(name string, at time.Duration) []string {
	e.t.Helper()
	for until := time.Unix(0, 0).Add(at); !e.next.After(until); e.next = e.next.Add(step) {
		e.suite.WithSamplesTill(e.next, func(err error) {
			if err != nil {
				e.t.Fatal(err)
			}
			for _, g := range e.groups {
				g.Eval(e.suite.Context(), e.next)
			}
		})
	}
	var out []string
	for _, g := range e.groups {
		for _, r := range g.AlertingRules() {
			if err := r.LastError(); err != nil {
				e.t.Fatalf("%s: %v", r.Name(), err)
			}
			for _, a := range r.ActiveAlerts() {
				if r.Name() == name && a.State == rules.StateFiring {
					own := labels.NewBuilder(a.Labels).Del(labels.AlertName, "severity").Labels()
					out = append(out, own.String())
					checkTexts(e.t, name, a.Annotations)
				}
			}
		}
	}
	slices.Sort(out)
	return out
}

// checkTexts wants templates to be filled in.
func checkTexts(t *testing.T, name string, texts labels.Labels) {
	t.Helper()
	for _, key := range []string{"summary", "description", "runbook_url"} {
		if text := texts.Get(key); text == "" || strings.Contains(text, "error expanding") ||
			strings.Contains(text, "{{") || strings.Contains(text, "<no value>") || strings.Contains(text, "  ") {
			t.Errorf("%s: %s is %q", name, key, text)
		}
	}
}

// TestAlerts fires each alert, and nearly fires it.
func TestAlerts(t *testing.T) {
	untested := maps.Clone(scenarios)
	for _, g := range monitoring.Groups() {
		for _, a := range g.Alerts {
			s, ok := scenarios[a.Name]
			if !ok {
				t.Errorf("%s: no series fire it", a.Name)
				continue
			}
			delete(untested, a.Name)
			t.Run(a.Name, func(t *testing.T) {
				t.Parallel()
				s.check(t, &a)
			})
		}
	}
	for name := range untested {
		t.Errorf("series fire %s, which is no alert", name)
	}
}

func (s *scenario) check(t *testing.T, a *monitoring.Alert) {
	t.Helper()
	if a.For < 2*monitoring.LongestInterval {
		t.Errorf("it fires after %s, before two scrapes", a.For)
	}
	e := evaluate(t, s.fires)
	if got := e.firing(a.Name, s.from+a.For-2*step); len(got) > 0 {
		t.Errorf("it fires before its time: %v", got)
	}
	due := s.from + a.For + 2*step
	if got := e.firing(a.Name, due); !slices.Equal(got, s.want()) {
		t.Errorf("%s after the beginning it fires as %v, want %v", due, got, s.want())
	}
	if s.until > 0 {
		if got := e.firing(a.Name, s.until); len(got) > 0 {
			t.Errorf("after %s it still fires: %v", s.until, got)
		}
	}
	for i, near := range s.near {
		t.Run(fmt.Sprintf("near miss %d", i+1), func(t *testing.T) {
			e := evaluate(t, near)
			for at := time.Duration(0); at <= due+10*step; at += step {
				if got := e.firing(a.Name, at); len(got) > 0 {
					t.Fatalf("it fires after %s: %v", at, got)
				}
			}
		})
	}
}

func (s *scenario) want() []string {
	out := slices.Clone(s.as)
	if len(out) == 0 {
		out = []string{"{}"}
	}
	slices.Sort(out)
	return out
}
