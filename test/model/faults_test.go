package model

import (
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/linstor-dev/storagecluster-operator/test/sim"
)

// faults are the requests of the operator that will fail, and the count of its writes.
type faults struct {
	mu sync.Mutex
	// kube fails the next write to Kubernetes, get and put the next reading and writing request to LINSTOR; "" for none.
	kube, get, put string
	// writes counts what has landed or failed, status patches included; objects counts those to other objects than the
	// StorageCluster.
	writes, objects int
	// written is told what is sent, and what becomes of it.
	written func(verb string, o any, fault string)
	// sent is told what is sent to LINSTOR.
	sent func(request, fault string)
	// arrives judges what is to change something in LINSTOR.
	arrives func(r *http.Request)
	// unanswered are the requests whose senders get no answer and wait until they give up. They wait side by side.
	unanswered sync.Map
}

// Kinds of faults.
var (
	kubeFaults    = []string{"conflict", "refused", "reply lost", "timeout"}
	linstorFaults = []string{"dropped", "reply lost", "error 500", "masked error", "garbage"}
	silences      = []string{"never answered, not done", "never answered, done", "never answered, done late",
		"never answered, done when given up"}
)

// doneLate is when LINSTOR carries a late write out: its sender waits still, and others have been at work.
const doneLate = 20 * time.Second

// write lets a write to Kubernetes pass, or not. One at a time: the operator labels nodes several at once, and neither
// the API server in memory nor a schedule that is to be repeated has room for that.
func (f *faults) write(verb string, o any, do func() error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	fault := f.kube
	f.kube = ""
	f.writes++
	f.written(verb, o, fault)
	switch fault {
	case "conflict":
		return apierrors.NewConflict(schema.GroupResource{}, "x", errors.New("injected"))
	case "refused":
		return apierrors.NewInternalError(errors.New("injected"))
	case "timeout":
		return apierrors.NewTimeoutError("injected", 1)
	case "reply lost":
		if err := do(); err != nil {
			return err
		}
		return apierrors.NewTimeoutError("injected: the reply is lost", 1)
	}
	return do()
}

// wrap puts the faults, and the operator's cache, before the operator's client.
func (f *faults) wrap(c client.WithWatch, cache client.Reader) client.WithWatch {
	return interceptor.NewClient(c, interceptor.Funcs{
		Get: func(ctx context.Context, _ client.WithWatch, key client.ObjectKey, o client.Object,
			opts ...client.GetOption) error {
			return cache.Get(ctx, key, o, opts...)
		},
		List: func(ctx context.Context, _ client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
			return cache.List(ctx, l, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch,
			opts ...client.PatchOption) error {
			return f.write("patch", o, func() error { return c.Patch(ctx, o, p, opts...) })
		},
		Apply: func(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration,
			opts ...client.ApplyOption) error {
			f.objects++
			return f.write("apply", o, func() error { return c.Apply(ctx, o, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			f.objects++
			return f.write("delete", o, func() error { return c.Delete(ctx, o, opts...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch,
			opts ...client.SubResourcePatchOption) error {
			return f.write("patch "+sub+" of", o, func() error { return c.SubResource(sub).Patch(ctx, o, p, opts...) })
		},
	})
}

// linstor is the hook of LINSTOR's simulator.
func (f *faults) linstor(r *http.Request) *sim.Fault {
	next := &f.get
	if r.Method != http.MethodGet {
		next = &f.put
		f.writes++
		f.arrives(r)
	}
	fault := *next
	*next = ""
	if r.Method != http.MethodGet || fault != "" {
		f.sent(r.Method+" "+r.URL.RequestURI(), fault)
	}
	switch fault {
	case "dropped":
		return &sim.Fault{Drop: true}
	case "reply lost":
		return &sim.Fault{DropAfter: true}
	case "error 500":
		return &sim.Fault{Status: http.StatusInternalServerError,
			Body: `[{"ret_code":-4611686018427387904,"message":"injected"}]`}
	case "masked error":
		return &sim.Fault{Status: http.StatusOK,
			Body: `[{"ret_code":1,"message":"fine"},{"ret_code":-4611686018427387904,"message":"injected"}]`}
	case "garbage":
		return &sim.Fault{Status: http.StatusOK, Body: `<html>proxy</html>`}
	}
	silence := map[string]sim.Fault{
		silences[0]: {Drop: true}, silences[1]: {DropAfter: true}, silences[2]: {Delay: doneLate, DropAfter: true},
		silences[3]: {Delay: math.MaxInt64, DropAfter: true},
	}
	if planned, silent := silence[fault]; silent {
		f.unanswered.Store(r, true)
		return &planned
	}
	return nil
}

// endOf is how a request without an answer ends for its sender: the connection is closed at once, or the sender gives
// up.
func (f *faults) endOf(r *http.Request) error {
	if _, silent := f.unanswered.LoadAndDelete(r); !silent {
		return io.ErrUnexpectedEOF
	}
	<-r.Context().Done()
	return r.Context().Err()
}
