package alerts

import "time"

// A connection and a device of DRBD, for LINK and DEVICE in the series.
const (
	link   = `node="n1", name="pvc-1", conn_name="n2", peer_node_id="1"`
	device = `node="n1", name="pvc-1", volume="0", minor="1000"`
)

// scenario is series that fire an alert, and others that nearly do. Samples are a minute apart; "_" is none, "stale"
// the end of a series.
type scenario struct {
	fires string
	// from is when the alert's expression begins to be true.
	from time.Duration
	// until is when the alert has ended by itself; 0 if it does not.
	until time.Duration
	// as are the labels of the alerts that fire, without name and severity; none for one alert without labels.
	as   []string
	near []string
}

// scenarios are by the name of the alert.
var scenarios = map[string]*scenario{
	"StorageClusterOperatorAbsent": {
		fires: `controller_runtime_active_workers 0x40`,
		near: []string{ // an operator that was restarted
			`storagecluster_phase{phase="Ready", pod="a"} 1x5 stale
			 storagecluster_phase{phase="Ready", pod="b"} _x13 1x40`,
		},
	},
	"StorageClusterNotObserved": {
		fires: `storagecluster_observation_failed{pod="a"} 1x40`,
		near:  []string{`storagecluster_observation_failed{pod="a"} 1x8 0x40`},
	},
	"StorageClusterNotReady": {
		fires: `storagecluster_ready{pod="a"} 0x40
			 storagecluster_phase{pod="a", phase="Degraded"} 1x40
			 storagecluster_phase{pod="a", phase="Deleting"} 0x40`,
		near: []string{
			`storagecluster_ready{pod="a"} 0x40
			 storagecluster_phase{pod="a", phase="Deleting"} 1x40`,
			`storagecluster_ready{pod="a"} 0x12 1x40
			 storagecluster_phase{pod="a", phase="Deleting"} 0x40`,
		},
	},
	"StorageClusterHold": { // the operator is restarted meanwhile
		fires: `storagecluster_hold_active{pod="a", reason="DeviceNotEmpty"} 1x9 stale
			 storagecluster_hold_active{pod="b", reason="DeviceNotEmpty"} _x9 1x40
			 storagecluster_hold_active{pod="b", reason="NodeGone"} _x9 2x40`,
		as: []string{`{reason="DeviceNotEmpty"}`},
		near: []string{
			`storagecluster_hold_active{pod="a", reason="DeviceNotEmpty"} 1x10 0 1x12 0x40`,
			`storagecluster_hold_active{pod="a", reason="DeviceNotEmpty"} 1x10 stale
			 storagecluster_hold_active{pod="a", reason="NodeGone"} _x10 1x10 stale`,
		},
	},
	"StorageClusterDegraded": {
		fires: `storagecluster_phase{pod="a", phase="Degraded"} 1x40`,
		near: []string{`storagecluster_phase{pod="a", phase="Degraded"} 1x12 0x40
			 storagecluster_phase{pod="a", phase="Ready"} 0x12 1x40`},
	},
	"StorageClusterWorksForLong": { // from one phase to the next
		fires: `storagecluster_phase{pod="a", phase="Satellites"} 1x30 0x90
			 storagecluster_phase{pod="a", phase="VolumeDriver"} 0x30 1x90`,
		near: []string{
			`storagecluster_phase{pod="a", phase="HumanIntervention"} 1x120
			 storagecluster_phase{pod="a", phase="Ready"} 1x120`,
			`storagecluster_phase{pod="a", phase="Satellites"} 1x50 0x90
			 storagecluster_phase{pod="a", phase="Ready"} 0x50 1x90`,
		},
	},
	"StorageClusterMembersNotOnline": { // a node goes from one state to the next, and is no better off
		fires: `storagecluster_members{pod="a", state="Online"} 2x40
			 storagecluster_members{pod="a", state="Unreachable"} 1x6 stale
			 storagecluster_members{pod="a", state="Registering"} _x6 1x40`,
		near: []string{`storagecluster_members{pod="a", state="Online"} 2x40
			 storagecluster_members{pod="a", state="Maintenance"} 1x40
			 storagecluster_members{pod="a", state="Leaving"} 1x40
			 storagecluster_members{pod="a", state="StartingDriver"} 1x40
			 storagecluster_members{pod="a", state="Unreachable"} 1x8 0x40`},
	},
	"StorageClusterDriverMissing": {
		fires: `storagecluster_members{pod="a", state="StartingDriver"} 1x40`,
		near: []string{`storagecluster_members{pod="a", state="StartingDriver"} 3x8 stale
			 storagecluster_members{pod="a", state="Online"} 3x40`},
	},
	"StorageClusterLinstorUnreachable": {
		fires: `storagecluster_linstor_answers{pod="a"} 0x40`,
		near:  []string{`storagecluster_linstor_answers{pod="a"} 0x8 1 0x8 1x40`},
	},
	"StorageClusterStepsFail": {
		fires: `storagecluster_outcomes_total{pod="a", phase="Ready", outcome="fail"} 0+2x60`,
		from:  6 * time.Minute,
		near: []string{`storagecluster_outcomes_total{pod="a", phase="Ready", outcome="fail"} 0 1 2 3x60
			 storagecluster_outcomes_total{pod="a", phase="Ready", outcome="wait"} 0+4x60`},
	},
	"StorageClusterOperatorDefect": { // the first time ever: the series begins with 1
		fires: `storagecluster_illegal_transitions_total{pod="a", state="Ready", event="Advanced"} _x4 1x120`,
		from:  5 * time.Minute,
		until: 75 * time.Minute,
		as:    []string{`{event="Advanced", state="Ready"}`},
		near:  []string{`storagecluster_transitions_total{pod="a", from="Ready", event="Advanced", to="Ready"} 1+1x60`},
	},
	"StorageClusterVolumesUnavailable": {
		fires: `storagecluster_volumes{pod="a", state="unavailable"} 1x40`,
		near: []string{`storagecluster_volumes{pod="a", state="unavailable"} 1x3 0x40
			 storagecluster_volumes{pod="a", state="degraded"} 9x40`},
	},
	"StorageClusterVolumesLastCopy": {
		fires: `storagecluster_volumes_last_copy{pod="a"} 1x30 2x70`,
		near:  []string{`storagecluster_volumes_last_copy{pod="a"} 3x55 0x90`},
	},
	"StorageClusterVolumesDegraded": {
		fires: `storagecluster_volumes{pod="a", state="degraded"} 2x60`,
		near: []string{`storagecluster_volumes{pod="a", state="degraded"} 2x25 0x60
			 storagecluster_volumes{pod="a", state="resyncing"} 2x60`},
	},
	"StorageClusterPoolNearlyFull": {
		fires: `storagecluster_pools_nearly_full{pod="a", pool="ssd"} 2x40
			 storagecluster_pools_nearly_full{pod="a", pool="hdd"} 0x40`,
		as:   []string{`{pool="ssd"}`},
		near: []string{`storagecluster_pools_nearly_full{pod="a", pool="ssd"} 1x12 0 1x12 0x40`},
	},
	// 100 GB in four days are 1.04 GB an hour. Values are in GB.
	"StorageClusterPoolFullSoon": {
		fires: `storagecluster_pool_free_bytes{pod="a", pool="ssd"} 90-0.02x600
			 storagecluster_pool_capacity_bytes{pod="a", pool="ssd"} 1000x600`,
		from: 6 * time.Hour,
		as:   []string{`{pool="ssd"}`},
		near: []string{
			// It takes five days.
			`storagecluster_pool_free_bytes{pod="a", pool="ssd"} 145-0.02x600
			 storagecluster_pool_capacity_bytes{pod="a", pool="ssd"} 1000x600`,
			// Most of it is free, and somebody copies data into it.
			`storagecluster_pool_free_bytes{pod="a", pool="ssd"} 900-0.9x600
			 storagecluster_pool_capacity_bytes{pod="a", pool="ssd"} 1000x600`,
			// It is new, which is no trend yet.
			`storagecluster_pool_free_bytes{pod="a", pool="ssd"} _x120 90-0.02x600
			 storagecluster_pool_capacity_bytes{pod="a", pool="ssd"} _x120 1000x600`,
		},
	},
	"StorageClusterClassUnsatisfiable": {
		fires: `storagecluster_storageclass_satisfiable{pod="a", class="fast"} 0x40
			 storagecluster_storageclass_satisfiable{pod="a", class="slow"} 1x40`,
		as:   []string{`{class="fast"}`},
		near: []string{`storagecluster_storageclass_satisfiable{pod="a", class="fast"} 0x12 1x40`},
	},
	"StorageClusterHelperNotReady": {
		fires: `storagecluster_condition{pod="a", type="DrainGuardReady"} 0x70
			 storagecluster_condition{pod="a", type="HighAvailabilityReady"} 1x70
			 storagecluster_condition{pod="a", type="Ready"} 0x70
			 storagecluster_members{pod="a", state="Online"} 3x70`,
		as: []string{`{type="DrainGuardReady"}`},
		near: []string{
			`storagecluster_condition{pod="a", type="DrainGuardReady"} 0x25 1x50
			 storagecluster_members{pod="a", state="Online"} 3x80`,
			`storagecluster_condition{pod="a", type="MonitoringReady"} -1x70
			 storagecluster_members{pod="a", state="Online"} 3x80`,
			// a node is down
			`storagecluster_condition{pod="a", type="HighAvailabilityReady"} 0x70
			 storagecluster_members{pod="a", state="Online"} 2x70
			 storagecluster_members{pod="a", state="Unreachable"} 1x70`,
		},
	},
	"StorageClusterCanaryFailed": {
		fires: `storagecluster_canary_success{pod="a", class="fast"} 0x40
			 storagecluster_canary_success{pod="a", class="slow"} 1x40`,
		as:   []string{`{class="fast"}`},
		near: []string{`storagecluster_canary_success{pod="a", class="fast"} 0x12 1x40`},
	},
	"StorageClusterCertificateExpires": {
		fires: `storagecluster_certificate_expiry_timestamp_seconds{pod="a", secret="linstor-csi-node-api-tls"} 200000x40
			 storagecluster_certificate_expiry_timestamp_seconds{pod="a", secret="linstor-controller-api-tls"} 7776000x40`,
		as: []string{`{secret="linstor-csi-node-api-tls"}`},
		near: []string{`storagecluster_certificate_expiry_timestamp_seconds{pod="a", secret="x"} 300000x40`,
			`storagecluster_certificate_expiry_timestamp_seconds{pod="a", secret="x"} 200000x12 7776000x40`},
	},
	"StorageClusterCertificateNotRenewed": {
		fires: `storagecluster_certificate_expiry_timestamp_seconds{pod="a", secret="linstor-csi-node-api-tls"} 1000000x80`,
		as:    []string{`{secret="linstor-csi-node-api-tls"}`},
		near:  []string{`storagecluster_certificate_expiry_timestamp_seconds{pod="a", secret="x"} 1300000x80`},
	},
	"StorageClusterBackupNotReady": {
		fires: `storagecluster_condition{pod="a", type="BackupReady"} 0x80`,
		near: []string{`storagecluster_condition{pod="a", type="BackupReady"} 0x55 1x25`,
			`storagecluster_condition{pod="a", type="BackupReady"} -1x80`},
	},
	"DRBDWithoutQuorum": {
		fires: `drbd_device_quorum{DEVICE, pod="a"} 0x40
			 drbd_device_quorum{node="n2", name="pvc-1", volume="0", minor="1000", pod="b"} 1x40`,
		as:   []string{`{name="pvc-1", node="n1", volume="0"}`},
		near: []string{`drbd_device_quorum{DEVICE, pod="a"} 0x3 1x40`},
	},
	"DRBDSuspended": {
		fires: `drbd_resource_suspended{node="n1", name="pvc-1"} 1x40`,
		as:    []string{`{name="pvc-1", node="n1"}`},
		near:  []string{`drbd_resource_suspended{node="n1", name="pvc-1"} 1x3 0x40`},
	},
	"DRBDDiskFailed": {
		fires: `drbd_device_unintentionaldiskless{DEVICE} 1x40`,
		as:    []string{`{name="pvc-1", node="n1", volume="0"}`},
		near:  []string{`drbd_device_unintentionaldiskless{DEVICE} 1x3 0x40`},
	},
	"DRBDDisconnected": { // it tries, so that the state changes all the time
		fires: `drbd_connection_state{LINK, drbd_connection_state="Connected"} 0x40
			 drbd_connection_state{LINK, drbd_connection_state="Connecting"} 1x9 0x9 1x40
			 drbd_connection_state{LINK, drbd_connection_state="NetworkFailure"} 0x9 1x9 0x40`,
		as: []string{`{conn_name="n2", name="pvc-1", node="n1"}`},
		near: []string{
			`drbd_connection_state{LINK, drbd_connection_state="Connected"} 0x12 1x40
			 drbd_connection_state{LINK, drbd_connection_state="Connecting"} 1x12 0x40`,
			`drbd_connection_state{LINK, drbd_connection_state="StandAlone"} 1x40`,
		},
	},
	"DRBDStandAlone": {
		fires: `drbd_connection_state{LINK, drbd_connection_state="StandAlone"} 1x40`,
		as:    []string{`{conn_name="n2", name="pvc-1", node="n1"}`},
		near: []string{
			`drbd_connection_state{LINK, drbd_connection_state="StandAlone"} 1x3 0x40
			 drbd_connection_state{LINK, drbd_connection_state="Connecting"} 0x3 1x40`,
		},
	},
	"DRBDResyncStalled": {
		fires: `drbd_peerdevice_outofsync_bytes{LINK, volume="0"} 4096x90
			 drbd_connection_state{LINK, drbd_connection_state="Connected"} 1x90`,
		from: time.Minute, // a difference needs two samples
		as:   []string{`{conn_name="n2", name="pvc-1", node="n1", volume="0"}`},
		near: []string{
			// It gets on.
			`drbd_peerdevice_outofsync_bytes{LINK, volume="0"} 409600-4096x90
			 drbd_connection_state{LINK, drbd_connection_state="Connected"} 1x90`,
			// There is no connection.
			`drbd_peerdevice_outofsync_bytes{LINK, volume="0"} 4096x90
			 drbd_connection_state{LINK, drbd_connection_state="Connected"} 0x90`,
			// It is in sync.
			`drbd_peerdevice_outofsync_bytes{LINK, volume="0"} 0x90
			 drbd_connection_state{LINK, drbd_connection_state="Connected"} 1x90`,
		},
	},
}
