package seats

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/datadir"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/view"
)

// Adopt returns notes made anew after they were lost, or restored from an old copy: of what the nodes have or their
// pods report, and of the list of the cluster that answers. A member of which a node has the configuration and which
// is not in the list has been removed. It returns false, and the notes as they are, if no configuration is that of a
// member.
func (n Notes) Adopt(sites map[string]Site, list []view.Member, cluster view.ID) (Notes, bool) {
	old, former := n, n.Seats
	n = n.Clone(time.Time{})
	n.Seats, n.ClusterID = nil, cluster
	n.Snapshot = nil // a cluster that was forced since may lack what it has
	token, tokens := "", map[string]string{}
	for _, node := range slices.Sorted(maps.Keys(sites)) {
		c := sites[node].Configuration
		if p := sites[node].Pod; c == nil && p != nil {
			c = p.Configuration
		}
		if c == nil {
			continue
		}
		seat := Seat{Name: c.Name, Node: node, PeerURL: c.PeerURL, ClientURL: c.ClientURL, Version: c.Version,
			Revision: c.Revision, Removing: true}
		i := slices.IndexFunc(list, func(l view.Member) bool {
			return l.Name == c.Name || l.Name == "" && slices.Contains(l.PeerURLs, c.PeerURL)
		})
		if i >= 0 {
			seat.ID, seat.Removing, token = list[i].ID, false, c.Token
			n.TLS = strings.HasPrefix(c.PeerURL, "https:")
			if url := list[i].PeerURLs[0]; url != c.PeerURL {
				seat.Former = []string{url}
			}
		}
		tokens[c.Name] = c.Token
		n.Seats = append(n.Seats, seat)
	}
	if token == "" {
		return old, false
	}
	n.Seats = slices.DeleteFunc(n.Seats, func(s Seat) bool { return tokens[s.Name] != token })
	for _, s := range former { // a member may be in the list while its node has lost its configuration
		known := slices.ContainsFunc(n.Seats, func(o Seat) bool { return o.Name == s.Name || o.Node == s.Node })
		if !known && slices.ContainsFunc(list, s.Is) {
			n.Seats = append(n.Seats, s)
		}
	}
	n.Token, n.Serial = token, max(n.Serial, serial(sites, list))
	return n, true
}

// Revive returns notes in which members are planned again that came after the notes were written: where a node has the
// data of a later member of this cluster than is noted there. So it is after Kubernetes, with the notes in it, was
// restored to before members were replaced: without these there is no quorum, and their data is whole. It returns
// false if there is none.
func (n Notes) Revive(sites map[string]Site, nodes []Node) (Notes, bool) {
	serial, found := n.Serial, false
	n = n.Clone(time.Time{})
	n.Snapshot = nil
	for _, name := range slices.Sorted(maps.Keys(sites)) {
		disk := sites[name].Disk()
		if disk == nil || !disk.Log || n.Token == "" || disk.Owner.Token != n.Token {
			continue
		}
		i := slices.IndexFunc(n.Seats, func(s Seat) bool { return s.Node == name })
		if i < 0 { // there may be data of one that was removed: only a name that was never given is that of a later one
			i = len(n.Seats)
			n.Seats = append(n.Seats, Seat{Name: fmt.Sprint("-", serial), Node: name})
			n.Seats[i].Version, n.Seats[i].Revision = n.Seats[0].Version, n.Seats[0].Revision
		}
		if seat, ok := n.Seats[i].revived(disk.Owner, nodes); ok {
			n.Seats[i], n.Serial, found = seat, max(n.Serial, number(seat.Name)), true
		}
	}
	n.Seats = slices.DeleteFunc(n.Seats, func(s Seat) bool { return strings.HasPrefix(s.Name, "-") })
	return n, found
}

// revived is the seat of the member whose data is on a node; false if it is not a later one than is noted, or if it
// is not known where it was reached.
func (seat Seat) revived(owner datadir.Owner, nodes []Node) (Seat, bool) {
	if i := slices.IndexFunc(nodes, func(n Node) bool { return n.Name == seat.Node }); i >= 0 {
		seat.PeerURL, seat.ClientURL = nodes[i].PeerURL, nodes[i].ClientURL
	}
	return Seat{Name: owner.Name, Node: seat.Node, PeerURL: seat.PeerURL, ClientURL: seat.ClientURL, Started: true,
			Version: cmp.Or(owner.Version, seat.Version), Revision: seat.Revision}, later(owner.Name, seat.Name) &&
			seat.PeerURL != ""
}

// number is that at the end of a member's name; 0 if there is none.
func number(name string) int {
	i, err := strconv.Atoi(name[strings.LastIndex(name, "-")+1:])
	if err != nil {
		return 0
	}
	return i
}

// later reports whether a member was planned after another one: names are made with growing numbers.
func later(name, than string) bool { return number(name) > number(than) }

// Replaces reports whether a node has what was written for a former member, and the one that is noted came later.
func (seat Seat) Replaces(site Site) bool {
	c := site.Configuration
	return c != nil && later(seat.Name, c.Name)
}

// serial is the largest number of which there is a name.
func serial(sites map[string]Site, list []view.Member) (most int) {
	count := func(name string) { most = max(most, number(name)) }
	for _, s := range sites {
		if s.Configuration != nil {
			count(s.Configuration.Name)
		}
		if d := s.Disk(); d != nil {
			count(d.Owner.Name)
		}
		count(s.Label)
		count(s.Used)
	}
	for _, l := range list {
		count(l.Name)
	}
	return most
}
