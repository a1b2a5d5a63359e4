package phases

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/affinity"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/canary"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/certificates"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/controller"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/database"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/databasebackup"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/drainguard"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/highavailability"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/hold"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/judge"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/managedetcd"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/migrating"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/module"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/monitoring"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/nodelabels"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/pools"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/registration"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/restored"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/satellites"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/snapshotclass"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/specchange"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/upgrade"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/volumedriver"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

// Links is the chain in its order.
func Links() []step.Link {
	return []step.Link{module.Link(), database.Link(), controller.Link(), satellites.Link(), registration.Link(),
		pools.Link(), volumedriver.Link(), canary.Link()}
}

// Judge makes the snapshot of facts, with the evidence of all links.
func Judge(f cluster.Facts) *cluster.Snapshot { return judge.Facts(f, Links()) }

// LinkOf finds the link that a state brings about; ok is false if the state brings about none.
func LinkOf(state fsm.State) (l step.Link, ok bool) {
	for _, l := range Links() {
		if l.State == state {
			return l, true
		}
	}
	return step.Link{}, false
}

// Decide runs one step: the interrupts in their order, else the state's handler, and the deadline of the state.
func Decide(ctx context.Context, in *step.Input) step.Outcome {
	s := in.Snapshot
	state := fsm.State(s.Phase())
	if o, ends := first(ctx, in, state); ends {
		return o
	}
	h, ok := handlers()[state]
	if !ok {
		return step.Fail(fmt.Errorf("%w %q", fsm.ErrUnknownState, state))
	}
	snapshotclass.Ensure(in)
	if state != fsm.Deleting { // it removes them when nobody speaks to LINSTOR any more
		certificates.Work(ctx, in)
		managedetcd.Work(ctx, in)
	}
	failed := errors.Join(nodelabels.Bar(ctx, in), volumedriver.StopOnForeignData(ctx, in),
		affinity.StopOnForeignData(ctx, in), migrating.KeepStopped(ctx, in), restored.Stop(ctx, in))
	o := h(ctx, in)
	keepAside(ctx, in, state)
	if state == fsm.Deleting {
		in.FailedAside(conditions.BackupReady, errors.Join(migrating.Tidy(ctx, in), migrating.Forget(ctx, in)))
	} else { // it removes the others, or keeps them up as long as there are volumes
		drainguard.Work(ctx, in)
		databasebackup.Work(ctx, in)
		in.FailedAside(conditions.BackupReady, errors.Join(migrating.Tidy(ctx, in), migrating.Forget(ctx, in)))
	}
	if failed != nil && o.Kind == step.KindWait {
		o = step.Fail(failed)
	}
	if o.Kind == step.KindWait {
		o.Message += answerTrouble(in)
	}
	if late := Overdue(s, state, &o); late != nil {
		o = step.NeedsHuman(*late)
	}
	if o.Kind == step.KindHold && o.Event != "" && specchange.Working(&s.Facts) && s.SpecPending() {
		// What has begun does not come to an end; nobody shall be asked about a spec that is not wanted any more.
		return step.Move(fsm.SpecChanged, "SpecChanged",
			fmt.Sprintf("applying generation %d of the spec, because the previous one could not be completed: %s",
				s.Cluster.Generation, text.Sentence(o.Message)))
	}
	if o.Kind == step.KindHold && o.Event != "" {
		upgrade.Offer(s, o.Hold)
		o.Message = o.Hold.Message
	}
	return o
}

// first looks at what comes before the state's handler: interrupts, and an accepted spec that follows the data.
func first(ctx context.Context, in *step.Input, state fsm.State) (o step.Outcome, ends bool) {
	for _, i := range interrupts() {
		if !slices.Contains(i.In, state) {
			continue
		}
		if o, hits := i.Look(in.Snapshot); hits {
			return o, true
		}
	}
	a, err := specchange.Follow(ctx, in)
	switch {
	case err != nil:
		return step.Fail(err), true
	case a != nil:
		const message = "LINSTOR's data has been moved or rolled back: the accepted spec is being updated to match"
		return step.Wait("Accepted", message, in.Snapshot.Timing.PollWorking).With(a), true
	default:
		return o, false
	}
}

// keepAside keeps what no phase waits for, but where nothing is changed, or all goes.
func keepAside(ctx context.Context, in *step.Input, state fsm.State) {
	if in.Snapshot.Target != nil && state != fsm.Deleting && state != fsm.HumanIntervention {
		monitoring.Work(ctx, in)
		highavailability.Work(ctx, in)
		affinity.Work(ctx, in)
	}
}

// racesEnd is how much longer than its deadline a phase may go on while its writes are refused because an object has
// changed. The next look decides on what it is then, so that no human needs to answer for it. Whoever is refused for
// that long fights with somebody.
const racesEnd = time.Minute

// lostRace reports whether a step failed because an object was not any more what it was decided on.
func lostRace(o *step.Outcome) bool { return o.Kind == step.KindFail && apierrors.IsConflict(o.Err) }

// Overdue is the hold for a state that has gone on for longer than its deadline; nil if it may go on.
func Overdue(s *cluster.Snapshot, state fsm.State, o *step.Outcome) *cluster.HoldRequest {
	deadline, working := s.Timing.Deadlines[state]
	if !working || o.Kind != step.KindWait && o.Kind != step.KindFail || o.Acceptance != nil || s.PhaseAge() <= deadline {
		return nil
	}
	if excused(s, state, o, deadline) {
		return nil
	}
	h := cluster.Request(v1alpha1.HoldOperationFailed, "no progress for %s: %s", deadline, o.Message)
	if state == fsm.Migrating {
		return migrating.Late(s, h)
	}
	if o.Kind == step.KindFail {
		return h
	}
	link, ok := LinkOf(state)
	if ok {
		h.Reason = link.Hold
	}
	if state == fsm.Upgrading {
		upgrade.Late(s, h)
	}
	if o.Reason == conditions.ReasonNoMatchingNodes {
		h.Reason = v1alpha1.HoldNoMatchingNodes
	}
	nameMembers(h, s, link)
	return h
}

// excused reports whether a state may go on although its deadline is over.
func excused(s *cluster.Snapshot, state fsm.State, o *step.Outcome, deadline time.Duration) bool {
	switch {
	case lostRace(o) && s.PhaseAge() <= deadline+racesEnd:
		return true
	case state == fsm.Database: // each wait for a member of etcd has a bound and a hold of its own
		return o.Kind == step.KindWait && database.WaitsForEtcd(o.Reason)
	default: // holds of pools are open already, and time does not answer them
		return state == fsm.StoragePools && pools.OnlyApprovalLacks(s)
	}
}

// nameMembers puts the members with trouble that a hold is about into it, and the first trouble into its message. A
// member that the link lets through is not what the hold is about, whatever trouble it has later.
func nameMembers(h *cluster.HoldRequest, s *cluster.Snapshot, l step.Link) {
	for _, m := range s.Members {
		through := l.PerMember() && l.Through(m)
		if m.Problem == nil || !m.Counts() || through || len(h.Nodes) == hold.MostHeldNodes {
			continue
		}
		if len(h.Nodes) == 0 && !strings.Contains(h.Message, m.Problem.Message) {
			h.Message += fmt.Sprintf("; node %s: %s", m.Name, m.Problem.Message)
		}
		h.Nodes = append(h.Nodes, m.Name)
	}
}
