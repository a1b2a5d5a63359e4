package database

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
)

// sqlTarget is an SQL database with what is special about its kind.
type sqlTarget struct {
	subject
	connector driver.Connector
	// query selects the nodes' names.
	query string
	// classify sorts a driver's error: one of the package's errors, or nil for none of them.
	classify func(error) error
}

// sqlServer is what LINSTOR's connection URL says.
type sqlServer struct {
	host string
	port uint16
	// database is the database's name.
	database string
	// sslMode is empty for the driver's default.
	sslMode string
}

// parseJDBC reads a connection URL as [resources.DatabaseURL] makes it, so that its defaults hold here too.
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

func (p *Prober) sqlSubject(kind v1alpha1.DatabaseKind, s sqlServer, secret string, access resources.Database) subject {
	return subject{
		server: string(kind) + " at " + s.address(), database: s.database, secret: secret, access: access, timeout: p.timeout,
	}
}

// names runs the query on a connection of its own, which ends with it.
func (t sqlTarget) names(ctx context.Context) ([]string, error) {
	names, err := queryNames(ctx, t.connector, t.query)
	if err == nil {
		return names, nil
	}
	kind := t.classify(err)
	if errors.Is(kind, errNoTable) {
		return nil, nil
	}
	return nil, t.fail(ctx, kind, err)
}

func queryNames(ctx context.Context, connector driver.Connector, query string) (names []string, err error) {
	db := sql.OpenDB(connector)
	defer func() { err = errors.Join(err, db.Close()) }()
	db.SetMaxOpenConns(1)
	rows, err := db.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	return names, rows.Err()
}

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
