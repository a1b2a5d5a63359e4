package cluster

import (
	"cmp"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
)

// Phase is the phase that the status names; Pending if none.
func (f *Facts) Phase() v1alpha1.Phase {
	return cmp.Or(f.Cluster.Status.Phase, v1alpha1.PhasePending)
}

// PhaseAge is how long the phase has gone on without progress. Time in which it was suspended before does not count.
func (f *Facts) PhaseAge() time.Duration {
	begin := LastProgress(&f.Cluster.Status)
	if begin.IsZero() {
		return 0
	}
	return f.Now.Sub(begin)
}

// LastProgress is when the phase began or last made progress, or when the user last let the cluster go on.
func LastProgress(st *v1alpha1.StorageClusterStatus) time.Time {
	begin := time.Time{}
	for _, t := range []*metav1.Time{st.PhaseSince, st.ProgressSince} {
		if t != nil && t.After(begin) {
			begin = t.Time
		}
	}
	if c := meta.FindStatusCondition(st.Conditions, conditions.Suspended); c != nil &&
		c.LastTransitionTime.After(begin) && !begin.IsZero() {
		begin = c.LastTransitionTime.Time
	}
	return begin
}

// Installed reports whether the phase is one of a cluster that was Ready once.
func (f *Facts) Installed() bool {
	p := f.Phase()
	return p == v1alpha1.PhaseReady || p == v1alpha1.PhaseDegraded || p == v1alpha1.PhaseUpgrading
}

// WasReady reports whether the cluster has been through the whole chain, as far as the status remembers. The phase is
// looked at for the sake of a status that was written before firstReady was noted.
func (f *Facts) WasReady() bool { return f.Installed() || f.Cluster.Status.FirstReady != nil }

// ConditionAge is for how long a condition of the StorageCluster has had a status; zero if it has another one.
func (f *Facts) ConditionAge(kind string, status metav1.ConditionStatus) time.Duration {
	c := meta.FindStatusCondition(f.Cluster.Status.Conditions, kind)
	if c == nil || c.Status != status || c.LastTransitionTime.IsZero() {
		return 0
	}
	return f.Now.Sub(c.LastTransitionTime.Time)
}

// UnavailableFor is how long LINSTOR's API has not answered.
func (f *Facts) UnavailableFor() time.Duration {
	if f.Linstor.Known() {
		return 0
	}
	return f.ConditionAge(conditions.Available, metav1.ConditionFalse)
}

// Silent reports whether LINSTOR's API has been silent for as long as makes a cluster Degraded.
func (f *Facts) Silent() bool {
	return !f.Linstor.Known() && f.UnavailableFor() >= f.Timing.HealthLost
}

// longestStart is how long a start of LINSTOR's controller may take, with all that it changes in its database.
const longestStart = 30 * time.Minute

// Reconnecting reports whether LINSTOR's API has begun to answer so shortly ago that satellites which run may not be
// connected yet: LINSTOR answers one to three seconds before it has connected to any, and calls them OFFLINE so long
// (run with 1.34.0-rc.1). One that it missed is tried again every ten seconds. An operator that was away itself sees
// by the controller's pod that it is young. One that has run and been ready for long has its satellites: a look at it
// that fails now and then must not put off for ever what waits for them. One that is ready again after its node was
// cut off has them not.
func (f *Facts) Reconnecting() bool {
	var since time.Time
	if c := meta.FindStatusCondition(f.Cluster.Status.Conditions, conditions.Available); c != nil {
		since = c.LastTransitionTime.Time
		if c.Status == metav1.ConditionFalse {
			since = f.Now
		}
	}
	for _, p := range f.Kube.ControllerPods {
		if !PodReady(p) {
			continue
		}
		ready := PodCondition(p, corev1.PodReady).LastTransitionTime.Time
		if ready.After(since) {
			since = ready
		}
		for _, c := range p.Status.ContainerStatuses {
			if r := c.State.Running; r != nil && f.Now.Sub(r.StartedAt.Time) > longestStart &&
				f.Now.Sub(ready) >= f.Timing.HealthLost {
				return false
			}
		}
	}
	return f.Linstor.Known() && f.Now.Sub(since) < f.Timing.HealthLost
}

// Connecting reports whether LINSTOR's API has begun to answer a moment ago and it is not connected to all satellites:
// of their nodes it knows neither how pools and copies are, nor what is in use, nor whom DRBD is connected to.
func (f *Facts) Connecting() bool { return f.Reconnecting() && f.Linstor.View.Unreached() }
