// Package invariants holds what must be true at every step of every end-to-end test, whatever the test is about.
// Nothing in here asks the operator's own code: what it counts and allows is stated once more.
package invariants

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/pkg/kube"
)

const (
	// historyLength is how many phase changes a status keeps.
	historyLength = 5
	// statusLimit bounds a status in bytes.
	statusLimit = 64 << 10
)

// Status compares each version of a StorageCluster with the one before it. The zero value is ready for use.
type Status struct {
	last *v1alpha1.StorageCluster
}

// Baseline takes a version that was judged before: the next one is compared with it.
func (s *Status) Baseline(c *v1alpha1.StorageCluster) { s.last = c }

// Observe takes the next version and returns what is wrong with it.
func (s *Status) Observe(c *v1alpha1.StorageCluster) []string {
	before := s.last
	s.last = c
	if c.Status.Phase == "" || before != nil && before.UID == c.UID && editedByHand(before, c) {
		return nil // not written yet, or not by the operator, which goes on from what it finds
	}
	faults := &faultList{version: c.ResourceVersion}
	checkForm(c, faults)
	checkConditions(&c.Status, faults)
	if before == nil || before.UID != c.UID || before.Status.Phase == "" {
		begin := &v1alpha1.StorageCluster{}
		begin.Status.Phase = v1alpha1.PhasePending
		before = begin
	}
	checkSteps(&before.Status, &c.Status, faults)
	return faults.list
}

type faultList struct {
	version string
	list    []string
}

func (f *faultList) add(format string, args ...any) {
	f.list = append(f.list, fmt.Sprintf("StorageCluster version %s: ", f.version)+fmt.Sprintf(format, args...))
}

// checkForm judges one version alone.
func checkForm(c *v1alpha1.StorageCluster, faults *faultList) {
	st := &c.Status
	raw, err := json.Marshal(st)
	if err != nil || len(raw) >= statusLimit {
		faults.add("the status has %d bytes (%v), %d are allowed: look for a list without a bound", len(raw), err,
			statusLimit)
	}
	for _, kind := range conditions.Types() {
		cond := meta.FindStatusCondition(st.Conditions, kind)
		switch {
		case cond == nil:
			faults.add("condition %s is absent: all must be there from the first write on", kind)
		case cond.Reason == "" || cond.Message == "" || cond.ObservedGeneration > c.Generation ||
			cond.LastTransitionTime.IsZero():
			faults.add("condition %s lacks reason, message or time, or is about a generation to come: %+v", kind, *cond)
		}
	}
	if len(st.History) > historyLength {
		faults.add("the history has %d entries, %d are allowed", len(st.History), historyLength)
	}
	if st.ObservedGeneration > c.Generation {
		faults.add("observedGeneration %d is above generation %d", st.ObservedGeneration, c.Generation)
	}
	held := st.Phase == v1alpha1.PhaseHumanIntervention
	if held != (st.Hold != nil) && st.Phase != v1alpha1.PhaseDeleting {
		faults.add("phase %s with hold %+v: a hold of the cluster and the phase HumanIntervention belong together", st.Phase,
			st.Hold)
	}
}

// checkSteps judges what happened between two versions. The history tells all steps, even if a version was not seen.
func checkSteps(before, after *v1alpha1.StorageClusterStatus, faults *faultList) {
	steps, ok := newSteps(before, after)
	if !ok {
		faults.add("the history does not continue the one before, or does not lead from phase %s to %s: a phase was set "+
			"without an event, or the history was rewritten\nbefore: %s\nafter:  %s",
			before.Phase, after.Phase, brief(before.History), brief(after.History))
		return
	}
	table := fsm.Cluster()
	for _, t := range steps {
		if to, ok := table.Next(fsm.State(t.From), fsm.Event(t.Event)); !ok || to != fsm.State(t.To) {
			faults.add("%s --%s--> %s is no edge of the machine: see pkg/fsm/transitions.go", t.From, t.Event, t.To)
		}
	}
	if len(steps) > 0 {
		checkConverged(after, steps[0], faults)
	}
	was, is := before.PhaseSince, after.PhaseSince
	switch {
	case is == nil:
		faults.add("phaseSince is absent")
	case was != nil && is.Before(was):
		faults.add("phaseSince went back from %s to %s", was, is)
	case len(steps) == 0 && was != nil && !is.Equal(was):
		faults.add("phaseSince changed from %s to %s although the phase did not", was, is)
	case len(steps) > 0 && !is.Equal(&steps[0].Time):
		faults.add("phaseSince is %s, the last change of phase was at %s", is, steps[0].Time)
	}
}

// checkConverged wants the nodes that are needed to be online when the work on a cluster ends, but for as many as are
// restarted at a time, a quarter. It once ended with none of them, after somebody had deleted all satellites.
func checkConverged(st *v1alpha1.StorageClusterStatus, last v1alpha1.Transition, faults *faultList) {
	if e := fsm.Event(last.Event); e != fsm.Converged && e != fsm.ConvergedDegraded {
		return
	}
	if n := &st.Nodes; n.Online+max(1, n.Total/4) < n.MinReady {
		faults.add("%s led to %s with %d of %d nodes online, and %d are needed", last.Event, last.To, n.Online, n.Total,
			n.MinReady)
	}
}

// newSteps are the entries that the later history has before those of the earlier one, the newest first; false if the
// later one does not continue the earlier one.
func newSteps(before, after *v1alpha1.StorageClusterStatus) ([]v1alpha1.Transition, bool) {
	was, is := before.History, after.History
	for n := range len(is) + 1 {
		kept := is[n:]
		whole := len(kept) == len(was) || len(kept) < len(was) && len(is) == historyLength
		if whole && sameSteps(kept, was) && leads(is[:n], before.Phase, after.Phase) {
			return is[:n], true
		}
	}
	return nil, false
}

func sameSteps(kept, was []v1alpha1.Transition) bool {
	for i := range kept {
		a, b := kept[i], was[i]
		if !a.Time.Equal(&b.Time) {
			return false
		}
		a.Time, b.Time = metav1.Time{}, metav1.Time{}
		if a != b {
			return false
		}
	}
	return true
}

// leads reports whether steps, the newest first, go from one phase to another without a gap and without going back in
// time.
func leads(steps []v1alpha1.Transition, from, to v1alpha1.Phase) bool {
	at, since := from, metav1.Time{}
	for i := len(steps) - 1; i >= 0; i-- {
		if steps[i].From != at || steps[i].Time.Before(&since) {
			return false
		}
		at, since = steps[i].To, steps[i].Time
	}
	return at == to
}

func brief(history []v1alpha1.Transition) string {
	out := ""
	for i := len(history) - 1; i >= 0; i-- {
		out += fmt.Sprintf("%s --%s--> %s; ", history[i].From, history[i].Event, history[i].To)
	}
	return out
}

// editedByHand reports whether somebody other than the operator wrote the status between two versions.
func editedByHand(before, after *v1alpha1.StorageCluster) bool {
	was := map[string]metav1.ManagedFieldsEntry{}
	for _, f := range before.ManagedFields {
		if f.Subresource == "status" {
			was[f.Manager] = f
		}
	}
	for _, f := range after.ManagedFields {
		if f.Subresource != "status" || f.Manager == kube.FieldOwner {
			continue
		}
		old, known := was[f.Manager]
		if !known || !f.Time.Equal(old.Time) || f.FieldsV1.Size() > old.FieldsV1.Size() {
			return true
		}
	}
	return false
}
