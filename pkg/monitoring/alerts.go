package monitoring

import (
	"strings"
	"time"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
)

// atWork matches the phases that end by themselves.
func atWork() string {
	names := []string{string(fsm.Assessing)}
	for _, s := range fsm.Chain() {
		names = append(names, string(s))
	}
	return strings.Join(append(names, string(fsm.Upgrading), string(fsm.Migrating), string(fsm.Deleting)), "|")
}

// helpers matches the conditions of what volumes can do without.
func helpers() string {
	return strings.Join([]string{conditions.HighAvailabilityReady, conditions.DrainGuardReady,
		conditions.AffinityReady, conditions.MonitoringReady}, "|")
}

// clusterAlerts are about the operator and the StorageCluster. Only the replica of the operator that works has these
// series, so that "max" is its value.
func clusterAlerts() []Alert {
	return []Alert{{
		Name: "StorageClusterOperatorAbsent", Severity: Warning, For: 10 * time.Minute,
		Expr:        `absent(storagecluster_phase)`,
		Summary:     "The StorageCluster operator is not running.",
		Description: "The status of the StorageCluster is outdated. Volumes keep working, but nothing is repaired.",
	}, {
		Name: "StorageClusterNotObserved", Severity: Warning, For: 10 * time.Minute,
		Expr:        `max(storagecluster_observation_failed) > 0`,
		Summary:     "The operator cannot observe the cluster and changes nothing.",
		Description: "status.message of the StorageCluster shows the cause.",
	}, {
		// A deletion waits for whoever deletes the volumes.
		Name: "StorageClusterNotReady", Severity: Critical, For: 15 * time.Minute,
		Expr:        `max(storagecluster_ready) < 1 unless max(storagecluster_phase{phase="Deleting"}) == 1`,
		Summary:     "LINSTOR does not serve volumes as the accepted spec requires.",
		Description: "Fewer nodes than spec.nodes.minReady are serving volumes, or the installation has never completed.",
	}, {
		Name: "StorageClusterHold", Severity: Warning, For: 15 * time.Minute,
		Expr:        `max by (reason) (storagecluster_hold_active) > 0`,
		Summary:     "LINSTOR: a hold is waiting for an administrator ({{ $labels.reason }}).",
		Description: "Run kubectl describe storagecluster linstor to see the hold, its options and the command to resume.",
	}, {
		Name: "StorageClusterDegraded", Severity: Warning, For: 15 * time.Minute,
		Expr:        `max(storagecluster_phase{phase="Degraded"}) == 1`,
		Summary:     "LINSTOR nodes or storage pools have been missing for 15 minutes.",
		Description: "The Degraded and StoragePoolsReady conditions name them.",
	}, {
		Name: "StorageClusterWorksForLong", Severity: Warning, For: time.Hour,
		Expr:        `max(storagecluster_phase{phase=~"` + atWork() + `"}) == 1`,
		Summary:     "The operator has been working on a change for an hour.",
		Description: "An installation, an upgrade or a deletion has not finished; status.message shows why.",
	}, {
		// Members in maintenance were announced, and those that leave are on their way. The states are summed up: a node
		// that goes from one to the next is no better off.
		Name: "StorageClusterMembersNotOnline", Severity: Warning, For: 10 * time.Minute,
		Expr: `sum(max by (state) (storagecluster_members{state!~"Online|StartingDriver|Maintenance|Leaving"}))` +
			` > 0`,
		Summary:     "{{ $value }} LINSTOR nodes are not online.",
		Description: "status.nodes.problems of the StorageCluster lists the nodes and their problems.",
	}, {
		Name: "StorageClusterDriverMissing", Severity: Warning, For: 10 * time.Minute,
		Expr:        `max(storagecluster_members{state="StartingDriver"}) > 0`,
		Summary:     "{{ $value }} LINSTOR nodes lack the CSI driver.",
		Description: "New pods on these nodes cannot mount volumes.",
	}, {
		Name: "StorageClusterLinstorUnreachable", Severity: Critical, For: 10 * time.Minute,
		Expr:        `max(storagecluster_linstor_answers) < 1`,
		Summary:     "The LINSTOR controller does not respond.",
		Description: "Volumes in use keep working, but volumes cannot be created, attached, expanded or deleted.",
	}, {
		// A node that is down takes its pod of the high-availability controller along, and has alerts of its own.
		Name: "StorageClusterHelperNotReady", Severity: Warning, For: 30 * time.Minute,
		Expr: `max by (type) (storagecluster_condition{type=~"` + helpers() + `"}) == 0 unless on () ` +
			`sum(storagecluster_members{state!~"Online|StartingDriver"}) > 0`,
		Summary:     "LINSTOR: the {{ $labels.type }} condition has been False for half an hour.",
		Description: "The condition's message shows why. Volumes keep working without this component.",
	}, {
		// One failure is repeated and is no news.
		Name: "StorageClusterStepsFail", Severity: Warning, For: 15 * time.Minute,
		Expr:        `sum(increase(storagecluster_outcomes_total{outcome="fail"}[15m])) > 10`,
		Summary:     "The operator's steps are failing repeatedly.",
		Description: "The Reconciling condition and the operator's log show which step is failing.",
	}, {
		// increase() sees nothing of a series that begins with 1, as the series of an event that never happened before does.
		Name: "StorageClusterOperatorDefect", Severity: Info, For: 5 * time.Minute,
		Expr: `sum by (state, event) (increase(storagecluster_illegal_transitions_total[1h])) > 0 or ` +
			`sum by (state, event) (storagecluster_illegal_transitions_total ` +
			`unless storagecluster_illegal_transitions_total offset 1h) > 0`,
		Summary:     "The operator had no transition for event {{ $labels.event }} in state {{ $labels.state }}.",
		Description: "This is a bug in the operator. Report it together with the operator's log.",
	}}
}

// volumeAlerts are about volumes, pools and StorageClasses, as the operator sees them in LINSTOR.
func volumeAlerts() []Alert {
	return []Alert{{
		Name: "StorageClusterVolumesUnavailable", Severity: Critical, For: 5 * time.Minute,
		Expr:        `max(storagecluster_volumes{state="unavailable"}) > 0`,
		Summary:     "{{ $value }} volumes have no replica that is known to be up to date.",
		Description: "Pods that use them hang or fail.",
	}, {
		Name: "StorageClusterVolumesLastCopy", Severity: Critical, For: time.Hour,
		Expr:        `max(storagecluster_volumes_last_copy) > 0`,
		Summary:     "{{ $value }} volumes have had only one up-to-date replica for an hour.",
		Description: "They should have more. If the disk or node with this replica fails, the data is lost.",
	}, {
		Name: "StorageClusterVolumesDegraded", Severity: Warning, For: 30 * time.Minute,
		Expr:        `max(storagecluster_volumes{state="degraded"}) > 0`,
		Summary:     "{{ $value }} volumes have lacked a replica for half an hour.",
		Description: "The VolumesHealthy condition names the most affected volumes.",
	}, {
		Name: "StorageClusterPoolNearlyFull", Severity: Warning, For: 15 * time.Minute,
		Expr:        `max by (pool) (storagecluster_pools_nearly_full) > 0`,
		Summary:     "Pool {{ $labels.pool }} is nearly full on {{ $value }} nodes.",
		Description: "If a thin pool fills up, all of its volumes fail.",
	}, {
		// A pool that is new, or an operator that was away, shows a trend that is none: there must be a value of six hours
		// ago. The status has sizes in steps of one per cent, every five minutes at most.
		Name: "StorageClusterPoolFullSoon", Severity: Warning, For: time.Hour,
		Expr: `predict_linear(max by (pool) (storagecluster_pool_free_bytes)[6h:5m], 4 * 86400) < 0 and ` +
			`max by (pool) (storagecluster_pool_free_bytes offset 6h) > 0 and ` +
			`max by (pool) (storagecluster_pool_free_bytes) < 0.5 * max by (pool) (storagecluster_pool_capacity_bytes)`,
		Summary:     "Pool {{ $labels.pool }} will be full within four days.",
		Description: "This forecast is based on the trend over the last six hours across all nodes.",
	}, {
		Name: "StorageClusterClassUnsatisfiable", Severity: Warning, For: 15 * time.Minute,
		Expr:        `max by (class) (storagecluster_storageclass_satisfiable) < 1`,
		Summary:     "Volumes cannot be provisioned for StorageClass {{ $labels.class }}.",
		Description: "The StorageClassesReady condition shows what is missing.",
	}, {
		Name: "StorageClusterCanaryFailed", Severity: Warning, For: 15 * time.Minute,
		Expr:        `max by (class) (storagecluster_canary_success) < 1`,
		Summary:     "The last volume test of StorageClass {{ $labels.class }} failed.",
		Description: "The CanaryPassed condition shows which step failed, and why.",
	}, {
		// The operator makes a certificate anew when a third of its 90 days is left, an authority a year before its end.
		Name: "StorageClusterCertificateExpires", Severity: Critical, For: 15 * time.Minute,
		Expr:        `min by (secret) (storagecluster_certificate_expiry_timestamp_seconds - time()) < 259200`,
		Summary:     "The certificate in Secret {{ $labels.secret }} expires within three days.",
		Description: "LINSTOR clients cannot connect after that. The CertificatesValid condition shows the cause.",
	}, {
		Name: "StorageClusterCertificateNotRenewed", Severity: Warning, For: time.Hour,
		Expr:        `min by (secret) (storagecluster_certificate_expiry_timestamp_seconds - time()) < 1209600`,
		Summary:     "The certificate in Secret {{ $labels.secret }} is overdue for renewal.",
		Description: "It expires within two weeks. The CertificatesValid condition shows the cause.",
	}, {
		Name: "StorageClusterBackupNotReady", Severity: Warning, For: time.Hour,
		Expr:        `max(storagecluster_condition{type="BackupReady"}) == 0`,
		Summary:     "The last scheduled backup of LINSTOR's database is missing.",
		Description: "The BackupReady condition shows why.",
	}}
}
