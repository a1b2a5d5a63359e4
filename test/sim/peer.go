package sim

import (
	"slices"
	"time"
)

// Connection states of a node (LINSTOR REST API, connection_status).
const (
	statusUnknown         = "UNKNOWN"
	statusOffline         = "OFFLINE"
	statusConnected       = "CONNECTED"
	statusOnline          = "ONLINE"
	statusVersionMismatch = "VERSION_MISMATCH"
	statusAuthError       = "AUTHENTICATION_ERROR"
	statusSyncFailed      = "FULL_SYNC_FAILED"
	statusOtherController = "OTHER_CONTROLLER"
	statusNoConnection    = "NO_STLT_CONN"
	statusMissingTools    = "MISSING_EXT_TOOLS"
	statusDuplicateName   = "DUPLICATE_UNAME"
)

// peer is what a controller knows about the satellite of a node. Every attempt to connect starts with a new one.
type peer struct {
	node         *node
	status       string
	caps         *capabilities
	os           string
	hostName     string
	link         *link
	offlineSince time.Time
}

// link is a TCP connection between a controller and a satellite.
type link struct {
	ctl  *controller
	peer *peer
	sat  *satellite
}

// lose ends the connection from the controller's view: the satellite does not answer any more.
func (l *link) lose() {
	if l.peer.link != l {
		return
	}
	l.peer.hangUp()
	l.peer.status = statusOffline
	l.peer.offlineSince = l.ctl.world.now
	l.peer.caps, l.peer.os = unknownCapabilities(), ""
	for _, p := range l.peer.node.pools {
		p.known = false
	}
}

func (p *peer) hangUp() {
	if p.link == nil {
		return
	}
	if p.link.sat.link == p.link {
		p.link.sat.link = nil
	}
	p.link = nil
}

// online is LINSTOR's own test before destructive calls: connected counts, a failed full sync does not.
func (p *peer) online() bool {
	return p != nil && p.link != nil && (p.status == statusConnected || p.status == statusOnline)
}

func (c *controller) peer(n *node) *peer { return c.peers[key(n.name)] }

// status is the node's connection_status.
func (c *controller) status(n *node) string {
	if !n.connectable() {
		return statusOffline
	}
	if p := c.peer(n); p != nil {
		return p.status
	}
	return statusUnknown
}

func (c *controller) isOnline(n *node) bool {
	p := c.peer(n)
	return p != nil && p.link != nil && p.status == statusOnline
}

// machineOf is the machine behind a node that is ONLINE, nil otherwise, or if its satellite has just died.
func (c *controller) machineOf(n *node) *Machine {
	if !c.isOnline(n) {
		return nil
	}
	sat := c.peer(n).link.sat
	if !sat.alive || sat.machine.cut {
		return nil
	}
	return sat.machine
}

// usedFor is LINSTOR's own test before it deletes a copy: whether the satellite has said since it was connected that
// the copy is in use. Of one on a node that is not ONLINE it knows nothing, and refuses nothing (linstor-server 1.34,
// CtrlRscDeleteApiHelper.ensureNotInUse).
func (on placed) usedFor(c *controller) bool {
	m := c.machineOf(c.db.nodes[on.rsc.node])
	return m != nil && (on.dfn.storageOnly || m.missingDRBD() == nil) && on.rsc.inUse
}

func (c *controller) capabilities(n *node) *capabilities {
	if p := c.peer(n); p != nil {
		return p.caps
	}
	return unknownCapabilities()
}

// connectResult is what became of an attempt to connect.
type connectResult int

const (
	unreachable   connectResult = iota // no TCP connection
	authenticated                      // CONNECTED, the full sync follows
	refused                            // connected, but not accepted; only the status tells
)

// connect replaces the peer of a node by a new one and tries to reach its satellite.
func (c *controller) connect(n *node) connectResult {
	return dialer{c}.reach(dialer{c}.renew(n), c.world.opts.FullSyncDelay)
}

// dialer is the part of a controller that connects it to satellites.
type dialer struct{ *controller }

// renew replaces the peer of a node by one that has yet to be connected: what the satellite said before is void.
func (c dialer) renew(n *node) *peer {
	p := &peer{node: n, status: statusOffline, caps: unknownCapabilities(), offlineSince: c.world.now}
	if old := c.peer(n); old != nil {
		if old.link == nil {
			p.offlineSince = old.offlineSince
		}
		old.hangUp()
	}
	c.peers[key(n.name)] = p
	if active := n.activeNet(); active == nil || !active.usable() {
		p.status = statusNoConnection
	}
	return p
}

// reach tries to connect a new peer to its satellite. The full sync takes that long.
func (c dialer) reach(p *peer, fullSync time.Duration) connectResult {
	n := p.node
	active := n.activeNet()
	if active == nil || !active.usable() {
		return unreachable
	}
	sat := c.world.satelliteAt(active.address, active.port)
	if sat == nil || !c.ssl.speaks(active.encryption, sat, c.world.opts.Clock.Now()) {
		c.loseHung()
		return unreachable
	}
	if status := c.refusal(sat); status != "" {
		p.status = status
		return refused
	}
	if c.nameTaken(n, sat) {
		p.status, p.caps, p.os = statusDuplicateName, sat.machine.capabilities(), sat.machine.osImage
		if sat.link != nil && sat.link.ctl == c.controller {
			sat.link.peer.status = statusConnected // it has to be synchronised again
			c.world.after(c.world.opts.ReconnectEvery, func() { c.fullSync(sat.link) })
		}
		return refused
	}
	c.takeOver(p, sat, fullSync)
	return authenticated
}

// loseHung ends all connections with TLS once the thread that serves them hangs: satellites that were ONLINE go
// OFFLINE five to ten seconds later (run with linstor-server 1.34.0-rc.1).
func (c dialer) loseHung() {
	if !c.ssl.hangs() {
		return
	}
	for _, p := range c.peers {
		if l := p.link; l != nil && l.sat.tls != nil {
			c.world.after(c.world.opts.OfflineAfter, l.lose)
		}
	}
}

// refusal is the status with which a handshake fails, "" if it succeeds. The protocol changed in LINSTOR 1.32; until
// 1.33 a controller that cannot read the satellite's answer shows it as plain OFFLINE.
func (c *controller) refusal(sat *satellite) string {
	switch {
	case sat.machine.authError:
		return statusAuthError
	case c.version == sat.version:
		return ""
	case c.version.atLeast(1, 32) && !sat.version.atLeast(1, 32):
		if c.version.atLeast(1, 34) {
			return statusAuthError
		}
		return statusOffline
	default:
		return statusVersionMismatch
	}
}

// nameTaken reports whether the satellite's host name is known as that of another node. A name that no node has is
// taken for a new name of the node that is connected to (linstor-server 1.34,
// CtrlAuthResponseApiCallHandler.updateUnameMap).
func (c *controller) nameTaken(n *node, sat *satellite) bool {
	if n.props[propNodeUname] == sat.nodeName {
		return false
	}
	for _, other := range c.db.nodes {
		if other != n && other.props[propNodeUname] == sat.nodeName {
			return true
		}
	}
	return false
}

// takeOver attaches a satellite to a new peer. Whoever had it before loses it: a controller of another cluster for
// good, the same controller until it reconnects the other node.
func (c *controller) takeOver(p *peer, sat *satellite, fullSync time.Duration) {
	if before := sat.link; before != nil {
		other, caps, os := before.ctl, before.peer.caps, before.peer.os
		before.lose()
		if other != c && other.db.props[propLocalID] != c.db.props[propLocalID] {
			before.peer.status, before.peer.caps, before.peer.os = statusOtherController, caps, os
		}
	}
	l := &link{ctl: c, peer: p, sat: sat}
	p.link, sat.link = l, l
	p.status = statusConnected
	p.caps = sat.machine.capabilities()
	p.os = sat.machine.osImage
	p.hostName = sat.nodeName
	p.node.machine = sat.machine.name
	if fullSync > 0 {
		c.world.after(fullSync, func() { c.fullSync(l) })
		return
	}
	c.fullSync(l)
}

// fullSync ends the handshake: the satellite has applied everything that the controller knows about the node.
func (c *controller) fullSync(l *link) {
	if !c.alive || l == nil || l.peer.link != l {
		return
	}
	n := l.peer.node
	if l.sat.machine.syncError {
		l.peer.status = statusSyncFailed
		return
	}
	if l.sat.machine.toolsError {
		l.peer.status = statusMissingTools
		return
	}
	l.peer.status = statusOnline
	n.props[propNodeUname] = l.sat.nodeName
	l.sat.machine.adjusted = true
	l.sat.machine.obey(c.db, n)
	c.renew(n, l.sat.machine)
	for _, p := range n.pools {
		// A pool that cannot be used does not fail the full sync. Nothing has been said about its space on this
		// connection, and what an earlier one said is void.
		if err := c.refreshPool(n, p); err != nil {
			p.known = false
		}
	}
	if n.deleted && !n.evicted {
		c.finishDelete(n)
		return
	}
	for _, on := range c.db.resourcesOn(n) {
		switch {
		case on.rsc.deleted && on.rsc.asked:
			c.eraseCopy(on.dfn, on.rsc)
		case on.rsc.deleted && !n.evicted:
			c.giveUp(on.dfn, on.rsc, "deletion on node "+n.name)
		}
	}
	keeper{c}.catchUp(n)
}

// firstContact begins to connect to all satellites, as a controller does at its start, before its API answers: a node
// that it is not connected to is OFFLINE, and nothing is known of its pools (linstor-server 1.34, Controller.start).
// When the API answered, it had reached no satellite yet. They were all ONLINE 1.5 to 2 s later, one after the other,
// and CONNECTED before (run with 1.34.0-rc.1).
func (c dialer) firstContact() {
	first := c.world.opts.FirstOnline
	nodes := slices.DeleteFunc(c.db.sortedNodes(), func(n *node) bool { return !c.wants(n) })
	for i, n := range nodes {
		for _, p := range n.pools {
			p.known = false
		}
		c.connectLater(n, first/3*time.Duration(i)/time.Duration(len(nodes)))
	}
}

// connectLater replaces the peer of a node, and connects it while nobody waits for that: it is CONNECTED for the last
// third of Options.FirstOnline, and ONLINE that much later than the first one.
func (c dialer) connectLater(n *node, later time.Duration) {
	p, first := c.renew(n), c.world.opts.FirstOnline
	c.world.after(first-first/3, func() {
		if c.wants(n) && c.peer(n) == p {
			c.reach(p, max(first/3+later, c.world.opts.FullSyncDelay))
		}
	})
}

// wants reports whether this controller keeps trying to reach the node.
func (c *controller) wants(n *node) bool {
	return c.alive && n.connectable() && !n.evicted && c.db.nodes[key(n.name)] == n
}

// reconnectLoop is LINSTOR's periodic attempt to reach what is not connected. Other failures stay until somebody asks
// for a reconnect.
func (c *controller) reconnectLoop() {
	if !c.alive {
		return
	}
	for _, n := range c.db.sortedNodes() {
		if !c.wants(n) {
			continue
		}
		switch c.status(n) {
		case statusUnknown, statusOffline:
			if c.connect(n) == unreachable {
				n.rotate()
			}
		case statusVersionMismatch:
			// A new attempt starts OFFLINE and fails again when the satellite has told its version.
			again := c.peer(n)
			again.status = statusOffline
			c.world.after(c.world.opts.ConnectTimeout, func() {
				if c.wants(n) && c.peer(n) == again && again.link == nil {
					c.connect(n)
				}
			})
		}
	}
	c.autoEvict()
	mover{c}.stepMigrations()
	c.world.after(c.world.opts.ReconnectEvery, c.reconnectLoop)
}
