package certificates

import (
	"bytes"
	"crypto/x509"
	"errors"
	"time"
)

// ReadBrought reads an authority and its key from the tls.crt and tls.key of a Secret that a human keeps, or a program
// such as cert-manager, and judges whether it can sign for LINSTOR at that time. What is wrong is a *Problem.
//
// It must have signed itself. Whoever has a certificate of an authority that LINSTOR trusts administers LINSTOR, so
// that it must be no part of a PKI which has other uses; and OpenSSL, by which LINSTOR's client in Python looks at the
// controller's certificate, follows one that has not signed itself up to one that it does not know (Python sets
// X509_V_FLAG_PARTIAL_CHAIN from 3.13 on).
func ReadBrought(secret string, data map[string][]byte, now time.Time) (*Authority, error) {
	certs, f := parseCertificates(data[EntryCertificate])
	if f == nil && len(certs) > 1 {
		f = &flaw{"has several certificates", "leave that of the authority alone there"}
	}
	if f == nil {
		f = authorityFlaw(certs[0], now)
	}
	if f != nil {
		return nil, f.in(secret, EntryCertificate)
	}
	key, f := parseKey(data[EntryKey])
	if f == nil && !key.Fits(certs[0]) {
		f = &flaw{"is not the key of the certificate in " + EntryCertificate, "put the key there that it was made with"}
	}
	if f != nil {
		return nil, f.in(secret, EntryKey)
	}
	return &Authority{Certificate: certs[0], Key: key}, nil
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
	if constrained(c) {
		return &flaw{"has name constraints", "make it without: what it signs is for names in the cluster and 127.0.0.1"}
	}
	return dates(c, now)
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

func constrained(c *x509.Certificate) bool {
	return len(c.PermittedDNSDomains)+len(c.ExcludedDNSDomains)+len(c.PermittedIPRanges)+len(c.ExcludedIPRanges)+
		len(c.PermittedEmailAddresses)+len(c.ExcludedEmailAddresses)+len(c.PermittedURIDomains)+
		len(c.ExcludedURIDomains) > 0
}

func dates(c *x509.Certificate, now time.Time) *flaw {
	switch {
	case now.Before(c.NotBefore):
		return &flaw{"is not valid before " + c.NotBefore.UTC().Format(time.RFC3339),
			"wait, or see whether the clocks are right"}
	case now.After(c.NotAfter):
		return &flaw{"has expired at " + c.NotAfter.UTC().Format(time.RFC3339), "renew it"}
	}
	return nil
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
