package database

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/lib/pq"
	"github.com/lib/pq/pqerror"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
)

const postgresNodes = `SELECT node_dsp_name FROM "LINSTOR".nodes`

// postgreSQL looks into a PostgreSQL database.
//
// TLS follows LINSTOR's driver (pgjdbc), whose default is "prefer"; "verify-ca" and "verify-full" check against the system's
// certificate authorities.
func (p *Prober) postgreSQL(ctx context.Context, db *v1alpha1.SQLDatabase, access resources.Database) ([]string, error) {
	server, err := parseJDBC(access.URL, "sslmode")
	if err != nil {
		return nil, fmt.Errorf("postgresql: %w", err)
	}
	about := p.sqlSubject(v1alpha1.DatabasePostgreSQL, server, db.CredentialsSecret, access)
	mode := pq.SSLModePrefer
	if server.sslMode != "" {
		mode = pq.SSLMode(server.sslMode)
	}
	// A literal rather than NewConfig, which would mix in PGHOST, PGPASSWORD and the like from the environment.
	connector, err := pq.NewConnectorConfig(pq.Config{
		Host: server.host, Port: server.port, Database: server.database, User: access.User, Password: access.Password,
		SSLMode: mode, SSLSNI: true, ClientEncoding: "UTF8", Datestyle: "ISO, MDY",
		ApplicationName: "storagecluster-operator",
	})
	if err != nil {
		return nil, about.fail(ctx, nil, err)
	}
	connector.Dialer(pqDialer(func(network, addr string) (net.Conn, error) { return dial(ctx, network, addr) }))
	return sqlTarget{subject: about, connector: connector, query: postgresNodes, classify: classifyPostgreSQL}.names(ctx)
}

// classifyPostgreSQL goes by SQLSTATE (PostgreSQL's documentation, appendix "Error Codes").
func classifyPostgreSQL(err error) error {
	var answer *pq.Error
	if !errors.As(err, &answer) {
		return ErrUnreachable // the server said nothing that the protocol knows
	}
	switch answer.Code {
	case pqerror.UndefinedTable, pqerror.InvalidSchemaName:
		return errNoTable
	case pqerror.InvalidPassword, pqerror.InvalidAuthorizationSpecification, pqerror.InsufficientPrivilege:
		return ErrCredentials
	case pqerror.InvalidCatalogName:
		return ErrNoDatabase
	}
	switch answer.Code.Class() {
	case "08", "53", "57": // connection exceptions, too many connections, shutting down or starting up
		return ErrUnreachable
	}
	return nil
}

// pqDialer is a dial in the shape that pq wants. pq's logins know no context, so it has the look's own.
type pqDialer func(network, address string) (net.Conn, error)

// Dial implements [pq.Dialer].
func (d pqDialer) Dial(network, address string) (net.Conn, error) { return d(network, address) }

// DialTimeout implements [pq.Dialer].
func (d pqDialer) DialTimeout(network, address string, _ time.Duration) (net.Conn, error) {
	return d(network, address)
}
