package e2e

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
)

// theirDriver is a CSI driver that is not LINSTOR's.
const theirDriver = "ebs.csi.aws.com"

// rawVolume is a PersistentVolume of another driver that pods use as a disk.
func rawVolume(name string) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:         corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("500Gi")},
			AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			VolumeMode:       ptr.To(corev1.PersistentVolumeBlock),
			StorageClassName: "theirs",
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: theirDriver, VolumeHandle: "vol-1"}},
		},
	}
}

// TestRawVolumesOfOtherDrivers: a disk that another driver has attached to n2 as a raw volume looks empty, and fits
// the spec by its size. Nothing is made on that node before a human has looked, or it has gone.
func TestRawVolumesOfOtherDrivers(t *testing.T) {
	e := start(t, harness.Nodes(3))
	pv := rawVolume("pvc-raw")
	attachment := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "csi-raw"},
		Spec: storagev1.VolumeAttachmentSpec{Attacher: theirDriver, NodeName: "n2",
			Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &pv.Name}}}
	if err := errors.Join(e.Client().Create(e.Ctx, pv), e.Client().Create(e.Ctx, attachment)); err != nil {
		t.Fatal(err)
	}
	e.Run()
	e.Apply(harness.Manifest(`
  storagePools:
  - name: ssd
    lvmThin: {volumeGroup: vg_new, thinPool: thin}
    devices: {approval: Auto, match: [{minSize: 400Gi, maxSize: 600Gi}]}
`))
	h := e.waitListed(v1alpha1.HoldDeviceApproval, "n2:S4EV2")
	if want := "PersistentVolume pvc-raw (a raw disk that ebs.csi.aws.com attaches)"; !strings.Contains(h.Message, want) {
		t.Errorf("message %q, want %q in it", h.Message, want)
	}
	e.Eventually("n1 and n3 have their pools", func() error {
		if e.Signature("n1", "S4EV1") != "LVM2_member" || e.Signature("n3", "S4EV3") != "LVM2_member" {
			return errors.New("not yet")
		}
		return nil
	})
	e.untouched("n2")
	if err := e.Client().Delete(e.Ctx, attachment); err != nil { // the pod has gone, and its volume is detached
		t.Fatal(err)
	}
	e.ready("3/3", "3/3")
	if holds := e.Get().Status.NodeHolds; len(holds) > 0 {
		t.Errorf("holds %+v", holds)
	}
	e.expectGroup("n2", "vg_new", "S4EV2")
	e.expectCarefulDevices()
}
