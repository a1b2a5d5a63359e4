package sim

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// World is one simulated site: machines, databases, and the controller and satellites that run there. All its methods
// are safe for concurrent use. It serves the REST API of the controller that is running.
type World struct {
	opts    Options
	mux     *http.ServeMux
	writeMu sync.Mutex // taken by writing requests when WriteLatency is set

	mu          sync.Mutex // guards everything below, and every object of the world
	now         time.Time
	seq         int
	ids         int
	events      eventQueue
	closed      bool
	machines    map[string]*Machine
	links       map[drbdLink]string // those of DRBD's connections that are down
	databases   map[string]*Database
	exports     exports
	controllers []*controller // those that live, in the order of their start
	satellites  []*satellite  // those that live
	fault       func(*http.Request) *Fault
	requests    []Record
	violations  []string
}

// NewWorld makes an empty world: no machine, no database, nothing running.
func NewWorld(o Options) *World {
	o = o.withDefaults()
	w := &World{
		opts:      o,
		now:       o.Clock.Now(),
		machines:  map[string]*Machine{},
		links:     map[drbdLink]string{},
		databases: map[string]*Database{},
		exports:   exports{contents: map[digest]*content{}},
	}
	w.mux = w.routes()
	return w
}

// Close stops every process of the world. Requests that come later find no controller.
func (w *World) Close() {
	w.lock()
	defer w.mu.Unlock()
	w.closed = true
	for _, s := range slices.Clone(w.satellites) {
		w.stopSatellite(s)
	}
	for _, c := range slices.Clone(w.controllers) {
		w.stopController(c)
	}
	w.events = nil
}

// SetFault installs a hook that is asked about every request before it is handled; nil removes it. The hook may read
// the request's body, and it may call the world.
func (w *World) SetFault(f func(r *http.Request) *Fault) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fault = f
}

// SetEvacuateDelay changes [Options.EvacuateDelay] for copies that are placed from now on.
func (w *World) SetEvacuateDelay(d time.Duration) {
	w.lock()
	defer w.mu.Unlock()
	w.opts.EvacuateDelay = d
}

// Requests returns every request that reached a controller since the start or the last [World.ResetRequests].
func (w *World) Requests() []Record {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.requests)
}

// ResetRequests forgets the requests seen so far.
func (w *World) ResetRequests() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.requests = nil
}

// Writes returns the requests that could change something.
func (w *World) Writes() []Record {
	w.mu.Lock()
	defer w.mu.Unlock()
	var writes []Record
	for _, r := range w.requests {
		if r.Mutating {
			writes = append(writes, r)
		}
	}
	return writes
}

// Violations returns what should never have happened, in order: "two-controllers ..." (two processes with one database
// open), "destructive-rollback ..." (a device pool was torn down because its registration failed), "last-replica-lost
// ..." (LINSTOR was told to give up the last good copy of a volume that is on a machine which is up, and not by the
// volume driver, which deletes volumes because their users do), "half-import ..." (a process was started on a database
// in which an import had been killed), "volume-emptied ..." (a restored database had a volume of which there was no
// copy, and LINSTOR made an empty one), "volume-cut ..." (a database had a volume smaller than it was, and LINSTOR cut
// its file).
func (w *World) Violations() []string {
	w.lock()
	defer w.mu.Unlock()
	return slices.Clone(w.violations)
}

func (w *World) violate(format string, args ...any) {
	w.violations = append(w.violations, fmt.Sprintf(format, args...))
}

// NodeStatus returns what the running controller reports about a LINSTOR node: its connection status and its flags.
// Both are empty if no controller runs or the node is unknown.
func (w *World) NodeStatus(name string) (connectionStatus string, flags []string) {
	w.lock()
	defer w.mu.Unlock()
	ctl := w.serving()
	if ctl == nil {
		return "", nil
	}
	n := ctl.db.nodes[key(name)]
	if n == nil {
		return "", nil
	}
	return ctl.status(n), n.flagNames()
}

// NodeProperties are those of a LINSTOR node that begin with a prefix, which is left out; none while no controller
// runs or it does not know the node.
func (w *World) NodeProperties(name, prefix string) map[string]string {
	w.lock()
	defer w.mu.Unlock()
	out := map[string]string{}
	ctl := w.serving()
	if ctl == nil || ctl.db.nodes[key(name)] == nil {
		return out
	}
	for k, v := range ctl.db.nodes[key(name)].props {
		if rest, found := strings.CutPrefix(k, prefix); found {
			out[rest] = v
		}
	}
	return out
}

// Impostors returns the LINSTOR nodes in whose name the running controller is connected to a satellite that says it is
// another, and what that one says.
func (w *World) Impostors() map[string]string {
	w.lock()
	defer w.mu.Unlock()
	out := map[string]string{}
	if ctl := w.serving(); ctl != nil {
		for _, p := range ctl.peers {
			if p.online() && p.link.sat.alive && !strings.EqualFold(p.link.sat.nodeName, p.node.name) {
				out[p.node.name] = p.link.sat.nodeName
			}
		}
	}
	return out
}

// serving is the controller that answers the REST API: the one that was started last.
func (w *World) serving() *controller {
	if len(w.controllers) == 0 {
		return nil
	}
	return w.controllers[len(w.controllers)-1]
}

// newUUID returns the next of a fixed sequence of UUIDs, so that runs are reproducible.
func (w *World) newUUID() string {
	w.ids++
	return fmt.Sprintf("5a1e0000-0000-4000-8000-%012x", w.ids)
}
