package sim_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	linstor "github.com/LINBIT/golinstor"
	"github.com/LINBIT/golinstor/client"
	"github.com/google/go-cmp/cmp"

	"github.com/linstor-dev/storagecluster-operator/test/sim"
)

func (b *bench) data(volume string, want ...string) {
	b.Helper()
	if diff := cmp.Diff(want, b.world.Volumes().Data(volume)); diff != "" {
		b.Errorf("nodes with the data of %s (-want +got):\n%s", volume, diff)
	}
}

// violations expects that many, each starting with its prefix.
func (b *bench) violations(prefixes ...string) {
	b.Helper()
	got := b.world.Violations()
	if len(got) != len(prefixes) {
		b.Errorf("violations %q, want %q", got, prefixes)
		return
	}
	for i, prefix := range prefixes {
		if !strings.HasPrefix(got[i], prefix) {
			b.Errorf("violation %q, want %q", got[i], prefix)
		}
	}
}

func TestListOnlineOfflineEvicted(t *testing.T) {
	b := newBench(t)
	satellites := b.online(3)
	satellites[1].Stop()
	satellites[2].Stop()
	b.pass(2 * time.Second)
	b.raw(http.MethodPut, "/v1/nodes/n3/evict", "")
	b.status("n1", "ONLINE")
	b.status("n2", "OFFLINE")
	b.status("n3", "OFFLINE", "DELETE", "EVICTED")

	nodes, err := b.client.Nodes.GetAll(t.Context())
	b.must(err)
	online, offline := nodes[0], nodes[1]
	if len(online.UnsupportedLayers) == 0 || online.ResourceLayers[0] != "DRBD" {
		t.Errorf("layers of the online node: %v", online.ResourceLayers)
	}
	if diff := cmp.Diff([]client.ProviderKind{"DISKLESS", "REMOTE_SPDK", "EBS_INIT", "EBS_TARGET"},
		offline.StorageProviders); diff != "" {
		t.Errorf("providers of the offline node (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"No information from satellite yet"}, offline.UnsupportedProviders["LVM"]); diff != "" {
		t.Errorf("reasons of the offline node (-want +got):\n%s", diff)
	}
	if online.EvictionTimestamp != nil || offline.EvictionTimestamp == nil {
		t.Errorf("eviction timestamps: online %v, offline %v", online.EvictionTimestamp, offline.EvictionTimestamp)
	}
	if online.Type != "SATELLITE" || online.NetInterfaces[0].SatelliteEncryptionType != "PLAIN" {
		t.Errorf("types are not upper case: %+v", online)
	}
}

func TestEvictedNodeCannotBeDeleted(t *testing.T) {
	b := newBench(t)
	b.online(1)[0].Stop()
	b.pass(2 * time.Second)
	b.must(b.client.Nodes.Evict(t.Context(), "n1"))
	status, body := b.raw(http.MethodDelete, "/v1/nodes/n1", "")
	got := b.entries(body)
	if status != 200 || got[0].RetCode != -9223372036800510983 ||
		got[0].Correction != "Use node lost command to delete an evicted node." {
		t.Errorf("delete of an evicted node: %d %+v", status, got)
	}
	b.satellite(1)
	b.pass(time.Minute)
	b.status("n1", "OFFLINE", "DELETE", "EVICTED") // nobody reconnects it
	b.must(b.client.Nodes.Restore(t.Context(), "n1", client.NodeRestore{}))
	b.pass(2 * time.Second)
	b.status("n1", "ONLINE")
}

func TestAutoEvict(t *testing.T) {
	lose := func(b *bench, satellites []*sim.Process, i int) {
		satellites[i-1].Stop()
		b.world.Machine(nodeName(i)).LoadModule("") // the machine is off: no DRBD link is left
	}
	tests := map[string]struct {
		nodes  int
		change func(b *bench, satellites []*sim.Process)
		want   bool
	}{
		"after 12 hours":     {3, func(b *bench, s []*sim.Process) { lose(b, s, 3) }, true},
		"not one of one":     {1, func(b *bench, s []*sim.Process) { lose(b, s, 1) }, false},
		"not two of three":   {3, func(b *bench, s []*sim.Process) { lose(b, s, 2); lose(b, s, 3) }, false},
		"not while linked":   {3, func(_ *bench, s []*sim.Process) { s[2].Stop() }, false},
		"not if not allowed": {3, func(b *bench, s []*sim.Process) { b.setProp("false"); lose(b, s, 3) }, false},
		"not if it came back": {3, func(b *bench, s []*sim.Process) { lose(b, s, 3); b.pass(time.Hour); b.satellite(3) },
			false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			satellites := b.online(tt.nodes)
			last := nodeName(tt.nodes)
			names := []string{"n1", "n2", "n3"}[:tt.nodes]
			b.must(b.world.Volumes().Create("pvc-1", 1<<20, "ssd", names...))
			tt.change(b, satellites)
			b.clock.Step(11*time.Hour + 59*time.Minute)
			if _, flags := b.world.NodeStatus(last); flags != nil {
				t.Errorf("evicted before its time: %v", flags)
			}
			b.pass(2 * time.Minute)
			if _, flags := b.world.NodeStatus(last); (flags != nil) != tt.want {
				t.Errorf("flags %v, want evicted: %t", flags, tt.want)
			}
		})
	}
}

func (b *bench) setProp(value string) {
	b.Helper()
	b.must(b.client.Controller.Modify(b.Context(), client.GenericPropsModify{
		OverrideProps: map[string]string{"DrbdOptions/AutoEvictAllowEviction": value}}))
}

func TestEvacuateMovesTheDataInTheBackground(t *testing.T) {
	b := newBench(t, func(o *sim.Options) { o.EvacuateDelay = 30 * time.Second })
	b.online(3)
	b.must(b.world.Volumes().Create("pvc-1", 1<<20, "ssd", "n1", "n2"))
	b.must(b.client.Nodes.Evacuate(t.Context(), "n1", client.NodeEvacuate{}))
	b.status("n1", "ONLINE", "EVACUATE")
	b.data("pvc-1", "n1", "n2")
	b.pass(20 * time.Second)
	b.data("pvc-1", "n1", "n2")
	b.pass(11 * time.Second)
	b.data("pvc-1", "n2", "n3")
	b.status("n1", "ONLINE", "EVACUATE") // until it is restored or deleted
	b.must(b.client.Nodes.Delete(t.Context(), "n1"))
	b.violations()
}

func TestEvacuateWaitsForAResourceInUse(t *testing.T) {
	b := newBench(t)
	b.online(3)
	b.must(b.world.Volumes().Create("pvc-1", 1<<20, "ssd", "n1", "n2"))
	b.world.Volumes().SetInUse("pvc-1", "n1", true)
	b.must(b.client.Nodes.Evacuate(t.Context(), "n1", client.NodeEvacuate{}))
	b.pass(time.Minute)
	b.data("pvc-1", "n1", "n2", "n3")
	b.world.Volumes().SetInUse("pvc-1", "n1", false)
	b.pass(time.Minute)
	b.data("pvc-1", "n2", "n3")
}

func TestEvacuateWithNowhereToGo(t *testing.T) {
	b := newBench(t)
	b.online(2)
	b.must(b.world.Volumes().Create("pvc-1", 1<<20, "ssd", "n1", "n2"))
	status, body := b.raw(http.MethodPut, "/v1/nodes/n1/evacuate", "")
	got := b.entries(body)
	if status != 200 || len(got) != 1 || uint64(got[0].RetCode)&0xC000000000007FFF != linstor.WarnNotEvacuating {
		t.Errorf("answer %d %+v, want the warning 1020", status, got)
	}
	b.pass(time.Minute)
	b.data("pvc-1", "n1", "n2")
	b.must(b.client.Nodes.Restore(t.Context(), "n1", client.NodeRestore{}))
	b.status("n1", "ONLINE")
	b.violations()
}

func TestEvacuateHonoursAutoplaceTarget(t *testing.T) {
	b := newBench(t)
	b.online(3)
	b.must(b.client.Nodes.Modify(t.Context(), "n3", client.NodeModify{GenericPropsModify: client.GenericPropsModify{
		OverrideProps: map[string]string{"AutoplaceTarget": "no"}}}))
	b.must(b.world.Volumes().Create("pvc-1", 1<<20, "ssd", "n1", "n2"))
	b.must(b.client.Nodes.Evacuate(t.Context(), "n1", client.NodeEvacuate{}))
	b.pass(time.Minute)
	b.data("pvc-1", "n1", "n2")
}

func TestDeleteGivesUpTheOnlyCopy(t *testing.T) {
	b := newBench(t)
	b.online(2)
	b.must(b.world.Volumes().Create("pvc-1", 1<<20, "ssd", "n1"))
	b.must(b.client.Nodes.Delete(t.Context(), "n1"))
	b.data("pvc-1")
	b.violations("last-replica-lost resource=pvc-1 node=n1")
}

func TestDeleteRefusesTheLastDiskOfClients(t *testing.T) {
	b := newBench(t)
	b.online(2)
	b.must(b.world.Volumes().Create("pvc-1", 1<<20, "ssd", "n1"))
	b.must(b.world.Volumes().AttachDiskless("pvc-1", "n2"))
	err := b.client.Nodes.Delete(t.Context(), "n1")
	if !client.IsApiCallError(err, linstor.FailInUse) || !client.IsApiCallError(err, linstor.FailNodeHasUsedRsc) {
		t.Errorf("delete: %v", err)
	}
	b.data("pvc-1", "n1")
}

func TestLostKeepsTheMachinesData(t *testing.T) {
	b := newBench(t)
	s := b.online(2)
	b.must(b.world.Volumes().Create("pvc-1", 1<<20, "ssd", "n1", "n2"))
	s[0].Stop()
	b.pass(2 * time.Second)
	b.must(b.client.Nodes.Lost(t.Context(), "n1"))
	b.status("n1", "")
	b.data("pvc-1", "n1", "n2")
	b.violations()
	s[1].Stop()
	b.pass(2 * time.Second)
	b.must(b.client.Nodes.Lost(t.Context(), "n2"))
	b.violations("last-replica-lost resource=pvc-1 node=n2")
}

func TestRestoreDeletesAllButTheLastCopy(t *testing.T) {
	b := newBench(t)
	b.online(2)
	b.must(b.world.Volumes().Create("one", 1<<20, "ssd", "n1"))
	b.must(b.world.Volumes().Create("two", 1<<20, "ssd", "n1", "n2"))
	b.must(b.client.Nodes.Modify(t.Context(), "n2", client.NodeModify{GenericPropsModify: client.GenericPropsModify{
		OverrideProps: map[string]string{"AutoplaceTarget": "false"}}}))
	b.must(b.client.Nodes.Evacuate(t.Context(), "n1", client.NodeEvacuate{}))
	yes := true
	b.must(b.client.Nodes.Restore(t.Context(), "n1", client.NodeRestore{DeleteResources: &yes}))
	b.data("one", "n1")
	b.data("two", "n2")
	b.violations()
}

func TestResourceStateIsAbsentForOfflineNodes(t *testing.T) {
	b := newBench(t)
	s := b.online(2)
	b.must(b.world.Volumes().Create("pvc-1", 1<<20, "ssd", "n1", "n2"))
	b.world.Volumes().SetInUse("pvc-1", "n1", true)
	s[1].Stop()
	b.pass(2 * time.Second)
	view, err := b.client.Resources.GetResourceView(t.Context())
	b.must(err)
	if view[0].State == nil || !*view[0].State.InUse || view[0].Volumes[0].State.DiskState != "UpToDate" {
		t.Errorf("online copy: %+v", view[0])
	}
	if view[1].State != nil || view[1].Volumes[0].State.DiskState != "" {
		t.Errorf("offline copy: %+v", view[1])
	}
	b.world.Volumes().SetDiskState("pvc-1", "n1", "Failed")
	view, err = b.client.Resources.GetResourceView(t.Context(), &client.ListOpts{Node: []string{"N1"}})
	b.must(err)
	if len(view) != 1 || view[0].Volumes[0].State.DiskState != "Failed" {
		t.Errorf("filtered view: %+v", view)
	}
}

func TestModuleDecidesAboutTheLayer(t *testing.T) {
	b := newBench(t)
	b.controller(sim.ControllerConfig{})
	m := b.machine(1)
	m.LoadModule("8.4.11")
	b.satellite(1)
	b.must(b.client.Nodes.Create(t.Context(), node(1)))
	n, err := b.client.Nodes.Get(t.Context(), "n1")
	b.must(err)
	if len(n.UnsupportedLayers["DRBD"]) != 1 || !strings.Contains(n.UnsupportedLayers["DRBD"][0], "8.4.11") {
		t.Errorf("unsupported layers: %v", n.UnsupportedLayers)
	}
	m.LoadModule("9.3.3")
	b.must(b.client.Nodes.Reconnect(t.Context(), "n1"))
	n, err = b.client.Nodes.Get(t.Context(), "n1")
	b.must(err)
	if len(n.UnsupportedLayers["DRBD"]) != 0 {
		t.Errorf("unsupported layers after loading DRBD 9: %v", n.UnsupportedLayers)
	}
}

func TestEvictionTimerStartsWhenDRBDLosesTheNode(t *testing.T) {
	b := newBench(t)
	satellites := b.online(3)
	b.must(b.world.Volumes().Create("pvc-1", 1<<20, "ssd", "n1", "n3"))
	satellites[2].Stop()
	b.clock.Step(11 * time.Hour)
	b.pass(time.Second)
	b.world.Machine("n3").LoadModule("")
	b.clock.Step(11 * time.Hour)
	b.pass(time.Second)
	b.status("n3", "OFFLINE")
	b.clock.Step(time.Hour + time.Minute)
	b.pass(time.Second)
	b.status("n3", "OFFLINE", "DELETE", "EVICTED")
	b.data("pvc-1", "n1", "n2", "n3")
}

func TestReplacedMachineStopsItsSatellites(t *testing.T) {
	b := newBench(t)
	old := b.online(1)[0]
	b.machine(1)
	<-old.Done()
	b.satellite(1)
	b.world.RemoveMachine("n1")
	b.pass(2 * time.Second)
	b.status("n1", "OFFLINE")
	if b.world.Machine("n1") != nil {
		t.Error("the machine is still there")
	}
}
