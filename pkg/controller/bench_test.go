package controller

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/catalogue"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/database/connection"
	"github.com/linstor-dev/storagecluster-operator/pkg/kube"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/metrics"
	"github.com/linstor-dev/storagecluster-operator/pkg/observe"
	"github.com/linstor-dev/storagecluster-operator/pkg/work"
)

// bench is a reconciler with an API server in memory. Everything that goes out is written down in one list, in its
// order.
type bench struct {
	t     *testing.T
	r     *Reconciler
	c     client.WithWatch
	clock *clocktesting.FakePassiveClock
	reg   *prometheus.Registry
	log   []string
	// fault makes the write of that name fail.
	fault map[string]error
	// meanwhile happens right before the write of that name.
	meanwhile map[string]func()
	// stale is what the reconciler reads from; nil for the API server itself.
	stale client.Reader
}

func newBench(t *testing.T, objects ...client.Object) *bench {
	t.Helper()
	s := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(s), v1alpha1.AddToScheme(s)); err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, fault: map[string]error{},
		clock: clocktesting.NewFakePassiveClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)), reg: prometheus.NewRegistry()}
	var mu sync.Mutex // nodes are labelled side by side
	note := func(format string, args ...any) error {
		line := fmt.Sprintf(format, args...)
		mu.Lock()
		defer mu.Unlock()
		b.log = append(b.log, line)
		if do := b.meanwhile[line]; do != nil {
			do()
		}
		return b.fault[line]
	}
	kind := &v1alpha1.StorageCluster{}
	byName := func(o client.Object) []string { return []string{o.GetName()} }
	server := fake.NewClientBuilder().WithScheme(s).WithIndex(kind, metav1.ObjectNameField, byName).
		WithIndex(&corev1.ConfigMap{}, metav1.ObjectNameField, byName)
	b.c = server.WithObjects(objects...).WithStatusSubresource(kind).WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch,
			opts ...client.PatchOption) error {
			if err := note("patch %T", o); err != nil {
				return err
			}
			return c.Patch(ctx, o, p, opts...)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch,
			opts ...client.SubResourcePatchOption) error {
			if err := note("patch %s", sub); err != nil {
				return err
			}
			return c.SubResource(sub).Patch(ctx, o, p, opts...)
		},
		Apply: func(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration,
			opts ...client.ApplyOption) error {
			if err := note("apply"); err != nil {
				return err
			}
			return c.Apply(ctx, o, opts...)
		},
	}).Build()
	m := metrics.New()
	if err := m.Register(b.reg); err != nil {
		t.Fatal(err)
	}
	timing := cluster.DefaultTiming()
	b.r = &Reconciler{
		Reader: b, Writer: &kube.Writer{Client: b.c}, API: silentLinstor{}, Tasks: noTasks{}, Recorder: b, Metrics: m,
		Clock: b.clock,
		Live:  kube.Live{Client: b.c},
		Observer: &observe.Observer{Reader: b, Linstor: silentLinstor{}, Prober: emptyDatabase{}, Tasks: noTasks{},
			Catalogue: catalogue.Embedded(), Timing: timing, Clock: b.clock},
	}
	return b
}

func (b *bench) reader() client.Reader {
	if b.stale != nil {
		return b.stale
	}
	return b.c
}

func (b *bench) Get(ctx context.Context, k client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	return b.reader().Get(ctx, k, o, opts...)
}

func (b *bench) List(ctx context.Context, l client.ObjectList, opts ...client.ListOption) error {
	return b.reader().List(ctx, l, opts...)
}

func (b *bench) Eventf(_, _ runtime.Object, kind, reason, action, note string, args ...any) {
	b.log = append(b.log, fmt.Sprintf("event %s %s %s: %s", kind, reason, action, fmt.Sprintf(note, args...)))
}

// step reconciles once and returns what went out.
func (b *bench) step() (reconcile.Result, []string, error) {
	b.t.Helper()
	b.log = nil
	res, err := b.r.Reconcile(b.t.Context(),
		reconcile.Request{NamespacedName: types.NamespacedName{Name: v1alpha1.ClusterName}})
	return res, b.log, err
}

func (b *bench) stored() *v1alpha1.StorageCluster {
	b.t.Helper()
	c := &v1alpha1.StorageCluster{}
	if err := b.c.Get(b.t.Context(), client.ObjectKey{Name: v1alpha1.ClusterName}, c); err != nil {
		b.t.Fatal(err)
	}
	return c
}

// metric is the sum of all series of a metric.
func (b *bench) metric(name string) float64 {
	b.t.Helper()
	families, err := b.reg.Gather()
	if err != nil {
		b.t.Fatal(err)
	}
	sum := 0.0
	for _, f := range families {
		if f.GetName() == name {
			for _, m := range f.GetMetric() {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return sum
}

type silentLinstor struct{ linstor.API }

func (silentLinstor) View(context.Context, linstor.ViewOptions) (*linstor.View, error) {
	return nil, errors.New("refused")
}

type emptyDatabase struct{}

func (emptyDatabase) Look(context.Context, *v1alpha1.DatabaseSpec, connection.Settings) (connection.Contents, error) {
	return connection.Contents{}, nil
}

type noTasks struct{}

func (noTasks) Ensure(work.Task) work.State { return work.State{} }
func (noTasks) State(string) work.State     { return work.State{} }
func (noTasks) Forget(string)               {}
func (noTasks) Quiesce(string) int          { return 0 }
func (noTasks) Errors() map[string]error    { return nil }

func storageCluster(f func(*v1alpha1.StorageCluster)) *v1alpha1.StorageCluster {
	c := &v1alpha1.StorageCluster{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ClusterName, UID: "uid", Generation: 1,
		Finalizers: []string{v1alpha1.Finalizer}}}
	if f != nil {
		f(c)
	}
	return c
}

func node(name string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady,
			Status: corev1.ConditionTrue}}}}
}
