package sim

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// placer is the part of a controller that finds places for copies.
type placer struct{ *controller }

// spot is a pool of a node that can take a copy.
type spot struct {
	node *node
	pool *pool
}

// candidates are the spots for a copy of a volume, the best first: nodes that are ONLINE, have all layers and take new
// copies, and there the pools with room (linstor-server 1.34, StorPoolFilter). Of the strategies that rate them the
// simulator has the only one that LINSTOR uses by default, MaxFreeSpace; equal ones come by name.
func (c placer) candidates(d *rscDfn, f selectFilter, sizeKiB int64) []spot {
	var list []spot
	for _, n := range c.db.sortedNodes() {
		if !c.nodeFits(n, d, f) {
			continue
		}
		for _, p := range n.sortedPools() {
			if c.poolFits(p, f, sizeKiB) {
				list = append(list, spot{n, p})
			}
		}
	}
	slices.SortStableFunc(list, func(a, b spot) int {
		switch {
		case a.pool.free > b.pool.free:
			return -1
		case a.pool.free < b.pool.free:
			return 1
		}
		return strings.Compare(key(a.node.name), key(b.node.name))
	})
	return list
}

func named(list []string, name string) bool {
	return slices.ContainsFunc(list, func(s string) bool { return key(s) == key(name) })
}

// nodeFits reports whether a node can take a copy: also one that has a diskless client, which becomes the copy.
func (c placer) nodeFits(n *node, d *rscDfn, f selectFilter) bool {
	if c.machineOf(n) == nil || n.evacuate || n.deleted || n.evicted || !mover(c).isTarget(n) {
		return false
	}
	if len(f.NodeNameList) > 0 && !named(f.NodeNameList, n.name) || c.hasUnwanted(n, d, f) {
		return false
	}
	for _, layer := range f.LayerStack {
		if !slices.Contains(c.capabilities(n).layers, strings.ToUpper(layer)) {
			return false
		}
	}
	there := d.resources[key(n.name)]
	return there == nil || there.diskless && !there.deleted
}

// hasUnwanted reports whether a node has a copy of another volume that a filter keeps apart.
func (c placer) hasUnwanted(n *node, d *rscDfn, f selectFilter) bool {
	unwanted, err := regexp.Compile("(?i)^(?:" + f.NotPlaceWithRscRegex + ")$")
	for _, on := range c.db.resourcesOn(n) {
		if on.dfn != d && (named(f.NotPlaceWithRsc, on.dfn.name) ||
			f.NotPlaceWithRscRegex != "" && err == nil && unwanted.MatchString(on.dfn.name)) {
			return true
		}
	}
	return false
}

// poolFits reports whether a pool may be used and has room. A thin pool must also have Autoplacer/MinThinFreeSpace
// left, 10 % of its size if nothing is set (linstor-server 1.34, StorPoolFilter.getMinFreeSpace).
func (c placer) poolFits(p *pool, f selectFilter, sizeKiB int64) bool {
	switch {
	case p.kind == kindDiskless || !p.known,
		len(f.StoragePoolList) > 0 && !named(f.StoragePoolList, p.name),
		len(f.ProviderList) > 0 && !named(f.ProviderList, p.kind),
		strings.EqualFold(p.props[propAutoplace], "false"):
		return false
	}
	room := c.room(p)
	return room >= sizeKiB && (!isThin(p.kind) || room >= (p.total+9)/10)
}

// room is how much LINSTOR lets be placed in a pool: its free space, of thin pools many times that, less what volumes
// may still grow to (linstor-server 1.34, FreeCapacityAutoPoolSelectorUtils).
func (c placer) room(p *pool) int64 {
	freeRatio, totalRatio := 1.0, 1.0
	if isThin(p.kind) {
		ratio := c.ratio(p, "MaxOversubscriptionRatio", 20)
		freeRatio = c.ratio(p, "MaxFreeCapacityOversubscriptionRatio", ratio)
		totalRatio = c.ratio(p, "MaxTotalCapacityOversubscriptionRatio", ratio)
	}
	return min(int64(float64(p.free)*freeRatio), int64(float64(p.total)*totalRatio)-c.reserved(p))
}

func (c placer) ratio(p *pool, name string, otherwise float64) float64 {
	for _, props := range []map[string]string{p.props, c.db.props} {
		if r, err := strconv.ParseFloat(props[name], 64); err == nil {
			return r
		}
	}
	return otherwise
}

// reserved is the size of the volumes in a pool.
func (c placer) reserved(p *pool) int64 {
	var sum int64
	for _, n := range c.db.nodes {
		if n.pools[key(p.name)] != p {
			continue
		}
		for _, on := range c.db.resourcesOn(n) {
			if !on.rsc.diskless && key(on.rsc.pool) == key(p.name) {
				sum += on.dfn.sizeKiB
			}
		}
	}
	return sum
}

// choose takes spots on as many nodes, with the properties that a filter wants to be the same or different; nil if
// there are not so many. The result is in the order of the nodes' names.
func (c placer) choose(d *rscDfn, f selectFilter, spots []spot, count int) []spot {
	var there []*node
	for _, r := range d.sortedResources() {
		if n := c.db.nodes[r.node]; n != nil && !r.diskless && !r.deleted && !n.evacuate && !n.evicted {
			there = append(there, n)
		}
	}
	for first := range spots {
		chosen, nodes := []spot{}, slices.Clone(there)
		for _, s := range append([]spot{spots[first]}, spots...) {
			if len(chosen) < count && f.together(nodes, s.node) {
				chosen, nodes = append(chosen, s), append(nodes, s.node)
			}
		}
		if len(chosen) == count {
			slices.SortFunc(chosen, func(a, b spot) int { return strings.Compare(key(a.node.name), key(b.node.name)) })
			return chosen
		}
	}
	return nil
}

// together reports whether a node can be added to those that have a copy.
func (f selectFilter) together(nodes []*node, n *node) bool {
	if slices.Contains(nodes, n) {
		return false
	}
	for _, rule := range f.ReplicasOnSame {
		name, value, fixed := strings.Cut(rule, "=")
		have, set := n.props[name]
		if !set || fixed && have != value ||
			!fixed && slices.ContainsFunc(nodes, func(o *node) bool { return o.props[name] != have }) {
			return false
		}
	}
	for _, rule := range f.ReplicasOnDifferent {
		name, value, fixed := strings.Cut(rule, "=")
		if fixed && n.props[name] == value || !fixed && alike(nodes, n, name) > 0 {
			return false
		}
	}
	for name, most := range f.XReplicasOnDifferent {
		if alike(nodes, n, name) >= most {
			return false
		}
	}
	return true
}

// alike counts the nodes that have the same value of a property as another.
func alike(nodes []*node, n *node, name string) int {
	count := 0
	for _, o := range nodes {
		if have, set := n.props[name]; set && o.props[name] == have {
			count++
		}
	}
	return count
}

// helpText describes a filter as LINSTOR does where it found no place.
func (f selectFilter) helpText() string {
	var b strings.Builder
	line := func(name string, value *int) {
		if value != nil {
			b.WriteString("   " + name + ": " + itoa(*value) + "\n")
		}
	}
	lines := func(name, plural string, values []string) {
		if len(values) > 1 {
			name = plural
		}
		if len(values) > 0 {
			b.WriteString("   " + name + ":\n      " + strings.Join(values, "\n      ") + "\n")
		}
	}
	line("Replica count", f.PlaceCount)
	line("Additional replica count", f.AdditionalPlaceCount)
	lines("Node name", "Node names", f.NodeNameList)
	lines("Storage pool name", "Storage pool names", f.StoragePoolList)
	lines("Do not place with resource", "Do not place with resources", f.NotPlaceWithRsc)
	if f.NotPlaceWithRscRegex != "" {
		b.WriteString("   Do not place with resource (regex): " + f.NotPlaceWithRscRegex + "\n")
	}
	lines("Replicas on nodes with same property", "Replicas on nodes with same properties", f.ReplicasOnSame)
	lines("Replicas on nodes with different property", "Replicas on nodes with different properties",
		f.ReplicasOnDifferent)
	lines("Layer stack", "Layer stack", f.shown().LayerStack)
	lines("Allowed Provider", "Allowed Providers", f.ProviderList)
	remaining := f.DisklessOnRemaining != nil && *f.DisklessOnRemaining
	b.WriteString("   Diskless on remaining: " + strconv.FormatBool(remaining) + "\n")
	return b.String()
}
