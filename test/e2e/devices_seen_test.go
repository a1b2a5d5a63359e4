package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
	"github.com/linstor-dev/storagecluster-operator/test/sim"
)

// TestDisksThatUdevDoesNotKnow: LINSTOR lists them as empty, and its zpool create is forced: nothing but the
// operator's own look at them keeps the data on n2's disk. n3's is empty, which nobody but the satellite has seen when
// it started.
func TestDisksThatUdevDoesNotKnow(t *testing.T) {
	e := start(t, withDisk(3, func(i int, d *sim.Disk) {
		d.Unseen = i > 1
		if i == 2 {
			d.Signature = "xfs"
		}
	}))
	e.Run()
	e.Apply(harness.Manifest(`
  storagePools:
  - name: fast
    zfs: {zpool: fast}
    devices: {match: [{serial: "S4EV*"}]}
`))
	h := e.WaitNodeHold(v1alpha1.HoldDeviceNotEmpty)
	if !slices.Equal(h.Nodes, []string{"n2"}) || !strings.Contains(h.Message, "S4EV2") ||
		!strings.Contains(h.Message, "xfs") {
		t.Errorf("hold of %v: %s", h.Nodes, h.Message)
	}
	approve := e.waitListed(v1alpha1.HoldDeviceApproval, "n3:S4EV3")
	if !strings.Contains(approve.Message, "udev has no record") {
		t.Errorf("hold of %v: %s", approve.Nodes, approve.Message)
	}
	e.untouched("n3")
	e.Resume(approve, v1alpha1.OptionApprove)
	e.Eventually("n3 has its pool", func() error {
		if e.Signature("n3", "S4EV3") != "zfs_member" {
			return errors.New("not yet")
		}
		return nil
	})
	e.Resume(h, v1alpha1.OptionSkip)
	e.WaitPhase(v1alpha1.PhaseReady)
	e.WaitPools("2/2")
	if got := e.Signature("n2", "S4EV2"); got != "xfs" || len(e.deviceSteps("n2")) > 0 {
		t.Errorf("the disk of n2 has %q", got)
	}
}

// TestLocalVolumesBehindLinks: provisioners of local volumes keep links in a directory of theirs. n1's says which disk
// it leads to, n2's does not.
func TestLocalVolumesBehindLinks(t *testing.T) {
	e := start(t, harness.Nodes(3))
	for node, link := range map[string]string{"n1": "wwn-0x60001", "n2": "disk-1"} {
		if err := e.Client().Create(e.Ctx, localVolume("local-pv-"+node, "/mnt/local-storage/localblock/"+link,
			node)); err != nil {
			t.Fatal(err)
		}
	}
	e.Run()
	e.Apply(harness.Manifest(harness.DevicePool))
	h := e.waitListed(v1alpha1.HoldDeviceApproval, "n2:S4EV2")
	if !strings.Contains(h.Message, "PersistentVolume local-pv-n2 (/mnt/local-storage/localblock/disk-1)") {
		t.Error(h.Message)
	}
	e.Eventually("n3 has its pool", func() error {
		if e.Signature("n3", "S4EV3") != "LVM2_member" {
			return errors.New("not yet")
		}
		return nil
	})
	e.untouched("n1", "n2")
	e.Resume(h, v1alpha1.OptionApprove)
	e.Eventually("n2 has its pool", func() error {
		if e.Signature("n2", "S4EV2") != "LVM2_member" {
			return errors.New("not yet")
		}
		return nil
	})
	e.untouched("n1")
}

// TestGroupThatIsThereAlready: n2's first disk carries the volume group of an earlier installation, and a second disk
// is empty. Made from that one, a second group of the name would hide the first from all commands.
func TestGroupThatIsThereAlready(t *testing.T) {
	ns := harness.Nodes(3)
	m := &ns[1].Machine
	m.Disks = append(m.Disks, sim.Disk{Name: "sdd", SizeBytes: 500 << 30, Model: "INTEL SSDPE2KX", Serial: "S4EV22",
		WWN: "0x60022"})
	m.VolumeGroups = append(m.VolumeGroups,
		sim.VolumeGroup{Name: "vg_new", Devices: []string{"S4EV2"}, ThinPools: []sim.ThinPool{{Name: "thin"}}})
	e := start(t, ns)
	e.Run()
	e.Apply(harness.Manifest(harness.DevicePool))
	h := e.WaitNodeHold(v1alpha1.HoldDeviceNotEmpty)
	if !slices.Equal(h.Nodes, []string{"n2"}) ||
		!strings.Contains(h.Message, "volume group vg_new already exists on /dev/sdb (serial S4EV2)") {
		t.Errorf("hold of %v: %s", h.Nodes, h.Message)
	}
	if got := e.Signature("n2", "S4EV22"); got != "" || len(e.deviceSteps("n2")) > 0 {
		t.Errorf("the other disk of n2 has %q", got)
	}
	e.Resume(h, v1alpha1.OptionUseExisting)
	e.WaitPhase(v1alpha1.PhaseReady)
	e.WaitPools("3/3")
	e.expectGroup("n2", "vg_new", "S4EV2")
	e.expectCarefulDevices()
}

// TestPoolOnAMissingGroup: LINSTOR answers with the satellite's refusal and one of its own, and keeps an error report
// each time.
func TestPoolOnAMissingGroup(t *testing.T) {
	e := start(t, harness.Nodes(3))
	e.Timing.Repair = time.Hour
	e.Run()
	e.Apply(harness.Manifest("\n  storagePools:\n  - name: hdd\n    lvm: {volumeGroup: vg_hdd}\n"))
	h := e.WaitHold(v1alpha1.HoldPoolBackendMissing)
	// Two nodes are more than the cluster can do without; whether the third one was refused as often by then is a matter
	// of moments.
	want := fmt.Sprintf("pool hdd: LINSTOR cannot use volume group vg_hdd: Volume group 'vg_hdd' not found on %d of 3 "+
		"nodes (%s)",
		h.Count, strings.Join(h.Nodes, ", "))
	if h.Message != want || len(h.Nodes) < 2 {
		t.Errorf("hold: %q, want %q", h.Message, want)
	}
	e.WaitStatus("all three nodes have the problem", func(s *v1alpha1.StorageClusterStatus) bool {
		return len(s.Nodes.Problems) == 1 && s.Nodes.Problems[0].Count == 3 &&
			strings.Contains(s.Nodes.Problems[0].Message, "Volume group 'vg_hdd' not found")
	})
	tries := func() int {
		n := 0
		for _, w := range e.Sim.World().Writes() {
			if w.Method == http.MethodPost && strings.HasSuffix(w.Path, "/storage-pools") {
				n++
			}
		}
		return n
	}
	nine := func() error {
		if n := tries(); n != 9 {
			return fmt.Errorf("%d tries for 3 nodes", n)
		}
		return nil
	}
	e.Eventually("three tries for each node", nine)
	e.During(settle, "no more than that", nine)
	for _, n := range []string{"n1", "n2", "n3"} {
		e.Sim.World().Machine(n).LVM().Add(sim.VolumeGroup{Name: "vg_hdd", SizeKiB: 100 << 20})
	}
	e.Resume(h, v1alpha1.OptionRetry)
	e.WaitPhase(v1alpha1.PhaseReady)
	if n := tries(); n != 12 {
		t.Errorf("%d tries for 3 nodes after one retry", n)
	}
}
