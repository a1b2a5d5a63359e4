// Package harness is what the tests on a simulated cluster have in common: a real API server, controller manager and
// scheduler, simulated nodes, a simulated LINSTOR on a machine model that loses data when it is treated badly, and an
// operator that can be started, stopped and cut off from either. Every test runs under the checks of package
// invariants.
package harness

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/catalogue"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/api"
	"github.com/linstor-dev/storagecluster-operator/pkg/metrics"
	"github.com/linstor-dev/storagecluster-operator/pkg/operator"
	"github.com/linstor-dev/storagecluster-operator/test/machine"
	"github.com/linstor-dev/storagecluster-operator/test/sim"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster/kubebin"
)

// patience is how long a test waits for something that must happen, in machine time. It is long because other tests
// run as well.
const patience = 2 * time.Minute

// Patience is how long that is just now, for a program that is given a deadline.
func Patience() time.Duration { return machine.Slow(patience) }

// planes are the control planes of this process's tests, with the operator's manifests.
var planes = simcluster.NewPool(simcluster.PoolOptions{AuditLog: true, Log: os.Stderr, Prepare: install})

// Main runs a package's tests once the control plane's binaries are there. It returns what to exit with.
func Main(m *testing.M) int {
	ctrl.SetLogger(testLogger())
	if _, err := kubebin.Ensure(context.Background(), kubebin.Options{Log: os.Stderr}); err != nil {
		fmt.Fprintln(os.Stderr, "build the control plane:", err)
		return 1
	}
	code := m.Run()
	fmt.Fprintf(os.Stderr, "The machine was %.1f times as slow as a usual one, on average.\n", machine.Average())
	shelf.close()
	stopS3()
	if err := planes.Close(); err != nil {
		fmt.Fprintln(os.Stderr, "stop the control planes:", err)
		return 1
	}
	return code
}

// install applies the operator's manifests. The operator's own pods are left out: the tests run it in their process.
func install(ctx context.Context, c *simcluster.Cluster) error {
	root := filepath.Join("..", "..", "deploy")
	if err := c.ApplyFile(ctx, filepath.Join(root, "crds"), filepath.Join(root, "operator.yaml"),
		filepath.Join(root, "protection.yaml")); err != nil {
		return err
	}
	meta := metav1.ObjectMeta{Namespace: v1alpha1.OperatorNamespace, Name: operatorName}
	if err := c.Client().Patch(ctx, &appsv1.Deployment{ObjectMeta: meta},
		client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":0}}`))); err != nil {
		return fmt.Errorf("leave out the operator's pods: %w", err)
	}
	kind := metav1.TypeMeta{Kind: "StorageClusterList", APIVersion: v1alpha1.GroupVersion.String()}
	return simcluster.WaitServed(ctx, c, &metav1.PartialObjectMetadataList{TypeMeta: kind})
}

// Env is a test's cluster.
type Env struct {
	Administrator

	// Config is the operator's access to the API server.
	Config *rest.Config
	// Catalogue is the operator's; nil for the embedded one.
	Catalogue *catalogue.Catalogue
	// Timing is the operator's; change it before the operator starts.
	Timing cluster.Timing
	// Lease is how long an operator that does not renew it stays the leader. One that is stopped gives it back. It is
	// long, because an API server that is slow for two thirds of it ends the operator, and no test but those about the
	// Lease starts another one.
	Lease time.Duration
	// Probes is where operators that are started from now on serve their probes, such as 127.0.0.1:8081. Default:
	// nowhere.
	Probes string
	// Transport, Wrap and WrapEtcd are seams for faults; nil for none.
	Transport http.RoundTripper
	Wrap      func(client.WithWatch) client.WithWatch
	WrapEtcd  func(api.API) api.API
	// Metrics are those of the operator that was started last.
	Metrics *prometheus.Registry
	// Operator is the one that runs; nil for none.
	Operator *Operator

	guard *guard
}

// Operator is a running operator.
type Operator struct {
	// Done gets what the operator ended with.
	Done   chan error
	cancel context.CancelFunc
}

// Fast is a timing for tests: everything that a real cluster waits for in minutes takes a second or two, and longer on
// a machine that is slow just now: a deadline must not expire because the machine was busy.
func Fast() cluster.Timing {
	t := cluster.DefaultTiming()
	for s := range t.Deadlines {
		t.Deadlines[s] = machine.Slow(45 * time.Second)
	}
	for d, usual := range map[*time.Duration]time.Duration{
		&t.Straggler: 3 * time.Second, &t.HealthLost: time.Second, &t.HealthRegained: time.Second,
		&t.Join: 10 * time.Second, &t.Escalate: 4 * time.Second, &t.DriverLearns: 2 * time.Second,
		&t.TaintLasts: 200 * time.Millisecond, &t.Leave: time.Second, &t.EvacuationAnswer: 3 * time.Second,
		&t.EvacuationStuck: 3 * time.Second, &t.NodeGone: 3 * time.Second,
		&t.PollWorking: 150 * time.Millisecond, &t.PollSteady: 400 * time.Millisecond,
		&t.Safety: time.Second, &t.Capacity: time.Second, &t.Repair: 2 * time.Second,
	} {
		*d = machine.Slow(usual)
	}
	return t
}

// Start brings up a cluster with the operator's manifests, on a control plane of the process's pool; the operator
// itself is started by Run. Tests run beside each other, more than there are processors: most of a test is waiting.
func Start(t *testing.T, ns []simcluster.NodeSpec) *Env {
	t.Helper()
	t.Parallel()
	return StartAlone(t, ns)
}

// StartAlone is Start for a test that looks at what all operators of this process have in common.
func StartAlone(t *testing.T, ns []simcluster.NodeSpec) *Env {
	t.Helper()
	return startWith(t, simcluster.Options{Nodes: ns, Pool: planes})
}

// Install installs the operator's objects.
type Install func(context.Context, *simcluster.Cluster) error

// StartInstalled is Start for a test that installs the operator's objects in its own way, on a control plane of its
// own that has none.
func StartInstalled(t *testing.T, ns []simcluster.NodeSpec, install Install) *Env {
	t.Helper()
	t.Parallel()
	return startInstalled(t, simcluster.Options{Nodes: ns, AuditLog: true}, install)
}

// StartWithDriver is Start for a test whose pods use volumes: where the operator runs LINSTOR's CSI driver, its pods
// are Kubernetes' own sidecars and a driver that works. Each sidecar is a process of 50 MB.
func StartWithDriver(t *testing.T, ns []simcluster.NodeSpec) *Env {
	t.Helper()
	t.Parallel()
	return StartAloneWithDriver(t, ns)
}

// StartAloneWithDriver is StartWithDriver for a test that runs beside others already, or must not.
func StartAloneWithDriver(t *testing.T, ns []simcluster.NodeSpec) *Env {
	t.Helper()
	return startWith(t, simcluster.Options{Nodes: ns, VolumeDriver: true, Pool: planes})
}

func startWith(t *testing.T, o simcluster.Options) *Env {
	t.Helper()
	return startInstalled(t, o, func(context.Context, *simcluster.Cluster) error { return nil })
}

// firstOnline is sim.Options.FirstOnline: long enough that the operator looks at LINSTOR in between, see Fast.
const firstOnline = 400 * time.Millisecond

func startInstalled(t *testing.T, o simcluster.Options, install Install) *Env {
	t.Helper()
	ctx := testContext(t)
	c, err := assemble(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { disassemble(c) })
	if err := install(ctx, c); err != nil {
		t.Fatal(err)
	}
	return newEnv(ctx, t, c)
}

// testContext ends a minute before go test's own limit, so that processes are stopped, or with the test.
func testContext(t *testing.T) context.Context {
	deadline, limited := t.Deadline()
	if !limited {
		deadline = time.Now().Add(24 * time.Hour)
	}
	ctx, cancel := context.WithDeadline(context.Background(), deadline.Add(-time.Minute))
	t.Cleanup(cancel)
	return ctx
}

// assemble starts a cluster with a world of its own.
func assemble(ctx context.Context, o simcluster.Options) (*simcluster.Cluster, error) {
	// LINSTOR's own delays, ten seconds and one and a half, are what most of a roll's or an upgrade's test would be
	// spent with.
	o.World = sim.NewWorld(sim.Options{ReconnectEvery: 2 * time.Second, FirstOnline: machine.Slow(firstOnline)})
	if os.Getenv("E2E_LOG") != "" {
		o.Log = os.Stderr
	}
	o.CrashBackoffMin, o.CrashBackoffMax = 50*time.Millisecond, 400*time.Millisecond
	c, err := simcluster.Start(ctx, o)
	if err != nil {
		o.World.Close()
	}
	return c, err
}

func disassemble(c *simcluster.Cluster) {
	c.Stop()
	c.World().Close()
}

// newEnv is the cluster for a test, which is checked when the test ends.
func newEnv(ctx context.Context, t *testing.T, c *simcluster.Cluster) *Env {
	t.Helper()
	if err := simcluster.WaitServed(ctx, c, &v1alpha1.StorageClusterList{}); err != nil {
		t.Fatal(err)
	}
	admin := Administrator{Waiter: Waiter{T: t, Patience: patience, Slowness: machine.Slowness()}, Ctx: ctx, Sim: c}
	e := &Env{Administrator: admin, Timing: Fast(), Lease: time.Minute}
	e.Passes = e.passes
	var err error
	if e.Config, err = c.ServiceAccountConfig(ctx, v1alpha1.OperatorNamespace, operatorName); err != nil {
		t.Fatal(err)
	}
	e.startGuard()
	t.Cleanup(e.verify)
	return e
}

// For is the same cluster for a test within the test.
func (e *Env) For(t testing.TB) *Env {
	inner := *e
	inner.T = t
	return &inner
}

// Run starts the operator, as the ServiceAccount that deploy/operator.yaml gives it.
func (e *Env) Run() {
	e.T.Helper()
	op, err := e.launch()
	if err != nil {
		e.T.Fatal(err)
	}
	e.Operator = op
	e.T.Cleanup(func() { e.StopOperator() })
}

// passes are those of the operator that was started last; -1 while none runs. Each ends with one outcome.
func (e *Env) passes() int {
	if e.Operator == nil {
		return -1
	}
	sum, err := Count(e.Metrics, metrics.OutcomesName)
	if err != nil {
		return -1
	}
	return int(sum)
}

// Count adds up all series of a counter. It is 0 if there is none.
func Count(from prometheus.Gatherer, name string) (float64, error) {
	families, err := from.Gather()
	if err != nil {
		return 0, err
	}
	sum := 0.0
	for _, f := range families {
		if f.GetName() == name {
			for _, m := range f.GetMetric() {
				sum += m.GetCounter().GetValue()
			}
		}
	}
	return sum, nil
}

func (e *Env) launch() (*Operator, error) {
	e.Metrics = prometheus.NewRegistry()
	plain, locked := simcluster.LinstorPorts(e.Sim)
	mgr, err := operator.New(e.Config, operator.Options{
		Image: OperatorImage, LinstorEndpoint: plain, LinstorLockedEndpoint: locked, MetricsAddress: "0",
		ProbeAddress: cmp.Or(e.Probes, "0"),
		LeaderElect:  true, LeaseDuration: e.Lease, Catalogue: e.Catalogue, Timing: e.Timing,
		RetryBase: 50 * time.Millisecond, RetryMax: 500 * time.Millisecond,
		LinstorTransport: e.guard.transport(e.Transport), WrapLinstor: e.guard.transport,
		WrapClient: e.guard.wrap(e.Wrap), WrapEtcd: e.WrapEtcd, Registry: e.Metrics,
	})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(e.Ctx)
	op := &Operator{cancel: cancel, Done: make(chan error, 1)}
	go func() { op.Done <- mgr.Start(ctx) }()
	return op, nil
}

// StopOperator ends the operator and waits for it, as a kill and a restart of its pod would.
func (e *Env) StopOperator() {
	if e.Operator == nil {
		return
	}
	e.Operator.cancel()
	select {
	case err := <-e.Operator.Done:
		if err != nil {
			e.T.Errorf("operator: %v", err)
		}
	case <-machine.After(e.Patience):
		e.T.Error("the operator did not stop")
	}
	e.Operator = nil
}

// verify checks at the end of every test what must never happen.
func (e *Env) verify() {
	for _, v := range e.Sim.World().Violations() {
		e.T.Errorf("violation: %s", v)
	}
	for _, v := range e.finishGuard() {
		e.T.Errorf("violation: %s", v)
	}
	var c v1alpha1.StorageCluster
	if err := e.Client().Get(context.Background(), client.ObjectKey{Name: v1alpha1.ClusterName}, &c); err != nil {
		return
	}
	if e.T.Failed() {
		e.Dump(&c)
	}
}

// Dump logs what an administrator would look at.
func (e *Env) Dump(c *v1alpha1.StorageCluster) {
	out, _ := e.Sim.Kubectl(context.Background(), "describe", "storagecluster", c.Name)
	e.T.Logf("%s", out)
	for _, kind := range []string{"nodes", "pods"} {
		out, _ = e.Sim.Kubectl(context.Background(), "get", kind, "-A", "-o", "wide")
		e.T.Logf("%s", out)
	}
	for i, r := range e.Sim.World().Writes() {
		if i < 40 {
			e.T.Logf("LINSTOR write: %s %s → %d %s", r.Method, r.Path, r.Status, r.Body)
		}
	}
}

// End stops one of several operators.
func (e *Env) End(op *Operator) {
	e.T.Helper()
	e.Operator = op
	e.StopOperator()
}
