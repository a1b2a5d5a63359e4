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
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
	"github.com/linstor-dev/storagecluster-operator/test/sim"
)

// retained is what a deletion with the policy Retain leaves behind.
var retained = []string{"ConfigMap/linstor-claim", "ControllerRevision/accepted"}

// registered lists which of the nodes LINSTOR's database has. The operator's controller must be gone.
func (e nodeEnv) registered(names ...string) []string {
	e.T.Helper()
	p, err := e.Sim.World().StartController(sim.ControllerConfig{Version: "1.35.3",
		TOML: "[db]\nconnection_url = \"k8s\"\n", Identity: "test"})
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

func TestDeletionIsRefusedWhileVolumesExist(t *testing.T) {
	e := startReady(t, 3, harness.ThinPool)
	e.Run()
	e.WaitPhase(v1alpha1.PhaseReady)
	if err := e.Sim.World().Volumes().Create("pvc-1", 1<<20, "ssd", "n1", "n2"); err != nil {
		t.Fatal(err)
	}
	e.WaitVolumes(1)
	err := e.Client().Delete(e.Ctx, e.Get())
	if !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) {
		t.Fatalf("delete with volumes: %v", err)
	}
	for _, want := range []string{"LINSTOR still has 1 volume:", "PersistentVolumeClaims", "spec.suspend"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the refusal does not say %q: %v", want, err)
		}
	}
	if e.Get().DeletionTimestamp != nil {
		t.Error("the object is being deleted")
	}
}

func TestDeletionWhileLinstorIsUnreachable(t *testing.T) {
	e := startReady(t, 3, harness.ThinPool)
	e.Run()
	e.WaitPhase(v1alpha1.PhaseReady)
	guardsMade(e)
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
	if got := harness.Condition(c, conditions.HumanInterventionRequired); got != "True/VolumesUnknown" {
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
		if got := harness.Condition(e.Get(), conditions.Suspended); got != "True/Suspended" {
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

// TestDeletionWithVolumesAndNoClaim removes by hand what tells the operator that the database is its own, and the
// workloads with it: what LINSTOR said last still counts.
func TestDeletionWithVolumesAndNoClaim(t *testing.T) {
	e := start(t, harness.Nodes(3))
	e.Run()
	e.Apply(harness.Manifest(harness.ThinPool + "  deletionPolicy: Delete\n"))
	e.WaitPhase(v1alpha1.PhaseReady)
	if err := e.Sim.World().Volumes().Create("pvc-1", 1<<20, "ssd", "n1", "n2"); err != nil {
		t.Fatal(err)
	}
	e.WaitVolumes(1)
	e.LetDelete()
	e.StopOperator()
	in := client.InNamespace(v1alpha1.WorkloadNamespace)
	for _, o := range []client.Object{&appsv1.DaemonSet{}, &appsv1.Deployment{}, &corev1.Pod{}} {
		if err := e.Client().DeleteAllOf(e.Ctx, o, in); err != nil {
			t.Fatal(err)
		}
	}
	claim := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.WorkloadNamespace,
		Name: "linstor-claim"}}
	if err := e.Client().Delete(e.Ctx, claim); err != nil {
		t.Fatal(err)
	}
	e.Eventually("pods are gone", e.NoPods)
	e.Eventually("the deletion is let through", func() error { return e.Client().Delete(e.Ctx, e.Get()) })
	e.Sim.World().ResetRequests()
	e.Run()
	e.Eventually("the deletion waits for the volume", func() error {
		c := e.Get()
		if !strings.Contains(c.Status.Message, "1 volume exists (pvc-1)") {
			return fmt.Errorf("phase %s: %s", c.Status.Phase, c.Status.Message)
		}
		return nil
	})
	if deletes := e.linstorDeletes(); len(deletes) > 0 {
		t.Errorf("LINSTOR was told to delete %v", deletes)
	}
	if err := e.Sim.World().Volumes().Delete("pvc-1"); err != nil {
		t.Fatal(err)
	}
	e.WaitGone()
	if diff := cmp.Diff([]string{}, e.registered("n1", "n2", "n3")); diff != "" {
		t.Errorf("nodes in LINSTOR (-want +got):\n%s", diff)
	}
}

// LINSTOR deletes no evicted node, and answers 200: the deletion declares it lost and ends.
func TestDeleteWithAnEvictedNode(t *testing.T) {
	e, victim, _ := withVolume(t, 4, "  deletionPolicy: Delete\n  nodes: {removalPolicy: Evacuate}"+harness.ThinPool)
	e.dies(victim)
	e.evicted(victim)
	if err := e.Sim.World().Volumes().Delete("pvc-1"); err != nil {
		t.Fatal(err)
	}
	e.Eventually("the deletion is let through when no volume is left",
		func() error { return e.Client().Delete(e.Ctx, e.Get()) })
	e.WaitGone()
}
