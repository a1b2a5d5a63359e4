package metrics

import (
	"reflect"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// registered returns metrics that every method was called on, and their registry.
func registered(t *testing.T) (*Metrics, *prometheus.Registry) {
	t.Helper()
	m, reg := New(), prometheus.NewPedanticRegistry()
	if err := m.Register(reg); err != nil {
		t.Fatalf("register: %v", err)
	}
	m.Phase("Ready", []string{"Pending", "Ready"})
	m.Transition("Assessing", "Converged", "Ready", 3*time.Second)
	m.Outcome("Ready", "Wait")
	m.Illegal("Ready", "Advanced")
	m.Hold.Replace(map[string]float64{"DeviceNotEmpty": 2})
	m.Members.Replace(map[string]float64{"Online": 3})
	m.PoolCapacity.Replace(map[string]float64{"ssd": 1 << 40})
	m.PoolFree.Replace(map[string]float64{"ssd": 1 << 39})
	m.PoolsFull.Replace(map[string]float64{"ssd": 1})
	m.Conditions.Replace(map[string]float64{"Ready": 1})
	m.Serves(true, false)
	m.LastCopies(2)
	m.LinstorRequest("list nodes", "200", 20*time.Millisecond)
	return m, reg
}

// series returns the name of every family that has at least one series.
func series(t *testing.T, reg prometheus.Gatherer) []string {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatalf("gather: %v", err)
	}
	var names []string
	for _, f := range families {
		if len(f.GetMetric()) > 0 {
			names = append(names, f.GetName())
		}
	}
	sort.Strings(names)
	return names
}

func compare(t *testing.T, reg prometheus.Gatherer, want string, names ...string) {
	t.Helper()
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want), names...); err != nil {
		t.Error(err)
	}
}

func TestEveryCollectorIsRegistered(t *testing.T) {
	m := New()
	listed := map[uintptr]bool{}
	for _, c := range m.collectors() {
		listed[reflect.ValueOf(c).Pointer()] = true
	}
	v, collector := reflect.ValueOf(m).Elem(), reflect.TypeFor[prometheus.Collector]()
	found := 0
	for i := range v.NumField() {
		field := v.Type().Field(i)
		if !field.Type.Implements(collector) {
			continue
		}
		found++
		if !listed[v.Field(i).Pointer()] {
			t.Errorf("collector %s is not registered", field.Name)
		}
	}
	if found == 0 || found != len(listed) {
		t.Errorf("%d fields are collectors, %d collectors are registered", found, len(listed))
	}
}

func TestEveryMetricIsServedAndWellNamed(t *testing.T) {
	_, reg := registered(t)
	want := []string{
		"storagecluster_condition",
		"storagecluster_hold_active",
		"storagecluster_illegal_transitions_total",
		"storagecluster_linstor_answers",
		"storagecluster_linstor_request_duration_seconds",
		"storagecluster_linstor_requests_total",
		"storagecluster_members",
		"storagecluster_outcomes_total",
		"storagecluster_phase",
		"storagecluster_phase_duration_seconds",
		"storagecluster_pool_capacity_bytes",
		"storagecluster_pool_free_bytes",
		"storagecluster_pools_nearly_full",
		"storagecluster_ready",
		"storagecluster_transitions_total",
		"storagecluster_volumes_last_copy",
	}
	if diff := cmp.Diff(want, series(t, reg)); diff != "" {
		t.Errorf("served metrics (-want +got):\n%s", diff)
	}
	problems, err := testutil.GatherAndLint(reg)
	if err != nil {
		t.Fatalf("lint: %v", err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

func TestPhaseIsOneHot(t *testing.T) {
	m, reg := registered(t)
	for _, test := range []struct {
		name, current, want string
	}{
		{"known", "Pending", "storagecluster_phase{phase=\"Pending\"} 1\nstoragecluster_phase{phase=\"Ready\"} 0\n"},
		{"moved", "Ready", "storagecluster_phase{phase=\"Pending\"} 0\nstoragecluster_phase{phase=\"Ready\"} 1\n"},
		{"of a newer operator", "Backup", "storagecluster_phase{phase=\"Backup\"} 1\n" +
			"storagecluster_phase{phase=\"Pending\"} 0\nstoragecluster_phase{phase=\"Ready\"} 0\n"},
		{"none yet", "", "storagecluster_phase{phase=\"Pending\"} 0\nstoragecluster_phase{phase=\"Ready\"} 0\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			m.Phase(test.current, []string{"Pending", "Ready"})
			const head = "# HELP storagecluster_phase 1 for the phase that the StorageCluster is in, " +
				"0 for every other phase.\n" +
				"# TYPE storagecluster_phase gauge\n"
			compare(t, reg, head+test.want, "storagecluster_phase")
		})
	}
}

func TestGaugesReplaceTheirSeries(t *testing.T) {
	m, reg := registered(t)
	holds := map[string]float64{"PoolConflict": 1}
	m.Hold.Replace(holds)
	m.Members.Replace(map[string]float64{"Online": 2, "Held": 1})
	m.PoolCapacity.Replace(map[string]float64{"hdd": 20})
	m.PoolFree.Replace(map[string]float64{"hdd": 5})
	m.PoolsFull.Replace(map[string]float64{"hdd": 3})
	holds["PoolConflict"] = 7 // the caller's map is its own
	compare(t, reg, `
# HELP storagecluster_hold_active Number of open holds for the cluster or for nodes, by reason.
# TYPE storagecluster_hold_active gauge
storagecluster_hold_active{reason="PoolConflict"} 1
# HELP storagecluster_members Number of member nodes by state.
# TYPE storagecluster_members gauge
storagecluster_members{state="Held"} 1
storagecluster_members{state="Online"} 2
# HELP storagecluster_pool_capacity_bytes Capacity of a storage pool across all nodes, as last written to the status.
# TYPE storagecluster_pool_capacity_bytes gauge
storagecluster_pool_capacity_bytes{pool="hdd"} 20
# HELP storagecluster_pool_free_bytes Free space of a storage pool across all nodes, as last written to the status.
# TYPE storagecluster_pool_free_bytes gauge
storagecluster_pool_free_bytes{pool="hdd"} 5
# HELP storagecluster_pools_nearly_full Number of nodes on which the usage of a storage pool exceeds its `+
		`warnUsedPercent.
# TYPE storagecluster_pools_nearly_full gauge
storagecluster_pools_nearly_full{pool="hdd"} 3
`, "storagecluster_hold_active", "storagecluster_members", "storagecluster_pool_capacity_bytes",
		"storagecluster_pool_free_bytes", "storagecluster_pools_nearly_full")
}

func TestCountersCount(t *testing.T) {
	m, reg := registered(t)
	m.Transition("Assessing", "Converged", "Ready", 2*time.Hour)
	m.LinstorRequest("list nodes", "error", time.Second)
	compare(t, reg, `
# HELP storagecluster_transitions_total Number of phase transitions recorded in the status.
# TYPE storagecluster_transitions_total counter
storagecluster_transitions_total{event="Converged",from="Assessing",to="Ready"} 2
# HELP storagecluster_linstor_requests_total Number of requests to the LINSTOR API by operation and HTTP status; `+
		`code "error" means no response.
# TYPE storagecluster_linstor_requests_total counter
storagecluster_linstor_requests_total{code="200",operation="list nodes"} 1
storagecluster_linstor_requests_total{code="error",operation="list nodes"} 1
# HELP storagecluster_phase_duration_seconds Time the StorageCluster spent in a phase, recorded when it `+
		`leaves the phase.
# TYPE storagecluster_phase_duration_seconds histogram
storagecluster_phase_duration_seconds_bucket{phase="Assessing",le="1"} 0
storagecluster_phase_duration_seconds_bucket{phase="Assessing",le="2"} 0
storagecluster_phase_duration_seconds_bucket{phase="Assessing",le="5"} 1
storagecluster_phase_duration_seconds_bucket{phase="Assessing",le="10"} 1
storagecluster_phase_duration_seconds_bucket{phase="Assessing",le="30"} 1
storagecluster_phase_duration_seconds_bucket{phase="Assessing",le="60"} 1
storagecluster_phase_duration_seconds_bucket{phase="Assessing",le="120"} 1
storagecluster_phase_duration_seconds_bucket{phase="Assessing",le="300"} 1
storagecluster_phase_duration_seconds_bucket{phase="Assessing",le="600"} 1
storagecluster_phase_duration_seconds_bucket{phase="Assessing",le="1800"} 1
storagecluster_phase_duration_seconds_bucket{phase="Assessing",le="3600"} 1
storagecluster_phase_duration_seconds_bucket{phase="Assessing",le="21600"} 2
storagecluster_phase_duration_seconds_bucket{phase="Assessing",le="86400"} 2
storagecluster_phase_duration_seconds_bucket{phase="Assessing",le="604800"} 2
storagecluster_phase_duration_seconds_bucket{phase="Assessing",le="+Inf"} 2
storagecluster_phase_duration_seconds_sum{phase="Assessing"} 7203
storagecluster_phase_duration_seconds_count{phase="Assessing"} 2
`, "storagecluster_transitions_total", "storagecluster_linstor_requests_total",
		"storagecluster_phase_duration_seconds")
}

func TestForgetDropsTheObjectsSeries(t *testing.T) {
	m, reg := registered(t)
	m.Forget()
	want := []string{"storagecluster_linstor_request_duration_seconds", "storagecluster_linstor_requests_total"}
	if diff := cmp.Diff(want, series(t, reg)); diff != "" {
		t.Errorf("metrics left after Forget (-want +got):\n%s", diff)
	}
	m.Members.Replace(map[string]float64{"Online": 1})
	if got := testutil.CollectAndCount(m.Members); got != 1 {
		t.Errorf("a new object has %d series of members, want 1", got)
	}
}

func TestRegisterIsAllOrNothing(t *testing.T) {
	reg := prometheus.NewRegistry()
	taken := New().Members
	reg.MustRegister(taken)
	m := New()
	if err := m.Register(reg); err == nil {
		t.Fatal("registered over a taken name")
	}
	reg.Unregister(taken)
	if err := m.Register(reg); err != nil {
		t.Errorf("the failed registration left something behind: %v", err)
	}
}
