package status

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
)

func TestDeadline(t *testing.T) {
	at := func(d time.Duration) *metav1.Time { out := metav1.NewTime(begin.Add(d)); return &out }
	s := judged(t, v1alpha1.PhaseSatellites, 3)
	limit := s.Timing.Deadlines[fsm.Satellites]
	check := func(when string, st *v1alpha1.StorageClusterStatus, want *metav1.Time) {
		t.Helper()
		if got := st.Deadline; (got == nil) != (want == nil) || got != nil && !got.Equal(want) {
			t.Errorf("%s: %v, want %v", when, got, want)
		}
	}
	first := Project(resting(s))
	check("a phase that works", first, at(limit)) // the conditions are new, so that it was not suspended until now
	s = next(s, first, time.Minute)
	s.Cluster.Status.ProgressSince = at(30 * time.Second)
	check("it made progress", Project(resting(s)), at(limit+30*time.Second))
	check("the next phase", Project(transition(s, fsm.Advanced, fsm.NodeRegistration, "m")),
		at(time.Minute+s.Timing.Deadlines[fsm.NodeRegistration]))
	check("Ready", Project(transition(s, fsm.Converged, fsm.Ready, "m")), nil)
	check("held", Project(transition(s, fsm.HumanNeeded, fsm.HumanIntervention, "m")), nil)
	s.Cluster.Spec.Suspend = true
	check("suspended", Project(resting(s)), nil)
}

// The history is short, and what a satellite's restart means depends on whether the cluster was Ready once.
func TestFirstReady(t *testing.T) {
	s := judged(t, v1alpha1.PhaseAssessing, 3)
	st := Project(transition(s, fsm.ConvergedDegraded, fsm.Degraded, "m"))
	if st.FirstReady == nil || !st.FirstReady.Time.Equal(begin) {
		t.Fatalf("%v", st.FirstReady)
	}
	for i, to := range []fsm.State{fsm.Ready, fsm.Assessing, fsm.KernelModule, fsm.Ready} {
		s = next(s, st, time.Minute)
		if st = Project(transition(s, "x", to, "m")); !st.FirstReady.Time.Equal(begin) {
			t.Errorf("step %d: %v", i, st.FirstReady)
		}
	}
}
