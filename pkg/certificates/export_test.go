package certificates

import (
	"crypto/x509"
	"time"
)

// AuthorityFlaw is what is wrong with the certificate of an authority that is brought; "" if nothing.
func AuthorityFlaw(c *x509.Certificate, now time.Time) string {
	if f := authorityFlaw(c, now); f != nil {
		return f.what
	}
	return ""
}
