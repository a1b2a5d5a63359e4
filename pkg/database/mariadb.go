package database

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/go-sql-driver/mysql"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
)

const mariadbNodes = "SELECT NODE_DSP_NAME FROM NODES"

// Numbers of MariaDB's server errors (MariaDB Knowledge Base, "MariaDB Error Code Reference").
const (
	mariadbTooManyConnections    = 1040
	mariadbDatabaseDenied        = 1044
	mariadbUserDenied            = 1045
	mariadbUnknownDatabase       = 1049
	mariadbShuttingDown          = 1053
	mariadbHostBlocked           = 1129
	mariadbHostNotAllowed        = 1130
	mariadbTableDenied           = 1142
	mariadbNoSuchTable           = 1146
	mariadbTooManyUserConnection = 1203
	mariadbUserDeniedNoPassword  = 1698
)

// mariaDB looks into a MariaDB or MySQL database.
//
// A missing database is an error here as it is for LINSTOR: its driver creates one only if the connection URL has
// createDatabaseIfNotExist, which the operator's URLs do not.
func (p *Prober) mariaDB(ctx context.Context, db *v1alpha1.SQLDatabase, access resources.Database) ([]string, error) {
	server, err := parseJDBC(access.URL, "sslMode")
	if err != nil {
		return nil, fmt.Errorf("mariadb: %w", err)
	}
	about := p.sqlSubject(v1alpha1.DatabaseMariaDB, server, db.CredentialsSecret, access)
	security, err := mariadbTLS(server.sslMode, server.host)
	if err != nil {
		return nil, about.fail(ctx, nil, err)
	}
	config := mysql.NewConfig()
	config.Net, config.Addr, config.DBName = "tcp", server.address(), server.database
	config.User, config.Passwd = access.User, access.Password
	config.TLS = security
	config.Logger = &mysql.NopLogger{} // what it would log is in the error
	config.DialFunc = func(_ context.Context, network, addr string) (net.Conn, error) {
		return dial(ctx, network, addr)
	}
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return nil, about.fail(ctx, nil, err)
	}
	return sqlTarget{subject: about, connector: connector, query: mariadbNodes, classify: classifyMariaDB}.names(ctx)
}

func classifyMariaDB(err error) error {
	var answer *mysql.MySQLError
	if !errors.As(err, &answer) {
		return ErrUnreachable // the server said nothing that the protocol knows
	}
	switch answer.Number {
	case mariadbNoSuchTable:
		return errNoTable
	case mariadbUserDenied, mariadbUserDeniedNoPassword, mariadbHostNotAllowed, mariadbDatabaseDenied, mariadbTableDenied:
		return ErrCredentials
	case mariadbUnknownDatabase:
		return ErrNoDatabase
	case mariadbTooManyConnections, mariadbTooManyUserConnection, mariadbShuttingDown, mariadbHostBlocked:
		return ErrUnreachable
	}
	return nil
}

// mariadbTLS is the TLS configuration for LINSTOR's driver's sslMode, of which every spelling counts that the driver knows
// (MariaDB Connector/J, SslMode); nil is no TLS, the driver's default. Certificates are checked against the system's
// certificate authorities.
func mariadbTLS(mode, host string) (*tls.Config, error) {
	switch strings.ToLower(mode) {
	case "", "disable", "disabled":
		return nil, nil
	case "trust", "required":
		return &tls.Config{InsecureSkipVerify: true}, nil //nolint:gosec // what the mode means: encryption alone
	case "verify-ca", "verify_ca":
		return &tls.Config{InsecureSkipVerify: true, VerifyConnection: verifyChain}, nil //nolint:gosec // verifyChain verifies
	case "verify-full", "verify_full", "verify_identity":
		return &tls.Config{ServerName: host}, nil
	}
	return nil, fmt.Errorf("sslMode %q is none of MariaDB's modes: disable, trust, verify-ca, verify-full", mode)
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
