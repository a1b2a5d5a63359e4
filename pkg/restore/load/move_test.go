package load

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCheckMove: data was moved if both databases hold the same rows, those of this LINSTOR. No file is left: they
// hold keys.
func TestCheckMove(t *testing.T) {
	foreign := func(minute int) string { return strings.ReplaceAll(exportOf(minute, "a"), localID, "x") }
	for name, tc := range map[string]struct{ exported, restored, says string }{
		"the same":        {exportOf(0, "a"), exportOf(30, "a"), ""},
		"another row":     {exportOf(0, "a"), exportOf(30, "canary"), "rows in table PROPS_CONTAINERS differ"},
		"another cluster": {foreign(0), foreign(30), "belongs to another cluster"},
		"no export":       {"", exportOf(30, "a"), "check LINSTOR's database export"},
		"nothing moved":   {exportOf(0, "a"), "", "check the export of the restored database"},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			dir := t.TempDir()
			m := &Move{Cluster: localID, Mark: "k8s@1", Export: filepath.Join(dir, "a"), Restored: filepath.Join(dir, "b")}
			for path, text := range map[string]string{m.Export: tc.exported, m.Restored: tc.restored} {
				if text == "" {
					continue
				}
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			moved, err := m.Check()
			if (err != nil) != (tc.says != "") || err != nil && (!strings.Contains(err.Error(), tc.says) ||
				strings.Contains(err.Error(), "canary")) {
				t.Errorf("%v; it does not say %q", err, tc.says)
			}
			if err == nil && *moved != (Moved{Mark: "k8s@1", Rows: 2}) {
				t.Errorf("%+v", moved)
			}
			if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
				t.Errorf("%v are left, %v", left, err)
			}
		})
	}
}

func TestParseMove(t *testing.T) {
	const good = `{"cluster":"c","mark":"k8s@1","export":"/e","restored":"/r"}`
	if m, err := ParseMove(good); err != nil || m.Mark != "k8s@1" || m.Restored != "/r" {
		t.Errorf("%+v, %v", m, err)
	}
	for text, says := range map[string]string{
		"": "parse the move configuration", "{}": "lacks mark",
		strings.Replace(good, `"c"`, `""`, 1):    "lacks cluster",
		strings.Replace(good, "export", "ex", 1): "unknown field",
	} {
		if _, err := ParseMove(text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v; it does not say %q", text, err, says)
		}
	}
	full := &Moved{Mark: "k8s@1", Rows: 3}
	text, err := full.Note()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := ParseMoved(string(text)); err != nil || *got != *full {
		t.Errorf("%+v, %v", got, err)
	}
	for _, text := range []string{"", "{}", `{"rows":3}`, "done"} {
		if got, err := ParseMoved(text); err == nil {
			t.Errorf("%q says %+v", text, got)
		}
	}
}
