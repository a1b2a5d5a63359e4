package operator

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/poolspec"
	etcd "github.com/linstor-dev/storagecluster-operator/pkg/etcd/api"
	"github.com/linstor-dev/storagecluster-operator/pkg/kube"
	"github.com/linstor-dev/storagecluster-operator/pkg/kube/apiclock"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor/restclient"
	"github.com/linstor-dev/storagecluster-operator/pkg/observe"
	"github.com/linstor-dev/storagecluster-operator/pkg/plan"
	"github.com/linstor-dev/storagecluster-operator/pkg/plan/disklist"
	"github.com/linstor-dev/storagecluster-operator/pkg/plan/result"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/work"
)

// PlanWithin bounds a plan: filling the caches, one look at LINSTOR and at the disks of its nodes.
const PlanWithin = 90 * time.Second

// ErrPlanLate is the end of a plan that takes longer.
var ErrPlanLate = fmt.Errorf("the cluster could not be observed within %s", PlanWithin)

// errPlan is what a write would end with.
var errPlan = errors.New("this is a plan: nothing is written")

// Plan looks at the cluster once, and says what another spec of the StorageCluster would do; nil stands for the spec
// as it is stored. It needs the operator's rights, and changes nothing: its client refuses every request but reads.
func Plan(ctx context.Context, cfg *rest.Config, o Options, wanted *v1alpha1.StorageCluster) (*result.Plan, error) {
	return within(ctx, func(ctx context.Context) (*result.Plan, error) {
		in, err := o.withDefaults().look(ctx, cfg, wanted, false)
		if err != nil {
			return nil, err
		}
		return plan.Make(ctx, *in)
	})
}

// Disks looks at the cluster once, as Plan does, and lists the disks of each node, with what would become of them by
// the rules of another spec; nil stands for the spec as it is stored.
func Disks(ctx context.Context, cfg *rest.Config, o Options, wanted *v1alpha1.StorageCluster) (*result.Disks, error) {
	return within(ctx, func(ctx context.Context) (*result.Disks, error) {
		in, err := o.withDefaults().look(ctx, cfg, wanted, true)
		if err != nil {
			return nil, err
		}
		return disklist.Make(*in)
	})
}

// within bounds a look at the cluster, and says so where that is why it fails.
func within[T any](ctx context.Context, look func(context.Context) (*T, error)) (*T, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, PlanWithin, ErrPlanLate)
	defer cancel()
	out, err := look(ctx)
	if cause := context.Cause(ctx); err != nil && cause != nil && !errors.Is(err, cause) {
		err = fmt.Errorf("%w: %w", cause, err)
	}
	return out, err
}

// look is what a plan is made from. disks makes it look at those of all nodes, whatever the spec says of disks.
func (o Options) look(ctx context.Context, cfg *rest.Config, wanted *v1alpha1.StorageCluster,
	disks bool) (*plan.Input, error) {
	cfg = rest.CopyConfig(cfg)
	if cfg.QPS == 0 {
		cfg.QPS = -1
	}
	var apiClock apiclock.Clock
	cfg.Wrap(apiClock.Wrap)
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return readOnly{next} })
	s, err := o.sources(ctx, cfg, &apiClock)
	if err != nil {
		return nil, err
	}
	stored := &v1alpha1.StorageCluster{}
	err = kube.Decoding{Reader: s.Reader}.Get(ctx, client.ObjectKey{Name: v1alpha1.ClusterName}, stored)
	switch {
	case apierrors.IsNotFound(err) && wanted == nil:
		return nil, errors.New("no StorageCluster exists, and no manifest was given")
	case apierrors.IsNotFound(err):
		stored = nil
	case err != nil:
		return nil, fmt.Errorf("read the StorageCluster: %w", err)
	}
	edited := plan.Edited(stored, wanted)
	s.Disks = disks || poolspec.WantsDevices(&edited.Spec)
	seen, err := s.Observe(ctx, edited)
	if err != nil {
		return nil, fmt.Errorf("observe the cluster: %w", err)
	}
	return &plan.Input{Seen: seen, Stored: stored, Wanted: wanted}, nil
}

// sources is the operator's own observer on a cache of its own, which ends with the context.
func (o Options) sources(ctx context.Context, cfg *rest.Config, apiClock *apiclock.Clock) (*observe.Observer, error) {
	scheme, err := Scheme()
	if err != nil {
		return nil, err
	}
	how := managerOptions(scheme, o)
	how.Cache.Scheme = scheme
	cached, err := cache.New(cfg, how.Cache)
	if err != nil {
		return nil, fmt.Errorf("build the cache: %w", err)
	}
	o.WrapClient = nil // it is about writes
	reader, err := managerOptions(scheme, o).NewClient(cfg, client.Options{Scheme: scheme,
		Cache: &client.CacheOptions{Reader: cached}})
	if err != nil {
		return nil, fmt.Errorf("build the client: %w", err)
	}
	past, err := client.New(cfg, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("build the client: %w", err)
	}
	found, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("build the discovery client: %w", err)
	}
	api, door, err := restclient.NewWithDoor(restclient.Options{
		Endpoint: o.LinstorEndpoint, LockedEndpoint: o.LinstorLockedEndpoint, ServerName: resources.ControllerHost,
		WrapLocked: o.WrapLinstor, Transport: o.LinstorTransport,
		BeforeWrite: func(context.Context) error { return errPlan },
	})
	if err != nil {
		return nil, fmt.Errorf("build the LINSTOR client: %w", err)
	}
	observer := o.observer(reader, past, apiClock)
	observer.Linstor, observer.Door, observer.Tasks = api, door, noTasks{}
	observer.Etcd = etcd.Checked(etcd.New(nil, etcdDeadlines), func(context.Context) error { return errPlan })
	observer.Discovery, observer.Watches = kube.Discovery{Client: found}, cached
	failed := make(chan error, 1)
	go func() { failed <- cached.Start(ctx) }()
	if !cached.WaitForCacheSync(ctx) {
		return nil, fmt.Errorf("start the cache: %w", errors.Join(context.Cause(ctx), <-failed))
	}
	return observer, nil
}

// noTasks are the background writes of a process that makes none. Those of the operator that leads are in its memory.
type noTasks struct{}

func (noTasks) Errors() map[string]error { return nil }
func (noTasks) State(string) work.State  { return work.State{} }

// readOnly refuses every request that is not a read, before it is sent.
type readOnly struct{ next http.RoundTripper }

func (r readOnly) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method != http.MethodGet && req.Method != http.MethodHead {
		return nil, fmt.Errorf("%s %s: %w", req.Method, req.URL.Path, errPlan)
	}
	return r.next.RoundTrip(req)
}
