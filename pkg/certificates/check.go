package certificates

import (
	"crypto/rsa"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// maxBrought is how many authorities a bundle may have that somebody brought. A certificate of any of them opens the
// door, so that the list of a browser or of a distribution, which has more than a hundred, is a mistake.
const maxBrought = 16

// Material is what one part of LINSTOR is given: its certificate with the key, and whom it trusts.
type Material struct {
	Leaf  *Leaf
	Trust Bundle
}

// Need is what a certificate that somebody brought, or that cert-manager made, is to be good for.
type Need struct {
	Uses Use
	// Names are those by which clients know the server, as DNS names or IP addresses; nil where nothing checks names.
	Names []string
}

// Check reads what a Secret of people or of cert-manager has, and judges it as its users would: the key is that of the
// certificate, an authority of ca.crt has signed it through those in tls.crt, all are valid at that time and good for
// the need, and LINSTOR's Java takes their keys and signatures. The error joins a *Problem for each thing that is
// wrong; the Material is nil then.
func Check(secret string, data map[string][]byte, need Need, now time.Time) (*Material, error) {
	if err := need.Uses.check(); err != nil {
		return nil, err
	}
	leaf, leafErr := ReadLeaf(secret, data)
	trust, trustErr := ReadTrust(secret, data)
	errs := []error{leafErr, trustErr}
	if trustErr == nil && len(trust) > maxBrought {
		errs = append(errs, (&flaw{fmt.Sprintf("has %d authorities", len(trust)), fmt.Sprintf("leave those there that sign "+
			"for LINSTOR alone, %d at most: LINSTOR lets in whoever has a certificate of any of them", maxBrought)}).
			in(secret, EntryTrust))
	}
	for _, c := range trust {
		// Java does not look at the dates of an authority that it trusts, so that what it signed opens the door for ever.
		if f := dates(c, now); f != nil {
			errs = append(errs, (&flaw{fmt.Sprintf("has an authority (serial number %x) that %s", c.SerialNumber, f.what),
				"remove it from there: LINSTOR does not look at the dates of authorities"}).in(secret, EntryTrust))
		}
	}
	if leafErr == nil {
		for _, f := range leafFlaws(leaf, need, now) {
			errs = append(errs, f.in(secret, EntryCertificate))
		}
	}
	err := errors.Join(errs...)
	if err == nil {
		err = verify(secret, leaf, trust, need.Uses, now)
	}
	if err != nil {
		return nil, err
	}
	return &Material{Leaf: leaf, Trust: trust}, nil
}

// leafFlaws are those that can be seen without the authorities.
func leafFlaws(l *Leaf, need Need, now time.Time) (out []*flaw) {
	c := l.Certificate
	if c.IsCA {
		out = append(out, &flaw{"begins with the certificate of an authority",
			"put one there that an authority has signed: pods would hold the authority's key"})
	}
	if f := dates(c, now); f != nil {
		out = append(out, f)
	}
	if k, ok := c.PublicKey.(*rsa.PublicKey); ok && k.N.BitLen() < minRSABits {
		out = append(out, &flaw{"has a key that is shorter than 2048 bits", "make a longer one"})
	}
	if c.KeyUsage != 0 && c.KeyUsage&x509.KeyUsageDigitalSignature == 0 {
		out = append(out, &flaw{"is not good for signatures, which TLS needs",
			"have it signed with the key usage digitalSignature"})
	}
	for _, s := range usages {
		if need.Uses&s.use != 0 && !allows(c, s.usage) {
			out = append(out, &flaw{"is not good as a " + s.name,
				"have it signed with the extended key usage " + s.name + "Auth"})
		}
	}
	var missing []string
	for _, n := range need.Names {
		if c.VerifyHostname(n) != nil {
			missing = append(missing, n)
		}
	}
	if len(missing) > 0 {
		out = append(out, &flaw{"is not for " + strings.Join(missing, ", "),
			"have it signed with these as subject alternative names"})
	}
	return out
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

// verify builds the chain as the other side would, for each use.
func verify(secret string, l *Leaf, trust Bundle, uses Use, now time.Time) error {
	err := trust.Verify(l, uses, now)
	if err == nil {
		return nil
	}
	if _, insecure := errors.AsType[x509.InsecureAlgorithmError](err); insecure {
		return (&flaw{"has signed with an algorithm that is not secure", "have the certificate signed with SHA-256"}).
			in(secret, EntryTrust)
	}
	chain := l.Chain(trust)
	for _, c := range chain[1:] {
		if d := dates(c, now); d != nil {
			return (&flaw{fmt.Sprintf("has an authority between (serial number %x) that %s", c.SerialNumber, d.what), d.cure}).
				in(secret, EntryCertificate)
		}
	}
	if !trust.Has(chain[len(chain)-1]) {
		return (&flaw{"has not signed the certificate in " + EntryCertificate,
			"put the authority there that has, and those between both after the certificate"}).in(secret, EntryTrust)
	}
	return (&flaw{"is signed by authorities that may not sign it: their names, path length or extended key usages " +
		"exclude it", "have another authority sign it"}).in(secret, EntryCertificate)
}

// Chain follows the signatures from the Leaf as far as they lead, through those between, up to the first authority of
// the bundle. The Leaf comes first.
func (l *Leaf) Chain(trust Bundle) []*x509.Certificate {
	chain := []*x509.Certificate{l.Certificate}
	for {
		last := chain[len(chain)-1]
		signed := func(c *x509.Certificate) bool {
			return !slices.ContainsFunc(chain, c.Equal) && last.CheckSignatureFrom(c) == nil
		}
		if i := slices.IndexFunc(trust, signed); i >= 0 {
			return append(chain, trust[i])
		}
		i := slices.IndexFunc(l.Between, signed)
		if i < 0 {
			return chain
		}
		chain = append(chain, l.Between[i])
	}
}

// Verify builds the chain from a Leaf to an authority of the bundle, for each of its uses at that time, as whoever
// trusts the bundle would. An empty bundle vouches for nothing, and no use is an error.
func (b Bundle) Verify(l *Leaf, uses Use, now time.Time) error {
	if err := uses.check(); err != nil {
		return err
	}
	between := x509.NewCertPool()
	for _, c := range l.Between {
		between.AddCert(c)
	}
	for _, usage := range uses.extended() {
		_, err := l.Certificate.Verify(x509.VerifyOptions{Roots: b.Pool(), Intermediates: between, CurrentTime: now,
			KeyUsages: []x509.ExtKeyUsage{usage}})
		if err != nil {
			return err
		}
	}
	return nil
}
