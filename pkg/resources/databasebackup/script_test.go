package databasebackup

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestScript: the restore test ends well only if LINSTOR's program did its work twice, and repeats nothing of what
// that says but what is known to be harmless.
func TestScript(t *testing.T) {
	const (
		imports = `[ "$1" = import-db ] && { grep -q '^connection_url = "jdbc:h2:' "$3/linstor.toml" || exit 9
[ "$2" = -c ] || exit 9; [ -d "$LS_LOG_DIRECTORY" ] || exit 9; echo "INFO LINSTOR/linstor-db - Import finished"; }
`
		exports = `[ "$1" = export-db ] && { echo '{}' > "$4"; echo "10:00 INFO LINSTOR/linstor-db - Export finished"; }
true
`
	)
	for name, tc := range map[string]struct {
		program string
		nothing bool // no export was downloaded
		says    string
	}{
		"both":             {program: imports + exports},
		"the store has it": {program: "exit 9", nothing: true},
		"it is not there":  {says: "linstor-database import-db ended with status 127"},
		"a call that it does not understand": {program: "echo 'Usage: canary' >&2",
			says: "linstor-database import-db ended with status 0"},
		"it fails": {program: "echo canary; echo 'java.lang.Error: canary' >&2; exit 1",
			says: "linstor-database import-db ended with status 1"},
		"it does not say that it is done": {program: "echo 'Import finished'; echo canary",
			says: "linstor-database import-db ended with status 0"},
		"an export of a newer LINSTOR": {program: "echo 'The given database export was created with a newer version of " +
			"Linstor than currently installed! Current version: canary' >&2; exit 1",
			says: "status 1: created with a newer version of Linstor than currently installed"},
		"a version that is unknown": {program: "echo \"Target migration version '40' does not exist canary\"; exit 1",
			says: "status 1: Target migration version '40' does not exist"},
		"only one of both": {
			program: imports + "[ $1 = import-db ] || { echo 'java.lang.OutOfMemoryError: canary' >&2; exit 3; }",
			says:    "linstor-database export-db ended with status 3: OutOfMemoryError"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, bin := t.TempDir(), t.TempDir()
			program := filepath.Join(bin, "linstor-database")
			if tc.program != "" {
				if err := os.WriteFile(program, []byte("#!/bin/sh\n"+tc.program), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			if !tc.nothing {
				if err := os.WriteFile(filepath.Join(dir, "export.json"), []byte("{}"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			text := strings.NewReplacer("/usr/share/linstor-server/bin", bin, "/tmp", dir).Replace(script)
			out, err := exec.Command("/bin/sh", "-c", text).CombinedOutput()
			if (err != nil) != (tc.says != "") || !strings.Contains(string(out), tc.says) ||
				strings.Contains(string(out), "canary") {
				t.Errorf("%v: %s", err, out)
			}
			left, err := filepath.Glob(filepath.Join(dir, "*"))
			if tc.says != "" && len(left) > 0 || len(left) > 2 || err != nil {
				t.Errorf("it leaves %v, %v", left, err)
			}
			if _, err := os.Stat(filepath.Join(dir, "restored.json")); (err == nil) != (tc.says == "" && !tc.nothing) {
				t.Errorf("restored.json: %v", err)
			}
		})
	}
}
