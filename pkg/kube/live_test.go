package kube

import (
	"context"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
)

func volume(name, driver string) *corev1.PersistentVolume {
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}}
	pv.Spec.StorageClassName = "fast"
	pv.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: driver}
	return pv
}

func TestLiveVolumes(t *testing.T) {
	l := Live{fake.NewClientBuilder().WithScheme(scheme(t)).WithObjects(volume("pv-1", "d"), volume("pv-2", "other"),
		&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv-3"}}).Build()}
	volumes, err := l.Volumes(t.Context(), "d")
	if err != nil || !maps.Equal(volumes, map[string]string{"pv-1": "fast"}) {
		t.Errorf("volumes %v, %v", volumes, err)
	}
}

// TestLiveSnapshots: where Kubernetes does not serve snapshots there are none, and any other failure is one.
func TestLiveSnapshots(t *testing.T) {
	content := func(name, driver string) *snapshotv1.VolumeSnapshotContent {
		return &snapshotv1.VolumeSnapshotContent{ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: snapshotv1.VolumeSnapshotContentSpec{Driver: driver, VolumeSnapshotClassName: ptr.To("nightly")}}
	}
	class := &snapshotv1.VolumeSnapshotClass{ObjectMeta: metav1.ObjectMeta{Name: "nightly",
		Labels: map[string]string{v1alpha1.LabelCluster: "linstor"}}}
	for _, tc := range []struct {
		name    string
		err     error
		want    map[string]string
		objects int
		fails   bool
	}{
		{"served", nil, map[string]string{"s-1": "nightly"}, 1, false},
		{"never served", &meta.NoKindMatchError{}, nil, 0, false},
		{"not served any more", apierrors.NewNotFound(schema.GroupResource{}, ""), nil, 0, false},
		{"no answer", apierrors.NewServiceUnavailable("not now"), nil, 0, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := Live{newClient(t, interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch,
				list client.ObjectList, opts ...client.ListOption) error {
				kind, err := c.GroupVersionKindFor(list)
				if err == nil && kind.Group == snapshotv1.GroupName && tc.err != nil {
					err = tc.err
				}
				if err != nil {
					return err
				}
				return c.List(ctx, list, opts...)
			}}, content("s-1", "d"), content("s-2", "other"), class)}
			got, err := l.SnapshotContents(t.Context(), "d")
			if !maps.Equal(got, tc.want) || (err != nil) != tc.fails {
				t.Errorf("%v, %v", got, err)
			}
			objects, err := l.Labelled(t.Context(), "linstor")
			if len(objects) != tc.objects || (err != nil) != tc.fails {
				t.Errorf("%v, %v", objects, err)
			}
		})
	}
}

func TestLive(t *testing.T) {
	member := map[string]string{v1alpha1.LabelMember: "linstor"}
	byName := func(o client.Object) []string { return []string{o.GetName()} }
	ours, foreign := configMap("linstor", nil), configMap("other", nil)
	foreign.Name = "foreign"
	l := Live{fake.NewClientBuilder().WithScheme(scheme(t)).
		WithIndex(&v1alpha1.StorageCluster{}, metav1.ObjectNameField, byName).WithIndex(&corev1.Node{},
		metav1.ObjectNameField, byName).
		WithObjects(&v1alpha1.StorageCluster{ObjectMeta: metav1.ObjectMeta{Name: "linstor"}}, ours, foreign,
			&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: member}},
			&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n2"}},
			&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.WorkloadNamespace, Name: "p",
				Labels: ours.Labels}},
			&storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: "d", Labels: ours.Labels}}).
		Build()}
	if c, err := l.Cluster(t.Context(), "linstor"); err != nil || c == nil || c.Name != "linstor" {
		t.Errorf("cluster %v, %v", c, err)
	}
	if c, err := l.Cluster(t.Context(), "other"); err != nil || c != nil {
		t.Errorf("another cluster %v, %v", c, err)
	}
	if n, err := l.Node(t.Context(), "n2"); err != nil || n == nil || n.Name != "n2" {
		t.Errorf("node %v, %v", n, err)
	}
	if n, err := l.Node(t.Context(), "n3"); err != nil || n != nil {
		t.Errorf("no node %v, %v", n, err)
	}
	objects, err := l.Labelled(t.Context(), "linstor")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, o := range objects {
		names = append(names, o.Kind+" "+o.Name)
	}
	slices.Sort(names)
	if d := cmp.Diff([]string{"CSIDriver d", "ConfigMap c", "Node n1", "PersistentVolumeClaim p"}, names); d != "" {
		t.Error(d)
	}
}

func TestLiveConfigMap(t *testing.T) {
	there := configMap("linstor", nil)
	l := Live{fake.NewClientBuilder().WithScheme(scheme(t)).WithIndex(&corev1.ConfigMap{}, metav1.ObjectNameField,
		func(o client.Object) []string { return []string{o.GetName()} }).WithObjects(there).Build()}
	if c, err := l.ConfigMap(t.Context(), there.Name); err != nil || c == nil || c.Name != there.Name {
		t.Errorf("%v, %v", c, err)
	}
	if c, err := l.ConfigMap(t.Context(), "another"); err != nil || c != nil {
		t.Errorf("another one: %v, %v", c, err)
	}
}
