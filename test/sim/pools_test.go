package sim_test

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	linstor "github.com/LINBIT/golinstor"
	"github.com/LINBIT/golinstor/client"
	"github.com/google/go-cmp/cmp"

	"github.com/linstor-dev/storagecluster-operator/test/sim"
)

func TestPoolIsRegisteredDespite990(t *testing.T) {
	b := newBench(t)
	b.online(1)
	broken := client.StoragePool{StoragePoolName: "hdd", ProviderKind: client.LVM,
		Props: map[string]string{"StorDriver/LvmVg": "none"}}
	if err := b.client.Nodes.CreateStoragePool(t.Context(), "n1", broken); !client.IsApiCallError(err,
		linstor.FailStorPoolConfigurationError) {
		t.Errorf("create: %v", err)
	}
	if _, err := b.client.Nodes.GetStoragePool(t.Context(), "n1", "HDD"); err != nil {
		t.Errorf("get: %v", err)
	}
	if err := b.client.Nodes.CreateStoragePool(t.Context(), "n1", broken); !client.IsApiCallError(err,
		linstor.FailExistsStorPool) {
		t.Errorf("create again: %v", err)
	}
}

func TestOldPropertiesAreRewrittenOnCreate(t *testing.T) {
	b := newBench(t)
	b.online(1)
	p, err := b.client.Nodes.GetStoragePool(t.Context(), "n1", "ssd")
	b.must(err)
	want := map[string]string{"StorDriver/StorPoolName": "vg/thin", "StorDriver/internal/AllocationGranularity": "64"}
	if diff := cmp.Diff(want, p.Props); diff != "" {
		t.Errorf("properties (-want +got):\n%s", diff)
	}
}

func TestPoolOfAnOfflineNode(t *testing.T) {
	b := newBench(t)
	b.online(1)[0].Stop()
	b.pass(2 * time.Second)
	_, body := b.raw(http.MethodGet, "/v1/view/storage-pools?storage_pools=ssd", "")
	var got []map[string]any
	b.must(json.Unmarshal(body, &got))
	for _, absent := range []string{"free_capacity", "total_capacity"} {
		if _, present := got[0][absent]; present {
			t.Errorf("%s is present: %s", absent, body)
		}
	}
	for name, want := range map[string]any{"supports_snapshots": true, "external_locking": false,
		"free_space_mgr_name": "n1;ssd",
		"static_traits":       map[string]any{"Provisioning": "Thin", "SupportsSnapshots": "true"}} {
		if diff := cmp.Diff(want, got[0][name]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	report := got[0]["reports"].([]any)[0].(map[string]any)
	if report["ret_code"].(float64) != -9223372036854774806 ||
		report["message"] != "No active connection to satellite 'n1'" {
		t.Errorf("report %v", report)
	}
}

// A pool that cannot be used does not keep its node from ONLINE, and nothing is known of its space after the full
// sync.
func TestFullSyncWithAnUnusablePool(t *testing.T) {
	b := newBench(t)
	b.online(1)
	b.must(b.client.Nodes.CreateStoragePool(t.Context(), "n1",
		client.StoragePool{StoragePoolName: "thick", ProviderKind: client.LVM,
			Props: map[string]string{"StorDriver/StorPoolName": "vg"}}))
	capacities := func() (present []bool) {
		for _, pool := range []string{"ssd", "thick"} {
			_, body := b.raw(http.MethodGet, "/v1/view/storage-pools?cached=true&storage_pools="+pool, "")
			var got []map[string]any
			b.must(json.Unmarshal(body, &got))
			if len(got) != 1 {
				t.Fatalf("pool %s: %s", pool, body)
			}
			_, total := got[0]["total_capacity"]
			present = append(present, total)
		}
		return present
	}
	if diff := cmp.Diff([]bool{true, true}, capacities()); diff != "" {
		t.Errorf("capacities before (-want +got):\n%s", diff)
	}
	b.world.Machine("n1").LVM().Remove("vg")
	b.must(b.client.Nodes.Reconnect(t.Context(), "n1"))
	b.status("n1", "ONLINE")
	if diff := cmp.Diff([]bool{false, false}, capacities()); diff != "" {
		t.Errorf("capacities after the full sync (-want +got):\n%s", diff)
	}
}

func TestDisklessPool(t *testing.T) {
	b := newBench(t)
	b.online(1)
	p, err := b.client.Nodes.GetStoragePool(t.Context(), "n1", "DfltDisklessStorPool")
	b.must(err)
	if p.FreeCapacity != 9223372036854775807 || p.ProviderKind != client.DISKLESS ||
		p.StaticTraits["Provisioning"] != "" {
		t.Errorf("pool %+v", p)
	}
}

// Thin pools show their driver's error in an uncached list only, thick pools never.
func TestDriverErrorsInLists(t *testing.T) {
	b := newBench(t)
	b.online(1)
	b.must(b.client.Nodes.CreateStoragePool(t.Context(), "n1",
		client.StoragePool{StoragePoolName: "thick", ProviderKind: client.LVM,
			Props: map[string]string{"StorDriver/StorPoolName": "vg"}}))
	b.world.Machine("n1").LVM().Remove("vg")
	for _, tt := range []struct {
		pool   string
		cached bool
		want   int
	}{{"ssd", false, 1}, {"ssd", true, 0}, {"thick", false, 0}, {"thick", true, 0}} {
		list, err := b.client.Nodes.GetStoragePoolView(t.Context(),
			&client.ListOpts{StoragePool: []string{tt.pool}, Cached: &tt.cached})
		b.must(err)
		if len(list) != 1 || len(list[0].Reports) != tt.want {
			t.Errorf("%s cached=%t: %d reports, want %d", tt.pool, tt.cached, len(list[0].Reports), tt.want)
		}
		if tt.want == 1 && (list[0].Reports[0].Cause != "Volume group 'vg' not found" || list[0].FreeCapacity != 0) {
			t.Errorf("report %+v", list[0].Reports[0])
		}
	}
}

func TestUnknownNodeInThePoolFilter(t *testing.T) {
	b := newBench(t)
	b.online(1)
	if status, _ := b.raw(http.MethodGet, "/v1/view/storage-pools?nodes=nope", ""); status != 404 {
		t.Errorf("uncached: %d, want 404", status)
	}
	for _, path := range []string{"/v1/view/storage-pools?nodes=nope&cached=true", "/v1/nodes?nodes=nope"} {
		if status, body := b.raw(http.MethodGet, path, ""); status != 200 || string(body) != "[]" {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
}

func TestModifyPoolOfAnOfflineNodeIsCommitted(t *testing.T) {
	b := newBench(t)
	b.online(1)[0].Stop()
	b.pass(2 * time.Second)
	change := client.GenericPropsModify{OverrideProps: map[string]string{"Aux/a": "b"}}
	if err := b.client.Nodes.ModifyStoragePool(t.Context(), "n1", "ssd", change); !client.IsApiCallError(err,
		linstor.FailUnknownError) {
		t.Errorf("modify: %v", err)
	}
	p, err := b.client.Nodes.GetStoragePool(t.Context(), "n1", "ssd")
	b.must(err)
	if p.Props["Aux/a"] != "b" {
		t.Errorf("properties %v", p.Props)
	}
	// nothing changes any more
	b.must(b.client.Nodes.ModifyStoragePool(t.Context(), "n1", "ssd", change))
	b.must(b.client.Nodes.Modify(t.Context(), "n1", client.NodeModify{GenericPropsModify: change})) // nodes are silent
}

func TestPoolsOfOtherKinds(t *testing.T) {
	b := newBench(t)
	b.online(1)
	tests := map[string]struct {
		kind  client.ProviderKind
		where string
		want  uint64 // 0: success
	}{
		"file":             {client.FILE_THIN, "/var/lib", 0},
		"file, no parent":  {client.FILE, "/data/pools/x", linstor.FailStorPoolConfigurationError},
		"file with a dot":  {client.FILE, "/var/lib/x.d", linstor.FailInvldProp},
		"thin, no slash":   {client.LVM_THIN, "vg", linstor.FailUnknownError},
		"thin, no pool":    {client.LVM_THIN, "vg/none", linstor.FailStorPoolConfigurationError},
		"zfs, no pool":     {client.ZFS, "tank", linstor.FailStorPoolConfigurationError},
		"spdk, no tools":   {client.SPDK, "x", linstor.FailStltDoesNotSupportProvider},
		"diskless":         {client.DISKLESS, "", 0},
		"thick on vg":      {client.LVM, "vg", 0},
		"unknown property": {client.LVM, "vg", linstor.FailInvldProp},
	}
	i := 0
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			i++
			p := client.StoragePool{StoragePoolName: "pool-" + string(rune('a'+i)), ProviderKind: tt.kind,
				Props: map[string]string{}}
			if tt.where != "" {
				p.Props["StorDriver/StorPoolName"] = tt.where
			}
			if name == "unknown property" {
				p.Props["Foo"] = "bar"
			}
			err := b.client.Nodes.CreateStoragePool(t.Context(), "n1", p)
			if tt.want == 0 && err != nil || tt.want != 0 && !client.IsApiCallError(err, tt.want) {
				t.Errorf("create: %v, want code %d", err, tt.want&0x7FFF)
			}
		})
	}
}

func TestPoolDefinitionsFollowThePools(t *testing.T) {
	b := newBench(t)
	b.online(2)
	names := func() (list []string) {
		dfns, err := b.client.StoragePoolDefinitions.GetAll(t.Context())
		b.must(err)
		for _, d := range dfns {
			list = append(list, d.StoragePoolName)
		}
		return list
	}
	if diff := cmp.Diff([]string{"DfltStorPool", "ssd"}, names()); diff != "" {
		t.Errorf("definitions (-want +got):\n%s", diff)
	}
	b.must(b.client.Nodes.DeleteStoragePool(t.Context(), "n1", "ssd"))
	b.must(b.client.Nodes.DeleteStoragePool(t.Context(), "n2", "ssd"))
	if diff := cmp.Diff([]string{"DfltStorPool"}, names()); diff != "" {
		t.Errorf("definitions (-want +got):\n%s", diff)
	}
}

func TestCapacityFollowsVolumes(t *testing.T) {
	b := newBench(t)
	b.online(1)
	b.must(b.world.Volumes().Create("pvc-1", 1<<20, "ssd", "n1"))
	p, err := b.client.Nodes.GetStoragePool(t.Context(), "n1", "ssd")
	b.must(err)
	if p.FreeCapacity != 99<<20 || p.TotalCapacity != 100<<20 {
		t.Errorf("free %d of %d KiB", p.FreeCapacity, p.TotalCapacity)
	}
	if err := b.world.Volumes().Create("pvc-2", 100<<20, "ssd", "n1"); err == nil {
		t.Error("a volume larger than the pool was created")
	}
	b.must(b.world.Volumes().Delete("pvc-1"))
	p, err = b.client.Nodes.GetStoragePool(t.Context(), "n1", "ssd")
	b.must(err)
	if p.FreeCapacity != 100<<20 {
		t.Errorf("free after the deletion %d KiB", p.FreeCapacity)
	}
	b.violations()
}

func TestThickPoolCapacityIsRefreshedInTheBackground(t *testing.T) {
	b := newBench(t)
	b.online(1)
	pool := client.StoragePool{StoragePoolName: "hdd", ProviderKind: client.LVM,
		Props: map[string]string{"StorDriver/LvmVg": "late"}}
	_ = b.client.Nodes.CreateStoragePool(t.Context(), "n1", pool)
	b.world.Machine("n1").LVM().Add(sim.VolumeGroup{Name: "late", SizeKiB: 1 << 20})
	capacity := func() int64 {
		p, err := b.client.Nodes.GetStoragePool(t.Context(), "n1", "hdd")
		b.must(err)
		return p.TotalCapacity
	}
	if got := capacity(); got != 0 {
		t.Errorf("capacity before the refresh: %d KiB", got)
	}
	b.pass(3 * time.Minute)
	if got := capacity(); got != 1<<20 {
		t.Errorf("capacity after the refresh: %d KiB", got)
	}
}
