package judge

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/linstor/copies"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/adopt/seen"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

// judgeNodes says of each node what is there, and what can go wrong.
func (s *facts) judgeNodes(g *generated) []Node {
	sets, wanted := s.satelliteSets(), map[string][]seen.Pool{}
	for i := range s.Satellites {
		key := strings.ToLower(s.Satellites[i].Name)
		wanted[key] = []seen.Pool{}
		for j := range s.Satellites[i].Spec.StoragePools {
			wanted[key] = append(wanted[key], s.Satellites[i].Spec.StoragePools[j].InLinstor())
		}
	}
	names := map[string]string{}
	for i := range s.Satellites {
		names[strings.ToLower(s.Satellites[i].Name)] = s.Satellites[i].Name
	}
	for key, n := range s.Linstor.Nodes {
		names[key] = n.Name
	}
	out := make([]Node, 0, len(names))
	for _, key := range slices.Sorted(maps.Keys(names)) {
		n := Node{Name: names[key], Network: "unknown"}
		if d := sets[key]; d != nil && d.Spec.Template.Spec.HostNetwork {
			n.Network = "host"
		} else if d != nil {
			n.Network = "container"
		}
		l := s.Linstor.Nodes[key]
		if l == nil {
			l = &seen.LinstorNode{}
			if s.Linstor.From != "" {
				n.Risks = append(n.Risks, "a LinstorSatellite exists for this node, but LINSTOR has no node with this name")
			}
		}
		n.Status, n.Flags = l.Status, l.Flags
		s.interfaces(&n, l)
		s.poolsOf(&n, key, l, wanted, g)
		s.copiesOf(&n, key)
		out = append(out, n)
	}
	return out
}

// interfaces are what becomes of addresses. Piraeus' have names of their own, which stay.
func (s *facts) interfaces(n *Node, l *seen.LinstorNode) {
	k := s.kubernetesNode(n.Name)
	for _, i := range l.Interfaces {
		out := Interface{Name: i.Name, Now: shown(i.Address, i)}
		if k != nil {
			after := addressOf(k, i.Address)
			switch {
			case !strings.HasPrefix(i.Name, "default"):
				out.After = out.Now // somebody made it by hand
			case after != "":
				out.After = shown(after, i)
			}
		}
		n.Interfaces = append(n.Interfaces, out)
	}
}

func shown(address string, i seen.NetInterface) string {
	if i.Port == 0 {
		return address
	}
	if strings.Contains(address, ":") {
		address = "[" + address + "]"
	}
	return fmt.Sprintf("%s:%d %s", address, i.Port, i.Encryption)
}

// addressOf is the address at which a satellite on the host's network is reached: an InternalIP of the same family as
// another address, or the first one.
func addressOf(k *corev1.Node, like string) string {
	old, err := netip.ParseAddr(like)
	for _, a := range k.Status.Addresses {
		if a.Type != corev1.NodeInternalIP {
			continue
		}
		now, bad := netip.ParseAddr(a.Address)
		if err != nil || bad == nil && now.Is4() == old.Is4() {
			return a.Address
		}
	}
	return ""
}

// poolsOf compares what LINSTOR has with what Piraeus' objects ask for.
func (s *facts) poolsOf(n *Node, key string, l *seen.LinstorNode, wanted map[string][]seen.Pool, g *generated) {
	asked, known := wanted[key]
	for _, p := range l.Pools {
		out := Pool{Name: p.Name, Kind: p.Kind, Place: p.Place, State: PoolExtra,
			Entry: g.entries[[2]string{key, strings.ToLower(p.Name)}]}
		i := slices.IndexFunc(asked, func(o seen.Pool) bool { return strings.EqualFold(o.Name, p.Name) })
		switch {
		case !known:
			out.State = PoolUnknown
		case i >= 0 && asked[i].Kind == p.Kind && asked[i].Place == p.Place:
			out.State = PoolSame
		case i >= 0:
			out.State = PoolDiffers
			n.Risks = append(n.Risks, fmt.Sprintf("pool %s is %s %s in LINSTOR, but %s %s in Piraeus' objects; the "+
				"definition in LINSTOR applies", p.Name, p.Kind, p.Place, asked[i].Kind, asked[i].Place))
		}
		n.Pools = append(n.Pools, out)
	}
	for _, p := range asked {
		if slices.ContainsFunc(l.Pools, func(o seen.Pool) bool { return strings.EqualFold(o.Name, p.Name) }) {
			continue
		}
		out := Pool{Name: p.Name, Kind: p.Kind, Place: p.Place, State: PoolUnknown}
		if s.Linstor.From != "" {
			out.State = PoolMissing
			n.Risks = append(n.Risks, fmt.Sprintf("Piraeus' objects define pool %s, but it does not exist in LINSTOR; the "+
				"StorageCluster omits it", p.Name))
		}
		n.Pools = append(n.Pools, out)
	}
}

// copiesOf counts what is on a node, and finds volumes that stop when its satellite is replaced. On the container
// network the connections of DRBD go through the network of the satellite's pod and end with it.
func (s *facts) copiesOf(n *Node, key string) {
	var last, remote, perhaps []string
	for i := range s.Linstor.Copies {
		v := &s.Linstor.Copies[i]
		if v.Node != key {
			continue
		}
		if !v.Diskless {
			n.Copies++
			if !s.elsewhere(v) {
				last = append(last, v.Resource)
			}
			continue
		}
		n.Diskless++
		switch {
		case slices.Contains(v.Flags, "TIE_BREAKER") && (v.InUse == nil || !*v.InUse):
		case v.InUse == nil:
			perhaps = append(perhaps, v.Resource)
		case *v.InUse:
			remote = append(remote, v.Resource)
		}
	}
	if len(last) > 0 {
		n.Risks = append(n.Risks, "last replica known to be up to date: "+text.ListSome(last)+". Pods on other nodes "+
			"cannot use these volumes while this node is disconnected")
	}
	if n.Network == "host" {
		return
	}
	if len(remote) > 0 {
		n.Risks = append(n.Risks, "in use on this node without a local replica: "+text.ListSome(remote)+". I/O on these "+
			"volumes stops while the satellite is replaced: first move the pods to other nodes")
	}
	if len(perhaps) > 0 {
		n.Risks = append(n.Risks, "no local replica, and unknown whether in use: "+text.ListSome(perhaps)+". If pods "+
			"on this node use these volumes, their I/O stops while the satellite is replaced")
	}
}

// elsewhere reports whether another node is known to have a good copy. Where it was not seen how copies are doing, any
// copy counts that is to stay, and a blocker says that it was not seen.
func (s *facts) elsewhere(v *seen.Copy) bool {
	return slices.ContainsFunc(s.Linstor.Copies, func(o seen.Copy) bool {
		if o.Node == v.Node || o.Diskless || !strings.EqualFold(o.Resource, v.Resource) {
			return false
		}
		n := s.Linstor.Nodes[o.Node]
		if n == nil || copies.Going(n.Flags) || copies.Going(o.Flags) {
			return false
		}
		return !s.Linstor.Running || n.Status == "ONLINE" && o.Good()
	})
}
