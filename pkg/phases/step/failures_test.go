package step_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
)

// denied is what an admission policy answers.
func denied(name string) error {
	return apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, name, errors.New("the policy says no"))
}

// deniedByWebhook is what the API server answers for a webhook that gives no reason, as Kyverno's does (apiserver,
// ToStatusErr).
func deniedByWebhook() error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: http.StatusBadRequest,
		Message: `admission webhook "nodes.example.com" denied the request: the policy says no`}}
}

// listFailures are the failures as "reason node".
func listFailures(in *step.Input) []string {
	var out []string
	in.Failures.Each(func(node string, p *cluster.Problem) { out = append(out, p.Reason+" "+node) })
	return out
}

// What one Node refuses stops nothing else, in no phase: other nodes are labelled, registered and watched.
func TestOneNodeThatCannotBeLabelledStopsNothing(t *testing.T) {
	for _, phase := range []v1alpha1.Phase{v1alpha1.PhaseReady, v1alpha1.PhaseKernelModule,
		v1alpha1.PhaseNodeRegistration} {
		for _, refusal := range []error{denied("n01"), deniedByWebhook()} {
			w := clustertest.NewWorld(t, 5)
			w.Phase(phase, time.Minute)
			clear(w.KubeNode("n01").Labels)
			clear(w.KubeNode("n02").Labels)
			delete(w.Linstor.View.Nodes, "n03")
			in, r := w.Input()
			in.Failures = &step.Failures{}
			r.Fail["label n01 member=linstor os=noble platform=generic"] = refusal
			if o := phases.Decide(t.Context(), in); o.Kind == step.KindFail {
				t.Errorf("%s: %v", phase, o.Err)
			}
			if !slices.Contains(r.Calls, "label n02 member=linstor os=noble platform=generic") ||
				phase != v1alpha1.PhaseKernelModule && !slices.Contains(r.Keys(), "node/n03") {
				t.Errorf("%s: calls %v, tasks %v", phase, r.Calls, r.Keys())
			}
			if got := listFailures(in); !slices.Equal(got, []string{"NodeNotLabelled n01"}) {
				t.Errorf("%s: failures %v", phase, got)
			}
		}
	}
}

// An API server that does not answer is asked once more later, not for each node.
func TestAServerThatDoesNotAnswerStopsTheLoop(t *testing.T) {
	in, _ := clustertest.NewWorld(t, 1).Input()
	in.Failures = &step.Failures{}
	if err := in.FailedOn("n01", step.ReasonNotLabelled, context.DeadlineExceeded); err == nil ||
		len(listFailures(in)) > 0 {
		t.Errorf("%v, failures %v", err, listFailures(in))
	}
}
