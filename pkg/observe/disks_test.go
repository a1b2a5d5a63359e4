package observe

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
)

// withDisks is a source whose node n1 has empty disks and may have the pool.
type withDisks struct {
	*source
	disks []linstor.Device
	pool  bool
	looks int
}

func (s *withDisks) View(_ context.Context, want linstor.ViewOptions) (*linstor.View, error) {
	n := &linstor.Node{Name: "n1", Status: linstor.StatusOnline, Pools: map[string]*linstor.Pool{}}
	if want.Devices {
		s.looks++
		n.Devices, n.DevicesKnown = s.disks, true
	}
	if s.pool {
		n.Pools["hot"] = &linstor.Pool{Name: "hot"}
	}
	return &linstor.View{Nodes: map[string]*linstor.Node{"n1": n}}, nil
}

// A cluster at rest, a node of which may be without a pool, looks for disks now and then, and keeps what it found in between.
func TestDisksThatComeLaterAreFound(t *testing.T) {
	spec := v1alpha1.StorageClusterSpec{StoragePools: []v1alpha1.StoragePoolSpec{{Name: "hot", LVM: &v1alpha1.LVMPool{VolumeGroup: "vg"},
		Devices: &v1alpha1.DevicesSpec{Optional: true, Match: []v1alpha1.DeviceMatch{{Serial: "S*"}}}}}}
	n1 := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	b := newBench(t, spec, interceptor.Funcs{}, controllerPod(), n1)
	src := &withDisks{source: b.src}
	b.Linstor = src
	after := func(d time.Duration, what string, looks int, pools bool) {
		t.Helper()
		b.clock.SetTime(b.clock.Now().Add(d))
		s := b.observe()
		if m := s.MemberByName("n1"); src.looks != looks || !m.Linstor.DevicesKnown || (len(m.Linstor.Devices) > 0) != pools {
			t.Errorf("%s: %d looks, disks known %t: %v", what, src.looks, m.Linstor.DevicesKnown, m.Linstor.Devices)
		}
	}
	after(0, "at first", 1, false)
	for range 3 {
		after(15*time.Second, "in between", 1, false)
	}
	src.disks = []linstor.Device{{Path: "/dev/sdb", Serial: "S1", SizeBytes: 2 << 30}}
	after(30*time.Second, "a disk came", 2, true)
	after(15*time.Second, "it is kept in mind", 2, true)
	src.pool = true
	after(15*time.Second, "the pool is there", 2, true)
	after(time.Hour, "nothing is lacking", 2, true)
	src.pool = false
	after(time.Hour, "the pool is gone", 2, true)
	after(time.Hour, "which matters again", 3, true)
}
