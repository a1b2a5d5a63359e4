package simcluster

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/test/simcluster/kubebin"
)

// prepared is what the clusters of the test's pool find.
const prepared = `
apiVersion: v1
kind: Namespace
metadata: {name: kept}
---
apiVersion: v1
kind: Namespace
metadata: {name: doomed}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: kept, namespace: kept}
data: {key: prepared}
---
apiVersion: v1
kind: Secret
metadata: {name: kept, namespace: kept}
stringData: {key: prepared}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.pool.example.com}
spec:
  group: pool.example.com
  scope: Cluster
  names: {kind: Thing, plural: things, singular: thing, listKind: ThingList}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

// leftBehind is what the first cluster adds and leaves. The pods' containers run on.
const leftBehind = `
apiVersion: pool.example.com/v1
kind: Thing
metadata: {name: stuck, finalizers: [pool.example.com/never]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: stuck, namespace: doomed, finalizers: [pool.example.com/never]}
---
apiVersion: v1
kind: Service
metadata: {name: port, namespace: kept}
spec: {type: NodePort, clusterIP: 10.96.7.7, ports: [{port: 80, nodePort: 30080}]}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: pods, namespace: kept}
spec:
  selector: {matchLabels: {app: pods}}
  template:
    metadata: {labels: {app: pods}}
    spec: {containers: [{name: idle, image: "example.com/idle:1"}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: pods, namespace: kept}
spec:
  selector: {matchLabels: {app: pods}}
  template:
    metadata: {labels: {app: pods}}
    spec: {containers: [{name: idle, image: "example.com/idle:1"}]}
`

func newPool(t *testing.T) *Pool {
	t.Helper()
	pool := NewPool(PoolOptions{AuditLog: true, Log: os.Stderr, Prepare: func(ctx context.Context, c *Cluster) error {
		return c.ApplyYAML(ctx, prepared)
	}})
	t.Cleanup(func() {
		if err := pool.Close(); err != nil {
			t.Error(err)
		}
	})
	return pool
}

func borrow(t *testing.T, pool *Pool, nodes ...NodeSpec) *Cluster {
	t.Helper()
	c, err := Start(t.Context(), Options{Pool: pool, Nodes: nodes})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Stop)
	return c
}

// What one cluster leaves behind, the next on the same control plane does not see.
func TestAPlaneIsUsedAgain(t *testing.T) {
	pool := newPool(t)
	first := borrow(t, pool)
	before := everything(t, first)
	useUp(t, first)
	first.Stop()

	again := time.Now()
	second := borrow(t, pool)
	if first.plane != second.plane {
		t.Fatal("the control plane was not used again")
	}
	if diff := cmp.Diff(before, everything(t, second)); diff != "" {
		t.Errorf("what the second cluster finds differs from what the first found (-first +second):\n%s", diff)
	}
	var past corev1.EventList
	if err := second.Client().List(t.Context(), &past, client.InNamespace("kept")); err != nil || len(past.Items) > 0 {
		t.Errorf("the second cluster has %d Events of the first (%v)", len(past.Items), err)
	}
	// The same names, addresses and ports can be used at once.
	useUp(t, second)
	events, err := second.AuditEvents()
	if err != nil {
		t.Fatal(err)
	}
	if len(events) == 0 {
		t.Error("the second cluster's audit log is empty")
	}
	for _, e := range events {
		// A watch of the components' own ends when it must, whenever it began.
		if e.Time.Before(again) && e.User == AdminUser {
			t.Errorf("the second cluster's audit log begins before it, with %+v", e)
			break
		}
	}
	stopLate(t, second)
	if diff := cmp.Diff(before, everything(t, borrow(t, pool))); diff != "" {
		t.Errorf("what the third cluster finds differs from what the first found (-first +third):\n%s", diff)
	}
}

// stopLate stops the cluster while kube-controller-manager does not get on, as on a busy machine. It has not seen the
// last namespace then, and not that it is gone: what it makes in it comes late.
func stopLate(t *testing.T, c *Cluster) {
	t.Helper()
	controllers := c.plane.PIDs()[kubebin.ControllerManager]
	signal := func(s syscall.Signal) {
		if err := syscall.Kill(controllers, s); err != nil {
			t.Fatal(err)
		}
	}
	signal(syscall.SIGSTOP)
	err := c.Client().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "late"}})
	stopped := make(chan struct{})
	go func() {
		c.Stop()
		close(stopped)
	}()
	select {
	case <-stopped:
		t.Error("the control plane is used again while kube-controller-manager has not seen the namespace")
	case <-time.After(time.Second):
	}
	signal(syscall.SIGCONT)
	<-stopped
	if err != nil {
		t.Fatal(err)
	}
}

// useUp uses and leaves everything that a test may use of a control plane without spoiling it.
func useUp(t *testing.T, c *Cluster) {
	t.Helper()
	ctx := t.Context()
	for i := range 2 {
		if err := c.AddNode(ctx, NodeSpec{Name: fmt.Sprintf("n%d", i)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.ApplyYAML(ctx, leftBehind); err != nil {
		t.Fatal(err)
	}
	eventually(t, "pods", func(ctx context.Context) error {
		var pods corev1.PodList
		if err := c.Client().List(ctx, &pods, client.InNamespace("kept")); err != nil {
			return err
		}
		running := 0
		for i := range pods.Items {
			if ready(&pods.Items[i]) {
				running++
			}
		}
		if running != 3 {
			return fmt.Errorf("%d pods run, want the DaemonSet's two and the Deployment's", running)
		}
		return nil
	})
	kept := types.NamespacedName{Namespace: "kept", Name: "kept"}
	for _, err := range []error{
		c.Client().Patch(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: kept.Namespace, Name: kept.Name}},
			client.RawPatch(types.MergePatchType, []byte(`{"data":{"key":"changed","other":"added"}}`))),
		c.Client().Delete(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: kept.Namespace, Name: kept.Name}}),
		c.Client().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "added"}}),
		// Neither ends: objects in it, or on its way, have finalizers that nobody removes.
		c.Client().Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "doomed"}}),
		c.Client().Delete(ctx, thing("stuck")),
		// These are on their way when the cluster ends.
		c.Client().Delete(ctx, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "kept", Name: "pods"}},
			client.PropagationPolicy(metav1.DeletePropagationForeground)),
		c.KillNode(ctx, "n1"),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
}

func thing(name string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(schema.GroupVersionKind{Group: "pool.example.com", Version: "v1", Kind: "Thing"})
	o.SetName(name)
	return o
}

// everything is each object of the cluster but for the components' own Leases and past Events, without its version.
func everything(t *testing.T, c *Cluster) map[string]string {
	t.Helper()
	found, err := discovery.NewDiscoveryClientForConfig(c.AdminConfig())
	if err != nil {
		t.Fatal(err)
	}
	lists, err := found.ServerPreferredResources()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, list := range lists {
		group, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range list.APIResources {
			if !strings.Contains(strings.Join(r.Verbs, " "), "watch") || r.Name == "events" { // others are not stored
				continue
			}
			objects, err := c.mapper.dynamic.Resource(group.WithResource(r.Name)).List(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for i := range objects.Items {
				o := &objects.Items[i]
				if r.Name == "leases" && o.GetNamespace() == metav1.NamespaceSystem {
					continue
				}
				o.SetResourceVersion("")
				text, err := json.Marshal(o)
				if err != nil {
					t.Fatal(err)
				}
				all[group.WithResource(r.Name).String()+" "+o.GetNamespace()+"/"+o.GetName()] = string(text)
			}
		}
	}
	if len(all) < 50 {
		t.Fatalf("%d objects, want those that every cluster has", len(all))
	}
	return all
}

// What the API server itself decides by is read in the background: a plane on which that was changed is not used
// again, nor one that lost a component.
func TestASpoiltPlaneIsReplaced(t *testing.T) {
	pool := newPool(t)
	for name, spoil := range map[string]func(context.Context, *Cluster) error{
		"rights": func(ctx context.Context, c *Cluster) error {
			return c.Client().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "all"},
				Rules: []rbacv1.PolicyRule{{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}}}})
		},
		"a definition that is gone": func(ctx context.Context, c *Cluster) error {
			_, err := c.Kubectl(ctx, "delete", "crd", "things.pool.example.com")
			return err
		},
		"a definition that was changed": func(ctx context.Context, c *Cluster) error {
			_, err := c.Kubectl(ctx, "patch", "crd", "things.pool.example.com", "--type=json",
				`-p=[{"op":"add","path":"/spec/names/shortNames","value":["th"]}]`)
			return err
		},
		"admission": func(ctx context.Context, c *Cluster) error {
			return c.ApplyYAML(ctx, `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: nothing}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}
  validations: [{expression: "false"}]
`)
		},
		"a component that was killed": func(ctx context.Context, c *Cluster) error {
			if err := c.KillControlPlane("kube-controller-manager"); err != nil {
				return err
			}
			return c.ReviveControlPlane(ctx, "kube-controller-manager")
		},
	} {
		t.Run(name, func(t *testing.T) {
			first := borrow(t, pool)
			if err := spoil(t.Context(), first); err != nil {
				t.Fatal(err)
			}
			pids := first.PIDs()
			first.Stop()
			second := borrow(t, pool)
			defer second.Stop()
			if first.plane == second.plane {
				t.Error("the control plane is used again")
			}
			for component, pid := range pids {
				if !processEnded(pid) {
					t.Errorf("%s of the plane that is not used again still runs", component)
				}
			}
			err := second.Client().Get(t.Context(), client.ObjectKey{Name: "all"}, &rbacv1.ClusterRole{})
			if !apierrors.IsNotFound(err) {
				t.Errorf("the role of the first cluster: %v", err)
			}
		})
	}
}

// No two objects that are put back share a revision: a watch that is begun anew between them would miss the second,
// and a component of the control plane would believe in what is gone.
func TestNothingIsPutBackTogether(t *testing.T) {
	const many = 20
	pool := newPool(t)
	first := borrow(t, pool)
	for i := range many {
		o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kept", Name: fmt.Sprintf("added-%d", i)}}
		if err := first.Client().Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	set, err := kubernetes.NewForConfig(first.AdminConfig())
	if err != nil {
		t.Fatal(err)
	}
	now, err := set.CoreV1().ConfigMaps("kept").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w, err := set.CoreV1().ConfigMaps("kept").Watch(t.Context(), metav1.ListOptions{ResourceVersion: now.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	first.Stop()
	seen := map[string]string{}
	for len(seen) < many {
		event, open := <-w.ResultChan()
		if !open {
			t.Fatalf("the watch ended after %d deletions", len(seen))
		}
		o, ok := event.Object.(*corev1.ConfigMap)
		if !ok || event.Type != watch.Deleted {
			continue
		}
		if other := seen[o.ResourceVersion]; other != "" {
			t.Fatalf("%s and %s were deleted at revision %s", other, o.Name, o.ResourceVersion)
		}
		seen[o.ResourceVersion] = o.Name
	}
}
