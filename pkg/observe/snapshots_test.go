package observe

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/volumespec"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/optional"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/usage"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/snapshotclass"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
)

// endedWatches notes which watches were ended.
type endedWatches []string

func (w *endedWatches) RemoveInformer(_ context.Context, kind client.Object) error {
	*w = append(*w, fmt.Sprintf("%T", kind))
	return nil
}

// TestSnapshots: the classes are read wherever Kubernetes serves them, snapshots where the operator runs the driver. A
// kind that cannot be read now is unknown.
func TestSnapshots(t *testing.T) {
	content := func(name, driver string) client.Object {
		return &snapshotv1.VolumeSnapshotContent{ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: snapshotv1.VolumeSnapshotContentSpec{Driver: driver, VolumeSnapshotClassName: ptr.To("nightly")}}
	}
	objects := []client.Object{content("theirs", "other.example.com"),
		&snapshotv1.VolumeSnapshotClass{ObjectMeta: metav1.ObjectMeta{Name: "nightly"}}}
	for i := range 5 {
		objects = append(objects, content(fmt.Sprintf("s-%d", i), resources.DriverName))
	}
	kinds := []string{"VolumeSnapshot", "VolumeSnapshotClass", "VolumeSnapshotContent"}
	all := usage.Used{Count: 5, Names: []string{"s-0", "s-1", "s-2"}, ByClass: map[string]int{"nightly": 5}}
	for _, tc := range []struct {
		name    string
		mode    volumespec.VolumeDriverMode
		served  []string
		asked   error // what the question for what is served ends with
		listed  error // what a list ends with
		api     optional.State
		classes int
		want    usage.Used
		fails   bool
	}{
		{name: "the driver runs", mode: volumespec.DriverManaged, served: kinds, api: optional.Served, classes: 1,
			want: all},
		{name: "no driver", mode: volumespec.DriverNone, served: kinds, api: optional.Served, classes: 1},
		{name: "not served", mode: volumespec.DriverManaged, api: optional.Absent},
		{name: "served in part", mode: volumespec.DriverManaged, served: kinds[:1], api: optional.Absent},
		{name: "nobody knows", mode: volumespec.DriverManaged, asked: errors.New("not now"), api: optional.Unknown},
		{name: "gone since", mode: volumespec.DriverManaged, served: kinds, listed: &meta.NoKindMatchError{},
			api: optional.Unknown},
		{name: "the list fails", mode: volumespec.DriverManaged, served: kinds, listed: errors.New("a fault"), fails: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			spec := v1alpha1.StorageClusterSpec{Volumes: volumespec.VolumesSpec{
				Driver: volumespec.VolumeDriverSpec{Mode: tc.mode}}}
			b := newBench(t, spec, interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, l client.ObjectList,
				opts ...client.ListOption) error {
				if _, of := l.(*snapshotv1.VolumeSnapshotClassList); of && tc.listed != nil {
					return tc.listed
				}
				return c.List(ctx, l, opts...)
			}}, objects...)
			b.Discovery = &apiServer{served: map[string][]string{optional.Snapshots.String(): tc.served},
				errs: map[schema.GroupVersion]error{optional.Snapshots: tc.asked}}
			s, err := b.Observe(t.Context(), b.c)
			if tc.fails {
				if err == nil {
					t.Error("the fault is lost")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := snapshotclass.API(&s.Facts); got != tc.api {
				t.Errorf("the API is %q, want %q", got, tc.api)
			}
			if n := len(s.Kube.Driver.SnapshotClasses); n != tc.classes {
				t.Errorf("%d classes, want %d", n, tc.classes)
			}
			if d := cmp.Diff(tc.want, s.Kube.Driver.Snapshots); d != "" {
				t.Error(d)
			}
		})
	}
}

// TestWatchesEndWithTheAPI once, and not where there never were any.
func TestWatchesEndWithTheAPI(t *testing.T) {
	b := newBench(t, v1alpha1.StorageClusterSpec{}, interceptor.Funcs{})
	served := map[string][]string{}
	b.Discovery = &apiServer{served: served}
	var watches endedWatches
	b.Watches = &watches
	look := func(kinds ...string) {
		t.Helper()
		served[optional.Snapshots.String()] = kinds
		b.clock.SetTime(b.clock.Now().Add(b.Timing.Safety))
		b.observe()
	}
	look()
	if len(watches) > 0 {
		t.Errorf("ended without having begun: %v", watches)
	}
	look("VolumeSnapshot", "VolumeSnapshotClass", "VolumeSnapshotContent")
	look()
	look()
	if d := cmp.Diff(endedWatches{"*v1.VolumeSnapshotClass", "*v1.VolumeSnapshotContent"}, watches); d != "" {
		t.Error(d)
	}
}

// TestAListThatDoesNotCome: a watch that the role does not allow is never filled, and must not keep the operator.
func TestAListThatDoesNotCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, v1alpha1.StorageClusterSpec{}, interceptor.Funcs{List: func(ctx context.Context,
			c client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
			if _, of := l.(*snapshotv1.VolumeSnapshotClassList); of {
				<-ctx.Done()
				return ctx.Err()
			}
			return c.List(ctx, l, opts...)
		}})
		b.Discovery = &apiServer{served: map[string][]string{
			optional.Snapshots.String(): {"VolumeSnapshot", "VolumeSnapshotClass", "VolumeSnapshotContent"}}}
		if got := snapshotclass.API(&b.observe().Facts); got != optional.Unknown {
			t.Errorf("the API is %q", got)
		}
	})
}
