package registration_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/address"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/registration"
)

// networkWorld is a cluster at rest whose nodes have the interface storage from an annotation, which DRBD prefers, and
// backup.
func networkWorld(t *testing.T, n int) *clustertest.World {
	w := clustertest.NewWorld(t, n)
	withInterfaces(w)
	for _, k := range w.Kube.Nodes {
		k.Status.Addresses = append(k.Status.Addresses,
			corev1.NodeAddress{Type: corev1.NodeExternalIP, Address: "203.0.113.1" + k.Name[1:]})
	}
	w.Accept()
	w.Register()
	w.Register() // the preferred interface is named when it is there
	return w
}

// writesFor are the calls that bring a member's registration in line; none if there is nothing to do.
func writesFor(t *testing.T, w *clustertest.World, node string) []string {
	t.Helper()
	in, r := w.Input()
	r.Now = viewOf(in.Snapshot)
	registration.Register(in, in.Snapshot.MemberByName(node))
	if len(r.Queued) == 0 {
		return nil
	}
	if err := r.Run(t, "node/"+node); err != nil {
		t.Fatal(err)
	}
	for i := range r.Calls {
		r.Calls[i] = strings.ReplaceAll(r.Calls[i], linstor.AuxPrefix, "")
	}
	return r.Calls
}

// viewOf is what LINSTOR has while a task runs: the nodes of the snapshot's view, which what is done does not change.
func viewOf(s *cluster.Snapshot) *linstor.View {
	v := *s.Linstor.View
	v.Nodes = map[string]*linstor.Node{}
	for key, n := range s.Linstor.View.Nodes {
		own := *n
		v.Nodes[key] = &own
	}
	return &v
}

// TestInterfacesAreRemovedAsTheyWereSeen: an interface that a human has made anew since the view is not the operator's
// to remove.
func TestInterfacesAreRemovedAsTheyWereSeen(t *testing.T) {
	for _, tc := range []struct {
		name string
		now  func(n *linstor.Node)
		want []string
	}{
		{name: "as seen", now: func(*linstor.Node) {}, want: []string{"delete interface n01/backup"}},
		{name: "gone", now: func(n *linstor.Node) {
			n.Interfaces = slices.DeleteFunc(slices.Clone(n.Interfaces),
				func(i linstor.Interface) bool { return i.Name == "backup" })
		}},
		{name: "another address", now: func(n *linstor.Node) {
			n.Interfaces = slices.Clone(n.Interfaces)
			n.Interface("backup").Address = "192.168.9.9"
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := networkWorld(t, 3)
			w.KubeNode("n01").Status.Addresses = w.KubeNode("n01").Status.Addresses[:1]
			in, r := w.Input()
			r.Now = viewOf(in.Snapshot)
			tc.now(r.Now.Node("n01"))
			registration.Register(in, in.Snapshot.MemberByName("n01"))
			if err := r.Run(t, "node/n01"); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tc.want, r.Calls); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestInterfacesFollowTheNode(t *testing.T) {
	annotate := func(value string) func(*clustertest.World) {
		return func(w *clustertest.World) { w.KubeNode("n01").Annotations[clustertest.StorageIP] = value }
	}
	for _, tc := range []struct {
		name    string
		spoil   func(*clustertest.World)
		want    []string
		problem string // reason of n01's problem; "" for none
		says    string // part of its message
	}{
		{name: "at rest", spoil: func(*clustertest.World) {}},
		{name: "written another way", spoil: annotate("\t192.168.0.101 ")},
		{name: "another address", spoil: annotate("192.168.7.7"),
			want: []string{"modify interface n01/storage 192.168.7.7 active=false"}},
		{name: "IPv6", spoil: annotate("fd00::1:0:0"),
			want: []string{"modify interface n01/storage fd00::1:0:0 active=false"}},
		{name: "IPv6 as LINSTOR writes it", spoil: func(w *clustertest.World) {
			annotate("fd00::a")(w)
			w.Node("n01").Interface("storage").Address = "FD00:0:0::A"
		}},
		{name: "annotation removed: PrefNic goes first",
			spoil: func(w *clustertest.World) { delete(w.KubeNode("n01").Annotations, clustertest.StorageIP) },
			want:  []string{"node n01 set  del PrefNic", "delete interface n01/storage"}},
		{name: "annotation removed while the satellite is connected over it", spoil: func(w *clustertest.World) {
			delete(w.KubeNode("n01").Annotations, clustertest.StorageIP)
			w.Node("n01").Interface("storage").Active, w.Node("n01").Interface("default").Active = true, false
		}, want: []string{"modify interface n01/default 10.0.0.01 active=true", "node n01 set  del PrefNic",
			"delete interface n01/storage"}},
		{name: "no longer preferred", spoil: func(w *clustertest.World) {
			w.Cluster.Spec.Nodes.Interfaces[0].Preferred = false
			w.Accept()
		}, want: []string{"node n01 set  del PrefNic"}},
		{name: "another one preferred", spoil: func(w *clustertest.World) {
			w.Cluster.Spec.Nodes.Interfaces[0].Preferred, w.Cluster.Spec.Nodes.Interfaces[1].Preferred = false, true
			w.Accept()
		}, want: []string{"node n01 set PrefNic=backup del "}},
		{name: "LINSTOR has gone over to another interface", spoil: func(w *clustertest.World) {
			w.Node("n01").Interface("default").Active, w.Node("n01").Interface("backup").Active = false, true
		}},
		{name: "address type gone", spoil: func(w *clustertest.World) {
			w.KubeNode("n01").Status.Addresses = w.KubeNode("n01").Status.Addresses[:1]
		},
			want: []string{"delete interface n01/backup"}},
		{name: "no addresses reported: nothing is known",
			spoil: func(w *clustertest.World) { w.KubeNode("n01").Status.Addresses = nil }},

		{name: "no IP address", spoil: annotate("storage-n01.example.com"), problem: registration.ReasonBadAddress,
			says: "annotation example.com/ip is \"storage-n01.example.com\""},
		{name: "a network", spoil: annotate("192.168.0.101/24"), problem: registration.ReasonBadAddress,
			says: "not an IP address"},
		{name: "a zone", spoil: annotate("fe80::1%eth0"), problem: registration.ReasonBadAddress, says: "single link"},
		{name: "loopback", spoil: annotate("127.0.0.1"), problem: registration.ReasonBadAddress,
			says: "spec.nodes.interfaces storage"},
		{name: "another node's", spoil: annotate("192.168.0.102"), problem: cluster.ReasonAddressConflict,
			says: "which is also used by node n02 (storage, annotation example.com/ip)"},
		{name: "another node's own", spoil: func(w *clustertest.World) {
			w.Kube.Pods[v1alpha1.ComponentSatellite]["n02"].Status.PodIP = "10.7.0.2"
			w.Node("n02").Interface("default").Address = "10.7.0.2"
			annotate("10.7.0.2")(w)
		}, problem: cluster.ReasonAddressConflict, says: "also used by node n02 (default, the satellite's address)"},
		{name: "a node's that Kubernetes does not have", spoil: func(w *clustertest.World) {
			w.Linstor.View.Nodes["gone"] = &linstor.Node{Name: "gone",
				Interfaces: []linstor.Interface{{Name: "default", Address: "192.168.9.9"}}}
			annotate("192.168.9.9")(w)
		}, problem: cluster.ReasonAddressConflict, says: "also used by node gone (default, recorded in LINSTOR)"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := networkWorld(t, 3)
			tc.spoil(w)
			if d := cmp.Diff(tc.want, writesFor(t, w, "n01")); d != "" {
				t.Error(d)
			}
			m := w.Snapshot().MemberByName("n01")
			if tc.problem == "" {
				if m.Problem != nil {
					t.Errorf("problem %+v", m.Problem)
				}
				return
			}
			if m.Problem == nil || m.Problem.Reason != tc.problem || !strings.Contains(m.Problem.Message, tc.says) ||
				m.State != v1alpha1.NodeRegistering {
				t.Errorf("%s, problem %+v", m.State, m.Problem)
			}
			if others := w.Snapshot().Complete(); others != 2 {
				t.Errorf("%d nodes are online, want the two others", others)
			}
		})
	}
}

// Both nodes show the conflict. The one that was there first goes on; the newcomer is neither registered nor left with
// a satellite: LINSTOR would speak to one satellite in the name of both.
func TestTwoNodesWithOneAddress(t *testing.T) {
	w := clustertest.NewWorld(t, 2)
	delete(w.Linstor.View.Nodes, "n02")
	w.Kube.Pods[v1alpha1.ComponentSatellite]["n02"].Status.PodIP = "10.0.0.01"
	if got := writesFor(t, w, "n02"); got != nil {
		t.Errorf("n02 is registered: %v", got)
	}
	s := w.Snapshot()
	for _, node := range []string{"n01", "n02"} {
		told := s.MemberByName(node).Problems()
		if len(told) != 1 || told[0].Reason != address.ReasonAddressTaken ||
			!strings.Contains(told[0].Message, "node n01") || !strings.Contains(told[0].Message, "node n02") {
			t.Errorf("%s: %+v", node, told)
		}
	}
	if n01, n02 := s.MemberByName("n01"), s.MemberByName("n02"); n01.State != v1alpha1.NodeOnline || n01.Problem != nil ||
		n02.State != v1alpha1.NodeHeld || n02.Problem.Hold != v1alpha1.HoldNodeRegistrationFailed {
		t.Errorf("n01 is %s, n02 %s, problem %+v", n01.State, n02.State, n02.Problem)
	}
}

// In the pods' network a satellite that was restarted may get an address that another one had before. What LINSTOR has
// recorded of a satellite counts only as long as that one has no other address.
func TestPodAddressesThatChangeHands(t *testing.T) {
	w := clustertest.NewWorld(t, 2)
	pods := w.Kube.Pods[v1alpha1.ComponentSatellite]
	pods["n01"].Status.PodIP, pods["n02"].Status.PodIP = "10.0.0.02", "10.0.0.01"
	for node, want := range map[string]string{"n01": "modify interface n01/default 10.0.0.02 active=true",
		"n02": "modify interface n02/default 10.0.0.01 active=true"} {
		if d := cmp.Diff([]string{want}, writesFor(t, w, node)); d != "" {
			t.Error(d)
		}
	}
	delete(pods, "n01")
	if got := writesFor(t, w, "n02"); got != nil {
		t.Errorf("LINSTOR would reach n02 in the name of n01: %v", got)
	}
}

func TestAddressMovesAreWrittenOnce(t *testing.T) {
	w := networkWorld(t, 1)
	w.Kube.Pods[v1alpha1.ComponentSatellite]["n01"].Status.PodIP = "fd00::5"
	if d := cmp.Diff([]string{"modify interface n01/default fd00::5 active=true"}, writesFor(t, w, "n01")); d != "" {
		t.Error(d)
	}
	w.Node("n01").Interface("default").Address = "FD00::5"
	if got := writesFor(t, w, "n01"); got != nil {
		t.Errorf("written again: %v", got)
	}
}
