package controller

import (
	"context"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
)

func (b *bench) pass(d time.Duration) { b.clock.SetTime(b.clock.Now().Add(d)) }

// loading is a cluster of three nodes whose module loaders have not started, with its status as it is.
func loading(t *testing.T) *bench {
	t.Helper()
	b := newBench(t, storageCluster(nil), node("n1"), node("n2"), node("n3"))
	for range 12 {
		b.pass(time.Minute / 4)
		if _, _, err := b.step(); err != nil {
			t.Fatal(err)
		}
	}
	if got := b.stored().Status; got.Phase != v1alpha1.PhaseKernelModule ||
		got.Message != "0 of 3 nodes have DRBD loaded" {
		t.Fatalf("%s: %s", got.Phase, got.Message)
	}
	return b
}

func (b *bench) loaderStarts(nodes ...string) {
	b.t.Helper()
	for _, node := range nodes {
		b.startLoader(node)
	}
}

func (b *bench) startLoader(node string) {
	b.t.Helper()
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "loader-" + node, Namespace: v1alpha1.WorkloadNamespace,
			Labels: map[string]string{v1alpha1.LabelCluster: v1alpha1.ClusterName,
				v1alpha1.LabelComponent: v1alpha1.ComponentModuleLoader}},
		Spec:   corev1.PodSpec{NodeName: node},
		Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	}
	var sets appsv1.DaemonSetList
	if err := b.c.List(b.t.Context(), &sets,
		client.MatchingLabels{v1alpha1.LabelComponent: v1alpha1.ComponentModuleLoader}); err != nil {
		b.t.Fatal(err)
	}
	for i := range sets.Items {
		p.Annotations = sets.Items[i].Spec.Template.Annotations
	}
	if err := b.c.Create(b.t.Context(), p); err != nil {
		b.t.Fatal(err)
	}
}

func TestCountsAloneAreWrittenAFewAtATime(t *testing.T) {
	b := loading(t)
	poll := b.r.Observer.Timing.PollWorking
	b.r.pace.WroteStatus(&v1alpha1.StorageCluster{}, "") // as if the status had just been written
	b.loaderStarts("n1")
	res, log, err := b.step()
	if err != nil || len(log) != 0 || res.RequeueAfter <= 0 || res.RequeueAfter > poll {
		t.Errorf("%v, again after %s, did %v", err, res.RequeueAfter, log)
	}
	b.pass(poll)
	if _, log, err = b.step(); err != nil || !slices.Equal(log, []string{"patch status"}) ||
		b.stored().Status.Message != "1 of 3 nodes have DRBD loaded" {
		t.Errorf("%v: %v (%s)", err, log, b.stored().Status.Message)
	}
	b.loaderStarts("n2", "n3") // the phase is over, which does not wait
	if _, log, err = b.step(); err != nil || len(log) == 0 || log[0] != "patch status" ||
		b.stored().Status.Phase != v1alpha1.PhaseDatabase {
		t.Errorf("%v: %v (%s)", err, log, b.stored().Status.Phase)
	}
}

// slowReader takes its time on a fake clock.
type slowReader struct {
	client.Reader
	b    *bench
	took time.Duration
}

func (s slowReader) List(ctx context.Context, l client.ObjectList, opts ...client.ListOption) error {
	if _, ok := l.(*corev1.NodeList); ok {
		s.b.pass(s.took)
	}
	return s.Reader.List(ctx, l, opts...)
}

func TestASlowStepIsRestedFrom(t *testing.T) {
	for _, tc := range []struct{ took, rest time.Duration }{{0, 0}, {time.Millisecond, 9 * time.Millisecond},
		{time.Second, time.Second / 2}} {
		b := loading(t)
		b.pass(time.Hour)
		b.stale = slowReader{b.c, b, tc.took}
		if _, _, err := b.step(); err != nil {
			t.Fatal(err)
		}
		b.stale = nil
		b.loaderStarts("n1", "n2", "n3")
		res, log, err := b.step()
		if rests := len(log) == 0; err != nil || rests != (tc.rest > 0) || rests && res.RequeueAfter != tc.rest {
			t.Errorf("after %s: %v, again after %s, did %v", tc.took, err, res.RequeueAfter, log)
		}
		b.pass(tc.rest)
		if _, _, err = b.step(); err != nil || b.stored().Status.Phase == v1alpha1.PhaseKernelModule {
			t.Errorf("after %s and a rest: %v, still %s", tc.took, err, b.stored().Status.Phase)
		}
	}
}
