package harness

import (
	"fmt"
	"maps"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/test/sqlstub"
)

// SQLSecret is the Secret with the credentials of every PostgreSQL server of the tests, user linstor and password
// change-me.
const SQLSecret = "linstor-db"

// PostgreSQL starts a PostgreSQL server with an empty database and makes the Secret for it. What the operator sees
// there is what the simulated database of that URL holds.
func PostgreSQL(a *Administrator) *v1alpha1.SQLDatabase {
	a.T.Helper()
	a.Apply("apiVersion: v1\nkind: Secret\nmetadata: {name: " + SQLSecret + ", namespace: " + v1alpha1.WorkloadNamespace +
		"}\nstringData: {username: linstor, password: change-me}\n")
	ports := make(chan int32, 1)
	look := func() *sqlstub.Contents {
		port := <-ports
		ports <- port
		return contents(a, port)
	}
	server := &sqlstub.Server{Users: map[string]string{"linstor": "change-me"},
		Databases: map[string]func() *sqlstub.Contents{"linstor": look}, TLS: true}
	port := sqlstub.Serve(a.T, server.PostgreSQL)
	ports <- port
	db := &v1alpha1.SQLDatabase{Host: "127.0.0.1", Port: port, SSLMode: "require", CredentialsSecret: SQLSecret}
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
