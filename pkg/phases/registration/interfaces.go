package registration

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/nodespec"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/netcom"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/netcomtls"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

// reasonBadAddress is the reason of the problem with an address that the operator does not register.
const reasonBadAddress = "InterfaceAddressInvalid"

// usable reports whether the interface can be registered with its address. One that cannot is left as LINSTOR has it:
// a slip in an annotation must not take the network from under volumes that replicate over it.
func usable(i *cluster.MemberInterface) bool { return !i.Unknown && i.Trouble == nil }

// interfacesOf are the interfaces of a member as the spec and the node's own words make them; the satellite's is the
// first, and there as soon as its pod has an address.
func interfacesOf(s *cluster.Facts, m *cluster.Member) []cluster.MemberInterface {
	var out []cluster.MemberInterface
	if m.SatellitePod != nil && m.SatellitePod.Status.PodIP != "" {
		i := linstor.Interface{Name: defaultInterface, Address: m.SatellitePod.Status.PodIP,
			Port: resources.SatellitePort, Active: true}
		if netcom.Locked(m.SatellitePod) {
			i.Port, i.TLS = netcomtls.Port, true
		}
		out = append(out, cluster.MemberInterface{Source: "the satellite's address", Interface: i})
	}
	for i := range s.Target.Spec.Nodes.Interfaces {
		if found, ok := interfaceOf(&s.Target.Spec.Nodes.Interfaces[i], m.Node); ok {
			out = append(out, found)
		}
	}
	return out
}

// interfaceOf is an entry of the spec on a node; false if the node has no such address.
func interfaceOf(spec *nodespec.InterfaceSpec, n *corev1.Node) (cluster.MemberInterface, bool) {
	i := cluster.MemberInterface{Interface: linstor.Interface{Name: spec.Name}}
	if key := spec.AddressFrom.NodeAnnotation; key != "" {
		i.Source = "annotation " + key
		i.Address = strings.TrimSpace(n.Annotations[key])
		if i.Address == "" {
			return i, false
		}
		if why := unfit(i.Address); why != "" {
			field := "spec.nodes.interfaces " + spec.Name + ": " // a long annotation must not push it out of the line
			i.Trouble = &cluster.Problem{Reason: reasonBadAddress, Message: field + text.Tail(fmt.Sprintf(
				"the node's %s is %.64q, %s; the interface is not changed until you correct it",
				i.Source, i.Address, why), text.StatusLine-len(field))}
		}
		return i, true
	}
	i.Source = string(spec.AddressFrom.AddressType)
	for _, a := range n.Status.Addresses {
		if a.Type == spec.AddressFrom.AddressType {
			i.Address = a.Address
			return i, true
		}
	}
	// A node that reports no address at all has not reported yet: it may have this one.
	i.Unknown = len(n.Status.Addresses) == 0
	return i, i.Unknown
}

// unfit says why nobody can reach an address; "" if they can. LINSTOR takes literal addresses only, without a zone.
func unfit(address string) string {
	a, err := netip.ParseAddr(address)
	switch {
	case err != nil:
		return "which is not an IP address"
	case a.Zone() != "" || a.IsLinkLocalUnicast():
		return "which is valid only on a single link"
	case a.IsLoopback() || a.IsUnspecified() || a.IsMulticast():
		return "which cannot be the address of a node"
	default:
		return ""
	}
}

// IndexAddresses fills in the members' interfaces, and finds addresses that two nodes have. LINSTOR takes such nodes,
// and then speaks to one satellite in the name of both.
func IndexAddresses(s *cluster.Snapshot) {
	owners := map[string][]cluster.AddressOwner{}
	own := func(address string, o cluster.AddressOwner) {
		key := linstor.CanonicalAddress(address)
		if !slices.ContainsFunc(owners[key],
			func(p cluster.AddressOwner) bool { return strings.EqualFold(p.Node, o.Node) }) {
			owners[key] = append(owners[key], o)
		}
	}
	speaks := map[string]bool{} // nodes whose satellite has an address, so that what LINSTOR has recorded does not count
	for _, m := range s.Members {
		m.Interfaces = interfacesOf(&s.Facts, m)
		for i := range m.Interfaces {
			if f := &m.Interfaces[i]; usable(f) {
				own(f.Address, cluster.AddressOwner{Node: m.Name, What: f.Name + ", " + f.Source})
				speaks[strings.ToLower(m.Name)] = speaks[strings.ToLower(m.Name)] || f.Name == defaultInterface
			}
		}
	}
	if v := s.Linstor.View; v != nil {
		for key, n := range v.Nodes {
			for i := range n.Interfaces {
				if !speaks[key] {
					own(n.Interfaces[i].Address, cluster.AddressOwner{Node: n.Name,
						What: n.Interfaces[i].Name + ", recorded in LINSTOR"})
				}
			}
		}
	}
	for _, m := range s.Members {
		for i := range m.Interfaces {
			if f := &m.Interfaces[i]; usable(f) {
				f.Trouble = conflict(m, f, owners)
			}
		}
	}
}

func conflict(m *cluster.Member, f *cluster.MemberInterface,
	owners map[string][]cluster.AddressOwner) *cluster.Problem {
	others := slices.DeleteFunc(slices.Clone(owners[linstor.CanonicalAddress(f.Address)]),
		func(o cluster.AddressOwner) bool { return strings.EqualFold(o.Node, m.Name) })
	if len(others) == 0 {
		return nil
	}
	// The order of a map would change the message.
	o := slices.MinFunc(others, func(a, b cluster.AddressOwner) int { return strings.Compare(a.Node, b.Node) })
	return &cluster.Problem{Reason: cluster.ReasonAddressConflict, Message: text.Sentence(fmt.Sprintf(
		"interface %s (%s) has the address %s, which is also used by node %s (%s)", f.Name, f.Source, f.Address, o.Node,
		o.What))}
}

// WantedInterfaces are the interfaces that LINSTOR shall have of the member; the first is the satellite's. None if the
// satellite has no address, or none that it can be reached at.
func WantedInterfaces(m *cluster.Member) []linstor.Interface {
	var out []linstor.Interface
	for i := range m.Interfaces {
		if usable(&m.Interfaces[i]) {
			out = append(out, m.Interfaces[i].Interface)
		}
	}
	if len(out) > 0 && out[0].Name != defaultInterface {
		return nil
	}
	return out
}

// keeps reports whether the operator leaves an interface alone because its address cannot be used now.
func keeps(m *cluster.Member, name string) bool {
	return slices.ContainsFunc(m.Interfaces,
		func(f cluster.MemberInterface) bool { return !usable(&f) && strings.EqualFold(f.Name, name) })
}

// AddressProblem is what is wrong with an address of the member; nil if nothing is. Of two nodes with one address both
// have the problem; it hinders the one that LINSTOR does not have at that address.
func AddressProblem(m *cluster.Member) (p *cluster.Problem, hinders bool) {
	for i := range m.Interfaces {
		f := &m.Interfaces[i]
		if f.Trouble == nil {
			continue
		}
		have := (*linstor.Interface)(nil)
		if m.Linstor != nil {
			have = m.Linstor.Interface(f.Name)
		}
		in := f.Trouble.Reason != cluster.ReasonAddressConflict || have == nil ||
			!linstor.SameAddress(have.Address, f.Address)
		if p == nil || in && !hinders {
			p, hinders = f.Trouble, in
		}
	}
	return p, hinders
}
