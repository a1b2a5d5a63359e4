package sim_test

import (
	"strings"
	"testing"

	linstor "github.com/LINBIT/golinstor"
	"github.com/LINBIT/golinstor/client"
)

// A snapshot keeps its pool after the copy that it was taken of is gone.
func TestASnapshotKeepsItsPool(t *testing.T) {
	b := newBench(t)
	b.online(2)
	b.must(b.world.Volumes().Create("pvc-1", 1<<20, "ssd", "n1", "n2"))
	b.must(b.world.Volumes().CreateSnapshot("pvc-1", "daily"))
	b.must(b.client.Resources.Delete(t.Context(), "pvc-1", "n1"))
	err := b.client.Nodes.DeleteStoragePool(t.Context(), "n1", "ssd")
	if !client.IsApiCallError(err, linstor.FailInUse) || !strings.Contains(err.Error(), "daily") {
		t.Errorf("delete: %v", err)
	}
	got, err := b.client.Resources.GetSnapshotView(t.Context(), &client.ListOpts{Node: []string{"n1"}})
	b.must(err)
	if len(got) != 1 || got[0].Name != "daily" || got[0].ResourceName != "pvc-1" {
		t.Errorf("snapshots %+v", got)
	}
	b.world.Volumes().DeleteSnapshot("pvc-1", "daily")
	b.must(b.client.Nodes.DeleteStoragePool(t.Context(), "n1", "ssd"))
	if got, err = b.client.Resources.GetSnapshotView(t.Context(), &client.ListOpts{Node: []string{"n1"}}); err != nil ||
		len(got) > 0 {
		t.Errorf("snapshots %+v, %v", got, err)
	}
}
