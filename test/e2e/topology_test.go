package e2e

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/storageclass"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
)

const zoneLabel = "topology.kubernetes.io/zone"

// knownIn waits until LINSTOR and the node's kubelet have the node in a zone.
func (e claimEnv) knownIn(node, zone string) {
	e.T.Helper()
	e.Eventually(fmt.Sprintf("%s is known to be in zone %s", node, zone), func() error {
		n, err := e.LinstorNode(node)
		if err != nil {
			return err
		}
		if got := n.Properties[linstor.TopologyPrefix+zoneLabel]; got != zone {
			return fmt.Errorf("LINSTOR has it in zone %q", got)
		}
		var kubelet storagev1.CSINode
		if err := e.Client().Get(e.Ctx, client.ObjectKey{Name: node}, &kubelet); err != nil {
			return err
		}
		for _, d := range kubelet.Spec.Drivers {
			if d.Name == resources.DriverName && slices.Contains(d.TopologyKeys, zoneLabel) {
				return nil
			}
		}
		return errors.New("its kubelet does not know that it is in a zone")
	})
}

// TestZones places the copies of a volume in two zones, follows a node that moves, and says of a StorageClass that
// there are too few zones for it.
func TestZones(t *testing.T) {
	nodes := harness.Nodes(3)
	for i, zone := range []string{"a", "a", "b"} {
		nodes[i].Labels = map[string]string{zoneLabel: zone}
	}
	e := claimEnv{startWithDriver(t, nodes)}
	e.Run()
	e.Apply(harness.Manifest(`
  volumes:
    driver: {mode: Managed}
    topologyKeys: [topology.kubernetes.io/zone]
    storageClasses:
    - {name: zones, storagePools: [ssd], parameters: {replicasOnDifferent: topology.kubernetes.io/zone}}
` + harness.ThinPool))
	e.says(conditions.VolumeDriverReady, "True/DriverRunning", "3 of 3 nodes")
	e.says(conditions.StorageClassesReady, conditions.ReasonAsExpected)
	for node, zone := range map[string]string{"n1": "a", "n2": "a", "n3": "b"} {
		e.knownIn(node, zone)
	}
	claim := e.claim("data", "zones", "1Gi")
	pod := e.pod("writer", "data", "n1", "write /data/a b")
	e.phase(pod, corev1.PodSucceeded)
	volume := e.bound(claim)
	copies, err := e.Linstor().Resources(e.Ctx, linstor.ResourceQuery{Names: []string{volume.Name}})
	if err != nil {
		t.Fatal(err)
	}
	diskful := map[string]bool{}
	for _, r := range copies {
		if r.Diskful {
			diskful[r.Node] = true
		}
	}
	if len(diskful) != 2 || !diskful["n3"] {
		t.Errorf("copies are on %v: none is in zone b, or one is too many", diskful)
	}

	patchNode(e.env, "n3", func(n *corev1.Node) { n.Labels[zoneLabel] = "a" })
	e.knownIn("n3", "a")
	e.says(conditions.StorageClassesReady, storageclass.ReasonUnsatisfiable,
		`values on the 3 nodes that can hold a replica: "a" (3)`)
}
