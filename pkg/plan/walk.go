package plan

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/specchange"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/plan/result"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

// mostSteps bounds how many steps of the machine are planned.
const mostSteps = 16

// phases leads the edited object through the machine, as far as its handlers go on what is known now. From the first
// phase on that has work to do, the table says what follows.
func (p *planner) phases(ctx context.Context) {
	w := walk{planner: p, table: fsm.Cluster(), facts: p.seen.Facts, state: fsm.State(p.seen.Phase())}
	w.c = w.facts.Cluster.DeepCopy()
	w.c.Spec.Suspend = false
	w.facts.Cluster = w.c
	for range mostSteps {
		if !w.step(ctx) {
			return
		}
	}
}

// walk is a way through the machine.
type walk struct {
	*planner
	table *fsm.Table
	facts cluster.Facts
	// c is the object in facts, which changes from step to step.
	c      *v1alpha1.StorageCluster
	state  fsm.State
	waited bool
}

// step is one step of the machine; false at the end of the way.
func (w *walk) step(ctx context.Context) bool {
	s := phases.Judge(w.facts)
	o := phases.Decide(ctx, (&record{}).input(s))
	w.c.Status.ObservedGeneration = w.c.Generation
	if a := o.Acceptance; a != nil {
		w.facts.Target, w.facts.Certificates = w.after.Target, w.after.Certificates
		w.facts.PassphraseDiffers, w.facts.Etcd = w.after.PassphraseDiffers, w.after.Etcd
		w.c.Status.AcceptedGeneration, w.c.Status.Target, w.c.Status.Version = a.Generation, a.Revision, a.Version
	}
	if o.Event == "" {
		return o.Acceptance != nil || w.stays(s, &o)
	}
	next, ok := w.table.Next(w.state, o.Event)
	if !ok {
		return false
	}
	w.enter(next, o.Message)
	if next == fsm.HumanIntervention && o.Hold != nil {
		w.out.Holds = append(w.out.Holds, result.Hold{Reason: string(o.Hold.Reason), Message: o.Hold.Message,
			Options: options(o.Hold)})
	}
	w.move(next)
	return next != fsm.HumanIntervention
}

func (w *walk) move(next fsm.State) {
	if w.state == fsm.HumanIntervention {
		w.c.Status.Hold = nil
	}
	w.state = next
	w.c.Status.Phase, w.c.Status.ProgressSince = v1alpha1.Phase(next), nil
	w.c.Status.PhaseSince = &metav1.Time{Time: w.facts.Now}
}

// stays is what follows on a step that stays where it is.
func (w *walk) stays(s *cluster.Snapshot, o *step.Outcome) (goesOn bool) {
	switch {
	case w.state == fsm.Assessing:
		w.out.Unknown = append(w.out.Unknown, "which phases follow: "+text.Sentence(o.Message))
	case w.state == fsm.HumanIntervention:
		w.out.Notes = append(w.out.Notes, "the cluster stays in HumanIntervention: "+text.Sentence(o.Message))
	case s.SpecPending() && specchange.Working(&s.Facts) && !w.waited:
		w.waited = true
		w.enter(fsm.Assessing, fmt.Sprintf("the edit is accepted once phase %s has finished or failed", w.state))
		w.move(fsm.Assessing)
		return true
	case len(w.out.Phases) > 0 || specchange.Working(&s.Facts):
		if w.state == fsm.Upgrading && o.Message != "" {
			w.out.Notes = append(w.out.Notes, "first step in the Upgrading phase: "+text.Sentence(o.Message))
		}
		if o.Reason == conditions.ReasonNoMatchingNodes {
			w.unknown("what follows phase %s, which is waiting for the spec to select a node", w.state)
			return false
		}
		w.rest()
	}
	return false
}

// enter adds a phase.
func (w *walk) enter(state fsm.State, why string) {
	w.out.Phases = append(w.out.Phases, result.Phase{Name: string(state), Why: text.Sentence(why)})
}

// rest adds what the table has after a phase with work to do.
func (w *walk) rest() {
	for state := w.state; state != fsm.Assessing; {
		next, ok := w.table.Next(state, fsm.Advanced)
		if !ok {
			return
		}
		w.enter(next, "")
		state = next
	}
	for _, state := range []fsm.State{fsm.VolumeDriver, fsm.Canary} {
		if e := w.after.Evidence[state]; !e.OK() && state != w.state {
			w.enter(state, e.Message)
			w.enter(fsm.Assessing, "")
		}
	}
	w.enter(fsm.Ready, "")
}
