package observe

import (
	"context"
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/monitoringspec"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/optional"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/apitls"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/monitors"
)

// TestMonitors: the objects are looked at now and then, at once after a change of the spec, and always in a deletion.
func TestMonitors(t *testing.T) {
	b := newBench(t, v1alpha1.StorageClusterSpec{}, interceptor.Funcs{})
	s := runtime.NewScheme()
	for _, kind := range monitors.Kinds() {
		s.AddKnownTypeWithName(monitors.Kind(kind), &unstructured.Unstructured{})
		s.AddKnownTypeWithName(monitors.Kind(kind+"List"), &unstructured.UnstructuredList{})
	}
	lists, broken := 0, error(nil)
	objects := monitors.Objects("linstor", &monitoringspec.MonitoringSpec{}, apitls.Access{})
	b.Live = fake.NewClientBuilder().WithScheme(s).WithObjects(objects[0], objects[3]).WithInterceptorFuncs(
		interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, l client.ObjectList,
			opts ...client.ListOption) error {
			lists++
			if broken != nil {
				return broken
			}
			return c.List(ctx, l, opts...)
		}}).Build()
	api := &apiServer{}
	b.Discovery = api
	look := func(what string, after time.Duration, known bool) {
		t.Helper()
		b.clock.SetTime(b.clock.Now().Add(after))
		f := b.observe()
		if f.Kube.MonitorsKnown != known || known && len(f.Kube.Monitors) != 2 {
			t.Errorf("%s: known: %v, want %v; %d objects", what, f.Kube.MonitorsKnown, known, len(f.Kube.Monitors))
		}
	}
	look("no definitions", 0, false)
	if lists > 0 {
		t.Error("it asked for what is not served")
	}
	api.served = map[string][]string{optional.Monitoring.String(): monitors.Kinds()}
	look("definitions are there", b.Timing.Safety, true)
	look("right after that", time.Second, false)
	b.c.Generation++
	look("another spec", time.Second, true)
	look("after a while", b.Timing.PollSteady, true)
	broken = errors.New("not now")
	look("no answer", b.Timing.PollSteady, false)
	broken = nil
	b.c.DeletionTimestamp = &b.c.CreationTimestamp
	look("a deletion", time.Second, true)
	look("a deletion goes on", time.Second, true)
}
