package sim_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/linstor-dev/storagecluster-operator/test/sim"
)

// TestLastReplica: every way to give up a copy of pvc-1, which is on n1 and n2, is reported when n2's copy does not
// count.
func TestLastReplica(t *testing.T) {
	deeds := map[string]func(b *bench, satellite *sim.Process){
		"delete node": func(b *bench, _ *sim.Process) { b.raw(http.MethodDelete, "/v1/nodes/n1", "") },
		"delete node that is away": func(b *bench, satellite *sim.Process) {
			satellite.Stop()
			b.pass(2 * time.Second)
			b.raw(http.MethodDelete, "/v1/nodes/n1", "")
		},
		"lost": func(b *bench, satellite *sim.Process) {
			satellite.Stop()
			b.pass(2 * time.Second)
			b.raw(http.MethodDelete, "/v1/nodes/n1/lost", "")
		},
		"delete resource": func(b *bench, _ *sim.Process) {
			b.raw(http.MethodDelete, "/v1/resource-definitions/pvc-1/resources/n1", "")
		},
		"restore with delete_resources": func(b *bench, satellite *sim.Process) {
			satellite.Stop()
			b.pass(2 * time.Second)
			b.raw(http.MethodPut, "/v1/nodes/n1/evict", "")
			b.raw(http.MethodPut, "/v1/nodes/n1/restore", `{"delete_resources": true}`)
		},
	}
	peers := map[string]struct {
		spoil    func(b *bench)
		harmless bool
	}{
		"is UpToDate":       {spoil: func(*bench) {}, harmless: true},
		"is Outdated":       {spoil: func(b *bench) { b.world.Volumes().SetDiskState("pvc-1", "n2", "Outdated") }},
		"is on a dead host": {spoil: func(b *bench) { b.world.Machine("n2").LoadModule("") }},
		"is cut off":        {spoil: func(b *bench) { b.world.Machine("n2").SetNetworkCut(true) }},
		"is being deleted":  {spoil: func(b *bench) { b.raw(http.MethodDelete, "/v1/nodes/n2", "") }},
		"is on a lost disk": {spoil: func(b *bench) { b.world.RemoveMachine("n2") }},
		// n1 has nothing left to lose
		"is all there is": {spoil: func(b *bench) { b.world.RemoveMachine("n1") }, harmless: true},
	}
	for peer, p := range peers {
		for deed, do := range deeds {
			t.Run(deed+", the peer "+peer, func(t *testing.T) {
				b := newBench(t)
				satellites := b.online(2)
				b.must(b.world.Volumes().Create("pvc-1", 1<<20, "ssd", "n1", "n2"))
				if peer == "is being deleted" {
					satellites[1].Stop()
					b.pass(2 * time.Second)
				}
				p.spoil(b)
				b.pass(2 * time.Second)
				do(b, satellites[0])
				// A restore keeps the last copy that is not being deleted.
				refused := deed == "restore with delete_resources" && peer == "is being deleted"
				if p.harmless || refused {
					b.violations()
				} else {
					b.violations("last-replica-lost resource=pvc-1 node=n1")
				}
			})
		}
	}
}
