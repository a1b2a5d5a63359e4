package chaos

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
)

// storm has others write, each again and again, until it is ended, and returns how often they wrote.
func storm(e *harness.Env, every time.Duration, class string,
	write ...func(context.Context, int) error) (end func() int) {
	ctx, cancel := context.WithCancel(e.Ctx)
	var wg sync.WaitGroup
	counts := make([]int, len(write))
	for i, f := range write {
		wg.Go(func() {
			tick := time.NewTicker(every)
			defer tick.Stop()
			for n := 0; ; n++ {
				select {
				case <-ctx.Done():
					return
				case <-tick.C:
				}
				if f(ctx, n) == nil {
					counts[i]++
					injected(class)
				}
			}
		})
	}
	return func() int {
		cancel()
		wg.Wait()
		sum := 0
		for _, n := range counts {
			sum += n
		}
		return sum
	}
}

// touch writes a label and an annotation that mean nothing to the operator.
func touch(c client.Client, o client.Object) func(context.Context, int) error {
	return func(ctx context.Context, n int) error {
		patch := fmt.Sprintf(`{"metadata":{"labels":{"example.com/touched":"%d"},`+
			`"annotations":{"example.com/touched":"%d"}}}`, n, n)
		return c.Patch(ctx, o.DeepCopyObject().(client.Object), client.RawPatch(types.MergePatchType, []byte(patch)))
	}
}

// TestConflictStorm writes labels and annotations to the StorageCluster and to what the operator made while a changed
// spec is carried out, and then lets a rival fight for a field. The operator gets on, and writes little more than
// without that.
func TestConflictStorm(t *testing.T) {
	spec := harness.ThinPool + "  deletionPolicy: Delete\n"
	e := harness.Start(t, harness.Nodes(3))
	e.Lease = longLease
	// Each write of the status is a race with the storm, on a busy machine one that is lost several times.
	e.Patience = 10 * time.Minute
	e.Run()
	apply(spec)(e)
	all := ready("3/3", "3/3")
	e.Eventually("Ready", func() error { return all(e) })

	in := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: v1alpha1.WorkloadNamespace, Name: name}
	}
	service := &corev1.Service{ObjectMeta: in("linstor-controller")}
	targets := []client.Object{
		&v1alpha1.StorageCluster{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ClusterName}},
		&appsv1.Deployment{ObjectMeta: in("linstor-controller")}, &appsv1.DaemonSet{ObjectMeta: in("linstor-satellite")},
		&corev1.ConfigMap{ObjectMeta: in("linstor-claim")}, service,
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}},
	}
	var writes []func(context.Context, int) error
	for _, o := range targets {
		writes = append(writes, touch(e.Client(), o))
	}
	// The same change, without and with the storm.
	change := func(value string) int {
		from := e.AuditMark()
		apply(spec + "  nodes: {properties: {Aux/example.com/a: " + value + "}}\n")(e)
		e.Eventually("the changed spec is carried out", func() error { return all(e) })
		return len(e.Writes(from))
	}
	alone := change("b")
	from := e.AuditMark()
	end := storm(e, 20*time.Millisecond, "api: conflict storm", writes...)
	during := change("c")
	if full() {
		e.During(time.Minute, "the storm goes on", func() error { return nil })
	}
	touched := end()
	total := len(e.Writes(from))
	t.Logf("%d writes for the change alone, %d in a storm of %d writes by others, %d in all of the storm", alone, during,
		touched, total)
	// A write that lost a race is tried again at once, and each of the storm's may be the reason.
	if most := 3*alone + 20 + touched/5; total > most {
		t.Errorf("%d writes in the storm, at most %d are wanted:\n%s", total, most, harness.Tally(e.Writes(from)))
	}

	// A rival takes a field by force, again and again.
	rival := func(ctx context.Context, _ int) error {
		o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Service",
			"metadata": map[string]any{"namespace": service.Namespace, "name": service.Name,
				"labels": map[string]any{v1alpha1.LabelComponent: "rival"}}}}
		return e.Client().Apply(ctx, client.ApplyConfigurationFromUnstructured(o), client.FieldOwner("rival"),
			client.ForceOwnership)
	}
	from = e.AuditMark()
	end = storm(e, 50*time.Millisecond, "api: rival's write", rival)
	span := 3 * time.Second
	if full() {
		span = time.Minute
	}
	e.During(span, "the rival fights", func() error { return nil })
	fought := end()
	e.Eventually("the operator has the field back", func() error {
		if err := e.Client().Get(e.Ctx, client.ObjectKeyFromObject(service), service); err != nil {
			return err
		}
		if got := service.Labels[v1alpha1.LabelComponent]; got == "rival" {
			return fmt.Errorf("the label is %s", got)
		}
		return all(e)
	})
	answers := 0
	for _, w := range e.Writes(from) {
		if w.Resource == "services" {
			answers++
		}
	}
	t.Logf("%d writes to the Service answered %d writes of the rival", answers, fought)
	if answers == 0 || answers > fought+2 {
		t.Errorf("%d writes to the Service answered %d writes of the rival", answers, fought)
	}
}
