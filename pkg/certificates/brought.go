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
		f = &flaw{"has several certificates", "keep only the authority's there"}
	}
	if f != nil {
		return nil, f.in(secret, EntryCertificate)
	}
	return &Authority{Certificate: pair.Certificate, Key: pair.Key}, nil
}

// authorityFlaw is why a certificate cannot be that of an authority of LINSTOR's; nil if it can.
func authorityFlaw(c *x509.Certificate, now time.Time) *flaw {
	if !c.IsCA || !c.BasicConstraintsValid {
		return &flaw{"is the certificate of no authority", "put one there that has the basic constraint CA"}
	}
	if f := notSelfSigned(c); f != nil {
		return f
	}
	if c.KeyUsage != 0 && c.KeyUsage&x509.KeyUsageCertSign == 0 {
		return &flaw{"may not sign certificates", "make it with the key usage keyCertSign"}
	}
	if len(c.SubjectKeyId) == 0 {
		return &flaw{"has no subject key identifier, by which authorities are told apart",
			"make it with one, as openssl and cert-manager do by themselves"}
	}
	for _, s := range usages {
		if !allows(c, s.usage) {
			return &flaw{"may not sign for a " + s.name, "make it without extended key usages"}
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
		return &flaw{"has name constraints", "make it without: what it signs is for names in the cluster and 127.0.0.1"}
	case len(c.UnhandledCriticalExtensions) > 0:
		return &flaw{"has critical extensions that programs in Go do not know", "make it without them"}
	case len(c.SerialNumber.Bytes()) > 20: // RFC 5280, 4.1.2.2
		return &flaw{"has a serial number of more than 20 bytes", "make it with a shorter one"}
	case len(c.Raw) > 8<<10:
		return &flaw{"is larger than 8 KiB, which handshakes have no room for", "make it with fewer extensions"}
	}
	if k, ok := c.PublicKey.(*rsa.PublicKey); ok && k.N.BitLen() > 8192 { // crypto/tls refuses more
		return &flaw{"has an RSA key of more than 8192 bits", "make it with a shorter one"}
	}
	return nil
}

func notSelfSigned(c *x509.Certificate) *flaw {
	const cure = "put an authority there that has signed itself and signs for LINSTOR alone"
	if len(c.Subject.Names) == 0 {
		return &flaw{"has no subject, by which Java looks for it", cure}
	}
	if !bytes.Equal(c.RawSubject, c.RawIssuer) {
		return &flaw{"was signed by another authority", cure}
	}
	err := c.CheckSignature(c.SignatureAlgorithm, c.RawTBSCertificate, c.Signature)
	if _, insecure := errors.AsType[x509.InsecureAlgorithmError](err); insecure {
		return &flaw{"is signed with an algorithm that is not secure", "make one that is signed with SHA-256"}
	}
	if err != nil {
		return &flaw{"was signed by another key than its own", cure}
	}
	return nil
}

func dates(c *x509.Certificate, now time.Time) *flaw {
	switch {
	case now.Before(c.NotBefore):
		return &flaw{"is not valid before " + c.NotBefore.UTC().Format(time.RFC3339),
			"wait, or see whether the clocks are right"}
	case now.After(c.NotAfter):
		return &flaw{"expired at " + c.NotAfter.UTC().Format(time.RFC3339), "renew it"}
	case c.NotAfter.Sub(now) < LeastLeft:
		return &flaw{"expires at " + c.NotAfter.UTC().Format(time.RFC3339) + ", in less than 30 days, and all " +
			"certificates with it", "put the next one there"}
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
