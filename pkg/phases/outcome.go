package phases

import (
	"strings"
	"time"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
)

// OutcomeKind says how a handler's run ended.
type OutcomeKind string

// Kinds of outcomes.
const (
	// KindMove fires an event.
	KindMove OutcomeKind = "move"
	// KindWait stays and comes back after a while.
	KindWait OutcomeKind = "wait"
	// KindHold stops for a human.
	KindHold OutcomeKind = "hold"
	// KindFail stays and comes back with back-off.
	KindFail OutcomeKind = "fail"
	// KindDone ends the object: the finalizer goes.
	KindDone OutcomeKind = "done"
)

// Outcome is how a handler's run ended. Build it with the functions below.
type Outcome struct {
	kind    OutcomeKind
	event   fsm.Event
	reason  string
	message string
	after   time.Duration
	hold    *HoldRequest
	err     error
	// accept is set when a spec was accepted.
	accept *Acceptance
}

// HoldRequest is a stop for a human before it has an id.
type HoldRequest struct {
	Reason  v1alpha1.HoldReason
	Message string
	Pool    string
	Nodes   []string
	// Resources are names of volumes that it is about, ten at most.
	Resources []string
	// Devices are the disks that are asked about.
	Devices []v1alpha1.HoldDevice
	// Options are fewer than the reason's; nil for all of them.
	Options []string
}

// Acceptance is an accepted spec.
type Acceptance struct {
	Revision   string
	Generation int64
	Version    string
	Database   v1alpha1.DatabaseKind
}

// Move fires an event; the message says why.
func Move(e fsm.Event, reason, message string) Outcome {
	return Outcome{kind: KindMove, event: e, reason: reason, message: message}
}

// Wait stays in the state; the reconcile comes back after a while at the latest.
func Wait(reason, message string, after time.Duration) Outcome {
	return Outcome{kind: KindWait, reason: reason, message: message, after: after}
}

// NeedsHuman stops for a human.
func NeedsHuman(h HoldRequest) Outcome {
	return Outcome{kind: KindHold, event: fsm.HumanNeeded, reason: string(h.Reason), message: h.Message, hold: &h}
}

// Fail stays in the state and comes back with back-off. Where Kubernetes refuses an object, the message begins with the part of
// the spec that the refused value comes from.
func Fail(err error) Outcome {
	message := err.Error()
	if from := resources.Origins(err); len(from) > 0 {
		message = "Kubernetes refuses what comes from " + strings.Join(from, " and ") + ": "
		message += tail(err.Error(), max(statusLine-len(message), 80))
	}
	return Outcome{kind: KindFail, reason: "Error", message: message, err: err}
}

// Done ends the object.
func Done() Outcome {
	return Outcome{kind: KindDone, reason: "Deleted", message: "everything is removed"}
}

func (o Outcome) with(a *Acceptance) Outcome {
	o.accept = a
	return o
}

// Kind says how the run ended.
func (o Outcome) Kind() OutcomeKind { return o.kind }

// Event is the event to fire; "" if the state stays.
func (o Outcome) Event() fsm.Event { return o.event }

// Reason is one word for the conditions.
func (o Outcome) Reason() string { return o.reason }

// Message is one line for people.
func (o Outcome) Message() string { return o.message }

// After is when to come back at the latest; 0 for outcomes that decide it otherwise.
func (o Outcome) After() time.Duration { return o.after }

// Hold is the requested stop; nil for other kinds.
func (o Outcome) Hold() *HoldRequest { return o.hold }

// Err is what failed; nil for other kinds.
func (o Outcome) Err() error { return o.err }

// Acceptance is the spec that was accepted; nil if none was.
func (o Outcome) Acceptance() *Acceptance { return o.accept }
