package monitoring

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
)

// expressions are all that alerts and dashboard have, by alert or panel.
func expressions() map[string]string {
	out := map[string]string{}
	for _, g := range Groups() {
		for _, a := range g.Alerts {
			out[a.Name] = a.Expr
		}
	}
	for _, row := range Rows() {
		for _, p := range row.Panels {
			for i, q := range p.Queries {
				out[row.Title+": "+p.Title+string(rune('A'+i))] = q.Expr
			}
		}
	}
	return out
}

// TestLabelValuesExist: a selector with a value that the operator never writes selects nothing, for ever. Whether
// metrics and labels exist is tested with Prometheus' parser, in test/alerts.
func TestLabelValuesExist(t *testing.T) {
	values := map[string][]string{
		"state": {"healthy", "resyncing", "degraded", "unavailable"}, // controller.Reconciler.measureVolumes
		"outcome": {string(step.KindMove), string(step.KindWait), string(step.KindHold), string(step.KindFail),
			string(step.KindDone)},
	}
	values["type"] = conditions.Types()
	for _, n := range []v1alpha1.NodeState{v1alpha1.NodeOnline, v1alpha1.NodeStartingDriver, v1alpha1.NodeMaintenance,
		v1alpha1.NodeLeaving} {
		values["state"] = append(values["state"], string(n))
	}
	for _, s := range fsm.Cluster().States {
		values["phase"] = append(values["phase"], string(s.State))
	}
	selector := regexp.MustCompile(`\b(state|outcome|phase|type)[=!]~?"([^"]*)"`)
	seen := map[string]bool{}
	for name, expr := range expressions() {
		for _, m := range selector.FindAllStringSubmatch(expr, -1) {
			seen[m[1]] = true
			for value := range strings.SplitSeq(m[2], "|") {
				if !slices.Contains(values[m[1]], value) {
					t.Errorf("%s selects %s %q, which there is not", name, m[1], value)
				}
			}
		}
	}
	if len(seen) != len(values) {
		t.Errorf("saw selectors of %v only", seen)
	}
}

func TestAlertsAreComplete(t *testing.T) {
	names := map[string]bool{}
	for _, g := range Groups() {
		for _, a := range g.Alerts {
			if names[a.Name] {
				t.Errorf("two alerts are named %s", a.Name)
			}
			names[a.Name] = true
			if !slices.Contains([]Severity{Critical, Warning, Info}, a.Severity) || a.Summary == "" || a.Description == "" {
				t.Errorf("%s lacks something: %+v", a.Name, a)
			}
		}
	}
}

func TestDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{5 * time.Minute: "5m", time.Hour: "1h", 90 * time.Minute: "1h30m",
		30 * time.Second: "30s", 10 * time.Minute: "10m", 20 * time.Hour: "20h", 150 * time.Second: "2m30s"} {
		if got := Duration(d); got != want {
			t.Errorf("%s is %q, want %q", d, got, want)
		}
	}
}

// TestDashboard: the dashboard is JSON in the ConfigMap, and no panel lies on another one.
func TestDashboard(t *testing.T) {
	var cm struct{ Data map[string]string }
	if err := yaml.Unmarshal([]byte(DashboardConfigMap()), &cm); err != nil {
		t.Fatal(err)
	}
	var board struct {
		Panels []struct {
			ID      int
			Title   string
			GridPos struct{ X, Y, W, H int }
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal([]byte(cm.Data["storagecluster.json"]), &board); err != nil {
		t.Fatal(err)
	}
	queries, taken := 0, map[[2]int]string{}
	for _, p := range board.Panels {
		queries += len(p.Targets)
		g := p.GridPos
		if g.X+g.W > columns || g.W == 0 || g.H == 0 {
			t.Errorf("%s lies at %+v", p.Title, g)
		}
		for x := g.X; x < g.X+g.W; x++ {
			for y := g.Y; y < g.Y+g.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" {
					t.Fatalf("%s lies on %s", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
	}
	if want := len(expressions()) - alerts(); queries != want || queries == 0 {
		t.Errorf("%d queries, want %d", queries, want)
	}
}

func alerts() (n int) {
	for _, g := range Groups() {
		n += len(g.Alerts)
	}
	return n
}
