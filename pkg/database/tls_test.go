package database

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"testing"
	"time"
)

// TestMariaDBModes shakes hands with a server whose certificate nobody has signed.
func TestMariaDBModes(t *testing.T) {
	cert := selfSigned(t)
	for _, tc := range []struct {
		mode          string
		plain, shakes bool
	}{
		{mode: "", plain: true},
		{mode: "disable", plain: true},
		{mode: "DISABLED", plain: true},
		{mode: "trust", shakes: true},
		{mode: "Required", shakes: true},
		{mode: "verify-ca"},
		{mode: "VERIFY_CA"},
		{mode: "verify-full"},
		{mode: "verify_identity"},
	} {
		t.Run(tc.mode, func(t *testing.T) {
			config, err := mariadbTLS(tc.mode, "db.example.com")
			if err != nil {
				t.Fatal(err)
			}
			if (config == nil) != tc.plain {
				t.Fatalf("TLS is %t, want %t", config != nil, !tc.plain)
			}
			if tc.plain {
				return
			}
			client, server := net.Pipe()
			defer func() { _ = client.Close() }()
			go func() {
				defer func() { _ = server.Close() }()
				_ = tls.Server(server, &tls.Config{Certificates: []tls.Certificate{cert}}).HandshakeContext(t.Context())
			}()
			if err := tls.Client(client, config).HandshakeContext(t.Context()); (err == nil) != tc.shakes {
				t.Errorf("handshake: %v, want success %t", err, tc.shakes)
			}
		})
	}
	if _, err := mariadbTLS("prefer", "db.example.com"); err == nil {
		t.Error("a mode of PostgreSQL's is taken for one of MariaDB's")
	}
}

func selfSigned(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{"db.example.com"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}
