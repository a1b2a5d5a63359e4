package load

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/linstor-dev/storagecluster-operator/pkg/backup/store"
)

const localID = "1b1e-id"

// exportOf is an export with a property of that value, taken in that minute.
func exportOf(minute int, value string) string {
	tables := []string{fmt.Sprintf(`{"name":"PROPS_CONTAINERS","column_description":[],"data":[`+
		`{"props_instance":"/CTRL","prop_key":"Cluster/LocalID","prop_value":%q},`+
		`{"props_instance":"/CTRL","prop_key":"k","prop_value":%q}]}`,
		localID, value)}
	for _, name := range []string{"NODES", "RESOURCE_DEFINITIONS", "RESOURCES", "NODE_STOR_POOL", "VOLUMES"} {
		tables = append(tables, fmt.Sprintf(`{"name":%q,"column_description":[],"data":[]}`, name))
	}
	return fmt.Sprintf(`{"linstor_version":"1.34.2","export_timestamp_ms":%d,"exported_from":"k8s","tables":[%s]}`,
		time.Date(2026, 11, 26, 8, minute, 0, 0, time.UTC).UnixMilli(), strings.Join(tables, ","))
}

// backedUp is a directory with two backups of one ID, and the configuration to load the older one.
func backedUp(t *testing.T) *Config {
	t.Helper()
	dir := t.TempDir()
	c := &Config{Cluster: localID, ID: "manual-a", Store: store.Location{Directory: t.TempDir()},
		Export: filepath.Join(dir, "export.json"), Restored: filepath.Join(dir, "restored.json")}
	to, err := store.Connect(c.Store, localID, "")
	if err != nil {
		t.Fatal(err)
	}
	for minute, value := range []string{"older", "newer"} {
		source, packed := filepath.Join(t.TempDir(), "export"), filepath.Join(t.TempDir(), "packed")
		if err := os.WriteFile(source, []byte(exportOf(minute, value)), 0o600); err != nil {
			t.Fatal(err)
		}
		b, err := store.Pack(c.ID, source, packed)
		if err != nil {
			t.Fatal(err)
		}
		if err := to.Put(t.Context(), b, packed); err != nil {
			t.Fatal(err)
		}
		if minute == 0 {
			c.SHA256 = b.SHA256
		}
	}
	return c
}

// fetched fetches the older backup in the place of what an earlier try has left.
func fetched(t *testing.T, c *Config) {
	t.Helper()
	if err := os.WriteFile(c.Export, []byte("of an earlier try"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Fetch(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(c.Export); err != nil || string(got) != exportOf(0, "older") {
		t.Errorf("fetched %s, %v", got, err)
	}
}

// TestLoad: the backup that was named is fetched, though a newer one has its ID, and what LINSTOR's program has made
// of it is compared with it, row by row. No file is left: they hold keys.
func TestLoad(t *testing.T) {
	for name, tc := range map[string]struct {
		restored string
		says     string
	}{
		"the same":       {restored: exportOf(30, "older")},
		"another row":    {restored: exportOf(30, "canary"), says: "rows in table PROPS_CONTAINERS differ"},
		"half of it":     {restored: exportOf(30, "older")[:300], says: "check the export of the restored"},
		"nothing at all": {says: "check the export of the restored database"},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			c := backedUp(t)
			fetched(t, c)
			if tc.restored != "" {
				if err := os.WriteFile(c.Restored, []byte(tc.restored), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			r, err := Check(c)
			if (err != nil) != (tc.says != "") || err != nil && (!strings.Contains(err.Error(), tc.says) ||
				strings.Contains(err.Error(), "canary")) {
				t.Errorf("%+v, %v; it does not say %q", r, err, tc.says)
			}
			if err == nil && (r.ID != c.ID || r.SHA256 != c.SHA256 || r.Rows != 2 || r.Taken.Minute() != 0) {
				t.Errorf("%+v", r)
			}
			if left, err := os.ReadDir(filepath.Dir(c.Export)); err != nil || len(left) > 0 {
				t.Errorf("%v are left, %v", left, err)
			}
		})
	}
}

// TestFetchFails: what cannot be fetched whole leaves nothing that could be imported.
func TestFetchFails(t *testing.T) {
	for name, tc := range map[string]struct {
		spoil func(*testing.T, *Config)
		says  string
	}{
		"another checksum": {func(_ *testing.T, c *Config) { c.SHA256 = "0000" },
			"the store no longer has backup manual-a with the checksum that was compared"},
		"another ID": {func(_ *testing.T, c *Config) { c.ID = "manual-b" }, "the store no longer has backup manual-b"},
		"another cluster": {func(_ *testing.T, c *Config) { c.Cluster = "other" },
			"the store no longer has backup manual-a"},
		"damaged": {func(t *testing.T, c *Config) {
			files, err := filepath.Glob(filepath.Join(c.Store.Directory, "*", "*-manual-a.json.gz"))
			if err != nil || len(files) != 2 {
				t.Fatalf("%v, %v", files, err)
			}
			text, err := os.ReadFile(files[0])
			if err == nil {
				text[len(text)-6] ^= 1
				err = os.WriteFile(files[0], text, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}, "read backup manual-a: "},
		"no room": {func(_ *testing.T, c *Config) { c.Export = filepath.Join(c.Export, "export") }, "no such file"},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			c := backedUp(t)
			tc.spoil(t, c)
			if err := Fetch(t.Context(), c); err == nil || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("%v; it does not say %q", err, tc.says)
			}
			if left, err := filepath.Glob(filepath.Join(filepath.Dir(c.Export), "*")); err != nil || len(left) > 0 {
				t.Errorf("%v are left, %v", left, err)
			}
		})
	}
}

func TestParseConfig(t *testing.T) {
	const good = `{"cluster":"c","id":"manual-a","sha256":"5a","store":{"directory":"/b"},"export":"/e","restored":"/r"}`
	if c, err := ParseConfig(good); err != nil || c.ID != "manual-a" || c.Restored != "/r" {
		t.Errorf("%+v, %v", c, err)
	}
	for text, says := range map[string]string{
		"":                                       "parse the restore configuration",
		"{}":                                     "lacks cluster",
		strings.Replace(good, "manual", "m", 1):  "is not a valid backup ID",
		strings.Replace(good, `"5a"`, `""`, 1):   "lacks sha256",
		strings.Replace(good, "export", "ex", 1): "unknown field",
	} {
		if _, err := ParseConfig(text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v; it does not say %q", text, err, says)
		}
	}
}

func TestNote(t *testing.T) {
	full := &Result{ID: "manual-a", SHA256: "5a", Rows: 3, Taken: time.Date(2026, 11, 26, 8, 0, 0, 0, time.UTC)}
	text, err := full.Note()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := ParseNote(string(text)); err != nil || *got != *full {
		t.Errorf("%+v, %v", got, err)
	}
	for _, text := range []string{"", "{}", `{"id":"manual-a"}`, `{"id":"a","sha256":"5a"}`, "done"} {
		if got, err := ParseNote(text); err == nil {
			t.Errorf("%q says %+v", text, got)
		}
	}
}
