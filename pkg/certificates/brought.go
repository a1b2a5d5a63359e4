package certificates

import (
	"bytes"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"slices"
	"time"
)

// ReadBrought reads an authority and its key from the tls.crt and tls.key of a Secret that a human keeps, or a program
// such as cert-manager, and judges whether it can sign for LINSTOR at that time. What is wrong is a *Problem.
//
// It must have signed itself. Whoever has a certificate of an authority that LINSTOR trusts administers LINSTOR, so it
// must be no part of a PKI that has other uses; and OpenSSL, with which LINSTOR's client in Python looks at the
// controller's certificate, follows one that has not signed itself up to one that it does not know (Python sets
// X509_V_FLAG_PARTIAL_CHAIN from 3.13 on). It must be valid for LeastLeft more: what it signs ends with it.
func ReadBrought(secret string, data map[string][]byte, now time.Time) (*Authority, error) {
	pair, err := ReadLeaf(secret, data)
	if err != nil {
		return nil, err
	}
	f := authorityFlaw(pair.Certificate, now)
	if len(pair.Between) > 0 {
		f = &flaw{"contains several certificates", "keep only the CA certificate"}
	}
	if f != nil {
		return nil, f.in(secret, EntryCertificate)
	}
	return &Authority{Certificate: pair.Certificate, Key: pair.Key}, nil
}

// authorityFlaw is why a certificate cannot be that of an authority of LINSTOR's; nil if it can.
func authorityFlaw(c *x509.Certificate, now time.Time) *flaw {
	if !c.IsCA || !c.BasicConstraintsValid {
		return &flaw{"is not a CA certificate", "replace it with one that has the basic constraint CA:TRUE"}
	}
	if f := notSelfSigned(c); f != nil {
		return f
	}
	if c.KeyUsage != 0 && c.KeyUsage&x509.KeyUsageCertSign == 0 {
		return &flaw{"is not allowed to sign certificates", "recreate it with the key usage keyCertSign"}
	}
	if len(c.SubjectKeyId) == 0 {
		return &flaw{"has no subject key identifier, which is needed to distinguish authorities",
			"recreate it with one; openssl and cert-manager add it by default"}
	}
	for _, s := range usages {
		if !allows(c, s.usage) {
			return &flaw{"is not allowed to sign " + s.name + " certificates", "recreate it without extended key usages"}
		}
	}
	if f := unusual(c); f != nil {
		return f
	}
	return dates(c, now)
}

// unusual is what Go, Java or Kubernetes would refuse later, when all are to use it.
func unusual(c *x509.Certificate) *flaw {
	nameConstraints := asn1.ObjectIdentifier{2, 5, 29, 30}
	switch {
	case slices.ContainsFunc(c.Extensions, func(e pkix.Extension) bool { return e.Id.Equal(nameConstraints) }):
		return &flaw{"has name constraints",
			"recreate it without them: LINSTOR's certificates are for in-cluster names and 127.0.0.1"}
	case len(c.UnhandledCriticalExtensions) > 0:
		return &flaw{"has critical extensions that Go does not support", "recreate it without them"}
	case len(c.SerialNumber.Bytes()) > 20: // RFC 5280, 4.1.2.2
		return &flaw{"has a serial number longer than 20 bytes", "recreate it with a shorter one"}
	case len(c.Raw) > 8<<10:
		return &flaw{"is larger than 8 KiB, which is too large for TLS handshakes", "recreate it with fewer extensions"}
	}
	if k, ok := c.PublicKey.(*rsa.PublicKey); ok && k.N.BitLen() > 8192 { // crypto/tls refuses more
		return &flaw{"has an RSA key longer than 8192 bits", "recreate it with a shorter key"}
	}
	return nil
}

func notSelfSigned(c *x509.Certificate) *flaw {
	const cure = "replace it with a self-signed CA certificate that is used only for LINSTOR"
	if len(c.Subject.Names) == 0 {
		return &flaw{"has no subject, but Java looks up authorities by their subject", cure}
	}
	if !bytes.Equal(c.RawSubject, c.RawIssuer) {
		return &flaw{"was issued by another authority", cure}
	}
	err := c.CheckSignature(c.SignatureAlgorithm, c.RawTBSCertificate, c.Signature)
	if _, insecure := errors.AsType[x509.InsecureAlgorithmError](err); insecure {
		return &flaw{"is signed with an insecure algorithm", "replace it with one that is signed with SHA-256"}
	}
	if err != nil {
		return &flaw{"was not signed with its own key", cure}
	}
	return nil
}

func dates(c *x509.Certificate, now time.Time) *flaw {
	switch {
	case now.Before(c.NotBefore):
		return &flaw{"is not valid before " + c.NotBefore.UTC().Format(time.RFC3339),
			"wait until then, or check the clocks"}
	case now.After(c.NotAfter):
		return &flaw{"expired at " + c.NotAfter.UTC().Format(time.RFC3339), "renew it"}
	case c.NotAfter.Sub(now) < LeastLeft:
		return &flaw{"expires at " + c.NotAfter.UTC().Format(time.RFC3339) + ", in less than 30 days, together " +
			"with all certificates signed by it", "replace it with a new one"}
	}
	return nil
}

// LeastLeft is how long an authority must still live to be taken. All who use its certificates are to be restarted
// several times before it ends.
const LeastLeft = 30 * day

// SameKey reports whether two authorities have one key, or one identifier of it. By that it is known what an authority
// has signed, so that one with the key of another is taken for that one, whatever its name; and under another name
// nobody takes what the key has signed.
func SameKey(a, b *x509.Certificate) bool {
	return bytes.Equal(a.SubjectKeyId, b.SubjectKeyId) ||
		bytes.Equal(a.RawSubjectPublicKeyInfo, b.RawSubjectPublicKeyInfo)
}

// allows is so for a certificate without extended key usages: a real LINSTOR takes it on both sides.
func allows(c *x509.Certificate, usage x509.ExtKeyUsage) bool {
	if len(c.ExtKeyUsage) == 0 && len(c.UnknownExtKeyUsage) == 0 {
		return true
	}
	for _, u := range c.ExtKeyUsage {
		if u == usage || u == x509.ExtKeyUsageAny {
			return true
		}
	}
	return false
}
