package sim_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	linstor "github.com/LINBIT/golinstor"
	"github.com/LINBIT/golinstor/client"
	testclock "k8s.io/utils/clock/testing"

	"github.com/linstor-dev/storagecluster-operator/test/sim"
)

const testVersion = "1.34.0"

// bench is a world with a clock, an HTTP server in front of it, and a golinstor client.
type bench struct {
	*testing.T
	world  *sim.World
	clock  *testclock.FakeClock
	server *httptest.Server
	client *client.Client
	stop   func() // stops the controller that was started last
}

func newBench(t *testing.T, change ...func(*sim.Options)) *bench {
	t.Helper()
	b := &bench{T: t, clock: testclock.NewFakeClock(time.Date(2026, 6, 2, 12, 0, 0, 0, time.UTC))}
	o := sim.Options{Clock: b.clock}
	for _, f := range change {
		f(&o)
	}
	b.world = sim.NewWorld(o)
	b.server = httptest.NewServer(b.world)
	t.Cleanup(func() {
		b.server.Close()
		b.world.Close()
	})
	base, err := url.Parse(b.server.URL)
	if err != nil {
		t.Fatalf("parse URL: %v", err)
	}
	b.client, err = client.NewClient(client.BaseURL(base), client.Log(nil))
	if err != nil {
		t.Fatalf("new client: %v", err)
	}
	return b
}

// controller starts a controller on the Kubernetes database.
func (b *bench) controller(c sim.ControllerConfig) *sim.Process {
	b.Helper()
	if c.Version == "" {
		c.Version = testVersion
	}
	if c.TOML == "" {
		c.TOML = "[db]\nconnection_url = \"k8s\"\n"
	}
	p, err := b.world.StartController(c)
	if err != nil {
		b.Fatalf("start controller: %v", err)
	}
	b.stop = p.Stop
	return p
}

// machine adds a machine n<i> at 10.0.0.<i> with DRBD, a volume group vg with the thin pool thin, and an empty disk
// sdb.
func (b *bench) machine(i int) *sim.Machine {
	name := nodeName(i)
	m := b.world.AddMachine(sim.MachineSpec{
		Name: name, Address: address(i),
		Disks: []sim.Disk{
			{Name: "sda", Serial: "root-" + name, SizeBytes: 64 << 30, Signature: "ext4"},
			{Name: "sdb", Serial: "data-" + name, WWN: "0x5000" + name, Model: "QEMU", SizeBytes: 100 << 30},
		},
		VolumeGroups: []sim.VolumeGroup{{Name: "vg", SizeKiB: 200 << 20,
			ThinPools: []sim.ThinPool{{Name: "thin", SizeKiB: 100 << 20}}}},
	})
	m.LoadModule("9.3.3")
	return m
}

func nodeName(i int) string { return "n" + string(rune('0'+i)) }
func address(i int) string  { return "10.0.0." + string(rune('0'+i)) }

func (b *bench) satellite(i int) *sim.Process {
	b.Helper()
	return b.satelliteOf(testVersion, i)
}

func (b *bench) satelliteOf(version string, i int) *sim.Process {
	b.Helper()
	p, err := b.world.StartSatellite(nodeName(i), sim.SatelliteConfig{Version: version})
	if err != nil {
		b.Fatalf("start satellite %d: %v", i, err)
	}
	return p
}

func node(i int) client.Node {
	return client.Node{Name: nodeName(i), Type: "Satellite", NetInterfaces: []client.NetInterface{
		{Name: "default", Address: net.ParseIP(address(i)), SatellitePort: 3366, SatelliteEncryptionType: "Plain"},
	}}
}

func thinPool() client.StoragePool {
	return client.StoragePool{StoragePoolName: "ssd", ProviderKind: client.LVM_THIN,
		Props: map[string]string{"StorDriver/LvmVg": "vg", "StorDriver/ThinPool": "thin"}}
}

// online brings up a controller and n machines whose satellites are registered and ONLINE, each with the pool ssd.
func (b *bench) online(n int) []*sim.Process {
	b.Helper()
	return b.onlineOn(sim.ControllerConfig{Version: testVersion}, n)
}

// onlineOn does so with a controller of that version on another database.
func (b *bench) onlineOn(c sim.ControllerConfig, n int) []*sim.Process {
	b.Helper()
	b.controller(c)
	var satellites []*sim.Process
	for i := 1; i <= n; i++ {
		b.machine(i)
		satellites = append(satellites, b.satelliteOf(c.Version, i))
		b.must(b.client.Nodes.Create(b.Context(), node(i)))
		b.must(b.client.Nodes.CreateStoragePool(b.Context(), nodeName(i), thinPool()))
	}
	return satellites
}

func (b *bench) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// pass lets time pass in small steps, so that whatever waits is woken.
func (b *bench) pass(d time.Duration) {
	for ; d > 0; d -= time.Second {
		b.clock.Step(min(d, time.Second))
		b.world.Violations() // look at the world, so that what is due happens now
	}
}

func (b *bench) status(name, want string, flags ...string) {
	b.Helper()
	status, have := b.world.NodeStatus(name)
	if status != want || !equal(have, flags) {
		b.Errorf("node %s is %s %v, want %s %v", name, status, have, want, flags)
	}
}

func equal(a, b []string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// patience is for what happens at once, unless the machine stalls.
const patience = time.Minute

// async runs a call that waits on the clock; time goes on until it has returned.
func (b *bench) async(call func()) {
	b.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		call()
	}()
	deadline := time.After(patience)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return
		case <-deadline:
			b.Fatalf("the call has not returned within %s", patience)
		case <-tick.C:
			if b.clock.HasWaiters() {
				b.clock.Step(100 * time.Millisecond)
			}
		}
	}
}

// raw sends a request by hand and returns status and body.
func (b *bench) raw(method, path, body string) (int, []byte) {
	b.Helper()
	status, answer, err := b.send(method, path, body)
	if err != nil {
		b.Fatalf("%s %s: %v", method, path, err)
	}
	return status, answer
}

func (b *bench) send(method, path, body string) (int, []byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, b.server.URL+path, bytes.NewReader([]byte(body)))
	if err != nil {
		return 0, nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	return resp.StatusCode, answer, err
}

// entry is an ApiCallRc without the fields that change.
type entry struct {
	RetCode    int64             `json:"ret_code"`
	Message    string            `json:"message"`
	Cause      string            `json:"cause"`
	Details    string            `json:"details"`
	Correction string            `json:"correction"`
	ObjRefs    map[string]string `json:"obj_refs"`
}

func (b *bench) entries(raw []byte) []entry {
	b.Helper()
	var list []entry
	if err := json.Unmarshal(raw, &list); err != nil {
		b.Fatalf("not an ApiCallRc list: %v: %s", err, raw)
	}
	return list
}

func codes(list []entry) []int64 {
	out := []int64{}
	for _, e := range list {
		out = append(out, e.RetCode)
	}
	return out
}

func TestSmoke(t *testing.T) {
	b := newBench(t)
	b.online(2)
	b.status("n1", "ONLINE")
	nodes, err := b.client.Nodes.GetAll(t.Context())
	b.must(err)
	if len(nodes) != 2 || nodes[0].ConnectionStatus != "ONLINE" {
		t.Errorf("nodes = %+v", nodes)
	}
	pools, err := b.client.Nodes.GetStoragePoolView(t.Context())
	b.must(err)
	if len(pools) != 4 || pools[2].FreeCapacity != 100<<20 {
		t.Errorf("pools = %+v", pools)
	}
	if err := b.client.Nodes.Create(t.Context(), node(1)); !client.IsApiCallError(err, linstor.FailExistsNode) {
		t.Errorf("second create: %v", err)
	}
	b.must(b.world.Volumes().Create("pvc-1", 1<<20, "ssd", "n1", "n2"))
	view, err := b.client.Resources.GetResourceView(t.Context())
	b.must(err)
	if len(view) != 2 || view[0].Volumes[0].State.DiskState != "UpToDate" {
		t.Errorf("view = %+v", view)
	}
	if _, err := b.client.Nodes.Get(t.Context(), "nope"); !errors.Is(err, client.NotFoundError) {
		t.Errorf("unknown node: %v", err)
	}
}
