package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
	"github.com/linstor-dev/storagecluster-operator/test/sim"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster"
)

// swapped gives the disk that is to be used the name of the large one, and back.
var swapped = map[string]string{"sdb": "sdc", "sdc": "sdb"}

// TestDevicesSurviveReboots makes a pool from the disk of a serial number. Before the pool is made on n1 and after it
// was made on n2 the disks change their kernel names.
func TestDevicesSurviveReboots(t *testing.T) {
	e := start(t, harness.Nodes(3))
	// n1 gets as far as its intent, under the disk's old name.
	e.Fault(drop(http.MethodPost, "/v1/physical-storage/n1"))
	e.Run()
	e.Apply(harness.Manifest(harness.DevicePool))
	e.Eventually("the intent for n1 is written", func() error { return e.intended("n1", "serial:S4EV1") })
	e.Eventually("the device step is tried", func() error {
		if len(e.deviceSteps("n1")) == 0 {
			return errors.New("not yet")
		}
		return nil
	})
	if err := e.Sim.RebootNode(e.Ctx, "n1", swapped); err != nil {
		t.Fatal(err)
	}
	e.Fault(nil)
	e.WaitPhase(v1alpha1.PhaseReady)
	e.WaitPools("3/3")
	for i, n := range []string{"n1", "n2", "n3"} {
		e.expectGroup(n, "vg_new", fmt.Sprintf("S4EV%d", i+1))
		if got := e.Signature(n, fmt.Sprintf("ZA%d", i+1)); got != "" {
			t.Errorf("node %s: the other disk has %s", n, got)
		}
	}
	steps := e.deviceSteps("n1")
	if last := steps[len(steps)-1]; !strings.Contains(string(last.Body), "/dev/sdc") ||
		last.Status != http.StatusCreated {
		t.Errorf("the device step after the reboot was %s → %d", last.Body, last.Status)
	}
	if err := e.Sim.World().Volumes().Create("pvc-1", 1<<20, "ssd", "n2", "n3"); err != nil {
		t.Fatal(err)
	}
	e.Sim.World().ResetRequests()
	if err := e.Sim.RebootNode(e.Ctx, "n2", swapped); err != nil {
		t.Fatal(err)
	}
	e.Eventually("n2 is back", func() error {
		if s, _ := e.Sim.World().NodeStatus("n2"); s != "ONLINE" || e.Get().Status.Nodes.Online != 3 {
			return fmt.Errorf("n2 is %s, %d online", s, e.Get().Status.Nodes.Online)
		}
		return nil
	})
	e.WaitPhase(v1alpha1.PhaseReady)
	e.expectGroup("n2", "vg_new", "S4EV2")
	if w := e.objectWrites(); len(w) > 0 {
		t.Errorf("LINSTOR was written to after the reboot: %v", w)
	}
	if data := e.Sim.World().Volumes().Data("pvc-1"); len(data) != 2 {
		t.Errorf("the volume's data is on %v", data)
	}
	e.expectCarefulDevices()
}

// intended fails unless an intent for the node's disk was written to LINSTOR.
func (e poolEnv) intended(node, disk string) error {
	for _, w := range e.Sim.World().Writes() {
		if w.Method == http.MethodPut && w.Path == "/v1/nodes/"+node && strings.Contains(string(w.Body), disk) {
			return nil
		}
	}
	return errors.New("no intent")
}

// withDisk is nodes whose disk sdb is changed.
func withDisk(n int, change func(i int, d *sim.Disk)) []simcluster.NodeSpec {
	ns := harness.Nodes(n)
	for i := range ns {
		change(i+1, &ns[i].Machine.Disks[1])
	}
	return ns
}

func TestRefusedDevices(t *testing.T) {
	t.Parallel()
	const byModel = `
  nodes: {minReady: 100%}
  storagePools:
  - name: ssd
    lvmThin: {volumeGroup: vg_new, thinPool: thin}
    devices: {match: [{model: "INTEL*"}]}
`
	cases := []struct {
		name    string
		nodes   []simcluster.NodeSpec
		volumes []*corev1.PersistentVolume
		refused []string // nodes
		message string
	}{
		{
			name: "no identity", message: "neither a serial number nor a WWN", refused: []string{"n2"},
			// The model gives a disk without a serial number the name of its slot, so the operator has to see a blank.
			nodes: withDisk(3, func(i int, d *sim.Disk) {
				if i == 2 {
					d.Serial, d.WWN = " ", ""
				}
			}),
		},
		{
			name: "shared", message: "same WWN as a disk on node", refused: []string{"n1", "n3"},
			nodes: withDisk(3, func(i int, d *sim.Disk) {
				if i != 2 {
					d.WWN = "0xabc"
				}
			}),
		},
		{
			name: "local volumes", message: "used by the local PersistentVolume by-", refused: []string{"n1", "n3"},
			nodes: harness.Nodes(3),
			volumes: []*corev1.PersistentVolume{
				localVolume("by-name", "/dev/sdb", "n1"), localVolume("by-id", "/dev/disk/by-id/wwn-0x60003", "n3"),
				localVolume("elsewhere", "/dev/sda", "n2"),
			},
		},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			e := start(t, tc.nodes)
			for _, pv := range tc.volumes {
				if err := e.Client().Create(e.Ctx, pv); err != nil {
					t.Fatal(err)
				}
			}
			e.Run()
			e.Apply(harness.Manifest(byModel))
			hold := e.WaitHold(v1alpha1.HoldDeviceMissing)
			if !strings.Contains(hold.Message, tc.message) || !slices.Equal(hold.Nodes, tc.refused) {
				t.Errorf("hold of %v: %s", hold.Nodes, hold.Message)
			}
			for _, n := range []string{"n1", "n2", "n3"} {
				if steps := e.deviceSteps(n); len(steps) > 0 && slices.Contains(tc.refused, n) {
					t.Errorf("node %s: disks were used: %s", n, steps[0].Body)
				}
			}
			// skip goes on without the pool there.
			e.Resume(hold, v1alpha1.OptionSkip)
			c := e.WaitPhase(v1alpha1.PhaseReady)
			if want := fmt.Sprintf("%d/%d", 3-len(tc.refused), 3-len(tc.refused)); c.Status.Pools.Summary != want {
				t.Errorf("pools %s, want %s", c.Status.Pools.Summary, want)
			}
			e.expectCarefulDevices()
		})
	}
}

// localVolume is a PersistentVolume on a node's device.
func localVolume(name, path, node string) *corev1.PersistentVolume {
	block := corev1.PersistentVolumeBlock
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:               corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("500Gi")},
			AccessModes:            []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			VolumeMode:             &block,
			StorageClassName:       "local",
			PersistentVolumeSource: corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: path}},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{
					MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname,
						Operator: corev1.NodeSelectorOpIn, Values: []string{node}}},
				}},
			}},
		},
	}
}

func TestOptionalDevices(t *testing.T) {
	ns := harness.Nodes(3)
	ns[1].Machine.Disks = slices.Delete(ns[1].Machine.Disks, 1, 2)
	e := start(t, ns)
	e.Run()
	e.Apply(harness.Manifest(strings.Replace(harness.DevicePool, "}]}", "}], optional: true}", 1)))
	c := e.WaitPhase(v1alpha1.PhaseReady)
	if c.Status.Pools.Summary != "2/2" || c.Status.Nodes.Summary != "3/3" || e.View().Pool("n2", "ssd") != nil {
		t.Errorf("pools %s, nodes %s", c.Status.Pools.Summary, c.Status.Nodes.Summary)
	}
	// A disk that comes later is used.
	e.Sim.World().Machine("n2").AttachDisk(sim.Disk{Name: "sdd", SizeBytes: 500 << 30, Model: "INTEL SSDPE2KX",
		Serial: "S4EV2", WWN: "0x60002"})
	e.WaitPools("3/3")
	e.expectGroup("n2", "vg_new", "S4EV2")
	e.expectCarefulDevices()
	// Each disk that was taken is told.
	for i := range 3 {
		e.WaitEvent("PoolCreated", fmt.Sprintf("serial S4EV%d, 500Gi", i+1))
	}
	if p := e.Get().Status.Pools.ByPool[0]; p.Devices != 3 || len(p.RecentDevices) != 3 ||
		p.RecentDevices[0].Serial != "S4EV2" || p.RecentDevices[0].Node != "n2" {
		t.Errorf("%d disks told: %+v", p.Devices, p.RecentDevices)
	}
}
