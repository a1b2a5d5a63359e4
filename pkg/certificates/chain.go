package certificates

import (
	"crypto/x509"
	"slices"
	"time"
)

// Material is what one part of LINSTOR is given: its certificate with the key, and whom it trusts.
type Material struct {
	Leaf  *Leaf
	Trust Bundle
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
