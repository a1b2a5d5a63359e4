package certificates

import (
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Authority is a certificate that signs others, and its key; without a key it is trusted, and signs nothing any more.
type Authority struct {
	Certificate *x509.Certificate
	Key         Key
}

// NewAuthority makes an authority that has signed itself. Its name says what it is for, such as "linstor-internal",
// and has some digits of chance in it: Java looks for an authority by its name, and those that follow each other must
// not be mistaken.
func NewAuthority(name string, now time.Time) (*Authority, error) {
	key, err := NewKey()
	if err != nil {
		return nil, err
	}
	chance := make([]byte, 4)
	if _, err := rand.Read(chance); err != nil {
		return nil, fmt.Errorf("generate a name for authority %s: %w", name, err)
	}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: fmt.Sprintf("%s %s", name, hex.EncodeToString(chance))},
		KeyUsage:              x509.KeyUsageCertSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true, // there is nothing between it and a Leaf
	}
	c, err := sign(template, template, key, key, now, now.Add(AuthorityLifetime))
	if err != nil {
		return nil, fmt.Errorf("create authority %s: %w", name, err)
	}
	return &Authority{Certificate: c, Key: key}, nil
}

// Sign makes a Leaf, with a key of its own, that lives for LeafLifetime, or as long as the authority if that is less:
// Java does not look at the dates of an authority that it trusts. An authority that cannot sign is an error, and so is
// a profile that is good for no side of a connection: Java takes a certificate without extended key usages for all.
func (a *Authority) Sign(p Profile, now time.Time) (*Leaf, error) {
	if err := p.Uses.check(); err != nil {
		return nil, fmt.Errorf("sign the certificate of %s: %w", p.Name, err)
	}
	if !a.CanSign(now) {
		return nil, fmt.Errorf("sign the certificate of %s: %w", p.Name, errCannotSign)
	}
	key, err := NewKey()
	if err != nil {
		return nil, err
	}
	end := now.Add(LeafLifetime)
	if end.After(a.Certificate.NotAfter) {
		end = a.Certificate.NotAfter
	}
	c, err := sign(&x509.Certificate{
		Subject:               pkix.Name{CommonName: p.Name},
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           p.Uses.extended(),
		BasicConstraintsValid: true,
		DNSNames:              p.DNSNames,
		IPAddresses:           p.IPs,
	}, a.Certificate, key, a.Key, now, end)
	if err != nil {
		return nil, fmt.Errorf("sign the certificate of %s: %w", p.Name, err)
	}
	return &Leaf{Certificate: c, Key: key}, nil
}

var errCannotSign = errors.New("the authority has no matching key or is not currently valid")

// CanSign reports whether the authority has its key and is valid at that time.
func (a *Authority) CanSign(now time.Time) bool {
	return a != nil && a.Key.Fits(a.Certificate) && valid(a.Certificate, now)
}

// RenewAt is when the next authority is to be made: after four fifths of this one's life.
func (a *Authority) RenewAt() time.Time { return renewAt(a.Certificate, 5) }

// Signed reports whether the authority's key has signed the Leaf of that Hash.
func (a *Authority) Signed(hash string) bool {
	return a != nil && Signed(a.Certificate, hash)
}

// Signed reports whether the key of that authority has signed the Leaf of that Hash.
func Signed(authority *x509.Certificate, hash string) bool {
	return strings.HasPrefix(hash, keyMark(authority.SubjectKeyId))
}

// LastFullLeaf is until when a Leaf that it signs lives for all of LeafLifetime.
func (a *Authority) LastFullLeaf() time.Time { return a.Certificate.NotAfter.Add(-LeafLifetime) }

// sign makes a certificate for a key. crypto/x509 chooses the serial number, 159 random bits, and the algorithm that
// suits the signer's key, always with SHA-256 or more: an authority that was put into the Secret by hand may have
// another kind of key than those that are made here.
func sign(template, parent *x509.Certificate, key, signer Key, now, end time.Time) (*x509.Certificate, error) {
	template.NotBefore, template.NotAfter = now.Add(-Backdate).UTC(), end.UTC()
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Signer().Public(), signer.Signer())
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}
