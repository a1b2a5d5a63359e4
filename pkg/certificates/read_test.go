package certificates_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"maps"
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/linstor-dev/storagecluster-operator/pkg/certificates"
)

// issue makes what somebody else would bring: a certificate for any kind of key, signed by anybody.
func issue(t *testing.T, template, parent *x509.Certificate, key, signer crypto.Signer) (*x509.Certificate, []byte) {
	t.Helper()
	template.SerialNumber = big.NewInt(7)
	if template.NotAfter.IsZero() {
		template.NotBefore, template.NotAfter = start.Add(-day), start.Add(day)
	}
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return c, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func pkcs8(t *testing.T, key any) []byte {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

func p256(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// brought is a Secret as people bring it: an authority, one between, and a certificate for both sides.
func brought(t *testing.T) map[string][]byte {
	t.Helper()
	rootKey, midKey, leafKey := p256(t), p256(t), p256(t)
	ca := func(name string) *x509.Certificate {
		return &x509.Certificate{Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
			KeyUsage: x509.KeyUsageCertSign}
	}
	root, rootPEM := issue(t, ca("root"), nil, rootKey, nil)
	mid, midPEM := issue(t, ca("between\x1b[31m"), root, midKey, rootKey)
	_, leafPEM := issue(t, &x509.Certificate{Subject: pkix.Name{CommonName: "leaf"}, ExtKeyUsage: twoSides,
		DNSNames: []string{"linstor.example"}}, mid, leafKey, midKey)
	return map[string][]byte{"tls.crt": slices.Concat(leafPEM, midPEM), "tls.key": pkcs8(t, leafKey),
		"ca.crt": rootPEM}
}

var twoSides = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}

// read reads what is in a Secret, as whoever uses it does.
func read(data map[string][]byte) (certificates.Material, error) {
	leaf, err := certificates.ReadLeaf("mine", data)
	trust, trustErr := certificates.ReadTrust("mine", data)
	return certificates.Material{Leaf: leaf, Trust: trust}, errors.Join(err, trustErr)
}

func TestReadTakes(t *testing.T) {
	good := brought(t)
	other := brought(t)
	a := authority(t, "linstor-api", start)
	own, err := signed(t, a, rest).Data(certificates.NewBundle(a.Certificate))
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(good["tls.key"])
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	sec1, err := x509.MarshalECPrivateKey(key.(*ecdsa.PrivateKey))
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		data  map[string][]byte
		trust int
	}{
		"a chain":            {good, 1},
		"the operator's own": {own, 1},
		"two authorities": {with(good, "ca.crt", slices.Concat(good["ca.crt"], other["ca.crt"], good["ca.crt"])),
			2},
		"a key as openssl's": {with(good, "tls.key", ecPEM(sec1)), 1},
		"words around the PEM": {with(good, "ca.crt", slices.Concat([]byte("# ours\n"), good["ca.crt"],
			[]byte("\n# end\n"))), 1},
		"more than is needed":   {with(good, "other", []byte("x")), 1},
		"the authority as well": {with(good, "tls.crt", slices.Concat(good["tls.crt"], good["ca.crt"])), 1},
	} {
		m, err := read(tc.data)
		if err != nil || len(m.Trust) != tc.trust || m.Trust.Verify(m.Leaf, certificates.Server, start) != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// broughtMid is the certificate between, which comes last.
func broughtMid(data map[string][]byte) []byte {
	return data["tls.crt"][strings.LastIndex(string(data["tls.crt"]), "-----BEGIN"):]
}

func ecPEM(sec1 []byte) []byte {
	// openssl ecparam -genkey writes the curve above the key.
	return slices.Concat(pem.EncodeToMemory(&pem.Block{Type: "EC PARAMETERS",
		Bytes: []byte{6, 8, 42, 134, 72, 206, 61, 3, 1, 7}}),
		pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: sec1}))
}

func with(data map[string][]byte, entry string, value []byte) map[string][]byte {
	data = maps.Clone(data)
	data[entry] = value
	return data
}

func TestReadRefuses(t *testing.T) {
	good, other := brought(t), brought(t)
	mid := broughtMid(good)
	leaf := good["tls.crt"][:len(good["tls.crt"])-len(mid)]
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	p224, err := ecdsa.GenerateKey(elliptic.P224(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		data  map[string][]byte
		entry string
		says  string
	}{
		"no trust": {data: with(good, "ca.crt", nil), entry: "ca.crt", says: "is missing or empty; add the authorities " +
			"that LINSTOR must trust: without them, it would trust all of Java's default authorities"},
		"blank trust": {data: with(good, "ca.crt", []byte(" \n")), entry: "ca.crt", says: "is missing or empty"},
		"a leaf as trust": {data: with(good, "ca.crt", leaf), entry: "ca.crt", says: "contains a certificate that is not " +
			"a CA certificate"},
		"a key in the trust": {data: with(good, "ca.crt", slices.Concat(good["ca.crt"], good["tls.key"])), entry: "ca.crt",
			says: "contains a private key; remove the key"},
		"a damaged key in the trust": {data: with(good, "ca.crt", slices.Concat(good["ca.crt"], good["tls.key"][:80])),
			entry: "ca.crt", says: "is damaged"},
		"a request": {data: with(good, "tls.crt", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST"})),
			entry: "tls.crt", says: "contains something other than certificates"},
		"DER": {data: with(good, "tls.crt", []byte{0x30, 0x82}), entry: "tls.crt",
			says: "is not a certificate in PEM"},
		"no certificate": {data: with(good, "tls.crt", nil), entry: "tls.crt", says: "is missing or empty"},
		"half a certificate": {data: with(good, "tls.crt", leaf[:200]), entry: "tls.crt",
			says: "is damaged; replace it with the original certificates"},
		"wrong bytes": {data: with(good, "tls.crt", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("x")})),
			entry: "tls.crt", says: "contains a certificate that cannot be parsed"},
		"wrong order": {data: with(good, "tls.crt", slices.Concat(mid, leaf)), entry: "tls.crt",
			says: "put that certificate first"},
		"no key": {data: with(good, "tls.key", nil), entry: "tls.key", says: "does not contain a private key in PEM"},
		"another's key": {data: with(good, "tls.key", other["tls.key"]), entry: "tls.key",
			says: "does not match the certificate in tls.crt"},
		"encrypted key": {data: with(good, "tls.key", pem.EncodeToMemory(&pem.Block{Type: "ENCRYPTED PRIVATE KEY"})),
			entry: "tls.key", says: "is encrypted; replace it with the unencrypted key"},
		"key encrypted as of old": {data: with(good, "tls.key", pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY",
			Headers: map[string]string{"DEK-Info": "AES-128-CBC,0"}})), entry: "tls.key", says: "is encrypted"},
		"damaged key": {data: with(good, "tls.key", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY",
			Bytes: []byte("x")})), entry: "tls.key", says: "is damaged"},
		"other's PEM as key": {data: with(good, "tls.key", leaf), entry: "tls.key",
			says: "does not contain a private key in PEM"},
		"an Ed25519 key": {data: with(good, "tls.key", pkcs8(t, ed)), entry: "tls.key",
			says: "is neither an ECDSA key nor an RSA key; use"},
		"P-224": {data: with(good, "tls.key", pkcs8(t, p224)), entry: "tls.key", says: "uses the P-224 curve"},
		"RSA, another's": {data: with(good, "tls.key", pkcs8(t, rsaKey)), entry: "tls.key",
			says: "does not match the certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := read(tc.data)
			if err == nil || !strings.Contains(err.Error(), tc.entry+" of Secret mine ") ||
				!strings.Contains(err.Error(), tc.says) {
				t.Fatalf("says %v,\nwant of %s %q", err, tc.entry, tc.says)
			}
			noSecrets(t, err.Error(), tc.data)
			if strings.Contains(err.Error(), "\x1b") {
				t.Error("a name that was brought is printed as it is")
			}
		})
	}
}

// TestNoUse: without a side nothing of the certificate would be looked at.
func TestNoUse(t *testing.T) {
	a := authority(t, "x", start)
	trust := certificates.NewBundle(a.Certificate)
	for _, u := range []certificates.Use{0, certificates.Both + 1} {
		if err := trust.Verify(signed(t, a, rest), u, start); err == nil {
			t.Errorf("Verify takes use %d", u)
		}
		if _, err := a.Sign(certificates.Profile{Name: "x", Uses: u}, start); err == nil {
			t.Errorf("a certificate for use %d was signed", u)
		}
	}
}

// TestChain: each certificate comes once, an authority that was brought with the others included.
func TestChain(t *testing.T) {
	data := brought(t)
	data["tls.crt"] = slices.Concat(data["tls.crt"], data["ca.crt"])
	m, err := read(data)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range m.Leaf.Chain(m.Trust) {
		names = append(names, c.Subject.CommonName)
	}
	if want := []string{"leaf", "between\x1b[31m", "root"}; !slices.Equal(names, want) {
		t.Errorf("the chain is %q", names)
	}
	if alone := m.Leaf.Chain(nil); len(alone) != 3 {
		t.Errorf("without a bundle it has %d", len(alone))
	}
}

// TestReadTakesWhatJavaTakes has kinds of keys beside our own.
func TestReadTakesWhatJavaTakes(t *testing.T) {
	a := authority(t, "x", start)
	for name, k := range map[string]func() (crypto.Signer, error){
		"RSA":   func() (crypto.Signer, error) { return rsa.GenerateKey(rand.Reader, 2048) },
		"P-384": func() (crypto.Signer, error) { return ecdsa.GenerateKey(elliptic.P384(), rand.Reader) },
	} {
		key, err := k()
		if err != nil {
			t.Fatal(err)
		}
		_, text := issue(t, &x509.Certificate{}, a.Certificate, key, a.Key.Signer())
		data := map[string][]byte{"tls.crt": text, "tls.key": pkcs8(t, key),
			"ca.crt": certificates.NewBundle(a.Certificate).PEM()}
		if m, err := read(data); err != nil || m.Trust.Verify(m.Leaf, certificates.Both, start) != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// noSecrets fails if a message has a line of a key.
func noSecrets(t *testing.T, message string, data map[string][]byte) {
	t.Helper()
	for _, entry := range data {
		for line := range strings.SplitSeq(string(entry), "\n") {
			if len(line) > 16 && !strings.HasPrefix(line, "-----") && strings.Contains(message, line) {
				t.Errorf("the message has %q in it", line)
			}
		}
	}
}

// FuzzRead: what people bring is refused with words, and never with what they brought.
func FuzzRead(f *testing.F) {
	a, err := certificates.NewAuthority("x", start)
	if err != nil {
		f.Fatal(err)
	}
	l, err := a.Sign(rest, start)
	if err != nil {
		f.Fatal(err)
	}
	data, err := l.Data(certificates.NewBundle(a.Certificate))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data["tls.crt"], data["tls.key"], data["ca.crt"])
	f.Add(data["ca.crt"], data["tls.key"], data["tls.crt"])
	f.Add(data["tls.key"], data["tls.crt"], data["tls.key"])
	f.Add([]byte("-----BEGIN PRIVATE KEY-----\nx"), []byte("-----BEGIN EC PRIVATE KEY-----\nDEK-Info: x\n"), []byte("x"))
	f.Fuzz(func(t *testing.T, crt, key, ca []byte) {
		d := map[string][]byte{"tls.crt": crt, "tls.key": key, "ca.crt": ca}
		if _, err := read(d); err != nil {
			noSecrets(t, err.Error(), map[string][]byte{"tls.key": key})
		}
		if _, err := certificates.ReadBrought("mine", d, start); err != nil {
			noSecrets(t, err.Error(), map[string][]byte{"tls.key": key})
		}
		s, _ := certificates.ReadSuccession("cas", map[string][]byte{"ca.crt": crt, "ca.key": key, "old.crt": ca})
		if _, err := s.Data(); err != nil {
			t.Fatal(err)
		}
	})
}
