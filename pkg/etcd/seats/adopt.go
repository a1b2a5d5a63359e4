package seats

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/view"
)

// Adopt returns notes made anew after they were lost, or restored from an old copy: of what the nodes have or their
// pods report, and of the list of the cluster that answers. A member of which a node has the configuration and which
// is not in the list has been removed. The notes stay as they are if no configuration is that of a member.
func (n Notes) Adopt(sites map[string]Site, list []view.Member, cluster view.ID) Notes {
	old, former := n, n.Seats
	n = n.Clone(time.Time{})
	n.Seats, n.ClusterID = nil, cluster
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
		return old
	}
	n.Seats = slices.DeleteFunc(n.Seats, func(s Seat) bool { return tokens[s.Name] != token })
	for _, s := range former { // a member may be in the list while its node has lost its configuration
		known := slices.ContainsFunc(n.Seats, func(o Seat) bool { return o.Name == s.Name || o.Node == s.Node })
		if !known && slices.ContainsFunc(list, s.Is) {
			n.Seats = append(n.Seats, s)
		}
	}
	n.Token, n.Serial = token, max(n.Serial, serial(sites, list))
	return n
}

// serial is the largest number of which there is a name.
func serial(sites map[string]Site, list []view.Member) (most int) {
	count := func(name string) {
		if i, err := strconv.Atoi(name[strings.LastIndex(name, "-")+1:]); err == nil {
			most = max(most, i)
		}
	}
	for _, s := range sites {
		if s.Configuration != nil {
			count(s.Configuration.Name)
		}
		if s.Data != nil {
			count(s.Data.Owner.Name)
		}
		count(s.Label)
		count(s.Used)
	}
	for _, l := range list {
		count(l.Name)
	}
	return most
}
