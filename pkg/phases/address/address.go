// Package address finds nodes whose addresses answer for another machine. LINSTOR would make volumes on the wrong one.
package address

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/platform"
)

// Reasons of problems with machines that LINSTOR takes, or would take, for others.
const (
	ReasonAddressTaken   = "AddressTaken"
	reasonImpostor       = "ImpostorSatellite"
	ReasonLinstorUnknown = "WaitingForLinstor"
)

// FindTakenAddresses finds the members that must not have a satellite because LINSTOR knows one of their addresses as
// another node's: a machine that got the address of one that died, or that joined under a new name. LINSTOR dials the
// other node's address every few seconds, satellites have no identity, and so it would make that node's pools and
// volumes on this one. Not to register the member does not help: the satellite alone is enough.
//
// It is about members that are on their way in. No stale record stops one that has labels and registration.
func FindTakenAddresses(s *cluster.Snapshot) {
	if !s.Linstor.Known() {
		return
	}
	owners := recordedAddresses(s)
	for _, m := range s.Members {
		if m.AddressTaken = nil; m.Linstor != nil && m.Node.Labels[v1alpha1.LabelMember] != "" {
			continue
		}
		byPod := podAddress(&s.Facts, m)
		for _, address := range append(ownAddresses(m), byPod) {
			o, found := owners[linstor.CanonicalAddress(address)]
			if !found || strings.EqualFold(o.Node, m.Name) {
				continue
			}
			who, until := "node "+m.Name+" has the address", "its address changes, "
			if address == byPod {
				who, until, m.TakenPodAddress = "the satellite pod on node "+m.Name+" was assigned the address", "", byPod
			}
			m.AddressTaken = &cluster.Problem{Reason: ReasonAddressTaken, Hold: v1alpha1.HoldNodeRegistrationFailed,
				Message: fmt.Sprintf(
					"%s %s, which LINSTOR has recorded for node %s (%s) and would use for %s's volumes: "+
						"no satellite is started on the node until %s%s is declared lost, or spec.nodes excludes it",
					who, address, o.Node, o.What, o.Node, until, o.Node)}
			noteOnOwner(s, o.Node, m.AddressTaken)
			break
		}
	}
}

// podAddress is the address of a member's satellite on the pods' network, or was until it was taken away; "" if none.
func podAddress(s *cluster.Facts, m *cluster.Member) string {
	if p := m.SatellitePod; p != nil && p.Status.PodIP != "" {
		if p.Spec.HostNetwork {
			return ""
		}
		return p.Status.PodIP
	}
	return s.TakenPods[m.Node.UID]
}

// RememberTaken carries on which satellites' pods were taken away because LINSTOR has their address for another node.
// Without the pod nobody sees the address: the node would get labels and a satellite again, perhaps at the same
// address, in a loop, and LINSTOR could connect each time. So the node waits until LINSTOR has the address for nobody
// else. It is memory only: after a restart of the operator the node is tried once more. The result is a new map.
func RememberTaken(before map[types.UID]string, s *cluster.Snapshot) map[types.UID]string {
	if !s.Linstor.Known() {
		return before
	}
	after := map[types.UID]string{}
	for _, m := range s.Members {
		if m.TakenPodAddress != "" {
			after[m.Node.UID] = m.TakenPodAddress
		}
	}
	return after
}

// recordedAddresses are the addresses at which LINSTOR may look for a satellite, and the nodes that it has them for. A
// node with the address that its record has comes before another one with the same record.
func recordedAddresses(s *cluster.Snapshot) map[string]cluster.AddressOwner {
	owners, there := map[string]cluster.AddressOwner{}, map[string]bool{}
	for _, key := range slices.Sorted(maps.Keys(s.Linstor.View.Nodes)) {
		n := s.Linstor.View.Nodes[key]
		if n.Type == linstor.TypeController || n.Type == linstor.TypeAuxiliary {
			continue
		}
		m := s.MemberByName(key)
		for i := range n.Interfaces {
			address := linstor.CanonicalAddress(n.Interfaces[i].Address)
			here := m != nil && slices.ContainsFunc(ownAddresses(m),
				func(a string) bool { return linstor.SameAddress(a, address) })
			if _, found := owners[address]; !found || here && !there[address] {
				owners[address] = cluster.AddressOwner{Node: n.Name, What: "interface " + n.Interfaces[i].Name}
				there[address] = here
			}
		}
	}
	return owners
}

// ownAddresses are the addresses at which a satellite on the member would be reached, as far as they are known before
// there is one: the Node's internal ones, and those that the spec gives it.
func ownAddresses(m *cluster.Member) []string {
	out := internalAddresses(m.Node)
	for i := range m.Interfaces {
		if i := &m.Interfaces[i]; !i.Unknown && (i.Trouble == nil || i.Trouble.Reason == cluster.ReasonAddressConflict) {
			out = append(out, i.Address)
		}
	}
	return out
}

func internalAddresses(n *corev1.Node) (out []string) {
	for _, a := range n.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			out = append(out, a.Address)
		}
	}
	return out
}

// Machines are the addresses of every Node, and those at which satellites are reached or would be, by the Node's name.
// One that is no member may become one.
func Machines(s *cluster.Snapshot) map[string][]string {
	all := map[string][]string{}
	for _, n := range s.Kube.Nodes {
		all[n.Name] = internalAddresses(n)
	}
	for _, m := range s.Members {
		all[m.Name] = ownAddresses(m)
	}
	for name, p := range s.Kube.Pods[v1alpha1.ComponentSatellite] {
		if p.Status.PodIP != "" {
			all[name] = append(all[name], p.Status.PodIP)
		}
	}
	for name, addresses := range all {
		slices.Sort(addresses)
		all[name] = slices.Compact(addresses)
	}
	return all
}

// noteOnOwner shows the trouble on the node as well that LINSTOR has the address for.
func noteOnOwner(s *cluster.Snapshot, name string, p *cluster.Problem) {
	note := &cluster.Problem{Reason: p.Reason, Message: p.Message}
	if m := s.MemberByName(name); m != nil {
		m.Notes = append(m.Notes, note)
	}
	for _, g := range s.Gone {
		if strings.EqualFold(g.Name, name) && g.Problem == nil {
			g.Problem = note
		}
	}
}

// BlocksAnother reports whether another node waits because LINSTOR has its address for this member, as its problem
// says.
func BlocksAnother(m *cluster.Member) bool {
	return slices.ContainsFunc(m.Notes, func(p *cluster.Problem) bool { return p.Reason == ReasonAddressTaken })
}

// ImpostorProblem explains a node that LINSTOR takes another machine for; nil if it does not.
func ImpostorProblem(n *linstor.Node) *cluster.Problem {
	if n == nil || n.Impostor() == "" {
		return nil
	}
	return &cluster.Problem{Reason: reasonImpostor, Hold: v1alpha1.HoldNodeRegistrationFailed, Message: fmt.Sprintf(
		"LINSTOR is connected to %s, which is using the address of node %s: the actual state of %s is unknown, so the "+
			"operator changes nothing there. Give %s a different address, stop its satellite, or declare %s lost",
		n.Impostor(), n.Name, n.Name, n.Impostor(), n.Name)}
}

// ReportImpostors notes on the machines themselves that LINSTOR is connected to them under the name of another node.
func ReportImpostors(s *cluster.Snapshot) {
	if !s.Linstor.Known() {
		return
	}
	for _, n := range s.Linstor.View.Nodes {
		p := ImpostorProblem(n)
		if p == nil {
			continue
		}
		p.Hold = ""
		if m := s.MemberByName(n.Impostor()); m != nil {
			m.Notes = append(m.Notes, p)
		}
		for _, g := range s.Gone {
			if g.Linstor == n {
				g.Problem = p
			}
		}
	}
}

// Unverified reports whether the member joins a cluster whose LINSTOR has run and does not answer: nobody knows
// whether it has the address of another node. While no satellites' DaemonSet is there the labels alone start none.
func Unverified(s *cluster.Facts, m *cluster.Member) bool {
	if m.Node.Labels[v1alpha1.LabelMember] != "" || s.NeverUsed() {
		return false
	}
	return slices.ContainsFunc(platform.Profiles(),
		func(q platform.Profile) bool { return s.Kube.DaemonSets[q.SatelliteName()] != nil })
}
