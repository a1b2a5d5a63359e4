package certificates

import (
	"crypto/x509"
	"errors"
	"slices"
	"time"
)

// The entries of the Secret that holds a Succession.
const (
	// EntryAuthority and EntryAuthorityKey are the authority that signs.
	EntryAuthority    = "ca.crt"
	EntryAuthorityKey = "ca.key"
	// EntryNext and EntryNextKey are the one that will.
	EntryNext    = "next.crt"
	EntryNextKey = "next.key"
	// EntryOld are those that have signed. Their keys are gone.
	EntryOld = "old.crt"
)

// AuthorityEntries are all of them.
func AuthorityEntries() []string {
	return []string{EntryAuthority, EntryAuthorityKey, EntryNext, EntryNextKey, EntryOld}
}

// Succession is the authorities of one kind of connection, as they follow each other: all of them are trusted, one
// signs. It is a value; what changes it returns another one. The zero Succession is none.
type Succession struct {
	// Current signs; nil if there is none, as when its Secret was lost.
	Current *Authority
	// Next is trusted already and signs nothing yet; nil if there is none.
	Next *Authority
	// Old are trusted as long as somebody may use what they have signed.
	Old []*x509.Certificate
}

// Trust is the bundle that everybody is to trust.
func (s Succession) Trust() Bundle {
	all := slices.Clone(s.Old)
	for _, a := range []*Authority{s.Current, s.Next} {
		if a != nil {
			all = append(all, a.Certificate)
		}
	}
	return NewBundle(all...)
}

// Announce is the succession with another next authority. The one that was next before is trusted further, as an old
// one: if Adopt made it the next one, it has signed certificates that are in use.
func (s Succession) Announce(next *Authority) Succession {
	if s.Next != nil {
		s.Old = append(slices.Clone(s.Old), s.Next.Certificate)
	}
	s.Next = next
	return s
}

// Adopt is the succession with further old authorities, which were found in use. The one that signs becomes the next
// one, if there is none: who uses what others have signed need not trust it yet.
func (s Succession) Adopt(used Bundle) Succession {
	s.Old = append(slices.Clone(s.Old), used...)
	switch {
	case s.Current == nil:
	case s.Next == nil:
		s.Next = s.Current
	default:
		s.Old = append(s.Old, s.Current.Certificate)
	}
	s.Current = nil
	return s
}

// Withdraw is the succession without a next authority, which has signed nothing.
func (s Succession) Withdraw() Succession {
	s.Next = nil
	return s
}

// Promote is the succession in which the next authority signs. The one that did is trusted further, and its key is
// gone.
func (s Succession) Promote() Succession {
	s.Old = slices.Clone(s.Old)
	if s.Current != nil {
		s.Old = append(s.Old, s.Current.Certificate)
	}
	s.Current, s.Next = s.Next, nil
	return s
}

// Forget is the succession without its old authorities.
func (s Succession) Forget() Succession {
	s.Old = nil
	return s
}

// ForgetExpired is the succession without those old authorities that have expired at that time.
func (s Succession) ForgetExpired(now time.Time) Succession {
	s.Old = slices.DeleteFunc(slices.Clone(s.Old), func(c *x509.Certificate) bool { return now.After(c.NotAfter) })
	return s
}

// Data are the entries of the Secret that holds the succession. Nothing may mount it.
func (s Succession) Data() (map[string][]byte, error) {
	data := map[string][]byte{}
	for _, e := range []struct {
		authority *Authority
		cert, key string
	}{{s.Current, EntryAuthority, EntryAuthorityKey}, {s.Next, EntryNext, EntryNextKey}} {
		if e.authority == nil {
			continue
		}
		data[e.cert] = encode([]*x509.Certificate{e.authority.Certificate})
		if e.authority.Key.Signer() == nil {
			continue // it was lost
		}
		key, err := e.authority.Key.PEM()
		if err != nil {
			return nil, err
		}
		data[e.key] = key
	}
	if len(s.Old) > 0 {
		data[EntryOld] = NewBundle(s.Old...).PEM()
	}
	return data, nil
}

// ReadSuccession reads a succession from its Secret, as far as it can be read. The error joins a *Problem for each
// entry that cannot, or that is there without its other half; an authority without a key that fits is one that cannot
// sign.
func ReadSuccession(secret string, data map[string][]byte) (Succession, error) {
	var s Succession
	var errs []error
	s.Current, errs = readAuthority(secret, data, EntryAuthority, EntryAuthorityKey, errs)
	s.Next, errs = readAuthority(secret, data, EntryNext, EntryNextKey, errs)
	if old := data[EntryOld]; len(old) > 0 {
		certs, f := parseCertificates(old)
		if f != nil {
			errs = append(errs, f.in(secret, EntryOld))
		}
		s.Old = NewBundle(certs...)
	}
	return s, errors.Join(errs...)
}

func readAuthority(secret string, data map[string][]byte, cert, key string, errs []error) (*Authority, []error) {
	if len(data[cert]) == 0 && len(data[key]) == 0 {
		return nil, errs
	}
	certs, f := parseCertificates(data[cert])
	if f == nil && !certs[0].IsCA {
		f = &flaw{what: "is not a CA certificate"}
	}
	if f != nil {
		f.cure = lost
		return nil, append(errs, f.in(secret, cert))
	}
	a := &Authority{Certificate: certs[0]}
	k, f := parseKey(data[key])
	if f == nil && !k.Fits(certs[0]) {
		f = &flaw{what: "does not match the certificate in " + cert}
	}
	if f != nil {
		f.cure = lost
		return a, append(errs, f.in(secret, key))
	}
	a.Key = k
	return a, errs
}

const lost = "restore the Secret from a backup; otherwise, the operator creates a new authority"
