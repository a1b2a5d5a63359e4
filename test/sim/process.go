package sim

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"
)

// Process is a controller or a satellite that was started.
type Process struct {
	world *World
	stop  func()
	done  chan struct{}
}

// Stop ends the process. It may be called more than once.
func (p *Process) Stop() {
	p.world.lock()
	defer p.world.mu.Unlock()
	p.stop()
}

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// controller is a running controller, with what it keeps in memory only.
type controller struct {
	world    *World
	process  *Process
	settings settings
	version  version
	identity string
	db       *Database
	closeDB  func()
	alive    bool
	unlocked bool // the master passphrase has been entered
	logLevel string
	logLinst string
	peers    map[string]*peer
	reports  []errorReport
	files    func(string) ([]byte, error)
	https    https
	ssl      connector
}

// StartController starts a controller, as its container does. It opens and migrates the database itself. A second live
// controller on one database is not prevented, as LINSTOR does not prevent it: it is a violation. The newest answers.
func (w *World) StartController(c ControllerConfig) (*Process, error) {
	s, err := c.parse()
	if err != nil {
		return nil, err
	}
	w.lock()
	defer w.mu.Unlock()
	db, err := s.openToMigrate(w)
	if err != nil {
		return nil, err
	}
	if db.passphrase != "" && s.passphrase != "" && db.passphrase != s.passphrase {
		return nil, fmt.Errorf("start controller %s: %w", c.Identity, ErrWrongPassphrase)
	}
	ctl := &controller{
		world:    w,
		settings: s,
		version:  s.version,
		identity: c.Identity,
		db:       db,
		closeDB:  db.open("controller " + c.Identity),
		alive:    true,
		logLevel: "INFO",
		peers:    map[string]*peer{},
		files:    c.Files,
	}
	db.startedOn("controller " + c.Identity)
	db.migrate(s.version)
	if db.kind() == onMariaDB {
		db.inSeconds()
	}
	if err := startConnector(ctl); err != nil {
		ctl.closeDB()
		return nil, fmt.Errorf("start controller %s: %w", c.Identity, err)
	}
	if s.passphrase != "" {
		if db.passphrase == "" {
			db.setPassphrase(s.passphrase)
		}
		ctl.unlocked = true
	}
	ctl.process = &Process{world: w, done: make(chan struct{}), stop: func() { w.stopController(ctl) }}
	w.controllers = append(w.controllers, ctl)
	dialer{ctl}.firstContact()
	w.after(w.opts.ReconnectEvery, ctl.reconnectLoop)
	w.after(ctl.spaceInterval(), ctl.spaceLoop)
	return ctl.process, nil
}

// CrashController ends the controller that answers, as a crash or a kill does. What supervises it may start another.
func (w *World) CrashController() {
	w.lock()
	defer w.mu.Unlock()
	if ctl := w.serving(); ctl != nil {
		w.stopController(ctl)
	}
}

// RunMigration does the work of the controller's init container: it opens the database, migrates its schema to the
// version and closes it. While it runs ([Options.MigrationTime]) it counts as a process that has the database open.
func (w *World) RunMigration(c ControllerConfig) error {
	s, err := c.parse()
	if err != nil {
		return err
	}
	w.lock()
	defer w.mu.Unlock()
	db, err := s.openToMigrate(w)
	if err != nil {
		return err
	}
	closeDB := db.open("migration " + c.Identity)
	defer closeDB()
	db.startedOn("migration " + c.Identity)
	w.sleep(context.Background(), w.opts.MigrationTime)
	db.migrate(s.version)
	return nil
}

// sleep lets go of the lock for some time of the world's clock. It reports whether the context ended meanwhile.
func (w *World) sleep(ctx context.Context, d time.Duration) (killed bool) {
	if d > 0 {
		w.mu.Unlock()
		select {
		case <-w.opts.Clock.After(d):
		case <-ctx.Done():
		}
		w.lock()
	}
	return ctx.Err() != nil
}

func (w *World) stopController(ctl *controller) {
	if !ctl.alive {
		return
	}
	ctl.alive = false
	ctl.closeDB()
	for _, p := range ctl.peers {
		p.hangUp()
	}
	w.controllers = slices.DeleteFunc(w.controllers, func(c *controller) bool { return c == ctl })
	close(ctl.process.done)
}

// SatelliteConfig is what a satellite is started with.
type SatelliteConfig struct {
	// Version is the LINSTOR version, such as "1.35.3".
	Version string
	// NodeName is the host name that the satellite sees. Default: the machine's name.
	NodeName string
	// Address is the IP at which it listens. Default: the machine's.
	Address string
	// Port is where it listens, unless its configuration says another one. Default 3366.
	Port int
	// Files reads a file that is mounted into the container; nil for none.
	Files func(file string) ([]byte, error)
}

// satellite is a running satellite.
type satellite struct {
	process  *Process
	machine  *Machine
	version  version
	nodeName string
	address  string
	port     int
	alive    bool
	link     *link
	tls      *stores // nil: it listens without TLS
}

// ErrAddressInUse tells that another satellite listens at that address and port.
var ErrAddressInUse = errors.New("address already in use")

// StartSatellite starts a satellite on a machine, as its container does. It waits for a controller to connect.
func (w *World) StartSatellite(machine string, c SatelliteConfig) (*Process, error) {
	v, err := parseVersion(c.Version)
	if err != nil {
		return nil, fmt.Errorf("satellite: %w", err)
	}
	w.lock()
	defer w.mu.Unlock()
	m := w.machines[machine]
	if m == nil || w.closed {
		return nil, fmt.Errorf("start satellite: no machine %q", machine)
	}
	s := &satellite{machine: m, version: v, nodeName: c.NodeName, address: c.Address, port: c.Port, alive: true}
	if s.nodeName == "" {
		s.nodeName = m.name
	}
	if s.address == "" {
		s.address = m.address
	}
	if s.port == 0 {
		s.port = 3366
	}
	if err := s.configure(c.Files); err != nil {
		return nil, fmt.Errorf("start satellite on %s: %w", machine, err)
	}
	ip := net.ParseIP(s.address)
	if ip == nil {
		return nil, fmt.Errorf("start satellite on %s: %q is not an IP address", machine, s.address)
	}
	s.address = formatIP(ip)
	for _, other := range w.satellites {
		if other.address == s.address && other.port == s.port {
			return nil, fmt.Errorf("start satellite on %s: %w: %s port %d", machine, ErrAddressInUse, s.address, s.port)
		}
	}
	s.process = &Process{world: w, done: make(chan struct{}), stop: func() { w.stopSatellite(s) }}
	w.satellites = append(w.satellites, s)
	return s.process, nil
}

func (w *World) stopSatellite(s *satellite) {
	if !s.alive {
		return
	}
	s.alive = false
	w.satellites = slices.DeleteFunc(w.satellites, func(other *satellite) bool { return other == s })
	if lost := s.link; lost != nil {
		w.after(w.opts.OfflineAfter, lost.lose)
	}
	close(s.process.done)
}

// satelliteAt finds the satellite that answers at an address, nil if none does.
func (w *World) satelliteAt(address string, port int) *satellite {
	for _, s := range w.satellites {
		if s.address == address && s.port == port && !s.machine.cut {
			return s
		}
	}
	return nil
}

// formatIP writes an address as LINSTOR does: IPv6 in upper case.
func formatIP(ip net.IP) string { return strings.ToUpper(ip.String()) }
