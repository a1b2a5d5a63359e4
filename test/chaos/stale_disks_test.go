package chaos

import (
	"errors"
	"fmt"

	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
	"github.com/linstor-dev/storagecluster-operator/test/sim"
)

// withHDD adds a pool that is made from the spinning disks. LINSTOR does not notice if there is a group of the name of
// a thin pool's.
func withHDD(ps []v1alpha1.StoragePoolSpec) []v1alpha1.StoragePoolSpec {
	return append(ps, v1alpha1.StoragePoolSpec{
		Name: "hdd", LVMThin: &v1alpha1.LVMThinPool{VolumeGroup: "vg_hdd", ThinPool: "thin"},
		Devices: &v1alpha1.DevicesSpec{Match: []v1alpha1.DeviceMatch{{Serial: "ZA*"}}},
	})
}

// dropHDD takes that pool away again with all that it left, and leaves the disks empty.
func (w *staleWorld) dropHDD() {
	w.T.Helper()
	w.dropPool("hdd", func(m *sim.Machine) { m.LVM().Remove("vg_hdd") })
	w.emptyHDDs()
}

func (w *staleWorld) emptyHDDs() {
	for i := range 4 {
		w.Sim.World().Machine(fmt.Sprintf("n%d", i+1)).SetSignature(fmt.Sprintf("ZA%d", i+1), "")
	}
}

// withBig adds a pool that is made from the same disks, which it matches by nothing but their size.
func withBig(ps []v1alpha1.StoragePoolSpec) []v1alpha1.StoragePoolSpec {
	return append(ps, v1alpha1.StoragePoolSpec{
		Name: "big", LVM: &v1alpha1.LVMPool{VolumeGroup: "vg_big"},
		Devices: &v1alpha1.DevicesSpec{Approval: v1alpha1.ApprovalAuto,
			Match: []v1alpha1.DeviceMatch{{MinSize: ptr.To(resource.MustParse("4Ti"))}}},
	})
}

// detachRaw deletes a volume that harness.AttachRaw has attached.
func (w *staleWorld) detachRaw() {
	w.T.Helper()
	for _, o := range []client.Object{&storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "csi-raw"}},
		harness.RawVolume()} {
		if err := w.Client().Delete(w.Ctx, o); err != nil {
			w.T.Fatal(err)
		}
		w.Eventually("the raw volume is gone", func() error {
			if err := w.Client().Get(w.Ctx, client.ObjectKeyFromObject(o), o); !apierrors.IsNotFound(err) {
				return errors.Join(fmt.Errorf("%s is there", o.GetName()), err)
			}
			return nil
		})
	}
}

// dropPool takes the last entry of the pools away, and what it left on machines and in LINSTOR's nodes.
func (w *staleWorld) dropPool(entry string, empty func(*sim.Machine)) {
	w.T.Helper()
	w.pools(func(ps []v1alpha1.StoragePoolSpec) []v1alpha1.StoragePoolSpec { return ps[:2] })
	w.Eventually("pool "+entry+" is gone", func() error {
		for _, n := range w.View().Nodes {
			if n.Pools[entry] != nil {
				return fmt.Errorf("%s has one", n.Name)
			}
		}
		return w.ready()
	})
	for _, n := range []string{"n1", "n2", "n3", "n4"} {
		empty(w.Sim.World().Machine(n))
		for _, note := range []string{"intent.", "backing.", "disks.", "removed."} {
			w.linstorForget(n, linstor.AuxPrefix+note+entry)
		}
	}
}

// expectSignature checks what is on a disk.
func (w *staleWorld) expectSignature(node, serial, want string) {
	w.T.Helper()
	if got := w.Signature(node, serial); got != want {
		w.T.Errorf("disk %s of %s holds %q, want %q", serial, node, got, want)
	}
}
