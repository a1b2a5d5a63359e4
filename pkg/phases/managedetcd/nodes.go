package managedetcd

import (
	"cmp"
	"net/url"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/datadir"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/seats"
)

// Address is where a member on a node is reached: at the address that it was planned with while the node still has it,
// or else at its first one; "" if it has none. A kubelet may name the addresses of two families in another order, and
// members must not be restarted for that.
func Address(n *corev1.Node, all []seats.Seat) (address string) {
	var has []string
	for _, a := range n.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			has = append(has, a.Address)
			address = cmp.Or(address, a.Address)
		}
	}
	for _, s := range all {
		if u, err := url.Parse(s.PeerURL); s.Node == n.Name && err == nil && slices.Contains(has, u.Hostname()) {
			return u.Hostname()
		}
	}
	return address
}

// Elsewhere is what is known of the data directory of a node with another operating system, on which neither a member
// nor a pod that looks runs; nil for one with Linux, or one that does not say.
func Elsewhere(n *corev1.Node) *datadir.Found {
	if system := n.Labels[corev1.LabelOSStable]; system != "" && system != string(corev1.Linux) {
		return &datadir.Found{}
	}
	return nil
}
