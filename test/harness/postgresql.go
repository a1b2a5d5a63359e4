package harness

import (
	"fmt"
	"maps"
	"net"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/test/sqlstub"
)

// PostgreSQL starts a PostgreSQL server with an empty database and makes the Secret linstor-db for it. What the
// operator sees there is what the simulated database of that URL holds when it connects.
func PostgreSQL(a *Administrator) *v1alpha1.SQLDatabase {
	a.T.Helper()
	a.Apply("apiVersion: v1\nkind: Secret\nmetadata: {name: linstor-db, namespace: " + v1alpha1.WorkloadNamespace +
		"}\nstringData: {username: linstor, password: change-me}\n")
	port := sqlstub.Serve(a.T, func(conn net.Conn) error {
		held := contents(a, int32(conn.LocalAddr().(*net.TCPAddr).Port))
		server := &sqlstub.Server{Users: map[string]string{"linstor": "change-me"},
			Databases: map[string]*sqlstub.Contents{"linstor": held}, TLS: true}
		return server.PostgreSQL(conn)
	})
	db := &v1alpha1.SQLDatabase{Host: "127.0.0.1", Port: port, SSLMode: "require", CredentialsSecret: "linstor-db"}
	a.Sim.World().Database(AddressOf(db)).SetCredentials("linstor", "change-me")
	return db
}

func contents(a *Administrator, port int32) *sqlstub.Contents {
	db := a.Sim.World().Database(address(port))
	if db.Empty() {
		return nil
	}
	c := &sqlstub.Contents{Nodes: db.Nodes()}
	db.EditProperties(func(properties map[string]string) { c.Properties = maps.Clone(properties) })
	return c
}

// AddressOf is the URL of a database that PostgreSQL has made, without its parameters.
func AddressOf(db *v1alpha1.SQLDatabase) string { return address(db.Port) }

func address(port int32) string { return fmt.Sprintf("jdbc:postgresql://127.0.0.1:%d/linstor", port) }
