package metrics

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics are the operator's collectors. All methods may be called concurrently. Build it with New.
type Metrics struct {
	phase          *gaugeSet
	transitions    *prometheus.CounterVec
	phaseDuration  *prometheus.HistogramVec
	outcomes       *prometheus.CounterVec
	illegal        *prometheus.CounterVec
	hold           *gaugeSet
	members        *gaugeSet
	poolCapacity   *gaugeSet
	poolFree       *gaugeSet
	poolsFull      *gaugeSet
	requests       *prometheus.CounterVec
	requestSeconds *prometheus.HistogramVec
}

// phaseBuckets reach from a phase that had nothing to do to one that a cluster rests in for weeks.
var phaseBuckets = []float64{1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 6 * 3600, 24 * 3600, 7 * 24 * 3600}

// requestBuckets reach from a list on an idle controller to the longest time that the LINSTOR client waits.
var requestBuckets = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120}

// New returns the collectors, without any series and not yet registered.
func New() *Metrics {
	return &Metrics{
		phase: newGaugeSet("storagecluster_phase",
			"1 for the phase that the StorageCluster is in, 0 for every other phase.", "phase"),
		transitions: newCounters("storagecluster_transitions_total",
			"Phase transitions that were stored in the status.", "from", "event", "to"),
		phaseDuration: newHistograms("storagecluster_phase_duration_seconds",
			"Time that the StorageCluster spent in a phase, observed when it leaves it.", phaseBuckets, "phase"),
		outcomes: newCounters("storagecluster_outcomes_total",
			"What the steps of the machine ended with, by the phase they began in.", "phase", "outcome"),
		illegal: newCounters("storagecluster_illegal_transitions_total",
			"Events that the transition table does not allow in the state. Each is a defect of the operator.", "state", "event"),
		hold: newGaugeSet("storagecluster_hold_active",
			"Holds that wait for a human, of the cluster or of nodes, by reason.", "reason"),
		members: newGaugeSet("storagecluster_members",
			"Member nodes by state.", "state"),
		poolCapacity: newGaugeSet("storagecluster_pool_capacity_bytes",
			"Capacity of a storage pool over all nodes, as last written to the status.", "pool"),
		poolFree: newGaugeSet("storagecluster_pool_free_bytes",
			"Free space of a storage pool over all nodes, as last written to the status.", "pool"),
		poolsFull: newGaugeSet("storagecluster_pools_nearly_full",
			"Nodes on which a storage pool is fuller than its warnUsedPercent.", "pool"),
		requests: newCounters("storagecluster_linstor_requests_total",
			"Requests to the LINSTOR API by operation and HTTP status; code \"error\" stands for no answer.", "operation", "code"),
		requestSeconds: newHistograms("storagecluster_linstor_request_duration_seconds",
			"Time until the LINSTOR API answered, or the request failed.", requestBuckets, "operation"),
	}
}

// collectors are all fields of m: what is not listed here is never served.
func (m *Metrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{
		m.phase, m.transitions, m.phaseDuration, m.outcomes, m.illegal, m.hold, m.members, m.poolCapacity, m.poolFree, m.poolsFull,
		m.requests, m.requestSeconds,
	}
}

// Register adds all collectors to reg, or none: when one is refused, because its name is taken, the others are removed
// again and the error names the cause.
func (m *Metrics) Register(reg prometheus.Registerer) error {
	all := m.collectors()
	for i, c := range all {
		if err := reg.Register(c); err != nil {
			for _, done := range all[:i] {
				reg.Unregister(done)
			}
			return fmt.Errorf("register a collector: %w", err)
		}
	}
	return nil
}

// Phase says which phase the object is in; all are the phases there are. A current phase that is none of them, written by
// a newer operator, is shown too.
func (m *Metrics) Phase(current string, all []string) {
	values := make(map[string]float64, len(all)+1)
	for _, p := range all {
		values[p] = 0
	}
	if current != "" {
		values[current] = 1
	}
	m.phase.replace(values)
}

// Transition counts a transition that was stored. inPhase is how long the object was in from.
func (m *Metrics) Transition(from, event, to string, inPhase time.Duration) {
	m.transitions.WithLabelValues(from, event, to).Inc()
	m.phaseDuration.WithLabelValues(from).Observe(inPhase.Seconds())
}

// Outcome counts what a step in phase ended with.
func (m *Metrics) Outcome(phase, outcome string) { m.outcomes.WithLabelValues(phase, outcome).Inc() }

// Illegal counts an event that the table does not allow in state.
func (m *Metrics) Illegal(state, event string) { m.illegal.WithLabelValues(state, event).Inc() }

// Hold says how many holds are active by reason; reasons that are not in active have none.
func (m *Metrics) Hold(active map[string]float64) { m.hold.replace(active) }

// Members says how many member nodes are in each state; states that are not in byState have none.
func (m *Metrics) Members(byState map[string]float64) { m.members.replace(byState) }

// PoolSize is the size of a storage pool over all nodes, in bytes.
type PoolSize struct {
	Pool           string
	Capacity, Free float64
}

// Pools says how large the pools are; pools that are not in sizes are gone or of unknown size.
func (m *Metrics) Pools(sizes []PoolSize) {
	capacity, free := make(map[string]float64, len(sizes)), make(map[string]float64, len(sizes))
	for _, s := range sizes {
		capacity[s.Pool], free[s.Pool] = s.Capacity, s.Free
	}
	m.poolCapacity.replace(capacity)
	m.poolFree.replace(free)
}

// PoolsFull says on how many nodes each pool is nearly full; pools that are not in byPool are so on none.
func (m *Metrics) PoolsFull(byPool map[string]float64) { m.poolsFull.replace(byPool) }

// LinstorRequest counts a request to LINSTOR: op is a fixed name for its kind, never a path; code is the HTTP status, or
// "error" when there was no answer; d is how long it took. Its signature is that of the LINSTOR client's observer.
func (m *Metrics) LinstorRequest(op, code string, d time.Duration) {
	m.requests.WithLabelValues(op, code).Inc()
	m.requestSeconds.WithLabelValues(op).Observe(d.Seconds())
}

// Forget drops all series of the object, once it is gone. The requests to LINSTOR are the operator's own and stay: to
// drop them would look like a restart.
func (m *Metrics) Forget() {
	for _, s := range []*gaugeSet{m.phase, m.hold, m.members, m.poolCapacity, m.poolFree, m.poolsFull} {
		s.replace(nil)
	}
	for _, v := range []interface{ Reset() }{m.transitions, m.phaseDuration, m.outcomes, m.illegal} {
		v.Reset()
	}
}

func newCounters(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

func newHistograms(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
}
