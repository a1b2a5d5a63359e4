package notice

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// with is a status in that phase with conditions that have been so for a minute.
func with(phase v1alpha1.Phase, all ...metav1.Condition) *v1alpha1.StorageClusterStatus {
	st := &v1alpha1.StorageClusterStatus{Phase: phase}
	for _, c := range all {
		c.LastTransitionTime = metav1.NewTime(now.Add(-time.Minute))
		st.Conditions = append(st.Conditions, c)
	}
	return st
}

func is(kind string, status metav1.ConditionStatus) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: "R", Message: "m"}
}

// TestEveryConditionIsNamed: none can be False in a cluster that is up without a word in the column, but those that
// have other ways into it, or say nothing bad when they are False.
func TestEveryConditionIsNamed(t *testing.T) {
	elsewhere := []string{
		conditions.Reconciling, conditions.Stalled, conditions.HumanInterventionRequired, conditions.Suspended,
		conditions.MassFailure, conditions.PoolsNearlyFull, conditions.Degraded, // good if False
		conditions.VolumesHealthy, // counted
	}
	for _, kind := range conditions.Types() {
		st := with(v1alpha1.PhaseReady, is(kind, metav1.ConditionFalse))
		named := Lasting(st, now, time.Second).Short != "" || Class(st).Short != "" || Backup(st).Short != ""
		if named == slices.Contains(elsewhere, kind) {
			t.Errorf("%s is named: %t", kind, named)
		}
	}
}

func TestLasting(t *testing.T) {
	no, yes := metav1.ConditionFalse, metav1.ConditionTrue
	absent := is(conditions.SnapshotsReady, no)
	absent.Reason = "SnapshotAPIMissing"
	for name, tc := range map[string]struct {
		st   *v1alpha1.StorageClusterStatus
		long time.Duration
		want string
	}{
		"nothing": {with(v1alpha1.PhaseReady, is(conditions.Degraded, no), is(conditions.DrainGuardReady, yes)), 0, ""},
		"the most urgent": {with(v1alpha1.PhaseReady, is(conditions.MonitoringReady, no),
			is(conditions.CertificatesValid, no)), time.Minute, "CertificatesValid: R"},
		"for a moment":         {with(v1alpha1.PhaseReady, is(conditions.CertificatesValid, no)), time.Hour, ""},
		"in an installation":   {with(v1alpha1.PhaseSatellites, is(conditions.SatellitesReady, no)), 0, ""},
		"no API for snapshots": {with(v1alpha1.PhaseReady, absent), 0, ""},
		"Degraded, for what no condition says": {with(v1alpha1.PhaseDegraded, is(conditions.Degraded, yes)), 0,
			"Degraded: R"},
	} {
		if got := Lasting(tc.st, now, tc.long); got.Short != tc.want {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestBackup: a backup that fails is named at once, whatever else is done.
func TestBackup(t *testing.T) {
	for phase, named := range map[v1alpha1.Phase]bool{v1alpha1.PhaseReady: true, v1alpha1.PhaseUpgrading: true,
		v1alpha1.PhaseSatellites: true, v1alpha1.PhaseDeleting: false} {
		got := Backup(with(phase, is(conditions.BackupReady, metav1.ConditionFalse)))
		if want := (Notice{Short: "BackupReady: R", Long: "m"}); (got == want) != named {
			t.Errorf("%s: %+v", phase, got)
		}
		if got := Backup(with(phase, is(conditions.BackupReady, metav1.ConditionUnknown))); got.Short != "" {
			t.Errorf("%s: %+v", phase, got)
		}
	}
}
