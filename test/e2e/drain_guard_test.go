package e2e

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/volumespec"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/drainguard"
	objects "github.com/linstor-dev/storagecluster-operator/pkg/resources/drainguard"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
)

// drainEnv is a cluster whose drains are held back.
type drainEnv struct{ *env }

// withDrainGuard brings up a cluster with guards on all nodes.
func withDrainGuard(t *testing.T) drainEnv {
	t.Helper()
	e := drainEnv{start(t, harness.Nodes(3))}
	e.Run()
	e.Apply(harness.Manifest("  volumes: {driver: {mode: None}, drainGuard: Auto}" + harness.ThinPool))
	e.ready("3/3", "3/3")
	e.says(conditions.ReasonAsExpected, "one node at a time may be drained")
	return e
}

// says waits for the condition DrainGuardReady with a reason, and words in its message.
func (e drainEnv) says(reason string, words ...string) {
	e.T.Helper()
	e.WaitStatus("DrainGuardReady is "+reason, func(s *v1alpha1.StorageClusterStatus) bool {
		c := meta.FindStatusCondition(s.Conditions, conditions.DrainGuardReady)
		missing := func(w string) bool { return !strings.Contains(c.Message, w) }
		return c.Reason == reason && !slices.ContainsFunc(words, missing)
	})
}

// evict does what kubectl drain does with a node's guard.
func (e drainEnv) evict(node string) error {
	guard := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.WorkloadNamespace, Name: objects.Name(node)}}
	return e.Client().SubResource("eviction").Create(e.Ctx, guard, &policyv1.Eviction{})
}

// refuses waits until the eviction API refuses a node's guard for as long as kubectl drain would try again.
func (e drainEnv) refuses(node string) {
	e.T.Helper()
	e.During(settle, "the eviction of the guard on "+node+" is refused", func() error {
		switch err := e.evict(node); {
		case err == nil:
			return errors.New("it is evicted")
		case !apierrors.IsTooManyRequests(err):
			return fmt.Errorf("the eviction API answers: %w", err)
		default:
			return nil
		}
	})
}

// drains waits until the eviction API lets a node's guard go.
func (e drainEnv) drains(node string) {
	e.T.Helper()
	e.Eventually("the guard on "+node+" is evicted", func() error { return e.evict(node) })
}

func (e drainEnv) cordon(node string, cordoned bool) {
	e.T.Helper()
	patchNode(e.env, node, func(n *corev1.Node) { n.Spec.Unschedulable = cordoned })
}

// guards are the nodes whose guard runs.
func (e drainEnv) guards() []string {
	e.T.Helper()
	var list corev1.PodList
	if err := e.Client().List(e.Ctx, &list, client.InNamespace(v1alpha1.WorkloadNamespace),
		client.MatchingLabels{v1alpha1.LabelComponent: objects.Component}); err != nil {
		e.T.Fatal(err)
	}
	var out []string
	for i := range list.Items {
		if p := &list.Items[i]; p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil {
			out = append(out, p.Spec.NodeName)
		}
	}
	slices.Sort(out)
	return out
}

func (e drainEnv) guardsOn(nodes ...string) {
	e.T.Helper()
	e.Eventually(fmt.Sprintf("guards on %v", nodes), func() error {
		if got := e.guards(); !slices.Equal(got, nodes) {
			return fmt.Errorf("they are on %v", got)
		}
		return nil
	})
}

// TestDrainGuard drains one node after the other, as an upgrade of all nodes does: the eviction API lets the next one
// go once the last one is back.
func TestDrainGuard(t *testing.T) {
	e := withDrainGuard(t)
	e.guardsOn("n1", "n2", "n3")
	writes := e.AuditMark()
	e.During(settle, "nothing is written at rest", func() error {
		if got := e.Writes(writes); len(got) > 0 {
			return fmt.Errorf("%s %s", got[0].Verb, got[0].RequestURI)
		}
		return nil
	})

	e.cordon("n1", true)
	e.drains("n1")
	e.guardsOn("n2", "n3")
	e.says(conditions.ReasonAsExpected, "n1 has no guard: it is cordoned")
	e.refuses("n2")
	if err := e.Sim.KillNode(e.Ctx, "n1"); err != nil {
		t.Fatal(err)
	}
	e.cordon("n2", true)
	e.says(drainguard.ReasonHeldBack, "no node may be drained now: n1 is not ONLINE in LINSTOR")
	e.WaitEvent(drainguard.ReasonHeldBack, "n1 is not ONLINE")
	e.refuses("n2")
	if err := e.Sim.ReviveNode(e.Ctx, "n1"); err != nil {
		t.Fatal(err)
	}
	e.cordon("n1", false)
	e.guardsOn("n1", "n2", "n3")
	e.drains("n2")
	e.refuses("n3")
}

// TestDrainGuardOfALastCopy: a node with the last good copy of a volume must not be drained; the volume is named on
// the guard that the drain waits for. Another node may be.
func TestDrainGuardOfALastCopy(t *testing.T) {
	e := withDrainGuard(t)
	volumes := e.Sim.World().Volumes()
	if err := volumes.Create("pvc-1", 1<<20, "ssd", "n1", "n2"); err != nil {
		t.Fatal(err)
	}
	volumes.SetDiskState("pvc-1", "n2", "Outdated")
	e.says(conditions.ReasonAsExpected, "n1 must not be drained: it has the last up-to-date copy of 1 volume: pvc-1")
	e.cordon("n1", true)
	e.says(drainguard.ReasonHeldBack)
	e.refuses("n1")
	guard := &corev1.Pod{}
	if err := e.Client().Get(e.Ctx, client.ObjectKey{Namespace: v1alpha1.WorkloadNamespace, Name: objects.Name("n1")},
		guard); err != nil || !strings.Contains(guard.Annotations[objects.AnnotationWhy], "pvc-1") {
		t.Errorf("the guard says %v, %v", guard.Annotations, err)
	}
	e.drains("n3")
	volumes.SetDiskState("pvc-1", "n2", "UpToDate")
	e.guardsOn("n1", "n2", "n3")
	e.drains("n1")
}

// TestTwoDrainsAtOnce: of two people who drain two nodes in the same second, one waits.
func TestTwoDrainsAtOnce(t *testing.T) {
	e := withDrainGuard(t)
	e.Eventually("the budget allows one eviction", func() error {
		var b policyv1.PodDisruptionBudget
		err := e.Client().Get(e.Ctx, client.ObjectKey{Namespace: v1alpha1.WorkloadNamespace,
			Name: objects.BudgetName(objects.Allowed)}, &b)
		if err == nil && b.Status.DisruptionsAllowed != 1 {
			err = fmt.Errorf("it allows %d", b.Status.DisruptionsAllowed)
		}
		return err
	})
	for _, n := range []string{"n1", "n2", "n3"} {
		e.cordon(n, true) // else a guard is back at once
	}
	var wg sync.WaitGroup
	results := make([]error, 3)
	for i, n := range []string{"n1", "n2", "n3"} {
		wg.Go(func() { results[i] = e.evict(n) })
	}
	wg.Wait()
	gone := 0
	for _, err := range results {
		switch {
		case err == nil:
			gone++
		case !apierrors.IsTooManyRequests(err):
			t.Errorf("the eviction API answers %v", err)
		}
	}
	if gone != 1 {
		t.Errorf("%d guards were evicted: %v", gone, results)
	}
}

// TestDrainGuardGoes: with the mode None, and with the cluster, nothing is left that holds back a drain.
func TestDrainGuardGoes(t *testing.T) {
	e := withDrainGuard(t)
	set := func(mode volumespec.DrainGuardMode) {
		e.Update(func(c *v1alpha1.StorageCluster) { c.Spec.Volumes.DrainGuard = mode })
	}
	set(volumespec.DrainGuardNone)
	e.says(drainguard.ReasonNotWanted, "drains are not held back")
	e.guardsOn()
	if owned := e.Owned(); slices.ContainsFunc(owned, func(o string) bool { return strings.Contains(o, "drain") }) {
		t.Errorf("left are %v", owned)
	}
	set(volumespec.DrainGuardAuto)
	e.guardsOn("n1", "n2", "n3")
	e.Remove()
	e.WaitGone()
	if owned := e.Owned(); slices.ContainsFunc(owned, func(o string) bool { return strings.Contains(o, "drain") }) {
		t.Errorf("left are %v", owned)
	}
	e.guardsOn()
}
