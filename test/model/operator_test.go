package model

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/backup"
	"github.com/linstor-dev/storagecluster-operator/pkg/catalogue"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/controller"
	"github.com/linstor-dev/storagecluster-operator/pkg/database/connection"
	"github.com/linstor-dev/storagecluster-operator/pkg/kube"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor/restclient"
	"github.com/linstor-dev/storagecluster-operator/pkg/metrics"
	"github.com/linstor-dev/storagecluster-operator/pkg/observe"
	steps "github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/work"
	"github.com/linstor-dev/storagecluster-operator/test/invariants"
)

// process is a running operator.
type process struct {
	// seen is the operator's cache.
	seen       objects
	reconciler *controller.Reconciler
	tasks      *turns
	kill       context.CancelFunc
	// looks are what the observer saw last.
	looks *looks
	// again is after what time the last reconcile asked for another one.
	again time.Duration
}

// start starts an operator that knows nothing of an earlier one.
func (c *checked) start() error {
	seen := objects{}
	seen.follow(c.now, -1)
	reader := cached{seen}
	api, err := restclient.New(restclient.Options{Endpoint: "http://linstor",
		Transport: &invariants.Evidence{Next: wire{c.world, c.faults}, Violate: c.violate, Now: time.Now}})
	if err != nil {
		return err
	}
	looks := &looks{Reader: api, cache: reader}
	observer := &observe.Observer{
		Reader: looks.kubernetes(), Linstor: looks, Prober: prober{c.site}, Catalogue: catalogue.Embedded(),
		Timing: cluster.DefaultTiming(), Clock: clock.RealClock{}, Live: c.api, APIClock: time.Now,
	}
	tasks := &turns{Runner: work.New(work.Options{Passing: steps.Passes, Notify: observer.Invalidate}),
		waiting: map[string]chan struct{}{}}
	observer.Tasks = tasks
	ctx, kill := context.WithCancel(c.ctx)
	go func() { _ = tasks.Start(ctx) }()
	synctest.Wait()
	c.operator = &process{seen: seen, looks: looks, tasks: tasks, kill: kill, reconciler: &controller.Reconciler{
		Reader: reader, Writer: &kube.Writer{Client: c.deletes.Wrap(c.faults.wrap(c.api, reader))}, Observer: observer,
		API: api, Tasks: tasks,
		Backups: backup.Reader{Client: c.api}, Live: kube.Live{Client: c.api}, Recorder: c, Metrics: metrics.New(),
		Clock: clock.RealClock{},
	}}
	return nil
}

// restart kills the operator, whatever it is at, and starts another.
func (c *checked) restart() {
	c.operator.kill()
	synctest.Wait()
	c.must(c.start())
}

func (p *process) reconcile(ctx context.Context) error {
	result, err := p.reconciler.Reconcile(ctx,
		reconcile.Request{NamespacedName: types.NamespacedName{Name: v1alpha1.ClusterName}})
	p.again = result.RequeueAfter
	return err
}

// turns makes every background task wait for its turn.
type turns struct {
	*work.Runner
	mu      sync.Mutex
	waiting map[string]chan struct{}
}

// Ensure implements phases.Tasks.
func (t *turns) Ensure(w work.Task) work.State {
	do := w.Do
	w.Do = func(ctx context.Context) error {
		turn := make(chan struct{})
		t.mu.Lock()
		t.waiting[w.Key] = turn
		t.mu.Unlock()
		select {
		case <-turn:
			return do(ctx)
		case <-ctx.Done():
			t.mu.Lock()
			delete(t.waiting, w.Key)
			t.mu.Unlock()
			return ctx.Err()
		}
	}
	return t.Runner.Ensure(w)
}

// run lets the n-th of the waiting tasks run until it ends or waits for the clock.
func (t *turns) run(n int) {
	synctest.Wait()
	t.mu.Lock()
	keys := slices.Sorted(maps.Keys(t.waiting))
	if len(keys) > 0 {
		key := keys[n%len(keys)]
		close(t.waiting[key])
		delete(t.waiting, key)
	}
	t.mu.Unlock()
	synctest.Wait()
}

func (t *turns) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.waiting)
}

// wire carries requests to the simulated LINSTOR without sockets.
type wire struct {
	handler http.Handler
	faults  *faults
}

// RoundTrip implements http.RoundTripper.
func (w wire) RoundTrip(r *http.Request) (resp *http.Response, err error) {
	defer func() {
		if p := recover(); p != nil {
			if p != http.ErrAbortHandler { //nolint:errorlint // a panic value, compared by identity
				panic(p)
			}
			resp, err = nil, w.faults.endOf(r)
		}
	}()
	if r.Body == nil {
		r.Body = http.NoBody
	}
	answer := httptest.NewRecorder()
	w.handler.ServeHTTP(answer, r)
	resp = answer.Result()
	resp.Request = r
	return resp, nil
}

// prober looks into LINSTOR's database.
type prober struct{ *site }

// Look implements observe.Prober.
func (p prober) Look(context.Context, *v1alpha1.DatabaseSpec, connection.Settings) (connection.Contents, error) {
	db := p.database()
	c := connection.Contents{Nodes: db.Nodes(), LocalID: db.LocalID()}
	db.EditProperties(func(properties map[string]string) { c.Epoch = properties[linstor.PropEpoch] })
	return c, nil
}

// Eventf takes the operator's Events.
func (c *checked) Eventf(_, _ runtime.Object, _, reason, action, note string, args ...any) {
	text := fmt.Sprintf(note, args...)
	c.noSecret("Event "+reason, text)
	if len(text) > 1024 || len(action) > 128 {
		c.violate(fmt.Sprintf("Event %s is too long for the API: %d and %d bytes", reason, len(text), len(action)))
	}
}
