package harness

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/kube"
	"github.com/linstor-dev/storagecluster-operator/pkg/operator"
	"github.com/linstor-dev/storagecluster-operator/test/invariants"
	"github.com/linstor-dev/storagecluster-operator/test/machine"
)

// guard checks in every test, all the time, what must never happen: see package invariants.
type guard struct {
	deletes *invariants.Deletes
	check   invariants.Status

	mu         sync.Mutex
	violations []string
	seen       string // resourceVersion of the StorageCluster that was seen last
	steps      []v1alpha1.Transition
	holds      map[string]string        // texts of the cluster's holds, by id
	last       *v1alpha1.StorageCluster // the version that was seen last, if all of it could be decoded
	gaps       bool                     // the API server may forget versions that were not seen
	next       chan struct{}            // closed when the next version comes; nil if nobody waits

	stop func()
	done chan struct{}
}

// startGuard watches the StorageCluster from now on. A version that exists already is the last of an earlier test,
// which has judged it.
func (e *Env) startGuard() {
	e.T.Helper()
	g := &guard{done: make(chan struct{}), holds: map[string]string{}}
	g.deletes = &invariants.Deletes{Reader: e.Client(), Violate: g.violate,
		Registered: func(node string) bool {
			status, _ := e.Sim.World().NodeStatus(node)
			return status != "" || slices.Contains(e.Sim.World().Database("k8s").Nodes(), node) // also while no controller runs
		},
		Online: func(node string) bool {
			status, _ := e.Sim.World().NodeStatus(node)
			return status == "ONLINE"
		},
	}
	scheme, err := operator.Scheme()
	if err != nil {
		e.T.Fatal(err)
	}
	c, err := client.NewWithWatch(e.Sim.AdminConfig(), client.Options{Scheme: scheme})
	if err != nil {
		e.T.Fatal(err)
	}
	ctx, cancel := context.WithCancel(e.Ctx)
	there, w, err := watchClusters(ctx, c)
	if err != nil {
		cancel()
		e.T.Fatal(err)
	}
	for i := range there {
		g.baseline(&there[i])
	}
	g.stop = cancel
	go g.follow(ctx, c, w)
	e.guard, e.Next, e.Last = g, g.change, g.newest
}

// baseline takes the version that exists at the start.
func (g *guard) baseline(raw *unstructured.Unstructured) {
	c, whole, err := readable(raw)
	if err != nil {
		return // follow says so of the next version
	}
	g.check.Baseline(c)
	g.seen, g.steps = c.ResourceVersion, c.Status.History
	if whole {
		g.last = c
	}
}

// change returns a channel that is closed when the next version of the StorageCluster comes.
func (g *guard) change() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.next == nil {
		g.next = make(chan struct{})
	}
	return g.next
}

// newest returns the version that was seen last; nil before the first one.
func (g *guard) newest() *v1alpha1.StorageCluster {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.last.DeepCopy()
}

// wake lets all who wait for the next version look: at this one, unless it is not whole.
func (g *guard) wake(version *v1alpha1.StorageCluster, whole bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if whole {
		g.last = version
	}
	if g.next != nil {
		close(g.next)
		g.next = nil
	}
}

// watchClusters lists the StorageClusters and watches them from there on. It does so without Go types: a watch with
// types ends for good at the first stored value that a type refuses.
func watchClusters(ctx context.Context, c client.WithWatch) ([]unstructured.Unstructured, watch.Interface, error) {
	list := rawList()
	if err := c.List(ctx, list); err != nil {
		return nil, nil, err
	}
	w, err := watchtools.NewRetryWatcherWithContext(ctx, list.GetResourceVersion(), &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return c.Watch(ctx, rawList(), &client.ListOptions{Raw: &o})
		},
	})
	return list.Items, w, err
}

func rawList() *unstructured.UnstructuredList {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("StorageClusterList"))
	return list
}

// readable decodes a StorageCluster. One whose spec cannot be decoded is judged by its status, and comes without its
// spec; whole reports whether nothing is left out.
func readable(raw *unstructured.Unstructured) (c *v1alpha1.StorageCluster, whole bool, err error) {
	c = &v1alpha1.StorageCluster{}
	if kube.Decode(raw, c) == nil {
		return c, true, nil
	}
	raw = raw.DeepCopy()
	unstructured.RemoveNestedField(raw.Object, "spec")
	c = &v1alpha1.StorageCluster{}
	return c, false, kube.Decode(raw, c)
}

// ExpectGaps makes the checks accept that versions of the StorageCluster are missed, because the API server restarts
// or gets another definition of the kind: it forgets a version that nobody saw by then. The history in the status
// still shows each step.
func (e *Env) ExpectGaps() {
	e.guard.mu.Lock()
	defer e.guard.mu.Unlock()
	e.guard.gaps = true
}

func (g *guard) violate(message string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.violations = append(g.violations, message)
}

// follow looks at every version of the StorageCluster.
func (g *guard) follow(ctx context.Context, c client.WithWatch, w watch.Interface) {
	defer close(g.done)
	observe := func(raw *unstructured.Unstructured) {
		c, whole, err := readable(raw)
		g.wake(c, whole)
		if err != nil {
			g.violate(err.Error())
			return
		}
		for _, fault := range g.check.Observe(c) {
			g.violate(fault)
		}
		if err := g.deletes.Look(ctx); err != nil && ctx.Err() == nil && !g.expectsGaps() {
			g.violate(err.Error())
		}
		g.mu.Lock()
		defer g.mu.Unlock()
		g.seen, g.steps = c.ResourceVersion, joinSteps(g.steps, c.Status.History)
		if h := c.Status.Hold; h != nil {
			g.holds[h.ID] = h.Message
		}
	}
	for w != nil {
		for ev := range w.ResultChan() {
			switch raw, ok := ev.Object.(*unstructured.Unstructured); {
			case ok && (ev.Type == watch.Added || ev.Type == watch.Modified):
				observe(raw)
			case ok:
				g.wake(nil, false)
			case !g.expectsGaps() || !apierrors.IsResourceExpired(apierrors.FromObject(ev.Object)):
				g.violate(fmt.Sprintf("the watch on the StorageCluster broke, so that versions may have been missed: %v",
					ev.Object))
			}
		}
		w = g.again(ctx, c, observe)
	}
}

func (g *guard) expectsGaps() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.gaps
}

// again watches anew where gaps are expected; nil at the end.
func (g *guard) again(ctx context.Context, c client.WithWatch,
	observe func(*unstructured.Unstructured)) watch.Interface {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for ctx.Err() == nil && g.expectsGaps() {
		items, w, err := watchClusters(ctx, c)
		if err == nil {
			for i := range items {
				observe(&items[i])
			}
			return w
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
	return nil
}

// wrap and transport put the checks before all that an operator writes. Each operator begins without any evidence.
func (g *guard) wrap(inner func(client.WithWatch) client.WithWatch) func(client.WithWatch) client.WithWatch {
	return func(c client.WithWatch) client.WithWatch {
		if inner != nil {
			c = inner(c)
		}
		return g.deletes.Wrap(c)
	}
}

func (g *guard) transport(inner http.RoundTripper) http.RoundTripper {
	if inner == nil {
		inner = http.DefaultTransport
	}
	return &invariants.Evidence{Next: inner, Violate: g.violate, Now: machine.Now}
}

// Violations are what happened so far that must never happen.
func (e *Env) Violations() []string {
	e.guard.mu.Lock()
	defer e.guard.mu.Unlock()
	return append(e.Sim.World().Violations(), e.guard.violations...)
}

// finishGuard waits until the last version was seen, and returns all violations.
func (e *Env) finishGuard() []string {
	g := e.guard
	deadline := machine.After(patience)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for caught := false; !caught; {
		c := kube.Raw() // a test may end while the spec is unreadable
		err := e.Client().Get(context.Background(), client.ObjectKey{Name: v1alpha1.ClusterName}, c)
		g.mu.Lock()
		caught = apierrors.IsNotFound(err) || err == nil && c.GetResourceVersion() == g.seen
		g.mu.Unlock()
		select {
		case <-deadline:
			g.violate(fmt.Sprintf("the watch on the StorageCluster did not see version %s (%v)", c.GetResourceVersion(), err))
			caught = true
		case <-tick.C:
		}
	}
	g.stop()
	<-g.done
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.violations
}
