package sim_test

import (
	"encoding/json"
	"net"
	"net/http"
	"testing"
	"time"

	linstor "github.com/LINBIT/golinstor"
	"github.com/LINBIT/golinstor/client"

	"github.com/linstor-dev/storagecluster-operator/test/sim"
)

func TestConnectionGoesThroughConnected(t *testing.T) {
	b := newBench(t, func(o *sim.Options) { o.FullSyncDelay = 3 * time.Second })
	b.controller(sim.ControllerConfig{})
	b.machine(1)
	b.async(func() { b.must(b.client.Nodes.Create(b.Context(), node(1))) })
	b.status("n1", "OFFLINE")
	b.satellite(1)
	b.pass(10 * time.Second)
	b.status("n1", "CONNECTED")
	b.pass(3 * time.Second)
	b.status("n1", "ONLINE")
}

func TestSatelliteRestartWaitsForTheReconnectLoop(t *testing.T) {
	b := newBench(t)
	s := b.online(1)[0]
	s.Stop()
	select {
	case <-s.Done():
	default:
		t.Error("Done is open after Stop")
	}
	b.status("n1", "ONLINE") // not noticed yet
	b.satellite(1)
	b.pass(time.Second)
	b.status("n1", "OFFLINE")
	b.pass(9 * time.Second)
	b.status("n1", "ONLINE")
}

func TestReconnectDoesNotWaitForTheLoop(t *testing.T) {
	b := newBench(t)
	b.online(1)[0].Stop()
	b.pass(2 * time.Second)
	b.satellite(1)
	b.must(b.client.Nodes.Reconnect(t.Context(), "n1"))
	b.status("n1", "ONLINE")
}

func TestNetworkCut(t *testing.T) {
	b := newBench(t)
	b.online(1)
	m := b.world.Machine("n1")
	m.SetNetworkCut(true)
	b.pass(time.Second)
	b.status("n1", "OFFLINE")
	b.pass(20 * time.Second)
	b.status("n1", "OFFLINE")
	m.SetNetworkCut(false)
	b.pass(10 * time.Second)
	b.status("n1", "ONLINE")
}

func TestVersionMismatchFlaps(t *testing.T) {
	b := newBench(t)
	b.controller(sim.ControllerConfig{Version: "1.34.1"})
	b.machine(1)
	b.satellite(1) // 1.34.0
	status, body := b.raw(http.MethodPost, "/v1/nodes", createN1)
	if got := b.entries(body); status != 201 || len(got) != 1 {
		t.Errorf("a mismatch shows in the answer: %d %s", status, body)
	}
	b.status("n1", "VERSION_MISMATCH")
	seen := map[string]bool{}
	for range 25 {
		b.pass(time.Second)
		status, _ := b.world.NodeStatus("n1")
		seen[status] = true
	}
	if !seen["OFFLINE"] || !seen["VERSION_MISMATCH"] || len(seen) != 2 {
		t.Errorf("seen %v, want OFFLINE and VERSION_MISMATCH", seen)
	}
}

func TestVersionSuffixIsIgnored(t *testing.T) {
	b := newBench(t)
	b.controller(sim.ControllerConfig{Version: "1.34.0-rc.1"})
	b.machine(1)
	b.satellite(1)
	b.must(b.client.Nodes.Create(t.Context(), node(1)))
	b.status("n1", "ONLINE")
}

func TestOldProtocol(t *testing.T) {
	for controller, want := range map[string]string{"1.33.3": "OFFLINE", "1.34.2": "AUTHENTICATION_ERROR"} {
		t.Run(controller, func(t *testing.T) {
			b := newBench(t)
			b.controller(sim.ControllerConfig{Version: controller})
			b.machine(1)
			if _, err := b.world.StartSatellite("n1", sim.SatelliteConfig{Version: "1.31.3"}); err != nil {
				t.Fatal(err)
			}
			b.must(b.client.Nodes.Create(t.Context(), node(1)))
			b.status("n1", want)
		})
	}
}

func TestStickyFailures(t *testing.T) {
	tests := map[string]struct {
		set  func(*sim.Machine, bool)
		want string
	}{
		"authentication": {(*sim.Machine).SetAuthenticationError, "AUTHENTICATION_ERROR"},
		"full sync":      {(*sim.Machine).SetFullSyncError, "FULL_SYNC_FAILED"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.controller(sim.ControllerConfig{})
			m := b.machine(1)
			b.satellite(1)
			tt.set(m, true)
			b.must(b.client.Nodes.Create(t.Context(), node(1)))
			b.status("n1", tt.want)
			tt.set(m, false)
			b.pass(time.Minute)
			b.status("n1", tt.want)
			b.must(b.client.Nodes.Reconnect(t.Context(), "n1"))
			b.status("n1", "ONLINE")
		})
	}
}

func TestOtherControllerTakesTheSatellite(t *testing.T) {
	b := newBench(t)
	b.online(1)
	other, err := b.world.StartController(sim.ControllerConfig{Version: testVersion,
		TOML: `db.connection_url = "jdbc:postgresql://other/linstor"`})
	if err != nil {
		t.Fatal(err)
	}
	b.must(b.client.Nodes.Create(t.Context(), node(1))) // answered by the newest controller
	b.status("n1", "ONLINE")
	other.Stop()
	b.status("n1", "OTHER_CONTROLLER")
	b.pass(time.Minute)
	b.status("n1", "OTHER_CONTROLLER")
	b.must(b.client.Nodes.Reconnect(t.Context(), "n1"))
	b.status("n1", "ONLINE")
	if v := b.world.Violations(); len(v) != 0 {
		t.Errorf("two databases are no violation: %v", v)
	}
}

func TestControllerRestart(t *testing.T) {
	b := newBench(t)
	b.controller(sim.ControllerConfig{MasterPassphrase: "secret"}).Stop()
	b.online(2)
	b.raw(http.MethodPatch, "/v1/encryption/passphrase", `"secret"`)
	b.passphrase("unlocked")
	b.world.Machine("n2").SetNetworkCut(true)
	b.pass(2 * time.Second)

	if _, _, err := b.send(http.MethodGet, "/v1/nodes", ""); err != nil {
		t.Fatal(err)
	}
	b.restartController()
	b.passphrase("locked")
	b.pass(2 * time.Second)
	b.status("n1", "ONLINE")
	b.status("n2", "OFFLINE")
}

// TestFirstContact: when a started controller answers it is connected to no satellite, and knows of no pool how full
// it is and of no volume whether it is in use. It connects to all, and they are ONLINE one after the other.
func TestFirstContact(t *testing.T) {
	b := newBench(t)
	b.online(3)
	b.must(b.world.Volumes().Create("pvc-1", 1<<20, "ssd", "n1", "n2"))
	b.restartController()
	steps := []struct {
		statuses  [3]string
		pool      string // of n1, in an uncached list
		stateOfN1 bool
	}{
		{[3]string{"OFFLINE", "OFFLINE", "OFFLINE"}, "not connected", false},
		{[3]string{"CONNECTED", "CONNECTED", "CONNECTED"}, "", false},
		{[3]string{"ONLINE", "CONNECTED", "CONNECTED"}, "measured", true},
		{[3]string{"ONLINE", "ONLINE", "ONLINE"}, "measured", true},
	}
	for i, at := range []time.Duration{0, time.Second, 500 * time.Millisecond, 500 * time.Millisecond} {
		b.pass(at)
		step := steps[i]
		for n, want := range step.statuses {
			b.status(nodeName(n+1), want)
		}
		if got := poolOfN1(b); got != step.pool {
			b.Errorf("step %d: the pool is %q, want %q", i, got, step.pool)
		}
		view, err := b.client.Resources.GetResourceView(t.Context())
		b.must(err)
		if got := view[0].State != nil; got != step.stateOfN1 {
			b.Errorf("step %d: the state of %s on %s is known: %v", i, view[0].Name, view[0].NodeName, got)
		}
	}
}

// poolOfN1 is what LINSTOR says about how full it is.
func poolOfN1(b *bench) (got string) {
	b.Helper()
	_, body := b.raw(http.MethodGet, "/v1/nodes/n1/storage-pools/ssd", "")
	var pool struct {
		Total   *int64  `json:"total_capacity"`
		Free    *int64  `json:"free_capacity"`
		Reports []entry `json:"reports"`
	}
	b.must(json.Unmarshal(body, &pool))
	for _, r := range pool.Reports {
		if r.Message == "No active connection to satellite 'n1'" {
			got += "not connected"
		}
	}
	if pool.Total != nil && pool.Free != nil {
		got += "measured"
	}
	return got
}

// TestInUseIsUnknownWithoutConnection: LINSTOR refuses to delete what is in use only where a satellite has reported
// the use.
func TestInUseIsUnknownWithoutConnection(t *testing.T) {
	for name, wait := range map[string]time.Duration{"at once": 0, "when it is connected": 2 * time.Second} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.online(2)
			b.must(b.world.Volumes().Create("pvc-1", 1<<20, "ssd", "n1", "n2"))
			b.world.Volumes().SetInUse("pvc-1", "n1", true)
			b.restartController()
			b.pass(wait)
			err := b.client.Resources.Delete(t.Context(), "pvc-1", "n1")
			if refused := client.IsApiCallError(err, linstor.FailInUse); refused != (wait > 0) {
				t.Errorf("delete: %v", err)
			}
		})
	}
}

func (b *bench) passphrase(want string) {
	b.Helper()
	if _, body := b.raw(http.MethodGet, "/v1/encryption/passphrase", ""); string(body) != `{"status":"`+want+`"}` {
		b.Errorf("passphrase is %s, want %s", body, want)
	}
}

func (b *bench) restartController() {
	b.Helper()
	b.stop()
	b.controller(sim.ControllerConfig{})
}

func TestNetInterfaceReconnectRule(t *testing.T) {
	tests := map[string]struct {
		body string
		want string // status after the satellite has moved to 10.0.0.9 and the interface was changed
	}{
		"same port and type, no reconnect": {`{"address":"10.0.0.9","satellite_port":3366,` +
			`"satellite_encryption_type":"Plain"}`, "OFFLINE"},
		"same, but active": {`{"address":"10.0.0.9","satellite_port":3366,` +
			`"satellite_encryption_type":"Plain","is_active":true}`, "ONLINE"},
		"address alone": {`{"address":"10.0.0.9"}`, "ONLINE"},
		"other port, nobody listens": {`{"address":"10.0.0.9","satellite_port":3368,` +
			`"satellite_encryption_type":"Plain"}`, "OFFLINE"},
		"explicitly active without address": {`{"is_active":true}`, "OFFLINE"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.online(1)[0].Stop()
			b.pass(time.Second)
			if _, err := b.world.StartSatellite("n1",
				sim.SatelliteConfig{Version: testVersion, Address: "10.0.0.9"}); err != nil {
				t.Fatal(err)
			}
			if status, body := b.raw(http.MethodPut, "/v1/nodes/n1/net-interfaces/default", tt.body); status != 200 {
				t.Fatalf("status %d: %s", status, body)
			}
			b.status("n1", "OFFLINE") // in any case: LINSTOR answers before it has connected
			b.pass(2 * time.Second)
			b.status("n1", tt.want)
		})
	}
}

func TestActiveInterfaceRotates(t *testing.T) {
	b := newBench(t)
	s := b.online(1)[0]
	b.must(b.client.Nodes.CreateNetInterface(t.Context(), "n1", client.NetInterface{
		Name: "data", Address: net.ParseIP("10.1.0.1"), SatellitePort: 3366, SatelliteEncryptionType: "Plain"}))
	s.Stop()
	if _, err := b.world.StartSatellite("n1",
		sim.SatelliteConfig{Version: testVersion, Address: "10.1.0.1"}); err != nil {
		t.Fatal(err)
	}
	b.pass(30 * time.Second)
	b.status("n1", "ONLINE")
	n, err := b.client.Nodes.Get(t.Context(), "n1")
	b.must(err)
	if n.Props["CurStltConnName"] != "data" {
		t.Errorf("CurStltConnName = %q, want data", n.Props["CurStltConnName"])
	}
}

func TestLastInterfaceDeleted(t *testing.T) {
	b := newBench(t)
	b.online(1)
	status, body := b.raw(http.MethodDelete, "/v1/nodes/n1/net-interfaces/default", "")
	if got := codes(b.entries(body)); status != 200 || len(got) != 1 || got[0] != -9223372036802608148 {
		t.Errorf("answer %d %v, want the warning alone", status, got)
	}
	b.status("n1", "NO_STLT_CONN")
	if status, body := b.raw(http.MethodGet, "/v1/nodes/n1/net-interfaces", ""); status != 200 || string(body) != "[]" {
		t.Errorf("interfaces: %d %s", status, body)
	}
}

func TestCallDuringTheDeathOfASatellite(t *testing.T) {
	b := newBench(t)
	b.online(1)[0].Stop() // still ONLINE for the controller
	var status int
	b.async(func() {
		status, _, _ = b.send(http.MethodPost, "/v1/nodes/n1/storage-pools",
			`{"storage_pool_name":"two","provider_kind":"LVM","props":{"StorDriver/StorPoolName":"vg"}}`)
	})
	if status != 500 {
		t.Errorf("status %d, want 500", status)
	}
	if _, err := b.client.Nodes.GetStoragePool(t.Context(), "n1", "two"); err != nil {
		t.Errorf("the pool was committed before: %v", err)
	}
}

func TestDuplicateAddressIsRefused(t *testing.T) {
	b := newBench(t)
	b.machine(1)
	b.satellite(1)
	if _, err := b.world.StartSatellite("n1", sim.SatelliteConfig{Version: testVersion}); err == nil {
		t.Error("two satellites listen at one address")
	}
}
