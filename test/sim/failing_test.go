package sim_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linstor-dev/storagecluster-operator/test/sim"
)

// OTHER_CONTROLLER, MISSING_EXT_TOOLS and their kind stay until somebody asks for a reconnect.
func TestStatesThatOnlyAReconnectEnds(t *testing.T) {
	for status, hurt := range map[string]func(b *bench, m *sim.Machine) (heal func()){
		"OTHER_CONTROLLER": func(_ *bench, m *sim.Machine) func() { m.TakeSatellites(); return func() {} },
		"MISSING_EXT_TOOLS": func(b *bench, m *sim.Machine) func() {
			m.SetMissingTools(true)
			b.must(b.client.Nodes.Reconnect(b.Context(), "n1"))
			return func() { m.SetMissingTools(false) }
		},
		"FULL_SYNC_FAILED": func(b *bench, m *sim.Machine) func() {
			m.SetFullSyncError(true)
			b.must(b.client.Nodes.Reconnect(b.Context(), "n1"))
			return func() { m.SetFullSyncError(false) }
		},
	} {
		t.Run(status, func(t *testing.T) {
			b := newBench(t)
			b.online(1)
			heal := hurt(b, b.world.Machine("n1"))
			b.status("n1", status)
			heal()
			b.pass(time.Minute)
			b.status("n1", status)
			b.must(b.client.Nodes.Reconnect(b.Context(), "n1"))
			b.status("n1", "ONLINE")
		})
	}
}

// Another machine in the place of a node's: its satellite makes the volumes anew, which are empty until DRBD has
// filled them.
func TestReplacedMachine(t *testing.T) {
	for _, tc := range []struct {
		name  string
		pool  bool
		state string
		data  []string
	}{
		{"with the volume group", true, "Inconsistent", []string{"n1"}},
		{"with nothing", false, "", []string{"n1"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t, func(o *sim.Options) { o.EvacuateDelay = time.Hour })
			b.online(2)
			b.must(b.world.Volumes().Create("pvc-1", 1<<20, "ssd", "n1", "n2"))
			b.data("pvc-1", "n1", "n2")
			m := b.machine(2)
			if !tc.pool {
				for _, g := range m.LVM().Groups() {
					m.LVM().Remove(g.Name)
				}
			}
			b.satellite(2)
			b.pass(15 * time.Second)
			b.status("n2", "ONLINE")
			view, err := b.client.Resources.GetResourceView(t.Context())
			b.must(err)
			state := "absent"
			for _, r := range view {
				if r.NodeName == "n2" {
					state = r.Volumes[0].State.DiskState
				}
			}
			if diff := cmp.Diff(tc.state, state); diff != "" {
				t.Errorf("state of the copy (-want +got):\n%s", diff)
			}
			b.data("pvc-1", tc.data...)
			if tc.pool {
				b.pass(time.Hour)
				b.data("pvc-1", "n1", "n2")
			}
			b.violations()
		})
	}
}

// What is connected cannot be lost. Without an interface it is not connected, and nobody connects it again.
func TestLostAfterTheInterfaceIsGone(t *testing.T) {
	b := newBench(t)
	b.online(2)
	if status, _ := b.raw(http.MethodDelete, "/v1/nodes/n2/lost", ""); status != http.StatusInternalServerError {
		t.Errorf("lost on a connected node: %d", status)
	}
	b.must(b.client.Nodes.DeleteNetinterface(t.Context(), "n2", "default"))
	b.status("n2", "NO_STLT_CONN")
	b.pass(time.Minute)
	b.status("n2", "NO_STLT_CONN")
	b.must(b.client.Nodes.Lost(t.Context(), "n2"))
	b.status("n2", "")
	b.violations()
}
