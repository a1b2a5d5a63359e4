package monitoring

import "time"

// Exported are the metrics of others that alerts and the dashboard use, with their labels.
//
// LINSTOR's controller serves those that begin with linstor_ at /metrics of its API (linstor-server 1.35,
// PrometheusBuilder). drbd-reactor in the satellites' pods serves the others (drbd-reactor 1.11,
// src/plugin/prometheus.rs, with enums = true: each state that there can be is a series, 1 for the one that is). The
// PodMonitor puts "node" there. The values are statistics of DRBD's devices, and begin anew with a device.
func Exported() map[string][]string {
	device := []string{"node", "name", "volume", "minor"}
	connection := []string{"node", "name", "conn_name", "peer_node_id"}
	pool := []string{"storage_pool", "node", "driver", "backing_pool"}
	return map[string][]string{
		"linstor_node_state":                        {"node", "nodetype", "address", "encryption", "port"},
		"linstor_resource_definition_count":         {},
		"linstor_storage_pool_capacity_free_bytes":  pool,
		"linstor_storage_pool_capacity_total_bytes": pool,
		"linstor_storage_pool_error_count":          pool,
		"linstor_scrape_duration_seconds":           {},
		"drbd_resource_suspended":                   {"node", "name"},
		"drbd_connection_state":                     append(connection, "drbd_connection_state"),
		"drbd_device_quorum":                        device,
		"drbd_device_unintentionaldiskless":         device,
		"drbd_device_read_bytes_total":              device,
		"drbd_device_written_bytes_total":           device,
		"drbd_peerdevice_outofsync_bytes":           append(connection, "volume"),
	}
}

// drbdAlerts are about DRBD on each node, which the operator does not see: it knows volumes from LINSTOR alone.
func drbdAlerts() []Alert {
	return []Alert{{
		Name: "DRBDWithoutQuorum", Severity: Critical, For: 5 * time.Minute,
		Expr:        `min by (node, name, volume) (drbd_device_quorum) < 1`,
		Summary:     "{{ $labels.name }}/{{ $labels.volume }} on {{ $labels.node }} has no quorum.",
		Description: "I/O on that node is suspended or fails until enough replicas are connected again.",
	}, {
		Name: "DRBDSuspended", Severity: Warning, For: 5 * time.Minute,
		Expr:        `max by (node, name) (drbd_resource_suspended) > 0`,
		Summary:     "I/O for {{ $labels.name }} on {{ $labels.node }} is suspended.",
		Description: "Pods that use the volume on that node hang until I/O resumes.",
	}, {
		Name: "DRBDDiskFailed", Severity: Warning, For: 5 * time.Minute,
		Expr:        `max by (node, name, volume) (drbd_device_unintentionaldiskless) > 0`,
		Summary:     "{{ $labels.name }}/{{ $labels.volume }} has lost its disk on {{ $labels.node }}.",
		Description: "The volume remains available over the network through its other replicas.",
	}, {
		// A connection that tries goes through several states, so that none of them is kept as a label.
		Name: "DRBDDisconnected", Severity: Warning, For: 15 * time.Minute,
		Expr: `max by (node, name, conn_name) (drbd_connection_state{drbd_connection_state!~"Connected|StandAlone"})` +
			` > 0`,
		Summary:     "{{ $labels.name }} on {{ $labels.node }} is not connected to {{ $labels.conn_name }}.",
		Description: "New writes do not reach the replica on that peer.",
	}, {
		Name: "DRBDStandAlone", Severity: Warning, For: 5 * time.Minute,
		Expr: `max by (node, name, conn_name) (drbd_connection_state{drbd_connection_state="StandAlone"})` +
			` > 0`,
		Summary:     "{{ $labels.name }} on {{ $labels.node }} has stopped trying to connect to {{ $labels.conn_name }}.",
		Description: "DRBD dropped the connection, possibly after a split brain, and does not reconnect on its own.",
	}, {
		// While the connection is down, out of sync grows as it must, and DRBDDisconnected says so.
		Name: "DRBDResyncStalled", Severity: Warning, For: 30 * time.Minute,
		Expr: `(max by (node, name, conn_name, volume) (drbd_peerdevice_outofsync_bytes) > 0 and ` +
			`max by (node, name, conn_name, volume) (delta(drbd_peerdevice_outofsync_bytes[15m])) >= 0) ` +
			`and on (node, name, conn_name) ` +
			`max by (node, name, conn_name) (drbd_connection_state{drbd_connection_state="Connected"}) == 1`,
		Summary: "Resync of {{ $labels.name }}/{{ $labels.volume }} on {{ $labels.node }} with {{ $labels.conn_name }} " +
			"has stalled.",
		Description: "{{ $value | humanize1024 }}B are out of sync, and this amount has not decreased for half an hour.",
	}}
}
