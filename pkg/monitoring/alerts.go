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
		Summary:     "No operator looks after LINSTOR.",
		Description: "What kubectl get shows is old. LINSTOR and its volumes go on, and nothing repairs them.",
	}, {
		Name: "StorageClusterNotObserved", Severity: Warning, For: 10 * time.Minute,
		Expr:        `max(storagecluster_observation_failed) > 0`,
		Summary:     "The operator cannot look at the cluster, and changes nothing.",
		Description: "The StorageCluster's message says why.",
	}, {
		// A deletion waits for whoever deletes the volumes.
		Name: "StorageClusterNotReady", Severity: Critical, For: 15 * time.Minute,
		Expr:        `max(storagecluster_ready) < 1 unless max(storagecluster_phase{phase="Deleting"}) == 1`,
		Summary:     "LINSTOR does not serve as the accepted spec says.",
		Description: "Fewer nodes than spec.nodes.minReady serve volumes, or the cluster was never installed.",
	}, {
		Name: "StorageClusterHold", Severity: Warning, For: 15 * time.Minute,
		Expr:        `max by (reason) (storagecluster_hold_active) > 0`,
		Summary:     "LINSTOR: a human is asked ({{ $labels.reason }}).",
		Description: "kubectl describe storagecluster linstor shows the question, its options and the command.",
	}, {
		Name: "StorageClusterDegraded", Severity: Warning, For: 15 * time.Minute,
		Expr:        `max(storagecluster_phase{phase="Degraded"}) == 1`,
		Summary:     "Nodes or pools of LINSTOR have been missing for a quarter of an hour.",
		Description: "The conditions Degraded and StoragePoolsReady name them.",
	}, {
		Name: "StorageClusterWorksForLong", Severity: Warning, For: time.Hour,
		Expr:        `max(storagecluster_phase{phase=~"` + atWork() + `"}) == 1`,
		Summary:     "The operator has been at work for an hour.",
		Description: "An installation, an upgrade or a deletion does not come to an end; status.message says why.",
	}, {
		// Members in maintenance were announced, and those that leave are on their way. The states are summed up: a node
		// that goes from one to the next is no better off.
		Name: "StorageClusterMembersNotOnline", Severity: Warning, For: 10 * time.Minute,
		Expr: `sum(max by (state) (storagecluster_members{state!~"Online|StartingDriver|Maintenance|Leaving"}))` +
			` > 0`,
		Summary:     "{{ $value }} nodes of LINSTOR are not online.",
		Description: "status.nodes.problems of the StorageCluster names them and says what is wrong.",
	}, {
		Name: "StorageClusterDriverMissing", Severity: Warning, For: 10 * time.Minute,
		Expr:        `max(storagecluster_members{state="StartingDriver"}) > 0`,
		Summary:     "{{ $value }} nodes of LINSTOR lack the CSI driver.",
		Description: "Pods on these nodes get no volumes.",
	}, {
		Name: "StorageClusterLinstorUnreachable", Severity: Critical, For: 10 * time.Minute,
		Expr:        `max(storagecluster_linstor_answers) < 1`,
		Summary:     "LINSTOR's controller does not answer.",
		Description: "Volumes that are in use go on. None can be made, attached, grown or deleted.",
	}, {
		// A node that is down takes its pod of the high-availability controller along, and has alerts of its own.
		Name: "StorageClusterHelperNotReady", Severity: Warning, For: 30 * time.Minute,
		Expr: `max by (type) (storagecluster_condition{type=~"` + helpers() + `"}) == 0 unless on () ` +
			`sum(storagecluster_members{state!~"Online|StartingDriver"}) > 0`,
		Summary:     "LINSTOR: {{ $labels.type }} has been False for half an hour.",
		Description: "The condition of the StorageCluster says why. Volumes go on without the helper.",
	}, {
		// One failure is repeated and is no news.
		Name: "StorageClusterStepsFail", Severity: Warning, For: 15 * time.Minute,
		Expr:        `sum(increase(storagecluster_outcomes_total{outcome="fail"}[15m])) > 10`,
		Summary:     "What the operator does fails over and over.",
		Description: "The condition Reconciling and the operator's log say what.",
	}, {
		// increase() sees nothing of a series that begins with 1, as the series of an event that never happened before does.
		Name: "StorageClusterOperatorDefect", Severity: Info, For: 5 * time.Minute,
		Expr: `sum by (state, event) (increase(storagecluster_illegal_transitions_total[1h])) > 0 or ` +
			`sum by (state, event) (storagecluster_illegal_transitions_total ` +
			`unless storagecluster_illegal_transitions_total offset 1h) > 0`,
		Summary:     "The operator met the event {{ $labels.event }} in {{ $labels.state }}, which its table does not have.",
		Description: "This is a defect of the operator. Please report it together with the log.",
	}}
}

// volumeAlerts are about volumes, pools and StorageClasses, as the operator sees them in LINSTOR.
func volumeAlerts() []Alert {
	return []Alert{{
		Name: "StorageClusterVolumesUnavailable", Severity: Critical, For: 5 * time.Minute,
		Expr:        `max(storagecluster_volumes{state="unavailable"}) > 0`,
		Summary:     "{{ $value }} volumes have no copy that is known to be up to date.",
		Description: "Pods that use them hang or fail.",
	}, {
		Name: "StorageClusterVolumesLastCopy", Severity: Critical, For: time.Hour,
		Expr:        `max(storagecluster_volumes_last_copy) > 0`,
		Summary:     "{{ $value }} volumes have had a single copy that is up to date for an hour.",
		Description: "They should have more. Whatever happens to that disk or node loses data.",
	}, {
		Name: "StorageClusterVolumesDegraded", Severity: Warning, For: 30 * time.Minute,
		Expr:        `max(storagecluster_volumes{state="degraded"}) > 0`,
		Summary:     "{{ $value }} volumes have lacked a copy for half an hour.",
		Description: "The condition VolumesHealthy names the worst.",
	}, {
		Name: "StorageClusterPoolNearlyFull", Severity: Warning, For: 15 * time.Minute,
		Expr:        `max by (pool) (storagecluster_pools_nearly_full) > 0`,
		Summary:     "Pool {{ $labels.pool }} is nearly full on {{ $value }} nodes.",
		Description: "A thin pool that is full stops all of its volumes.",
	}, {
		// A pool that is new, or an operator that was away, shows a trend that is none: there must be a value of six hours
		// ago. The status has sizes in steps of one per cent, every five minutes at most.
		Name: "StorageClusterPoolFullSoon", Severity: Warning, For: time.Hour,
		Expr: `predict_linear(max by (pool) (storagecluster_pool_free_bytes)[6h:5m], 4 * 86400) < 0 and ` +
			`max by (pool) (storagecluster_pool_free_bytes offset 6h) > 0 and ` +
			`max by (pool) (storagecluster_pool_free_bytes) < 0.5 * max by (pool) (storagecluster_pool_capacity_bytes)`,
		Summary:     "Pool {{ $labels.pool }} will be full within four days.",
		Description: "So says the trend of the last six hours, over all nodes.",
	}, {
		Name: "StorageClusterClassUnsatisfiable", Severity: Warning, For: 15 * time.Minute,
		Expr:        `max by (class) (storagecluster_storageclass_satisfiable) < 1`,
		Summary:     "Nobody gets a volume of StorageClass {{ $labels.class }}.",
		Description: "The condition StorageClassesReady says what is missing.",
	}, {
		Name: "StorageClusterCanaryFailed", Severity: Warning, For: 15 * time.Minute,
		Expr:        `max by (class) (storagecluster_canary_success) < 1`,
		Summary:     "A volume of StorageClass {{ $labels.class }} could not be used when it was tried last.",
		Description: "The condition CanaryPassed says in which step it failed, and why.",
	}, {
		// The operator makes a certificate anew when a third of its 90 days is left, an authority a year before its end.
		Name: "StorageClusterCertificateExpires", Severity: Critical, For: 15 * time.Minute,
		Expr:        `min by (secret) (storagecluster_certificate_expiry_timestamp_seconds - time()) < 259200`,
		Summary:     "The certificate in Secret {{ $labels.secret }} expires within three days.",
		Description: "Then LINSTOR's clients are turned away. The condition CertificatesValid says what it waits for.",
	}, {
		Name: "StorageClusterCertificateNotRenewed", Severity: Warning, For: time.Hour,
		Expr:        `min by (secret) (storagecluster_certificate_expiry_timestamp_seconds - time()) < 1209600`,
		Summary:     "The certificate in Secret {{ $labels.secret }} is overdue for renewal.",
		Description: "It expires within two weeks. The condition CertificatesValid says what it waits for.",
	}, {
		Name: "StorageClusterBackupNotReady", Severity: Warning, For: time.Hour,
		Expr:        `max(storagecluster_condition{type="BackupReady"}) == 0`,
		Summary:     "The backup of LINSTOR's database that was due last is not there.",
		Description: "The condition BackupReady says why.",
	}}
}
