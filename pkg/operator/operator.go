// Package operator puts the parts together: the manager with its cache, the LINSTOR client, the background writer and
// the reconciler. cmd/operator runs it with flags; tests run it in their own process with short times.
package operator

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/google/uuid"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/backup"
	"github.com/linstor-dev/storagecluster-operator/pkg/catalogue"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/controller"
	"github.com/linstor-dev/storagecluster-operator/pkg/database"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/api"
	"github.com/linstor-dev/storagecluster-operator/pkg/kube"
	"github.com/linstor-dev/storagecluster-operator/pkg/kube/apiclock"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor/restclient"
	"github.com/linstor-dev/storagecluster-operator/pkg/metrics"
	"github.com/linstor-dev/storagecluster-operator/pkg/observe"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/apitls"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/monitors"
	"github.com/linstor-dev/storagecluster-operator/pkg/work"
)

// DefaultEndpoint is LINSTOR's API inside the cluster.
var DefaultEndpoint = fmt.Sprintf("http://%s.%s.svc:%d", resources.ControllerName, v1alpha1.WorkloadNamespace,
	resources.ControllerPort)

// DefaultLockedEndpoint is the same where only those with a certificate are let in.
var DefaultLockedEndpoint = fmt.Sprintf("https://%s:%d", resources.ControllerHost, apitls.Port)

// Options configures an operator.
type Options struct {
	// Version is the operator's own, as its binary was built; holds lead to the documentation of that version.
	Version string
	// Image is the operator's own, with which it takes backups; "" if it is not known: then it takes none.
	Image string
	// LinstorEndpoint is where LINSTOR's API is found. Default: the controller's Service.
	LinstorEndpoint string
	// LinstorLockedEndpoint is where it is found over TLS. Default: the controller's Service.
	LinstorLockedEndpoint string
	// MetricsAddress is where metrics are served over TLS, to those who may get /metrics; "0" for nowhere.
	MetricsAddress string
	// PprofAddress is where Go's profiles are served without protection; "0" for nowhere.
	PprofAddress string
	// ProbeAddress is where /healthz and /readyz are served; "0" for nowhere.
	ProbeAddress string
	// LeaderElect makes several replicas take turns.
	LeaderElect bool
	// LeaseDuration is how long a leader that died is waited for. Default 15s; renewed at two thirds of it.
	LeaseDuration time.Duration
	Timing        cluster.Timing
	Catalogue     *catalogue.Catalogue
	// Parallel is how many writes to LINSTOR run at once. Default 8.
	Parallel int
	// RetryBase and RetryMax bound the back-off of failed writes to LINSTOR. Defaults 1s and 5m.
	RetryBase, RetryMax time.Duration

	// WrapClient is the seam for faults and counting in every write to Kubernetes; nil for none.
	WrapClient func(client.WithWatch) client.WithWatch
	// LinstorTransport is the same seam for LINSTOR; nil for the default transport.
	LinstorTransport http.RoundTripper
	// WrapLinstor is the same seam where LINSTOR is reached over TLS; nil for none.
	WrapLinstor func(http.RoundTripper) http.RoundTripper
	// WrapEtcd is the same seam for the members of the etcd that the operator runs; nil for none.
	WrapEtcd func(api.API) api.API
	// Registry takes the metrics. Default: controller-runtime's.
	Registry ctrlmetrics.RegistererGatherer
}

// Scheme knows all types that the operator uses.
func Scheme() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, snapshotv1.AddToScheme,
		v1alpha1.AddToScheme} {
		if err := add(s); err != nil {
			return nil, fmt.Errorf("build the scheme: %w", err)
		}
	}
	return s, nil
}

// New builds an operator for a cluster. Start the manager to run it.
func New(cfg *rest.Config, o Options) (ctrl.Manager, error) {
	scheme, err := Scheme()
	if err != nil {
		return nil, err
	}
	o = o.withDefaults()
	cfg = rest.CopyConfig(cfg)
	if cfg.QPS == 0 {
		// client-go's own limit of 5 requests a second would stretch the labelling of a thousand nodes to minutes. The API
		// server's priority and fairness protect it better.
		cfg.QPS = -1
	}
	var apiClock apiclock.Clock
	cfg.Wrap(apiClock.Wrap)
	var lease *leaseWatch
	mo := managerOptions(scheme, o)
	if o.LeaderElect {
		if lease, err = newLeaseWatch(cfg, o.LeaseDuration); err != nil {
			return nil, err
		}
		mo.LeaderElectionResourceLockInterface = lease
	}
	mgr, err := ctrl.NewManager(cfg, mo)
	if err != nil {
		return nil, fmt.Errorf("build the manager: %w", err)
	}
	return mgr, wire(mgr, o, lease, &apiClock)
}

func (o Options) withDefaults() Options {
	o.LinstorEndpoint = cmp.Or(o.LinstorEndpoint, DefaultEndpoint)
	o.LinstorLockedEndpoint = cmp.Or(o.LinstorLockedEndpoint, DefaultLockedEndpoint)
	o.LeaseDuration = cmp.Or(o.LeaseDuration, 15*time.Second)
	o.Catalogue = cmp.Or(o.Catalogue, catalogue.Embedded())
	o.Registry = cmp.Or(o.Registry, ctrlmetrics.Registry)
	return o
}

// managerOptions: the cache holds workloads of one namespace only, without managed fields (of Secrets their times),
// and of Nodes only what is read.
func managerOptions(scheme *runtime.Scheme, o Options) ctrl.Options {
	renew := o.LeaseDuration * 2 / 3
	retry := o.LeaseDuration * 2 / 15
	return ctrl.Options{
		Scheme: scheme,
		Cache: cache.Options{
			DefaultNamespaces: map[string]cache.Config{v1alpha1.WorkloadNamespace: {}},
			DefaultTransform:  slimOthers,
			// of optional APIs whose definitions were removed
			DefaultWatchErrorHandler: failedWatch,
			ByObject: map[client.Object]cache.ByObject{
				&corev1.Node{}: {Transform: slimNode}, &corev1.Pod{}: {Transform: slimPod},
				&corev1.Secret{}: {Transform: slimSecret}, &corev1.PersistentVolume{}: {Transform: slimVolume},
			},
		},
		Metrics: metricsserver.Options{
			BindAddress: o.MetricsAddress, SecureServing: true, FilterProvider: filters.WithAuthenticationAndAuthorization,
			TLSOpts: []func(*tls.Config){func(c *tls.Config) { c.MinVersion = tls.VersionTLS12 }},
		},
		HealthProbeBindAddress:        o.ProbeAddress,
		PprofBindAddress:              o.PprofAddress,
		LeaderElection:                o.LeaderElect,
		LeaderElectionID:              leaseName,
		LeaderElectionNamespace:       v1alpha1.OperatorNamespace,
		LeaderElectionReleaseOnCancel: true,
		LeaseDuration:                 &o.LeaseDuration,
		RenewDeadline:                 &renew,
		RetryPeriod:                   &retry,
		NewClient: func(cfg *rest.Config, co client.Options) (client.Client, error) {
			co.Cache.Unstructured = true // StorageClusters, see kube.Decoding
			// The definition may go, and a cache of its objects would look for them for ever.
			co.Cache.DisableFor = append(co.Cache.DisableFor, &snapshotv1.VolumeSnapshot{})
			for _, kind := range monitors.Kinds() {
				u := &unstructured.Unstructured{}
				u.SetGroupVersionKind(monitors.Kind(kind))
				co.Cache.DisableFor = append(co.Cache.DisableFor, u)
			}
			c, err := client.NewWithWatch(cfg, co)
			if err != nil || o.WrapClient == nil {
				return c, err
			}
			return o.WrapClient(c), nil
		},
	}
}

func wire(mgr ctrl.Manager, o Options, lease *leaseWatch, apiClock *apiclock.Clock) error {
	m := metrics.New()
	if err := m.Register(o.Registry); err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	var clk clock.RealClock
	linstor, door, err := restclient.NewWithDoor(restclient.Options{
		Endpoint: o.LinstorEndpoint, LockedEndpoint: o.LinstorLockedEndpoint, ServerName: resources.ControllerHost,
		WrapLocked: o.WrapLinstor, Transport: o.LinstorTransport, BeforeWrite: lease.check, Observe: m.LinstorRequest,
		Clock: clk,
	})
	if err != nil {
		return fmt.Errorf("build the LINSTOR client: %w", err)
	}
	found, err := discovery.NewDiscoveryClientForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return fmt.Errorf("build the discovery client: %w", err)
	}
	wake := make(chan event.GenericEvent, 1)
	members := api.Checked(api.New(nil, etcdDeadlines), lease.check)
	if o.WrapEtcd != nil {
		members = o.WrapEtcd(members)
	}
	observer := o.observer(mgr.GetClient(), mgr.GetAPIReader(), apiClock)
	observer.Linstor, observer.Door, observer.Etcd = linstor, door, members
	observer.Discovery, observer.Watches = kube.Discovery{Client: found}, mgr.GetCache()
	runner := work.New(work.Options{Parallel: o.Parallel, Base: o.RetryBase, Max: o.RetryMax, Passing: step.Passes,
		Notify: func() {
			observer.Invalidate()
			select {
			case wake <- event.GenericEvent{Object: &v1alpha1.StorageCluster{}}:
			default: // one is on its way already
			}
		}})
	observer.Tasks = runner
	reader := kube.Decoding{Reader: mgr.GetClient()}
	writer := &kube.Writer{Client: mgr.GetClient(), BeforeWrite: lease.check}
	r := &controller.Reconciler{
		Backups: backup.Reader{Client: mgr.GetAPIReader()}, Live: kube.Live{Client: mgr.GetAPIReader()},
		Reader: reader, Writer: writer, Observer: observer, API: linstor, Etcd: members, Tasks: runner,
		Recorder: mgr.GetEventRecorder("storagecluster-operator"), Metrics: m, Clock: clk,
	}
	if err := mgr.Add(runner); err != nil {
		return fmt.Errorf("add the background writer: %w", err)
	}
	if err := r.Setup(mgr, wake); err != nil {
		return fmt.Errorf("set up the reconciler: %w", err)
	}
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return fmt.Errorf("add the health check: %w", err)
	}
	if err := mgr.AddReadyzCheck("observation", r.Ready); err != nil {
		return fmt.Errorf("add the readiness check: %w", err)
	}
	if err := mgr.AddReadyzCheck("cache", func(req *http.Request) error {
		ctx, cancel := context.WithTimeout(req.Context(), time.Second)
		defer cancel()
		if !mgr.GetCache().WaitForCacheSync(ctx) {
			return fmt.Errorf("the cache has not synced yet")
		}
		return nil
	}); err != nil {
		return fmt.Errorf("add the cache readiness check: %w", err)
	}
	return mgr.AddReadyzCheck("storagecluster", func(req *http.Request) error {
		ctx, cancel := context.WithTimeout(req.Context(), time.Second)
		defer cancel()
		err := reader.Get(ctx, client.ObjectKey{Name: v1alpha1.ClusterName}, &v1alpha1.StorageCluster{})
		return client.IgnoreNotFound(err)
	})
}

// etcdDeadlines are short, because a look holds up the reconcile, and a change ends before its task would be stopped.
var etcdDeadlines = api.Deadlines{Answer: 2 * time.Second, Change: 10 * time.Second, Long: 100 * time.Second}

// observer is one that reads objects with one client and past the cache with another.
func (o Options) observer(reader, past client.Reader, apiClock *apiclock.Clock) *observe.Observer {
	return &observe.Observer{Reader: reader, Prober: database.New(past), Live: past, Events: past,
		Catalogue: o.Catalogue, Timing: o.Timing, Clock: clock.RealClock{}, Version: o.Version, Image: o.Image,
		APIClock: apiClock.Now}
}

// leaseName is the Lease that the leader holds.
const leaseName = "storagecluster-operator"

// errNotLeader is returned for a write that comes after the lease may have gone to another operator.
var errNotLeader = errors.New("this operator's lease has expired")

// leaseWatch notes when the lease was last renewed. A process that was stopped for a while (a paused node, a frozen
// virtual machine) goes on in the middle of what it did before it learns that another one leads; the check before each
// write stops it there.
type leaseWatch struct {
	resourcelock.Interface
	duration time.Duration

	mu      sync.Mutex
	renewed time.Time
}

func newLeaseWatch(cfg *rest.Config, duration time.Duration) (*leaseWatch, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("read the host name: %w", err)
	}
	lock, err := resourcelock.NewFromKubeconfig(resourcelock.LeasesResourceLock, v1alpha1.OperatorNamespace, leaseName,
		resourcelock.ResourceLockConfig{Identity: host + "_" + uuid.NewString()}, cfg, duration*2/3)
	if err != nil {
		return nil, fmt.Errorf("build the lease: %w", err)
	}
	return &leaseWatch{Interface: lock, duration: duration}, nil
}

// Create takes the lease for the first time.
func (l *leaseWatch) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return l.note(r, func() error { return l.Interface.Create(ctx, r) })
}

// Update takes, renews or releases the lease.
func (l *leaseWatch) Update(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return l.note(r, func() error { return l.Interface.Update(ctx, r) })
}

// note counts a renewal from the moment before it was sent, which is the earliest at which others can count it.
func (l *leaseWatch) note(r resourcelock.LeaderElectionRecord, write func() error) error {
	at := time.Now()
	if err := write(); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.renewed = at
	if r.HolderIdentity != l.Identity() {
		l.renewed = time.Time{} // released
	}
	return nil
}

// check refuses when the lease may have run out. Without leader election there is no lease, and nothing is refused.
func (l *leaseWatch) check(context.Context) error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	// Wall-clock time counts as well: the monotonic clock stands still while a machine sleeps.
	if time.Since(l.renewed) > l.duration || time.Since(l.renewed.Round(0)) > l.duration {
		return errNotLeader
	}
	return nil
}
