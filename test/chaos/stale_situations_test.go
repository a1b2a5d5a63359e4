package chaos

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
	"github.com/linstor-dev/storagecluster-operator/test/sim"
)

// situation is something that happens while an operator is told late. It begins and ends with the world at rest.
type situation struct {
	name string
	// before leads to where the view is held back; nil for nothing.
	before func(*staleWorld)
	// happens is what the operator does not see.
	happens func(*staleWorld)
	// after goes back to the world at rest, once the operator sees everything; nil if that needs nothing.
	after func(*staleWorld)
	// lingers is how long the operator works on with what it was told before.
	lingers time.Duration
	// again is how often more the operator makes something where it is faster than the test that changes its mind, or
	// makes it too.
	again int
}

const (
	staleLong  = 4 * time.Second
	staleShort = 2 * time.Second
)

// staleSituations are what may happen behind an operator's back.
func staleSituations() []situation {
	return []situation{
		{
			name: "a leaving node comes back", lingers: staleLong,
			before:  func(w *staleWorld) { w.pick("n4", false); w.leaving("n4") },
			happens: func(w *staleWorld) { w.pick("n4", true) },
		},
		{
			name: "a leaving node with data comes back", lingers: staleLong,
			before:  func(w *staleWorld) { w.leavesInUse("n4", "pvc-1") },
			happens: func(w *staleWorld) { w.pick("n4", true) },
			after: func(w *staleWorld) {
				w.Eventually("Ready", w.ready)
				w.notInUse("n4", "pvc-1")
				w.dropVolume("pvc-1")
			},
		},
		{
			name: "a node leaves and comes back", lingers: staleLong,
			happens: func(w *staleWorld) { w.pick("n4", false); w.pick("n4", true) },
		},
		{
			name: "a Node is deleted and joins anew", lingers: staleLong,
			happens: func(w *staleWorld) {
				if err := errors.Join(w.Sim.DeleteNode(w.Ctx, "n4"), w.Sim.RejoinNode(w.Ctx, "n4")); err != nil {
					w.T.Fatal(err)
				}
			},
		},
		{
			name: "a leaving node gets the last copy of a volume", lingers: staleLong,
			before:  func(w *staleWorld) { w.leavesInUse("n4", "pvc-1") },
			happens: func(w *staleWorld) { w.volume("pvc-2", "ssd", "n4"); w.notInUse("n4", "pvc-1") },
			after: func(w *staleWorld) {
				w.Eventually("the copy is moved, and n4 has left", func() error {
					if on := w.Sim.World().Volumes().Data("pvc-2"); len(on) != 1 || on[0] == "n4" {
						return fmt.Errorf("it is on %v", on)
					}
					if _, err := w.LinstorNode("n4"); err == nil {
						return fmt.Errorf("n4 is there: %+v", w.Get().Status.Nodes.Leaving)
					}
					return nil
				})
				w.dropVolume("pvc-1")
				w.dropVolume("pvc-2")
				w.Sim.World().Machine("n4").LVM().Remove("vg_new") // a node that has left is a new one when it comes back
				w.pick("n4", true)
			},
		},
		{
			name: "a pool is taken away and wanted again", lingers: staleShort, again: 1,
			happens: func(w *staleWorld) { w.pools(withoutFast); w.settled(time.Second); w.pools(withFast) },
		},
		{
			name: "a pool that goes has a volume", lingers: staleShort, again: 1,
			happens: func(w *staleWorld) { w.volume("pvc-3", "fast", "n1", "n2"); w.pools(withoutFast) },
			after: func(w *staleWorld) {
				w.Eventually("the unused pools are gone", func() error {
					s := w.Get().Status
					if v := w.View(); s.Phase != v1alpha1.PhaseReady || v.Pool("n1", "fast") == nil || v.Pool("n4", "fast") != nil {
						return fmt.Errorf("%s, n1 %v, n4 %v", s.Phase, v.Pool("n1", "fast"), v.Pool("n4", "fast"))
					}
					return nil
				})
				w.dropVolume("pvc-3")
				w.pools(withFast)
			},
		},
		{
			name: "a disk gets a file system", lingers: staleShort,
			happens: func(w *staleWorld) {
				w.Sim.World().Machine("n2").SetSignature("ZA2", "ext4")
				w.pools(withHDD)
			},
			after: func(w *staleWorld) {
				w.WaitPools("11/12")
				w.expectSignature("n2", "ZA2", "ext4")
				w.dropHDD()
			},
		},
		{
			name: "somebody makes the volume group", lingers: staleShort,
			happens: func(w *staleWorld) {
				m := w.Sim.World().Machine("n2")
				m.LVM().Add(sim.VolumeGroup{Name: "vg_hdd", Devices: []string{"ZA2"}})
				m.AttachDisk(sim.Disk{Name: "sde", SizeBytes: 8 << 40, Rotational: true, Model: "ST8000", Serial: "ZA22",
					WWN: "0x70022"})
				w.pools(withHDD)
			},
			after: func(w *staleWorld) {
				w.WaitPools("11/12")
				w.expectSignature("n2", "ZA22", "")
				w.Sim.World().Machine("n2").DetachDisk("ZA22")
				w.dropHDD()
			},
		},
		{
			name: "disks that udev does not know", lingers: staleShort,
			happens: func(w *staleWorld) {
				w.Sim.World().Machine("n3").SetSignature("UD3", "ext4") // after the satellite has looked at it
				w.pools(func(ps []v1alpha1.StoragePoolSpec) []v1alpha1.StoragePoolSpec {
					return append(ps, v1alpha1.StoragePoolSpec{
						Name: "udev", ZFS: &v1alpha1.ZFSPool{ZPool: "udev"},
						Devices: &v1alpha1.DevicesSpec{Match: []v1alpha1.DeviceMatch{{Serial: "UD*"}}},
					})
				})
			},
			after: func(w *staleWorld) {
				w.WaitPools("10/12")
				w.expectSignature("n2", "UD2", "xfs")
				w.expectSignature("n3", "UD3", "ext4")
				w.Sim.World().Machine("n3").SetSignature("UD3", "")
				w.dropPool("udev", func(m *sim.Machine) { m.ZFS().Remove("udev") })
			},
		},
		{
			name: "another driver attaches a raw volume", lingers: staleShort,
			happens: func(w *staleWorld) {
				harness.AttachRaw(&w.Administrator, "n2")
				w.pools(withBig)
			},
			after: func(w *staleWorld) {
				w.WaitPools("11/12")
				w.expectSignature("n2", "ZA2", "")
				w.detachRaw()
				w.WaitPools("12/12")
				w.dropPool("big", func(m *sim.Machine) { m.LVM().Remove("vg_big") })
				w.emptyHDDs()
			},
		},
		{
			name: "satellites change and a pod goes", lingers: staleLong,
			happens: func(w *staleWorld) {
				w.Update(func(c *v1alpha1.StorageCluster) { c.Spec.Images.Registry = "mirror.example.com/linstor" })
				w.settled(time.Second)
				w.deletePod("n2")
			},
			after: func(w *staleWorld) {
				w.Update(func(c *v1alpha1.StorageCluster) { c.Spec.Images.Registry = "" })
			},
		},
		{
			name: "the controller's template changes", lingers: staleLong,
			happens: func(w *staleWorld) { w.controllerCPU("20m") },
			after: func(w *staleWorld) {
				w.Eventually("the controller follows", func() error { return errors.Join(w.ready(), requests(w.Env, "20m")) })
				w.Update(func(c *v1alpha1.StorageCluster) { c.Spec.Controller.Resources.Requests = nil })
				w.Eventually("the controller is as before", func() error { return errors.Join(w.ready(), requests(w.Env, "0")) })
			},
		},
		{
			name: "the preferred interface changes", lingers: staleLong,
			before: func(w *staleWorld) {
				w.volume("pvc-4", "ssd", "n1", "n2", "n4")
				addressStorage(w.Env, "n1", "n2", "n3", "n4")
				w.replicateOver(false)
				w.Eventually("the interface is there", w.ready)
			},
			happens: func(w *staleWorld) { w.replicateOver(true) },
			after: func(w *staleWorld) {
				w.Eventually("DRBD replicates over it",
					func() error { return errors.Join(w.ready(), replicatesOver(w.Env, "storage")) })
				w.replicateOver(false)
				w.Eventually("DRBD replicates as before",
					func() error { return errors.Join(w.ready(), replicatesOver(w.Env, "")) })
				w.Update(func(c *v1alpha1.StorageCluster) { c.Spec.Nodes.Interfaces = nil })
				w.Eventually("the interface is gone", w.ready)
				for _, n := range []string{"n1", "n2", "n3", "n4"} {
					w.linstorForget(n, preferredSince)
				}
				w.dropVolume("pvc-4")
			},
		},
		{
			name: "objects are made anew, and all is deleted", lingers: staleShort, again: 1,
			happens: func(w *staleWorld) { w.remade(); w.Remove() },
			after: func(w *staleWorld) {
				w.gone()
				w.install(newestVersion)
			},
		},
		{
			// The operator may have begun with the deletion before the finalizer is taken away.
			name: "the StorageCluster is deleted and made anew", lingers: staleShort, again: 1,
			happens: func(w *staleWorld) { w.force() },
		},
		{
			name: "all is made and deleted at once", lingers: staleShort, again: 1,
			before: func(w *staleWorld) { w.Remove(); w.gone() },
			happens: func(w *staleWorld) {
				w.install(newestVersion)
				w.settled(staleShort)
				w.Remove()
			},
			after: func(w *staleWorld) { w.gone(); w.install(newestVersion) },
		},
	}
}

// boundedSituations are those that every test run goes through.
func boundedSituations() []situation {
	return slices.DeleteFunc(staleSituations(), func(s situation) bool {
		return !slices.Contains([]string{"a leaving node comes back", "a pool is taken away and wanted again",
			"the StorageCluster is deleted and made anew"}, s.name)
	})
}

// everyNth are every n-th of the situations, others for the i-th kind than for the one before: a full run takes each
// situation and each kind, and not every pair of them.
func everyNth(n, i int) []situation {
	var out []situation
	for k, s := range staleSituations() {
		if (k+i)%n == 0 {
			out = append(out, s)
		}
	}
	return out
}
