package harness

import (
	"context"
	"errors"
	"net/http"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
)

// errKilled is what a write gets that comes after the operator's death.
var errKilled = errors.New("the operator was killed before this write")

// Gate stands between an operator and everything that it writes to, Leases and Events aside.
type Gate struct {
	mu     sync.Mutex
	writes int
	// left is how many writes may pass; the others fail. Negative: all of them.
	left  int
	spent chan struct{} // closed after the last write that may pass

	// pin is the phase on whose first entry everything stops until release is closed; "" for none.
	pin     v1alpha1.Phase
	pinned  chan struct{}
	release chan struct{}
}

// NewGate is a gate that lets everything pass.
func NewGate() *Gate { return &Gate{left: -1, spent: make(chan struct{})} }

// Limit lets n more writes pass, and tells when the last one has landed.
func (g *Gate) Limit(n int) <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.left, g.spent = n, make(chan struct{})
	return g.spent
}

// PinAt stops all writes when the operator has entered the phase.
func (g *Gate) PinAt(p v1alpha1.Phase) (pinned <-chan struct{}, release func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pin, g.pinned, g.release = p, make(chan struct{}), make(chan struct{})
	opened := g.release
	return g.pinned, sync.OnceFunc(func() { close(opened) })
}

// Count is how many writes have passed.
func (g *Gate) Count() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.writes
}

// pass lets one write through, or not. phase is the one that the write brings, if it brings one.
func (g *Gate) pass(ctx context.Context, phase v1alpha1.Phase, write func() error) error {
	g.mu.Lock()
	if g.pin == "" && g.release != nil {
		release := g.release
		g.mu.Unlock()
		select {
		case <-release:
		case <-ctx.Done():
			return ctx.Err()
		}
		g.mu.Lock()
	}
	if g.left == 0 {
		g.mu.Unlock()
		return errKilled
	}
	last := g.left == 1
	if g.left > 0 {
		g.left--
	}
	g.writes++
	spent := g.spent
	g.mu.Unlock()

	err := write()
	g.mu.Lock()
	defer g.mu.Unlock()
	if phase != "" && err == nil && phase == g.pin {
		g.pin = ""
		close(g.pinned)
	}
	if last {
		close(spent)
	}
	return err
}

// wrap puts the gate before a client.
func (g *Gate) wrap(c client.WithWatch) client.WithWatch {
	return interceptor.NewClient(c, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			return g.pass(ctx, "", func() error { return c.Create(ctx, o, opts...) })
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			return g.pass(ctx, "", func() error { return c.Update(ctx, o, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch,
			opts ...client.PatchOption) error {
			return g.pass(ctx, "", func() error { return c.Patch(ctx, o, p, opts...) })
		},
		Apply: func(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration,
			opts ...client.ApplyOption) error {
			return g.pass(ctx, "", func() error { return c.Apply(ctx, o, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			return g.pass(ctx, "", func() error { return c.Delete(ctx, o, opts...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch,
			opts ...client.SubResourcePatchOption) error {
			var phase v1alpha1.Phase
			if sc, ok := o.(*v1alpha1.StorageCluster); ok {
				phase = sc.Status.Phase
			}
			return g.pass(ctx, phase, func() error { return c.SubResource(sub).Patch(ctx, o, p, opts...) })
		},
	})
}

// RoundTrip makes the gate stand before LINSTOR as well.
func (g *Gate) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet {
		return http.DefaultTransport.RoundTrip(r)
	}
	var resp *http.Response
	err := g.pass(r.Context(), "", func() (err error) {
		resp, err = http.DefaultTransport.RoundTrip(r) //nolint:bodyclose // the caller of the transport closes it
		return err
	})
	return resp, err
}

// Install puts the gate before the operators that are started from now on.
func (g *Gate) Install(e *Env) { e.Wrap, e.Transport = g.wrap, g }
