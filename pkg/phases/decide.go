package phases

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
)

// Decide runs one step: the interrupts in their order, else the state's handler, and the deadline of the state.
func Decide(ctx context.Context, in *Input) Outcome {
	state := fsm.State(in.Phase())
	for _, i := range Interrupts() {
		if !slices.Contains(i.In, state) {
			continue
		}
		if o := i.Look(in.Snapshot); o != nil {
			return *o
		}
	}
	h, ok := Handlers()[state]
	if !ok {
		return Fail(fmt.Errorf("%w %q", fsm.ErrUnknownState, state))
	}
	o := h.Run(ctx, in)
	if o.kind == KindWait {
		o.message += in.answerTrouble()
	}
	if hold := in.overdue(state, &o); hold != nil {
		o = NeedsHuman(*hold)
	}
	if o.kind == KindHold && o.event != "" && in.working() && in.SpecPending() {
		// What has begun does not come to an end; nobody shall be asked about a spec that is not wanted any more.
		return Move(fsm.SpecChanged, "SpecChanged", fmt.Sprintf("generation %d of the spec is taken up, since with the one before: %s", in.Cluster.Generation, oneLine(o.message)))
	}
	return o
}

// overdue is the hold for a state that has gone on for longer than its deadline; nil if it may go on.
func (s *Snapshot) overdue(state fsm.State, o *Outcome) *HoldRequest {
	deadline, working := s.Timing.Deadlines[state]
	if !working || o.kind != KindWait && o.kind != KindFail || o.accept != nil || s.PhaseAge() <= deadline {
		return nil
	}
	if state == fsm.StoragePools && s.onlyApprovalLacks() {
		return nil // its holds ask already, and time does not answer them
	}
	h := &HoldRequest{Reason: v1alpha1.HoldOperationFailed, Message: fmt.Sprintf("no progress for %s: %s", deadline, oneLine(o.message))}
	if o.kind == KindFail {
		return h
	}
	for _, l := range Links() {
		if l.State() == state {
			h.Reason = l.Hold()
		}
	}
	if state == fsm.Upgrading {
		h.Reason = s.upgradeHold()
	}
	if o.reason == v1alpha1.ReasonNoMatchingNodes {
		h.Reason = v1alpha1.HoldNoMatchingNodes
	}
	for _, m := range s.Members {
		if m.Problem == nil || len(h.Nodes) == mostHeldNodes {
			continue
		}
		if len(h.Nodes) == 0 && !strings.Contains(h.Message, m.Problem.Message) {
			h.Message += fmt.Sprintf("; node %s: %s", m.Name, m.Problem.Message)
		}
		h.Nodes = append(h.Nodes, m.Name)
	}
	return h
}
