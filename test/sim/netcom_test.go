package sim_test

import (
	"fmt"
	"io/fs"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/linstor-dev/storagecluster-operator/pkg/certificates"
	"github.com/linstor-dev/storagecluster-operator/pkg/certificates/javastore"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/netcomtls"
	"github.com/linstor-dev/storagecluster-operator/test/sim"
)

// mounts are the files of a container.
type mounts map[string][]byte

func (m mounts) read(file string) ([]byte, error) {
	if data, ok := m[file]; ok {
		return data, nil
	}
	return nil, fs.ErrNotExist
}

// with is the same with another content of a file.
func (m mounts) with(file, data string) mounts {
	out := maps.Clone(m)
	out[file] = []byte(data)
	return out
}

func (m mounts) without(file string) mounts {
	out := maps.Clone(m)
	delete(out, file)
	return out
}

const (
	controllersKeys  = "/etc/linstor/ssl/keystore.jks"
	controllersTrust = "/etc/linstor/ssl/certificates.jks"
	satellitesKeys   = "/etc/linstor/keystore.p12"
	satellitesTrust  = "/etc/linstor/truststore.p12"
	satellitesConfig = "/etc/linstor/linstor_satellite.toml"
)

// pki signs for both sides.
type pki struct {
	t   *testing.T
	now time.Time
	a   *certificates.Authority
}

func newPKI(t *testing.T, now time.Time) pki {
	t.Helper()
	a, err := certificates.NewAuthority("test", now)
	if err != nil {
		t.Fatal(err)
	}
	return pki{t, now, a}
}

func (p pki) stores(uses certificates.Use) map[string][]byte {
	p.t.Helper()
	l, err := p.a.Sign(certificates.Profile{Name: "one", Uses: uses}, p.now)
	if err != nil {
		p.t.Fatal(err)
	}
	data, err := javastore.Data(l, certificates.NewBundle(p.a.Certificate))
	if err != nil {
		p.t.Fatal(err)
	}
	return data
}

// satellite is what a satellite mounts, with the operator's own configuration.
func (p pki) satellite(uses certificates.Use) mounts {
	p.t.Helper()
	data := p.stores(uses)
	return mounts{satellitesKeys: data[javastore.EntryKeyStore], satellitesTrust: data[javastore.EntryTrustStore],
		satellitesConfig: netcomtls.Data(netcomtls.Satellite)[netcomtls.EntryConfig]}
}

func (p pki) controller(uses certificates.Use) mounts {
	p.t.Helper()
	data := p.stores(uses)
	return mounts{controllersKeys: data[javastore.EntryKeyStore], controllersTrust: data[javastore.EntryTrustStore]}
}

// Bodies of a node's only interface.
const (
	overSSL   = `{"name":"default","address":"10.0.0.1","satellite_port":3367,"satellite_encryption_type":"SSL"}`
	overPlain = `{"name":"default","address":"10.0.0.1","satellite_port":3366,"satellite_encryption_type":"PLAIN"}`
)

func node1(net string) string {
	return fmt.Sprintf(`{"name":"n1","type":"SATELLITE","net_interfaces":[%s]}`, net)
}

func encrypted(b *bench, want string) {
	b.Helper()
	got := fmt.Sprint(sim.ConnectionsOf(b.world).Encrypted())
	if got != want {
		b.Errorf("connections are %s, want %s", got, want)
	}
}

// TestWhoSpeaksToWhom follows what was run with linstor-server 1.34.0-rc.1. A handshake that fails shows as OFFLINE.
func TestWhoSpeaksToWhom(t *testing.T) {
	now := time.Date(2026, 6, 2, 12, 0, 0, 0, time.UTC)
	ours, others := newPKI(t, now), newPKI(t, now)
	const server, client = certificates.Server, certificates.Client
	controller, satellite := ours.controller(client), ours.satellite(server)
	const connected, offline = "map[n1:true]", "map[]"
	for name, tc := range map[string]struct {
		controller, satellite mounts
		net, want             string
	}{
		"both plain":                              {nil, nil, overPlain, "map[n1:false]"},
		"both with TLS":                           {controller, satellite, overSSL, connected},
		"a controller with stores, plainly":       {controller, nil, overPlain, "map[n1:false]"},
		"a plain satellite behind SSL":            {controller, nil, overSSL, offline},
		"a satellite with TLS behind PLAIN":       {controller, satellite, overPlain, offline},
		"a satellite of another authority":        {controller, others.satellite(server), overSSL, offline},
		"a controller of another authority":       {others.controller(client), satellite, overSSL, offline},
		"a satellite's certificate is a client's": {controller, ours.satellite(client), overSSL, offline},
		"a satellite's certificate as controller": {ours.controller(server), satellite, overSSL, offline},
		"a satellite without trust store":         {controller, satellite.without(satellitesTrust), overSSL, offline},
		"a controller without trust store":        {controller.without(controllersTrust), satellite, overSSL, offline},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.controller(sim.ControllerConfig{Files: tc.controller.read})
			b.machine(1)
			if _, err := b.world.StartSatellite("n1",
				sim.SatelliteConfig{Version: testVersion, Files: tc.satellite.read}); err != nil {
				t.Fatal(err)
			}
			b.async(func() { b.raw("POST", "/v1/nodes", node1(tc.net)) })
			encrypted(b, tc.want)
			if tc.want == offline {
				b.status("n1", "OFFLINE")
			}
		})
	}
}

// TestExpiredBetween: what has expired on either side is refused at the next connection, and not before.
func TestExpiredBetween(t *testing.T) {
	b := newBench(t)
	p := newPKI(t, b.clock.Now())
	b.controller(sim.ControllerConfig{Files: p.controller(certificates.Client).read})
	b.machine(1)
	satellite := sim.SatelliteConfig{Version: testVersion, Files: p.satellite(certificates.Server).read}
	process, err := b.world.StartSatellite("n1", satellite)
	b.must(err)
	b.raw("POST", "/v1/nodes", node1(overSSL))
	b.clock.Step(certificates.LeafLifetime + time.Hour)
	encrypted(b, "map[n1:true]")
	process.Stop()
	b.pass(time.Minute)
	_, err = b.world.StartSatellite("n1", satellite)
	b.must(err)
	b.pass(time.Minute)
	encrypted(b, "map[]")
}

// TestAControllerWithoutStores: one that never had any refuses what it stores, and one that had speaks plain where
// its API says SSL.
func TestAControllerWithoutStores(t *testing.T) {
	b := newBench(t)
	b.controller(sim.ControllerConfig{})
	b.machine(1)
	_, err := b.world.StartSatellite("n1", sim.SatelliteConfig{Version: testVersion})
	b.must(err)
	b.raw("POST", "/v1/nodes", node1(overPlain))
	status, body := b.raw("PUT", "/v1/nodes/n1/net-interfaces/default", overSSL)
	if got := b.codesOf(body); status != 500 || got[len(got)-1] != 998 {
		t.Errorf("status %d, codes %v", status, got)
	}
	encrypted(b, "map[n1:false]") // the old connection goes on
	if _, body = b.raw("GET", "/v1/nodes/n1/net-interfaces/default", ""); !strings.Contains(string(body), "SSL") {
		t.Errorf("it was not stored: %s", body)
	}

	stores := newPKI(t, b.clock.Now()).controller(certificates.Client)
	b.stop()
	b.controller(sim.ControllerConfig{Files: stores.read})
	b.pass(time.Minute)
	encrypted(b, "map[]")
	if !sim.ConnectionsOf(b.world).DebugListens() {
		t.Error("the listener for debugging is not open")
	}
	b.raw("POST", "/v1/controller/properties", `{"override_props":{"NetCom/DebugSslConnector/Enabled":"False"}}`)
	b.stop()
	b.controller(sim.ControllerConfig{Files: stores.read})
	if sim.ConnectionsOf(b.world).DebugListens() {
		t.Error("the listener for debugging is open")
	}

	b.stop()
	b.controller(sim.ControllerConfig{})
	_, err = b.world.StartSatellite("n1", sim.SatelliteConfig{Version: testVersion, Port: 3367})
	b.must(err)
	b.pass(time.Minute)
	encrypted(b, "map[n1:false]")
}

// TestBrokenStores end the program that reads them.
func TestBrokenStores(t *testing.T) {
	b := newBench(t)
	p := newPKI(t, b.clock.Now())
	b.machine(1)
	good := p.satellite(certificates.Server)
	for name, files := range map[string]mounts{
		"no key store":     good.without(satellitesKeys),
		"no Java's store":  good.with(satellitesKeys, "PEM"),
		"no parameter":     good.with(satellitesConfig, "[netcom]\ntype = \"ssl\"\nport = 3367\n"),
		"no such type":     good.with(satellitesConfig, "[netcom]\ntype = \"tls\"\n"),
		"no configuration": good.with(satellitesConfig, "[netcom"),
	} {
		if _, err := b.world.StartSatellite("n1", sim.SatelliteConfig{Version: testVersion, Files: files.read}); err == nil {
			t.Errorf("%s: the satellite starts", name)
		}
	}
	broken := p.controller(certificates.Client).with(controllersKeys, "PEM")
	if _, err := b.world.StartController(sim.ControllerConfig{Version: testVersion,
		TOML: "[db]\nconnection_url = \"k8s\"\n", Files: broken.read}); err == nil {
		t.Error("the controller starts")
	}
}

// TestHungConnector: failing handshakes with several satellites take all others along, until the controller is started
// anew.
func TestHungConnector(t *testing.T) {
	b := newBench(t)
	ours, others := newPKI(t, b.clock.Now()), newPKI(t, b.clock.Now())
	stores := ours.controller(certificates.Client)
	b.controller(sim.ControllerConfig{Files: stores.read})
	for i := 1; i <= 3; i++ {
		b.machine(i)
		files := others.satellite(certificates.Server)
		if i == 1 {
			files = ours.satellite(certificates.Server)
		}
		_, err := b.world.StartSatellite(nodeName(i), sim.SatelliteConfig{Version: testVersion, Files: files.read})
		b.must(err)
		b.async(func() {
			b.raw("POST", "/v1/nodes", strings.ReplaceAll(strings.ReplaceAll(node1(overSSL), "10.0.0.1", address(i)),
				`"n1"`, `"`+nodeName(i)+`"`))
		})
	}
	encrypted(b, "map[n1:true]")
	b.pass(4 * time.Minute)
	encrypted(b, "map[]")
	b.stop()
	b.controller(sim.ControllerConfig{Files: stores.read})
	b.pass(10 * time.Second)
	encrypted(b, "map[n1:true]")
}
