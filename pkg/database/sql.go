package database

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/lib/pq"
	"github.com/lib/pq/pqerror"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/database/connection"
)

// sqlKind is what is special about a kind of SQL database.
type sqlKind struct {
	name         v1alpha1.DatabaseKind
	nodes        string // selects the nodes' names
	properties   string // selects keys and values of the properties that are read
	deletion     string // deletes none of the nodes
	sslParameter string // of the connection URL: the mode of TLS
	connect      func(ctx context.Context, server sqlServer, access connection.Settings) (driver.Connector, error)
	// classify sorts a driver's error: one of the package's errors, or nil for none of them.
	classify func(error) error
}

// sqlServer is what LINSTOR's connection URL says.
type sqlServer struct {
	host     string
	port     uint16
	database string
	sslMode  string // empty for the driver's default
}

// parseJDBC reads a connection URL as [connection.URL] makes it, so that its defaults hold here too.
func parseJDBC(jdbc, sslParameter string) (sqlServer, error) {
	u, err := url.Parse(strings.TrimPrefix(jdbc, "jdbc:"))
	if err != nil {
		return sqlServer{}, fmt.Errorf("connection URL: %w", err)
	}
	port, err := strconv.ParseUint(u.Port(), 10, 16)
	if err != nil {
		return sqlServer{}, fmt.Errorf("connection URL %s: port: %w", jdbc, err)
	}
	return sqlServer{
		host: u.Hostname(), port: uint16(port),
		database: strings.TrimPrefix(u.Path, "/"), sslMode: u.Query().Get(sslParameter),
	}, nil
}

func (s sqlServer) address() string {
	return net.JoinHostPort(s.host, strconv.Itoa(int(s.port)))
}

// sql looks into an SQL database, on a connection of its own, which ends with the look.
func (p *Prober) sql(ctx context.Context, kind sqlKind, db *v1alpha1.SQLDatabase,
	access connection.Settings) (*found, error) {
	server, err := parseJDBC(access.URL, kind.sslParameter)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", kind.name, err)
	}
	about := subject{
		server: string(kind.name) + " at " + server.address(), database: server.database, secret: db.CredentialsSecret,
		access: access, timeout: p.timeout,
	}
	connector, err := kind.connect(ctx, server, access)
	if err != nil {
		return nil, about.fail(ctx, nil, err)
	}
	found, err := kind.read(ctx, connector)
	if err != nil {
		return nil, about.fail(ctx, kind.classify(err), err)
	}
	return found, nil
}

// read reads both tables. One without the other is damaged, and what is in it still somebody's. A deletion of no row
// shows then whether LINSTOR could write: a replica that was not promoted, or a user who may only read, looks right
// until LINSTOR is started there.
func (k *sqlKind) read(ctx context.Context, connector driver.Connector) (_ *found, err error) {
	db := sql.OpenDB(connector)
	defer func() { err = errors.Join(err, db.Close()) }()
	db.SetMaxOpenConns(1)
	f := &found{properties: map[string]string{}}
	var name, key, value string
	err = k.rows(ctx, db, k.nodes, func() { f.nodes = append(f.nodes, name) }, &name)
	if err == nil {
		err = k.rows(ctx, db, k.properties, func() { f.properties[key] = value }, &key, &value)
	}
	if err == nil {
		if _, err = db.ExecContext(ctx, k.deletion); err != nil && errors.Is(k.classify(err), errNoTable) {
			err = nil
		}
	}
	return f, err
}

// rows calls each with the columns of every row; a table that is not there has none.
func (k *sqlKind) rows(ctx context.Context, db *sql.DB, query string, each func(), columns ...any) (err error) {
	rows, err := db.QueryContext(ctx, query)
	if err != nil && errors.Is(k.classify(err), errNoTable) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		if err := rows.Scan(columns...); err != nil {
			return err
		}
		each()
	}
	return rows.Err()
}

// ofThese ends a query for properties.
var ofThese = " WHERE PROPS_INSTANCE IN ('" + strings.Join(instances, "', '") + "') AND PROP_KEY IN ('" +
	strings.Join(properties, "', '") + "') ORDER BY PROPS_INSTANCE DESC" // the present one last

// dial connects and binds the connection to ctx for its whole life: the drivers' logins, which may wait for a silent
// server for ever, end with ctx too.
func dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, func() { _ = conn.Close() })
	return conn, nil
}

// postgreSQL is PostgreSQL.
//
// TLS follows LINSTOR's driver (pgjdbc), whose default is "prefer"; "verify-ca" and "verify-full" check against the
// system's certificate authorities.
var postgreSQL = sqlKind{
	name: v1alpha1.DatabasePostgreSQL, nodes: `SELECT node_dsp_name FROM "LINSTOR".nodes`,
	properties:   `SELECT prop_key, prop_value FROM "LINSTOR".props_containers` + ofThese,
	deletion:     `DELETE FROM "LINSTOR".nodes WHERE false`,
	sslParameter: "sslmode", connect: connectPostgreSQL, classify: classifyPostgreSQL,
}

func connectPostgreSQL(ctx context.Context, server sqlServer, access connection.Settings) (driver.Connector, error) {
	// A literal rather than NewConfig, which would mix in PGHOST, PGPASSWORD and the like from the environment.
	connector, err := pq.NewConnectorConfig(pq.Config{
		Host: server.host, Port: server.port, Database: server.database, User: access.User, Password: access.Password,
		SSLMode: cmp.Or(pq.SSLMode(server.sslMode), pq.SSLModePrefer), SSLSNI: true, ClientEncoding: "UTF8",
		Datestyle: "ISO, MDY", ApplicationName: "storagecluster-operator",
	})
	if err != nil {
		return nil, err
	}
	connector.Dialer(pqDialer(func(network, addr string) (net.Conn, error) { return dial(ctx, network, addr) }))
	return connector, nil
}

// classifyPostgreSQL goes by SQLSTATE (PostgreSQL's documentation, appendix "Error Codes").
func classifyPostgreSQL(err error) error {
	answer, ok := errors.AsType[*pq.Error](err)
	if !ok {
		return errUnreachable // the server said nothing that the protocol knows
	}
	switch answer.Code {
	case pqerror.UndefinedTable, pqerror.InvalidSchemaName:
		return errNoTable
	case pqerror.InvalidPassword, pqerror.InvalidAuthorizationSpecification, pqerror.InsufficientPrivilege:
		return errCredentials
	case pqerror.InvalidCatalogName:
		return errNoDatabase
	case pqerror.ReadOnlySQLTransaction:
		return errReadOnly
	}
	switch answer.Code.Class() {
	case "08", "53", "57": // connection exceptions, too many connections, shutting down or starting up
		return errUnreachable
	}
	return nil
}

// pqDialer is a dial in the shape that pq needs. pq's logins know no context, so it has the look's own.
type pqDialer func(network, address string) (net.Conn, error)

// Dial implements [pq.Dialer].
func (d pqDialer) Dial(network, address string) (net.Conn, error) { return d(network, address) }

// DialTimeout implements [pq.Dialer].
func (d pqDialer) DialTimeout(network, address string, _ time.Duration) (net.Conn, error) {
	return d(network, address)
}

// mariaDB is MariaDB or MySQL.
//
// A missing database is an error here as it is for LINSTOR: its driver creates one only if the connection URL has
// createDatabaseIfNotExist, which the operator's URLs do not.
var mariaDB = sqlKind{
	name: v1alpha1.DatabaseMariaDB, nodes: "SELECT NODE_DSP_NAME FROM NODES",
	properties:   "SELECT PROP_KEY, PROP_VALUE FROM PROPS_CONTAINERS" + ofThese,
	deletion:     "DELETE FROM NODES WHERE FALSE",
	sslParameter: "sslMode", connect: connectMariaDB, classify: classifyMariaDB,
}

func connectMariaDB(ctx context.Context, server sqlServer, access connection.Settings) (driver.Connector, error) {
	security, err := mariadbTLS(server.sslMode, server.host)
	if err != nil {
		return nil, err
	}
	config := mysql.NewConfig()
	config.Net, config.Addr, config.DBName = "tcp", server.address(), server.database
	config.User, config.Passwd = access.User, access.Password
	config.TLS = security
	config.Logger = &mysql.NopLogger{} // what it would log is in the error
	config.DialFunc = func(_ context.Context, network, addr string) (net.Conn, error) {
		return dial(ctx, network, addr)
	}
	return mysql.NewConnector(config)
}

// classifyMariaDB goes by the number (MariaDB Knowledge Base, "MariaDB Error Code Reference").
func classifyMariaDB(err error) error {
	answer, ok := errors.AsType[*mysql.MySQLError](err)
	if !ok {
		return errUnreachable // the server said nothing that the protocol knows
	}
	return mariadbErrors[answer.Number]
}

var mariadbErrors = map[uint16]error{
	1146: errNoTable, 1049: errNoDatabase,
	// --read-only; a replica of MySQL
	1290: errReadOnly, 1836: errReadOnly,
	// database, user, host or table denied, or the user without a password
	1044: errCredentials, 1045: errCredentials, 1130: errCredentials, 1142: errCredentials, 1698: errCredentials,
	// too many connections, also of one user; shutting down; host blocked
	1040: errUnreachable, 1203: errUnreachable, 1053: errUnreachable, 1129: errUnreachable,
}

// mariadbTLS is the TLS configuration for LINSTOR's driver's sslMode, of which every spelling counts that the driver
// knows (MariaDB Connector/J, SslMode); nil is no TLS, the driver's default. Certificates are checked against the
// system's certificate authorities.
func mariadbTLS(mode, host string) (*tls.Config, error) {
	switch strings.ToLower(mode) {
	case "", "disable", "disabled":
		return nil, nil
	case "trust", "required":
		return &tls.Config{InsecureSkipVerify: true}, nil //nolint:gosec // what the mode means: encryption alone
	case "verify-ca", "verify_ca":
		return &tls.Config{InsecureSkipVerify: true, VerifyConnection: verifyChain}, nil //nolint:gosec // verifyChain does
	case "verify-full", "verify_full", "verify_identity":
		return &tls.Config{ServerName: host}, nil
	}
	return nil, fmt.Errorf("sslMode %q is not supported: use disable, trust, verify-ca or verify-full", mode)
}

// verifyChain checks who issued the certificate, not for which host.
func verifyChain(state tls.ConnectionState) error {
	intermediates := x509.NewCertPool()
	for _, cert := range state.PeerCertificates[1:] {
		intermediates.AddCert(cert)
	}
	_, err := state.PeerCertificates[0].Verify(x509.VerifyOptions{Intermediates: intermediates})
	return err
}
