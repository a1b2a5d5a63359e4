package step

import (
	"context"
	"errors"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

// Reasons of problems with what Kubernetes refuses for a single node.
const (
	ReasonNotLabelled  = "NodeNotLabelled"
	ReasonNotRestarted = "SatelliteNotRestarted"
)

// Failures are the writes about single nodes that failed in one reconcile, and those that nothing waits for. They stop
// nothing else: a policy that refuses the patch of one Node must not keep the others from being registered or watched.
// The status shows them.
type Failures struct {
	mu    sync.Mutex
	list  []nodeFailure
	aside map[string]string
}

type nodeFailure struct {
	node    string
	problem cluster.Problem
}

// Each calls f for each failure, in the order of the writes. It may be called on nil.
func (f *Failures) Each(call func(node string, p *cluster.Problem)) {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.list {
		call(f.list[i].node, &f.list[i].problem)
	}
}

// FailedOn keeps a failed write about a node for the status, and returns nil. An error that is no answer of the API
// server is none about the node: it is returned, and whoever writes to many stops.
func (in *Input) FailedOn(node, reason string, err error) error {
	// The reason does not show that: an admission webhook that refuses may give none, which reads as one not known.
	if answer := apierrors.APIStatus(nil); !errors.As(err, &answer) {
		return err
	}
	if in.Failures != nil {
		in.Failures.mu.Lock()
		defer in.Failures.mu.Unlock()
		in.Failures.list = append(in.Failures.list,
			nodeFailure{node, cluster.Problem{Reason: reason, Message: text.OneLine(err.Error())}})
	}
	return nil
}

// FailedAside keeps a failure of what nothing waits for. It is told in a condition, and is no failure of the step.
// That the operator stops is none, nor is nil.
func (in *Input) FailedAside(condition string, err error) {
	if in.Failures == nil || err == nil || errors.Is(err, context.Canceled) {
		return
	}
	in.Failures.mu.Lock()
	defer in.Failures.mu.Unlock()
	if in.Failures.aside == nil {
		in.Failures.aside = map[string]string{}
	}
	in.Failures.aside[condition] = text.OneLine(err.Error())
}

// Aside is what failed aside and is told in a condition; "" if nothing did. It may be called on nil.
func (f *Failures) Aside(condition string) string {
	if f == nil {
		return ""
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.aside[condition]
}
