package phases

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
)

// Reasons of problems with addresses.
const (
	reasonBadAddress      = "InterfaceAddressInvalid"
	reasonAddressConflict = "AddressConflict"
)

// memberInterface is one interface that a member has, or would have if its address were known and could be used.
type memberInterface struct {
	linstor.Interface
	// source says for people where the address comes from.
	source string
	// unknown: the node does not tell its addresses now.
	unknown bool
	// trouble says why the address cannot be used.
	trouble *Problem
}

// usable is whether the interface can be registered with its address. One that cannot is left as LINSTOR has it: a slip in an
// annotation must not take the network from under volumes that replicate over it.
func (i *memberInterface) usable() bool { return !i.unknown && i.trouble == nil }

// interfacesOf are the interfaces of a member as the spec and the node's own words make them; the satellite's is the first, and
// there as soon as its pod has an address.
func (s *Snapshot) interfacesOf(m *Member) []memberInterface {
	var out []memberInterface
	if m.SatellitePod != nil && m.SatellitePod.Status.PodIP != "" {
		out = append(out, memberInterface{source: "the satellite's address", Interface: linstor.Interface{Name: defaultInterface,
			Address: m.SatellitePod.Status.PodIP, Port: resources.SatellitePort, Encryption: linstor.EncryptionPlain, Active: true}})
	}
	for i := range s.Target.Spec.Nodes.Interfaces {
		if found, ok := interfaceOf(&s.Target.Spec.Nodes.Interfaces[i], m.Node); ok {
			out = append(out, found)
		}
	}
	return out
}

// interfaceOf is an entry of the spec on a node; false if the node has no such address.
func interfaceOf(spec *v1alpha1.InterfaceSpec, n *corev1.Node) (memberInterface, bool) {
	i := memberInterface{Interface: linstor.Interface{Name: spec.Name}}
	if key := spec.AddressFrom.NodeAnnotation; key != "" {
		i.source = "annotation " + key
		i.Address = strings.TrimSpace(n.Annotations[key])
		if i.Address == "" {
			return i, false
		}
		if why := unfit(i.Address); why != "" {
			i.trouble = &Problem{Reason: reasonBadAddress, Message: oneLine(fmt.Sprintf(
				"spec.nodes.interfaces %s: the node's %s is %q, %s; the interface stays as it is until that is corrected", spec.Name, i.source, i.Address, why))}
		}
		return i, true
	}
	i.source = string(spec.AddressFrom.AddressType)
	for _, a := range n.Status.Addresses {
		if a.Type == spec.AddressFrom.AddressType {
			i.Address = a.Address
			return i, true
		}
	}
	// A node that reports no address at all has not reported yet: it may have this one.
	i.unknown = len(n.Status.Addresses) == 0
	return i, i.unknown
}

// unfit says why other nodes cannot reach an address; "" if they can. LINSTOR takes literal addresses only, without a zone.
func unfit(text string) string {
	a, err := netip.ParseAddr(text)
	switch {
	case err != nil:
		return "which is no IP address"
	case a.Zone() != "" || a.IsLinkLocalUnicast():
		return "which is valid on one link only"
	case a.IsLoopback() || a.IsUnspecified() || a.IsMulticast():
		return "which is no address of a node"
	default:
		return ""
	}
}

// addressOwner is who has an address.
type addressOwner struct {
	node, what string
}

// indexAddresses fills in the members' interfaces, and finds addresses that two nodes have. LINSTOR takes such nodes, and then
// speaks to one satellite in the name of both.
func (s *Snapshot) indexAddresses() {
	owners := map[string][]addressOwner{}
	own := func(address string, o addressOwner) {
		key := linstor.CanonicalAddress(address)
		if !slices.ContainsFunc(owners[key], func(p addressOwner) bool { return strings.EqualFold(p.node, o.node) }) {
			owners[key] = append(owners[key], o)
		}
	}
	speaks := map[string]bool{} // nodes whose satellite has an address, so that what LINSTOR has recorded does not count
	for _, m := range s.Members {
		m.interfaces = s.interfacesOf(m)
		for i := range m.interfaces {
			if f := &m.interfaces[i]; f.usable() {
				own(f.Address, addressOwner{m.Name, f.Name + ", " + f.source})
				speaks[strings.ToLower(m.Name)] = speaks[strings.ToLower(m.Name)] || f.Name == defaultInterface
			}
		}
	}
	if v := s.Linstor.View; v != nil {
		for key, n := range v.Nodes {
			for i := range n.Interfaces {
				if !speaks[key] {
					own(n.Interfaces[i].Address, addressOwner{n.Name, n.Interfaces[i].Name + ", recorded in LINSTOR"})
				}
			}
		}
	}
	for _, m := range s.Members {
		for i := range m.interfaces {
			m.interfaces[i].trouble = firstOf(m.interfaces[i].trouble, conflict(m, &m.interfaces[i], owners))
		}
	}
}

func firstOf(a, b *Problem) *Problem {
	if a != nil {
		return a
	}
	return b
}

// conflict is the problem of an interface whose address another node has as well; nil if none has.
func conflict(m *Member, f *memberInterface, owners map[string][]addressOwner) *Problem {
	if !f.usable() {
		return nil
	}
	others := slices.DeleteFunc(slices.Clone(owners[linstor.CanonicalAddress(f.Address)]), func(o addressOwner) bool { return strings.EqualFold(o.node, m.Name) })
	if len(others) == 0 {
		return nil
	}
	slices.SortFunc(others, func(a, b addressOwner) int { return strings.Compare(a.node, b.node) }) // the order of a map would change the message
	return &Problem{Reason: reasonAddressConflict, Message: oneLine(fmt.Sprintf("interface %s (%s) has the address %s, which node %s has as well (%s)",
		f.Name, f.source, f.Address, others[0].node, others[0].what))}
}

// wantedInterfaces are the interfaces that LINSTOR shall have of the member; the first is the satellite's. None if the satellite
// has no address, or none that it can be reached at.
func (m *Member) wantedInterfaces() []linstor.Interface {
	var out []linstor.Interface
	for i := range m.interfaces {
		if m.interfaces[i].usable() {
			out = append(out, m.interfaces[i].Interface)
		}
	}
	if len(out) > 0 && out[0].Name != defaultInterface {
		return nil
	}
	return out
}

// keeps is whether the operator leaves an interface alone because its address cannot be used now.
func (m *Member) keeps(name string) bool {
	return slices.ContainsFunc(m.interfaces, func(f memberInterface) bool { return !f.usable() && strings.EqualFold(f.Name, name) })
}

// addressProblem is what is wrong with an address of the member; nil if nothing is. Of two nodes with one address both have the
// problem; it hinders the one that LINSTOR does not have at that address.
func (m *Member) addressProblem() (p *Problem, hinders bool) {
	for i := range m.interfaces {
		f := &m.interfaces[i]
		if f.trouble == nil {
			continue
		}
		have := (*linstor.Interface)(nil)
		if m.Linstor != nil {
			have = m.Linstor.Interface(f.Name)
		}
		in := f.trouble.Reason != reasonAddressConflict || have == nil || !linstor.SameAddress(have.Address, f.Address)
		if p == nil || in && !hinders {
			p, hinders = f.trouble, in
		}
	}
	return p, hinders
}
