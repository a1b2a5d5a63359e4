package javastore_test

import (
	"bytes"
	"context"
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	pkcs12 "software.sslmate.com/src/go-pkcs12"

	"github.com/linstor-dev/storagecluster-operator/pkg/certificates"
	"github.com/linstor-dev/storagecluster-operator/pkg/certificates/javastore"
	"github.com/linstor-dev/storagecluster-operator/test/inputs"
)

// kind is one kind of connection: an authority, and a certificate for either side.
type kind struct {
	authority      *certificates.Authority
	server, client *certificates.Leaf
}

func newKind(t *testing.T, now time.Time) kind {
	t.Helper()
	a, err := certificates.NewAuthority("linstor-internal", now)
	if err != nil {
		t.Fatal(err)
	}
	return kindOf(t, a, now)
}

// renewed is a kind whose authority has the name of another one and a key of its own, as cert-manager renews one.
func renewed(t *testing.T, k kind, now time.Time) kind {
	t.Helper()
	key, err := certificates.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	template := *k.authority.Certificate
	template.SubjectKeyId, template.AuthorityKeyId, template.SerialNumber, template.PublicKey = nil, nil, nil, nil
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, key.Signer().Public(), key.Signer())
	if err != nil {
		t.Fatal(err)
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return kindOf(t, &certificates.Authority{Certificate: c, Key: key}, now)
}

func kindOf(t *testing.T, a *certificates.Authority, now time.Time) kind {
	t.Helper()
	k := kind{authority: a}
	var err error
	for use, leaf := range map[certificates.Use]**certificates.Leaf{certificates.Server: &k.server,
		certificates.Client: &k.client} {
		if *leaf, err = a.Sign(certificates.Profile{Name: "linstor", Uses: use}, now); err != nil {
			t.Fatal(err)
		}
	}
	return k
}

func bundle(kinds ...kind) (b certificates.Bundle) {
	for _, k := range kinds {
		b = append(b, k.authority.Certificate)
	}
	return certificates.NewBundle(b...)
}

func TestStores(t *testing.T) {
	one, two := newKind(t, time.Now()), newKind(t, time.Now())
	trust := bundle(one, two)
	data, err := javastore.Data(one.server, trust)
	if err != nil {
		t.Fatal(err)
	}
	key, cert, chain, err := pkcs12.DecodeChain(data["keystore.p12"], javastore.Password)
	if err != nil {
		t.Fatal(err)
	}
	if !cert.Equal(one.server.Certificate) || len(chain) != 1 || !chain[0].Equal(one.authority.Certificate) ||
		!one.server.Key.Signer().(interface{ Equal(crypto.PrivateKey) bool }).Equal(key) {
		t.Error("the key store has something else than key, certificate and its authority")
	}
	trusted, err := pkcs12.DecodeTrustStore(data["truststore.p12"], javastore.Password)
	if err != nil {
		t.Fatal(err)
	}
	if certificates.NewBundle(trusted...).Hash() != trust.Hash() {
		t.Error("the trust store has other authorities")
	}
	if len(data) != 5 || !bytes.Equal(data["ca.crt"], trust.PEM()) {
		t.Errorf("the Secret has %d entries", len(data))
	}
}

// TestSameInputSameBytes: a store that differed at every reconcile would be written each time.
func TestSameInputSameBytes(t *testing.T) {
	one, two := newKind(t, time.Now()), newKind(t, time.Now())
	first, err := javastore.Data(one.server, bundle(one, two))
	if err != nil {
		t.Fatal(err)
	}
	again, err := javastore.Data(one.server, bundle(two, one))
	if err != nil {
		t.Fatal(err)
	}
	other, err := javastore.Data(one.client, bundle(one))
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range []string{javastore.EntryKeyStore, javastore.EntryTrustStore} {
		if !bytes.Equal(first[entry], again[entry]) {
			t.Errorf("%s of the same certificates differs", entry)
		}
		if bytes.Equal(first[entry], other[entry]) {
			t.Errorf("%s of other certificates is the same", entry)
		}
	}
}

func TestNothingIsNoStore(t *testing.T) {
	k := newKind(t, time.Now())
	if _, err := javastore.TrustStore(nil); err == nil {
		t.Error("a trust store without an authority was made")
	}
	if _, err := javastore.KeyStore(&certificates.Leaf{Certificate: k.server.Certificate}, bundle(k)); err == nil {
		t.Error("a key store without a key was made")
	}
	if _, err := javastore.Data(k.server, nil); err == nil {
		t.Error("stores that trust nobody were made")
	}
}

// TestKeytool reads the stores with Java's own tool, by the type that LINSTOR's controller and satellites name.
func TestKeytool(t *testing.T) {
	keytool, err := exec.LookPath("keytool")
	if err != nil {
		t.Skip("there is no keytool")
	}
	one, two := newKind(t, time.Now()), newKind(t, time.Now())
	dir := files(t, one.server, bundle(one, two))
	for _, kind := range []string{"JKS", "PKCS12"} {
		for file, want := range map[string][]string{
			"keystore.p12": {"contains 1 entry", "PrivateKeyEntry", "Certificate chain length: 2", "SHA256withECDSA"},
			"truststore.p12": {"contains 2 entries", "trustedCertEntry",
				"ca-" + certificates.Fingerprint(one.authority.Certificate)[:16],
				"ca-" + certificates.Fingerprint(two.authority.Certificate)[:16]},
		} {
			out := run(t, keytool, "-list", "-v", "-storetype", kind, "-keystore", filepath.Join(dir, file),
				"-storepass", javastore.Password)
			for _, w := range want {
				if !strings.Contains(out, w) {
					t.Errorf("%s as %s: keytool does not say %q but\n%s", file, kind, w, out)
				}
			}
		}
	}
}

// files writes the stores of a Secret into a directory.
func files(t *testing.T, l *certificates.Leaf, trust certificates.Bundle) string {
	t.Helper()
	data, err := javastore.Data(l, trust)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, name := range []string{javastore.EntryKeyStore, javastore.EntryTrustStore} {
		if err := os.WriteFile(filepath.Join(dir, name), data[name], 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	inputs.DeclareArguments(args)
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
	return string(out)
}
