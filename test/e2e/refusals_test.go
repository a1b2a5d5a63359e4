package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/linstor-dev/storagecluster-operator/test/sim"
)

// refusals make the operator's writes of some Kubernetes objects fail, which keeps the machine in the phase that needs
// them.
type refusals struct {
	mu    sync.Mutex
	match func(kind, name string) bool
}

var errRefused = errors.New("the test refuses this write")

func (r *refusals) set(match func(kind, name string) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.match = match
}

func (r *refusals) check(kind, name string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.match != nil && r.match(kind, name) {
		return errRefused
	}
	return nil
}

// wrap is the seam for env.wrap.
func (r *refusals) wrap(c client.WithWatch) client.WithWatch {
	return interceptor.NewClient(c, interceptor.Funcs{
		Apply: func(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration,
			opts ...client.ApplyOption) error {
			named, ok := o.(interface {
				GetKind() string
				GetName() string
			})
			if !ok {
				return fmt.Errorf("apply configuration %T has no name", o)
			}
			if err := r.check(named.GetKind(), named.GetName()); err != nil {
				return err
			}
			return c.Apply(ctx, o, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch,
			opts ...client.PatchOption) error {
			if _, ok := o.(*corev1.Node); ok {
				if err := r.check("Node", o.GetName()); err != nil {
					return err
				}
			}
			return c.Patch(ctx, o, p, opts...)
		},
	})
}

func refuse(kind, prefix string) func(*env, *refusals) {
	return func(_ *env, r *refusals) {
		r.set(func(k, name string) bool { return k == kind && strings.HasPrefix(name, prefix) })
	}
}

// drop closes the connection of requests whose method and path match.
func drop(method, path string) func(*http.Request) *sim.Fault {
	return func(r *http.Request) *sim.Fault {
		if (method == "" || r.Method == method) && strings.Contains(r.URL.Path, path) {
			return &sim.Fault{Drop: true}
		}
		return nil
	}
}

// allDown drops every request to LINSTOR but the kubelet's probe: the pod stays ready, so that only one thing is
// wrong.
func allDown(r *http.Request) *sim.Fault {
	if r.URL.Path == "/health" {
		return nil
	}
	return &sim.Fault{Drop: true}
}

// body reads a request's body and leaves it as it was.
func body(r *http.Request) string {
	b, err := io.ReadAll(r.Body)
	if err != nil {
		return ""
	}
	r.Body = io.NopCloser(bytes.NewReader(b))
	return string(b)
}
