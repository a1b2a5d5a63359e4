package certificates_test

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linstor-dev/storagecluster-operator/pkg/certificates"
)

var rest = certificates.Profile{Name: "linstor-controller", Uses: certificates.Server,
	DNSNames: []string{"linstor-controller.linstor-storage.svc", "localhost"}, IPs: []net.IP{net.IPv4(127, 0, 0, 1)}}

func TestAuthority(t *testing.T) {
	a := authority(t, "linstor-api", start)
	c := a.Certificate
	if err := c.CheckSignatureFrom(c); err != nil || !c.IsCA || !c.MaxPathLenZero || c.KeyUsage != x509.KeyUsageCertSign {
		t.Errorf("it is no authority that signs leaves: %v", err)
	}
	if got := []time.Time{c.NotBefore, a.RenewAt(), a.LastFullLeaf(), c.NotAfter}; !cmp.Equal(got, []time.Time{
		start.Add(-time.Hour), start.Add(4 * 365 * day), start.Add((5*365 - 90) * day), start.Add(5 * 365 * day)}) {
		t.Errorf("begin, renewal, last full leaf, end: %v", got)
	}
	if b := authority(t, "linstor-api", start); b.Certificate.Subject.CommonName == c.Subject.CommonName {
		t.Error("two authorities have one name: Java may take the one for the other")
	}
	for now, want := range map[time.Time]bool{start: true, start.Add(-2 * time.Hour): false, c.NotAfter: true,
		c.NotAfter.Add(time.Second): false} {
		if a.CanSign(now) != want {
			t.Errorf("can sign at %v: %v", now, !want)
		}
	}
	if l := signed(t, a, rest); (&certificates.Authority{Certificate: c, Key: l.Key}).CanSign(start) {
		t.Error("it signs with another's key")
	}
	if none := (*certificates.Authority)(nil); none.CanSign(start) {
		t.Error("none can sign")
	}
	if _, err := (&certificates.Authority{Certificate: c}).Sign(rest, start); err == nil {
		t.Error("it has signed without a key")
	}
}

func TestLeaf(t *testing.T) {
	a, other := authority(t, "linstor-api", start), authority(t, "linstor-api", start)
	l := signed(t, a, rest)
	c := l.Certificate
	if got := []time.Time{c.NotBefore, l.RenewAt(), c.NotAfter}; !cmp.Equal(got, []time.Time{start.Add(-time.Hour),
		start.Add(60 * day), start.Add(90 * day)}) {
		t.Errorf("begin, renewal, end: %v", got)
	}
	if !l.SignedBy(a.Certificate) || l.SignedBy(other.Certificate) || l.SignedBy(nil) || !l.Is(rest) {
		t.Error("it is not what was asked for, or another authority's")
	}
	reversed := rest
	reversed.DNSNames = []string{rest.DNSNames[1], rest.DNSNames[0], rest.DNSNames[1]}
	if !l.Is(reversed) {
		t.Error("it is another one if its names come in another order")
	}
	for name, change := range map[string]func(*certificates.Profile){
		"name":  func(p *certificates.Profile) { p.Name = "x" },
		"use":   func(p *certificates.Profile) { p.Uses = certificates.Both },
		"DNS":   func(p *certificates.Profile) { p.DNSNames = p.DNSNames[:1] },
		"IP":    func(p *certificates.Profile) { p.IPs = nil },
		"other": func(p *certificates.Profile) { p.IPs = []net.IP{net.IPv4(127, 0, 0, 2)} },
		"more":  func(p *certificates.Profile) { p.DNSNames = append(slices.Clone(p.DNSNames), "more") },
	} {
		p := rest
		if change(&p); l.Is(p) {
			t.Errorf("it is the same with another %s", name)
		}
	}
}

func TestEachLeafIsNew(t *testing.T) {
	a := authority(t, "linstor-api", start)
	l := signed(t, a, rest)
	c := l.Certificate
	again := signed(t, a, rest)
	if again.Certificate.SerialNumber.Cmp(c.SerialNumber) == 0 || again.Key.Fits(c) || again.Hash() == l.Hash() {
		t.Error("two certificates have one serial number, key or hash")
	}
	if n := c.SerialNumber.BitLen(); n < 100 || c.SerialNumber.Sign() <= 0 || n > 159 {
		t.Errorf("the serial number has %d bits", n)
	}
}

// TestSigned: of a process only the hash of its certificate is known.
func TestSigned(t *testing.T) {
	a, other := authority(t, "linstor-api", start), authority(t, "linstor-api", start)
	hash := signed(t, a, rest).Hash()
	var none *certificates.Authority
	if len(hash) != 32 || !a.Signed(hash) || other.Signed(hash) || a.Signed("") || none.Signed(hash) {
		t.Errorf("%s is taken for a certificate of another authority", hash)
	}
}

// TestAnotherKindOfKey: an authority that somebody put into the Secret signs with the key that it has.
func TestAnotherKindOfKey(t *testing.T) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	c, text := issue(t, &x509.Certificate{Subject: pkix.Name{CommonName: "linstor-api"}, IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}, nil, key, nil)
	s, err := certificates.ReadSuccession("cas", map[string][]byte{"ca.crt": text, "ca.key": pkcs8(t, key)})
	if err != nil {
		t.Fatal(err)
	}
	l := signed(t, s.Current, rest)
	if err := certificates.NewBundle(c).Verify(l, certificates.Server, start); err != nil || !s.Current.Signed(l.Hash()) {
		t.Error(err)
	}
}

func TestUses(t *testing.T) {
	a := authority(t, "linstor-api", start)
	for profile, want := range map[certificates.Use][]x509.ExtKeyUsage{
		certificates.Server: {x509.ExtKeyUsageServerAuth}, certificates.Client: {x509.ExtKeyUsageClientAuth},
		certificates.Both: {x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}} {
		p := certificates.Profile{Name: "x", Uses: profile}
		if l := signed(t, a, p); !cmp.Equal(l.Certificate.ExtKeyUsage, want) || !l.Is(p) {
			t.Errorf("use %d: %v", profile, l.Certificate.ExtKeyUsage)
		}
	}
}

// TestLeafEndsWithItsAuthority: Java does not look at an authority's dates.
func TestLeafEndsWithItsAuthority(t *testing.T) {
	a := authority(t, "linstor-api", start)
	end := a.Certificate.NotAfter
	l := signedAt(t, a, rest, end.Add(-30*day))
	if !l.Certificate.NotAfter.Equal(end) || !l.RenewAt().Equal(end.Add(-10*day)) {
		t.Errorf("it ends at %v, and is renewed at %v", l.Certificate.NotAfter, l.RenewAt())
	}
	if _, err := a.Sign(rest, end.Add(time.Second)); err == nil {
		t.Error("an expired authority has signed")
	}
}

func TestLeafInASecret(t *testing.T) {
	a := authority(t, "linstor-api", start)
	l, trust := signed(t, a, rest), certificates.NewBundle(a.Certificate)
	data, err := l.Data(trust)
	if err != nil {
		t.Fatal(err)
	}
	back, err := certificates.ReadLeaf("s", data)
	if err != nil {
		t.Fatal(err)
	}
	backTrust, err := certificates.ReadTrust("s", data)
	if err != nil {
		t.Fatal(err)
	}
	if back.Hash() != l.Hash() || !back.Is(rest) || backTrust.Hash() != trust.Hash() {
		t.Error("something else was read than was written")
	}
	if again, _ := back.Data(backTrust); !cmp.Equal(again, data) {
		t.Error("it is written in another way when it was read")
	}
	if _, err := (&certificates.Leaf{Certificate: l.Certificate}).Data(trust); err == nil {
		t.Error("it was written without a key")
	}
}

func TestBundle(t *testing.T) {
	a, b := authority(t, "a", start).Certificate, authority(t, "b", start).Certificate
	if one, two := certificates.NewBundle(a, b, nil), certificates.NewBundle(b, a, b); one.Hash() != two.Hash() ||
		string(one.PEM()) != string(two.PEM()) || len(two) != 2 {
		t.Error("the same authorities are another bundle in another order")
	}
	if one := certificates.NewBundle(a); one.Hash() == certificates.NewBundle(a, b).Hash() || one.Has(b) || !one.Has(a) {
		t.Error("two bundles are the same")
	}
	if none := certificates.NewBundle(); none.Hash() != "" || none.Has(a) {
		t.Error("an empty bundle has something")
	}
}
