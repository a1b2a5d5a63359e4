package step

import (
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

// Failures are the writes about single nodes that failed in one reconcile. They stop nothing else: a policy that
// refuses the patch of one Node must not keep the others from being registered or watched. The status shows them.
type Failures struct {
	mu   sync.Mutex
	list []nodeFailure
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
