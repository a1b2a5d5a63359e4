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
			found = append(found, fmt.Sprintf("node %s has a configuration of member %s", name, site.Configuration.Name))
		case site.Template != nil:
			found = append(found, fmt.Sprintf("node %s has the DaemonSet of member %s", name, site.Template.Member))
		case site.Label != "":
			found = append(found, fmt.Sprintf("node %s has the label of member %s", name, site.Label))
		case site.Pod != nil:
			found = append(found, fmt.Sprintf("node %s has a pod of a member", name))
		case site.Used != "" && site.Data == nil && site.Silent():
			found = append(found, fmt.Sprintf("node %s has had member %s and cannot be looked into", name, site.Used))
		case site.Data != nil && site.Data.Data && !slices.Contains(p.Notes.GivenUp, site.Data.Owner.Token):
			found = append(found, fmt.Sprintf("node %s has data of member %s", name,
				cmp.Or(site.Data.Owner.Name, "unknown")))
		}
	}
	return found
}

// Unseen is the node that is to be looked into next before the first member begins: one that has had a member, or else
// the one on which it is to begin; "" if there is none. Nodes that never had a member cannot have data of one.
func (p Places) Unseen() string {
	if len(p.Notes.Seats) > 0 {
		return ""
	}
	for _, name := range p.names() {
		if site := p.Sites[name]; site.Used != "" && site.Data == nil && !site.Silent() && !p.given(name) {
			return name
		}
	}
	if n := p.Candidate(); n != nil && p.Sites[n.Name].Data == nil {
		return n.Name
	}
	return ""
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
	var best *Node
	for i := range p.Nodes {
		n := &p.Nodes[i]
		if !p.free(n) {
			continue
		}
		rank := 0
		if best != nil && len(zones) >= 3 {
			rank = cmp.Compare(used[n.Zone], used[best.Zone])
		}
		if best == nil || cmp.Or(rank, cmp.Compare(n.Name, best.Name)) < 0 {
			best = n
		}
	}
	return best
}

func (p Places) taken(node string) bool {
	return slices.ContainsFunc(p.Notes.Seats, func(s Seat) bool { return s.Node == node })
}

// free reports whether a node can get a member now.
func (p Places) free(n *Node) bool {
	site := p.Sites[n.Name]
	_, avoid := p.Notes.Avoid[n.Name]
	foreign := site.Data != nil && site.Data.Data && site.Data.Owner.Token != p.Notes.Token
	return n.Ready && !avoid && !foreign && !site.Silent() && site.Empty() && site.Pod == nil && !p.taken(n.Name)
}
