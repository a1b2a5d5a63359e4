package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor/sim"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster"
)

// errKilled is what a write gets that comes after the operator's death.
var errKilled = errors.New("the operator was killed before this write")

// gate stands between an operator and everything that it writes to, Leases and Events aside.
type gate struct {
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

func newGate() *gate { return &gate{left: -1, spent: make(chan struct{})} }

// limit lets n more writes pass, and tells when the last one has landed.
func (g *gate) limit(n int) <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.left, g.spent = n, make(chan struct{})
	return g.spent
}

// pinAt stops all writes when the operator has entered the phase.
func (g *gate) pinAt(p v1alpha1.Phase) (pinned <-chan struct{}, release func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pin, g.pinned, g.release = p, make(chan struct{}), make(chan struct{})
	opened := g.release
	return g.pinned, sync.OnceFunc(func() { close(opened) })
}

func (g *gate) count() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.writes
}

// pass lets one write through, or not. phase is the one that the write brings, if it brings one.
func (g *gate) pass(ctx context.Context, phase v1alpha1.Phase, write func() error) error {
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
func (g *gate) wrap(c client.WithWatch) client.WithWatch {
	return interceptor.NewClient(c, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			return g.pass(ctx, "", func() error { return c.Create(ctx, o, opts...) })
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			return g.pass(ctx, "", func() error { return c.Update(ctx, o, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			return g.pass(ctx, "", func() error { return c.Patch(ctx, o, p, opts...) })
		},
		Apply: func(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			return g.pass(ctx, "", func() error { return c.Apply(ctx, o, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			return g.pass(ctx, "", func() error { return c.Delete(ctx, o, opts...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			var phase v1alpha1.Phase
			if sc, ok := o.(*v1alpha1.StorageCluster); ok {
				phase = sc.Status.Phase
			}
			return g.pass(ctx, phase, func() error { return c.SubResource(sub).Patch(ctx, o, p, opts...) })
		},
	})
}

// RoundTrip makes the gate stand before LINSTOR as well.
func (g *gate) RoundTrip(r *http.Request) (*http.Response, error) {
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

func (g *gate) install(e *env) { e.wrap, e.transport = g.wrap, g }

// await waits for a channel to be closed.
func (e *env) await(what string, ch <-chan struct{}) {
	e.t.Helper()
	select {
	case <-ch:
	case <-time.After(patience):
		e.t.Fatalf("%s: not within %s; the cluster is %+v", what, patience, e.get().Status)
	}
}

func chainPhases() []v1alpha1.Phase {
	return []v1alpha1.Phase{v1alpha1.PhasePending, v1alpha1.PhaseAssessing, v1alpha1.PhaseKernelModule, v1alpha1.PhaseDatabase, v1alpha1.PhaseController,
		v1alpha1.PhaseSatellites, v1alpha1.PhaseNodeRegistration, v1alpha1.PhaseStoragePools}
}

// noDuplicates checks that every Kubernetes object, LINSTOR node and LINSTOR pool was made once.
func noDuplicates(e *env) {
	e.t.Helper()
	made := map[string]int{}
	for _, ev := range operatorWrites(e, 0) {
		if ev.Code == http.StatusCreated && ev.Resource != "events" {
			made[ev.Resource+" "+ev.Namespace+"/"+ev.Name]++
		}
	}
	for _, w := range e.c.World().Writes() {
		var body struct {
			Name string `json:"name"`
			Pool string `json:"storage_pool_name"`
		}
		if w.Method != http.MethodPost || json.Unmarshal(w.Body, &body) != nil {
			continue
		}
		switch {
		case w.Path == "/v1/nodes":
			made["LINSTOR node "+body.Name]++
		case strings.HasSuffix(w.Path, "/storage-pools"):
			made["LINSTOR pool "+w.Path+" "+body.Pool]++
		}
	}
	for what, n := range made {
		if n > 1 {
			e.t.Errorf("%s was made %d times", what, n)
		}
	}
	if len(made) < 6+2*3 {
		e.t.Errorf("only %d things were made: %v", len(made), slices.Sorted(maps.Keys(made)))
	}
}

// TestKilledAfterEveryWrite kills the operator after each single write, to Kubernetes or to LINSTOR, until nothing is left
// to write.
func TestKilledAfterEveryWrite(t *testing.T) {
	e := start(t, nodes(3))
	g := newGate()
	g.install(e)
	e.apply(cluster(thinPool))
	seen := map[v1alpha1.Phase]bool{}
	kills := 0
	for ; e.get().Status.Phase != v1alpha1.PhaseReady; kills++ {
		if kills > 150 {
			t.Fatalf("after %d lives the operator is still in %s: %s", kills, e.get().Status.Phase, e.get().Status.Message)
		}
		spent := g.limit(1)
		e.run()
		e.await(fmt.Sprintf("write %d", kills+1), spent)
		e.stopOperator()
		seen[e.get().Status.Phase] = true
	}
	t.Logf("Ready in %d lives", kills)
	for _, p := range chainPhases()[1:] {
		if !seen[p] {
			t.Errorf("the operator was never killed in %s", p)
		}
	}
	noDuplicates(e)
	g.limit(-1)
	e.run()
	waitStatus(e, "all nodes and pools", func(s *v1alpha1.StorageClusterStatus) bool {
		return s.Phase == v1alpha1.PhaseReady && s.Nodes.Summary == "3/3" && s.Pools.Summary == "3/3"
	})
	noDuplicates(e)
}

// TestKilledInEveryPhase kills the operator once in each phase, at the moment when it has entered it.
func TestKilledInEveryPhase(t *testing.T) {
	e := start(t, nodes(3))
	g := newGate()
	g.install(e)
	e.apply(cluster(thinPool))
	for _, p := range chainPhases()[1:] {
		pinned, release := g.pinAt(p)
		e.run()
		e.await("phase "+string(p), pinned)
		g.limit(0)
		release()
		e.stopOperator()
		if got := e.get().Status.Phase; got != p {
			t.Fatalf("killed in %s, want %s", got, p)
		}
		g.limit(-1)
	}
	e.run()
	e.waitPhase(v1alpha1.PhaseReady)
	noDuplicates(e)
}

// TestSpecChangesInEveryPhase changes the spec while the operator is stopped in the middle of each phase, so that it goes
// on with what it saw before.
func TestSpecChangesInEveryPhase(t *testing.T) {
	e := start(t, nodes(3))
	g := newGate()
	g.install(e)
	e.apply(cluster(thinPool))
	phases := chainPhases()[1:]
	pinned, release := g.pinAt(phases[0])
	e.run()
	for i, p := range phases {
		e.await("phase "+string(p), pinned)
		e.update(func(c *v1alpha1.StorageCluster) {
			if c.Spec.Nodes.Properties == nil {
				c.Spec.Nodes.Properties = map[string]string{}
			}
			c.Spec.Nodes.Properties["Aux/example.com/"+string(p)] = "changed"
			v := intstr.FromInt32(int32(i%3 + 1))
			c.Spec.Nodes.MinReady = &v
			if p == v1alpha1.PhaseController || p == v1alpha1.PhaseStoragePools {
				name := strings.ToLower(string(p))
				c.Spec.StoragePools = append(c.Spec.StoragePools, v1alpha1.StoragePoolSpec{
					Name: name, FileThin: &v1alpha1.FilePool{Directory: "/var/lib/linstor-pools/" + name},
				})
			}
		})
		next := release
		if i+1 < len(phases) {
			pinned, release = g.pinAt(phases[i+1])
		}
		next()
	}
	c := waitStatus(e, "Ready with the last spec", func(s *v1alpha1.StorageClusterStatus) bool {
		return s.Phase == v1alpha1.PhaseReady && s.AcceptedGeneration == e.get().Generation && s.Pools.Summary == "9/9"
	})
	if want := int32((len(phases)-1)%3 + 1); c.Status.Nodes.MinReady != want {
		t.Errorf("minReady is %d, want %d", c.Status.Nodes.MinReady, want)
	}
	for _, name := range []string{"n1", "n2", "n3"} {
		n, err := linstorNode(e, name)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range phases {
			if n.Properties["Aux/example.com/"+string(p)] != "changed" {
				t.Errorf("node %s lacks the property that was added in %s", name, p)
			}
		}
	}
	noDuplicatesOfPools(e, 9)

	// A change that cannot be done is taken back, and leaves no trace in the status.
	good := e.get().Spec.DeepCopy()
	e.update(func(c *v1alpha1.StorageCluster) {
		c.Spec.StoragePools = append(c.Spec.StoragePools, v1alpha1.StoragePoolSpec{Name: "wrong", LVM: &v1alpha1.LVMPool{VolumeGroup: "vg_missing"}})
	})
	e.waitHold(v1alpha1.HoldPoolBackendMissing)
	e.update(func(c *v1alpha1.StorageCluster) { c.Spec = *good })
	c = waitStatus(e, "Ready with the spec from before", func(s *v1alpha1.StorageClusterStatus) bool {
		return s.Phase == v1alpha1.PhaseReady && s.AcceptedGeneration == e.get().Generation
	})
	if c.Status.Hold != nil || c.Status.Pools.Summary != "9/9" || len(c.Status.Nodes.Problems) > 0 || condition(c, v1alpha1.ConditionHumanInterventionRequired) != "False/NoHold" {
		t.Errorf("after the change was taken back: hold %+v, pools %s, problems %+v", c.Status.Hold, c.Status.Pools.Summary, c.Status.Nodes.Problems)
	}
}

func noDuplicatesOfPools(e *env, want int) {
	e.t.Helper()
	made := 0
	for _, w := range e.c.World().Writes() {
		if w.Method == http.MethodPost && strings.HasSuffix(w.Path, "/storage-pools") {
			made++
		}
	}
	if made != want {
		e.t.Errorf("%d pools were made, want %d", made, want)
	}
}

// workWrites are the writes with which the operator works: reports in the status are none.
func workWrites(e *env, from int) []simcluster.AuditEvent {
	return slices.DeleteFunc(operatorWrites(e, from), func(ev simcluster.AuditEvent) bool {
		return ev.Resource == "storageclusters" && ev.Subresource == "status"
	})
}

func suspend(e *env, v bool) {
	e.t.Helper()
	e.update(func(c *v1alpha1.StorageCluster) { c.Spec.Suspend = v })
}

// untouched checks that a suspended operator writes nothing for a while in which it looks several times.
func untouched(e *env, where string) {
	e.t.Helper()
	e.eventually("suspended in "+where, func() error {
		if got := condition(e.get(), v1alpha1.ConditionSuspended); got != "True/Suspended" {
			return fmt.Errorf("condition is %s", got)
		}
		return nil
	})
	mark, phase, since := auditMark(e), e.get().Status.Phase, time.Now()
	e.during(800*time.Millisecond, "suspended in "+where, func() error {
		if w := workWrites(e, mark); len(w) > 0 {
			return fmt.Errorf("it wrote to Kubernetes:\n%s", tally(w))
		}
		for _, w := range e.c.World().Writes() {
			if w.Time.After(since) { // what had begun before may end
				return fmt.Errorf("it wrote to LINSTOR: %s %s", w.Method, w.Path)
			}
		}
		if got := e.get().Status.Phase; got != phase {
			return fmt.Errorf("phase went from %s to %s", phase, got)
		}
		return nil
	})
}

func TestSuspendInEveryPhase(t *testing.T) {
	e := start(t, nodes(12)) // more nodes than are written at once: some writes are waiting when it is suspended
	e.c.World().SetFault(func(r *http.Request) *sim.Fault {
		if r.Method == http.MethodPost {
			return &sim.Fault{Delay: 150 * time.Millisecond}
		}
		return nil
	})
	g := newGate()
	g.install(e)
	e.apply(cluster(thinPool))
	phases := chainPhases()[1:]
	pinned, release := g.pinAt(phases[0])
	e.run()
	for i, p := range phases {
		e.await("phase "+string(p), pinned)
		suspend(e, true)
		release()
		if i+1 < len(phases) {
			pinned, release = g.pinAt(phases[i+1])
		}
		untouched(e, string(p))
		suspend(e, false)
	}
	c := e.waitPhase(v1alpha1.PhaseReady)
	if got := condition(c, v1alpha1.ConditionSuspended); got != "False/NotSuspended" {
		t.Errorf("Suspended is %s", got)
	}
	noDuplicates(e)
}

// TestSuspendAfterInstallation suspends a cluster that is repaired, held and deleted.
func TestSuspendAfterInstallation(t *testing.T) {
	e := start(t, nodes(3))
	e.c.World().Machine("n1").SetSignature("S4EV1", "xfs")
	e.run()
	e.apply(cluster(thinPool))
	e.waitPhase(v1alpha1.PhaseReady)

	suspend(e, true)
	ds := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.WorkloadNamespace, Name: resources.SatelliteName}}
	if err := e.client().Delete(e.ctx, ds); err != nil {
		t.Fatal(err)
	}
	untouched(e, "Ready")
	suspend(e, false)
	e.eventually("the DaemonSet is made again", func() error { return e.client().Get(e.ctx, client.ObjectKeyFromObject(ds), ds) })
	waitStatus(e, "all nodes", func(s *v1alpha1.StorageClusterStatus) bool {
		return s.Phase == v1alpha1.PhaseReady && s.Nodes.Online == 3
	})

	e.update(func(c *v1alpha1.StorageCluster) {
		all := intstr.FromString("100%")
		c.Spec.Nodes.MinReady = &all
		c.Spec.StoragePools = append(c.Spec.StoragePools, v1alpha1.StoragePoolSpec{
			Name: "new", LVM: &v1alpha1.LVMPool{VolumeGroup: "vg_new"},
			Devices: &v1alpha1.DevicesSpec{Match: []v1alpha1.DeviceMatch{{Serial: "S4EV*"}}},
		})
	})
	hold := e.waitHold(v1alpha1.HoldDeviceNotEmpty)
	suspend(e, true)
	e.resume(hold, v1alpha1.OptionSkip)
	untouched(e, "HumanIntervention")
	suspend(e, false)
	e.waitPhase(v1alpha1.PhaseReady)

	suspend(e, true)
	e.remove()
	e.waitPhase(v1alpha1.PhaseDeleting)
	untouched(e, "Deleting")
	if err := e.client().Get(e.ctx, client.ObjectKeyFromObject(ds), ds); err != nil || ds.DeletionTimestamp != nil {
		t.Errorf("the DaemonSet went while the deletion was suspended: %v", err)
	}
	suspend(e, false)
	e.waitGone()
}

// runTwo installs with one operator and starts another beside it; each has a gate of its own.
func runTwo(e *env) (first, second *runningOperator, gates [2]*gate) {
	e.t.Helper()
	gates = [2]*gate{newGate(), newGate()}
	gates[0].install(e)
	e.run()
	e.apply(cluster(thinPool))
	e.waitPhase(v1alpha1.PhaseReady)
	first, e.op = e.op, nil
	gates[1].install(e)
	e.run()
	second, e.op = e.op, nil
	return first, second, gates
}

// end stops one of several operators.
func (e *env) end(op *runningOperator) {
	e.t.Helper()
	e.op = op
	e.stopOperator()
}

// turn changes a property and waits until it has arrived.
func turn(e *env, value string) {
	e.t.Helper()
	e.update(func(c *v1alpha1.StorageCluster) {
		c.Spec.Nodes.Properties = map[string]string{"Aux/example.com/turn": value}
	})
	e.eventually("the property "+value, func() error {
		n, err := linstorNode(e, "n1")
		if err == nil && n.Properties["Aux/example.com/turn"] != value {
			err = fmt.Errorf("it is %q", n.Properties["Aux/example.com/turn"])
		}
		return err
	})
	e.waitPhase(v1alpha1.PhaseReady)
}

func TestOnlyTheLeaderActs(t *testing.T) {
	e := start(t, nodes(3))
	first, second, gates := runTwo(e)
	turn(e, "one")
	if n := gates[1].count(); n != 0 {
		t.Errorf("the operator that does not lead wrote %d times", n)
	}
	e.end(first)
	before := gates[0].count()
	turn(e, "two")
	if n := gates[0].count(); n != before {
		t.Errorf("the operator that led before wrote %d times more", n-before)
	}
	if gates[1].count() == 0 {
		t.Error("the new leader wrote nothing")
	}
	e.end(second)
}

// TestLeaderThatLosesItsLease takes the Lease away from an operator that does not know: it must stop by itself, and the
// other one waits for the Lease to run out.
func TestLeaderThatLosesItsLease(t *testing.T) {
	e := start(t, nodes(3))
	first, second, gates := runTwo(e)
	lease := &coordinationv1.Lease{}
	e.eventually("the Lease is taken away", func() error {
		if err := e.client().Get(e.ctx, client.ObjectKey{Namespace: v1alpha1.OperatorNamespace, Name: "storagecluster-operator"}, lease); err != nil {
			return err
		}
		stranger, now := "somebody-else", metav1.NowMicro()
		lease.Spec.HolderIdentity, lease.Spec.RenewTime = &stranger, &now
		return e.client().Update(e.ctx, lease)
	})
	select {
	case err := <-first.done:
		if err == nil {
			t.Error("an operator that lost its Lease ended as if it was told to")
		}
	case <-time.After(patience):
		t.Fatal("an operator that lost its Lease goes on")
	}
	e.eventually("the other operator leads", func() error {
		if err := e.client().Get(e.ctx, client.ObjectKeyFromObject(lease), lease); err != nil {
			return err
		}
		if holder := *lease.Spec.HolderIdentity; holder == "somebody-else" {
			return fmt.Errorf("the Lease is %s's", holder)
		}
		return nil
	})
	before := gates[0].count()
	turn(e, "two")
	if n := gates[0].count(); n != before || gates[1].count() == 0 {
		t.Errorf("after the change of leaders the first wrote %d times, the second %d times", n-before, gates[1].count())
	}
	e.end(second)
}

func TestUnknownPhaseIsLeftAlone(t *testing.T) {
	e := start(t, nodes(3))
	e.run()
	e.apply(cluster(thinPool))
	e.waitPhase(v1alpha1.PhaseReady)
	comeToRest(e)
	setPhase := func(p v1alpha1.Phase) {
		t.Helper()
		e.eventually("phase "+string(p)+" is written", func() error {
			c := e.get()
			c.Status.Phase = p
			return e.client().Status().Update(e.ctx, c)
		})
	}
	setPhase("FromTheFuture")
	mark := auditMark(e)
	e.update(func(c *v1alpha1.StorageCluster) {
		c.Spec.Nodes.Properties = map[string]string{"Aux/example.com/turn": "future"}
	})
	ds := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.WorkloadNamespace, Name: resources.SatelliteName}}
	if err := e.client().Delete(e.ctx, ds); err != nil {
		t.Fatal(err)
	}
	e.waitEvent("UnknownPhase", "FromTheFuture")
	e.c.World().ResetRequests()
	e.during(1500*time.Millisecond, "in a phase from the future", func() error {
		writes := slices.DeleteFunc(operatorWrites(e, mark), func(ev simcluster.AuditEvent) bool { return ev.Resource == "events" })
		if len(writes) > 0 {
			return fmt.Errorf("it wrote to Kubernetes:\n%s", tally(writes))
		}
		if w := e.c.World().Writes(); len(w) > 0 {
			return fmt.Errorf("it wrote to LINSTOR: %s %s", w[0].Method, w[0].Path)
		}
		return nil
	})
	setPhase(v1alpha1.PhaseReady)
	turn(e, "present")
}

// unreliable is a network between the operator and LINSTOR that loses the first writes of each kind, each in its way.
type unreliable struct {
	mu    sync.Mutex
	tried map[string]int
}

// ways in which a write fails without being done, in the order in which they come.
var failures = []func(*http.Request) (*http.Response, error){
	func(*http.Request) (*http.Response, error) { return nil, syscall.ECONNREFUSED },
	func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusBadGateway, Header: http.Header{}, Request: r, Body: io.NopCloser(strings.NewReader("<html>bad gateway</html>"))}, nil
	},
}

// losses are ways in which a write is done and the operator does not learn of it. Which one comes depends on the object.
var losses = []func(*http.Response) (*http.Response, error){
	func(*http.Response) (*http.Response, error) { return nil, io.ErrUnexpectedEOF },
	func(resp *http.Response) (*http.Response, error) {
		resp.Body = io.NopCloser(io.MultiReader(io.LimitReader(resp.Body, 5), iotest.ErrReader(io.ErrUnexpectedEOF)))
		return resp, nil
	},
}

// subject is what a write is about.
func subject(r *http.Request) string {
	var body struct {
		Name string `json:"name"`
	}
	if r.GetBody != nil {
		if b, err := r.GetBody(); err == nil {
			_ = json.NewDecoder(b).Decode(&body)
		}
	}
	return strings.TrimSpace(r.Method + " " + r.URL.Path + " " + body.Name)
}

// RoundTrip implements http.RoundTripper.
func (u *unreliable) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet {
		return http.DefaultTransport.RoundTrip(r)
	}
	what := subject(r)
	u.mu.Lock()
	n := u.tried[what]
	u.tried[what]++
	u.mu.Unlock()
	if n < len(failures) {
		return failures[n](r)
	}
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil || n > len(failures) {
		return resp, err
	}
	return losses[len(what)%len(losses)](resp)
}

// TestLinstorWritesThatFail lets the first tries of each write to LINSTOR fail, the last of them after it was done.
func TestLinstorWritesThatFail(t *testing.T) {
	e := start(t, nodes(12))
	u := &unreliable{tried: map[string]int{}}
	e.transport = u
	e.c.World().SetFault(func(*http.Request) *sim.Fault { return &sim.Fault{Delay: 50 * time.Millisecond} }) // and all is slow
	e.run()
	e.apply(cluster(interfaceSpec))
	for i := range 12 {
		patchNode(e, fmt.Sprintf("n%d", i+1), func(n *corev1.Node) {
			n.Annotations = map[string]string{"example.com/storage-ip": fmt.Sprintf("10.1.0.%d", i+1)}
		})
	}
	c := waitStatus(e, "Ready with all nodes and pools", func(s *v1alpha1.StorageClusterStatus) bool {
		return s.Phase == v1alpha1.PhaseReady && s.Nodes.Summary == "12/12" && s.Pools.Summary == "12/12"
	})
	for _, h := range c.Status.History {
		if h.To == v1alpha1.PhaseHumanIntervention {
			t.Errorf("a human was asked: %+v", h)
		}
	}
	if got := e.c.World().Database("k8s").Nodes(); len(got) != 12 {
		t.Errorf("LINSTOR has the nodes %v", got)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	created := 0
	for what, n := range u.tried {
		if n < len(failures)+1 {
			t.Errorf("%s was tried %d times, want %d", what, n, len(failures)+1)
		}
		if strings.HasPrefix(what, "POST /v1/nodes") && n > len(failures)+1 {
			t.Errorf("%s was sent %d times although it was done", what, n-len(failures))
		}
		if strings.HasPrefix(what, "POST /v1/nodes n") {
			created++
		}
	}
	if created != 12 {
		t.Errorf("%d nodes were registered, want 12", created)
	}
}
