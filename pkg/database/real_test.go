package database

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/lib/pq"
)

// LINSTOR's table as linstor-server's consolidated-init-db.sql makes it, with the columns' names unquoted.
const nodesTable = `CREATE TABLE NODES(UUID CHARACTER(36) NOT NULL, NODE_NAME VARCHAR(255) NOT NULL,
	NODE_DSP_NAME VARCHAR(255) NOT NULL, NODE_FLAGS BIGINT NOT NULL, NODE_TYPE INTEGER NOT NULL)`

// propertiesTable is LINSTOR's table of properties.
const propertiesTable = `CREATE TABLE PROPS_CONTAINERS(PROPS_INSTANCE VARCHAR(512) NOT NULL,
	PROP_KEY VARCHAR(512) NOT NULL, PROP_VALUE VARCHAR(4096) NOT NULL)`

// eachProperty calls insert with every row of properties that a LINSTOR of that identity has: the controller's, and
// some of a node.
func eachProperty(id string, insert func(instance, key, value string)) {
	instance := "/CTRL"
	if id == freshID {
		instance = "/CTRLCFG" // an older LINSTOR's
	}
	for key, value := range controllerProperties(id) {
		insert(instance, key, value)
		insert("/NODES/N1", key, "another's")
	}
}

// findProgram looks in PATH and where Debian keeps servers; "" if there is none.
func findProgram(name string, patterns ...string) string {
	if path, err := exec.LookPath(name); err == nil {
		if target, err := filepath.EvalSymlinks(path); err == nil {
			return target
		}
	}
	for _, pattern := range patterns {
		if found, _ := filepath.Glob(pattern); len(found) > 0 {
			return found[len(found)-1]
		}
	}
	return ""
}

// serverDir is a directory for a server's data, and how to run the server: neither PostgreSQL nor MariaDB runs as
// root, so root hands over to the account that their packages make.
func serverDir(t *testing.T, account string) (string, *syscall.SysProcAttr) {
	t.Helper()
	dir, err := os.MkdirTemp("", account) //nolint:usetesting // what t.TempDir makes is closed to other accounts
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if os.Geteuid() != 0 {
		return dir, &syscall.SysProcAttr{}
	}
	who, err := user.Lookup(account)
	if err != nil {
		t.Fatal(err)
	}
	uid, _ := strconv.Atoi(who.Uid) // numbers on every Unix
	gid, _ := strconv.Atoi(who.Gid)
	if err := os.Chown(dir, uid, gid); err != nil {
		t.Fatal(err)
	}
	return dir, &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
}

func runProgram(t *testing.T, attr *syscall.SysProcAttr, dir, path string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.SysProcAttr, cmd.Dir = attr, dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", path, err, out)
	}
}

// realPostgreSQL starts PostgreSQL with the users and databases of the tests.
func realPostgreSQL(t *testing.T, binary string) int32 {
	t.Helper()
	dir, attr := serverDir(t, "postgres")
	data, pwfile := filepath.Join(dir, "data"), filepath.Join(dir, "pw")
	if err := os.WriteFile(pwfile, []byte(ownerPassword), 0o644); err != nil {
		t.Fatal(err)
	}
	runProgram(t, attr, dir, filepath.Join(filepath.Dir(binary), "initdb"), "-D", data, "-U", ownerUser,
		"--pwfile="+pwfile,
		"--auth=scram-sha-256", "--encoding=UTF8", "--no-locale", "--no-sync")
	port := freePort(t)
	cmd := exec.Command(binary, "-D", data, "-p", decimal(port), "-c", "listen_addresses=127.0.0.1",
		"-c", "unix_socket_directories=", "-c", "fsync=off")
	cmd.SysProcAttr, cmd.Dir = &syscall.SysProcAttr{Credential: attr.Credential}, dir
	ended := startProcess(t, cmd)

	open := func(name string) *sql.DB {
		connector, err := pq.NewConnectorConfig(pq.Config{
			Host: "127.0.0.1", Port: uint16(port), User: ownerUser, Password: ownerPassword, Database: name,
			SSLMode: pq.SSLModeDisable,
		})
		if err != nil {
			t.Fatal(err)
		}
		db := sql.OpenDB(connector)
		t.Cleanup(func() { _ = db.Close() })
		return db
	}
	admin := open("postgres")
	waitUntil(t, ended, admin.PingContext)
	execute(t, admin, fmt.Sprintf(`CREATE ROLE "%s" LOGIN PASSWORD '%s'`, guestUser, guestPassword))
	for _, name := range []string{emptyDatabase, freshDatabase, foreignDatabase} {
		execute(t, admin, "CREATE DATABASE "+name)
		if name != emptyDatabase {
			// As LINSTOR does: a quoted schema, then a table without quotes in it.
			execute(t, open(name), `CREATE SCHEMA "LINSTOR"; SET search_path TO "LINSTOR"; `+nodesTable+"; "+propertiesTable)
			eachProperty(identityIn(name), func(instance, key, value string) {
				execute(t, open(name), `INSERT INTO "LINSTOR".props_containers VALUES ($1, $2, $3)`, instance, key, value)
			})
		}
	}
	foreign := open(foreignDatabase)
	for _, node := range foreignNodes() {
		execute(t, foreign, `INSERT INTO "LINSTOR".nodes VALUES ('u', upper($1), $1, 0, 1)`, node)
	}
	for _, user := range []string{readerUser, frozenUser} {
		execute(t, admin, fmt.Sprintf(`CREATE ROLE "%s" LOGIN PASSWORD '%s'`, user, otherPassword))
		for _, name := range []string{freshDatabase, foreignDatabase} {
			execute(t, open(name), fmt.Sprintf(`GRANT USAGE ON SCHEMA "LINSTOR" TO "%s"`, user))
			execute(t, open(name), fmt.Sprintf(`GRANT SELECT ON ALL TABLES IN SCHEMA "LINSTOR" TO "%s"`, user))
		}
	}
	for _, name := range []string{freshDatabase, foreignDatabase} {
		execute(t, open(name), fmt.Sprintf(`GRANT DELETE ON ALL TABLES IN SCHEMA "LINSTOR" TO "%s"`, frozenUser))
	}
	execute(t, admin, fmt.Sprintf(`ALTER ROLE "%s" SET default_transaction_read_only = on`, frozenUser))
	return port
}

// realMariaDB starts MariaDB with the users and databases of the tests.
func realMariaDB(t *testing.T, binary string) int32 {
	t.Helper()
	dir, attr := serverDir(t, "mysql")
	data, socket, first := filepath.Join(dir, "data"), filepath.Join(dir, "sock"), filepath.Join(dir, "first.sql")
	installer := findProgram("mariadb-install-db", "/usr/bin/mysql_install_db")
	runProgram(t, attr, dir, installer, "--no-defaults", "--datadir="+data, "--auth-root-authentication-method=normal",
		"--skip-test-db", "--skip-name-resolve")
	users := fmt.Sprintf("CREATE USER '%s'@'%%' IDENTIFIED BY '%s';\nGRANT ALL ON *.* TO '%s'@'%%' WITH GRANT OPTION;\n",
		ownerUser, ownerPassword, ownerUser)
	if err := os.WriteFile(first, []byte(users), 0o644); err != nil {
		t.Fatal(err)
	}
	port := freePort(t)
	cmd := exec.Command(binary, "--no-defaults", "--datadir="+data, "--bind-address=127.0.0.1", "--port="+decimal(port),
		"--socket="+socket, "--init-file="+first, "--skip-name-resolve", "--innodb-flush-log-at-trx-commit=0",
		"--innodb-buffer-pool-size=16M", "--pid-file="+filepath.Join(dir, "pid"))
	cmd.SysProcAttr, cmd.Dir = &syscall.SysProcAttr{Credential: attr.Credential}, dir
	ended := startProcess(t, cmd)

	open := func(name string) *sql.DB {
		config := mysql.NewConfig()
		config.Net, config.Addr, config.DBName = "tcp", "127.0.0.1:"+decimal(port), name
		config.User, config.Passwd, config.Logger = ownerUser, ownerPassword, &mysql.NopLogger{}
		connector, err := mysql.NewConnector(config)
		if err != nil {
			t.Fatal(err)
		}
		db := sql.OpenDB(connector)
		t.Cleanup(func() { _ = db.Close() })
		return db
	}
	admin := open("")
	waitUntil(t, ended, admin.PingContext)
	execute(t, admin, fmt.Sprintf("CREATE USER '%s'@'%%' IDENTIFIED BY '%s'", guestUser, guestPassword))
	for _, name := range []string{emptyDatabase, freshDatabase, foreignDatabase} {
		execute(t, admin, "CREATE DATABASE "+name+" CHARACTER SET utf8mb4")
		// Enough to connect to the database, too little to read it.
		execute(t, admin, fmt.Sprintf("GRANT CREATE TEMPORARY TABLES ON %s.* TO '%s'@'%%'", name, guestUser))
		if name != emptyDatabase {
			execute(t, open(name), nodesTable)
			execute(t, open(name), propertiesTable)
			eachProperty(identityIn(name), func(instance, key, value string) {
				execute(t, open(name), "INSERT INTO PROPS_CONTAINERS VALUES (?, ?, ?)", instance, key, value)
			})
		}
	}
	foreign := open(foreignDatabase)
	for _, node := range foreignNodes() {
		execute(t, foreign, "INSERT INTO NODES VALUES ('u', ?, ?, 0, 1)", strings.ToUpper(node), node)
	}
	for user, rights := range map[string]string{readerUser: "SELECT", frozenUser: "ALL"} {
		execute(t, admin, fmt.Sprintf("CREATE USER '%s'@'%%' IDENTIFIED BY '%s'", user, otherPassword))
		for _, name := range []string{emptyDatabase, freshDatabase, foreignDatabase} {
			execute(t, admin, fmt.Sprintf("GRANT %s ON %s.* TO '%s'@'%%'", rights, name, user))
		}
	}
	execute(t, admin, "SET GLOBAL read_only = 1") // which holds for users who may do nothing special
	return port
}

// identityIn is that of the LINSTOR in the database of that name.
func identityIn(database string) string {
	if database == foreignDatabase {
		return foreignID
	}
	return freshID
}

func execute(t *testing.T, db *sql.DB, statement string, args ...any) {
	t.Helper()
	if _, err := db.ExecContext(context.Background(), statement, args...); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}
