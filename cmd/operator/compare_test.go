package main

import (
	"bytes"
	"cmp"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/linstor-dev/storagecluster-operator/pkg/restore/compare"
)

// exported is an export with a volume in the volume group vg of the node n1.
const exported = `{"linstor_version":"1.34.2","export_timestamp_ms":1763971200000,"exported_from":"k8s","tables":[
{"name":"NODES","column_description":[],"data":[{"node_name":"N1","node_dsp_name":"n1"}]},
{"name":"NODE_NET_INTERFACES","column_description":[],"data":[{"node_name":"N1","inet_address":"10.0.0.1"}]},
{"name":"RESOURCE_DEFINITIONS","column_description":[],"data":[{"resource_name":"R","snapshot_name":"",
	"resource_dsp_name":"r","resource_flags":0}]},
{"name":"VOLUME_DEFINITIONS","column_description":[],"data":[{"resource_name":"R","snapshot_name":"","vlm_nr":0,
	"vlm_size":1024,"vlm_flags":0}]},
{"name":"RESOURCES","column_description":[],"data":[{"node_name":"N1","resource_name":"R","snapshot_name":"",
	"resource_flags":0}]},
{"name":"VOLUMES","column_description":[],"data":[{"node_name":"N1","resource_name":"R","snapshot_name":"","vlm_nr":0,
	"vlm_flags":0}]},
{"name":"LAYER_RESOURCE_IDS","column_description":[],"data":[{"layer_resource_id":1,"node_name":"N1",
	"resource_name":"R","snapshot_name":"","layer_resource_kind":"STORAGE","layer_resource_suffix":""}]},
{"name":"LAYER_DRBD_RESOURCES","column_description":[],"data":[]},
{"name":"LAYER_STORAGE_VOLUMES","column_description":[],"data":[{"layer_resource_id":1,"vlm_nr":0,
	"provider_kind":"LVM","node_name":"N1","stor_pool_name":"P"}]},
{"name":"PROPS_CONTAINERS","column_description":[],"data":[{"props_instance":"/STOR_POOLS/N1/P",
	"prop_key":"StorDriver/StorPoolName","prop_value":"vg"}]}]}`

// TestCompareExport: what differs is a table and an error, and what could not be read is an error, too.
func TestCompareExport(t *testing.T) {
	const lies = "VG\tvg\t4194304\nLV\tvg\tr_00000\t1048576\nEND\n"
	for name, tc := range map[string]struct {
		export    string
		listings  map[string]string
		prints    string
		fails     string
		noListing bool
		machine   string
	}{
		"no difference": {export: exported, listings: map[string]string{"n1": lies},
			prints: "no differences: compared 1 volumes and snapshots in the export with 1 nodes\n"},
		"gone": {export: exported, listings: map[string]string{"n1": "VG\tvg\t4194304\nEND\n"},
			prints: "DIFFERENCE   NODE   PLACE   NAME      DETAILS\n" +
				"Absent       n1     vg      r_00000   it is missing: LINSTOR recreates it EMPTY\n",
			fails: "export.json and the nodes: 1"},
		"no listing of the node": {export: exported, listings: map[string]string{"n2": lies},
			prints: "the node was not checked", fails: "and the nodes: 2"},
		"a listing that is not whole": {export: exported, listings: map[string]string{"n1": lies[:20]}, fails: "n1: line 2"},
		"no directory":                {export: exported, noListing: true, fails: "--listings: specify the directory"},
		"no addresses": {export: exported, listings: map[string]string{"n1": lies}, machine: "-",
			fails: "--compare-address: specify the addresses"},
		"another machine has the address": {export: exported, listings: map[string]string{"n1": lies}, machine: "n7",
			prints: "AddressTaken   n7             10.0.0.1   in the backup, this address belongs to node n1",
			fails:  "and the nodes: 1"},
		"an export that is not whole": {export: exported[:900], listings: map[string]string{"n1": lies},
			fails: "the export ends unexpectedly"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, listings := t.TempDir(), t.TempDir()
			file := filepath.Join(dir, "export.json")
			if err := os.WriteFile(file, []byte(tc.export), 0o600); err != nil {
				t.Fatal(err)
			}
			for node, text := range tc.listings {
				if err := os.WriteFile(filepath.Join(listings, node), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if tc.noListing {
				listings = ""
			}
			var out bytes.Buffer
			machines := compare.Machines{cmp.Or(tc.machine, "n1"): {"10.0.0.1"}}
			if tc.machine == "-" {
				machines = nil
			}
			err := compareExport(&out, file, listings, machines)
			if !strings.Contains(out.String(), tc.prints) || (err != nil) != (tc.fails != "") ||
				err != nil && !strings.Contains(err.Error(), tc.fails) {
				t.Errorf("%v, and printed\n%s", err, &out)
			}
		})
	}
}

// TestSameRows: the order of rows and tables means nothing, and a row that is another one is named without its values.
func TestSameRows(t *testing.T) {
	write := func(text string) string {
		path := filepath.Join(t.TempDir(), "export.json")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	two := func(first, second string) string {
		const last = `{"props_instance":"/STOR_POOLS/N1/P",`
		row := func(key string) string {
			return `{"props_instance":"/CTRL","prop_key":"` + key + `","prop_value":"canary"},`
		}
		pools := `{"name":"NODE_STOR_POOL","column_description":[],"data":[]},` + "\n" + `{"name":"PROPS_CONTAINERS"`
		return strings.NewReplacer(last, row(first)+row(second)+last, `{"name":"PROPS_CONTAINERS"`, pools).Replace(exported)
	}
	x := write(two("a", "b"))
	if err := verifyExport(x, write(strings.Replace(two("b", "a"), `"k8s"`, `"sql/h2"`, 1))); err != nil {
		t.Error(err)
	}
	err := verifyExport(x, write(two("a", "c")))
	if err == nil || !strings.Contains(err.Error(), "do not have the same rows: ") ||
		strings.Contains(err.Error(), "canary") {
		t.Errorf("another row: %v", err)
	}
	if err := verifyExport(x, write(exported[:900])); err == nil || !strings.Contains(err.Error(), "ends unexpectedly") {
		t.Errorf("cut: %v", err)
	}
	if err := verifyExport(x, filepath.Join(t.TempDir(), "none")); !os.IsNotExist(err) {
		t.Errorf("absent: %v", err)
	}
}
