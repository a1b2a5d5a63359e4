// Package alerts tests the alerts and the dashboard of pkg/monitoring with Prometheus' own engine: each alert with
// series that fire it and with series that nearly do, and each expression for what it is made from.
//
// It is a Go module of its own, since Prometheus brings many others along, none of which the operator needs.
package alerts
