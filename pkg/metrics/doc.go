// Package metrics holds the Prometheus metrics of the operator.
//
// There is one StorageCluster in a Kubernetes cluster, so no series carries its name. Label values come from closed sets
// (phases, events, reasons, operations) or from the spec (pools): nothing grows with the number of nodes or volumes.
//
// What describes the object now is replaced as a whole: a scrape sees the values before an update or those after it,
// never half of each. What describes the object vanishes with it ([Metrics.Forget]); what describes the operator's own
// requests stays.
package metrics
