// Package certificatestest has real TLS handshakes for tests, with a clock that the test moves.
package certificatestest

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/linstor-dev/storagecluster-operator/pkg/certificates"
)

// patience is how long one handshake may take, by the real clock. Only one that hangs takes that long.
const patience = 30 * time.Second

// Server is how a part of LINSTOR accepts connections: with a certificate, and from those alone who have one.
func Server(m certificates.Material, now time.Time) *tls.Config {
	return &tls.Config{
		MinVersion:   tls.VersionTLS12,
		Time:         func() time.Time { return now },
		Certificates: []tls.Certificate{m.Leaf.TLS()},
		ClientAuth:   tls.RequireAndVerifyClientCert,
		ClientCAs:    m.Trust.Pool(),
	}
}

// Client is how one opens them. It looks for that name in the server's certificate, as clients of LINSTOR's REST API
// do; "" looks for none, as LINSTOR's controller does where it connects to satellites. Without a Leaf it shows none.
func Client(m certificates.Material, name string, now time.Time) *tls.Config {
	c := &tls.Config{
		MinVersion: tls.VersionTLS12,
		Time:       func() time.Time { return now },
		RootCAs:    m.Trust.Pool(),
		ServerName: name,
	}
	if name == "" {
		c.InsecureSkipVerify = true // the chain is verified below, the name is not
		c.VerifyConnection = func(s tls.ConnectionState) error {
			_, err := s.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: c.RootCAs, CurrentTime: now,
				KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
			return err
		}
	}
	if m.Leaf != nil {
		cert := m.Leaf.TLS()
		// A client in Go shows nothing to a server that does not announce its authority. That would hide who refuses whom.
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &cert, nil }
	}
	return c
}

// Handshake connects both, and has a byte go either way: in TLS 1.3 a client learns only then that it is refused. The
// error says what each side said.
func Handshake(server, client *tls.Config) error {
	s, c := net.Pipe()
	served := make(chan error, 1)
	go func() { served <- Greet(s, server, nil) }()
	err := Greet(c, nil, client)
	return errors.Join(<-served, err)
}

// Greet is one side of a Handshake: the server if it has such a configuration, else the client. It closes the
// connection below TLS, whose own goodbye would wait for a reader.
func Greet(below net.Conn, server, client *tls.Config) error {
	defer func() { _ = below.Close() }()
	if err := below.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	side, conn := "client", tls.Client(below, client)
	steps := []func([]byte) (int, error){conn.Read, conn.Write}
	if server != nil {
		side, conn = "server", tls.Server(below, server)
		steps = []func([]byte) (int, error){conn.Write, conn.Read}
	}
	for _, step := range steps {
		// What was read before the other side's goodbye counts.
		if n, err := step([]byte{1}); n < 1 {
			return fmt.Errorf("%s: %w", side, err)
		}
	}
	return nil
}
