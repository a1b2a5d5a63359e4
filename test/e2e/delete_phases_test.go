package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
	"github.com/linstor-dev/storagecluster-operator/test/invariants"
	"github.com/linstor-dev/storagecluster-operator/test/sim"
)

// pinned is a way to bring a cluster into a phase and to keep it there.
type pinned struct {
	phase v1alpha1.Phase
	spec  string
	// enter pins the phase; it is called before the object is made.
	enter func(e *env, r *refusals)
	// after is called with the object in the first phase that is reached without a pin; nil if enter is all.
	after func(e *env)
	// claimed reports whether the database was claimed.
	claimed bool
	// registered reports whether nodes were registered in LINSTOR.
	registered bool
	// volumes reports whether volumes are possible there.
	volumes bool
}

const morePools = `
  storagePools:
  - name: ssd
    lvmThin: {volumeGroup: vg_ssd0, thinPool: thin}
  - name: files
    fileThin: {directory: /var/lib/linstor-pools/a}
`

func pins() []pinned {
	return []pinned{
		{phase: v1alpha1.PhasePending, enter: refuse("ControllerRevision", "")},
		{phase: v1alpha1.PhaseAssessing, enter: refuse("Node", "")},
		// The claim as well: one refused object stops no other, and the database would be claimed ahead of its phase.
		{phase: v1alpha1.PhaseKernelModule, enter: func(_ *env, r *refusals) {
			r.set(func(kind, name string) bool {
				return kind == "DaemonSet" && strings.HasPrefix(name, "linstor-module-loader") ||
					kind == "ConfigMap" && name == resources.ClaimName
			})
		}},
		{phase: v1alpha1.PhaseDatabase, enter: refuse("ConfigMap", "linstor-claim")},
		{phase: v1alpha1.PhaseController, claimed: true, enter: refuse("Deployment", "")},
		{phase: v1alpha1.PhaseHumanIntervention, claimed: true, enter: func(e *env, _ *refusals) {
			e.Sim.Faults().SetCrash("linstor-controller", "", "exception: something is broken")
			e.T.Cleanup(func() { e.Sim.Faults().SetCrash("linstor-controller", "", "") })
		}},
		{phase: v1alpha1.PhaseSatellites, claimed: true, enter: refuse("DaemonSet", "linstor-satellite")},
		{phase: v1alpha1.PhaseNodeRegistration, claimed: true,
			enter: func(e *env, _ *refusals) { e.Fault(drop(http.MethodPost, "/v1/nodes")) }},
		{phase: v1alpha1.PhaseStoragePools, claimed: true, registered: true, volumes: true, spec: morePools,
			enter: func(e *env, _ *refusals) {
				e.Fault(func(r *http.Request) *sim.Fault {
					if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/storage-pools") &&
						strings.Contains(body(r), "files") {
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
			victim := e.otherNode()
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
	t.Parallel()
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
						e := newEnv(outer.For(t))
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
		if c := (&v1alpha1.StorageCluster{}); e.T.Failed() &&
			e.Client().Get(e.Ctx, client.ObjectKey{Name: v1alpha1.ClusterName}, c) == nil {
			e.Dump(c)
		}
	}()
	if p.enter != nil {
		p.enter(e, r)
	}
	defer r.set(nil)
	defer e.Fault(nil)
	bring(e, p, policy)
	before := e.disks(names...)
	e.Sim.World().ResetRequests()
	if volumes {
		if err := e.Sim.World().Volumes().Create("pvc-1", 1<<20, "ssd", e.readyNodes()[:2]...); err != nil {
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
		if err := e.Sim.World().Volumes().Delete("pvc-1"); err != nil {
			e.T.Fatal(err)
		}
	}
	// What kept the cluster in its phase is over: a deletion that waits for LINSTOR gets its answer. Not before the
	// deletion is seen: until then the operator would go on with what was refused.
	e.Eventually("the deletion is seen", e.deletionSeen)
	r.set(nil)
	e.WaitReleased()
	e.expectNothingLeft(kept, before)
	e.WaitCollected()
	e.Eventually("pods are gone", e.NoPods)
	expectRegistered(e, p, policy, names)
}

// bring makes a cluster and brings it into a phase.
func bring(e *env, p pinned, policy v1alpha1.DeletionPolicy) {
	e.T.Helper()
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
			if c := e.Get(); int(c.Status.Pools.Ready) < len(e.readyNodes()) {
				return fmt.Errorf("%d pools", c.Status.Pools.Ready)
			}
			return nil
		})
	}
}

// deletionSeen fails until the operator is deleting the cluster, or the cluster is gone.
func (e *env) deletionSeen() error {
	var c v1alpha1.StorageCluster
	err := e.Client().Get(e.Ctx, client.ObjectKey{Name: v1alpha1.ClusterName}, &c)
	if err == nil && c.Status.Phase != v1alpha1.PhaseDeleting {
		return fmt.Errorf("phase is %s", c.Status.Phase)
	}
	return client.IgnoreNotFound(err)
}

// expectRegistered checks that a deletion leaves in LINSTOR the nodes that the policy keeps. With Retain it deletes
// nothing there.
func expectRegistered(e *env, p pinned, policy v1alpha1.DeletionPolicy, names []string) {
	e.T.Helper()
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

// expectStays checks that a cluster that is being deleted loses nothing while it has a volume, and that it is still
// cared for.
func expectStays(e *env) {
	e.T.Helper()
	e.Eventually("the deletion waits", func() error {
		c := e.Get()
		if c.Status.Phase != v1alpha1.PhaseDeleting || !strings.Contains(c.Status.Message, "1 volume exists (pvc-1)") {
			return fmt.Errorf("phase %s: %s", c.Status.Phase, c.Status.Message)
		}
		return nil
	})
	owned := e.Owned()
	ds := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.WorkloadNamespace,
		Name: "linstor-satellite"}}
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
		if data := e.Sim.World().Volumes().Data("pvc-1"); len(data) != 2 {
			return fmt.Errorf("the volume's data is on %v", data)
		}
		if c := e.Get(); harness.Condition(c, conditions.Reconciling) != "True/Deleting" {
			return fmt.Errorf("condition Reconciling is %s", harness.Condition(c, conditions.Reconciling))
		}
		return nil
	})
}

func (e nodeEnv) readyNodes() []string {
	e.T.Helper()
	var out []string
	for _, name := range []string{"n1", "n2", "n3"} {
		if invariants.NodeReady(e.Node(name)) {
			out = append(out, name)
		}
	}
	return out
}
