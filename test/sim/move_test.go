package sim_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linstor-dev/storagecluster-operator/test/sim"
)

const (
	etcdURL    = "etcd://e:2379"
	mariaDBURL = "jdbc:mariadb://db/linstor"
)

// onDatabase is how a LINSTOR of that version is started on a database.
func onDatabase(version, url string) sim.ControllerConfig {
	return sim.ControllerConfig{Version: version, TOML: fmt.Sprintf("[db]\nconnection_url = %q\n", url), Identity: "move"}
}

// exported is what tells exports apart, but for their time.
type exported struct {
	Version string                     `json:"linstor_version"`
	From    string                     `json:"exported_from"`
	Tables  []struct{ Name, Data any } `json:"tables"`
}

func parsed(b *bench, export []byte) (e exported) {
	b.Helper()
	b.must(json.Unmarshal(export, &e))
	return e
}

// move exports the one database and imports into the other, and returns the exports of both.
func (b *bench) move(source, target sim.ControllerConfig) (before, after exported) {
	b.Helper()
	export, err := b.world.ExportDatabase(b.Context(), source)
	b.must(err)
	restored, err := b.world.ImportDatabase(b.Context(), target, export)
	b.must(err)
	return parsed(b, export), parsed(b, restored)
}

func listings(b *bench) string {
	return b.world.Machine("n1").Listing() + b.world.Machine("n2").Listing()
}

// diskStates are those of the copies of a volume, by node.
func diskStates(b *bench, name string) map[string]string {
	b.Helper()
	copies, err := b.client.Resources.GetResourceView(b.Context())
	b.must(err)
	states := map[string]string{}
	for _, r := range copies {
		if r.Name == name {
			states[r.NodeName] = r.Volumes[0].State.DiskState
		}
	}
	return states
}

// TestMove: after a move LINSTOR answers as before, and the machines do what they did.
func TestMove(t *testing.T) {
	for name, tt := range map[string]struct{ source, target, from, to string }{
		"Kubernetes to SQL":  {"k8s", sqlURL, "k8s", "sql/postgresql"},
		"etcd to Kubernetes": {etcdURL, "k8s", "etcd", "k8s"},
	} {
		t.Run(name, func(t *testing.T) {
			const version = "1.33.3"
			b := newBench(t)
			source, target := onDatabase(version, tt.source), onDatabase(version, tt.target)
			b.onlineOn(source, 3)
			b.class("gold", 2, "DRBD", "STORAGE")
			v := b.world.Volumes()
			b.must(v.Create("pvc-1", 1<<20, "ssd", "n1", "n2"))
			b.must(v.AttachDiskless("pvc-1", "n3"))
			b.must(v.CreateWithoutDRBD("pvc-2", 1<<20, "ssd", "n2"))
			b.must(v.CreateSnapshot("pvc-1", "s1"))
			b.must(v.OpenDevice("n1", b.deviceOf("pvc-1", "n1")))
			b.must(v.WriteFile("n1", b.deviceOf("pvc-1", "n1"), "file", "written"))
			v.SetDiskState("pvc-1", "n2", "Outdated")
			b.change([3]string{"PUT", "key-value-store/kept", `{"override_props":{"a":"1"}}`})
			b.stop()
			b.controller(source)
			b.pass(2 * time.Second)
			answers, listed, id := b.answers(), listings(b), b.world.Database(tt.source).LocalID()
			b.stop()

			before, after := b.move(source, target)
			if diff := cmp.Diff(exported{version, tt.from, before.Tables}, before); diff != "" {
				t.Errorf("the source's export (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(exported{version, tt.to, before.Tables}, after); diff != "" {
				t.Errorf("the target's export (-source's +got):\n%s", diff)
			}
			if got := listings(b); got != listed {
				t.Errorf("the machines before LINSTOR runs again:\n%s, want\n%s", got, listed)
			}
			b.controller(target)
			b.pass(2 * time.Second)
			for _, node := range []string{"n1", "n2", "n3"} {
				b.status(node, "ONLINE")
			}
			if diff := cmp.Diff(answers, b.answers()); diff != "" {
				t.Errorf("answers (-before +after):\n%s", diff)
			}
			if diff := cmp.Diff(map[string]string{"n1": "UpToDate", "n2": "Outdated", "n3": "Diskless"},
				diskStates(b, "pvc-1")); diff != "" {
				t.Errorf("disk states (-want +got):\n%s", diff)
			}
			if got := listings(b); got != listed || !strings.Contains(got, "PRIMARY\tpvc-1") {
				t.Errorf("machines:\n%s, want\n%s", got, listed)
			}
			if got := b.world.Database(tt.target).LocalID(); got != id || id == "" {
				t.Errorf("LocalID %q, want %q", got, id)
			}
			b.reads("pvc-1", "n3", "written")
			b.violations()
		})
	}
}

// TestStaleDatabase: what the database says that LINSTOR's data was moved out of does not count, until LINSTOR is
// started on it again: then satellites obey it, and do damage.
func TestStaleDatabase(t *testing.T) {
	inKubernetes, inSQL := onDatabase(testVersion, "k8s"), onDatabase(testVersion, sqlURL)
	t.Run("Kubernetes", func(t *testing.T) { goBack(newBench(t), inKubernetes, inSQL) })
	t.Run("SQL", func(t *testing.T) { goBack(newBench(t), inSQL, inKubernetes) })
}

// goBack moves LINSTOR's data, and starts LINSTOR on the source again.
func goBack(b *bench, source, target sim.ControllerConfig) {
	satellites := b.onlineOn(source, 3)
	v := b.world.Volumes()
	b.must(v.Create("pvc-1", 1<<20, "ssd", "n1", "n2"))
	b.must(v.Create("pvc-2", 1<<20, "ssd", "n2"))
	b.must(v.CreateSnapshot("pvc-1", "s1"))
	b.must(v.OpenDevice("n1", b.deviceOf("pvc-1", "n1")))
	b.must(v.OpenDevice("n2", b.deviceOf("pvc-2", "n2")))
	b.stop()
	b.move(source, target)
	b.controller(target)
	b.pass(2 * time.Second)

	gone := b.deviceOf("pvc-2", "n2")
	v.CloseDevice("n2", gone)
	b.must(v.Delete("pvc-2"))
	if err := v.OpenDevice("n2", gone); err == nil {
		b.Error("a volume was opened that LINSTOR has deleted since")
	}
	v.DeleteSnapshot("pvc-1", "s1")
	v.CloseDevice("n1", b.deviceOf("pvc-1", "n1"))
	b.must(v.OpenDevice("n2", b.deviceOf("pvc-1", "n2")))
	v.SetDiskState("pvc-1", "n1", "Outdated")
	if got := listings(b); strings.Count(got, "PRIMARY") != 1 || strings.Contains(got, "s1") ||
		strings.Contains(got, "pvc-2") {
		b.Errorf("machines:\n%s", got)
	}
	satellites[0].Stop() // n1 does what LINSTOR told it last
	b.stop()
	b.controller(source)
	b.pass(2 * time.Second)
	b.status("n1", "OFFLINE")
	b.satellite(1)
	b.pass(10 * time.Second)
	b.status("n1", "ONLINE")
	if diff := cmp.Diff(map[string]string{"n1": "Outdated", "n2": "UpToDate"}, diskStates(b, "pvc-1")); diff != "" {
		b.Errorf("disk states (-want +got):\n%s", diff)
	}
	if got := listings(b); strings.Count(got, "PRIMARY") != 1 || !strings.Contains(got, "pvc-2") {
		b.Errorf("machines:\n%s", got)
	}
	b.violations("volume-emptied resource=pvc-2 node=n2")
}

// TestPowerOffBetween: what happens to machines between export and import is not lost.
func TestPowerOffBetween(t *testing.T) {
	b := newBench(t)
	b.online(2)
	v := b.world.Volumes()
	b.must(v.Create("pvc-1", 1<<20, "ssd", "n1", "n2"))
	b.must(v.OpenDevice("n1", b.deviceOf("pvc-1", "n1")))
	source, target := onDatabase(testVersion, "k8s"), onDatabase(testVersion, sqlURL)
	b.stop()
	export, err := b.world.ExportDatabase(t.Context(), source)
	b.must(err)
	b.world.Machine("n1").PowerOff()
	_, err = b.world.ImportDatabase(t.Context(), target, export)
	b.must(err)
	b.controller(target)
	b.pass(2 * time.Second)
	b.status("n1", "OFFLINE")
	b.must(v.OpenDevice("n2", b.deviceOf("pvc-1", "n2")))
	if got := listings(b); strings.Count(got, "PRIMARY") != 1 {
		t.Errorf("machines:\n%s", got)
	}
	b.violations()
}

// TestMachinesObeyWhatIsExchanged: a machine goes on with what LINSTOR told it, wherever that is put.
func TestMachinesObeyWhatIsExchanged(t *testing.T) {
	b := newBench(t)
	b.online(2)
	v := b.world.Volumes()
	b.must(v.Create("pvc-1", 1<<20, "ssd", "n1", "n2"))
	b.must(v.OpenDevice("n1", b.deviceOf("pvc-1", "n1")))
	listed := listings(b)
	b.stop()
	ours, aside := b.world.Database("k8s"), b.world.Database("aside")
	aside.SeedForeign("another", "n1", "n2")
	for range 2 {
		ours.Exchange(aside)
		b.controller(sim.ControllerConfig{})
		b.pass(2 * time.Second)
		if got := listings(b); got != listed || !strings.Contains(got, "PRIMARY\tpvc-1") {
			t.Errorf("machines:\n%s, want\n%s", got, listed)
		}
		b.stop()
	}
	b.violations()
}

// TestMoveBesideAController: nothing keeps a controller from running on either database.
func TestMoveBesideAController(t *testing.T) {
	b := newBench(t)
	b.online(1)
	source, target := onDatabase(testVersion, "k8s"), onDatabase(testVersion, sqlURL)
	b.move(source, target)
	b.violations("two-controllers database=k8s: export move opened it while controller ")
	b.controller(target)
	b.move(source, target)
	if got := b.world.Violations(); len(got) != 3 ||
		!strings.HasPrefix(got[2], "two-controllers database="+sqlURL+": import move opened it while controller ") {
		t.Errorf("violations %q", got)
	}
}

// TestExportRefused: what LINSTOR's program cannot export, and changes nothing of.
func TestExportRefused(t *testing.T) {
	for name, tt := range map[string]struct {
		version, url string
		prepare      func(db *sim.Database)
		killed       bool
		is           error
		says         string
	}{
		"nothing in Kubernetes": {url: "k8s", is: sim.ErrNoLinstor, says: "Not Found"},
		"nothing in SQL":        {url: sqlURL, is: sim.ErrNoLinstor, says: `Schema "LINSTOR" not found`},
		"nothing in etcd":       {version: "1.33.3", url: etcdURL, is: sim.ErrNoLinstor},
		"etcd with 1.34": {url: etcdURL, prepare: func(db *sim.Database) { db.SeedForeign("id", "n1") },
			is: sim.ErrUnsupportedDatabase},
		"unreachable": {url: sqlURL, prepare: func(db *sim.Database) { db.SetUnreachable(true) },
			is: sim.ErrDatabaseUnreachable},
		"credentials": {url: sqlURL, prepare: func(db *sim.Database) { db.SetCredentials("u", "p") },
			is: sim.ErrBadCredentials},
		"older than the schema": {version: "1.32.0", url: sqlURL, prepare: func(db *sim.Database) { db.SeedForeign("id") },
			is: sim.ErrDatabaseTooNew},
		"no version": {version: "new", url: sqlURL, says: "is not major.minor.patch"},
		"killed": {url: sqlURL, prepare: func(db *sim.Database) { db.SeedForeign("id") }, killed: true,
			is: context.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			db := b.world.Database(tt.url)
			if tt.prepare != nil {
				tt.prepare(db)
			}
			if tt.version == "" {
				tt.version = testVersion
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if tt.killed {
				cancel()
			}
			written := !db.Empty()
			_, err := b.world.ExportDatabase(ctx, onDatabase(tt.version, tt.url))
			if err == nil || tt.is != nil && !errors.Is(err, tt.is) || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("export: %v, want %v %q", err, tt.is, tt.says)
			}
			if db.Empty() == written {
				t.Errorf("empty: %t", db.Empty())
			}
		})
	}
}

// TestExportMigratesNothing: what no LINSTOR of its version could migrate any more can still be exported.
func TestExportMigratesNothing(t *testing.T) {
	b := newBench(t)
	b.migrated("1.20.3")
	db := b.world.Database(sqlURL)
	db.SetMigrationError("boom")
	export, err := b.world.ExportDatabase(t.Context(), onDatabase(testVersion, sqlURL))
	b.must(err)
	if got := parsed(b, export).Version; got != testVersion || db.SchemaVersion() != "1.20.3" {
		t.Errorf("export of LINSTOR %s, schema %s", got, db.SchemaVersion())
	}
	if _, err := b.world.ImportDatabase(t.Context(), onDatabase("1.34.0", etcdURL), export); !errors.Is(err,
		sim.ErrUnsupportedDatabase) {
		t.Errorf("import into etcd: %v", err)
	}
}

// TestKilledMove: half of the data is in the target, which nothing says, and all of it in the source still.
func TestKilledMove(t *testing.T) {
	b := newBench(t)
	b.online(1)
	b.class("gold", 1)
	b.must(b.world.Volumes().Create("pvc-1", 1<<20, "ssd", "n1"))
	b.must(b.world.Volumes().OpenDevice("n1", b.deviceOf("pvc-1", "n1")))
	answers, listed := b.answers(), b.world.Machine("n1").Listing()
	b.stop()
	source, target := onDatabase(testVersion, "k8s"), onDatabase(testVersion, sqlURL)
	export, err := b.world.ExportDatabase(t.Context(), source)
	b.must(err)
	b.world.Database(sqlURL).InterruptImports(1)
	if _, err := b.world.ImportDatabase(t.Context(), target, export); !errors.Is(err, sim.ErrImportKilled) {
		t.Errorf("import: %v", err)
	}
	if b.world.Database("k8s").HalfImported() || !b.world.Database(sqlURL).HalfImported() {
		t.Error("half of it is in the source, or not in the target")
	}
	_, err = b.world.ExportDatabase(t.Context(), target)
	b.must(err)
	b.controller(source)
	b.pass(2 * time.Second)
	if diff := cmp.Diff(answers, b.answers()); diff != "" {
		t.Errorf("answers (-before +after):\n%s", diff)
	}
	if got := b.world.Machine("n1").Listing(); got != listed {
		t.Errorf("machine:\n%s, want\n%s", got, listed)
	}
	b.violations()
	b.stop()
	b.move(source, target)
	b.controller(target)
	b.pass(2 * time.Second)
	b.status("n1", "ONLINE")
	b.violations()
	if b.world.Database(sqlURL).HalfImported() {
		t.Error("the target is not whole")
	}
}

// TestMariaDBKeepsSeconds: what is moved into it comes out of it with times that are cut.
func TestMariaDBKeepsSeconds(t *testing.T) {
	b := newBench(t)
	b.clock.Step(1500 * time.Millisecond)
	b.online(1)
	b.must(b.world.Volumes().Create("pvc-1", 1<<20, "ssd", "n1"))
	b.must(b.world.Volumes().CreateSnapshot("pvc-1", "s1"))
	b.stop()
	created := func(e exported) (list []float64) {
		for _, table := range e.Tables {
			if table.Name == "RESOURCES" {
				for _, row := range table.Data.([]any) {
					list = append(list, row.(map[string]any)["create_timestamp"].(float64))
				}
			}
		}
		return list
	}
	exact := float64(b.clock.Now().UnixMilli())
	before, after := b.move(onDatabase(testVersion, "k8s"), onDatabase(testVersion, mariaDBURL))
	again, last := b.move(onDatabase(testVersion, mariaDBURL), onDatabase(testVersion, sqlURL))
	got := [][]float64{created(before), created(after), created(again), created(last)}
	cut := []float64{exact - 500, exact - 500}
	if diff := cmp.Diff([][]float64{{exact, exact}, cut, cut, cut}, got); diff != "" {
		t.Errorf("times of a resource and its snapshot (-want +got):\n%s", diff)
	}
	b.controller(onDatabase(testVersion, mariaDBURL))
	if r, err := b.client.Resources.GetResourceView(t.Context()); err != nil || len(r) != 1 ||
		r[0].CreateTimestamp == nil || float64(r[0].CreateTimestamp.UnixMilli()) != exact-500 {
		t.Errorf("LINSTOR answers %+v, %v", r, err)
	}
}
