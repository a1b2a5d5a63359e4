// Package e2e runs the operator on the simulated cluster: a real API server, controller manager and scheduler, simulated
// nodes, and a simulated LINSTOR on a machine model that loses data when it is treated badly.
package e2e

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/catalogue"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor/sim"
	"github.com/linstor-dev/storagecluster-operator/pkg/operator"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster/kubebin"
)

// patience bounds how long a test waits for something that must happen. It is long because the machine may be busy.
const patience = 2 * time.Minute

func TestMain(m *testing.M) {
	ctrl.SetLogger(testLogger())
	if _, err := kubebin.Ensure(context.Background(), kubebin.Options{Log: os.Stderr}); err != nil {
		fmt.Fprintln(os.Stderr, "build the control plane:", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// env is one test's cluster.
type env struct {
	t   *testing.T
	ctx context.Context
	c   *simcluster.Cluster
	cfg *rest.Config
	// catalogue is the operator's; nil for the embedded one.
	catalogue *catalogue.Catalogue
	// timing is the operator's; change it before the operator starts.
	timing phases.Timing
	// transport and wrap are seams for faults; nil for none.
	transport http.RoundTripper
	wrap      func(client.WithWatch) client.WithWatch
	op        *runningOperator
	guard     *guard
}

type runningOperator struct {
	cancel context.CancelFunc
	done   chan error
}

// fast is a timing for tests: everything that a real cluster waits for in minutes takes a second or two.
func fast() phases.Timing {
	t := phases.DefaultTiming()
	for s := range t.Deadlines {
		t.Deadlines[s] = 45 * time.Second
	}
	t.Straggler, t.HealthLost, t.HealthRegained = 3*time.Second, time.Second, time.Second
	t.Join, t.Escalate = 10*time.Second, 4*time.Second
	t.Leave, t.EvacuationAnswer, t.EvacuationStuck, t.NodeGone = time.Second, 3*time.Second, 3*time.Second, 3*time.Second
	t.PollWorking, t.PollSteady, t.Safety, t.Capacity = 150*time.Millisecond, 400*time.Millisecond, time.Second, time.Second
	return t
}

// machine is a node's hardware with an LVM thin pool, a zpool and one empty disk.
func machine(i int) sim.MachineSpec {
	return sim.MachineSpec{
		Disks: []sim.Disk{
			{Name: "sda", SizeBytes: 100 << 30, Model: "OS", Serial: fmt.Sprintf("OS%d", i), WWN: fmt.Sprintf("0x5000%d", i), Signature: "gpt"},
			{Name: "sdb", SizeBytes: 500 << 30, Model: "INTEL SSDPE2KX", Serial: fmt.Sprintf("S4EV%d", i), WWN: fmt.Sprintf("0x6000%d", i)},
			{Name: "sdc", SizeBytes: 8 << 40, Rotational: true, Model: "ST8000", Serial: fmt.Sprintf("ZA%d", i), WWN: fmt.Sprintf("0x7000%d", i)},
		},
		VolumeGroups: []sim.VolumeGroup{{Name: "vg_ssd0", SizeKiB: 200 << 20, ThinPools: []sim.ThinPool{{Name: "thin", SizeKiB: 180 << 20}}}},
		ZPools:       []sim.ZPool{{Name: "tank", SizeKiB: 300 << 20}},
		Directories:  []string{"/var/lib", "/var/lib/linstor-pools"},
	}
}

func nodes(n int) []simcluster.NodeSpec {
	out := make([]simcluster.NodeSpec, 0, n)
	for i := 1; i <= n; i++ {
		out = append(out, simcluster.NodeSpec{Name: fmt.Sprintf("n%d", i), Machine: machine(i), Labels: map[string]string{"example.com/storage": "true", "example.com/disk": "nvme"}})
	}
	return out
}

// start brings up a cluster with the operator's manifests; the operator itself is started by run. Tests run beside each other,
// as many as there are processors: most of a test is waiting.
func start(t *testing.T, ns []simcluster.NodeSpec) *env {
	t.Helper()
	t.Parallel()
	return startAlone(t, ns)
}

// startAlone is start for a test that looks at what all operators of this process have in common.
func startAlone(t *testing.T, ns []simcluster.NodeSpec) *env {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
	t.Cleanup(cancel)
	// LINSTOR's own reconnect loop takes ten seconds, which most of a roll's or an upgrade's test would be spent with.
	world := sim.NewWorld(sim.Options{ReconnectEvery: 2 * time.Second})
	t.Cleanup(world.Close)
	c, err := simcluster.Start(ctx, simcluster.Options{Nodes: ns, World: world, AuditLog: true, CrashBackoffMin: 50 * time.Millisecond, CrashBackoffMax: 400 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Stop)
	root := filepath.Join("..", "..", "deploy")
	if err := c.ApplyFile(ctx, filepath.Join(root, "crds"), filepath.Join(root, "operator.yaml")); err != nil {
		t.Fatal(err)
	}
	e := &env{t: t, ctx: ctx, c: c, timing: fast()}
	e.eventually("the API serves StorageClusters", func() error {
		return c.Client().List(ctx, &metav1.PartialObjectMetadataList{TypeMeta: metav1.TypeMeta{Kind: "StorageClusterList", APIVersion: v1alpha1.GroupVersion.String()}})
	})
	if e.cfg, err = c.ServiceAccountConfig(ctx, v1alpha1.OperatorNamespace, "storagecluster-operator"); err != nil {
		t.Fatal(err)
	}
	e.startGuard()
	t.Cleanup(e.verify)
	return e
}

// run starts the operator, as the ServiceAccount that deploy/operator.yaml gives it.
func (e *env) run() {
	e.t.Helper()
	mgr, err := operator.New(e.cfg, operator.Options{
		LinstorEndpoint: e.c.LinstorURL(), MetricsAddress: "0", ProbeAddress: "0", LeaderElect: true, LeaseDuration: 3 * time.Second,
		Catalogue: e.catalogue, Timing: e.timing, RetryBase: 50 * time.Millisecond, RetryMax: 500 * time.Millisecond,
		LinstorTransport: e.guard.transport(e.transport), WrapClient: e.guard.wrap(e.wrap), Registry: prometheus.NewRegistry(),
	})
	if err != nil {
		e.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(e.ctx)
	op := &runningOperator{cancel: cancel, done: make(chan error, 1)}
	go func() { op.done <- mgr.Start(ctx) }()
	e.op = op
	e.t.Cleanup(func() { e.stopOperator() })
}

// stopOperator ends the operator and waits for it, as a kill and a restart of its pod would.
func (e *env) stopOperator() {
	if e.op == nil {
		return
	}
	e.op.cancel()
	select {
	case err := <-e.op.done:
		if err != nil {
			e.t.Errorf("operator: %v", err)
		}
	case <-time.After(patience):
		e.t.Error("the operator did not stop")
	}
	e.op = nil
}

// testLogger prints the operator's log if E2E_LOG is set.
func testLogger() logr.Logger {
	if os.Getenv("E2E_LOG") == "" {
		return logr.Discard()
	}
	var mu sync.Mutex
	return funcr.New(func(prefix, args string) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintf(os.Stderr, "%s %s %s\n", time.Now().Format("15:04:05.000"), prefix, args)
	}, funcr.Options{Verbosity: 1})
}

// verify checks at the end of every test what must never happen.
func (e *env) verify() {
	for _, v := range e.c.World().Violations() {
		e.t.Errorf("violation: %s", v)
	}
	for _, v := range e.finishGuard() {
		e.t.Errorf("violation: %s", v)
	}
	var c v1alpha1.StorageCluster
	if err := e.client().Get(context.Background(), client.ObjectKey{Name: v1alpha1.ClusterName}, &c); err != nil {
		return
	}
	if e.t.Failed() {
		e.dump(&c)
	}
}

func (e *env) dump(c *v1alpha1.StorageCluster) {
	out, _ := e.c.Kubectl(context.Background(), "describe", "storagecluster", c.Name)
	e.t.Logf("%s", out)
	out, _ = e.c.Kubectl(context.Background(), "get", "pods", "-A", "-o", "wide")
	e.t.Logf("%s", out)
	for i, r := range e.c.World().Writes() {
		if i < 40 {
			e.t.Logf("LINSTOR write: %s %s → %d %s", r.Method, r.Path, r.Status, r.Body)
		}
	}
}

func (e *env) client() client.Client { return e.c.Client() }

// eventually polls until the condition holds.
func (e *env) eventually(what string, f func() error) {
	e.t.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	var err error
	for {
		if err = f(); err == nil {
			return
		}
		select {
		case <-deadline:
			e.t.Fatalf("%s: not within %s: %v", what, patience, err)
		case <-tick.C:
		}
	}
}

// during checks that a condition holds all the time.
func (e *env) during(d time.Duration, what string, f func() error) {
	e.t.Helper()
	deadline := time.After(d)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		if err := f(); err != nil {
			e.t.Fatalf("%s: %v", what, err)
		}
		select {
		case <-deadline:
			return
		case <-tick.C:
		}
	}
}

// get reads the StorageCluster; errors are fatal.
func (e *env) get() *v1alpha1.StorageCluster {
	e.t.Helper()
	c := &v1alpha1.StorageCluster{}
	if err := e.client().Get(e.ctx, client.ObjectKey{Name: v1alpha1.ClusterName}, c); err != nil {
		e.t.Fatal(err)
	}
	return c
}

// apply applies a manifest, as kubectl apply --server-side does.
func (e *env) apply(yaml string) {
	e.t.Helper()
	if err := e.c.ApplyYAML(e.ctx, yaml); err != nil {
		e.t.Fatal(err)
	}
}

// cluster is a StorageCluster manifest with the given spec, indented by two blanks.
func cluster(spec string) string {
	return "apiVersion: storage.linstor.dev/v1alpha1\nkind: StorageCluster\nmetadata: {name: linstor}\nspec:\n" + spec
}

const thinPool = `
  storagePools:
  - name: ssd
    lvmThin: {volumeGroup: vg_ssd0, thinPool: thin}
`

const devicePool = `
  storagePools:
  - name: ssd
    lvmThin: {volumeGroup: vg_new, thinPool: thin}
    devices: {match: [{serial: "S4EV*"}]}
`

// update changes the StorageCluster in place.
func (e *env) update(f func(*v1alpha1.StorageCluster)) {
	e.t.Helper()
	e.eventually("update the StorageCluster", func() error {
		c := e.get()
		f(c)
		err := e.client().Update(e.ctx, c)
		if apierrors.IsConflict(err) {
			return err
		}
		if err != nil {
			e.t.Fatal(err)
		}
		return nil
	})
}

// annotate does what kubectl annotate does: it changes nothing else, so that the generation stays.
func (e *env) annotate(key, value string) {
	e.t.Helper()
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, key, value)
	if err := e.client().Patch(e.ctx, e.get(), client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		e.t.Fatal(err)
	}
}

// waitPhase waits for a phase.
func (e *env) waitPhase(p v1alpha1.Phase) *v1alpha1.StorageCluster {
	e.t.Helper()
	var c *v1alpha1.StorageCluster
	e.eventually("phase "+string(p), func() error {
		c = e.get()
		if c.Status.Phase != p {
			return fmt.Errorf("phase is %s: %s", c.Status.Phase, c.Status.Message)
		}
		return nil
	})
	return c
}

// waitHold waits for the cluster's hold of a reason.
func (e *env) waitHold(r v1alpha1.HoldReason) *v1alpha1.Hold {
	e.t.Helper()
	var hold *v1alpha1.Hold
	e.eventually("hold "+string(r), func() error {
		c := e.get()
		if hold = c.Status.Hold; hold == nil || hold.Reason != r {
			return fmt.Errorf("phase is %s, hold is %+v: %s", c.Status.Phase, hold, c.Status.Message)
		}
		return nil
	})
	return hold
}

// waitNodeHold waits for a hold of single nodes.
func (e *env) waitNodeHold(r v1alpha1.HoldReason) *v1alpha1.Hold {
	e.t.Helper()
	var hold *v1alpha1.Hold
	e.eventually("node hold "+string(r), func() error {
		for i, h := range e.get().Status.NodeHolds {
			if h.Reason == r {
				hold = &e.get().Status.NodeHolds[i]
				return nil
			}
		}
		return fmt.Errorf("node holds are %+v", e.get().Status.NodeHolds)
	})
	return hold
}

func (e *env) resume(h *v1alpha1.Hold, option string) {
	e.t.Helper()
	e.annotate(v1alpha1.AnnotationResume, h.ID+":"+option)
}

// remove deletes the StorageCluster.
func (e *env) remove(opts ...client.DeleteOption) {
	e.t.Helper()
	if err := e.client().Delete(e.ctx, e.get(), opts...); err != nil {
		e.t.Fatal(err)
	}
}

func (e *env) waitGone() {
	e.t.Helper()
	e.eventually("the StorageCluster is gone", func() error {
		c := &v1alpha1.StorageCluster{}
		err := e.client().Get(e.ctx, client.ObjectKey{Name: v1alpha1.ClusterName}, c)
		if err == nil {
			return fmt.Errorf("still there: %s %s", c.Status.Phase, c.Status.Message)
		}
		return client.IgnoreNotFound(err)
	})
}

// condition is the status and reason of a condition.
func condition(c *v1alpha1.StorageCluster, kind string) string {
	if cond := meta.FindStatusCondition(c.Status.Conditions, kind); cond != nil {
		return string(cond.Status) + "/" + cond.Reason
	}
	return "absent"
}

// eventReasons are the reasons of the StorageCluster's Events, in the order in which they came.
func (e *env) events() []eventsv1.Event {
	e.t.Helper()
	var list eventsv1.EventList
	if err := e.client().List(e.ctx, &list); err != nil {
		e.t.Fatal(err)
	}
	var out []eventsv1.Event
	for _, ev := range list.Items {
		if ev.Regarding.Kind == "StorageCluster" {
			out = append(out, ev)
		}
	}
	return out
}

func (e *env) waitEvent(reason string, contains ...string) {
	e.t.Helper()
	e.eventually("Event "+reason, func() error {
		for _, ev := range e.events() {
			if ev.Reason != reason {
				continue
			}
			ok := true
			for _, c := range contains {
				ok = ok && strings.Contains(ev.Note, c)
			}
			if ok {
				return nil
			}
		}
		return fmt.Errorf("no such Event among %d", len(e.events()))
	})
}

func node(e *env, name string) *corev1.Node {
	e.t.Helper()
	n := &corev1.Node{}
	if err := e.client().Get(e.ctx, client.ObjectKey{Name: name}, n); err != nil {
		e.t.Fatal(err)
	}
	return n
}

// linstorPost is what an administrator does with LINSTOR's client.
func (e *env) linstorPost(path, body string) {
	e.t.Helper()
	req, err := http.NewRequestWithContext(e.ctx, http.MethodPost, e.c.LinstorURL()+path, strings.NewReader(body))
	if err != nil {
		e.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		e.t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusCreated {
		e.t.Fatalf("POST %s: %s", path, resp.Status)
	}
}
