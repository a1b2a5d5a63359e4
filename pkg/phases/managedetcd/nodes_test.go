package managedetcd_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/seats"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/managedetcd"
)

// TestAddress: a member keeps its address as long as its node has it, in whatever order the kubelet names them.
func TestAddress(t *testing.T) {
	noted := []seats.Seat{{Node: "n02", PeerURL: "http://192.0.2.1:3380"},
		{Node: "n01", PeerURL: "http://[fd00::1]:3380"}}
	for name, tc := range map[string]struct {
		has   []string
		noted []seats.Seat
		want  string
	}{
		"no address":               {nil, noted, ""},
		"no member":                {[]string{"192.0.2.1", "fd00::1"}, noted[:1], "192.0.2.1"},
		"its own one is the first": {[]string{"fd00::1", "192.0.2.1"}, noted, "fd00::1"},
		"its own one is another":   {[]string{"192.0.2.1", "fd00::1"}, noted, "fd00::1"},
		"its own one is gone":      {[]string{"192.0.2.1", "fd00::2"}, noted, "192.0.2.1"},
	} {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n01"}}
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: "n01"}}
		for _, a := range tc.has {
			n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: a})
		}
		if got := managedetcd.Address(n, tc.noted); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

// TestElsewhere: a cluster does not wait for a look at nodes that run no pods with Linux.
func TestElsewhere(t *testing.T) {
	for system, known := range map[string]bool{"": false, "linux": false, "windows": true} {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n01"}}
		n.Labels = map[string]string{corev1.LabelOSStable: system}
		if found := managedetcd.Elsewhere(n); (found != nil) != known || known && found.Data {
			t.Errorf("%q: %+v", system, found)
		}
	}
}
