package step

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/drift"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

// OutcomeKind says how a handler's run ended.
type OutcomeKind string

// Kinds of outcomes.
const (
	KindMove OutcomeKind = "move"
	// KindWait stays and comes back after a while.
	KindWait OutcomeKind = "wait"
	// KindHold stops for a human: with an event in HumanIntervention, else in the state that it is in.
	KindHold OutcomeKind = "hold"
	// KindFail stays and comes back with back-off.
	KindFail OutcomeKind = "fail"
	// KindDone ends the object: the finalizer goes.
	KindDone OutcomeKind = "done"
)

// Outcome is how a handler's run ended. Build it with the functions below.
type Outcome struct {
	Kind  OutcomeKind
	Event fsm.Event
	// Reason is one word for the conditions, and Message one line for people.
	Reason, Message string
	// After is when to come back at the latest; 0 for outcomes that decide it otherwise.
	After      time.Duration
	Hold       *cluster.HoldRequest
	Err        error
	Acceptance *Acceptance
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
	return Outcome{Kind: KindMove, Event: e, Reason: reason, Message: message}
}

// Wait stays in the state; the reconcile comes back after a while at the latest.
func Wait(reason, message string, after time.Duration) Outcome {
	return Outcome{Kind: KindWait, Reason: reason, Message: message, After: after}
}

// NeedsHuman stops for a human.
func NeedsHuman(h cluster.HoldRequest) Outcome {
	return Outcome{Kind: KindHold, Event: fsm.HumanNeeded, Reason: string(h.Reason), Message: h.Message, Hold: &h}
}

// HoldHere begins a hold and stays in the state; the message says what goes on meanwhile.
func HoldHere(message string, h cluster.HoldRequest) Outcome {
	return Outcome{Kind: KindHold, Reason: string(h.Reason), Message: message, Hold: &h}
}

// Fail stays in the state and comes back with back-off.
func Fail(err error) Outcome {
	return Outcome{Kind: KindFail, Reason: "Error", Message: Explain(err), Err: err}
}

// Explain is the message of a failure. Where Kubernetes refuses an object, it begins with the part of the spec that
// the refused value comes from; where the namespace or the rights in it are gone, with how to bring them back.
func Explain(err error) string {
	if rightsMissing(err) {
		return fmt.Sprintf("namespace %s or the operator's permissions in it are missing: kubectl apply --server-side -f "+
			"deploy/operator.yaml (%s)", v1alpha1.WorkloadNamespace, text.OneLine(err.Error()))
	}
	message := err.Error()
	if from := drift.Origins(err); len(from) > 0 {
		message = "Kubernetes rejects values from " + strings.Join(from, " and ") + ": "
		message += text.Tail(err.Error(), max(text.StatusLine-len(message), 80))
	}
	return message
}

// noRight is what the API server says where no role gives the right (Kubernetes 1.36,
// apiserver/pkg/endpoints/handlers/responsewriters/errors.go): a policy that refuses one object says something else.
var noRight = regexp.MustCompile(` cannot \w+ resource .* in the namespace "` + v1alpha1.WorkloadNamespace + `"`)

// rightsMissing reports whether a call failed because the workloads' namespace, or the role in it, is gone.
func rightsMissing(err error) bool {
	if apierrors.IsForbidden(err) {
		return noRight.MatchString(err.Error())
	}
	return apierrors.IsNotFound(err) && strings.Contains(err.Error(),
		fmt.Sprintf("namespaces %q not found", v1alpha1.WorkloadNamespace))
}

// Done ends the object.
func Done() Outcome {
	return Outcome{Kind: KindDone, Reason: "Deleted", Message: "everything has been removed"}
}

// With adds the spec that was accepted.
func (o Outcome) With(a *Acceptance) Outcome {
	o.Acceptance = a
	return o
}
