package observe

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/volumespec"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/usage"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
)

// TestDriver: of kubelets and volumes only what is about the driver counts, and only where the operator runs it or has
// run it.
func TestDriver(t *testing.T) {
	on := func(node string, drivers ...storagev1.CSINodeDriver) client.Object {
		return &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: node}, Spec: storagev1.CSINodeSpec{Drivers: drivers}}
	}
	volume := func(name, driver string) client.Object {
		pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}}
		pv.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: driver}
		pv.Spec.StorageClassName = "fast"
		return pv
	}
	ours := storagev1.CSINodeDriver{Name: resources.DriverName, NodeID: "n1", TopologyKeys: []string{"host"}}
	other := storagev1.CSINodeDriver{Name: "other.example.com", NodeID: "x"}
	objects := []client.Object{on("n1", other, ours), on("n2", other), volume("other", "other.example.com"),
		&storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: "other.example.com"}},
		&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "any"}}}
	for i := range 5 {
		objects = append(objects, volume(fmt.Sprintf("pv-%d", i), resources.DriverName))
	}
	all := cluster.Driver{Nodes: map[string]cluster.DriverNode{"n1": {NodeID: "n1", TopologyKeys: []string{"host"}}},
		Volumes: usage.Used{Count: 5, Names: []string{"pv-0", "pv-1", "pv-2"}, ByClass: map[string]int{"fast": 5}}}
	object := func(labels map[string]string) client.Object {
		return &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: resources.DriverName, Labels: labels}}
	}
	mine := map[string]string{v1alpha1.LabelCluster: v1alpha1.ClusterName}
	for _, tc := range []struct {
		name   string
		mode   volumespec.VolumeDriverMode
		object client.Object
		want   cluster.Driver
	}{
		{"wanted", volumespec.DriverManaged, nil, all},
		{"not wanted, and never there", volumespec.DriverNone, nil, cluster.Driver{}},
		{"not wanted, and somebody else's", volumespec.DriverNone, object(nil), cluster.Driver{}},
		{"not wanted any more", volumespec.DriverNone, object(mine), all},
	} {
		t.Run(tc.name, func(t *testing.T) {
			there := objects
			if tc.object != nil {
				there = append(there[:len(there):len(there)], tc.object)
			}
			spec := v1alpha1.StorageClusterSpec{Volumes: volumespec.VolumesSpec{
				Driver: volumespec.VolumeDriverSpec{Mode: tc.mode}}}
			got := newBench(t, spec, interceptor.Funcs{}, there...).observe().Kube.Driver
			if (got.Object != nil) != (tc.object != nil) {
				t.Errorf("object %v", got.Object)
			}
			if len(got.Classes) != 1 || got.Classes["any"] == nil {
				t.Errorf("StorageClasses %v", got.Classes)
			}
			got.Object, got.Classes = nil, nil
			if d := cmp.Diff(tc.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}
