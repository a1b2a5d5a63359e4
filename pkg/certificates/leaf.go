package certificates

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"net"
	"slices"
	"time"
)

// The lives of what the operator makes. A Leaf is renewed while a third of its life is left, so that a restart of
// those who use it can wait for a window, and an Authority while a fifth is left, which is many lives of a Leaf.
const (
	// LeafLifetime is that of a Leaf: 90 days, and renewed after 60.
	LeafLifetime = 90 * day
	// AuthorityLifetime is that of an Authority: five years, and renewed after four.
	AuthorityLifetime = 5 * 365 * day
	// Backdate is how long before it was made a certificate begins to be valid: clocks of nodes may be behind.
	Backdate = time.Hour

	day = 24 * time.Hour
)

// Use is on which sides of a connection a Leaf is good. Java refuses a certificate whose extended key usage lacks the
// side that it is on: LINSTOR's REST server a client that is good as a server only, its controller a satellite that is
// good as a client only (run with linstor-server 1.34.0-rc.1).
type Use int

// The sides of a connection. A controller connects to its satellites, so that it is the client there.
const (
	// Server accepts connections.
	Server Use = 1 << iota
	// Client opens them.
	Client
	// Both does either, as members of etcd do among each other.
	Both = Server | Client
)

var usages = []struct {
	use   Use
	usage x509.ExtKeyUsage
	name  string
}{{Server, x509.ExtKeyUsageServerAuth, "server"}, {Client, x509.ExtKeyUsageClientAuth, "client"}}

// check refuses what is no side at all, or none that there is: nothing would be asked of the other side's certificate.
func (u Use) check() error {
	if u == 0 || u&^Both != 0 {
		return fmt.Errorf("%d is not a valid use of a certificate", u)
	}
	return nil
}

func (u Use) extended() (out []x509.ExtKeyUsage) {
	for _, s := range usages {
		if u&s.use != 0 {
			out = append(out, s.usage)
		}
	}
	return out
}

// Profile is what a Leaf is to be.
type Profile struct {
	// Name is the certificate's common name, which is for people and logs: nothing checks it. At most 64 characters.
	Name string
	Uses Use
	// DNSNames and IPs are those by which clients know a server. LINSTOR's REST clients check them, its controller does
	// not where it connects to satellites.
	DNSNames []string
	IPs      []net.IP
}

// Leaf is a certificate with its key, by which one part of LINSTOR is known to another.
type Leaf struct {
	Certificate *x509.Certificate
	// Between are the certificates between this one and its authority, nearest first; none where the operator made it.
	Between []*x509.Certificate
	Key     Key
}

// RenewAt is when a Leaf of the operator's own is to be replaced: after two thirds of its life.
func (l *Leaf) RenewAt() time.Time { return renewAt(l.Certificate, 3) }

// Hash identifies a Leaf, in 32 hexadecimal digits. The first eight of them depend only on the key that signed it: of
// a process that still runs with an earlier Leaf nothing but the hash is known, and that must show whose it is, see
// Signed.
func (l *Leaf) Hash() string {
	return keyMark(l.Certificate.AuthorityKeyId) + Fingerprint(l.Certificate)[:24]
}

func keyMark(keyID []byte) string {
	sum := sha256.Sum256(keyID)
	return hex.EncodeToString(sum[:4])
}

// Is reports whether the Leaf is what the profile asks for, name, sides and names of a server, in whatever order.
func (l *Leaf) Is(p Profile) bool {
	c := l.Certificate
	return c.Subject.CommonName == p.Name && slices.Equal(c.ExtKeyUsage, p.Uses.extended()) && l.Key.Fits(c) &&
		sameSet(c.DNSNames, p.DNSNames) && sameSet(texts(c.IPAddresses), texts(p.IPs))
}

func texts(ips []net.IP) (out []string) {
	for _, ip := range ips {
		out = append(out, ip.String())
	}
	return out
}

func sameSet(a, b []string) bool {
	set := func(s []string) []string { return slices.Compact(slices.Sorted(slices.Values(s))) }
	return slices.Equal(set(a), set(b))
}

// SignedBy reports whether that authority has signed the certificate itself.
func (l *Leaf) SignedBy(authority *x509.Certificate) bool {
	return authority != nil && l.Certificate.CheckSignatureFrom(authority) == nil
}

// TLS is the Leaf for crypto/tls.
func (l *Leaf) TLS() tls.Certificate {
	c := tls.Certificate{Leaf: l.Certificate, PrivateKey: l.Key.Signer(), Certificate: [][]byte{l.Certificate.Raw}}
	for _, b := range l.Between {
		c.Certificate = append(c.Certificate, b.Raw)
	}
	return c
}

// Data are the entries of the Secret that holds the Leaf, and the bundle beside it.
func (l *Leaf) Data(trust Bundle) (map[string][]byte, error) {
	key, err := l.Key.PEM()
	if err != nil {
		return nil, fmt.Errorf("certificate %s: %w", l.Certificate.Subject.CommonName, err)
	}
	return map[string][]byte{
		EntryCertificate: encode(append([]*x509.Certificate{l.Certificate}, l.Between...)),
		EntryKey:         key,
		EntryTrust:       trust.PEM(),
	}, nil
}

// ReadLeaf reads certificate and key from a Secret's tls.crt and tls.key. What cannot be used is a *Problem: something
// is missing, damaged, or encrypted, the key is not the certificate's, or Java would not take it.
func ReadLeaf(secret string, data map[string][]byte) (*Leaf, error) {
	certs, f := parseCertificates(data[EntryCertificate])
	if f != nil {
		return nil, f.in(secret, EntryCertificate)
	}
	key, f := parseKey(data[EntryKey])
	if f != nil {
		return nil, f.in(secret, EntryKey)
	}
	if !key.Fits(certs[0]) {
		f = &flaw{"does not match the certificate in " + EntryCertificate,
			"replace it with the private key of that certificate"}
		if slices.ContainsFunc(certs, key.Fits) {
			return nil, (&flaw{"does not start with the certificate that matches the key", "put that certificate first, " +
				"followed by the CA certificates"}).in(secret, EntryCertificate)
		}
		return nil, f.in(secret, EntryKey)
	}
	return &Leaf{Certificate: certs[0], Between: certs[1:], Key: key}, nil
}

// renewAt is when the last of so many parts of a certificate's life begins.
func renewAt(c *x509.Certificate, parts int) time.Time {
	life := c.NotAfter.Sub(c.NotBefore) - Backdate
	return c.NotAfter.Add(-life / time.Duration(parts))
}

// valid reports whether a certificate is valid at that time. Both ends belong to it.
func valid(c *x509.Certificate, now time.Time) bool {
	return !now.Before(c.NotBefore) && !now.After(c.NotAfter)
}
