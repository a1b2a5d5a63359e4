package observe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/volumespec"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/optional"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/canary"
)

// eventReader is the API server's list of Events.
type eventReader struct {
	client.Reader
	events []corev1.Event
	names  []string // the object of each request
	err    error
}

func (r *eventReader) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	var o client.ListOptions
	o.ApplyOptions(opts)
	name, _ := o.FieldSelector.RequiresExactMatch("involvedObject.name")
	r.names = append(r.names, name)
	about := fields.Set{"involvedObject.name": name, "type": corev1.EventTypeWarning}
	if o.Namespace != v1alpha1.WorkloadNamespace || !o.FieldSelector.Matches(about) ||
		len(o.FieldSelector.Requirements()) != len(about) {
		return fmt.Errorf("list in %q by %s", o.Namespace, o.FieldSelector)
	}
	if r.err != nil {
		return r.err
	}
	list.(*corev1.EventList).Items = slices.DeleteFunc(slices.Clone(r.events), func(e corev1.Event) bool {
		return e.InvolvedObject.Name != name
	})
	return nil
}

// TestCanary: claims, pods and volumes of tries are seen, those of others are not; what Kubernetes warns of is read
// once a try takes long.
func TestCanary(t *testing.T) {
	name := canary.Name("fast")
	mine := map[string]string{v1alpha1.LabelCluster: v1alpha1.ClusterName,
		v1alpha1.LabelComponent: v1alpha1.ComponentCanary}
	about := metav1.ObjectMeta{Namespace: v1alpha1.WorkloadNamespace, Name: name, Labels: mine, UID: "claim-uid"}
	foreign := metav1.ObjectMeta{Namespace: v1alpha1.WorkloadNamespace, Name: "other"}
	volume := func(name, namespace, claim string) client.Object {
		pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}}
		pv.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: resources.DriverName}
		pv.Spec.ClaimRef = &corev1.ObjectReference{Namespace: namespace, Name: claim}
		return pv
	}
	pod := &corev1.Pod{ObjectMeta: about, Spec: corev1.PodSpec{NodeName: "n1"}}
	pod.UID = "pod-uid"
	warning := func(uid types.UID, reason string, at time.Time) corev1.Event {
		return corev1.Event{InvolvedObject: corev1.ObjectReference{Name: name, UID: uid}, Reason: reason,
			LastTimestamp: metav1.NewTime(at)}
	}
	for _, tc := range []struct {
		name  string
		age   time.Duration
		want  map[string][]cluster.Warning
		lists int
	}{
		{"it has just begun", time.Second, nil, 0},
		{"it takes long", time.Minute, map[string][]cluster.Warning{
			name: {{Reason: "FailedMount", UID: "pod-uid", At: time.Unix(1000, 0)},
				{Reason: "ProvisioningFailed", UID: "claim-uid", At: time.Unix(1000, 0).Add(-time.Hour)}}}, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			now := time.Unix(1000, 0)
			b := newBench(t, v1alpha1.StorageClusterSpec{Volumes: volumespec.VolumesSpec{
				Driver: volumespec.VolumeDriverSpec{Mode: volumespec.DriverManaged}}}, interceptor.Funcs{},
				&corev1.PersistentVolumeClaim{ObjectMeta: about}, &corev1.PersistentVolumeClaim{ObjectMeta: foreign}, pod,
				volume("pvc-1", v1alpha1.WorkloadNamespace, name), volume("pvc-2", "default", name))
			events := &eventReader{events: []corev1.Event{warning("claim-uid", "ProvisioningFailed", now.Add(-time.Hour)),
				warning("pod-uid", "FailedMount", now), warning("an earlier pod", "FailedScheduling", now)}}
			b.Events = events
			b.c.Status.Canary = &volumespec.CanaryStatus{Classes: []volumespec.CanaryClass{{Name: "fast",
				Result: volumespec.CanaryRunning, Since: metav1.NewTime(b.clock.Now().Add(-tc.age))}}}
			b.observe()
			kube := b.observe().Kube
			got := kube.Canary
			if len(events.names) != tc.lists {
				t.Errorf("the API server received %d requests", len(events.names))
			}
			if len(got.Claims) != 1 || got.Claims[name] == nil || len(got.Pods) != 1 || got.Pods[name] == nil {
				t.Errorf("claims %v, pods %v", got.Claims, got.Pods)
			}
			if d := cmp.Diff(map[string]string{name: "pvc-1"}, got.Volumes); d != "" {
				t.Error(d)
			}
			if d := cmp.Diff(tc.want, kube.Warnings); d != "" {
				t.Error(d)
			}
		})
	}
}

// TestCanarySnapshots: they are read past the cache, and only while there is a claim that one may be of.
func TestCanarySnapshots(t *testing.T) {
	kinds := []string{"VolumeSnapshot", "VolumeSnapshotClass", "VolumeSnapshotContent"}
	mine := metav1.ObjectMeta{Namespace: v1alpha1.WorkloadNamespace, Name: canary.Name("fast"), Labels: map[string]string{
		v1alpha1.LabelCluster: v1alpha1.ClusterName, v1alpha1.LabelComponent: v1alpha1.ComponentCanary}}
	other := mine
	other.Name, other.Labels = "somebodys", nil
	for _, tc := range []struct {
		name   string
		served []string
		claim  bool
		listed error
		want   int
		lists  int
		fails  bool
	}{
		{"a claim", kinds, true, nil, 1, 1, false},
		{"no claim", kinds, false, nil, 0, 0, false},
		{"no API", nil, true, nil, 0, 0, false},
		{"the API is gone since", kinds, true, &meta.NoKindMatchError{}, 0, 1, false},
		{"the list fails", kinds, true, errors.New("a fault"), 0, 1, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			objects := []client.Object{&snapshotv1.VolumeSnapshot{ObjectMeta: mine},
				&snapshotv1.VolumeSnapshot{ObjectMeta: other}}
			if tc.claim {
				objects = append(objects, &corev1.PersistentVolumeClaim{ObjectMeta: mine})
			}
			lists := 0
			b := newBench(t, v1alpha1.StorageClusterSpec{Volumes: volumespec.VolumesSpec{
				Driver: volumespec.VolumeDriverSpec{Mode: volumespec.DriverManaged}}}, interceptor.Funcs{
				List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
					if _, of := l.(*snapshotv1.VolumeSnapshotList); of {
						if lists++; tc.listed != nil {
							return tc.listed
						}
					}
					return c.List(ctx, l, opts...)
				}}, objects...)
			b.Live = b.Reader
			b.Discovery = &apiServer{served: map[string][]string{optional.Snapshots.String(): tc.served}}
			s, err := b.Observe(t.Context(), b.c)
			if (err != nil) != tc.fails || lists != tc.lists {
				t.Fatalf("%v, %d lists", err, lists)
			}
			if err == nil && len(s.Kube.Canary.Snapshots) != tc.want {
				t.Errorf("snapshots %v", s.Kube.Canary.Snapshots)
			}
		})
	}
}
