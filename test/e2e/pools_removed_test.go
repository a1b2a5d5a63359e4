package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
)

// twoPools are a thin pool on a volume group that is there and one that is made from a disk.
const twoPools = harness.ThinPool + `  - name: fast
    lvmThin: {volumeGroup: vg_new, thinPool: thin}
    nodeSelector: {example.com/disk: nvme}
    devices: {match: [{serial: "S4EV*"}]}
`

// removeEntry takes an entry out of the spec.
func (e poolEnv) removeEntry(name string) {
	e.T.Helper()
	e.Update(func(c *v1alpha1.StorageCluster) {
		c.Spec.StoragePools = slices.DeleteFunc(c.Spec.StoragePools,
			func(p v1alpha1.StoragePoolSpec) bool { return p.Name == name })
	})
}

// waitPoolGone waits until LINSTOR has a pool on none of the nodes.
func (e poolEnv) waitPoolGone(pool string, nodes ...string) {
	e.T.Helper()
	e.Eventually("pool "+pool+" is deregistered", func() error {
		for _, n := range nodes {
			if e.View().Pool(n, pool) != nil {
				return fmt.Errorf("it is there on %s", n)
			}
		}
		return nil
	})
}

// poolDeletes are the requests that would deregister a pool of a node.
func (e poolEnv) poolDeletes(node string) int {
	n := 0
	for _, w := range e.Sim.World().Writes() {
		if w.Method == http.MethodDelete && strings.HasPrefix(w.Path, "/v1/nodes/"+node+"/storage-pools/") {
			n++
		}
	}
	return n
}

// problem is what the status tells of a reason; nil if nothing.
func problem(c *v1alpha1.StorageCluster, reason string) *v1alpha1.NodeProblem {
	for i := range c.Status.Nodes.Problems {
		if p := &c.Status.Nodes.Problems[i]; p.Reason == reason {
			return p
		}
	}
	return nil
}

// TestPoolsComeAndGo adds a pool to a running cluster, removes it, and adds it again: its volume group stays and is
// used again.
func TestPoolsComeAndGo(t *testing.T) {
	e := startReady(t, 3, harness.ThinPool)
	e.Run()
	e.WaitPhase(v1alpha1.PhaseReady)
	e.Apply(harness.Manifest(twoPools))
	e.WaitPools("6/6")
	e.WaitPhase(v1alpha1.PhaseReady)
	e.expectGroup("n2", "vg_new", "S4EV2")

	e.Apply(harness.Manifest(harness.ThinPool))
	e.waitPoolGone("fast", "n1", "n2", "n3")
	e.WaitPools("3/3")
	c := e.WaitPhase(v1alpha1.PhaseReady)
	if c.Status.Nodes.Online != 3 || len(c.Status.NodeHolds) > 0 {
		t.Errorf("%d online, holds %+v", c.Status.Nodes.Online, c.Status.NodeHolds)
	}
	e.expectGroup("n2", "vg_new", "S4EV2")
	e.WaitEvent("PoolRemoved", "fast", "vg_new/thin")
	for _, n := range []string{"n1", "n2", "n3"} {
		if e.View().Pool(n, "ssd") == nil || e.poolDeletes(n) != 1 {
			t.Errorf("node %s: %d pools were deleted, ssd is %v", n, e.poolDeletes(n), e.View().Pool(n, "ssd"))
		}
	}

	e.Apply(harness.Manifest(twoPools))
	e.WaitPools("6/6")
	e.WaitPhase(v1alpha1.PhaseReady)
	for _, n := range []string{"n1", "n2", "n3"} {
		if steps := e.deviceSteps(n); len(steps) != 1 {
			t.Errorf("node %s: %d device steps: the volume group was there", n, len(steps))
		}
	}
	e.expectCarefulDevices()
}

// TestPoolInUseStays: volumes and snapshots keep a pool that the spec no longer wants.
func TestPoolInUseStays(t *testing.T) {
	e := start(t, harness.Nodes(3))
	e.Run()
	e.Apply(harness.Manifest(twoPools))
	e.WaitPhase(v1alpha1.PhaseReady)
	world := e.Sim.World()
	for _, err := range []error{world.Volumes().Create("pvc-1", 1<<20, "fast", "n1", "n2"),
		world.Volumes().CreateSnapshot("pvc-1", "daily")} {
		if err != nil {
			t.Fatal(err)
		}
	}
	e.removeEntry("fast")
	e.waitPoolGone("fast", "n3")
	e.Eventually("the volume is told", func() error {
		if p := problem(e.Get(), "PoolInUse"); p == nil || p.Count != 2 || !strings.Contains(p.Message, "pvc-1") {
			return fmt.Errorf("problems %+v", e.Get().Status.Nodes.Problems)
		}
		return nil
	})
	if c := e.WaitPhase(v1alpha1.PhaseReady); c.Status.Nodes.Online != 3 {
		t.Errorf("%d online: a pool in use is no trouble of its node", c.Status.Nodes.Online)
	}
	if n := e.poolDeletes("n1") + e.poolDeletes("n2"); n > 0 {
		t.Errorf("%d deletions of pools with volumes in them were tried", n)
	}
	// The copy on n1 goes; its snapshot is left.
	e.LinstorWrite(http.MethodDelete, "/v1/resource-definitions/pvc-1/resources/n1", "")
	e.Eventually("the snapshot is told", func() error {
		if p := problem(e.Get(), "PoolInUse"); p == nil || !slices.Contains(p.Nodes, "n1") || e.poolDeletes("n1") == 0 {
			return fmt.Errorf("problems %+v, %d deletions tried", e.Get().Status.Nodes.Problems, e.poolDeletes("n1"))
		}
		return nil
	})
	if e.View().Pool("n1", "fast") == nil {
		t.Error("the pool with the snapshot is gone")
	}
	world.Volumes().DeleteSnapshot("pvc-1", "daily")
	e.waitPoolGone("fast", "n1")
	if data := world.Volumes().Data("pvc-1"); !slices.Equal(data, []string{"n2"}) {
		t.Errorf("the volume's data is on %v", data)
	}
	if err := world.Volumes().Delete("pvc-1"); err != nil {
		t.Fatal(err)
	}
	e.waitPoolGone("fast", "n2")
	e.Eventually("nothing is told any more", func() error {
		if p := e.Get().Status.Nodes.Problems; len(p) > 0 {
			return fmt.Errorf("problems %+v", p)
		}
		return nil
	})
}

// TestPoolLeavesANode: a node that no longer matches an entry loses its empty pool; the others keep theirs.
func TestPoolLeavesANode(t *testing.T) {
	e := start(t, harness.Nodes(3))
	e.Run()
	e.Apply(harness.Manifest(twoPools))
	e.WaitPhase(v1alpha1.PhaseReady)
	patchNode(e, "n2", func(n *corev1.Node) { n.Labels["example.com/disk"] = "hdd" })
	e.waitPoolGone("fast", "n2")
	e.WaitPools("5/5")
	for _, n := range []string{"n1", "n3"} {
		if e.View().Pool(n, "fast") == nil || e.poolDeletes(n) > 0 {
			t.Errorf("node %s lost its pool", n)
		}
	}
	patchNode(e, "n2", func(n *corev1.Node) { n.Labels["example.com/disk"] = "nvme" })
	e.WaitPools("6/6")
	if steps := e.deviceSteps("n2"); len(steps) != 1 {
		t.Errorf("%d device steps", len(steps))
	}
}

// TestPoolsOfOthersStay: what somebody registered in LINSTOR without the operator is theirs, and what a node holds
// that leaves stays as well.
func TestPoolsOfOthersStay(t *testing.T) {
	e := start(t, harness.Nodes(3))
	e.Run()
	e.Apply(harness.Manifest(twoPools))
	e.WaitPhase(v1alpha1.PhaseReady)
	e.LinstorWrite(http.MethodPost, "/v1/nodes/n1/storage-pools",
		`{"storage_pool_name":"theirs","provider_kind":"ZFS","props":{"StorDriver/StorPoolName":"tank"}}`)
	patchNode(e, "n2", func(n *corev1.Node) {
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "example.com/out", Effect: corev1.TaintEffectNoSchedule})
	})
	e.Eventually("n2 leaves", func() error {
		if c := e.Get(); c.Status.Nodes.LeavingCount != 1 {
			return fmt.Errorf("%d leave", c.Status.Nodes.LeavingCount)
		}
		return nil
	})
	e.removeEntry("fast")
	e.waitPoolGone("fast", "n1", "n3")
	e.During(settle, "what is not ours to remove stays", func() error {
		if v := e.View(); v.Pool("n1", "theirs") == nil || v.Pool("n2", "fast") == nil {
			return fmt.Errorf("theirs: %v, on the leaving node: %v", v.Pool("n1", "theirs"), v.Pool("n2", "fast"))
		}
		return nil
	})
}

// TestBrokenPoolGoesWithItsEntry: LINSTOR keeps a pool registered whose volume group was never there.
func TestBrokenPoolGoesWithItsEntry(t *testing.T) {
	e := startReady(t, 3, harness.ThinPool)
	e.Run()
	e.WaitPhase(v1alpha1.PhaseReady)
	e.Apply(harness.Manifest(harness.ThinPool + "  - name: wrong\n    lvm: {volumeGroup: vg_typo}\n"))
	e.WaitHold(v1alpha1.HoldPoolBackendMissing)
	e.removeEntry("wrong")
	e.WaitPhase(v1alpha1.PhaseReady)
	e.waitPoolGone("wrong", "n1", "n2", "n3")
	e.WaitPools("3/3")
}
