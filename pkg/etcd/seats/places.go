package seats

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// Places are the nodes for members, with what there is on all nodes.
type Places struct {
	// Nodes are those on which members are wanted, Sites those that have anything of etcd besides.
	Nodes []Node
	Sites map[string]Site
	Notes *Notes
}

// names are those of all nodes, in order.
func (p Places) names() []string {
	names := slices.Collect(maps.Keys(p.Sites))
	for _, n := range p.Nodes {
		names = append(names, n.Name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// given reports whether the first member was given up on a node, and nothing but its data is left there.
func (p Places) given(node string) bool {
	_, avoided := p.Notes.Avoid[node]
	return avoided && p.Sites[node].Empty()
}

// Remains lists, before the first member, what keeps a new cluster from beginning: traces of a former one, and nodes
// that have had a member and cannot be looked into.
func (p Places) Remains() (found []string) {
	if len(p.Notes.Seats) > 0 {
		return nil
	}
	for _, name := range p.names() {
		if p.given(name) {
			continue
		}
		switch site := p.Sites[name]; {
		case site.Configuration != nil:
			found = append(found, fmt.Sprintf("node %s is configured as member %s", name, site.Configuration.Name))
		case site.Template != nil:
			found = append(found, fmt.Sprintf("node %s has a DaemonSet for member %s", name, site.Template.Member))
		case site.Label != "":
			found = append(found, fmt.Sprintf("node %s is labeled for member %s", name, site.Label))
		case site.Pod != nil:
			found = append(found, fmt.Sprintf("node %s has a member's pod", name))
		case site.Used != "" && site.Data == nil && site.Silent():
			found = append(found, fmt.Sprintf("node %s had member %s, and cannot be surveyed", name, site.Used))
		case site.Data != nil && site.Data.Data && !slices.Contains(p.Notes.GivenUp, site.Data.Owner.Token):
			text := fmt.Sprintf("node %s has etcd data (member: %s)", name, cmp.Or(site.Data.Owner.Name, "unknown"))
			if end := site.Data.End; end.Index > 0 { // of several, one with a low index may have been removed long ago
				text += fmt.Sprintf(", whose log ends at term %d, index %d (committed index %d)", end.Term, end.Index, end.Commit)
			}
			found = append(found, text)
		}
	}
	return found
}

// Unseen are the nodes without a member that nobody has looked into, in order: all on which the kubelet reports. That
// none is marked as one that has had a member proves nothing: marks are gone with Node objects that were made anew,
// and with Kubernetes when it was restored or built again around disks that have LINSTOR's data.
func (p Places) Unseen() (names []string) {
	for _, name := range p.names() {
		site := p.Sites[name]
		if !p.taken(name) && site.Data == nil && !site.Silent() && !p.given(name) {
			names = append(names, name)
		}
	}
	return names
}

// Left is a node with something that is written for a member, and none is noted there; "" if there is none.
func (p Places) Left() string {
	names := p.names()
	i := slices.IndexFunc(names, func(name string) bool { return !p.Sites[name].Empty() && !p.taken(name) })
	if i < 0 {
		return ""
	}
	return names[i]
}

// Unfit says of each node on which members are wanted, and which has none, why it gets none now.
func (p Places) Unfit() (why []string) {
	for i := range p.Nodes {
		if n := &p.Nodes[i]; !p.taken(n.Name) {
			why = append(why, n.Name+": "+cmp.Or(p.unfit(n), "no problem found"))
		}
	}
	return why
}

// Candidate is the node for another member; nil if there is none. With three zones or more it is in the one with the
// fewest members.
func (p Places) Candidate() *Node {
	zones, used := map[string]bool{}, map[string]int{}
	for _, n := range p.Nodes {
		if n.Zone != "" {
			zones[n.Zone] = true
		}
		if p.taken(n.Name) {
			used[n.Zone]++
		}
	}
	rank := func(n *Node) int {
		if len(zones) < 3 {
			return 0
		}
		return used[n.Zone]
	}
	var best *Node
	for i := range p.Nodes {
		n := &p.Nodes[i]
		if p.taken(n.Name) || p.unfit(n) != "" {
			continue
		}
		if best == nil || cmp.Or(p.lost(n)-p.lost(best), rank(n)-rank(best), cmp.Compare(n.Name, best.Name)) < 0 {
			best = n
		}
	}
	return best
}

// lost is 1 for a node that is taken only if there is no other.
func (p Places) lost(n *Node) int {
	if p.Notes.Avoid[n.Name].Lost {
		return 1
	}
	return 0
}

func (p Places) taken(node string) bool {
	return slices.ContainsFunc(p.Notes.Seats, func(s Seat) bool { return s.Node == node })
}

// unfit is why a node can get no member now; "" if it can.
func (p Places) unfit(n *Node) string {
	site := p.Sites[n.Name]
	avoided, avoid := p.Notes.Avoid[n.Name]
	switch {
	case site.Silent():
		return "its kubelet is not reporting"
	case !n.Ready:
		return "it is not ready for new members"
	case !n.Reached():
		return fmt.Sprintf("%q and %q are not valid addresses", n.PeerURL, n.ClientURL)
	case avoid && !avoided.Lost:
		return avoided.Why
	case site.Data != nil && site.Data.Data && site.Data.Owner.Token != p.Notes.Token:
		return "its data directory contains foreign data"
	case !site.Empty() || site.Pod != nil:
		return "it still has a configuration, DaemonSet, label or pod of a previous member"
	}
	return ""
}
