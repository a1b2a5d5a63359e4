package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster"
)

// satellitePods counts the satellites' pods on a node.
func (e nodeEnv) satellitePods(node string) int {
	e.T.Helper()
	var pods corev1.PodList
	if err := e.Client().List(e.Ctx, &pods, client.InNamespace(v1alpha1.WorkloadNamespace),
		client.MatchingLabels{v1alpha1.LabelComponent: v1alpha1.ComponentSatellite},
		client.MatchingFields{"spec.nodeName": node}); err != nil {
		e.T.Fatal(err)
	}
	return len(pods.Items)
}

// noSatellite checks that there is none on a node, and that LINSTOR is not connected to anything in the name of
// another.
func (e nodeEnv) noSatellite(node, linstorNode string) {
	e.T.Helper()
	e.During(settle, "no satellite on "+node, func() error {
		if n := e.satellitePods(node); n > 0 {
			return fmt.Errorf("%d pods", n)
		}
		if s, _ := e.Sim.World().NodeStatus(linstorNode); s != "OFFLINE" {
			return fmt.Errorf("%s is %s", linstorNode, s)
		}
		return nil
	})
}

// addAt adds a machine that got the address of another one.
func (e nodeEnv) addAt(name, address string, number int) {
	e.T.Helper()
	m := harness.Machine(number)
	m.Address = address
	e.AddNode(simcluster.NodeSpec{Name: name, Machine: m})
}

// A machine died for good, and a new one gets its address: LINSTOR, which dials that address every few seconds, must
// find nobody there until the old node was declared lost. Then the new one joins by itself.
func TestNewMachineAtTheAddressOfADeadOne(t *testing.T) {
	e, victim, _ := withVolume(t, 5, removeGone)
	address := e.Node(victim).Status.Addresses[0].Address
	e.dies(victim)
	e.addAt("n9", address, 9)

	c := e.WaitStatus("both nodes are told", func(s *v1alpha1.StorageClusterStatus) bool {
		return slices.ContainsFunc(s.Nodes.Problems, func(p v1alpha1.NodeProblem) bool {
			return p.Reason == "AddressTaken" && slices.Contains(p.Nodes, "n9") && slices.Contains(p.Nodes, victim)
		})
	})
	for _, p := range c.Status.Nodes.Problems {
		if p.Reason == "AddressTaken" && (!strings.Contains(p.Message, address) ||
			!strings.Contains(p.Message, "declared lost")) {
			t.Errorf("message %q", p.Message)
		}
	}
	e.noSatellite("n9", victim)
	if labels := e.Node("n9").Labels; labels[v1alpha1.LabelMember] != "" {
		t.Errorf("labels %v", labels)
	}
	e.Resume(e.WaitNodeHold(v1alpha1.HoldNodeGone), v1alpha1.OptionDeclareLost)
	e.lost(victim)
	e.ready("5/5", "5/5")
	if have := e.Sim.World().Volumes().Data("pvc-1"); slices.Contains(have, "n9") {
		t.Errorf("pvc-1 is on %v", have)
	}
}

// Somebody started a satellite on the new machine, so that LINSTOR is connected to it in the old node's name: it is
// not taken for the old node, a human's word about that one is kept and carried out.
func TestImpostorIsNotTakenForTheNode(t *testing.T) {
	e, victim, other := withVolume(t, 5, removeGone)
	address := e.Node(victim).Status.Addresses[0].Address
	e.dies(victim)
	h := e.WaitNodeHold(v1alpha1.HoldNodeGone)
	e.StopOperator()
	e.addAt("n9", address, 9)
	patchNode(e, "n9", func(n *corev1.Node) {
		for _, key := range []string{v1alpha1.LabelMember, v1alpha1.LabelOS, v1alpha1.LabelPlatform} {
			n.Labels[key] = e.Node(other).Labels[key]
		}
	})
	e.WaitConnection(victim, "ONLINE") // to n9, in the name of the other node
	e.Run()
	e.Eventually("n9's satellite goes", func() error {
		if n := e.satellitePods("n9"); n > 0 {
			return fmt.Errorf("%d pods", n)
		}
		return nil
	})
	if since := e.mark(victim, "gone-since"); since == "" {
		t.Error("it is not remembered any more since when the node is gone")
	}
	e.Resume(h, v1alpha1.OptionDeclareLost)
	// LINSTOR has made the volume on n9, where its DRBD device outlives the satellite.
	e.goneMessage(victim, "still has a DRBD connection")
	e.notLost(victim)
	if err := e.Sim.RebootNode(e.Ctx, "n9", map[string]string{}); err != nil {
		t.Fatal(err)
	}
	e.lost(victim)
	e.ready("5/5", "5/5")
}
