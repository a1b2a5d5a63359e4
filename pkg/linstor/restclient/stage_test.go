package restclient_test

import (
	"net/http/httptest"
	"testing"
	"time"

	testclock "k8s.io/utils/clock/testing"

	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor/restclient"
	"github.com/linstor-dev/storagecluster-operator/test/sim"
)

const version = "1.34.0"

// stage is a simulated LINSTOR with one machine, n1, and a client of it.
type stage struct {
	*testing.T
	world   *sim.World
	clock   *testclock.FakeClock
	machine *sim.Machine
	linstor.API
}

func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{T: t, clock: testclock.NewFakeClock(time.Date(2026, 6, 2, 12, 0, 0, 0, time.UTC))}
	s.world = sim.NewWorld(sim.Options{Clock: s.clock})
	server := httptest.NewServer(s.world)
	t.Cleanup(func() {
		server.Close()
		s.world.Close()
	})
	s.machine = s.world.AddMachine(sim.MachineSpec{
		Name: "n1", Address: "10.0.0.1",
		Disks: []sim.Disk{
			{Name: "sda", Serial: "root", SizeBytes: 64 << 30, Signature: "ext4"},
			{Name: "sdb", Serial: "data", WWN: "0x5000", Model: "QEMU", SizeBytes: 100 << 30},
		},
		VolumeGroups: []sim.VolumeGroup{{Name: "vg", SizeKiB: 200 << 20,
			ThinPools: []sim.ThinPool{{Name: "thin", SizeKiB: 100 << 20}}}},
	})
	s.machine.LoadModule("9.3.3")
	var err error
	if s.API, err = restclient.New(restclient.Options{Endpoint: server.URL, Timeout: time.Minute}); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *stage) controller() *sim.Process {
	s.Helper()
	p, err := s.world.StartController(sim.ControllerConfig{Version: version, TOML: "[db]\nconnection_url = \"k8s\"\n"})
	s.must(err)
	return p
}

func (s *stage) satellite() *sim.Process {
	s.Helper()
	p, err := s.world.StartSatellite("n1", sim.SatelliteConfig{Version: version})
	s.must(err)
	return p
}

// online brings n1 up and registers it.
func (s *stage) online() {
	s.Helper()
	s.controller()
	s.satellite()
	s.must(s.CreateNode(s.Context(), n1))
}

func (s *stage) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *stage) view() *linstor.View {
	s.Helper()
	v, err := s.View(s.Context(), linstor.ViewOptions{Devices: true})
	s.must(err)
	return v
}

// pass lets time pass in small steps, so that whatever is due in between happens.
func (s *stage) pass(d time.Duration) {
	for ; d > 0; d -= time.Second {
		s.clock.Step(min(d, time.Second))
		s.world.Violations()
	}
}

// wantCode fails the test unless err carries LINSTOR's code.
func (s *stage) wantCode(err error, code int) {
	s.Helper()
	if linstor.Code(err) != code {
		s.Errorf("error %v, want LINSTOR code %d", err, code)
	}
}

var (
	n1 = linstor.NodeSpec{Name: "n1",
		Interfaces: []linstor.Interface{{Name: "default", Address: "10.0.0.1", Port: 3366}}}
	thin = linstor.PoolSpec{Node: "n1", Name: "ssd", Provider: "LVM_THIN", Backing: "vg/thin"}
)
