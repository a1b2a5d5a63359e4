package databasebackup

import (
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	godiff "github.com/google/go-cmp/cmp"
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
			text := strings.NewReplacer("/usr/share/linstor-server/bin", bin, "/tmp", dir).Replace(runScript + restoreTest)
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

// TestImport: an import begins only where the claim names the backup and linstor.toml a database. It ends well only if
// LINSTOR's program did its work twice.
func TestImport(t *testing.T) {
	const (
		imports = `[ "$1" = import-db ] && { [ "$2 $3" = "-c ETC" ] && [ -d "$LS_LOG_DIRECTORY" ] || exit 9
echo "INFO LINSTOR/linstor-db - Import finished"; }
`
		exports = `[ "$1" = export-db ] && { echo '{}' > "$4"; echo "10:00 INFO LINSTOR/linstor-db - Export finished"; }
true
`
		database = "[db]\nconnection_url = \"k8s\"\n"
	)
	for name, tc := range map[string]struct {
		program, claim, toml string
		nothing              bool
		says                 string
	}{
		"it is imported": {program: imports + exports, claim: "manual-a@5a", toml: database},
		"another backup": {program: "exit 9", claim: "manual-b@5a", toml: database,
			says: "the claim does not say that this backup is being restored"},
		"it is over":  {program: "exit 9", toml: database, says: "the claim does not say"},
		"no database": {program: "exit 9", claim: "manual-a@5a", toml: "[db]\n", says: "linstor.toml names no database"},
		"no export":   {program: "exit 9", claim: "manual-a@5a", toml: database, nothing: true, says: "there is no export"},
		"it fails": {program: "echo canary; exit 1", claim: "manual-a@5a", toml: database,
			says: "import-db ended with status 1"},
		"only one of both": {program: imports + "[ $1 = import-db ] || { echo canary >&2; exit 3; }", claim: "manual-a@5a",
			toml: database, says: "linstor-database export-db ended with status 3"},
		"the server is away": {program: "echo 'Connection to db:5432 refused. canary' >&2; exit 1", claim: "manual-a@5a",
			toml: database, says: "status 1: Connection to db:5432 refused"},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			work, etc, claim, bin := t.TempDir(), t.TempDir(), t.TempDir(), t.TempDir()
			for path, text := range map[string]string{
				filepath.Join(bin, "linstor-database"): "#!/bin/sh\n" + strings.ReplaceAll(tc.program, "ETC", etc),
				filepath.Join(etc, "linstor.toml"):     tc.toml,
				filepath.Join(claim, "restoring"):      tc.claim,
				filepath.Join(work, "restored.json"):   "of an earlier try",
				filepath.Join(work, "export.json"):     "{}",
			} {
				if tc.nothing && strings.HasSuffix(path, "export.json") {
					continue
				}
				if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			text := strings.NewReplacer("/usr/share/linstor-server/bin", bin, "/tmp", work, "/etc/linstor", etc,
				"/claim", claim).Replace(runScript + importScript)
			out, err := exec.Command("/bin/sh", "-c", text, "import-database", "manual-a@5a").CombinedOutput()
			if (err != nil) != (tc.says != "") || !strings.Contains(string(out), tc.says) ||
				strings.Contains(string(out), "canary") {
				t.Errorf("%v: %s", err, out)
			}
			if got, err := os.ReadFile(filepath.Join(work, "restored.json")); tc.says == "" && (err != nil ||
				strings.TrimSpace(string(got)) != "{}") {
				t.Errorf("restored.json is %q, %v", got, err)
			}
			if _, err := os.Stat(filepath.Join(work, "logs")); err == nil {
				t.Error("LINSTOR's logs are left, which may hold what is in the database")
			}
		})
	}
}

// TestImportAnew: LINSTOR's tables in Kubernetes are deleted, and nothing else, once LINSTOR's program has read the
// export; the import comes after that, and only if none of them is left.
func TestImportAnew(t *testing.T) {
	const (
		tables = "customresourcedefinition.apiextensions.k8s.io/nodes.internal.linstor.linbit.com\n" +
			"customresourcedefinition.apiextensions.k8s.io/rollback.internal.linstor.linbit.com\n"
		others = "customresourcedefinition.apiextensions.k8s.io/storageclusters.storage.linstor.dev\n" +
			"customresourcedefinition.apiextensions.k8s.io/internal.linstor.linbit.com.example.org\n"
		kubectl = `echo "$*" >> CALLS
case "$1" in
get) cat THERE ;;
delete) cat THERE > BEFORE; grep -v 'internal.linstor.linbit.com$' BEFORE > THERE ;;
esac
true
`
		program = `echo "$1 $3" >> CALLS
case "$1" in
import-db) echo "INFO LINSTOR/linstor-db - Import finished" ;;
export-db) echo '{}' > "$4"; echo "10:00 INFO LINSTOR/linstor-db - Export finished" ;;
esac
`
		kubernetes = "[db]\nconnection_url = \"k8s\"\n"
		get        = "get customresourcedefinitions -o name\n"
		deleted    = "delete --timeout=10m " +
			"customresourcedefinition.apiextensions.k8s.io/nodes.internal.linstor.linbit.com " +
			"customresourcedefinition.apiextensions.k8s.io/rollback.internal.linstor.linbit.com\n"
		tried    = "import-db WORK/logs/scratch\n"
		imported = "import-db ETC\nexport-db ETC\n"
	)
	for name, tc := range map[string]struct {
		program, kubectl, toml, there string
		calls, says                   string
	}{
		"tables":    {there: tables + others, calls: tried + get + deleted + get + imported},
		"no tables": {there: others, calls: tried + get + get + imported},
		"an order of rows that Kubernetes takes": {there: tables, calls: tried + get + deleted + get + imported,
			program: `case "$3" in */scratch) echo "$1 $3" >> CALLS; echo 'Referential integrity constraint violation' >&2
exit 1 ;; esac
` + program},
		"the export cannot be read": {there: tables, calls: tried, program: `echo "$1 $3" >> CALLS
echo 'canary Failed to parse exported DB file' >&2; exit 1`, says: "import-db ended with status 1: Failed to parse"},
		"another database": {toml: "[db]\nconnection_url = \"jdbc:postgresql://db/linstor\"\n", there: tables,
			says: "only a database in Kubernetes"},
		"they cannot be listed": {there: tables, kubectl: `echo "$*" >> CALLS; echo 'canary is forbidden' >&2; exit 1`,
			calls: tried + get, says: "kubectl get ended with status 1: is forbidden"},
		"they do not go": {there: tables, kubectl: `echo "$*" >> CALLS; [ "$1" = delete ] || cat THERE`,
			calls: tried + get + deleted + get, says: "kubectl delete leaves tables"},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			work, etc, claim, bin, notes := t.TempDir(), t.TempDir(), t.TempDir(), t.TempDir(), t.TempDir()
			in := strings.NewReplacer("ETC", etc, "WORK", work, "CALLS", filepath.Join(notes, "calls"), "THERE",
				filepath.Join(notes, "there"), "BEFORE", filepath.Join(notes, "before"))
			for path, text := range map[string]string{
				filepath.Join(bin, "linstor-database"): "#!/bin/sh\n" + in.Replace(cmp.Or(tc.program, program)),
				filepath.Join(bin, "kubectl"):          "#!/bin/sh\n" + in.Replace(cmp.Or(tc.kubectl, kubectl)),
				filepath.Join(etc, "linstor.toml"):     cmp.Or(tc.toml, kubernetes),
				filepath.Join(claim, "restoring"):      "upgrade-a@5a",
				filepath.Join(work, "export.json"):     "{}",
				filepath.Join(notes, "there"):          tc.there,
			} {
				if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			text := strings.NewReplacer("/usr/share/linstor-server/bin", bin, "/tmp", work, "/etc/linstor", etc,
				"/claim", claim).Replace(runScript + importScript)
			run := exec.Command("/bin/sh", "-c", text, "import-database", "upgrade-a@5a", anew)
			run.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
			out, err := run.CombinedOutput()
			if (err != nil) != (tc.says != "") || !strings.Contains(string(out), tc.says) ||
				strings.Contains(string(out), "canary") {
				t.Errorf("%v: %s", err, out)
			}
			calls, _ := os.ReadFile(filepath.Join(notes, "calls")) // none if nothing was called
			if diff := godiff.Diff(in.Replace(tc.calls), string(calls)); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
			if left, _ := filepath.Glob(filepath.Join(work, "*")); tc.says != "" && len(left) > 1 {
				t.Errorf("it leaves %v", left)
			}
		})
	}
}

// TestMoveScript: data is moved only where the claim names the move, and both configurations a database. It ends well
// only if LINSTOR's programs did their work four times, in this order.
func TestMoveScript(t *testing.T) {
	const (
		database = "[db]\nconnection_url = \"k8s\"\n"
		other    = "[db]\nconnection_url = \"jdbc:mariadb://db:3306/linstor\"\nuser = \"linstor\"\n"
		mark     = "jdbc:mariadb://db:3306/linstor@1"
		same     = "jdbc:mariadb://db:3306/linstor@same-1"
		program  = `[ -d "$LS_LOG_DIRECTORY" ] || exit 9
echo "$1 $3" >> CALLS
case "$1" in
import-db) grep -q first "$4" || exit 9; echo "INFO LINSTOR/linstor-db - Import finished" ;;
export-db) [ "$3" = ETC ] && echo first > "$4" || echo second > "$4"; echo "INFO linstor-db - Export finished" ;;
esac
`
		config = `[ "$3" = "--config-directory=ETC" ] || exit 9; echo canary; echo "$1" >> CALLS
`
	)
	for name, tc := range map[string]struct {
		program, config, claim, from, to string
		says                             string
	}{
		"it is moved": {program, config, mark, database, other, ""},
		"it is compared": {strings.Replace(program, "import-db)", "import-db) exit 9;", 1), config, same, database, other,
			""},
		"another move":   {"exit 9", "exit 9", mark + "2", database, other, "the claim does not say that LINSTOR's"},
		"it is over":     {"exit 9", "exit 9", "", database, other, "the claim does not say"},
		"no database":    {"exit 9", "exit 9", mark, "[db]\n", other, "ETC/linstor.toml does not name the database k8s"},
		"another source": {"exit 9", "exit 9", mark, other, other, "ETC/linstor.toml does not name the database k8s"},
		"no target":      {"exit 9", "exit 9", mark, database, "", "TARGET/linstor.toml does not name the database jdbc:"},
		"another target": {"exit 9", "exit 9", mark, database, database, "TARGET/linstor.toml does not name the database"},
		"a newer database": {"exit 9", "echo canary; exit 1", mark, database, other,
			"all-migrations-applied ended with status 1"},
		"no access": {"exit 9", "echo 'password authentication failed for canary' >&2; exit 1", mark, database, other,
			"all-migrations-applied ended with status 1: password authentication failed"},
		"a write that cannot be taken back": {"exit 9", `[ "$1" = all-migrations-applied ] || { echo canary >&2; exit 1; }`,
			mark, database, other, "linstor-config run-migration ended with status 1"},
		"it fails at once": {"echo canary; exit 1", config, mark, database, other, "export-db ended with status 1"},
		"it fails in the middle": {program + `[ "$1" = export-db ] || { echo 'No space left on device. canary'; exit 1; }`,
			config, mark, database, other, "import-db ended with status 1: No space left on device"},
		"it fails at the end": {program + `[ "$3" = ETC ] || [ "$1" = import-db ] || exit 1`, config, mark, database,
			other, "export-db ended with status 1"},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			work, etc, target, claim, bin := t.TempDir(), t.TempDir(), t.TempDir(), t.TempDir(), t.TempDir()
			calls := filepath.Join(claim, "calls")
			there := strings.NewReplacer("ETC", etc, "TARGET", target, "CALLS", calls)
			for path, text := range map[string]string{
				filepath.Join(bin, "linstor-database"): "#!/bin/sh\n" + there.Replace(tc.program),
				filepath.Join(bin, "linstor-config"):   "#!/bin/sh\n" + there.Replace(tc.config),
				filepath.Join(etc, "linstor.toml"):     tc.from,
				filepath.Join(target, "linstor.toml"):  tc.to,
				filepath.Join(claim, "moving"):         tc.claim,
				filepath.Join(work, "restored.json"):   "of an earlier try",
				filepath.Join(work, "export.json"):     "of an earlier try",
			} {
				if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			text := strings.NewReplacer("/usr/share/linstor-server/bin", bin, "/tmp", work, "/etc/linstor", etc,
				"/target", target, "/claim", claim).Replace(runScript + moveScript)
			asked, imports := mark, "import-db TARGET\n"
			if tc.claim == same {
				asked, imports = same, ""
			}
			out, err := exec.Command("/bin/sh", "-c", text, "move-database", asked, "k8s").CombinedOutput()
			if (err != nil) != (tc.says != "") || !strings.Contains(string(out), there.Replace(tc.says)) ||
				strings.Contains(string(out), "canary") {
				t.Errorf("%v: %s", err, out)
			}
			nothingSecret(t, work, strings.Contains(tc.says, "ended with"))
			if tc.says != "" {
				return
			}
			did, err := os.ReadFile(calls)
			if want := there.Replace("all-migrations-applied\nrun-migration\nexport-db ETC\n" + imports +
				"export-db TARGET\n"); err != nil || string(did) != want {
				t.Errorf("calls %q, %v, want %q", did, err, want)
			}
			for name, want := range map[string]string{"export.json": "first\n", "restored.json": "second\n"} {
				if got, err := os.ReadFile(filepath.Join(work, name)); err != nil || string(got) != want {
					t.Errorf("%s is %q, %v", name, got, err)
				}
			}
		})
	}
}

// nothingSecret fails if LINSTOR's logs are left, or after a failure an export: they may hold keys.
func nothingSecret(t *testing.T, work string, failed bool) {
	t.Helper()
	for _, name := range []string{"logs", "export.json", "restored.json"} {
		if _, err := os.Stat(filepath.Join(work, name)); err == nil && (failed || name == "logs") {
			t.Errorf("%s is left", name)
		}
	}
}
