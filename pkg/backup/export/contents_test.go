package export

import (
	"strings"
	"testing"
)

func contentsOf(t *testing.T, text string) *Contents {
	t.Helper()
	c, err := ReadContents(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestDiffer: the order of rows and tables, and when and from where an export is, are no difference; all else is.
func TestDiffer(t *testing.T) {
	whole := contentsOf(t, small(nil))
	for name, tc := range map[string]struct {
		change func(e values, tables []values)
		want   string
	}{
		"the same": {func(values, []values) {}, ""},
		"later, from another database": {func(e values, _ []values) {
			e["export_timestamp_ms"], e["exported_from"] = 1763971300000, "sql/h2"
		}, ""},
		"another order": {func(_ values, all []values) {
			n := rowsOf(all, "NODES")
			n[0], n[1] = n[1], n[0]
			all[1], all[2] = all[2], all[1]
		}, ""},
		"null in place of nothing": {func(_ values, all []values) { rowsOf(all, "NODES")[0]["comment"] = nil }, ""},
		"an empty table more":      {func(e values, all []values) { e["tables"] = append(all, of("FILES")) }, ""},
		"an empty table less":      {func(e values, all []values) { e["tables"] = all[1:] }, ""},
		"a row less": {func(_ values, all []values) {
			for _, x := range all {
				if x["name"] == "NODES" {
					x["data"] = rowsOf(all, "NODES")[:1]
				}
			}
		}, "table NODES has 2 rows in one export, but 1 in the other"},
		"a row of a table that is not counted": {func(_ values, all []values) {
			all[0]["data"] = []values{{"kvs_name": "K"}}
		}, "table KEY_VALUE_STORE has 0 rows in one export, but 1 in the other"},
		"another value": {func(_ values, all []values) { rowsOf(all, "VOLUMES")[0]["vlm_nr"] = 1 },
			"rows in table VOLUMES differ"},
		"a large number": {func(_ values, all []values) { rowsOf(all, "VOLUMES")[0]["vlm_nr"] = 9007199254740993 },
			"rows in table VOLUMES differ"},
		"values of two rows exchanged": {func(_ values, all []values) {
			p := rowsOf(all, "PROPS_CONTAINERS")
			p[0]["prop_value"], p[1]["prop_value"] = p[1]["prop_value"], p[0]["prop_value"]
		}, "rows in table PROPS_CONTAINERS differ"},
	} {
		t.Run(name, func(t *testing.T) {
			other := contentsOf(t, small(func(e values) { tc.change(e, e["tables"].([]values)) }))
			if got := whole.Differ(other); got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
	created := func(ms int, from string) *Contents {
		return contentsOf(t, small(func(e values) {
			e["exported_from"] = from
			for _, name := range []string{"create_timestamp", "created_at", "deleted_at", "expires_at", "entry_date"} {
				rowsOf(e["tables"].([]values), "VOLUMES")[0][name] = ms
			}
		}))
	}
	for _, tc := range []struct {
		ms, other int
		from      string
		differs   bool
	}{
		{1763971300123, 1763971300000, "sql/mariadb", false}, {1763971300123, 1763971300000, "sql/postgresql", true},
		{1763971300999, 1763971301000, "sql/mariadb", false}, {1763971300999, 1763971302000, "sql/mariadb", true},
	} {
		a, b := created(tc.ms, "k8s"), created(tc.other, tc.from)
		if (a.Differ(b) != "") != tc.differs || (b.Differ(a) != "") != tc.differs {
			t.Errorf("%d from k8s and %d from %s: %q, %q", tc.ms, tc.other, tc.from, a.Differ(b), b.Differ(a))
		}
	}
	numbered := func(n int) *Contents {
		return contentsOf(t, small(func(e values) { rowsOf(e["tables"].([]values), "VOLUMES")[0]["vlm_nr"] = n }))
	}
	if numbered(9007199254740992).Differ(numbered(9007199254740993)) == "" {
		t.Error("numbers that differ in the last bit of 54 count as equal")
	}
	if _, err := ReadContents(strings.NewReader(small(nil)[:400])); err == nil {
		t.Error("half an export was read")
	}
}
