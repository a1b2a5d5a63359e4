package simcluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/linstor-dev/storagecluster-operator/test/machine"
	"github.com/linstor-dev/storagecluster-operator/test/sim"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster/kubelet"
)

// probeTimeout is a generous stand-in for a probe's timeoutSeconds of 1: the machine may be busy.
const probeTimeout = 5 * time.Second

// linstorServer serves a World on loopback.
type linstorServer struct {
	// url is the simulator's own door, plain and locked are the controller's ports as the network has them, and inside
	// is the plain one as the controller's pod has it.
	url, plain, locked, inside string
	ports                      sim.Ports
	servers                    []*http.Server
	ended                      sync.WaitGroup
	client                     *http.Client
}

func serveLinstor(world *sim.World) (*linstorServer, error) {
	s := &linstorServer{
		ports:  sim.PortsOf(world),
		client: &http.Client{Timeout: machine.Slow(probeTimeout), Transport: &http.Transport{DisableKeepAlives: true}},
	}
	for _, port := range []struct {
		url    *string
		scheme string
		serve  func(*http.Server, net.Listener) error
	}{
		{&s.url, "http", plainly(world)}, {&s.plain, "http", plainly(s.ports.Plain())},
		{&s.inside, "http", plainly(s.ports.Inside())},
		{&s.locked, "https", s.ports.ServeTLS},
	} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, errors.Join(fmt.Errorf("listen for the simulated LINSTOR: %w", err), s.Close())
		}
		*port.url = port.scheme + "://" + listener.Addr().String()
		server := &http.Server{ReadHeaderTimeout: 10 * time.Second, ErrorLog: log.New(io.Discard, "", 0)}
		s.servers = append(s.servers, server)
		s.ended.Go(func() { _ = port.serve(server, listener) })
	}
	return s, nil
}

func plainly(h http.Handler) func(*http.Server, net.Listener) error {
	return func(s *http.Server, l net.Listener) error {
		s.Handler = h
		return s.Serve(l)
	}
}

func (s *linstorServer) Close() error {
	var errs []error
	for _, server := range s.servers {
		if err := server.Close(); err != nil && !errors.Is(err, http.ErrServerClosed) {
			errs = append(errs, fmt.Errorf("stop the simulated LINSTOR: %w", err))
		}
	}
	s.ended.Wait()
	return errors.Join(errs...)
}

// healthy gets LINSTOR's /health at a port.
func (s *linstorServer) healthy(port string) bool {
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, port+"/health", nil)
	if err != nil {
		return false
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return false
	}
	_ = resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// machines is the World as package kubelet wants it.
type machines struct {
	world   *sim.World
	linstor *linstorServer
}

func (m machines) ModuleVersion(node string) string {
	if machine := m.world.Machine(node); machine != nil {
		return machine.ModuleVersion()
	}
	return ""
}

func (m machines) LoadModule(node, version string) {
	if machine := m.world.Machine(node); machine != nil {
		machine.LoadModule(version)
	}
}

func (m machines) Inventory(node string) string {
	if machine := m.world.Machine(node); machine != nil {
		return machine.Inventory()
	}
	return ""
}

func (m machines) Listing(node string, directories ...string) string {
	if machine := m.world.Machine(node); machine != nil {
		return machine.Listing(directories...)
	}
	return ""
}

func (m machines) StartSatellite(node string, c kubelet.SatelliteConfig) (kubelet.Process, error) {
	p, err := m.world.StartSatellite(node, sim.SatelliteConfig(c))
	if err != nil {
		return nil, err // not p: a nil *Process in an interface is not nil
	}
	return p, nil
}

// NeedsMigration looks at the database in Kubernetes objects only: of others the image makes no backup.
func (m machines) NeedsMigration(c kubelet.ControllerConfig) bool {
	return m.world.Database("k8s").NeedsMigration(c.Version)
}

func (m machines) RunMigration(c kubelet.ControllerConfig) error {
	return m.world.RunMigration(sim.ControllerConfig(c))
}

func (m machines) ExportDatabase(ctx context.Context, c kubelet.ControllerConfig) ([]byte, error) {
	return m.world.ExportDatabase(ctx, sim.ControllerConfig(c))
}

func (m machines) EmptyDatabase(c kubelet.ControllerConfig) error {
	return sim.EmptyDatabase(m.world, sim.ControllerConfig(c))
}

func (m machines) ImportDatabase(ctx context.Context, c kubelet.ControllerConfig, export []byte) ([]byte, error) {
	return m.world.ImportDatabase(ctx, sim.ControllerConfig(c), export)
}

func (m machines) StartController(c kubelet.ControllerConfig) (kubelet.Process, error) {
	p, err := m.world.StartController(sim.ControllerConfig(c))
	if err != nil {
		return nil, err
	}
	return p, nil
}

func (m machines) Healthy() bool { return m.linstor.healthy(m.linstor.plain) }

func (m machines) Alive() bool { return m.linstor.healthy(m.linstor.inside) }

func (m machines) Listens() bool { return m.linstor.ports.Listens() }

func (m machines) Topology(node string) map[string]string {
	return m.world.NodeProperties(node, "Aux/topology/")
}

func (m machines) NodeOnline(node string) bool {
	status, _ := m.world.NodeStatus(node)
	return status == "ONLINE"
}
