package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor/sim"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster"
)

// deviceSteps are the requests that make something of a node's disks, as far as they reached LINSTOR.
func (e *env) deviceSteps(node string) []sim.Record {
	var out []sim.Record
	for _, w := range e.Sim.World().Writes() {
		if w.Method == http.MethodPost && w.Path == "/v1/physical-storage/"+node {
			out = append(out, w)
		}
	}
	return out
}

// expectCarefulDevices checks that no request asks for the pool with the disks: if LINSTOR failed to register that pool, it
// would tear down what is on the disks.
func (e *env) expectCarefulDevices() {
	e.T.Helper()
	for _, w := range e.Sim.World().Writes() {
		if strings.Contains(string(w.Body), "with_storage_pool") {
			e.T.Errorf("%s %s has with_storage_pool: %s", w.Method, w.Path, w.Body)
		}
	}
}

// signature is what is on the disk of a serial number.
func (e *env) signature(node, serial string) string {
	e.T.Helper()
	for _, d := range e.Sim.World().Machine(node).Disks() {
		if d.Serial == serial {
			return d.Signature
		}
	}
	e.T.Fatalf("node %s has no disk %s", node, serial)
	return ""
}

// expectGroup checks which disks hold a volume group.
func (e *env) expectGroup(node, group string, serials ...string) {
	e.T.Helper()
	for _, vg := range e.Sim.World().Machine(node).VolumeGroups() {
		if vg.Name == group {
			if !slices.Equal(vg.Devices, serials) {
				e.T.Errorf("node %s: %s is on %v, not on %v", node, group, vg.Devices, serials)
			}
			return
		}
	}
	e.T.Errorf("node %s has no volume group %s", node, group)
}

// swapped gives the disk that is to be used the name of the large one, and back.
var swapped = map[string]string{"sdb": "sdc", "sdc": "sdb"}

// TestDevicesSurviveReboots makes a pool from the disk of a serial number. Before the pool is made on n1 and after it was
// made on n2 the disks change their kernel names.
func TestDevicesSurviveReboots(t *testing.T) {
	e := start(t, harness.Nodes(3))
	// n1 gets as far as its intent, under the disk's old name.
	var mu sync.Mutex
	stopped := true
	e.Fault(func(r *http.Request) *sim.Fault {
		mu.Lock()
		defer mu.Unlock()
		if stopped && r.Method == http.MethodPost && r.URL.Path == "/v1/physical-storage/n1" {
			return &sim.Fault{Drop: true}
		}
		return nil
	})
	e.Run()
	e.Apply(harness.Manifest(harness.DevicePool))
	e.Eventually("the intent for n1 is written", func() error {
		for _, w := range e.Sim.World().Writes() {
			if w.Method == http.MethodPut && w.Path == "/v1/nodes/n1" && strings.Contains(string(w.Body), "serial:S4EV1") {
				return nil
			}
		}
		return errors.New("no intent")
	})
	e.Eventually("the device step is tried", func() error {
		if len(e.deviceSteps("n1")) == 0 {
			return errors.New("not yet")
		}
		return nil
	})
	if err := e.Sim.RebootNode(e.Ctx, "n1", swapped); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	stopped = false
	mu.Unlock()
	e.WaitPhase(v1alpha1.PhaseReady)
	e.waitPools("3/3")
	for i, n := range []string{"n1", "n2", "n3"} {
		e.expectGroup(n, "vg_new", fmt.Sprintf("S4EV%d", i+1))
		if got := e.signature(n, fmt.Sprintf("ZA%d", i+1)); got != "" {
			t.Errorf("node %s: the other disk has %s", n, got)
		}
	}
	steps := e.deviceSteps("n1")
	if last := steps[len(steps)-1]; !strings.Contains(string(last.Body), "/dev/sdc") || last.Status != http.StatusCreated {
		t.Errorf("the device step after the reboot was %s → %d", last.Body, last.Status)
	}
	if err := e.Sim.World().CreateVolume("pvc-1", 1<<20, "ssd", "n2", "n3"); err != nil {
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
	if data := e.Sim.World().VolumeData("pvc-1"); len(data) != 2 {
		t.Errorf("the volume's data is on %v", data)
	}
	e.expectCarefulDevices()
}

func (e *env) waitPools(summary string) {
	e.T.Helper()
	e.Eventually("pools "+summary, func() error {
		if c := e.Get(); c.Status.Pools.Summary != summary {
			return fmt.Errorf("pools are %s, phase %s: %s", c.Status.Pools.Summary, c.Status.Phase, c.Status.Message)
		}
		return nil
	})
}

// cut is a transport that lets a number of writes about one node's pool through and then kills: the operator hears nothing
// any more, whether the write was carried out or not.
type cut struct {
	mu   sync.Mutex
	left int  // writes that pass
	done bool // the last write reaches LINSTOR, its answer does not reach the operator
	dead chan struct{}
}

var errCut = errors.New("the operator was killed here")

func (c *cut) RoundTrip(r *http.Request) (*http.Response, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.dead:
		return nil, errCut
	default:
	}
	if !aboutPool(r) {
		return http.DefaultTransport.RoundTrip(r)
	}
	if c.left--; c.left >= 0 {
		return http.DefaultTransport.RoundTrip(r)
	}
	close(c.dead)
	if c.done {
		resp, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			return nil, err
		}
		_ = resp.Body.Close()
	}
	return nil, errCut
}

// aboutPool is whether a request is the intent, the end of a pool, the device step or the pool step.
func aboutPool(r *http.Request) bool {
	switch {
	case r.Method == http.MethodPut && strings.HasPrefix(r.URL.Path, "/v1/nodes/"):
		return strings.Contains(body(r), "intent.")
	case r.Method == http.MethodDelete:
		return strings.Contains(r.URL.Path, "/storage-pools/")
	case r.Method == http.MethodPost:
		return strings.HasPrefix(r.URL.Path, "/v1/physical-storage/") || strings.HasSuffix(r.URL.Path, "/storage-pools")
	default:
		return false
	}
}

// TestKilledWhileMakingPools kills the operator before and after each of the three writes that make a pool from disks.
func TestKilledWhileMakingPools(t *testing.T) {
	for n, name := range []string{"intent", "devices", "pool"} {
		for _, done := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/carried out=%v", name, done), func(t *testing.T) {
				e := start(t, harness.Nodes(1))
				c := &cut{left: n, done: done, dead: make(chan struct{})}
				e.Transport = c
				e.Run()
				e.Apply(harness.Manifest(harness.DevicePool))
				e.Eventually("the operator gets to its end", func() error {
					select {
					case <-c.dead:
						return nil
					default:
						return errors.New("not yet")
					}
				})
				e.StopOperator()
				e.Transport = nil
				e.Run()
				e.WaitPhase(v1alpha1.PhaseReady)
				e.expectGroup("n1", "vg_new", "S4EV1")
				if steps := e.deviceSteps("n1"); len(steps) != 1 {
					t.Errorf("%d device steps", len(steps))
				}
				e.expectCarefulDevices()
			})
		}
	}
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
			name: "no identity", message: "neither serial number nor WWN", refused: []string{"n2"},
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
			name: "local volumes", message: "used by a local PersistentVolume", refused: []string{"n1", "n3"},
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
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}},
			}}}},
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
	e.Sim.World().Machine("n2").AttachDisk(sim.Disk{Name: "sdd", SizeBytes: 500 << 30, Model: "INTEL SSDPE2KX", Serial: "S4EV2", WWN: "0x60002"})
	e.waitPools("3/3")
	e.expectGroup("n2", "vg_new", "S4EV2")
	e.expectCarefulDevices()
}

func TestTwoEntriesForOneDisk(t *testing.T) {
	e := start(t, harness.Nodes(3))
	e.Run()
	const entry = `
  - name: %s
    lvmThin: {volumeGroup: vg_%s, thinPool: thin}
    devices: {match: [{%s}]}
`
	both := "  storagePools:" + fmt.Sprintf(entry, "fast", "fast", `serial: "S4EV*"`) + fmt.Sprintf(entry, "any", "any", `model: "INTEL*"`)
	e.Apply(harness.Manifest(both))
	hold := e.WaitHold(v1alpha1.HoldPoolConflict)
	for _, want := range []string{"spec.storagePools[fast]", "spec.storagePools[any]", "/dev/sdb"} {
		if !strings.Contains(hold.Message, want) {
			t.Errorf("the hold does not name %s: %s", want, hold.Message)
		}
	}
	for _, n := range []string{"n1", "n2", "n3"} {
		if steps := e.deviceSteps(n); len(steps) > 0 {
			t.Errorf("node %s: disks were used: %s", n, steps[0].Body)
		}
	}
	e.WaitEvent(string(v1alpha1.HoldPoolConflict), hold.ID)
	e.Update(func(c *v1alpha1.StorageCluster) { c.Spec.StoragePools[1].Devices.Match[0].Model = "ST8000" })
	e.WaitPhase(v1alpha1.PhaseReady)
	e.waitPools("6/6")
	e.expectGroup("n1", "vg_fast", "S4EV1")
	e.expectGroup("n1", "vg_any", "ZA1")
	e.expectCarefulDevices()
}

func TestBackendAppearsLater(t *testing.T) {
	ns := harness.Nodes(3)
	ns[1].Machine.VolumeGroups = nil
	e := start(t, ns)
	e.Run()
	e.Apply(harness.Manifest(harness.ThinPool + "  nodes: {minReady: 100%}\n"))
	hold := e.WaitHold(v1alpha1.HoldPoolBackendMissing)
	if !slices.Equal(hold.Nodes, []string{"n2"}) || !strings.Contains(hold.Message, "vg_ssd0") {
		t.Errorf("hold of %v: %s", hold.Nodes, hold.Message)
	}
	e.Sim.World().Machine("n2").AddVolumeGroup(sim.VolumeGroup{Name: "vg_ssd0", SizeKiB: 200 << 20, ThinPools: []sim.ThinPool{{Name: "thin", SizeKiB: 180 << 20}}})
	e.WaitPhase(v1alpha1.PhaseReady)
	e.waitPools("3/3")
	if p := e.View().Pool("n2", "ssd"); p == nil || p.TotalKiB == nil || *p.TotalKiB == 0 {
		t.Errorf("pool on n2: %+v", p)
	}
}

func TestPoolsOfAllKinds(t *testing.T) {
	e := start(t, harness.Nodes(3))
	e.Run()
	e.Apply(harness.Manifest(`
  storagePools:
  - name: ssd
    lvmThin: {volumeGroup: vg_ssd0, thinPool: thin}
  - name: thick
    lvm: {volumeGroup: vg_ssd0}
  - name: tank
    zfs: {zpool: tank}
  - name: tank-thin
    zfsThin: {zpool: tank}
  - name: files
    file: {directory: /var/lib/linstor-pools/a}
  - name: sparse
    fileThin: {directory: /var/lib/linstor-pools/b}
  - name: made
    pool: hdd
    zfsThin: {zpool: hdd}
    devices: {match: [{rotational: true, minSize: 1Ti}]}
`))
	c := e.WaitPhase(v1alpha1.PhaseReady)
	if c.Status.Pools.Summary != "21/21" {
		t.Errorf("pools %s", c.Status.Pools.Summary)
	}
	kinds := map[string]string{}
	for name, p := range e.View().Node("n2").Pools {
		kinds[name] = p.Provider + " " + p.Backing
	}
	for name, want := range map[string]string{
		"ssd": "LVM_THIN vg_ssd0/thin", "thick": "LVM vg_ssd0", "tank": "ZFS tank", "tank-thin": "ZFS_THIN tank",
		"files": "FILE /var/lib/linstor-pools/a", "sparse": "FILE_THIN /var/lib/linstor-pools/b", "hdd": "ZFS_THIN hdd",
	} {
		if kinds[name] != want {
			t.Errorf("pool %s is %q, want %q", name, kinds[name], want)
		}
	}
	if got := e.signature("n2", "ZA2"); got != "zfs_member" {
		t.Errorf("the rotational disk has %q", got)
	}
	if got := e.signature("n2", "S4EV2"); got != "" {
		t.Errorf("the other disk has %q", got)
	}
	e.expectCarefulDevices()
}
