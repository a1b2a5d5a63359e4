package difference

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/linstor-dev/storagecluster-operator/pkg/backup/export"
)

// TakenAddress is an address that the backup has for a node, and that another machine has now. Satellites have no
// identity: LINSTOR takes the one that answers there for the node's, and sends it the node's volumes.
type TakenAddress struct {
	Address string `json:"address"`
	Node    string `json:"node"`
	Machine string `json:"machine"`
}

// TakenAddresses finds them, sorted by machine. machines are the addresses that each machine has now, by its name in
// Kubernetes. An address that the backup has for the machine itself as well is not taken.
func TakenAddresses(l *export.Layout, machines map[string][]string) []TakenAddress {
	owners := map[string][]string{}
	for _, a := range l.Addresses {
		key := canonical(a.Address)
		owners[key] = append(owners[key], a.Node)
	}
	var out []TakenAddress
	for machine, addresses := range machines {
		for _, a := range addresses {
			a = canonical(a)
			if slices.ContainsFunc(owners[a], func(n string) bool { return strings.EqualFold(n, machine) }) {
				continue
			}
			for _, node := range owners[a] {
				out = append(out, TakenAddress{Address: a, Node: node, Machine: machine})
			}
		}
	}
	slices.SortFunc(out, func(a, b TakenAddress) int {
		return cmp.Or(cmp.Compare(a.Machine, b.Machine), cmp.Compare(a.Address, b.Address), cmp.Compare(a.Node, b.Node))
	})
	return slices.Compact(out)
}

// difference is the same as one of the differences.
func (a *TakenAddress) difference() Difference {
	return Difference{Kind: AddressTaken, Node: a.Machine, Name: a.Address, Says: fmt.Sprintf("in the backup, this "+
		"address belongs to node %s: LINSTOR would mistake a satellite on %s for that node's satellite, and would create "+
		"and delete that node's volumes there", a.Node, a.Machine)}
}

// canonical is an IP address in its usual form: LINSTOR keeps IPv6 in upper case.
func canonical(address string) string {
	if ip, err := netip.ParseAddr(address); err == nil {
		return ip.Unmap().String()
	}
	return address
}
