package sim

import (
	"math"
	"strconv"
	"time"
)

// evictionDelay is how long a node may be offline before it is evicted: DrbdOptions/AutoEvictAfterTime in minutes, of
// the node or the controller; by default 12 h from LINSTOR 1.34 on and 1 h before.
func (c *controller) evictionDelay(n *node) time.Duration {
	for _, props := range []map[string]string{n.props, c.db.props} {
		if minutes, err := strconv.Atoi(props[propEvictAfter]); err == nil {
			return time.Duration(minutes) * time.Minute
		}
	}
	if c.version.atLeast(1, 34) {
		return 12 * time.Hour
	}
	return time.Hour
}

// mayEvict reads DrbdOptions/AutoEvictAllowEviction, of the node and then of the controller. Nobody having set it
// means no, but a fresh database says yes.
func (c *controller) mayEvict(n *node) bool {
	for _, props := range []map[string]string{n.props, c.db.props} {
		if value, set := props[propAllowEviction]; set {
			return isTrue(value)
		}
	}
	return false
}

// evictionTime is when a node will be evicted, if it stays away. The timer is in the controller's memory.
func (c *controller) evictionTime(n *node) (time.Time, bool) {
	p := c.peer(n)
	if p == nil || p.link != nil || p.status != statusOffline && p.status != statusNoConnection || n.evicted ||
		!c.wants(n) || !c.mayEvict(n) || c.linked(n) {
		return time.Time{}, false
	}
	return p.offlineSince.Add(c.evictionDelay(n)), true
}

// linked reports whether other nodes still see the node over DRBD: then only its satellite is missing.
func (c *controller) linked(n *node) bool {
	if !c.drbdUp(key(n.name)) {
		return false
	}
	for _, on := range c.db.resourcesOn(n) {
		for _, r := range on.dfn.resources {
			if r != on.rsc && c.drbdUp(r.node) {
				return true
			}
		}
	}
	return false
}

// autoEvict evicts the nodes whose time is over, unless too many are away (by default more than 34 % of all).
func (c *controller) autoEvict() {
	limit := 34
	if percent, err := strconv.Atoi(c.db.props[propEvictMax]); err == nil {
		limit = percent
	}
	total, away := 0, 0
	for _, n := range c.db.sortedNodes() {
		if !n.connectable() {
			continue
		}
		total++
		if !c.peer(n).online() {
			away++
		}
	}
	for _, n := range c.db.sortedNodes() {
		p := c.peer(n)
		if p != nil && p.link == nil && c.linked(n) {
			p.offlineSince = c.world.now // the timer starts when DRBD has lost the node as well
			continue
		}
		at, scheduled := c.evictionTime(n)
		if scheduled && !at.After(c.world.now) && away <= int(math.Round(float64(limit*total)/100)) {
			c.evict(n)
		}
	}
}

// evict marks a node and its copies, and places new copies elsewhere. Nobody connects to the node any more.
func (c *controller) evict(n *node) rcs {
	n.evicted = true
	if p := c.peer(n); p != nil {
		p.hangUp()
		p.status = statusOffline
	}
	var list rcs
	for _, on := range c.db.resourcesOn(n) {
		on.rsc.evicted = true
		if on.rsc.diskless || on.dfn.storageOnly {
			continue
		}
		if r := (mover{c}).autoplace(on.dfn, func(*node) bool { return true }); r != nil {
			x := rcContext{op: opModify, object: objRsc, refs: map[string]string{"RscDfn": on.dfn.name}}
			list = append(list, x.complete(success(codeModified, "Resource '%s' placed on node '%s'", on.dfn.name, r.nodeName)))
		}
	}
	return list
}
