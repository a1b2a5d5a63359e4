package phases

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
)

// Handler does the work of one state.
type Handler interface {
	// Emits lists the events that Run may fire, besides those of interrupts.
	Emits() []fsm.Event
	// Run does what can be done now and says how it ended. It is repeated on every reconcile in the state.
	Run(ctx context.Context, in *Input) Outcome
}

// Handlers are the handlers of all states.
func Handlers() map[fsm.State]Handler {
	links := Links()
	out := map[fsm.State]Handler{
		fsm.Pending:           pendingHandler{},
		fsm.Assessing:         assessingHandler{links},
		fsm.Upgrading:         upgradeHandler{},
		fsm.Ready:             steadyHandler{links, fsm.HealthLost},
		fsm.Degraded:          steadyHandler{links, fsm.HealthRegained},
		fsm.HumanIntervention: interventionHandler{links},
		fsm.Deleting:          deletingHandler{links},
	}
	for i := range links {
		out[links[i].State()] = chainHandler{links[:i+1]}
	}
	return out
}

// pendingHandler accepts the first spec.
type pendingHandler struct{}

func (pendingHandler) Emits() []fsm.Event { return []fsm.Event{fsm.Accepted, fsm.HumanNeeded} }

func (pendingHandler) Run(ctx context.Context, in *Input) Outcome {
	if h := in.refuse(); h != nil {
		return NeedsHuman(*h)
	}
	a, err := in.accept(ctx)
	if err != nil {
		return Fail(err)
	}
	return Move(fsm.Accepted, "Accepted", "the spec is accepted as LINSTOR "+a.Version).with(a)
}

// assessingHandler looks for the first link that is not satisfied.
type assessingHandler struct{ links []Link }

func (h assessingHandler) Emits() []fsm.Event {
	out := []fsm.Event{fsm.UpgradePending, fsm.Converged, fsm.ConvergedDegraded, fsm.HumanNeeded}
	for _, l := range h.links {
		out = append(out, l.Missing())
	}
	return out
}

func (h assessingHandler) Run(ctx context.Context, in *Input) Outcome {
	if in.Target == nil || in.SpecPending() {
		if hold := in.refuse(); hold != nil {
			return NeedsHuman(*hold)
		}
		a, err := in.accept(ctx)
		if err != nil {
			return Fail(err)
		}
		// Accepting and taking up work are two steps: everything below is judged against the accepted spec.
		return Wait("Accepted", "the changed spec is accepted", in.poll()).with(a)
	}
	if err := in.labelMembers(ctx); err != nil {
		return Fail(err)
	}
	if u := in.upgrade; u != nil {
		return Move(fsm.UpgradePending, string(u.Step), fmt.Sprintf("LINSTOR %s is to become %s", u.From, u.To))
	}
	all := true
	for _, l := range h.links {
		e := l.Evidence(in.Snapshot)
		if e.State == Unknown && l.State() != fsm.Controller && in.PhaseAge() < in.Timing.Deadlines[fsm.Assessing] {
			return Wait(e.Reason, e.Message, in.poll())
		}
		if !e.OK() {
			return Move(l.Missing(), e.Reason, e.Message)
		}
		all = all && e.State == Satisfied
	}
	if all {
		return Move(fsm.Converged, "Converged", fmt.Sprintf("all %d nodes have all that the spec asks for", in.Counted()))
	}
	return Move(fsm.ConvergedDegraded, "ConvergedDegraded", in.missingMembers())
}

func (s *Snapshot) missingMembers() string {
	var names []string
	for _, m := range s.Members {
		if m.Counts() && m.State != v1alpha1.NodeOnline {
			names = append(names, m.Name)
		}
	}
	return fmt.Sprintf("%d of %d nodes are online; missing: %s", s.Online(), s.Counted(), quoteList(names))
}

// chainHandler brings the last of its links about, keeps up the ones before it, and begins what can be begun of those after it.
type chainHandler struct{ links []Link }

func (h chainHandler) Emits() []fsm.Event { return []fsm.Event{fsm.Advanced, fsm.HumanNeeded} }

func (h chainHandler) Run(ctx context.Context, in *Input) Outcome {
	for _, l := range h.links {
		if err := l.Work(ctx, in); err != nil {
			return Fail(err)
		}
	}
	if hold := in.rollStuck(); hold != nil && len(h.links) > slices.Index(fsm.Chain(), fsm.Satellites) {
		return NeedsHuman(*hold)
	}
	link := h.links[len(h.links)-1]
	e := link.Evidence(in.Snapshot)
	switch {
	case e.State == Satisfied, e.State == Enough && (e.Waiting == 0 || in.stragglersDue()):
		return Move(fsm.Advanced, e.Reason, e.Message)
	case e.State == Failed:
		return NeedsHuman(*e.Hold)
	}
	if err := h.ahead(ctx, in); err != nil {
		return Fail(err)
	}
	return Wait(e.Reason, e.Message, in.poll())
}

// stragglersDue is whether nodes that lag behind have been waited for long enough.
func (s *Snapshot) stragglersDue() bool { return s.PhaseAge() > s.Timing.Straggler }

// steadyHandler keeps the cluster true: it takes in nodes that join, repairs what single nodes lost, and watches health.
type steadyHandler struct {
	links []Link
	event fsm.Event
}

func (h steadyHandler) Emits() []fsm.Event { return []fsm.Event{h.event, fsm.HumanNeeded} }

func (h steadyHandler) Run(ctx context.Context, in *Input) Outcome {
	for _, l := range h.links {
		if e := l.Evidence(in.Snapshot); e.State == Failed && !perMemberLink(l) && in.escalates(e) {
			return NeedsHuman(*e.Hold)
		}
		if err := l.Work(ctx, in); err != nil {
			return Fail(err)
		}
	}
	if err := in.leave(ctx); err != nil {
		return Fail(err)
	}
	if h := in.rollStuck(); h != nil {
		return NeedsHuman(*h)
	}
	if in.unavailableFor() > in.Timing.Escalate {
		return NeedsHuman(HoldRequest{Reason: v1alpha1.HoldControllerFailed, Message: fmt.Sprintf(
			"LINSTOR's API has not answered for %s; volumes keep working, but nothing can be created or changed", in.Timing.Escalate)})
	}
	health := in.Health()
	due := in.degradedFor(health.Degraded)
	switch {
	case h.event == fsm.HealthLost && health.Degraded && due >= in.Timing.HealthLost,
		h.event == fsm.HealthRegained && !health.Degraded && due >= in.Timing.HealthRegained:
		return Move(h.event, health.Reason, health.Message)
	case h.event == fsm.HealthLost && health.Degraded:
		return Wait(health.Reason, health.Message, min(in.Timing.HealthLost-due, in.pollUnfinished()))
	case h.event == fsm.HealthRegained && !health.Degraded:
		return Wait(health.Reason, "all nodes are back; waiting whether it lasts", in.Timing.HealthRegained-due)
	default:
		return Wait(health.Reason, health.Message, in.pollUnfinished())
	}
}

// pollUnfinished is when a steady state looks again: soon while a member is on its way in LINSTOR, or satellites are restarted:
// the next step waits for what LINSTOR says of the last one. A node that is down would keep the operator busy for nothing.
func (s *Snapshot) pollUnfinished() time.Duration {
	if s.Linstor.Known() && (s.Rolling() || s.count(func(m *Member) bool { return onItsWay(m.State) }) > 0) {
		return s.poll()
	}
	return s.Timing.PollSteady
}

// onItsWay is whether a member in that state goes on by what is written to LINSTOR.
func onItsWay(n v1alpha1.NodeState) bool {
	return n == v1alpha1.NodeRegistering || n == v1alpha1.NodeCreatingPools
}

// Unfinished is whether any member was on its way in LINSTOR when the status was written.
func Unfinished(st *v1alpha1.StorageClusterStatus) bool {
	return slices.ContainsFunc(st.Nodes.States, func(c v1alpha1.NodeStateCount) bool { return onItsWay(c.State) })
}

// perMemberLink is whether a link is about members: there, the failure of many is health, not a stop of the machine.
func perMemberLink(l Link) bool {
	switch l.State() {
	case fsm.Database, fsm.Controller:
		return false
	default:
		return true
	}
}

// escalates is whether a running cluster stops for a failure at once. A controller or database that is away is Degraded
// first; a database that is not ours, or a passphrase that would lock the controller out, must not be worked with at all.
func (s *Snapshot) escalates(e Evidence) bool {
	switch e.Hold.Reason {
	case v1alpha1.HoldControllerFailed, v1alpha1.HoldDatabaseUnreachable:
		return s.unavailableFor() > s.Timing.Escalate
	default:
		return true
	}
}

// interventionHandler waits for a human, or for the evidence to come back.
type interventionHandler struct{ links []Link }

func (interventionHandler) Emits() []fsm.Event {
	return []fsm.Event{fsm.Resumed, fsm.Cleared}
}

func (h interventionHandler) Run(ctx context.Context, in *Input) Outcome {
	hold := in.Cluster.Status.Hold
	if hold == nil { // somebody edited the status; looking again is safe in any case
		return Move(fsm.Cleared, "NoHold", "no hold is recorded")
	}
	if in.Answer != nil && in.Answer.Cluster {
		stored, err := in.KeepAnswer(ctx)
		switch {
		case err != nil:
			return Fail(err)
		case stored:
			in.AnswerKept = true
			return Move(fsm.Resumed, string(hold.Reason), fmt.Sprintf("hold %s was answered with %s", hold.ID, in.Answer.Option))
		default:
			return Wait(string(hold.Reason), "keeping the answer "+in.Answer.Option, in.poll())
		}
	}
	if hold.Reason.Kind().Class == v1alpha1.HoldClearing && in.cleared(ctx, h.links, hold) {
		return Move(fsm.Cleared, string(hold.Reason), "the cause is gone")
	}
	return Wait(string(hold.Reason), hold.Message, in.Timing.PollSteady)
}

// cleared is whether the evidence that a hold was about is back. It takes what was missing to be seen, not the failure to
// be out of sight for a moment: a crash loop shows a running container between two crashes.
func (in *Input) cleared(ctx context.Context, links []Link, hold *v1alpha1.Hold) bool {
	if in.Target == nil {
		return false
	}
	if answered, whole := in.nobodyAsks(hold.Reason); whole {
		return answered
	}
	if cleared, decided := in.clearedBySight(hold); decided {
		return cleared
	}
	for _, l := range links {
		if l.State() == fsm.Database && !l.Evidence(in.Snapshot).OK() {
			return false // whose data it is comes before everything that follows
		}
		if holdBelongs(l, hold.Reason) {
			if writesLinstor(l) && l.Work(ctx, in) != nil {
				return false
			}
			return l.Evidence(in.Snapshot).OK() && !in.stillBlocked(hold.Reason)
		}
	}
	return in.Linstor.Known()
}

// clearedBySight decides about holds that are about one thing in the snapshot; decided is false where the link's own evidence
// does.
func (in *Input) clearedBySight(hold *v1alpha1.Hold) (cleared, decided bool) {
	switch hold.Reason {
	case v1alpha1.HoldNoMatchingNodes:
		return in.Staying() > 0, true
	case v1alpha1.HoldDeviceMissing:
		lack := in.count(func(m *Member) bool { return m.Counts() && m.lacksDisks(hold.Pool) })
		return in.Linstor.Known() && in.Counted()-lack >= in.MinReady(), true
	case v1alpha1.HoldDatabaseUnreachable:
		_, claimed, err := in.Claim()
		return in.Database.Checked && in.Database.Err == nil, !claimed && err == nil
	case v1alpha1.HoldSigningKeyUnusable:
		return in.signingKeyTrouble() == "", true
	case v1alpha1.HoldPassphraseUnusable:
		return in.passphraseHold() == nil && in.controllerTrouble() == nil, true
	case v1alpha1.HoldSatellitesFailed:
		r := in.Roll()
		stuck := len(r.Outdated) > 0 && len(r.Restarting) > 0 // enough satellites may run, but those that were restarted are not back
		return !stuck, stuck || in.upgrade != nil
	case v1alpha1.HoldUpgradeBlocked, v1alpha1.HoldUpgradeStuck:
		return in.upgradeGoesOn(), true
	default:
		return false, false
	}
}

// writesLinstor is whether the evidence of a link comes from what is written to LINSTOR. Only trying shows whether LINSTOR
// takes now what it refused before; none of it touches what is on a disk without a look at that disk.
func writesLinstor(l Link) bool {
	switch l.State() {
	case fsm.Controller, fsm.NodeRegistration, fsm.StoragePools:
		return true
	default:
		return false
	}
}

// lacksDisks is whether no disk for the pool is known on the member. That LINSTOR cannot list the disks, or that the member
// is not there to be asked, does not mean that they are back.
func (m *Member) lacksDisks(entry string) bool {
	for _, p := range m.Pools {
		if p.Entry.Name == entry {
			other := p.Problem != nil && p.Problem.Hold != "" && p.Problem.Hold != v1alpha1.HoldDeviceMissing
			return !p.Ready && !p.NotWanted && p.step == stepNone && !other
		}
	}
	return false
}

// stillBlocked is whether the trouble is there on too many members, wherever in the chain it shows: that a module loader
// ran, for example, does not clear a hold about LINSTOR not seeing the module.
func (s *Snapshot) stillBlocked(reason v1alpha1.HoldReason) bool {
	n := s.count(func(m *Member) bool { return m.Problem != nil && m.Problem.Hold == reason })
	return n > 0 && s.Counted()-n < s.MinReady()
}

// holdBelongs is whether a hold of that reason is about the link.
func holdBelongs(l Link, r v1alpha1.HoldReason) bool {
	switch r {
	case v1alpha1.HoldDatabaseUnreachable:
		return l.State() == fsm.Controller
	case v1alpha1.HoldSatelliteVersionMismatch:
		return l.State() == fsm.NodeRegistration
	case v1alpha1.HoldPoolBackendMissing:
		return l.State() == fsm.StoragePools
	default:
		return l.Hold() == r
	}
}
