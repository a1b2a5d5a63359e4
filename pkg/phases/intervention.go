package phases

import (
	"context"
	"fmt"
	"slices"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/holdkind"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/hold"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/managedetcd"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/pools"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

// intervene waits for a human's answer, or for the cause of the hold to go.
func intervene(ctx context.Context, in *step.Input) step.Outcome {
	s := in.Snapshot
	hold := s.Cluster.Status.Hold
	if hold == nil { // somebody edited the status; looking again is safe in any case
		return step.Move(fsm.Cleared, "NoHold", "no hold is recorded")
	}
	if q := dataQuestion(s); comesBefore(s, q, hold) {
		return step.Move(fsm.Cleared, string(q.Reason), "another hold takes priority; this one opens again "+
			"afterward if its cause persists: "+text.OneLine(s.Linstor.Err.Error()))
	}
	if managedetcd.Displaces(s, hold) {
		return step.Move(fsm.Cleared, string(s.Etcd.Decision.Hold.Reason), "another hold takes priority: "+
			text.OneLine(s.Etcd.Message()))
	}
	if in.Answer != nil && in.Answer.Cluster {
		return keep(ctx, in, hold)
	}
	kind := holdkind.Of(hold.Reason)
	now := asksNow(s, hold)
	message, after := hold.Message, s.Timing.PollSteady
	if now != nil {
		message = now.Message
	}
	if kind.Maintains {
		if err := maintain(ctx, in); err != nil {
			message += text.OneLine("; meanwhile, the accepted spec cannot be enforced: " + err.Error())
		}
		after = PollUnfinished(s)
	}
	// When the machines are the registered ones again, or yet others, an answer would be for nothing.
	if (kind.Class == holdkind.Clearing || questionOf(hold.Reason).EndsWithCause) && cleared(ctx, in, hold) {
		return step.Move(fsm.Cleared, string(hold.Reason), "the cause is gone")
	}
	if kind.Class == holdkind.Answer && s.Target != nil && s.SpecPending() {
		message += fmt.Sprintf("; generation %d of the spec is waiting: resume the hold or revert the change",
			s.Cluster.Generation)
	}
	o := step.Wait(string(hold.Reason), message, after)
	o.Hold = now
	return o
}

// asksNow is what the cluster's hold of nodes is about by now: further nodes may have got into the same trouble since
// it began, and others may have got out of it. nil leaves it as it is: where an answer does more than look again, it
// counts for the nodes that somebody has read, and while a node is tried anew it is not known what comes of that.
func asksNow(s *cluster.Snapshot, h *v1alpha1.Hold) *cluster.HoldRequest {
	if h.Reason == v1alpha1.HoldEtcdStuck {
		return etcdAsksNow(s, h)
	}
	if len(h.Nodes) == 0 || !holdkind.Follows(h.Reason, holdkind.Answers(h.Options)) {
		return nil
	}
	if h.Reason == v1alpha1.HoldSatellitesFailed && stuckRoll(s) == hold.CauseStays {
		return nil // the link does not see the roll: it counts a satellite that is not back as one that is through
	}
	for _, l := range Links() {
		e := s.Evidence[l.State]
		if e.State != cluster.Failed || !l.PerMember() || e.Hold.Reason != h.Reason || e.Hold.Pool != h.Pool {
			continue
		}
		triedAnew := func(name string) bool {
			m := s.MemberByName(name)
			return m != nil && m.Counts() && !l.Through(m) && !slices.Contains(e.Hold.Nodes, name)
		}
		if !slices.ContainsFunc(h.Nodes, triedAnew) {
			return e.Hold
		}
	}
	return nil
}

// etcdAsksNow is what the hold about a step of etcd says by now, if it is about the same members: it may have opened a
// moment before the step reported why it fails.
func etcdAsksNow(s *cluster.Snapshot, h *v1alpha1.Hold) *cluster.HoldRequest {
	now := s.Evidence[fsm.Database].Hold
	if now == nil || now.Reason != h.Reason || !slices.Equal(slices.Sorted(slices.Values(now.Nodes)), h.Nodes) {
		return nil
	}
	return now
}

// comesBefore reports whether the question about LINSTOR's data takes the place of the open hold. One about a restore
// may be the answer to it, and stays.
func comesBefore(s *cluster.Snapshot, q *cluster.HoldRequest, open *v1alpha1.Hold) bool {
	return q != nil && q.Reason == s.Linstor.Why && q.Reason != open.Reason && s.Restore == nil
}

// keep keeps the answer to the hold, and lets go of that once the answer is stored.
func keep(ctx context.Context, in *step.Input, hold *v1alpha1.Hold) step.Outcome {
	stored, err := KeepAnswer(ctx, in)
	switch {
	case err != nil:
		return step.Fail(err)
	case stored:
		in.AnswerKept = true
		return step.Move(fsm.Resumed, string(hold.Reason), holdkind.Resumed(hold.ID, in.Answer.Option))
	default:
		return step.Wait(string(hold.Reason), "recording the option "+in.Answer.Option, in.Snapshot.Timing.PollWorking)
	}
}

// maintain keeps the accepted spec true while a human is asked about something else: what somebody removed is put
// back, and nodes that join are taken in. Nothing leaves meanwhile, and nothing is begun that the chain would not have
// begun by itself: before LINSTOR answers, links beyond the first one that is not satisfied wait, and a database or
// controller that failed stops all that follows, unless the question about members of etcd is the one that is open.
func maintain(ctx context.Context, in *step.Input) error {
	s := in.Snapshot
	if s.Target == nil || s.Upgrade != nil {
		return nil
	}
	for _, l := range Links() {
		e := s.Evidence[l.State]
		if e.State == cluster.Failed && !l.PerMember() && !managedetcd.Asked(s, &e) {
			return nil
		}
		if err := l.Work(ctx, in); err != nil {
			return err
		}
		if !e.OK() && !s.Linstor.Known() {
			return nil
		}
	}
	return nil
}

// cleared reports whether the evidence that a hold was about is back. It takes what was missing to be seen, not the
// failure to be out of sight for a moment: a crash loop shows a running container between two crashes.
func cleared(ctx context.Context, in *step.Input, h *v1alpha1.Hold) bool {
	s := in.Snapshot
	if s.Target == nil {
		return false
	}
	q := questionOf(h.Reason)
	if answered, whole := nobodyAsks(s, h); whole {
		return answered
	}
	if q.Cause != nil {
		if cause := q.Cause(in, h); cause != hold.CauseShownByLink {
			return cause == hold.CauseGone
		}
	}
	for _, l := range Links() {
		if l.State == fsm.Database && !s.Evidence[l.State].OK() {
			return false // whose data it is comes before everything that follows
		}
		if slices.Contains(l.ClearsOn, h.Reason) {
			if !holdkind.Of(h.Reason).Maintains && l.ByTrying && l.Work(ctx, in) != nil {
				return false
			}
			return s.Evidence[l.State].OK() && !stillBlocked(s, h.Reason)
		}
	}
	return s.Linstor.Known()
}

// lacksDisks reports whether no disk for the pool is known on the member. That LINSTOR cannot list the disks, or that
// the member is not there to be asked, does not mean that they are back.
func lacksDisks(m *cluster.Member, entry string) bool {
	p := m.Pool(entry)
	if p == nil {
		return false
	}
	other := p.Problem != nil && p.Problem.Hold != "" && p.Problem.Hold != v1alpha1.HoldDeviceMissing
	return !p.Ready && !p.NotWanted && p.Step == pools.StepNone && !other
}

// stillBlocked reports whether the trouble is there on too many members, wherever in the chain it shows: that a module
// loader ran, for example, does not clear a hold about LINSTOR not seeing the module.
func stillBlocked(s *cluster.Snapshot, reason v1alpha1.HoldReason) bool {
	n := s.Count(func(m *cluster.Member) bool { return m.Problem != nil && m.Problem.Hold == reason })
	return n > 0 && s.Counted()-n < s.MinReady()
}
