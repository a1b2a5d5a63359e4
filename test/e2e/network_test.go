package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/nodespec"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
	"github.com/linstor-dev/storagecluster-operator/test/machine"
)

const storageIP = "example.com/storage-ip"

// storageNetwork wants an interface from each node's annotation, which DRBD prefers.
const storageNetwork = harness.ThinPool + `
  nodes:
    interfaces:
    - {name: storage, addressFrom: {nodeAnnotation: example.com/storage-ip}, preferred: true}
`

// interfaceWrites are the writes to nodes and their interfaces after the first skip writes, without bodies.
func interfaceWrites(e *env, skip int) []string {
	e.T.Helper()
	out := []string{}
	for _, r := range e.Sim.World().Writes()[skip:] {
		if r.Method == http.MethodPut && strings.HasSuffix(r.Path, "/reconnect") ||
			!strings.HasPrefix(r.Path, "/v1/nodes") || strings.Contains(r.Path, "storage-pools") {
			continue
		}
		out = append(out, r.Method+" "+strings.TrimPrefix(r.Path, "/v1/nodes/"))
	}
	return out
}

// onlyWrites waits for writes to nodes and checks that no more come.
func onlyWrites(e *env, skip int, want ...string) {
	e.T.Helper()
	check := func() error {
		if d := cmp.Diff(want, interfaceWrites(e, skip)); d != "" {
			return fmt.Errorf("writes (-want +got): %s", d)
		}
		return nil
	}
	e.Eventually("writes to LINSTOR", check)
	e.During(settle, "no other writes", check)
}

func (e nodeEnv) netInterface(node, name string) string {
	e.T.Helper()
	n, err := e.LinstorNode(node)
	if err != nil || n.Interface(name) == nil {
		return ""
	}
	return n.Interface(name).Address
}

// problemsOf are the reasons of problems that name a node.
func problemsOf(c *v1alpha1.StorageCluster, node string) []string {
	var out []string
	for _, p := range c.Status.Nodes.Problems {
		if slices.Contains(p.Nodes, node) {
			out = append(out, p.Reason)
		}
	}
	return out
}

func setAnnotation(e *env, node, value string) {
	e.T.Helper()
	patchNode(e, node, func(n *corev1.Node) {
		if n.Annotations == nil {
			n.Annotations = map[string]string{}
		}
		n.Annotations[storageIP] = value
		if value == "" {
			delete(n.Annotations, storageIP)
		}
	})
}

// TestStorageNetworkByAnnotation follows one node's annotation through all that can become of it, and counts what is
// written.
func TestStorageNetworkByAnnotation(t *testing.T) {
	specs := harness.Nodes(3)
	for i := range specs {
		specs[i].Annotations = map[string]string{storageIP: fmt.Sprintf("10.1.0.%d", i+1)}
	}
	e := start(t, specs)
	e.Run()
	e.Apply(harness.Manifest(storageNetwork))
	e.WaitPhase(v1alpha1.PhaseReady)
	mark := func() int { return len(e.Sim.World().Writes()) }
	wellAgain := func() {
		t.Helper()
		e.WaitStatus("all nodes online without problems", func(s *v1alpha1.StorageClusterStatus) bool {
			return s.Phase == v1alpha1.PhaseReady && s.Nodes.Summary == "3/3" && len(s.Nodes.Problems) == 0
		})
	}
	wellAgain()

	at := mark()
	setAnnotation(e, "n1", "10.1.0.11")
	onlyWrites(e, at, "PUT n1/net-interfaces/storage")
	setAnnotation(e, "n1", " 10.1.0.11\t")
	onlyWrites(e, at, "PUT n1/net-interfaces/storage")

	at = mark()
	setAnnotation(e, "n1", "10.1.0.11/24")
	c := e.WaitStatus("the slip is shown", func(s *v1alpha1.StorageClusterStatus) bool {
		return s.Nodes.Summary == "3/3" && len(s.Nodes.Problems) == 1 // LINSTOR is connected to all three all the same
	})
	checkSlip(t, c.Status.Nodes.Problems[0], "n1", "10.1.0.11/24")
	if got := harness.Condition(c, conditions.NodesRegistered); !strings.HasPrefix(got, "False/") {
		t.Errorf("NodesRegistered is %s", got)
	}
	onlyWrites(e, at, []string{}...)
	if got := e.netInterface("n1", "storage"); got != "10.1.0.11" {
		t.Errorf("after a slip the interface has %q", got)
	}

	setAnnotation(e, "n1", "10.1.0.2")
	c = e.WaitStatus("both nodes show the conflict", func(s *v1alpha1.StorageClusterStatus) bool {
		return len(s.Nodes.Problems) == 1 && s.Nodes.Problems[0].Reason == "AddressConflict" &&
			s.Nodes.Problems[0].Count == 2
	})
	if !slices.Equal(problemsOf(c, "n2"), []string{"AddressConflict"}) || c.Status.Nodes.Summary != "3/3" {
		t.Errorf("nodes %s, problems %+v", c.Status.Nodes.Summary, c.Status.Nodes.Problems)
	}
	onlyWrites(e, at, []string{}...)

	setAnnotation(e, "n1", "10.1.0.1")
	wellAgain()
	onlyWrites(e, at, "PUT n1/net-interfaces/storage")

	at = mark()
	setAnnotation(e, "n1", "")
	wellAgain()
	// PrefNic goes, the interface goes, the note of it goes
	onlyWrites(e, at, "PUT n1", "DELETE n1/net-interfaces/storage", "PUT n1")

	at = mark()
	e.Update(func(c *v1alpha1.StorageCluster) { c.Spec.Nodes.Interfaces[0].Preferred = false })
	e.Eventually("no preferred interface", func() error {
		if got := interfaceWrites(e, at); len(got) != 2 {
			return fmt.Errorf("writes %v", got)
		}
		return nil
	})
	e.Update(func(c *v1alpha1.StorageCluster) { c.Spec.Nodes.Interfaces[0].Preferred = true })
	setAnnotation(e, "n1", "10.1.0.1")
	e.Eventually("the preferred interface is back on all nodes",
		func() error { return storagePreferred(e, "n1", "n2", "n3") })
	wellAgain()
}

// checkSlip wants a problem that names the node, the annotation and the address in it that is none.
func checkSlip(t *testing.T, p v1alpha1.NodeProblem, node, address string) {
	t.Helper()
	if p.Reason != "InterfaceAddressInvalid" || !slices.Equal(p.Nodes, []string{node}) ||
		!strings.Contains(p.Message, storageIP) || !strings.Contains(p.Message, strconv.Quote(address)) {
		t.Errorf("problem %+v", p)
	}
}

// storagePreferred wants the interface storage on the nodes, and DRBD to replicate over it.
func storagePreferred(e *env, nodes ...string) error {
	for _, name := range nodes {
		if n, err := e.LinstorNode(name); err != nil || n.Properties["PrefNic"] != "storage" ||
			n.Interface("storage") == nil {
			return fmt.Errorf("%s: %+v %w", name, n, err)
		}
	}
	return nil
}

// TestSatelliteAddressChanges counts the writes when satellites get other addresses: one for each change.
func TestSatelliteAddressChanges(t *testing.T) {
	t.Parallel()
	for _, mode := range []nodespec.NetworkMode{nodespec.NetworkHost, nodespec.NetworkPod} {
		t.Run(string(mode), func(t *testing.T) {
			e := start(t, harness.Nodes(2))
			e.Run()
			e.Apply(harness.Manifest(fmt.Sprintf("  nodes: {network: {mode: %s}}", mode) + harness.ThinPool))
			e.WaitPhase(v1alpha1.PhaseReady)
			before := e.netInterface("n1", "default")
			at := len(e.Sim.World().Writes())
			if mode == nodespec.NetworkHost {
				if err := e.Sim.SetNodeAddress("n1", "192.168.77.7"); err != nil {
					t.Fatal(err)
				}
				if err := e.Sim.RebootNode(e.Ctx, "n1", map[string]string{}); err != nil {
					t.Fatal(err)
				}
			} else {
				e.deletePods(client.MatchingFields{"spec.nodeName": "n1"},
					client.MatchingLabels{v1alpha1.LabelComponent: v1alpha1.ComponentSatellite})
			}
			e.Eventually("LINSTOR has the new address", func() error {
				if now := e.netInterface("n1", "default"); now == before || now == "" {
					return fmt.Errorf("address is %s", now)
				}
				return nil
			})
			onlyWrites(e, at, "PUT n1/net-interfaces/default")
			e.ready("2/2", "2/2")
		})
	}
}

func (e *env) deletePods(opts ...client.ListOption) {
	e.T.Helper()
	var pods corev1.PodList
	if err := e.Client().List(e.Ctx, &pods, append(opts, client.InNamespace(v1alpha1.WorkloadNamespace))...); err != nil {
		e.T.Fatal(err)
	}
	for i := range pods.Items {
		if err := e.Client().Delete(e.Ctx, &pods.Items[i]); err != nil {
			e.T.Fatal(err)
		}
	}
}

func TestIPv6(t *testing.T) {
	t.Parallel()
	for _, mode := range []nodespec.NetworkMode{nodespec.NetworkHost, nodespec.NetworkPod} {
		t.Run(string(mode), func(t *testing.T) {
			specs := harness.Nodes(2)
			for i := range specs {
				specs[i].Machine.Address = fmt.Sprintf("fd00:a::%x", i+10)
				specs[i].Annotations = map[string]string{storageIP: fmt.Sprintf("fd00:b:0:0::%x", i+10)}
			}
			e := start(t, specs)
			e.Run()
			e.Apply(harness.Manifest(storageNetwork + fmt.Sprintf("    network: {mode: %s}\n", mode)))
			e.WaitPhase(v1alpha1.PhaseReady)
			for _, name := range []string{"n1", "n2"} {
				n := e.Node(name)
				if got := e.netInterface(name, "storage"); !linstor.SameAddress(got, n.Annotations[storageIP]) {
					t.Errorf("%s: storage has %s", name, got)
				}
				if own := e.netInterface(name,
					"default"); (own == n.Status.Addresses[0].Address) != (mode == nodespec.NetworkHost) ||
					!strings.Contains(own, ":") {
					t.Errorf("%s: default has %s", name, own)
				}
			}
			onlyWrites(e, len(e.Sim.World().Writes()), []string{}...)
			e.ready("2/2", "2/2")
		})
	}
}

// TestLinstorChangesTheActiveInterface: LINSTOR goes over to another interface by itself when it cannot connect. The
// operator looks at addresses only, and lets it.
func TestLinstorChangesTheActiveInterface(t *testing.T) {
	specs := harness.Nodes(2)
	for i := range specs {
		specs[i].Annotations = map[string]string{storageIP: fmt.Sprintf("10.1.0.%d", i+1)}
	}
	e := start(t, specs)
	e.Run()
	e.Apply(harness.Manifest(storageNetwork))
	e.WaitPhase(v1alpha1.PhaseReady)
	// A human lets LINSTOR connect over the storage network, where no satellite answers in this cluster: LINSTOR comes
	// back.
	err := e.Linstor().ModifyInterface(e.Ctx, "n1",
		linstor.Interface{Name: "storage", Address: "10.1.0.1", Port: 3366, Active: true})
	if err != nil && !linstor.IsUnreachable(err) {
		t.Fatal(err)
	}
	at := len(e.Sim.World().Writes())
	active := func() string {
		n, err := e.LinstorNode("n1")
		if err != nil {
			return err.Error()
		}
		for _, i := range n.Interfaces {
			if i.Active {
				return i.Name + " " + n.Status
			}
		}
		return "none"
	}
	e.Eventually("LINSTOR is back on the default interface", func() error {
		if got := active(); got != "default ONLINE" {
			return fmt.Errorf("active is %s", got)
		}
		return nil
	})
	onlyWrites(e, at, []string{}...)
	e.ready("2/2", "2/2")
}

// TestPreferredInterfaceChangesNodeByNode while there is a volume: what LINSTOR is told of the next node comes after
// DRBD on the last one had time to connect.
func TestPreferredInterfaceChangesNodeByNode(t *testing.T) {
	specs := harness.Nodes(3)
	for i := range specs {
		specs[i].Annotations = map[string]string{storageIP: fmt.Sprintf("10.1.0.%d", i+1)}
	}
	e := start(t, specs)
	e.Timing.LinkSettled = machine.Slow(10 * time.Second)
	e.Run()
	e.Apply(harness.Manifest(storageNetwork))
	e.Update(func(c *v1alpha1.StorageCluster) { c.Spec.Nodes.Interfaces[0].Preferred = false })
	e.ready("3/3", "3/3")
	if err := e.Sim.World().Volumes().Create("pvc-1", 1<<20, "ssd", "n1", "n2", "n3"); err != nil {
		t.Fatal(err)
	}
	e.Eventually("none is preferred", func() error { return e.prefers(0) })
	e.Update(func(c *v1alpha1.StorageCluster) { c.Spec.Nodes.Interfaces[0].Preferred = true })
	for n := 1; n <= 3; n++ {
		e.Eventually(fmt.Sprintf("%d nodes prefer it", n), func() error { return e.prefers(n) })
		if n < 3 {
			e.During(time.Second, "the next waits", func() error { return e.prefers(n) })
		}
	}
	e.ready("3/3", "3/3")
}

// prefers reports whether so many nodes prefer the interface storage.
func (e nodeEnv) prefers(want int) error {
	n := 0
	for _, name := range []string{"n1", "n2", "n3"} {
		switch got, err := e.LinstorNode(name); {
		case err != nil:
			return err
		case got.Properties["PrefNic"] == "storage":
			n++
		}
	}
	if n != want {
		return fmt.Errorf("%d nodes prefer it, want %d", n, want)
	}
	return nil
}
