package csidriver_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/linstor-dev/storagecluster-operator/test/csidriver"
	"github.com/linstor-dev/storagecluster-operator/test/sim"
)

const (
	version = "1.34.0"
	// patience is how long is waited for what must happen.
	patience = 2 * time.Minute
)

// site is a simulated LINSTOR with three nodes, node-1 to node-3, and a thin pool of 20 GiB on each.
type site struct {
	*testing.T
	world *sim.World
	url   string
}

// machine is what a node's driver works on.
type machine struct {
	volumes sim.Volumes
	node    string
}

func (m machine) DeviceKiB(device string) (int64, error) { return m.volumes.DeviceKiB(m.node, device) }
func (m machine) Open(device string) error               { return m.volumes.OpenDevice(m.node, device) }
func (m machine) Close(device string)                    { m.volumes.CloseDevice(m.node, device) }

func newSite(t *testing.T) *site {
	t.Helper()
	world := sim.NewWorld(sim.Options{ReconnectEvery: time.Second})
	server := httptest.NewServer(world)
	t.Cleanup(func() {
		server.Close()
		world.Close()
	})
	s := &site{T: t, world: world, url: server.URL}
	_, err := world.StartController(sim.ControllerConfig{Version: version, TOML: "[db]\nconnection_url = \"k8s\"\n"})
	s.must(err)
	for i := 1; i <= 3; i++ {
		s.addNode(i)
	}
	return s
}

func (s *site) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *site) addNode(i int) {
	s.Helper()
	name, address := fmt.Sprintf("node-%d", i), fmt.Sprintf("192.168.0.%d", i)
	s.world.AddMachine(sim.MachineSpec{Name: name, Address: address,
		VolumeGroups: []sim.VolumeGroup{{Name: "vg", SizeKiB: 21 << 20, ThinPools: []sim.ThinPool{{Name: "thin",
			SizeKiB: 20 << 20}}}}}).LoadModule("9.3.3")
	_, err := s.world.StartSatellite(name, sim.SatelliteConfig{Version: version})
	s.must(err)
	s.post("/v1/nodes", fmt.Sprintf(`{"name":%q,"type":"SATELLITE","net_interfaces":[{"name":"default","address":%q,`+
		`"satellite_port":3366,"satellite_encryption_type":"PLAIN"}],`+
		`"props":{"Aux/topology/topology.kubernetes.io/zone":"zone-%d"}}`, name, address, i))
	s.eventually(name+" is ONLINE", func() error {
		if status, _ := s.world.NodeStatus(name); status != "ONLINE" {
			return errors.New(status)
		}
		return nil
	})
	s.post("/v1/nodes/"+name+"/storage-pools", `{"storage_pool_name":"thin","provider_kind":"LVM_THIN",`+
		`"props":{"StorDriver/StorPoolName":"vg/thin"}}`)
}

func (s *site) post(path, body string) {
	s.Helper()
	req, err := http.NewRequestWithContext(s.Context(), http.MethodPost, s.url+path, strings.NewReader(body))
	s.must(err)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	s.must(err)
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusCreated {
		s.Fatalf("POST %s: %s", path, resp.Status)
	}
}

func (s *site) eventually(what string, f func() error) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := f()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			s.Fatalf("%s: not within %s: %v", what, patience, err)
		case <-tick.C:
		}
	}
}

// driver is the driver of a node that believes nothing for longer than the caches say.
func (s *site) driver(node string, caches time.Duration) (*csidriver.Driver, *csidriver.Records) {
	s.Helper()
	host := csidriver.NewRecords(machine{s.world.Volumes(), node})
	return s.driverOn(node, host, caches), host
}

func (s *site) driverOn(node string, host csidriver.Host, caches time.Duration) *csidriver.Driver {
	s.Helper()
	d, err := csidriver.New(csidriver.Options{Endpoint: s.url, Node: node, Host: host, NodeCache: caches,
		ResourceCache: caches})
	s.must(err)
	return d
}
