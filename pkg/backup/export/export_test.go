package export

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// secret is a value that an export has and that nothing may repeat.
const secret = "c2VjcmV0IGtleQ=="

type values map[string]any

// of is a table with these rows.
func of(name string, rows ...values) values {
	if rows == nil {
		rows = []values{}
	}
	return values{"name": name, "column_description": []values{{"name": "UUID", "sql_type": 1, "is_primary_key": false,
		"is_nullable": false}}, "data": rows}
}

// tables are those of a small cluster.
func tables() []values {
	return []values{
		of("KEY_VALUE_STORE"),
		of("NODES", values{"node_name": "N1"}, values{"node_name": "N2"}),
		of("RESOURCE_DEFINITIONS", values{"resource_name": "R1", "snapshot_name": ""},
			values{"resource_name": "R1", "snapshot_name": "S1"}),
		of("RESOURCES", values{"node_name": "N1", "resource_name": "R1", "snapshot_name": ""},
			values{"node_name": "N2", "resource_name": "R1", "snapshot_name": ""},
			values{"node_name": "N1", "resource_name": "R1", "snapshot_name": "S1"}),
		of("NODE_STOR_POOL", values{"node_name": "N1", "driver_name": "DISKLESS"},
			values{"node_name": "N1", "driver_name": "LVM_THIN"}),
		of("VOLUMES", values{"node_name": "N1", "resource_name": "R1", "snapshot_name": "", "vlm_nr": 0},
			values{"node_name": "N1", "resource_name": "R1", "snapshot_name": "S1", "vlm_nr": 0}),
		of("PROPS_CONTAINERS", values{"props_instance": "/CTRL", "prop_key": "encrypted/masterkey", "prop_value": secret},
			values{"props_instance": "/CTRL", "prop_key": "Cluster/LocalID", "prop_value": "1b1e-id"}),
	}
}

func small(change func(e values)) string {
	e := values{"linstor_version": "1.34.2", "export_timestamp_ms": 1763971200000, "exported_from": "k8s",
		"data_version": "v1-33-1", "sql_version": "2026.04.08.09.00", "k8s_version": 34, "tables": tables()}
	if change != nil {
		change(e)
	}
	data, err := json.Marshal(e)
	if err != nil {
		panic(err)
	}
	return string(data)
}

func TestRead(t *testing.T) {
	got, err := Read(strings.NewReader(small(nil)))
	if err != nil {
		t.Fatal(err)
	}
	want := &Summary{Linstor: "1.34.2", Taken: time.UnixMilli(1763971200000), From: "k8s", LocalID: "1b1e-id", Tables: 7,
		Rows: 13, Nodes: 2, StoragePools: 1, ResourceDefinitions: 1, Resources: 2, Volumes: 1, Snapshots: 1}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("summary (-want +got):\n%s", d)
	}
	if s := got.String(); !strings.Contains(s, "1.34.2 export from k8s, taken 2025-11-24T08:00:00Z: 2 nodes") ||
		!strings.HasSuffix(s, "1 snapshots; 13 rows in 7 tables") {
		t.Error(s)
	}
}

// TestBroken: every way in which an export is none, or not whole, is an error that says where, and no value.
func TestBroken(t *testing.T) {
	table := func(i int, change func(values)) func(values) {
		return func(e values) { change(e["tables"].([]values)[i]) }
	}
	whole := small(nil)
	for name, tc := range map[string]struct{ text, says string }{
		"nothing":              {"", "ends unexpectedly"},
		"no object":            {"[]", "expected {, but found something else"},
		"another object":       {"{}", "field linstor_version is missing"},
		"no JSON":              {"{linstor}", "invalid JSON"},
		"cut short":            {whole[:len(whole)/2], "ends unexpectedly"},
		"cut in the last byte": {whole[:len(whole)-1], "ends unexpectedly"},
		"something follows":    {whole + "{}", "contains more data after"},
		"no time":              {small(func(e values) { delete(e, "export_timestamp_ms") }), "timestamp_ms is missing"},
		"a time that is none": {small(func(e values) { e["export_timestamp_ms"] = secret }),
			"export_timestamp_ms has the wrong type: string"},
		"no tables":          {small(func(e values) { delete(e, "tables") }), "field tables is missing"},
		"tables are none":    {small(func(e values) { e["tables"] = secret }), "tables: expected [, but found"},
		"a table is none":    {small(func(e values) { e["tables"] = []string{secret} }), "table 1: expected {"},
		"a table is missing": {small(func(e values) { e["tables"] = tables()[:6] }), "has no PROPS_CONTAINERS table"},
		"a table twice": {small(func(e values) { e["tables"] = append(tables(), of("NODES")) }),
			"table 8 (NODES): NODES appears twice"},
		"a field twice": {strings.Replace(whole, `"k8s_version"`, `"exported_from"`, 1),
			"exported_from appears twice"},
		"a table without name": {small(table(0, func(t values) { delete(t, "name") })), "table 1: the table has no name"},
		"a table without rows": {small(table(1, func(t values) { delete(t, "data") })), "NODES has no data"},
		"a table without columns": {small(table(1, func(t values) { delete(t, "column_description") })),
			"NODES has no column_description"},
		"a row is none": {small(table(1, func(t values) { t["data"] = []any{values{"node_name": "N1"}, secret} })),
			"table 2: row 2 or one of its columns has the wrong type: string"},
		"a column is of another kind": {small(table(3, func(t values) {
			t["data"] = []values{{"snapshot_name": []string{secret}}}
		})), "table 4: row 1 or one of its columns has the wrong type: array"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Read(strings.NewReader(tc.text))
			if err == nil || !strings.Contains(err.Error(), tc.says) || strings.Contains(err.Error(), secret) {
				t.Errorf("error is %v, want ...%s...", err, tc.says)
			}
		})
	}
}

// TestUnknownFields: a newer LINSTOR may say more.
func TestUnknownFields(t *testing.T) {
	_, err := Read(strings.NewReader(small(func(e values) {
		e["checksum"] = values{"of": []int{1}}
		e["tables"] = append(tables(), of("NEW_TABLE", values{"a": 1}), values{"name": "OTHER", "comment": nil,
			"column_description": nil, "data": []values{}})
	})))
	if err != nil {
		t.Error(err)
	}
}

func FuzzRead(f *testing.F) {
	f.Add(small(nil))
	f.Add(`{"tables":[{"name":"NODES","column_description":null,"data":[{"snapshot_name":1}]}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Read(strings.NewReader(text))
		switch {
		case err != nil && len(err.Error()) > 300:
			t.Errorf("%d characters of error", len(err.Error()))
		case err == nil && (s.Tables < len(required) || s.Nodes < 0):
			t.Errorf("%+v", s)
		}
	})
}
