package certificates

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"slices"
	"strings"
)

// The entries of a Secret that holds a Leaf, as those of the type kubernetes.io/tls and of cert-manager.
const (
	// EntryCertificate is the certificate, followed by those between it and the authority.
	EntryCertificate = "tls.crt"
	// EntryKey is its private key.
	EntryKey = "tls.key"
	// EntryTrust are the authorities that the holder trusts.
	EntryTrust = "ca.crt"
)

// Bundle is a set of authorities that are trusted, each once, in the order of their fingerprints: bundles of the same
// authorities are the same, and so are the files that are made from them.
type Bundle []*x509.Certificate

// NewBundle is the set of these authorities; nil ones are left out.
func NewBundle(authorities ...*x509.Certificate) Bundle {
	b := slices.DeleteFunc(slices.Clone(authorities), func(c *x509.Certificate) bool { return c == nil })
	slices.SortFunc(b, func(x, y *x509.Certificate) int { return cmp.Compare(Fingerprint(x), Fingerprint(y)) })
	return slices.CompactFunc(b, (*x509.Certificate).Equal)
}

// Fingerprint is the SHA-256 of a certificate, in hexadecimal digits.
func Fingerprint(c *x509.Certificate) string {
	sum := sha256.Sum256(c.Raw)
	return hex.EncodeToString(sum[:])
}

// Has reports whether the authority is one of the set.
func (b Bundle) Has(c *x509.Certificate) bool { return slices.ContainsFunc(b, c.Equal) }

// Hash tells bundles apart, in 32 hexadecimal digits; "" for one that is empty.
func (b Bundle) Hash() string {
	if len(b) == 0 {
		return ""
	}
	h := sha256.New()
	for _, c := range b {
		h.Write([]byte(Fingerprint(c)))
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// PEM are the authorities one after the other, as a Secret keeps them.
func (b Bundle) PEM() []byte { return encode(b) }

// Pool is the set for crypto/tls.
func (b Bundle) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	for _, c := range b {
		pool.AddCert(c)
	}
	return pool
}

// ReadTrust reads the bundle from a Secret's ca.crt. One that is missing or empty is a *Problem: without a trust store
// controller and satellites trust the authorities that Java comes with, and no line says so (linstor-server 1.34,
// JclCryptoProvider.createTrustManagers; run with 1.34.0-rc.1). So is one with anything in it that is no authority.
func ReadTrust(secret string, data map[string][]byte) (Bundle, error) {
	certs, f := parseCertificates(data[EntryTrust])
	if f != nil {
		if f.what == absent {
			f.cure = "add the authorities that LINSTOR must trust: without them, it would trust all of Java's default " +
				"authorities"
		}
		return nil, f.in(secret, EntryTrust)
	}
	for _, c := range certs {
		if !c.IsCA || !c.BasicConstraintsValid {
			return nil, (&flaw{"contains a certificate that is not a CA certificate", "keep only certificates with the " +
				"basic constraint CA:TRUE"}).in(secret, EntryTrust)
		}
	}
	return NewBundle(certs...), nil
}

func encode(certs []*x509.Certificate) []byte {
	var b bytes.Buffer
	for _, c := range certs {
		_ = pem.Encode(&b, &pem.Block{Type: "CERTIFICATE", Bytes: c.Raw}) // a Buffer takes all
	}
	return b.Bytes()
}

const absent = "is missing or empty"

// parseCertificates reads one certificate or more in PEM, and nothing else: a key would be handed to everybody who may
// see certificates.
func parseCertificates(data []byte) ([]*x509.Certificate, *flaw) {
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, &flaw{absent, "add certificates in PEM format"}
	}
	var out []*x509.Certificate
	begun := bytes.Count(data, []byte("-----BEGIN "))
	for {
		var block *pem.Block
		if block, data = pem.Decode(data); block == nil {
			break
		}
		if strings.Contains(block.Type, "PRIVATE KEY") {
			return nil, &flaw{"contains a private key",
				"remove the key and generate a new one, because others may have read it"}
		}
		if block.Type != "CERTIFICATE" {
			return nil, &flaw{"contains something other than certificates", "keep only certificates in PEM format"}
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, &flaw{"contains a certificate that cannot be parsed", "replace that certificate"}
		}
		out = append(out, c)
	}
	switch {
	case begun == 0:
		return nil, &flaw{"is not a certificate in PEM format", "convert it, for example with openssl x509 -inform der"}
	case len(out) < begun: // what cannot be decoded is skipped
		return nil, &flaw{"is damaged", "replace it with the original certificates"}
	}
	return out, nil
}
