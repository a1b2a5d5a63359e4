package sim_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linstor-dev/storagecluster-operator/test/sim"
)

// export is the one in LINSTOR's report.
func (b *bench) export() []byte {
	b.Helper()
	status, report := b.raw(http.MethodGet, "/v1/sos-report/download?nodes=-", "")
	if status != http.StatusOK {
		b.Fatalf("report: %d %s", status, report)
	}
	zip, err := gzip.NewReader(bytes.NewReader(report))
	b.must(err)
	files := tar.NewReader(zip)
	for {
		header, err := files.Next()
		b.must(err)
		if path.Base(header.Name) == "dbexport.json" {
			text, err := io.ReadAll(files)
			b.must(err)
			return text
		}
	}
}

// importing is how the import is started that the controller's pod would do.
func importing() sim.ControllerConfig {
	return sim.ControllerConfig{Version: testVersion, TOML: "[db]\nconnection_url = \"k8s\"\n", Identity: "restore"}
}

// restore stops the controller, imports, and starts another one; satellites connect to it.
func (b *bench) restore(export []byte) {
	b.Helper()
	b.stop()
	_, err := b.world.ImportDatabase(b.Context(), importing(), export)
	b.must(err)
	b.controller(sim.ControllerConfig{})
	b.pass(2 * time.Second)
}

// answers are what LINSTOR says about all that it keeps, without what only the machines know.
func (b *bench) answers() map[string]any {
	b.Helper()
	all := map[string]any{}
	for _, at := range []string{"nodes", "view/storage-pools", "view/resources", "view/snapshots", "resource-groups",
		"resource-definitions?with_volume_definitions=true", "resource-groups/gold/volume-groups", "key-value-store",
		"storage-pool-definitions", "node-connections", "controller/properties", "encryption/passphrase"} {
		status, body := b.raw(http.MethodGet, "/v1/"+at, "")
		var answer any
		if err := json.Unmarshal(body, &answer); err != nil || status != http.StatusOK {
			b.Fatalf("%s: %d %s", at, status, body)
		}
		if pools, ok := answer.([]any); ok && at == "view/storage-pools" {
			for _, p := range pools {
				delete(p.(map[string]any), "free_capacity")
			}
		}
		all[at] = answer
	}
	return all
}

// change sends requests that must succeed: method, path below /v1 and body.
func (b *bench) change(requests ...[3]string) {
	b.Helper()
	for _, r := range requests {
		if status, body := b.raw(r[0], "/v1/"+r[1], r[2]); status >= http.StatusMultipleChoices {
			b.Fatalf("%s %s: %d %s", r[0], r[1], status, body)
		}
	}
}

// TestImportRestoresAll: whatever was changed after the export, LINSTOR answers as it did before.
func TestImportRestoresAll(t *testing.T) {
	b := newBench(t)
	b.online(3)
	b.class("gold", 2, "DRBD", "STORAGE")
	v := b.world.Volumes()
	b.must(v.Create("pvc-1", 1<<20, "ssd", "n1", "n2"))
	b.must(v.Create("pvc-2", 1<<20, "ssd", "n2"))
	b.must(v.CreateSnapshot("pvc-1", "s1"))
	b.change([3]string{"PUT", "key-value-store/kept", `{"override_props":{"a":"1"}}`},
		[3]string{"PUT", "node-connections/n1/n2", `{"override_props":{"Aux/link":"1"}}`},
		[3]string{"POST", "controller/properties", `{"override_props":{"Aux/all":"1"}}`},
		[3]string{"PUT", "nodes/n1", `{"override_props":{"Aux/rack":"1"}}`},
		[3]string{"POST", "encryption/passphrase", `{"new_passphrase":"one"}`},
		[3]string{"PUT", "resource-definitions/pvc-1", `{"override_props":{"Aux/of":"1"}}`},
		[3]string{"PUT", "resource-definitions/pvc-1/resources/n1/volumes/0", `{"override_props":{"Aux/of":"1"}}`})
	b.restartController()
	b.pass(2 * time.Second)
	before, export := b.answers(), b.export()
	b.pass(time.Second)

	b.must(v.Delete("pvc-2"))
	b.must(v.Create("pvc-3", 1<<20, "ssd", "n3"))
	b.must(v.RemoveCopy("pvc-1", "n1"))
	v.DeleteSnapshot("pvc-1", "s1")
	b.must(v.CreateSnapshot("pvc-1", "s2"))
	b.change([3]string{"PUT", "key-value-store/kept", `{"override_props":{"a":"2"}}`},
		[3]string{"PUT", "key-value-store/new", `{"override_props":{"a":"2"}}`},
		[3]string{"PUT", "node-connections/n1/n2", `{"override_props":{"Aux/link":"2"}}`},
		[3]string{"POST", "controller/properties", `{"override_props":{"Aux/all":"2"}}`},
		[3]string{"PUT", "nodes/n1", `{"override_props":{"Aux/rack":"2"}}`},
		[3]string{"POST", "nodes/n1/net-interfaces", `{"name":"second","address":"10.1.0.1"}`},
		[3]string{"POST", "nodes/n1/storage-pools", `{"storage_pool_name":"thick","provider_kind":"LVM",` +
			`"props":{"StorDriver/StorPoolName":"vg"}}`},
		[3]string{"PUT", "encryption/passphrase", `{"old_passphrase":"one","new_passphrase":"two"}`},
		[3]string{"PUT", "resource-groups/gold", `{"description":"new","select_filter":{"place_count":1}}`},
		[3]string{"POST", "resource-groups/gold/volume-groups", `{"volume_number":1}`},
		[3]string{"POST", "resource-groups", `{"name":"silver"}`},
		[3]string{"PUT", "resource-definitions/pvc-1", `{"override_props":{"Aux/of":"2"}}`},
		[3]string{"PUT", "resource-definitions/pvc-1/volume-definitions/0", `{"override_props":{"Aux/of":"2"}}`},
		[3]string{"PUT", "resource-definitions/pvc-1/resources/n2/volumes/0", `{"override_props":{"Aux/of":"2"}}`})
	for at, answer := range b.answers() {
		if cmp.Equal(answer, before[at]) && at != "encryption/passphrase" {
			t.Errorf("nothing was changed in %s", at)
		}
	}

	for range 2 { // what the first import brought is not shared with what the second one brings
		b.restore(export)
		b.pass(2 * time.Second)
		if diff := cmp.Diff(before, b.answers()); diff != "" {
			t.Fatalf("answers (-before +after):\n%s", diff)
		}
		if status, body := b.raw("PATCH", "/v1/encryption/passphrase", `"one"`); status != http.StatusOK {
			t.Errorf("the old passphrase: %d %s", status, body)
		}
		b.change([3]string{"PUT", "key-value-store/kept", `{"override_props":{"a":"3"}}`},
			[3]string{"PUT", "resource-definitions/pvc-1", `{"override_props":{"Aux/of":"3"}}`})
	}
	b.data("pvc-3", "n3") // LINSTOR does not know it any more, and leaves it alone
	b.violations("volume-emptied resource=pvc-2 node=n2")
}

// TestImportWithoutDifferences: nothing on any machine changes, and what is in use stays so. The export that the
// import ends with has the same tables.
func TestImportWithoutDifferences(t *testing.T) {
	b := newBench(t)
	b.online(2)
	v := b.world.Volumes()
	b.must(v.Create("pvc-1", 1<<20, "ssd", "n1", "n2"))
	b.must(v.CreateWithoutDRBD("pvc-2", 1<<20, "ssd", "n2"))
	export := b.export()
	b.must(v.OpenDevice("n1", b.deviceOf("pvc-1", "n1")))
	b.must(v.WriteFile("n1", b.deviceOf("pvc-1", "n1"), "file", "late"))
	b.must(v.WriteFile("n2", b.deviceOf("pvc-2", "n2"), "file", "late"))
	listed := func() []string { return []string{b.world.Machine("n1").Listing(), b.world.Machine("n2").Listing()} }
	before := listed()
	if !strings.Contains(before[0], "PRIMARY\tpvc-1") {
		t.Fatalf("listing %s", before[0])
	}

	b.stop()
	b.clock.Step(time.Hour)
	exported, err := b.world.ImportDatabase(t.Context(), importing(), export)
	b.must(err)
	var first, second struct {
		From   string `json:"exported_from"`
		Tables any    `json:"tables"`
	}
	b.must(errors.Join(json.Unmarshal(export, &first), json.Unmarshal(exported, &second)))
	if diff := cmp.Diff(first, second); diff != "" {
		t.Errorf("exports (-first +second):\n%s", diff)
	}
	b.controller(sim.ControllerConfig{})
	b.pass(2 * time.Second)
	if diff := cmp.Diff(before, listed()); diff != "" {
		t.Errorf("machines (-before +after):\n%s", diff)
	}
	b.reads("pvc-1", "n2", "late")
	b.reads("pvc-2", "n2", "late")
	b.data("pvc-1", "n1", "n2")
	b.violations()
}

// TestImportElsewhere: a database that has never been used gets the cluster, with the identity and the schema that the
// export's LINSTOR had.
func TestImportElsewhere(t *testing.T) {
	b := newBench(t)
	b.online(1)
	b.must(b.world.Volumes().Create("pvc-1", 1<<20, "ssd", "n1"))
	export := b.export()
	b.stop()
	exported, err := b.world.ImportDatabase(t.Context(), sim.ControllerConfig{Version: "1.35.3", TOML: sqlTOML("", "")},
		export)
	b.must(err)
	if text := string(exported); !strings.Contains(text, `"exported_from":"sql/postgresql"`) ||
		!strings.Contains(text, `"linstor_version":"1.35.3"`) {
		t.Errorf("export %.200s", text)
	}
	target, source := b.world.Database(sqlURL), b.world.Database("k8s")
	if target.LocalID() != source.LocalID() || target.SchemaVersion() != testVersion || target.Empty() {
		t.Errorf("identity %q, schema %q", target.LocalID(), target.SchemaVersion())
	}
	third := sim.ControllerConfig{Version: "1.35.3", TOML: `db.connection_url = "jdbc:mariadb://db/linstor"`}
	_, err = b.world.ImportDatabase(t.Context(), third, exported)
	b.must(err)
	if got := b.world.Database("jdbc:mariadb://db/linstor").SchemaVersion(); got != "1.35.3" {
		t.Errorf("schema %q of what 1.35.3 has exported", got)
	}
	b.controller(sim.ControllerConfig{TOML: sqlTOML("", "")})
	b.pass(2 * time.Second)
	b.status("n1", "ONLINE")
	b.copies("pvc-1", "n1")
	b.violations()
}

// TestImportAnew: a LINSTOR of before imports into a database that a later one has migrated once that was emptied.
func TestImportAnew(t *testing.T) {
	b := newBench(t)
	b.online(1)
	b.must(b.world.Volumes().Create("pvc-1", 1<<20, "ssd", "n1"))
	export, id := b.export(), b.world.Database("k8s").LocalID()
	b.stop()
	newer, db := importing(), b.world.Database("k8s")
	newer.Version = "1.35.3"
	b.must(b.world.RunMigration(newer))
	b.must(sim.EmptyDatabase(b.world, importing()))
	if !db.Empty() || !db.HalfImported() {
		t.Errorf("empty %t, half %t", db.Empty(), db.HalfImported())
	}
	_, err := b.world.ImportDatabase(t.Context(), importing(), export)
	b.must(err)
	if db.SchemaVersion() != testVersion || db.LocalID() != id || db.HalfImported() {
		t.Errorf("schema %q, identity %q, half %t", db.SchemaVersion(), db.LocalID(), db.HalfImported())
	}
	b.controller(sim.ControllerConfig{})
	b.pass(2 * time.Second)
	b.copies("pvc-1", "n1")
	b.data("pvc-1", "n1")
	b.violations()

	b.stop()
	b.must(b.world.RunMigration(newer))
	if _, err := b.world.ImportDatabase(t.Context(), importing(), export); !errors.Is(err, sim.ErrDatabaseTooNew) {
		t.Errorf("into one that was not emptied: %v", err)
	}
	if err := sim.EmptyDatabase(b.world, sim.ControllerConfig{Version: testVersion, TOML: sqlTOML("", "")}); err == nil {
		t.Error("tables on an SQL server were deleted")
	}
	b.violations("old-controller database=k8s")
}

// TestImportRefused: what LINSTOR's program refuses leaves the database as it is.
func TestImportRefused(t *testing.T) {
	edited := func(from, to string) func([]byte) []byte {
		return func(export []byte) []byte { return bytes.Replace(export, []byte(from), []byte(to), 1) }
	}
	for name, tt := range map[string]struct {
		prepare func(db *sim.Database)
		edit    func(export []byte) []byte
		is      error
		says    string
	}{
		"newer": {edit: edited(`"linstor_version":"1.34.0"`, `"linstor_version":"1.34.1"`), is: sim.ErrBadExport,
			says: "The given database export was created with a newer version of Linstor than currently installed! " +
				"Current version: 1.34.0 version from DB export: 1.34.1"},
		"truncated": {edit: func(export []byte) []byte { return export[:len(export)/2] }, is: sim.ErrBadExport,
			says: "Failed to read database backup"},
		"empty": {edit: func([]byte) []byte { return nil }, is: sim.ErrBadExport, says: "Failed to read database backup"},
		"no export": {edit: func([]byte) []byte { return []byte("{}") }, is: sim.ErrBadExport,
			says: "Could not parse linstor version"},
		"changed":     {edit: edited("10.0.0.1", "10.0.0.2"), is: sim.ErrUnknownExport},
		"another's":   {edit: edited(`"N1"`, `"N2"`), is: sim.ErrUnknownExport},
		"unreachable": {prepare: func(db *sim.Database) { db.SetUnreachable(true) }, is: sim.ErrDatabaseUnreachable},
		"credentials": {prepare: func(db *sim.Database) { db.SetCredentials("u", "p") }, is: sim.ErrBadCredentials},
		"failing":     {prepare: func(db *sim.Database) { db.SetImportError("no space left") }, says: "no space left"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.online(1)
			b.change([3]string{"POST", "controller/properties", `{"override_props":{"Aux/where":"10.0.0.1"}}`})
			export := b.export()
			b.must(b.world.Volumes().Create("pvc-1", 1<<20, "ssd", "n1"))
			b.stop()
			db := b.world.Database("k8s")
			if tt.prepare != nil {
				tt.prepare(db)
			}
			if tt.edit != nil {
				export = tt.edit(export)
			}
			_, err := b.world.ImportDatabase(t.Context(), importing(), export)
			if err == nil || tt.is != nil && !errors.Is(err, tt.is) || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("import: %v, want %v %q", err, tt.is, tt.says)
			}
			db.SetUnreachable(false)
			db.SetCredentials("", "")
			b.controller(sim.ControllerConfig{})
			b.pass(2 * time.Second)
			b.copies("pvc-1", "n1")
			b.violations()
		})
	}
}

// TestImportBesideAController: nothing keeps a controller from running, and an import does not last.
func TestImportBesideAController(t *testing.T) {
	b := newBench(t)
	b.online(1)
	export := b.export()
	_, err := b.world.ImportDatabase(t.Context(), importing(), export)
	b.must(err)
	b.stop()
	b.controller(sim.ControllerConfig{})
	b.violations("two-controllers database=k8s: import restore opened it while controller ")
}

// TestHalfAnImport: a process that is started on it is reported, until an import runs to its end.
func TestHalfAnImport(t *testing.T) {
	b := newBench(t, func(o *sim.Options) { o.MigrationTime = 5 * time.Second })
	b.online(1)
	b.must(b.world.Volumes().Create("pvc-1", 1<<20, "ssd", "n1"))
	b.must(b.world.Volumes().OpenDevice("n1", b.deviceOf("pvc-1", "n1")))
	export := b.export()
	b.stop()
	db := b.world.Database("k8s")
	killed := func(ctx context.Context) {
		t.Helper()
		b.async(func() {
			if _, err := b.world.ImportDatabase(ctx, importing(), export); !errors.Is(err, sim.ErrImportKilled) {
				t.Errorf("import: %v", err)
			}
		})
	}
	db.InterruptImports(1)
	killed(t.Context())
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	killed(ended)
	if !db.HalfImported() {
		t.Error("the database is whole")
	}
	b.controller(sim.ControllerConfig{Identity: "a"})
	b.stop()
	b.async(func() {
		if err := b.world.RunMigration(importing()); err != nil {
			t.Errorf("migration: %v", err)
		}
	})
	b.violations("half-import database=k8s: controller a was started on half an import",
		"half-import database=k8s: migration restore was started on half an import")

	b.async(func() {
		if _, err := b.world.ImportDatabase(t.Context(), importing(), export); err != nil {
			t.Errorf("import: %v", err)
		}
	})
	b.controller(sim.ControllerConfig{})
	b.pass(2 * time.Second)
	if listing := b.world.Machine("n1").Listing(); db.HalfImported() || !strings.Contains(listing, "PRIMARY\tpvc-1") {
		t.Errorf("half imported, or not in use any more:\n%s", listing)
	}
	if got := len(b.world.Violations()); got != 2 {
		t.Errorf("violations %q", b.world.Violations())
	}
}
