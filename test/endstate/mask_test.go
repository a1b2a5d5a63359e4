package endstate

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
)

func TestComparableCluster(t *testing.T) {
	disk := func(node string, at int64) v1alpha1.PoolDevice {
		return v1alpha1.PoolDevice{Node: node, Path: "/dev/sdb", Serial: "S" + node, Since: metav1.Unix(at, 0)}
	}
	of := func(disks ...v1alpha1.PoolDevice) *v1alpha1.StorageCluster {
		c := &v1alpha1.StorageCluster{}
		c.Status.Pools = v1alpha1.PoolsStatus{ByPool: []v1alpha1.PoolStatus{{Name: "fast", RecentDevices: disks}}}
		return c
	}
	given := of(disk("n2", 20), disk("n1", 10))
	want := comparableCluster(of(disk("n1", 12), disk("n2", 11)))
	if diff := cmp.Diff(want, comparableCluster(given)); diff != "" {
		t.Errorf("the same disks, used in another order: -want +got\n%s", diff)
	}
	if given.Status.Pools.ByPool[0].RecentDevices[0].Node != "n2" {
		t.Error("the cluster itself was changed")
	}
	other := disk("n2", 11)
	other.Serial = "S4EV9"
	if cmp.Equal(want, comparableCluster(of(disk("n1", 12), other))) {
		t.Error("another disk makes no difference")
	}
}
