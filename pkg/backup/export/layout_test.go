package export

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// laidOut are the tables of a cluster with a volume on two nodes, one of its copies diskless, and a snapshot of it.
// They are in an order in which none has what it needs before it.
func laidOut() []values {
	copyOf := func(node, snapshot string, more values) values {
		v := values{"node_name": node, "resource_name": "PVC-1", "snapshot_name": snapshot}
		for k, x := range more {
			v[k] = x
		}
		return v
	}
	layer := func(id int, node, snapshot, kind string) values {
		return copyOf(node, snapshot, values{"layer_resource_id": id, "layer_resource_kind": kind,
			"layer_resource_suffix": ""})
	}
	stored := func(id int, node, kind, pool string) values {
		return values{"layer_resource_id": id, "vlm_nr": 0, "provider_kind": kind, "node_name": node, "stor_pool_name": pool}
	}
	dfn := func(snapshot string, shown any, flags int) values {
		return values{"resource_name": "PVC-1", "snapshot_name": snapshot, "resource_dsp_name": shown,
			"snapshot_dsp_name": strings.ToLower(snapshot), "resource_flags": flags}
	}
	address := func(node, address string) values {
		return values{"node_name": node, "node_net_name": "DEFAULT", "inet_address": address, "stlt_conn_port": nil}
	}
	return []values{
		of("LAYER_STORAGE_VOLUMES", stored(2, "N1", "LVM_THIN", "SSD"), stored(4, "N2", "DISKLESS", "DFLTDISKLESSSTORPOOL"),
			stored(6, "N1", "LVM_THIN", "SSD")),
		of("LAYER_RESOURCE_IDS", layer(1, "N1", "", "DRBD"), layer(2, "N1", "", "STORAGE"), layer(3, "N2", "", "DRBD"),
			layer(4, "N2", "", "STORAGE"), layer(5, "N1", "S1", "DRBD"), layer(6, "N1", "S1", "STORAGE")),
		of("LAYER_DRBD_RESOURCES", values{"layer_resource_id": 1, "peer_slots": 7, "al_stripes": 1, "al_stripe_size": 32}),
		of("VOLUMES", copyOf("N1", "", values{"vlm_nr": 0, "vlm_flags": 0}),
			copyOf("N2", "", values{"vlm_nr": 0, "vlm_flags": 0}), copyOf("N1", "S1", values{"vlm_nr": 0, "vlm_flags": 0})),
		of("RESOURCES", copyOf("N1", "", values{"resource_flags": 0}), copyOf("N2", "", values{"resource_flags": 260}),
			copyOf("N1", "S1", values{"resource_flags": 0})),
		of("VOLUME_DEFINITIONS",
			values{"resource_name": "PVC-1", "snapshot_name": "", "vlm_nr": 0, "vlm_size": 1 << 20, "vlm_flags": 0},
			values{"resource_name": "PVC-1", "snapshot_name": "S1", "vlm_nr": 0, "vlm_size": 1 << 19, "vlm_flags": 0}),
		of("RESOURCE_DEFINITIONS", dfn("", "pvc-1", 0), dfn("S1", nil, 1)),
		of("NODE_STOR_POOL", values{"node_name": "N1", "pool_name": "SSD", "driver_name": "LVM_THIN"}),
		of("NODE_NET_INTERFACES", address("N2", "10.1.0.2"), address("N2", "10.0.0.2"), address("N1", "FD00::1"),
			address("C1", "10.0.0.3")),
		of("NODES", values{"node_name": "N1", "node_dsp_name": "n1", "node_type": 2},
			values{"node_name": "N2", "node_dsp_name": "n2", "node_type": 3},
			values{"node_name": "C1", "node_dsp_name": "c1", "node_type": 1}),
		of("PROPS_CONTAINERS",
			values{"props_instance": "/STOR_POOLS/N1/SSD", "prop_key": "StorDriver/StorPoolName", "prop_value": "vg/thin"},
			values{"props_instance": "/CTRL", "prop_key": "Cluster/LocalID", "prop_value": "1b1e-id"}),
	}
}

func layoutOf(change func(tables []values)) (*Layout, error) {
	all := laidOut()
	if change != nil {
		change(all)
	}
	return ReadLayout(strings.NewReader(small(func(e values) { e["tables"] = all })))
}

// rowsOf are a table's rows.
func rowsOf(tables []values, name string) []values {
	for _, t := range tables {
		if t["name"] == name {
			return t["data"].([]values)
		}
	}
	panic(name)
}

func TestReadLayout(t *testing.T) {
	got, err := layoutOf(nil)
	if err != nil {
		t.Fatal(err)
	}
	// Beside 1 GiB: 4 KiB superblock, 32 KiB activity log, 7 bitmaps of 33 KiB, 8 KiB to align them, 4 MiB for an extent.
	want := []Stored{
		{Node: "n1", Resource: "pvc-1", Provider: "LVM_THIN", Place: "vg", MinKiB: 1 << 20, MaxKiB: 1<<20 + 4 + 32 +
			7*33 + 8 + 4<<10},
		{Node: "n1", Resource: "pvc-1", Snapshot: "s1", Provider: "LVM_THIN", Place: "vg", MinKiB: 1 << 19,
			MaxKiB: 1<<19 + 4 + 32 + 8 + 4<<10},
	}
	if d := cmp.Diff(want, got.Stored); d != "" {
		t.Errorf("stored (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]string{"c1", "n1", "n2"}, got.Nodes); d != "" {
		t.Errorf("nodes (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]Address{{"n1", "FD00::1"}, {"n2", "10.0.0.2"}, {"n2", "10.1.0.2"}}, got.Addresses); d != "" {
		t.Errorf("addresses (-want +got):\n%s", d)
	}
	placed := map[Placed]bool{{"N1", "PVC-1"}: true, {"N2", "PVC-1"}: true}
	if d := cmp.Diff(placed, got.Placed); d != "" {
		t.Errorf("placed (-want +got):\n%s", d)
	}
	if got.Summary.LocalID != "1b1e-id" || got.Summary.Volumes != 2 {
		t.Errorf("summary %+v", got.Summary)
	}
}

// TestPlaced: a node from which LINSTOR was taking a resource does not keep it.
func TestPlaced(t *testing.T) {
	for name, tc := range map[string]struct {
		table string
		flags int
		keeps bool
	}{
		"diskless": {"RESOURCES", 260, true}, "its disk goes": {"RESOURCES", 1 << 6, true},
		"it goes": {"RESOURCES", 256 | 1<<1, false}, "DRBD goes": {"RESOURCES", 256 | 1<<18, false},
		"all of it goes": {"RESOURCE_DEFINITIONS", 1, false},
	} {
		row := map[string]int{"RESOURCES": 1, "RESOURCE_DEFINITIONS": 0}[tc.table]
		l, err := layoutOf(func(tables []values) { rowsOf(tables, tc.table)[row]["resource_flags"] = tc.flags })
		if err != nil || l.Placed[Placed{"N2", "PVC-1"}] != tc.keeps {
			t.Errorf("%s: %v, %v", name, l, err)
		}
	}
}

// TestUnderWay: what LINSTOR was about to make or to remove is told apart.
func TestUnderWay(t *testing.T) {
	for name, tc := range map[string]struct {
		table  string
		row    int
		change values
		// removed and made are which of the stored is being removed or made then, -1 for none.
		removed, made int
	}{
		"resource":                 {"RESOURCES", 0, values{"resource_flags": 2}, 0, -1},
		"disk to be removed":       {"RESOURCES", 0, values{"resource_flags": 1 << 5}, 0, -1},
		"disk being removed":       {"RESOURCES", 0, values{"resource_flags": 1 << 6}, 0, -1},
		"DRBD being removed":       {"RESOURCES", 0, values{"resource_flags": 1 << 18}, 0, -1},
		"disk to be made":          {"RESOURCES", 0, values{"resource_flags": 1 << 3}, -1, 0},
		"disk being made":          {"RESOURCES", 0, values{"resource_flags": 1 << 4}, -1, 0},
		"diskless is no deletion":  {"RESOURCES", 0, values{"resource_flags": 256}, -1, -1},
		"volume":                   {"VOLUMES", 0, values{"vlm_flags": 2}, 0, -1},
		"DRBD of a volume":         {"VOLUMES", 0, values{"vlm_flags": 1 << 7}, 0, -1},
		"resized is no deletion":   {"VOLUMES", 0, values{"vlm_flags": 4}, -1, -1},
		"resource definition":      {"RESOURCE_DEFINITIONS", 0, values{"resource_flags": 1}, 0, -1},
		"volume definition":        {"VOLUME_DEFINITIONS", 0, values{"vlm_flags": 1}, 0, -1},
		"encrypted is no deletion": {"VOLUME_DEFINITIONS", 0, values{"vlm_flags": 2}, -1, -1},
		"snapshot on a node":       {"RESOURCES", 2, values{"resource_flags": 1}, 1, -1},
		"snapshot":                 {"RESOURCE_DEFINITIONS", 1, values{"resource_flags": 8 | 1}, 1, -1},
		"snapshot that was begun":  {"RESOURCE_DEFINITIONS", 1, values{"resource_flags": 0}, -1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := layoutOf(func(tables []values) {
				for k, v := range tc.change {
					rowsOf(tables, tc.table)[tc.row][k] = v
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			for i, s := range got.Stored {
				if s.BeingRemoved != (i == tc.removed) || s.BeingMade != (i == tc.made) {
					t.Errorf("%+v", s)
				}
			}
		})
	}
}

// TestProperties: names that LINSTOR has given, and the snapshot that it was going back to.
func TestProperties(t *testing.T) {
	got, err := layoutOf(func(tables []values) {
		for _, s := range []int{0, 2} {
			rowsOf(tables, "LAYER_STORAGE_VOLUMES")[s]["provider_kind"] = "ZFS"
		}
		for _, x := range tables {
			if x["name"] == "PROPS_CONTAINERS" {
				x["data"] = append(x["data"].([]values),
					values{"props_instance": "/VLM_DFNS/PVC-1/0", "prop_key": "OverrideVlmId", "prop_value": "other"},
					values{"props_instance": "/RSCS/N1/PVC-1", "prop_key": "RollbackTarget", "prop_value": "s0"},
					values{"props_instance": "/SNAPS/N1/PVC-1/S1", "prop_key": "Internal/StorDriver/ZfsRenameSuffix",
						"prop_value": "2026"})
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]string{}
	for _, s := range got.Stored {
		names[s.Name()] = s.RolledBack
	}
	if d := cmp.Diff(map[string]string{"other": "s0", "_deleted_pvc-1_00000_2026@s1": ""}, names); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// TestSizes: what lies beside a volume's data is between the bounds.
func TestSizes(t *testing.T) {
	const size = 1 << 20
	for name, tc := range map[string]struct {
		change   func(tables []values)
		min, max int64
	}{
		"no DRBD": {func(ts []values) { rowsOf(ts, "LAYER_RESOURCE_IDS")[0]["layer_resource_kind"] = "NVME" },
			size, size + 4<<10},
		"LUKS": {func(ts []values) { rowsOf(ts, "LAYER_RESOURCE_IDS")[0]["layer_resource_kind"] = "LUKS" },
			size, size + 16<<10 + 4<<10},
		"a cache": {func(ts []values) { rowsOf(ts, "LAYER_RESOURCE_IDS")[0]["layer_resource_kind"] = "WRITECACHE" },
			size, size + 1<<10 + 4<<10},
		"a file": {func(ts []values) {
			rowsOf(ts, "LAYER_RESOURCE_IDS")[0]["layer_resource_kind"] = "NVME"
			rowsOf(ts, "LAYER_STORAGE_VOLUMES")[0]["provider_kind"] = "FILE_THIN"
		}, size, size + 4},
		"with DRBD's metadata in it": {func(ts []values) { rowsOf(ts, "VOLUME_DEFINITIONS")[0]["vlm_flags"] = 8 },
			size - 4 - 32 - 7*33 - 8, size + 4<<10},
		"larger extents": {func(ts []values) {
			props := rowsOf(ts, "PROPS_CONTAINERS")
			props[1] = values{"props_instance": "/STOR_POOLS/N1/SSD",
				"prop_key": "StorDriver/internal/AllocationGranularity", "prop_value": "65536"}
			rowsOf(ts, "LAYER_RESOURCE_IDS")[0]["layer_resource_kind"] = "NVME"
		}, size, size + 64<<10},
		"apart from its data": {func(ts []values) { rowsOf(ts, "LAYER_RESOURCE_IDS")[1]["layer_resource_suffix"] = ".meta" },
			0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := layoutOf(tc.change)
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range got.Stored {
				if s.Snapshot == "" && (s.MinKiB != tc.min || s.MaxKiB != tc.max) {
					t.Errorf("%d to %d KiB, want %d to %d", s.MinKiB, s.MaxKiB, tc.min, tc.max)
				}
			}
		})
	}
}

func TestNames(t *testing.T) {
	for _, tc := range []struct{ provider, volume, snapshot, meta string }{
		{LVM, "r_00001", "r_00001_s", "r.meta_00001"},
		{LVMThin, "r_00001", "r_00001_s", "r.meta_00001"},
		{ZFS, "r_00001", "r_00001@s", "r.meta_00001"},
		{ZFSThin, "r_00001", "r_00001@s", "r.meta_00001"},
		{File, "r_00001.img", "r_00001_s.img", "r.meta_00001.img"},
		{FileThin, "r_00001.img", "r_00001_s.img", "r.meta_00001.img"},
		{"SPDK", "", "", ""},
	} {
		s := Stored{Resource: "r", Volume: 1, Provider: tc.provider}
		volume := s.Name()
		s.Snapshot = "s"
		snapshot := s.Name()
		s.Snapshot, s.Suffix = "", ".meta"
		if volume != tc.volume || snapshot != tc.snapshot || s.Name() != tc.meta {
			t.Errorf("%s: %s, %s, %s", tc.provider, volume, snapshot, s.Name())
		}
	}
}

func TestPlaces(t *testing.T) {
	for _, tc := range []struct{ provider, name, want string }{
		{LVM, "vg", "vg"}, {LVMThin, "vg/thin", "vg"}, {ZFS, "tank", "tank"}, {ZFSThin, "tank/linstor", "tank/linstor"},
		{File, "/srv/pool/", "/srv/pool"}, {FileThin, "", ""},
	} {
		if got := place(tc.provider, tc.name); got != tc.want {
			t.Errorf("%s %s: %s", tc.provider, tc.name, got)
		}
	}
}

// TestApart: an export whose rows do not belong together is refused, with the table that lacks one.
func TestApart(t *testing.T) {
	whole := laidOut()
	for _, table := range []string{"NODES", "RESOURCE_DEFINITIONS", "RESOURCES", "VOLUMES", "VOLUME_DEFINITIONS",
		"LAYER_RESOURCE_IDS"} {
		_, err := layoutOf(func(tables []values) {
			for _, x := range tables {
				if x["name"] == table {
					x["data"] = []values{}
				}
			}
		})
		if err == nil || !strings.Contains(err.Error(), "is inconsistent") ||
			!strings.Contains(err.Error(), table) {
			t.Errorf("without rows of %s: %v", table, err)
		}
	}
	for i := range whole {
		_, err := ReadLayout(strings.NewReader(small(func(e values) {
			e["tables"] = append(append([]values{}, whole[:i]...), whole[i+1:]...)
		})))
		name := whole[i]["name"].(string)
		if (err == nil) != (name == "NODE_STOR_POOL") || err != nil && !strings.Contains(err.Error(), name) {
			t.Errorf("without the table %s: %v", name, err)
		}
	}
	if _, err := layoutOf(func(tables []values) { rowsOf(tables, "NODES")[0]["node_dsp_name"] = 7 }); err == nil ||
		!strings.Contains(err.Error(), "has the wrong type: number") {
		t.Errorf("a name that is a number: %v", err)
	}
}
