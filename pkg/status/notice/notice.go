// Package notice finds conditions that are not as they should be, for the column ATTENTION of kubectl get: what a user
// has to act on must not be in a condition alone, which he reads only if he knows that something is wrong.
package notice

import (
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/snapshotclass"
)

// Notice is one thing to look at. None has no Short.
type Notice struct {
	// Short is for the column, Long for the message; Long is "" where that says it already.
	Short, Long string
}

// Steady reports whether a cluster in the phase has all that the spec asks for, or had it.
func Steady(p v1alpha1.Phase) bool { return p == v1alpha1.PhaseReady || p == v1alpha1.PhaseDegraded }

// Class is about a StorageClass of which no volume can be made. In an installation pools are missing anyway.
func Class(st *v1alpha1.StorageClusterStatus) Notice {
	c := meta.FindStatusCondition(st.Conditions, conditions.StorageClassesReady)
	if c == nil || c.Status != metav1.ConditionFalse || !Steady(st.Phase) {
		return Notice{}
	}
	name, _, _ := strings.Cut(c.Message, ":")
	return Notice{Short: "StorageClass " + name + ": " + c.Reason}
}

// Backup is about backups that cannot be taken, in whatever phase.
func Backup(st *v1alpha1.StorageClusterStatus) Notice {
	c := meta.FindStatusCondition(st.Conditions, conditions.BackupReady)
	if c == nil || c.Status != metav1.ConditionFalse || st.Phase == v1alpha1.PhaseDeleting {
		return Notice{}
	}
	return of(c)
}

// watched are conditions of a cluster that is up, the most urgent first. What has a notice of its own is not among
// them.
var watched = []string{
	conditions.CertificatesValid, conditions.Available, conditions.DatabaseReady, conditions.ControllerReady,
	conditions.SatellitesReady, conditions.NodesRegistered, conditions.StoragePoolsReady, conditions.VolumeDriverReady,
	conditions.CanaryPassed, conditions.KernelModuleLoaded, conditions.Ready, conditions.SnapshotsReady,
	conditions.HighAvailabilityReady, conditions.DrainGuardReady, conditions.AffinityReady, conditions.MonitoringReady,
}

// expected are reasons of conditions that are False where nothing is wrong: snapshots are taken where Kubernetes has
// their API, and most distributions lack it.
var expected = []string{snapshotclass.ReasonNoAPI}

// Lasting is about a condition of a cluster that is up and that has been False, or Degraded True, for as long: what is
// being made or changed is so for a moment.
func Lasting(st *v1alpha1.StorageClusterStatus, now time.Time, long time.Duration) Notice {
	if !Steady(st.Phase) {
		return Notice{}
	}
	is := func(kind string, status metav1.ConditionStatus) *metav1.Condition {
		c := meta.FindStatusCondition(st.Conditions, kind)
		if c == nil || c.Status != status || slices.Contains(expected, c.Reason) ||
			now.Sub(c.LastTransitionTime.Time) < long {
			return nil
		}
		return c
	}
	for _, kind := range watched {
		if c := is(kind, metav1.ConditionFalse); c != nil {
			return of(c)
		}
	}
	if c := is(conditions.Degraded, metav1.ConditionTrue); c != nil {
		return of(c)
	}
	return Notice{}
}

func of(c *metav1.Condition) Notice { return Notice{Short: c.Type + ": " + c.Reason, Long: c.Message} }
