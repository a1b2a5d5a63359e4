package restclient_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/test/sim"
)

func TestPoolLifeCycle(t *testing.T) {
	s := newStage(t)
	s.online()
	s.must(s.CreatePool(t.Context(), thin))
	if err := s.CreatePool(t.Context(), thin); !linstor.IsExists(err) {
		t.Errorf("second CreatePool: %v, want exists", err)
	}
	p, err := s.Pool(t.Context(), "N1", "SSD")
	s.must(err)
	if p.Name != "ssd" || p.Provider != "LVM_THIN" || p.Backing != "vg/thin" || p.TotalKiB == nil ||
		*p.TotalKiB != 100<<20 {
		t.Errorf("pool = %+v", p)
	}

	s.must(s.world.Volumes().Create("pvc-1", 1<<20, "ssd", "n1"))
	if v := s.view(); v.Volumes != 1 || len(v.VolumeNames) != 1 || v.VolumeNames[0] != "pvc-1" {
		t.Errorf("volumes = %d %v", v.Volumes, v.VolumeNames)
	}
	s.wantCode(s.DeletePool(t.Context(), "n1", "ssd"), linstor.CodeInUse)
	s.world.Volumes().SetInUse("pvc-1", "n1", true)
	err = s.DeleteNode(t.Context(), "n1")
	s.wantCode(err, linstor.CodeInUse)
	if linstor.IsTransient(err) {
		t.Errorf("DeleteNode in use: %v", err)
	}
	s.must(s.world.Volumes().Delete("pvc-1"))
	s.must(s.DeletePool(t.Context(), "n1", "ssd"))
	s.must(s.DeletePool(t.Context(), "n1", "ssd"))
	if got := s.machine.LVM().Groups(); len(got) != 1 || len(got[0].ThinPools) != 1 {
		t.Errorf("volume groups after the deregistration: %+v", got)
	}
}

// TestPoolOnMissingGroup: the refused pool is registered, and comes to life when its volume group does.
func TestPoolOnMissingGroup(t *testing.T) {
	s := newStage(t)
	s.online()
	late := linstor.PoolSpec{Node: "n1", Name: "late", Provider: "LVM_THIN", Backing: "late/thin"}
	err := s.CreatePool(t.Context(), late)
	s.wantCode(err, linstor.CodePoolConfiguration)
	if linstor.IsTransient(err) {
		t.Errorf("%v passes for an error that ends by itself", err)
	}
	p := s.view().Pool("n1", "late")
	if p == nil || p.TotalKiB != nil || len(p.Errors) == 0 {
		t.Fatalf("the refused pool = %+v, want it registered, without capacity and with an error", p)
	}
	s.machine.LVM().Add(sim.VolumeGroup{
		Name: "late", SizeKiB: 100 << 20, ThinPools: []sim.ThinPool{{Name: "thin", SizeKiB: 50 << 20}},
	})
	s.must(s.DeletePool(t.Context(), "n1", "late"))
	s.must(s.CreatePool(t.Context(), late))
	if p := s.view().Pool("n1", "late"); p.TotalKiB == nil || len(p.Errors) > 0 {
		t.Errorf("the pool on its late volume group = %+v", p)
	}
}

// TestDeviceStep makes a pool from a device and then repeats the step, as a careless client would: the data survives,
// because LINSTOR's rollback is never in play.
func TestDeviceStep(t *testing.T) {
	for _, tc := range []struct{ provider, name string }{{"LVM", "new"}, {"LVM_THIN", "new/thin"}, {"ZFS", "tank"}} {
		t.Run(tc.provider, func(t *testing.T) {
			s := newStage(t)
			s.online()
			devices, err := s.Devices(t.Context(), "n1")
			s.must(err)
			want := []linstor.Device{{Path: "/dev/sdb", Serial: "data", WWN: "0x5000", Model: "QEMU", SizeBytes: 100 << 30}}
			if diff := cmp.Diff(want, devices); diff != "" {
				t.Fatalf("devices (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(want, s.view().Node("n1").Devices); diff != "" {
				t.Errorf("devices in the view (-want +got):\n%s", diff)
			}
			step := linstor.DeviceSpec{Node: "n1", Provider: tc.provider, PoolName: tc.name, Paths: []string{"/dev/sdb"}}
			pool := linstor.PoolSpec{Node: "n1", Name: "data", Provider: tc.provider, Backing: tc.name}
			s.must(s.CreateDevices(t.Context(), step))
			s.must(s.CreatePool(t.Context(), pool))
			if devices, err := s.Devices(t.Context(), "n1"); err != nil || len(devices) != 0 {
				t.Errorf("empty devices afterwards = %v, %v", devices, err)
			}
			if p := s.view().Pool("n1", "data"); p == nil || p.TotalKiB == nil || p.Backing != tc.name {
				t.Errorf("pool = %+v", p)
			}
			s.must(s.world.Volumes().Create("pvc-1", 1<<20, "data", "n1"))

			if err := s.CreateDevices(t.Context(), step); err == nil {
				t.Error("the repeated device step succeeded")
			}
			if err := s.CreatePool(t.Context(), pool); !linstor.IsExists(err) {
				t.Errorf("the repeated pool step: %v, want exists", err)
			}
			if diff := cmp.Diff([]string{"n1"}, s.world.Volumes().Data("pvc-1")); diff != "" {
				t.Errorf("nodes with the volume's data (-want +got):\n%s", diff)
			}
			if got := s.world.Violations(); len(got) > 0 {
				t.Errorf("violations: %q", got)
			}
		})
	}
}
