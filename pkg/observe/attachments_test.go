package observe

import (
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
)

// attachmentReads lets reads of VolumeAttachments fail, and counts them.
type attachmentReads struct {
	err   error
	count int
}

func (a *attachmentReads) funcs() interceptor.Funcs {
	return interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, into client.ObjectList,
		opts ...client.ListOption) error {
		if _, ok := into.(*storagev1.VolumeAttachmentList); ok {
			a.count++
			if a.err != nil {
				return a.err
			}
		}
		return c.List(ctx, into, opts...)
	}}
}

// TestAttachments: what is attached for other drivers is read with the disks, where any is empty, and not in between.
// If it cannot be read, no disk is known.
func TestAttachments(t *testing.T) {
	spec := v1alpha1.StorageClusterSpec{StoragePools: []v1alpha1.StoragePoolSpec{{Name: "hot",
		LVM: &v1alpha1.LVMPool{VolumeGroup: "vg"}, Devices: &v1alpha1.DevicesSpec{Optional: true}}}}
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pvc-1"}}
	pv.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: "other"}
	pv.Spec.VolumeMode = ptr.To(corev1.PersistentVolumeBlock)
	attachment := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "csi-1"},
		Spec: storagev1.VolumeAttachmentSpec{Attacher: "other", NodeName: "n1",
			Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: ptr.To("pvc-1")}}}
	for _, tc := range []struct {
		name  string
		disks []linstor.Device
		err   error
		reads int
		known bool
		want  string
	}{
		{name: "no disk is empty"},
		{name: "attached", disks: []linstor.Device{{Path: "/dev/sdb"}}, reads: 1, known: true, want: "pvc-1"},
		{name: "not readable", disks: []linstor.Device{{Path: "/dev/sdb"}}, err: errors.New("forbidden"), reads: 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			reads := &attachmentReads{err: tc.err}
			b := newBench(t, spec, reads.funcs(), controllerPod(), pv, attachment,
				&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}})
			b.Linstor = &withDisks{source: b.src, disks: tc.disks}
			for range 2 {
				s := b.observe()
				var names []string
				for _, v := range s.Kube.DiskVolumes["n1"] {
					names = append(names, v.Name)
				}
				if got := strings.Join(names, ","); got != tc.want {
					t.Errorf("volumes %q, want %q", got, tc.want)
				}
				v := s.Linstor.View
				if known := v.Node("n1").DevicesKnown; known != tc.known || (v.DevicesErr != nil) != (tc.err != nil) {
					t.Errorf("devices known %t, %v", known, v.DevicesErr)
				}
			}
			if reads.count != tc.reads {
				t.Errorf("read %d times, want %d", reads.count, tc.reads)
			}
		})
	}
}
