package sim_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/LINBIT/golinstor/client"

	"github.com/linstor-dev/storagecluster-operator/test/sim"
)

// snapshotsOn is the answer to a list of the snapshots on a node.
func (b *bench) snapshotsOn(node string) string {
	b.Helper()
	_, body := b.raw(http.MethodGet, "/v1/view/snapshots?nodes="+node, "")
	return string(body)
}

func TestSnapshotsAreEvacuated(t *testing.T) {
	b := newBench(t, func(o *sim.Options) { o.EvacuateDelay = 10 * time.Second })
	b.online(3)
	b.must(b.world.Volumes().Create("pvc-1", 1<<20, "ssd", "n1", "n2"))
	b.must(b.world.Volumes().CreateSnapshot("pvc-1", "before"))
	b.must(b.client.Nodes.Evacuate(t.Context(), "n1", client.NodeEvacuate{}))
	if got := b.snapshotsOn("n1"); !strings.Contains(got, `"name":"before","resource_name":"pvc-1","nodes":["n1","n2"]`) {
		t.Errorf("on n1: %s", got)
	}
	b.pass(11 * time.Second)
	if got := b.snapshotsOn("n1"); got != "[]" {
		t.Errorf("on n1: %s", got)
	}
	if got := b.snapshotsOn("n3"); !strings.Contains(got, `["n2","n3"]`) {
		t.Errorf("on n3: %s", got)
	}
	b.must(b.client.Nodes.Delete(t.Context(), "n1"))
	b.world.Volumes().DeleteSnapshot("pvc-1", "before")
	if got := b.snapshotsOn("n2"); got != "[]" {
		t.Errorf("on n2: %s", got)
	}
}

func TestSnapshotsStayIfToldSo(t *testing.T) {
	b := newBench(t)
	b.online(3)
	b.must(b.client.Nodes.Modify(t.Context(), "n1", client.NodeModify{GenericPropsModify: client.GenericPropsModify{
		OverrideProps: map[string]string{"CopyAllSnapsOnEvacuate": "false"}}}))
	b.must(b.world.Volumes().Create("pvc-1", 1<<20, "ssd", "n1"))
	b.must(b.world.Volumes().CreateSnapshot("pvc-1", "before"))
	b.must(b.client.Nodes.Evacuate(t.Context(), "n1", client.NodeEvacuate{}))
	b.pass(time.Minute)
	b.data("pvc-1", "n2")
	if got := b.snapshotsOn("n1"); !strings.Contains(got, `"before"`) {
		t.Errorf("on n1: %s", got)
	}
	b.must(b.client.Nodes.Delete(t.Context(), "n1")) // it takes the snapshots with it
	if _, body := b.raw(http.MethodGet, "/v1/view/snapshots", ""); string(body) != "[]" {
		t.Errorf("left: %s", body)
	}
	b.violations()
}

// Of a node that is not ONLINE LINSTOR knows no copy to be good. It does not move them, it deletes them.
func TestEvacuationOfAnOfflineNodeDeletes(t *testing.T) {
	b := newBench(t)
	s := b.online(3)
	b.must(b.world.Volumes().Create("pvc-1", 1<<20, "ssd", "n1", "n2"))
	b.must(b.world.Volumes().Create("pvc-2", 1<<20, "ssd", "n1"))
	s[0].Stop()
	b.pass(2 * time.Second)
	b.must(b.client.Nodes.Evacuate(t.Context(), "n1", client.NodeEvacuate{}))
	b.violations("last-replica-lost resource=pvc-2 node=n1")
	b.pass(time.Minute)
	b.data("pvc-1", "n1", "n2") // until its satellite is back
	b.data("pvc-2", "n1")
	b.satellite(1)
	b.pass(10 * time.Second)
	b.status("n1", "ONLINE", "EVACUATE")
	b.data("pvc-1", "n2")
	b.data("pvc-2")
}
