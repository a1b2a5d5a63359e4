package metrics

import (
	"maps"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// gaugeSet is a gauge with one label whose series are replaced all at once. A GaugeVec offers Reset and then Set, and a
// scrape in between sees a cluster in no phase or a hold that is gone for a moment: enough to end an alert.
type gaugeSet struct {
	desc *prometheus.Desc

	mu     sync.Mutex
	values map[string]float64
}

func newGaugeSet(name, help, label string) *gaugeSet {
	return &gaugeSet{desc: prometheus.NewDesc(name, help, []string{label}, nil)}
}

// replace makes values, by the label's value, the only series. The map is copied.
func (s *gaugeSet) replace(values map[string]float64) {
	copied := maps.Clone(values)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.values = copied
}

// Describe implements prometheus.Collector.
func (s *gaugeSet) Describe(ch chan<- *prometheus.Desc) { ch <- s.desc }

// Collect implements prometheus.Collector.
func (s *gaugeSet) Collect(ch chan<- prometheus.Metric) {
	s.mu.Lock()
	values := s.values // never changed after replace stored it
	s.mu.Unlock()
	for label, value := range values {
		ch <- prometheus.MustNewConstMetric(s.desc, prometheus.GaugeValue, value, label)
	}
}
