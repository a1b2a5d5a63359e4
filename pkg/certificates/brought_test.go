package certificates_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"math/big"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/linstor-dev/storagecluster-operator/pkg/certificates"
)

// ownAuthority is a Secret as people bring it, changed before the certificate is signed.
func ownAuthority(t *testing.T, key crypto.Signer, change func(*x509.Certificate)) map[string][]byte {
	t.Helper()
	template := &x509.Certificate{Subject: pkix.Name{CommonName: "our LINSTOR CA"}, IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign, NotBefore: start.Add(-day),
		NotAfter: start.Add(99 * day)}
	if change != nil {
		change(template)
	}
	_, text := issue(t, template, nil, key, nil)
	return map[string][]byte{"tls.crt": text, "tls.key": pkcs8(t, key)}
}

func TestReadBrought(t *testing.T) {
	long, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string]map[string][]byte{
		"P-256": ownAuthority(t, p256(t), nil), "P-384": ownAuthority(t, p384, nil), "RSA": ownAuthority(t, long, nil),
		"as cert-manager's": with(ownAuthority(t, p256(t), func(c *x509.Certificate) {
			c.KeyUsage |= x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment
		}), "ca.crt", []byte("the same once more")),
		"for both sides": ownAuthority(t, p256(t), func(c *x509.Certificate) { c.ExtKeyUsage = twoSides }),
	} {
		a, err := certificates.ReadBrought("mine", data, start)
		if err != nil || !a.CanSign(start) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		l, err := a.Sign(rest, start)
		if err != nil {
			t.Fatal(err)
		}
		if err := certificates.NewBundle(a.Certificate).Verify(l, rest.Uses, start); err != nil || !a.Signed(l.Hash()) {
			t.Errorf("%s: what it has signed is refused: %v", name, err)
		}
	}
}

func TestReadBroughtRefuses(t *testing.T) {
	key := p256(t)
	good, other := ownAuthority(t, key, nil), ownAuthority(t, p256(t), nil)
	changed := func(change func(*x509.Certificate)) map[string][]byte { return ownAuthority(t, key, change) }
	short, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	root := authority(t, "a company", start)
	_, between := issue(t, &x509.Certificate{Subject: pkix.Name{CommonName: "between"}, IsCA: true,
		BasicConstraintsValid: true}, root.Certificate, key, root.Key.Signer())
	_, leaf := issue(t, &x509.Certificate{Subject: pkix.Name{CommonName: "leaf"}}, root.Certificate, key,
		root.Key.Signer())
	renamed := changed(func(c *x509.Certificate) { c.Subject = pkix.Name{CommonName: "a company"} })
	stranger := func() []byte { // a name as if it had signed itself, and another key
		template := &x509.Certificate{Subject: root.Certificate.Subject, IsCA: true, BasicConstraintsValid: true}
		_, text := issue(t, template, root.Certificate, key, root.Key.Signer())
		return text
	}()
	for name, tc := range map[string]struct {
		data        map[string][]byte
		entry, says string
	}{
		"nothing": {map[string][]byte{}, "tls.crt", "is missing or empty; add certificates in PEM format"},
		"no key":  {with(good, "tls.key", nil), "tls.key", "does not contain a private key in PEM"},
		"another's key": {with(good, "tls.key", other["tls.key"]), "tls.key",
			"does not match the certificate in tls.crt; replace it with the private key of that certificate"},
		"a key in the certificate": {with(good, "tls.crt", slices.Concat(good["tls.crt"], good["tls.key"])), "tls.crt",
			"contains a private key"},
		"an encrypted key": {with(good, "tls.key", pem.EncodeToMemory(&pem.Block{Type: "ENCRYPTED PRIVATE KEY"})),
			"tls.key", "is encrypted; replace it with the unencrypted key"},
		"a short key": {ownAuthority(t, short, nil), "tls.key", "is shorter than 2048 bits"},
		"Ed25519":     {ownAuthority(t, ed, nil), "tls.key", "is neither an ECDSA key nor an RSA key"},
		"a chain": {with(good, "tls.crt", slices.Concat(good["tls.crt"], other["tls.crt"])), "tls.crt",
			"contains several certificates; keep only the CA certificate"},
		"a leaf": {with(good, "tls.crt", leaf), "tls.crt", "is not a CA certificate; replace it with one that has the " +
			"basic constraint CA:TRUE"},
		"one of a company's PKI": {with(good, "tls.crt", between), "tls.crt", "was issued by another authority; replace " +
			"it with a self-signed CA certificate that is used only for LINSTOR"},
		"one that has only the name of its signer": {with(renamed, "tls.crt", stranger), "tls.crt",
			"was not signed with its own key"},
		"no name": {changed(func(c *x509.Certificate) { c.Subject = pkix.Name{} }), "tls.crt", "has no subject"},
		"no signatures": {changed(func(c *x509.Certificate) { c.KeyUsage = x509.KeyUsageCRLSign }), "tls.crt",
			"is not allowed to sign certificates; recreate it with the key usage keyCertSign"},
		"servers only": {changed(func(c *x509.Certificate) { c.ExtKeyUsage = twoSides[:1] }), "tls.crt",
			"is not allowed to sign client certificates; recreate it without extended key usages"},
		"some names": {changed(func(c *x509.Certificate) { c.PermittedDNSDomains = []string{"example.com"} }), "tls.crt",
			"has name constraints; recreate it without"},
		"some addresses": {changed(func(c *x509.Certificate) {
			c.ExcludedIPRanges = []*net.IPNet{{IP: net.IPv4(10, 0, 0, 0).To4(), Mask: net.CIDRMask(8, 32)}}
		}), "tls.crt", "has name constraints"},
		"expired": {changed(func(c *x509.Certificate) {
			c.NotBefore, c.NotAfter = start.Add(-2*day), start.Add(-day)
		}), "tls.crt", "expired at 2026-02-28T12:00:00Z; renew it"},
		"soon": {changed(func(c *x509.Certificate) { c.NotBefore, c.NotAfter = start, start.Add(30*day-time.Second) }),
			"tls.crt", "expires at 2026-03-31T11:59:59Z, in less than 30 days, together with all certificates signed " +
				"by it; replace it with a new one"},
		"an extension that Go does not know": {changed(func(c *x509.Certificate) {
			c.ExtraExtensions = []pkix.Extension{{Id: asn1.ObjectIdentifier{1, 2, 3}, Critical: true, Value: []byte{5, 0}}}
		}), "tls.crt", "has critical extensions"},
		"a large one": {changed(func(c *x509.Certificate) {
			c.ExtraExtensions = []pkix.Extension{{Id: asn1.ObjectIdentifier{1, 2, 3}, Value: make([]byte, 9<<10)}}
		}), "tls.crt", "is larger than 8 KiB"},
		"a long serial number": {numbered(t, new(big.Int).Lsh(big.NewInt(1), 200)), "tls.crt",
			"has a serial number longer than 20 bytes"},
		"not yet": {changed(func(c *x509.Certificate) {
			c.NotBefore, c.NotAfter = start.Add(day), start.Add(2*day)
		}), "tls.crt", "is not valid before 2026-03-02T12:00:00Z; wait until then"},
	} {
		t.Run(name, func(t *testing.T) {
			a, err := certificates.ReadBrought("mine", tc.data, start)
			if a != nil || err == nil || !strings.Contains(err.Error(), tc.entry+" of Secret mine "+tc.says) {
				t.Fatalf("says %v,\nwant of %s: %s", err, tc.entry, tc.says)
			}
			noSecrets(t, err.Error(), tc.data)
		})
	}
}

// numbered has a serial number that Go's library does not give.
func numbered(t *testing.T, serial *big.Int) map[string][]byte {
	t.Helper()
	key := p256(t)
	data := ownAuthority(t, key, nil)
	block, _ := pem.Decode(data["tls.crt"])
	var c struct {
		TBS       asn1.RawValue
		Algorithm pkix.AlgorithmIdentifier
		Signature asn1.BitString
	}
	if _, err := asn1.Unmarshal(block.Bytes, &c); err != nil {
		t.Fatal(err)
	}
	// [0] version, then the serial number, then all else.
	var version asn1.RawValue
	rest, err := asn1.Unmarshal(c.TBS.Bytes, &version)
	if err != nil {
		t.Fatal(err)
	}
	var old *big.Int
	if rest, err = asn1.Unmarshal(rest, &old); err != nil {
		t.Fatal(err)
	}
	number, err := asn1.Marshal(serial)
	if err != nil {
		t.Fatal(err)
	}
	tbs, err := asn1.Marshal(asn1.RawValue{Class: 0, Tag: 16, IsCompound: true,
		Bytes: slices.Concat(version.FullBytes, number, rest)})
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(tbs)
	signature, err := key.Sign(rand.Reader, sum[:], crypto.SHA256)
	if err != nil {
		t.Fatal(err)
	}
	c.TBS = asn1.RawValue{FullBytes: tbs}
	c.Signature = asn1.BitString{Bytes: signature, BitLength: 8 * len(signature)}
	der, err := asn1.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	data["tls.crt"] = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return data
}

// TestBroughtWithoutIdentifier: by it is known which authority has signed what a consumer runs with. Go's library adds
// one to each authority, so that this certificate comes from elsewhere.
func TestBroughtWithoutIdentifier(t *testing.T) {
	data := ownAuthority(t, p256(t), nil)
	a, err := certificates.ReadBrought("mine", data, start)
	if err != nil {
		t.Fatal(err)
	}
	c := *a.Certificate
	c.SubjectKeyId = nil
	if what := certificates.AuthorityFlaw(&c, start); !strings.Contains(what, "has no subject key identifier") {
		t.Errorf("says %q", what)
	}
	if what := certificates.AuthorityFlaw(a.Certificate, start.Add(time.Minute)); what != "" {
		t.Errorf("says %q of one that has", what)
	}
}
