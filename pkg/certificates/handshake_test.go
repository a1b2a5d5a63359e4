package certificates_test

import (
	"crypto/tls"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/linstor-dev/storagecluster-operator/pkg/certificates"
	"github.com/linstor-dev/storagecluster-operator/pkg/certificates/certificatestest"
)

var (
	client    = certificates.Profile{Name: "linstor-csi", Uses: certificates.Client}
	satellite = certificates.Profile{Name: "linstor-satellite", Uses: certificates.Server}
)

// TestHandshake is about real connections, each in TLS 1.2, which LINSTOR's controller speaks to satellites, and 1.3.
func TestHandshake(t *testing.T) {
	ours, theirs := authority(t, "linstor-api", start), authority(t, "linstor-internal", start)
	trust, foreign := certificates.NewBundle(ours.Certificate), certificates.NewBundle(theirs.Certificate)
	server := certificates.Material{Leaf: signed(t, ours, rest), Trust: trust}
	good := certificates.Material{Leaf: signed(t, ours, client), Trust: trust}
	const (
		name   = "linstor-controller.linstor-storage.svc"
		failed = "tls: failed to verify certificate: x509: "
	)
	for title, tc := range map[string]struct {
		server, client certificates.Material
		name           string
		now            time.Time
		says           string
	}{
		"a client of ours":           {server: server, client: good, name: name},
		"by address":                 {server: server, client: good, name: "127.0.0.1"},
		"a satellite, by no name":    {server: material(signed(t, ours, satellite), trust), client: good},
		"in the last second":         {server: server, client: good, name: name, now: start.Add(90 * day)},
		"an hour before it was made": {server: server, client: good, name: name, now: start.Add(-time.Hour)},
		"both trust both": {server: material(server.Leaf, both(ours, theirs)), name: name,
			client: material(signed(t, theirs, client), both(ours, theirs))},
		"no certificate": {server: server, client: material(nil, trust), name: name,
			says: "server: tls: client didn't provide"},
		"a client of another kind": {server: server, client: material(signed(t, theirs, client), trust), name: name,
			says: "server: " + failed + "certificate signed by unknown authority"},
		"a server of another kind": {server: material(signed(t, theirs, rest), trust), client: good, name: name,
			says: "client: " + failed + "certificate signed by unknown authority"},
		"the client trusts another": {server: server, client: material(good.Leaf, foreign), name: name,
			says: "client: " + failed},
		"the server trusts another": {server: material(server.Leaf, foreign), client: good, name: name,
			says: "server: " + failed},
		"the server trusts nobody": {server: material(server.Leaf, nil), client: good, name: name,
			says: "server: " + failed},
		"a satellite as a client": {server: server, client: material(signed(t, ours, satellite), trust), name: name,
			says: "server: " + failed + "certificate specifies an incompatible key usage"},
		"a client as a satellite": {server: material(good.Leaf, trust), client: good,
			says: "client: x509: certificate specifies an incompatible key usage"},
		"another name": {server: server, client: good, name: "other",
			says: "client: " + failed + "certificate is valid for"},
		"both expired": {server: server, client: good, name: name, now: start.Add(90*day + time.Second),
			says: "has expired"},
		"the client's expired": {server: material(signedAt(t, ours, rest, start.Add(60*day)), trust), client: good,
			name: name, now: start.Add(91 * day), says: "server: " + failed + "certificate has expired"},
		"the server's expired": {server: server, client: material(signedAt(t, ours, client, start.Add(60*day)), trust),
			name: name, now: start.Add(91 * day), says: "client: " + failed + "certificate has expired"},
		"two hours before it was made": {server: server, client: good, name: name, now: start.Add(-2 * time.Hour),
			says: "not yet valid"},
	} {
		for version, most := range map[string]uint16{"1.2": tls.VersionTLS12, "1.3": tls.VersionTLS13} {
			t.Run(title+", TLS "+version, func(t *testing.T) {
				now := tc.now
				if now.IsZero() {
					now = start
				}
				s, c := certificatestest.Server(tc.server, now), certificatestest.Client(tc.client, tc.name, now)
				s.MaxVersion = most
				err := certificatestest.Handshake(s, c)
				if tc.says == "" && err != nil || tc.says != "" && (err == nil || !strings.Contains(err.Error(), tc.says)) {
					t.Errorf("says %v, want %q", err, tc.says)
				}
			})
		}
	}
}

func material(l *certificates.Leaf, trust certificates.Bundle) certificates.Material {
	return certificates.Material{Leaf: l, Trust: trust}
}

func both(a, b *certificates.Authority) certificates.Bundle {
	return certificates.NewBundle(a.Certificate, b.Certificate)
}

// TestPlainIsRefused: one side speaks no TLS.
func TestPlainIsRefused(t *testing.T) {
	a := authority(t, "linstor-api", start)
	m := material(signed(t, a, rest), certificates.NewBundle(a.Certificate))
	speak := func(t *testing.T, ours func(net.Conn) *tls.Conn) error {
		t.Helper()
		one, other := net.Pipe()
		t.Cleanup(func() { _ = one.Close() })
		go func() {
			defer func() { _ = other.Close() }()
			buf := make([]byte, 1024)
			_, _ = other.Write([]byte("GET /v1/nodes HTTP/1.1\r\nHost: linstor\r\n\r\n"))
			_, _ = other.Read(buf)
		}()
		return ours(one).HandshakeContext(t.Context())
	}
	for name, ours := range map[string]func(net.Conn) *tls.Conn{
		"plain client": func(c net.Conn) *tls.Conn { return tls.Server(c, certificatestest.Server(m, start)) },
		"plain server": func(c net.Conn) *tls.Conn {
			return tls.Client(reader{c}, certificatestest.Client(m, "localhost", start))
		},
	} {
		t.Run(name, func(t *testing.T) {
			if err := speak(t, ours); err == nil || !strings.Contains(err.Error(), "does not look like a TLS handshake") {
				t.Errorf("says %v", err)
			}
		})
	}
}

// reader takes what is written as said, so that a plain server that speaks first is heard.
type reader struct{ net.Conn }

func (r reader) Write(p []byte) (int, error) { return len(p), nil }
