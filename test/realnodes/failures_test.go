package realnodes

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
	"github.com/linstor-dev/storagecluster-operator/test/realnodes/node"
	"github.com/linstor-dev/storagecluster-operator/test/realnodes/programs"
)

// killPrograms kills a node's kubelet, and then its container runtime. Containers survive both, and the operator must
// not restart any pod for it.
func killPrograms(c *cluster) {
	n := c.nodes[1]
	before := c.containers(n.Name)
	c.must(n.Kill(programs.Kubelet))
	c.must(n.StartKubelet())
	c.heard(n)
	c.must(n.Kill(programs.Containerd))
	c.must(n.StartContainerd())
	c.heard(n)
	c.Eventually("the container runtime runs commands in a pod again", func() error {
		satellite := c.onNode(v1alpha1.ComponentSatellite, n.Name)
		_, err := c.Sim.Kubectl(c.Ctx, "-n", satellite.Namespace, "exec", satellite.Name, "--", "true")
		return err
	})
	c.ready("3/3")
	if after := c.containers(n.Name); !maps.Equal(before, after) {
		c.T.Errorf("containers on %s, with their restarts: %v; before: %v", n.Name, after, before)
	}
}

// heard waits for a sign of life that a node's kubelet gives after now.
func (c *cluster) heard(n *node.Node) {
	c.T.Helper()
	since := metav1.NowMicro()
	c.Eventually("the kubelet of "+n.Name+" renews its Lease", func() error {
		var lease coordinationv1.Lease
		key := client.ObjectKey{Namespace: corev1.NamespaceNodeLease, Name: n.Name}
		if err := c.Client().Get(c.Ctx, key, &lease); err != nil {
			return err
		}
		if lease.Spec.RenewTime.Before(&since) {
			return fmt.Errorf("it did last at %s", lease.Spec.RenewTime)
		}
		return nil
	})
}

// containers are LINSTOR's on a node, as the pod's UID and the container's name, with how often each was restarted.
func (c *cluster) containers(node string) map[string]int32 {
	c.T.Helper()
	out := map[string]int32{}
	for _, p := range c.podsIn(v1alpha1.WorkloadNamespace) {
		for _, s := range p.Status.ContainerStatuses {
			if p.Spec.NodeName == node {
				out[fmt.Sprintf("%s %s %s", p.Name, p.UID, s.Name)] = s.RestartCount
			}
		}
	}
	return out
}

// onNode is a component's pod on a node.
func (c *cluster) onNode(component, node string) *corev1.Pod {
	c.T.Helper()
	for _, p := range c.component(component) {
		if p.Spec.NodeName == node {
			return &p
		}
	}
	c.T.Fatalf("no pod of %s on %s", component, node)
	return nil
}

// cutPower cuts the power of a node other than the LINSTOR controller's, and switches the node on again.
func cutPower(c *cluster) {
	busy := c.component(v1alpha1.ComponentController)[0].Spec.NodeName
	i := slices.IndexFunc(c.nodes, func(n *node.Node) bool { return n.Name != busy })
	n := c.nodes[i]
	c.must(n.PowerOff())
	c.Sim.World().Machine(n.Name).PowerOff()
	c.volumes.lost(n.Name)
	c.WaitStatus(n.Name+" is reported", func(s *v1alpha1.StorageClusterStatus) bool {
		return s.Phase == v1alpha1.PhaseDegraded && s.Nodes.Summary == "2/3" &&
			slices.ContainsFunc(s.Nodes.Problems, func(p v1alpha1.NodeProblem) bool { return slices.Contains(p.Nodes, n.Name) })
	})
	c.must(n.PowerOn())
	c.must(n.RouteTo(c.nodes))
	c.heard(n)
	c.waitReady(n.Name)
	c.ready("3/3")
}

// drain drains a node with the last copy of a volume that is used there: not before it is no longer used.
func drain(c *cluster) {
	const name, volume = "n2", "pvc-one"
	c.guarded()
	volumes := c.Sim.World().Volumes()
	c.must(volumes.Create(volume, 1<<20, "ssd", name))
	volumes.SetInUse(volume, name, true)
	args := []string{"drain", name, "--ignore-daemonsets", "--delete-emptydir-data"}
	out, err := c.Sim.Kubectl(c.Ctx, append(args, "--timeout=20s")...)
	if err == nil || !strings.Contains(err.Error(), "disruption budget") {
		c.T.Errorf("kubectl drain is not held: %v\n%s", err, out)
	}
	want := name + ": it has the last healthy replica of 1 volume: " + volume
	if cond := meta.FindStatusCondition(c.Get().Status.Conditions, conditions.DrainGuardReady); cond == nil ||
		!strings.Contains(cond.Message, want) {
		c.T.Errorf("DrainGuardReady does not say %q: %+v", want, cond)
	}
	volumes.SetInUse(volume, name, false)
	c.kubectl(append(args, "--timeout=3m")...)
	c.must(volumes.Delete(volume))
	c.kubectl("uncordon", name)
	c.ready("3/3")
	c.guarded()
}

// guarded waits until each node has its drain guard. Operators create them after a cluster has become Ready.
func (c *cluster) guarded() {
	c.T.Helper()
	c.Eventually("all nodes have drain guards", func() error {
		return harness.Guarded(&c.Administrator, "n1", "n2", "n3")
	})
}
