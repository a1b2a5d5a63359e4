// Package metrics holds the Prometheus metrics of the operator.
//
// There is one StorageCluster in a Kubernetes cluster, so no series carries its name. Label values come from closed
// sets or from the spec (pools): nothing grows with the number of nodes or volumes.
//
// What describes the object now is replaced as a whole: a scrape sees the values before an update or those after it,
// never half of each. What describes the object vanishes with it ([Metrics.Forget]).
package metrics

import (
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics are the operator's collectors. All methods may be called concurrently. Build it with New.
type Metrics struct {
	phase *GaugeSet
	// Conditions are 1 for a condition that is True, 0 for False and -1 for Unknown, by type.
	Conditions *GaugeSet
	// Hold are the active holds by reason, Members the member nodes by state, Volumes the volumes by state.
	Hold, Members, Volumes *GaugeSet
	// PoolCapacity and PoolFree are bytes over all nodes by pool, PoolsFull the nodes on which a pool is nearly full.
	PoolCapacity, PoolFree, PoolsFull *GaugeSet
	// CertificateExpiry is when a certificate expires, in seconds since 1970, by its Secret.
	CertificateExpiry *GaugeSet
	// Classes is 1 for each StorageClass that LINSTOR could place volumes of, by name, and 0 for the others.
	Classes *GaugeSet
	// CanarySuccess is 1 for each StorageClass whose last try passed, and 0 for one that failed, by name; CanaryTime is
	// when a try of it passed last, in seconds since 1970.
	CanarySuccess, CanaryTime                *GaugeSet
	transitions, outcomes, illegal, requests *prometheus.CounterVec
	phaseDuration, requestSeconds            *prometheus.HistogramVec
	unobserved, ready, answers, lastCopy     *prometheus.GaugeVec
	backupTime, backupBytes                  *prometheus.GaugeVec
}

// phaseBuckets reach from a phase that had nothing to do to one that a cluster rests in for weeks.
var phaseBuckets = []float64{1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 6 * 3600, 24 * 3600, 7 * 24 * 3600}

// requestBuckets reach from a list on an idle controller to the longest time that the LINSTOR client waits.
var requestBuckets = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120}

// OutcomesName counts the passes of the reconciler over an object.
const OutcomesName = "storagecluster_outcomes_total"

// New returns the collectors, without any series and not yet registered.
func New() *Metrics {
	return &Metrics{
		phase: newGaugeSet("storagecluster_phase",
			"1 for the phase that the StorageCluster is in, 0 for every other phase.", "phase"),
		transitions: newCounters("storagecluster_transitions_total",
			"Number of phase transitions recorded in the status.", "from", "event", "to"),
		phaseDuration: newHistograms("storagecluster_phase_duration_seconds",
			"Time the StorageCluster spent in a phase, recorded when it leaves the phase.", phaseBuckets, "phase"),
		outcomes: newCounters(OutcomesName,
			"Number of operator steps by outcome and by the phase in which they started.", "phase", "outcome"),
		illegal: newCounters("storagecluster_illegal_transitions_total",
			"Number of events for which the state machine had no transition. Each one is a bug in the operator.", "state",
			"event"),
		Hold: newGaugeSet("storagecluster_hold_active",
			"Number of open holds for the cluster or for nodes, by reason.", "reason"),
		Members: newGaugeSet("storagecluster_members",
			"Number of member nodes by state.", "state"),
		PoolCapacity: newGaugeSet("storagecluster_pool_capacity_bytes",
			"Capacity of a storage pool across all nodes, as last written to the status.", "pool"),
		PoolFree: newGaugeSet("storagecluster_pool_free_bytes",
			"Free space of a storage pool across all nodes, as last written to the status.", "pool"),
		PoolsFull: newGaugeSet("storagecluster_pools_nearly_full",
			"Number of nodes on which the usage of a storage pool exceeds its warnUsedPercent.", "pool"),
		unobserved: newGauge("storagecluster_observation_failed",
			"1 while the operator cannot observe the cluster and therefore changes nothing, otherwise 0."),
		ready: newGauge("storagecluster_ready",
			"1 while the Ready condition is True, otherwise 0."),
		answers: newGauge("storagecluster_linstor_answers",
			"1 while the LINSTOR API responds and belongs to this cluster, otherwise 0."),
		lastCopy: newGauge("storagecluster_volumes_last_copy",
			"Number of volumes with several replicas but only one that is up to date."),
		Volumes: newGaugeSet("storagecluster_volumes",
			"Number of volumes by state, as last written to the status.", "state"),
		Classes: newGaugeSet("storagecluster_storageclass_satisfiable",
			"1 if a StorageClass in the spec exists and its volumes fit on the current nodes and pools, otherwise 0.",
			"class"),
		Conditions: newGaugeSet("storagecluster_condition",
			"Conditions of the StorageCluster: 1 for True, 0 for False, -1 for Unknown.", "type"),
		CanarySuccess: newGaugeSet("storagecluster_canary_success",
			"1 if the last volume test of a StorageClass passed, 0 if it failed.",
			"class"),
		CanaryTime: newGaugeSet("storagecluster_canary_last_success_timestamp_seconds",
			"Unix time at which a volume test of the StorageClass last passed.", "class"),
		CertificateExpiry: newGaugeSet("storagecluster_certificate_expiry_timestamp_seconds",
			"Unix time at which a certificate that secures LINSTOR's connections expires, by Secret.", "secret"),
		backupTime: newGauge("storagecluster_backup_last_success_timestamp_seconds",
			"Unix time at which LINSTOR's database was exported for the last backup."),
		backupBytes: newGauge("storagecluster_backup_bytes",
			"Size of the last backup in the backup store, in bytes."),
		requests: newCounters("storagecluster_linstor_requests_total",
			"Number of requests to the LINSTOR API by operation and HTTP status; code \"error\" means no response.",
			"operation", "code"),
		requestSeconds: newHistograms("storagecluster_linstor_request_duration_seconds",
			"Time until the LINSTOR API responded or the request failed.", requestBuckets, "operation"),
	}
}

// collectors are all fields of m: what is not listed here is never served.
func (m *Metrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{
		m.phase, m.transitions, m.phaseDuration, m.outcomes, m.illegal, m.Hold, m.Members, m.PoolCapacity, m.PoolFree,
		m.PoolsFull, m.Volumes, m.Classes, m.CanarySuccess, m.CanaryTime, m.backupTime, m.backupBytes,
		m.CertificateExpiry, m.Conditions, m.unobserved, m.ready, m.answers, m.lastCopy, m.requests, m.requestSeconds,
	}
}

// Register adds all collectors, or none: when one is refused because its name is taken, the others are removed again.
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

// Phase says which phase the object is in; all are the phases there are. One of a newer operator is shown too.
func (m *Metrics) Phase(current string, all []string) {
	values := make(map[string]float64, len(all)+1)
	for _, p := range all {
		values[p] = 0
	}
	if current != "" {
		values[current] = 1
	}
	m.phase.Replace(values)
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

// ObservationFailed notes whether the last look at the cluster failed.
func (m *Metrics) ObservationFailed(failed bool) { set(m.unobserved, failed) }

// Serves notes whether the condition Ready is True, and whether LINSTOR's API answers.
func (m *Metrics) Serves(ready, answers bool) {
	set(m.ready, ready)
	set(m.answers, answers)
}

// LastCopies notes how many volumes with several copies have a single one that is up to date.
func (m *Metrics) LastCopies(volumes int) { m.lastCopy.WithLabelValues().Set(float64(volumes)) }

// LastBackup notes the last backup of LINSTOR's database; the zero time for none.
func (m *Metrics) LastBackup(taken time.Time, bytes int64) {
	if taken.IsZero() {
		m.backupTime.Reset()
		m.backupBytes.Reset()
		return
	}
	m.backupTime.WithLabelValues().Set(float64(taken.Unix()))
	m.backupBytes.WithLabelValues().Set(float64(bytes))
}

func set(g *prometheus.GaugeVec, is bool) {
	value := 0.0
	if is {
		value = 1
	}
	g.WithLabelValues().Set(value)
}

// LinstorRequest counts a request to LINSTOR: op is a fixed name for its kind, never a path; code is the HTTP status,
// or "error" when there was no answer; d is how long it took. Its signature is that of the LINSTOR client's observer.
func (m *Metrics) LinstorRequest(op, code string, d time.Duration) {
	m.requests.WithLabelValues(op, code).Inc()
	m.requestSeconds.WithLabelValues(op).Observe(d.Seconds())
}

// Forget drops all series of the object, once it is gone. The requests to LINSTOR are the operator's own, and stay.
func (m *Metrics) Forget() {
	for _, s := range []*GaugeSet{m.phase, m.Hold, m.Members, m.PoolCapacity, m.PoolFree, m.PoolsFull, m.Volumes,
		m.Classes, m.CanarySuccess, m.CanaryTime, m.Conditions, m.CertificateExpiry} {
		s.Replace(nil)
	}
	for _, v := range []interface{ Reset() }{m.transitions, m.phaseDuration, m.outcomes, m.illegal, m.ready,
		m.answers, m.lastCopy, m.backupTime, m.backupBytes} {
		v.Reset()
	}
}

// newGauge is a gauge without labels that has no series before it is set.
func newGauge(name, help string) *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, nil)
}

func newCounters(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

func newHistograms(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
}

// GaugeSet is a gauge with one label whose series are replaced all at once. A GaugeVec offers Reset and then Set, and
// a scrape in between sees a cluster in no phase or a hold that is gone for a moment: enough to end an alert.
type GaugeSet struct {
	desc   *prometheus.Desc
	mu     sync.Mutex
	values map[string]float64
}

func newGaugeSet(name, help, label string) *GaugeSet {
	return &GaugeSet{desc: prometheus.NewDesc(name, help, []string{label}, nil)}
}

// Replace makes values, by the label's value, the only series. The map is copied.
func (s *GaugeSet) Replace(values map[string]float64) {
	copied := maps.Clone(values)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.values = copied
}

// Describe implements prometheus.Collector.
func (s *GaugeSet) Describe(ch chan<- *prometheus.Desc) { ch <- s.desc }

// Collect implements prometheus.Collector.
func (s *GaugeSet) Collect(ch chan<- prometheus.Metric) {
	s.mu.Lock()
	values := s.values // never changed after Replace stored it
	s.mu.Unlock()
	for label, value := range values {
		ch <- prometheus.MustNewConstMetric(s.desc, prometheus.GaugeValue, value, label)
	}
}
