package sim_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linstor-dev/storagecluster-operator/test/sim"
)

const sqlURL = "jdbc:postgresql://db/linstor"

func sqlTOML(user, password string) string {
	return "[db]\nconnection_url = \"" + sqlURL + "\"\nuser = \"" + user + "\"\npassword = \"" + password + "\"\n"
}

func TestControllerDoesNotStart(t *testing.T) {
	prepare := func(f func(*sim.Database)) func(*bench) { return func(b *bench) { f(b.world.Database(sqlURL)) } }
	tests := map[string]struct {
		prepare func(*bench)
		config  sim.ControllerConfig
		want    error
	}{
		"newer schema": {func(b *bench) { b.migrated("1.35.0") },
			sim.ControllerConfig{Version: "1.34.2", TOML: sqlTOML("", "")}, sim.ErrDatabaseTooNew},
		"newer patch": {func(b *bench) { b.migrated("1.35.3") },
			sim.ControllerConfig{Version: "1.35.1", TOML: sqlTOML("", "")}, nil},
		"very old schema": {func(b *bench) { b.migrated("1.20.3") },
			sim.ControllerConfig{Version: "1.34.0", TOML: sqlTOML("", "")}, sim.ErrMigration},
		"broken migration": {prepare(func(d *sim.Database) { d.SetMigrationError("boom") }),
			sim.ControllerConfig{Version: "1.34.0", TOML: sqlTOML("", "")}, sim.ErrMigration},
		"etcd with 1.34": {func(*bench) {},
			sim.ControllerConfig{Version: "1.34.0", TOML: `db.connection_url = "etcd://e:2379"`}, sim.ErrUnsupportedDatabase},
		"etcd with 1.33": {func(*bench) {},
			sim.ControllerConfig{Version: "1.33.3", TOML: `db.connection_url = "etcd://e:2379"`}, nil},
		"unknown url": {func(*bench) {},
			sim.ControllerConfig{Version: "1.34.0", TOML: `db.connection_url = "mongo://e"`}, sim.ErrUnsupportedDatabase},
		"unreachable": {prepare(func(d *sim.Database) { d.SetUnreachable(true) }),
			sim.ControllerConfig{Version: "1.34.0", TOML: sqlTOML("", "")}, sim.ErrDatabaseUnreachable},
		"wrong password": {prepare(func(d *sim.Database) { d.SetCredentials("u", "p") }),
			sim.ControllerConfig{Version: "1.34.0", TOML: sqlTOML("u", "x")}, sim.ErrBadCredentials},
		"right password": {prepare(func(d *sim.Database) { d.SetCredentials("u", "p") }),
			sim.ControllerConfig{Version: "1.34.0", TOML: sqlTOML("u", "p")}, nil},
		"password in url": {prepare(func(d *sim.Database) { d.SetCredentials("u", "p") }),
			sim.ControllerConfig{Version: "1.34.0", TOML: `db.connection_url = "` + sqlURL + `?user=u&password=p"`}, nil},
		"wrong passphrase": {func(b *bench) { b.withPassphrase("a") },
			sim.ControllerConfig{Version: "1.34.0", TOML: sqlTOML("", ""), MasterPassphrase: "b"}, sim.ErrWrongPassphrase},
		"passphrase in env": {func(b *bench) { b.withPassphrase("a") },
			sim.ControllerConfig{Version: "1.34.0", TOML: sqlTOML("", ""), Env: map[string]string{"MASTER_PASSPHRASE": "b"}},
			sim.ErrWrongPassphrase},
		"passphrase in toml": {func(b *bench) { b.withPassphrase("a") },
			sim.ControllerConfig{Version: "1.34.0", TOML: sqlTOML("", "") + "[encrypt]\npassphrase = \"a\"\n"}, nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			tt.prepare(b)
			_, err := b.world.StartController(tt.config)
			if !errors.Is(err, tt.want) {
				t.Errorf("start: %v, want %v", err, tt.want)
			}
			migrateErr := b.world.RunMigration(tt.config)
			if wanted := tt.want != nil && !errors.Is(tt.want, sim.ErrWrongPassphrase); wanted != (migrateErr != nil) {
				t.Errorf("migration: %v", migrateErr)
			}
		})
	}
}

func (b *bench) migrated(version string) {
	b.must(b.world.RunMigration(sim.ControllerConfig{Version: version, TOML: sqlTOML("", "")}))
}

func (b *bench) withPassphrase(text string) {
	p, err := b.world.StartController(sim.ControllerConfig{Version: "1.34.0", TOML: sqlTOML("", ""),
		MasterPassphrase: text})
	b.must(err)
	p.Stop()
}

func TestDatabaseOutlivesControllers(t *testing.T) {
	b := newBench(t)
	db := b.world.Database("k8s")
	if !db.Empty() || db.LocalID() != "" || db.SchemaVersion() != "" {
		t.Error("a database that nobody has opened is not empty")
	}
	b.online(1)
	id := db.LocalID()
	b.stop()
	b.controller(sim.ControllerConfig{Version: "1.35.3"})
	if db.LocalID() != id || id == "" || db.SchemaVersion() != "1.35.3" {
		t.Errorf("local id %q then %q, schema %s", id, db.LocalID(), db.SchemaVersion())
	}
	if diff := cmp.Diff([]string{"n1"}, db.Nodes()); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
	b.stop()
	db.Wipe()
	if !db.Empty() || len(db.Nodes()) != 0 {
		t.Error("not empty after Wipe")
	}
}

func TestForeignDatabase(t *testing.T) {
	b := newBench(t)
	db := b.world.Database("k8s")
	db.SeedForeign("foreign-id", "x1", "x2")
	if diff := cmp.Diff([]string{"x1", "x2"}, db.Nodes()); diff != "" || db.LocalID() != "foreign-id" {
		t.Errorf("id %q, nodes (-want +got):\n%s", db.LocalID(), diff)
	}
	b.controller(sim.ControllerConfig{})
	b.pass(2 * time.Second)
	b.status("x1", "OFFLINE")
	if db.SchemaVersion() != testVersion {
		t.Errorf("schema %s: starting migrates", db.SchemaVersion())
	}
}

func TestTwoControllersOnOneDatabase(t *testing.T) {
	b := newBench(t)
	b.controller(sim.ControllerConfig{Identity: "a"})
	b.must(b.world.RunMigration(sim.ControllerConfig{Version: testVersion, TOML: `db.connection_url = "k8s"`,
		Identity: "b"}))
	b.violations("two-controllers database=k8s: migration b opened it while controller a had it open")
	if !b.world.Database("k8s").Corrupted() {
		t.Error("not corrupted")
	}
	b.stop()
	b.controller(sim.ControllerConfig{Identity: "c"})
	b.violations("two-controllers")
	b.controller(sim.ControllerConfig{Identity: "d"})
	b.violations("two-controllers", "two-controllers database=k8s: controller d opened it while controller c had it open")
}

func TestMigrationHoldsTheDatabaseOpen(t *testing.T) {
	b := newBench(t, func(o *sim.Options) { o.MigrationTime = 5 * time.Second })
	done := make(chan error, 1)
	go func() {
		done <- b.world.RunMigration(sim.ControllerConfig{Version: testVersion, TOML: `db.connection_url = "k8s"`,
			Identity: "init"})
	}()
	b.eventually(func() bool { return b.clock.HasWaiters() })
	b.controller(sim.ControllerConfig{Identity: "main"})
	b.violations("two-controllers database=k8s: controller main opened it while migration init")
	b.clock.Step(5 * time.Second)
	b.must(<-done)
}

func TestDatabaseLostWhileRunning(t *testing.T) {
	for url, wantHealth := range map[string]int{"k8s": 200, sqlURL: 500} {
		t.Run(url, func(t *testing.T) {
			b := newBench(t)
			b.controller(sim.ControllerConfig{TOML: `db.connection_url = "` + url + `"`})
			b.world.Database(url).SetUnreachable(true)
			if status, body := b.raw(http.MethodGet, "/health", ""); status != wantHealth {
				t.Errorf("health %d %s, want %d", status, body, wantHealth)
			}
			if status, body := b.raw(http.MethodPost, "/v1/nodes", createN1); status != 500 ||
				b.entries(body)[0].RetCode&0x7FFF != 100 {
				t.Errorf("write without a database: %d %s", status, body)
			}
			if status, body := b.raw(http.MethodGet, "/v1/nodes", ""); status != 200 || string(body) != "[]" {
				t.Errorf("read from memory: %d %s", status, body)
			}
		})
	}
}

func TestConfigTellsTheBackEndWithoutSecrets(t *testing.T) {
	b := newBench(t)
	b.controller(sim.ControllerConfig{TOML: sqlTOML("someuser", "somepassword")})
	config, err := b.client.Controller.GetConfig(t.Context())
	b.must(err)
	if config.Db.ConnectionUrl != sqlURL || config.Http.Port != 3370 || config.Log.Level != "INFO" {
		t.Errorf("config %+v", config)
	}
	if _, body := b.raw(http.MethodGet, "/v1/controller/config", ""); strings.Contains(string(body), "some") {
		t.Errorf("credentials in %s", body)
	}
}

func TestExchange(t *testing.T) {
	b := newBench(t)
	ours, other := b.world.Database(sqlURL), b.world.Database("aside")
	b.migrated("1.34.0")
	id := ours.LocalID()
	other.SeedForeign("another", "n7")
	ours.Exchange(other)
	if ours.LocalID() != "another" || other.LocalID() != id || len(ours.Nodes()) != 1 || len(b.world.Violations()) > 0 {
		t.Errorf("LocalIDs %s and %s, nodes %v, %v", ours.LocalID(), other.LocalID(), ours.Nodes(), b.world.Violations())
	}
	if _, err := b.world.StartController(sim.ControllerConfig{Version: "1.34.0", TOML: sqlTOML("", "")}); err != nil {
		t.Fatal(err)
	}
	if ours.Exchange(other); len(b.world.Violations()) != 1 {
		t.Errorf("violations %v", b.world.Violations())
	}
}
