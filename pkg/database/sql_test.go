package database

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/database/connection"
	"github.com/linstor-dev/storagecluster-operator/test/sqlstub"
)

const secretName = "linstor-db"

var firstForeignNodes = []string{"N05", "Zürich", "n01", "n02", "n03", "n04", "n06", "n07", "n08", "n09"}

func postgreSQLSpec(port int32, database string) *v1alpha1.DatabaseSpec {
	return &v1alpha1.DatabaseSpec{PostgreSQL: &v1alpha1.SQLDatabase{
		Host: "127.0.0.1", Port: port, Database: database, CredentialsSecret: secretName,
	}}
}

func mariaDBSpec(port int32, database string) *v1alpha1.DatabaseSpec {
	return &v1alpha1.DatabaseSpec{MariaDB: &v1alpha1.SQLDatabase{
		Host: "127.0.0.1", Port: port, Database: database, CredentialsSecret: secretName,
	}}
}

func accessTo(spec *v1alpha1.DatabaseSpec, user, password string) connection.Settings {
	return connection.Settings{URL: connection.URL(spec), User: user, Password: password}
}

func TestPostgreSQL(t *testing.T) {
	t.Run("stub", func(t *testing.T) { testSQL(t, sqlstub.Serve(t, stub().PostgreSQL), postgreSQLSpec) })
	if binary := findProgram("postgres", "/usr/lib/postgresql/*/bin/postgres"); binary != "" {
		t.Run("real", func(t *testing.T) {
			port := realPostgreSQL(t, binary)
			testSQL(t, port, postgreSQLSpec)
			testReadOnly(t, port, postgreSQLSpec)
		})
	}
	testUnreachableSQL(t, postgreSQLSpec)
}

func TestMariaDB(t *testing.T) {
	t.Run("stub", func(t *testing.T) { testSQL(t, sqlstub.Serve(t, stub().MariaDB), mariaDBSpec) })
	if binary := findProgram("mariadbd", "/usr/sbin/mariadbd"); binary != "" {
		t.Run("real", func(t *testing.T) {
			port := realMariaDB(t, binary)
			testSQL(t, port, mariaDBSpec)
			testReadOnly(t, port, mariaDBSpec)
		})
	}
	testUnreachableSQL(t, mariaDBSpec)
}

// testSQL is what every SQL server must give, stub or real, of either kind.
func testSQL(t *testing.T, port int32, specFor func(int32, string) *v1alpha1.DatabaseSpec) {
	for _, tc := range []struct {
		name, user, password, database, sslMode string
		want                                    connection.Contents
		kind                                    error
		says                                    []string
	}{
		{name: "no LINSTOR", user: ownerUser, password: ownerPassword, database: emptyDatabase},
		{name: "no nodes", user: ownerUser, password: ownerPassword, database: freshDatabase, want: fresh()},
		{
			name: "foreign nodes", user: ownerUser, password: ownerPassword, database: foreignDatabase,
			want: foreign(),
		},
		{
			name: "no TLS wanted", user: ownerUser, password: ownerPassword, database: foreignDatabase, sslMode: "disable",
			want: foreign(),
		},
		{
			name: "wrong password", user: ownerUser, password: "wr0ng", database: foreignDatabase,
			kind: errCredentials, says: []string{"127.0.0.1:" + decimal(port), "linstor-storage/" + secretName},
		},
		{name: "unknown user", user: "nobody-knows", password: "wr0ng", database: foreignDatabase, kind: errCredentials},
		{
			name: "may not read", user: guestUser, password: guestPassword, database: foreignDatabase,
			kind: errCredentials, says: []string{"denied"},
		},
		{
			name: "no database", user: ownerUser, password: ownerPassword, database: "nosuch",
			kind: errNoDatabase, says: []string{`"nosuch"`, "127.0.0.1:" + decimal(port)},
		},
		{
			name: "TLS wanted", user: ownerUser, password: ownerPassword, database: foreignDatabase, sslMode: "verify-full",
			kind: errUnreachable, says: []string{"127.0.0.1:" + decimal(port)},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			spec := specFor(port, tc.database)
			for _, db := range []*v1alpha1.SQLDatabase{spec.PostgreSQL, spec.MariaDB} {
				if db != nil {
					db.SSLMode = tc.sslMode
				}
			}
			got, err := patient(nil).Look(t.Context(), spec, accessTo(spec, tc.user, tc.password))
			if !errors.Is(err, tc.kind) {
				t.Fatalf("error %v, want %v", err, tc.kind)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("result (-want +got):\n%s", diff)
			}
			if err != nil {
				checkText(t, err, tc.says, tc.user, tc.password)
			}
		})
	}
}

// testReadOnly: a database with LINSTOR's tables that LINSTOR could not write to is none that can be used.
func testReadOnly(t *testing.T, port int32, specFor func(int32, string) *v1alpha1.DatabaseSpec) {
	for user, tc := range map[string]struct {
		kind error
		says string
	}{
		readerUser: {errCredentials, "denied"},
		frozenUser: {errReadOnly, "it may be a replica that has not been promoted"},
	} {
		t.Run(user, func(t *testing.T) {
			for _, database := range []string{freshDatabase, foreignDatabase} {
				spec := specFor(port, database)
				_, err := patient(nil).Look(t.Context(), spec, accessTo(spec, user, otherPassword))
				if !errors.Is(err, tc.kind) {
					t.Fatalf("%s: error %v, want %v", database, err, tc.kind)
				}
				checkText(t, err, []string{tc.says}, user, otherPassword)
			}
			spec := specFor(port, emptyDatabase)
			if got, err := patient(nil).Look(t.Context(), spec, accessTo(spec, user, otherPassword)); err != nil {
				t.Errorf("without tables: %+v, %v", got, err)
			}
		})
	}
}

// checkText wants an error that tells what failed, and tells no secret.
func checkText(t *testing.T, err error, says []string, secrets ...string) {
	t.Helper()
	t.Log(err)
	for _, want := range says {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q lacks %q", err, want)
		}
	}
	for _, secret := range secrets {
		if strings.Contains(err.Error(), secret) {
			t.Errorf("%q tells %q", err, secret)
		}
	}
}

func testUnreachableSQL(t *testing.T, specFor func(int32, string) *v1alpha1.DatabaseSpec) {
	t.Run("nobody listens", func(t *testing.T) {
		spec := specFor(freePort(t), foreignDatabase)
		_, err := patient(nil).Look(t.Context(), spec, accessTo(spec, ownerUser, ownerPassword))
		if !errors.Is(err, errUnreachable) {
			t.Fatalf("error %v, want %v", err, errUnreachable)
		}
		checkText(t, err, []string{"127.0.0.1:", "connection refused"}, ownerUser, ownerPassword)
	})
	t.Run("silent", func(t *testing.T) {
		spec := specFor(silentServer(t), foreignDatabase)
		p := New(nil)
		p.timeout = 100 * time.Millisecond
		_, err := p.Look(t.Context(), spec, accessTo(spec, ownerUser, ownerPassword))
		if !errors.Is(err, errUnreachable) {
			t.Fatalf("error %v, want %v", err, errUnreachable)
		}
		checkText(t, err, []string{"127.0.0.1:", "no response within 100ms"}, ownerUser, ownerPassword)
	})
	t.Run("caller gave up", func(t *testing.T) {
		spec := specFor(silentServer(t), foreignDatabase)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		_, err := New(nil).Look(ctx, spec, accessTo(spec, ownerUser, ownerPassword))
		if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, errUnreachable) {
			t.Errorf("error %v, want the caller's own and no verdict on the database", err)
		}
	})
}
