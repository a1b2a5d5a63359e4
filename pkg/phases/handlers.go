package phases

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/pkg/pace"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/canary"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/deleting"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/judge"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/leaving"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/managedetcd"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/migrating"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/nodelabels"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/registration"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/satellites"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/specchange"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/upgrade"
)

// handler does what can be done in one state now, and says how it ended. It is repeated on every reconcile there.
type handler func(ctx context.Context, in *step.Input) step.Outcome

// handlers are the handlers of all states.
func handlers() map[fsm.State]handler {
	links := Links()
	out := map[fsm.State]handler{
		fsm.Pending:           acceptFirst,
		fsm.Assessing:         assess,
		fsm.Upgrading:         afterData(upgrade.Run),
		fsm.Migrating:         migrate,
		fsm.Ready:             steadyHandler{links, fsm.HealthLost}.Run,
		fsm.Degraded:          steadyHandler{links, fsm.HealthRegained}.Run,
		fsm.HumanIntervention: intervene,
		fsm.Deleting:          deleting.Handler{Links: links, KeepAnswer: KeepAnswer}.Run,
	}
	for i := range links {
		out[links[i].State] = afterData(chainHandler{links[:i+1]}.Run)
	}
	return out
}

// dataQuestion is the hold about a LINSTOR that runs on other data than this cluster's, or on later ones; nil if there
// is none. It comes before all others: what LINSTOR says counts as unknown until it is answered, so that nothing goes
// on, and most other holds can neither be answered nor end by themselves.
func dataQuestion(s *cluster.Snapshot) *cluster.HoldRequest {
	if e := s.Evidence[fsm.Database]; s.Linstor.Foreign != nil && e.State == cluster.Failed {
		return e.Hold
	}
	return nil
}

// afterData runs a handler once it is known whose data LINSTOR runs on. Nodes that join wait for LINSTOR, and so does
// an upgrade: they would wait for ever, or for half an hour, and nobody would learn why.
func afterData(h handler) handler {
	return func(ctx context.Context, in *step.Input) step.Outcome {
		if q := dataQuestion(in.Snapshot); q != nil {
			return step.NeedsHuman(*q)
		}
		return h(ctx, in)
	}
}

// migrate asks whose data LINSTOR runs on before LINSTOR is stopped for a move: with its state in Kubernetes it may be
// the only one to have some of it. A restore may be the answer to that question.
func migrate(ctx context.Context, in *step.Input) step.Outcome {
	q := dataQuestion(in.Snapshot)
	if q == nil || in.Snapshot.Move == nil {
		return migrating.Run(ctx, in)
	}
	if err := migrating.SpoilIfRan(ctx, in); err != nil {
		return step.Fail(err)
	}
	return step.NeedsHuman(*q)
}

// acceptFirst accepts the first spec.
func acceptFirst(ctx context.Context, in *step.Input) step.Outcome {
	return accept(ctx, in, step.Move(fsm.Accepted, "Accepted",
		"the spec has been accepted with LINSTOR "+in.Snapshot.WantedVersion()))
}

// accept keeps the wanted spec, unless it is refused, and ends with the outcome.
func accept(ctx context.Context, in *step.Input, o step.Outcome) step.Outcome {
	if h := specchange.Refuse(in.Snapshot); h != nil {
		return step.NeedsHuman(*h)
	}
	a, err := specchange.Accept(ctx, in)
	if err != nil {
		return step.Fail(err)
	}
	return o.With(a)
}

// assess looks for the first link that is not satisfied.
func assess(ctx context.Context, in *step.Input) step.Outcome {
	s := in.Snapshot
	if o, ends := beforeLinks(ctx, in); ends {
		return o
	}
	all, patient := true, s.PhaseAge() < s.Timing.Deadlines[fsm.Assessing]
	for _, l := range Links() {
		e := s.Evidence[l.State]
		if e.State == cluster.Unknown && l.State != fsm.Controller && patient {
			return step.Wait(e.Reason, e.Message, s.Timing.PollWorking)
		}
		if ms := unconnected(s); len(ms) > 0 && l.State == fsm.NodeRegistration && patient {
			return step.Wait("Reconnecting", "LINSTOR is responding again, but is not yet connected to "+
				satellites.MemberNames(ms), s.Timing.PollWorking)
		}
		if !e.OK() {
			return step.Move(l.Missing, e.Reason, e.Message)
		}
		all = all && e.State == cluster.Satisfied
	}
	if all {
		return step.Move(fsm.Converged, "Converged", convergedMessage(s))
	}
	return step.Move(fsm.ConvergedDegraded, "ConvergedDegraded", judge.MissingMembers(s))
}

// unconnected are the members that are only to be waited for while a LINSTOR that was started a moment ago connects to
// its satellites. Judged without them the cluster would have lost them, or those that were restarted a moment before
// would be excused: a cluster once became Ready with none of its nodes online.
func unconnected(s *cluster.Snapshot) []*cluster.Member {
	if !s.Reconnecting() {
		return nil
	}
	return s.Where(func(m *cluster.Member) bool {
		return m.Counts() && m.WasOnline && m.PodReady && !m.Online && !m.Outdated && registration.InterfacesMatch(s, m)
	})
}

// beforeLinks is what Assessing does before it looks at links, and reports whether it ends with that.
func beforeLinks(ctx context.Context, in *step.Input) (o step.Outcome, ends bool) {
	s := in.Snapshot
	q := dataQuestion(s)
	if h := managedetcd.Urgent(s); h != nil && q == nil && !specchange.Acceptable(s) { // which may be the cure
		return step.NeedsHuman(*h), true
	}
	if o, is := migrating.First(s); is && (q == nil || s.Move == nil) { // a restore may be the answer to it
		return o, true
	}
	if q != nil && !specchange.Acceptable(s) { // and so may a spec that can be accepted
		return step.NeedsHuman(*q), true
	}
	if s.Target == nil || s.SpecPending() {
		// Accepting and taking up work are two steps: everything below is judged against the accepted spec.
		return accept(ctx, in, step.Wait("Accepted", "the changed spec has been accepted", s.Timing.PollWorking)), true
	}
	if err := nodelabels.Write(ctx, in); err != nil {
		return step.Fail(err), true
	}
	if u := s.Upgrade; u != nil {
		return step.Move(fsm.UpgradePending, string(u.Step),
			fmt.Sprintf("LINSTOR will be upgraded from %s to %s", u.From, u.To)), true
	}
	return step.Outcome{}, false
}

// convergedMessage says what the nodes have, and what is still changed on them in good order.
func convergedMessage(s *cluster.Snapshot) string {
	switch missing := s.Counted() - s.Complete(); {
	case missing == 1:
		return judge.MissingMembers(s) + " (its satellite is being restarted)"
	case missing > 1:
		return judge.MissingMembers(s) + " (their satellites are being restarted)"
	}
	if left := registration.PreferencesMessage(s); left != "" {
		return fmt.Sprintf("all %d nodes are online and have their pools", s.Counted()) + left
	}
	return fmt.Sprintf("all %d nodes match the spec", s.Counted())
}

// chainHandler brings the last of its links about, keeps up the ones before it, and begins what can be begun of those
// after it.
type chainHandler struct{ links []step.Link }

func (h chainHandler) Run(ctx context.Context, in *step.Input) step.Outcome {
	s := in.Snapshot
	o, ends, failed := workOn(ctx, in, h.links)
	if ends {
		return o
	}
	if hold := satellites.RollStuck(s); hold != nil && len(h.links) > slices.Index(fsm.Chain(), fsm.Satellites) {
		return step.NeedsHuman(*hold)
	}
	link := h.links[len(h.links)-1]
	e := s.Evidence[link.State]
	switch {
	case e.State == cluster.Satisfied, e.State == cluster.Enough && (e.Waiting == 0 || s.PhaseAge() > s.Timing.Straggler):
		return step.Move(fsm.Advanced, e.Reason, e.Message)
	case e.State == cluster.Failed:
		return step.NeedsHuman(*e.Hold)
	}
	if err := errors.Join(failed, ahead(ctx, in, h.links)); err != nil {
		return step.Fail(err)
	}
	return step.Wait(e.Reason, e.Message, s.Timing.PollWorking)
}

// workOn does the work of links in their order. What one cannot write does not keep the others from theirs. It ends
// with an outcome where what follows must not be worked on: a database that is not ours or could not be claimed, or a
// passphrase that would lock LINSTOR out.
func workOn(ctx context.Context, in *step.Input, links []step.Link) (o step.Outcome, ends bool, failed error) {
	s := in.Snapshot
	late := awayForLong(s)
	for _, l := range links {
		// A controller or database that is away is Degraded first; a database that is not ours, or a passphrase that would
		// lock the controller out, must not be worked with at all.
		if e := s.Evidence[l.State]; e.State == cluster.Failed && !l.PerMember() &&
			(late || !questionOf(e.Hold.Reason).Patient) {
			return step.NeedsHuman(*e.Hold), true, nil
		}
		err := l.Work(ctx, in)
		if failed = errors.Join(failed, err); err != nil && l.State == fsm.Database {
			return step.Fail(failed), true, nil
		}
	}
	return step.Outcome{}, false, failed
}

// awayForLong reports whether LINSTOR was away for so long that a human is asked about it. While its etcd has no
// quorum, that is what is asked about.
func awayForLong(s *cluster.Snapshot) bool {
	return s.UnavailableFor() > s.Timing.Escalate && !s.Etcd.Recovers()
}

// steadyHandler keeps the cluster true: it takes in nodes that join, repairs what single nodes lost, and watches
// health.
type steadyHandler struct {
	links []step.Link
	event fsm.Event
}

func (h steadyHandler) Run(ctx context.Context, in *step.Input) step.Outcome {
	s := in.Snapshot
	o, ends, failed := workOn(ctx, in, h.links)
	if ends {
		return o
	}
	failed = errors.Join(failed, leaving.Leave(ctx, in))
	if h := satellites.RollStuck(s); h != nil {
		return step.NeedsHuman(*h)
	}
	if awayForLong(s) {
		return step.NeedsHuman(cluster.HoldRequest{Reason: v1alpha1.HoldControllerFailed, Message: fmt.Sprintf(
			"the LINSTOR API has not responded for %s; volumes keep working, but nothing can be created or changed",
			s.Timing.Escalate)})
	}
	health := s.Health
	due := judge.DegradedFor(&s.Facts, health.Degraded)
	switch {
	case h.event == fsm.HealthLost && health.Degraded && due >= s.Timing.HealthLost,
		h.event == fsm.HealthRegained && !health.Degraded && due >= s.Timing.HealthRegained:
		return step.Move(h.event, health.Reason, health.Message)
	case failed != nil:
		return step.Fail(failed)
	case h.event == fsm.HealthLost && health.Degraded:
		return step.Wait(health.Reason, health.Message, min(s.Timing.HealthLost-due, PollUnfinished(s)))
	case h.event == fsm.HealthRegained && !health.Degraded:
		// Since when, and not for how long: a message that counts is a write at each look.
		return step.Wait(health.Reason, fmt.Sprintf("the cluster has been healthy since %s; the phase becomes Ready "+
			"after %s without problems", s.Now.Add(-due).UTC().Format(time.TimeOnly), s.Timing.HealthRegained),
			s.Timing.HealthRegained-due)
	default:
		return step.Wait(health.Reason, health.Message, PollUnfinished(s))
	}
}

// PollUnfinished is when a steady state looks again: soon while a member is on its way in LINSTOR, or satellites are
// restarted, preferred interfaces change, or a volume is tried: the next step waits for what LINSTOR says of the last
// one. A node that is down would keep the operator busy for nothing.
func PollUnfinished(s *cluster.Snapshot) time.Duration {
	underWay := s.Linstor.Known() && (judge.Rolling(&s.Facts) || s.Preferences.Next != nil || s.Preferences.Settling ||
		s.Evidence[fsm.Canary].Reason == canary.ReasonRunning ||
		s.Count(func(m *cluster.Member) bool { return onItsWay(m.State) }) > 0)
	return pace.Poll(s.Timing, underWay || s.Etcd.UnderWay())
}

// onItsWay reports whether a member in that state goes on by what is written to LINSTOR.
func onItsWay(n v1alpha1.NodeState) bool {
	return n == v1alpha1.NodeRegistering || n == v1alpha1.NodeCreatingPools || n == v1alpha1.NodeStartingDriver
}

// Unfinished reports whether any member was on its way in LINSTOR, or a volume was tried, when the status was written.
func Unfinished(st *v1alpha1.StorageClusterStatus) bool {
	return canary.Running(st) || slices.ContainsFunc(st.Nodes.States,
		func(c v1alpha1.NodeStateCount) bool { return onItsWay(c.State) })
}
