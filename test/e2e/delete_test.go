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
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor/sim"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
)

// refusals make the operator's writes of some Kubernetes objects fail, which keeps the machine in the phase that needs them.
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
		Apply: func(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
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
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			if _, ok := o.(*corev1.Node); ok {
				if err := r.check("Node", o.GetName()); err != nil {
					return err
				}
			}
			return c.Patch(ctx, o, p, opts...)
		},
	})
}

// retained is what a deletion with the policy Retain leaves behind.
var retained = []string{"ConfigMap/linstor-claim", "ControllerRevision/accepted"}

// disks is what is on the machines of the nodes.
type disks struct {
	Disks        []sim.Disk
	VolumeGroups []sim.VolumeGroup
	ZPools       []sim.ZPool
}

func (e *env) disks(names ...string) map[string]disks {
	out := map[string]disks{}
	for _, n := range names {
		m := e.Sim.World().Machine(n)
		out[n] = disks{m.Disks(), m.VolumeGroups(), m.ZPools()}
	}
	return out
}

// registered lists which of the nodes LINSTOR's database has. The operator's controller must be gone.
func (e *env) registered(names ...string) []string {
	e.T.Helper()
	p, err := e.Sim.World().StartController(sim.ControllerConfig{Version: "1.35.3", TOML: "[db]\nconnection_url = \"k8s\"\n", Identity: "test"})
	if err != nil {
		e.T.Fatal(err)
	}
	defer func() { p.Stop(); <-p.Done() }()
	out := []string{}
	for _, n := range names {
		if status, _ := e.Sim.World().NodeStatus(n); status != "" {
			out = append(out, n)
		}
	}
	return out
}

// linstorDeletes are the paths of what LINSTOR was told to delete.
func (e *env) linstorDeletes() []string {
	var out []string
	for _, w := range e.Sim.World().Writes() {
		if w.Method == http.MethodDelete {
			out = append(out, w.Path)
		}
	}
	return out
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

// expectNothingLeft checks what must be so after a deletion.
func (e *env) expectNothingLeft(want []string, before map[string]disks) {
	e.T.Helper()
	if diff := cmp.Diff(append([]string{}, want...), append([]string{}, e.Owned()...)); diff != "" {
		e.T.Errorf("objects after the deletion (-want +got):\n%s", diff)
	}
	if left := e.MemberLabels(); len(left) > 0 {
		e.T.Errorf("labels left on nodes: %v", left)
	}
	var names []string
	for n := range before {
		names = append(names, n)
	}
	if diff := cmp.Diff(before, e.disks(names...)); diff != "" {
		e.T.Errorf("the machines changed (-before +after):\n%s", diff)
	}
}

// pinned is a way to bring a cluster into a phase and to keep it there.
type pinned struct {
	phase v1alpha1.Phase
	spec  string
	// enter pins the phase; it is called before the object is made.
	enter func(e *env, r *refusals)
	// after is called with the object in the first phase that is reached without a pin; nil if enter is all.
	after func(e *env)
	// claimed is whether the database was claimed.
	claimed bool
	// registered is whether nodes were registered in LINSTOR.
	registered bool
	// volumes is whether volumes are possible there.
	volumes bool
}

const morePools = `
  storagePools:
  - name: ssd
    lvmThin: {volumeGroup: vg_ssd0, thinPool: thin}
  - name: files
    fileThin: {directory: /var/lib/linstor-pools/a}
`

func refuse(kind, prefix string) func(*env, *refusals) {
	return func(_ *env, r *refusals) {
		r.set(func(k, name string) bool { return k == kind && strings.HasPrefix(name, prefix) })
	}
}

func pins() []pinned {
	return []pinned{
		{phase: v1alpha1.PhasePending, enter: refuse("ControllerRevision", "")},
		{phase: v1alpha1.PhaseAssessing, enter: refuse("Node", "")},
		{phase: v1alpha1.PhaseKernelModule, enter: refuse("DaemonSet", "linstor-module-loader")},
		{phase: v1alpha1.PhaseDatabase, enter: refuse("ConfigMap", "linstor-claim")},
		{phase: v1alpha1.PhaseController, claimed: true, enter: refuse("Deployment", "")},
		{phase: v1alpha1.PhaseHumanIntervention, claimed: true, enter: func(e *env, _ *refusals) {
			e.Sim.SetCrash("linstor-controller", "", "exception: something is broken")
			e.T.Cleanup(func() { e.Sim.SetCrash("linstor-controller", "", "") })
		}},
		{phase: v1alpha1.PhaseSatellites, claimed: true, enter: refuse("DaemonSet", "linstor-satellite")},
		{phase: v1alpha1.PhaseNodeRegistration, claimed: true, enter: func(e *env, _ *refusals) { e.Fault(drop(http.MethodPost, "/v1/nodes")) }},
		{phase: v1alpha1.PhaseStoragePools, claimed: true, registered: true, volumes: true, spec: morePools, enter: func(e *env, _ *refusals) {
			e.Fault(func(r *http.Request) *sim.Fault {
				if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/storage-pools") && strings.Contains(body(r), "files") {
					return &sim.Fault{Drop: true}
				}
				return nil
			})
		}},
		{phase: v1alpha1.PhaseReady, claimed: true, registered: true, volumes: true},
		{phase: v1alpha1.PhaseHumanIntervention, claimed: true, registered: true, volumes: true, after: func(e *env) {
			e.Update(func(c *v1alpha1.StorageCluster) { c.Spec.Version = "1.0.0" })
		}},
		{phase: v1alpha1.PhaseDegraded, claimed: true, registered: true, volumes: true, after: func(e *env) {
			victim := e.nodeWithoutController()
			if err := e.Sim.KillNode(e.Ctx, victim); err != nil {
				e.T.Fatal(err)
			}
			t := e.T
			t.Cleanup(func() {
				if err := e.Sim.ReviveNode(e.Ctx, victim); err != nil {
					t.Error(err)
				}
			})
		}},
	}
}

func TestDeleteFromEachPhase(t *testing.T) {
	for _, policy := range []v1alpha1.DeletionPolicy{v1alpha1.DeletionRetain, v1alpha1.DeletionDelete} {
		t.Run(string(policy), func(t *testing.T) {
			r := &refusals{}
			outer := start(t, harness.Nodes(3))
			outer.Wrap = r.wrap
			outer.Run()
			outer.LetDelete()
			var kept []string
			for _, p := range pins() {
				for _, volumes := range []bool{false, true} {
					if volumes && !p.volumes {
						continue
					}
					t.Run(fmt.Sprintf("%s/registered=%v/volumes=%v", p.phase, p.registered, volumes), func(t *testing.T) {
						e := &env{outer.For(t)}
						switch {
						case p.phase == v1alpha1.PhasePending:
						case policy == v1alpha1.DeletionDelete && p.claimed:
							kept = retained[:1] // it lives as long as the database
						case policy == v1alpha1.DeletionDelete:
						case p.claimed:
							kept = retained
						case kept == nil:
							kept = retained[1:] // the database was not claimed yet
						}
						deleteFrom(e, r, p, policy, kept, volumes)
					})
				}
			}
		})
	}
}

// deleteFrom brings a cluster into a phase, deletes it there, and checks what is left.
func deleteFrom(e *env, r *refusals, p pinned, policy v1alpha1.DeletionPolicy, kept []string, volumes bool) {
	names := []string{"n1", "n2", "n3"}
	defer func() {
		if c := (&v1alpha1.StorageCluster{}); e.T.Failed() && e.Client().Get(e.Ctx, client.ObjectKey{Name: v1alpha1.ClusterName}, c) == nil {
			e.Dump(c)
		}
	}()
	if p.enter != nil {
		p.enter(e, r)
	}
	defer r.set(nil)
	defer e.Fault(nil)
	spec := p.spec
	if spec == "" {
		spec = harness.ThinPool
	}
	e.Apply(harness.Manifest(spec + "\n  deletionPolicy: " + string(policy) + "\n"))
	if p.after != nil {
		e.WaitPhase(v1alpha1.PhaseReady)
		p.after(e)
	}
	e.WaitPhase(p.phase)
	if p.registered {
		e.Eventually("nodes are registered", func() error {
			if c := e.Get(); c.Status.Pools.Ready < 2 {
				return fmt.Errorf("%d pools", c.Status.Pools.Ready)
			}
			return nil
		})
	}
	before := e.disks(names...)
	e.Sim.World().ResetRequests()
	if volumes {
		if err := e.Sim.World().CreateVolume("pvc-1", 1<<20, "ssd", e.readyNodes()[:2]...); err != nil {
			e.T.Fatal(err)
		}
	}
	how := metav1.DeletePropagationBackground
	if p.registered {
		how = metav1.DeletePropagationForeground // not earlier: see waitCollected
	}
	e.Remove(client.PropagationPolicy(how))
	if volumes {
		expectStays(e)
		if err := e.Sim.World().DeleteVolume("pvc-1"); err != nil {
			e.T.Fatal(err)
		}
	}
	// What kept the cluster in its phase is over: a deletion that waits for LINSTOR gets its answer. Not before the deletion is
	// seen: until then the operator would go on with what was refused.
	e.Eventually("the deletion is seen", func() error {
		var c v1alpha1.StorageCluster
		err := e.Client().Get(e.Ctx, client.ObjectKey{Name: v1alpha1.ClusterName}, &c)
		if err == nil && c.Status.Phase != v1alpha1.PhaseDeleting {
			return fmt.Errorf("phase is %s", c.Status.Phase)
		}
		return client.IgnoreNotFound(err)
	})
	r.set(nil)
	e.WaitReleased()
	e.expectNothingLeft(kept, before)
	e.WaitCollected()
	e.Eventually("pods are gone", e.NoPods)
	switch deletes := e.linstorDeletes(); {
	case policy == v1alpha1.DeletionRetain && len(deletes) > 0:
		e.T.Errorf("LINSTOR was told to delete %v", deletes)
	case policy == v1alpha1.DeletionRetain && p.registered:
		if diff := cmp.Diff(names, e.registered(names...)); diff != "" {
			e.T.Errorf("nodes in LINSTOR (-want +got):\n%s", diff)
		}
	case policy == v1alpha1.DeletionDelete && p.registered:
		if diff := cmp.Diff([]string{}, e.registered(names...)); diff != "" {
			e.T.Errorf("nodes in LINSTOR (-want +got):\n%s", diff)
		}
	}
}

// expectStays checks that a cluster that is being deleted loses nothing while it has a volume, and that it is still cared for.
func expectStays(e *env) {
	e.T.Helper()
	e.Eventually("the deletion waits", func() error {
		c := e.Get()
		if c.Status.Phase != v1alpha1.PhaseDeleting || !strings.Contains(c.Status.Message, "1 volumes exist (pvc-1)") {
			return fmt.Errorf("phase %s: %s", c.Status.Phase, c.Status.Message)
		}
		return nil
	})
	owned := e.Owned()
	ds := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.WorkloadNamespace, Name: "linstor-satellite"}}
	if err := e.Client().Delete(e.Ctx, ds, client.PropagationPolicy(metav1.DeletePropagationOrphan)); err != nil {
		e.T.Fatal(err)
	}
	e.Eventually("the satellites' DaemonSet is back", func() error {
		live := &appsv1.DaemonSet{}
		err := e.Client().Get(e.Ctx, client.ObjectKeyFromObject(ds), live)
		if err == nil && live.DeletionTimestamp != nil {
			err = errors.New("it is still going")
		}
		return err
	})
	e.During(time.Second, "nothing is removed while the volume exists", func() error {
		if diff := cmp.Diff(owned, e.Owned()); diff != "" {
			return fmt.Errorf("objects (-before +now):\n%s", diff)
		}
		if deletes := e.linstorDeletes(); len(deletes) > 0 {
			return fmt.Errorf("LINSTOR was told to delete %v", deletes)
		}
		if data := e.Sim.World().VolumeData("pvc-1"); len(data) != 2 {
			return fmt.Errorf("the volume's data is on %v", data)
		}
		if c := e.Get(); harness.Condition(c, v1alpha1.ConditionReconciling) != "True/Deleting" {
			return fmt.Errorf("condition Reconciling is %s", harness.Condition(c, v1alpha1.ConditionReconciling))
		}
		return nil
	})
}

// nodeWithoutController is a node that can fail without taking LINSTOR's controller with it.
func (e *env) nodeWithoutController() string {
	e.T.Helper()
	var pods corev1.PodList
	err := e.Client().List(e.Ctx, &pods, client.MatchingLabels{v1alpha1.LabelComponent: v1alpha1.ComponentController})
	if err != nil || len(pods.Items) != 1 {
		e.T.Fatalf("%d controller pods (%v)", len(pods.Items), err)
	}
	if pods.Items[0].Spec.NodeName == "n3" {
		return "n2"
	}
	return "n3"
}

func (e *env) readyNodes() []string {
	e.T.Helper()
	var out []string
	for _, name := range []string{"n1", "n2", "n3"} {
		if harness.NodeReady(e.Node(name)) {
			out = append(out, name)
		}
	}
	return out
}

func TestDeletionIsRefusedWhileVolumesExist(t *testing.T) {
	e := start(t, harness.Nodes(3))
	e.Run()
	e.Apply(harness.Manifest(harness.ThinPool))
	e.WaitPhase(v1alpha1.PhaseReady)
	if err := e.Sim.World().CreateVolume("pvc-1", 1<<20, "ssd", "n1", "n2"); err != nil {
		t.Fatal(err)
	}
	e.Eventually("the status counts the volume", func() error {
		if n := e.Get().Status.Volumes; n == nil || *n != 1 {
			return fmt.Errorf("volumes: %v", n)
		}
		return nil
	})
	err := e.Client().Delete(e.Ctx, e.Get())
	if !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) {
		t.Fatalf("delete with volumes: %v", err)
	}
	for _, want := range []string{"LINSTOR still has 1 volumes", "PersistentVolumeClaims", "spec.suspend"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the refusal does not say %q: %v", want, err)
		}
	}
	if e.Get().DeletionTimestamp != nil {
		t.Error("the object is being deleted")
	}
}

// allDown drops every request to LINSTOR but the kubelet's probe: the pod stays ready, so that only one thing is wrong.
func allDown(r *http.Request) *sim.Fault {
	if r.URL.Path == "/health" {
		return nil
	}
	return &sim.Fault{Drop: true}
}

func TestDeletionWhileLinstorIsUnreachable(t *testing.T) {
	e := start(t, harness.Nodes(3))
	e.Run()
	e.Apply(harness.Manifest(harness.ThinPool))
	e.WaitPhase(v1alpha1.PhaseReady)
	before := e.disks("n1", "n2", "n3")
	owned := e.Owned()
	e.Sim.World().ResetRequests()
	e.Fault(allDown)
	e.Remove()
	hold := e.WaitHold(v1alpha1.HoldVolumesUnknown)
	c := e.Get()
	if c.Status.Phase != v1alpha1.PhaseDeleting {
		t.Errorf("phase is %s", c.Status.Phase)
	}
	if got := harness.Condition(c, v1alpha1.ConditionHumanInterventionRequired); got != "True/VolumesUnknown" {
		t.Errorf("condition HumanInterventionRequired is %s", got)
	}
	e.WaitEvent(string(v1alpha1.HoldVolumesUnknown), hold.ID)
	unchanged := func() error {
		if diff := cmp.Diff(owned, e.Owned()); diff != "" {
			return fmt.Errorf("objects (-before +now):\n%s", diff)
		}
		return nil
	}
	// retry looks again, and finds the same trouble: another hold, whose id is new.
	e.Resume(hold, v1alpha1.OptionRetry)
	e.Eventually("another hold", func() error {
		if h := e.Get().Status.Hold; h == nil || h.ID == hold.ID {
			return fmt.Errorf("hold is %+v", h)
		}
		return unchanged()
	})
	version := e.Get().ResourceVersion
	e.During(time.Second, "nothing is removed or written while it is not known whether volumes exist", func() error {
		if c := e.Get(); c.ResourceVersion != version {
			return fmt.Errorf("the StorageCluster was written: %s", c.Status.Message)
		}
		return unchanged()
	})
	e.Resume(e.Get().Status.Hold, v1alpha1.OptionContinue)
	e.WaitGone()
	e.expectNothingLeft(retained, before)
	e.Fault(nil)
	if deletes := e.linstorDeletes(); len(deletes) > 0 {
		t.Errorf("LINSTOR was told to delete %v", deletes)
	}
	// The answer was to that deletion alone.
	e.Apply(harness.Manifest(harness.ThinPool))
	e.WaitPhase(v1alpha1.PhaseReady)
	e.Fault(allDown)
	e.Remove()
	e.WaitHold(v1alpha1.HoldVolumesUnknown)
	// The hold ends by itself when LINSTOR answers.
	e.Fault(nil)
	e.WaitGone()
}

func TestDeletionWhileSuspended(t *testing.T) {
	e := start(t, harness.Nodes(3))
	e.Run()
	e.Apply(harness.Manifest(harness.ThinPool + "  suspend: true\n"))
	e.WaitPhase(v1alpha1.PhasePending)
	e.Update(func(c *v1alpha1.StorageCluster) { c.Spec.Suspend = false })
	e.WaitPhase(v1alpha1.PhaseReady)
	e.Update(func(c *v1alpha1.StorageCluster) { c.Spec.Suspend = true })
	e.Eventually("suspended", func() error {
		if got := harness.Condition(e.Get(), v1alpha1.ConditionSuspended); got != "True/Suspended" {
			return errors.New(got)
		}
		return nil
	})
	owned := e.Owned()
	e.Sim.World().ResetRequests()
	e.Remove()
	e.WaitPhase(v1alpha1.PhaseDeleting)
	e.During(2*time.Second, "nothing changes while suspended", func() error {
		if diff := cmp.Diff(owned, e.Owned()); diff != "" {
			return fmt.Errorf("objects (-before +now):\n%s", diff)
		}
		if w := e.Sim.World().Writes(); len(w) > 0 {
			return fmt.Errorf("LINSTOR was written to: %s %s", w[0].Method, w[0].Path)
		}
		return nil
	})
	e.Update(func(c *v1alpha1.StorageCluster) { c.Spec.Suspend = false })
	e.WaitGone()
	if left := e.MemberLabels(); len(left) > 0 {
		t.Errorf("labels left on nodes: %v", left)
	}
}

// TestDeletionWithVolumesAndNoClaim removes by hand what tells the operator that the database is its own, and the workloads
// with it: what LINSTOR said last still counts.
func TestDeletionWithVolumesAndNoClaim(t *testing.T) {
	e := start(t, harness.Nodes(3))
	e.Run()
	e.Apply(harness.Manifest(harness.ThinPool + "  deletionPolicy: Delete\n"))
	e.WaitPhase(v1alpha1.PhaseReady)
	if err := e.Sim.World().CreateVolume("pvc-1", 1<<20, "ssd", "n1", "n2"); err != nil {
		t.Fatal(err)
	}
	e.Eventually("the status counts the volume", func() error {
		if n := e.Get().Status.Volumes; n == nil || *n != 1 {
			return fmt.Errorf("volumes: %v", n)
		}
		return nil
	})
	e.LetDelete()
	e.StopOperator()
	in := client.InNamespace(v1alpha1.WorkloadNamespace)
	for _, o := range []client.Object{&appsv1.DaemonSet{}, &appsv1.Deployment{}} {
		if err := e.Client().DeleteAllOf(e.Ctx, o, in); err != nil {
			t.Fatal(err)
		}
	}
	claim := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.WorkloadNamespace, Name: "linstor-claim"}}
	if err := e.Client().Delete(e.Ctx, claim); err != nil {
		t.Fatal(err)
	}
	e.Eventually("pods are gone", e.NoPods)
	e.Eventually("the deletion is let through", func() error { return e.Client().Delete(e.Ctx, e.Get()) })
	e.Sim.World().ResetRequests()
	e.Run()
	e.Eventually("the deletion waits for the volume", func() error {
		c := e.Get()
		if !strings.Contains(c.Status.Message, "1 volumes exist (pvc-1)") {
			return fmt.Errorf("phase %s: %s", c.Status.Phase, c.Status.Message)
		}
		return nil
	})
	if deletes := e.linstorDeletes(); len(deletes) > 0 {
		t.Errorf("LINSTOR was told to delete %v", deletes)
	}
	if err := e.Sim.World().DeleteVolume("pvc-1"); err != nil {
		t.Fatal(err)
	}
	e.WaitGone()
	if diff := cmp.Diff([]string{}, e.registered("n1", "n2", "n3")); diff != "" {
		t.Errorf("nodes in LINSTOR (-want +got):\n%s", diff)
	}
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
