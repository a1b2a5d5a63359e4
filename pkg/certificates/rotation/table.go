package rotation

import (
	"crypto/x509"
	"slices"
	"time"

	"github.com/linstor-dev/storagecluster-operator/pkg/certificates"
	"github.com/linstor-dev/storagecluster-operator/pkg/decisiontable"
)

// situation is what a decision rests on, and what was decided.
type situation struct {
	Facts
	trust certificates.Bundle
	// behind are the consumers that are not known to run with what is published.
	behind []string

	step Step
	leaf string
}

// Rows that others tell apart.
const (
	// RowClocks is the row that decides while the clocks differ, or only one is known.
	RowClocks = "clocks"
	// RowNotBrought is the one that decides while nobody has brought the first authority.
	RowNotBrought = "not-brought"
)

type row = decisiontable.Row[*situation]

// table decides about one kind of connection. The first row that holds decides.
var table = decisiontable.Table[*situation]{
	Title: "The next step",
	Intro: "One table for each kind of connection: REST, controller and satellites, managed etcd. A consumer is a " +
		"process that uses certificates. One of which it is not known what it runs with is never taken as one that runs " +
		"with what is published.",
	Rows: []row{
		{Name: RowClocks, When: "the operator's clock and another machine's differ by more than half an hour, or no other " +
			"one was seen",
			Then: "it waits: by a clock that is ahead an authority seems to have expired, its key would be removed, and what " +
				"follows it would not be valid for years",
			Holds: (*situation).clocksDiffer, Decide: does(Wait)},
		{Name: "in-use", When: "authorities by the operator's names are published that are not known, as after their " +
			"Secret was lost or put back from a backup, and they have signed a certificate that is published or that a " +
			"consumer runs with, or of a consumer it is not known what it runs with",
			Then: "they are trusted further as old ones; one that signs becomes the next one, since consumers need not " +
				"trust it yet",
			Holds: func(s *situation) bool { return len(unknown(s.Facts)) > 0 }, Decide: does(Adopt)},
		{Name: RowNotBrought, When: "authorities are brought, there is none that could sign, and none was there before",
			Then: "it waits for one",
			Holds: func(s *situation) bool {
				return s.Brings && s.Brought == nil && !s.nextSigns() && !hasKey(s.Succession.Current)
			}, Decide: does(Wait)},
		{Name: "first", When: "there is no authority",
			Then:  "the first one is made, or the one that is brought is taken, and signs at once",
			Holds: func(s *situation) bool { return len(s.trust) == 0 }, Decide: does(MakeFirst)},
		{Name: "brought", When: "an authority is brought that neither signs nor is the next one",
			Then: "it becomes the next one: phase 1, in which all come to trust it",
			Holds: func(s *situation) bool {
				return s.Brought != nil && !is(s.Succession.Current, s.Brought) && !is(s.Succession.Next, s.Brought)
			}, Decide: does(MakeNext)},
		{Name: "withdrawn", When: "the one that signs can, and the next one has expired, or the one that signs is brought " +
			"again, or the next one was brought and none is any more",
			Then:  "there is no next one any more: it has signed nothing",
			Holds: (*situation).withdrawn, Decide: does(Withdraw)},
		{Name: "not-brought-any-more", When: "authorities are not brought any more, and the one that signs was",
			Then: "one of the operator's own is made, as the next one",
			Holds: func(s *situation) bool {
				c := s.Succession.Current
				return !s.Brings && c != nil && !s.made(c.Certificate) && !s.nextSigns()
			}, Decide: does(MakeNext)},
		{Name: "lost", When: "there is no authority that signs, or its key is missing or is not its own, or it is not " +
			"valid yet, as one that was made by a clock that was ahead; there is no next one that could sign, and none is " +
			"brought",
			Then: "the next one is made",
			Holds: func(s *situation) bool {
				c := s.Succession.Current
				return s.makes() && (!hasKey(c) || s.early(c.Certificate))
			}, Decide: does(MakeNext)},
		{Name: "ending", When: "the authority has expired or lives for less than the 90 days of a certificate, there is " +
			"no next one that could sign, and none is brought",
			Then:  "the next one is made",
			Holds: func(s *situation) bool { return s.makes() && s.ending() }, Decide: does(MakeNext)},
		{Name: "out-of-time", When: "there is a next authority, and this one has expired, or lives for less than 30 days " +
			"and the next one has been there for a day; where authorities are brought, or lives for less than a day",
			Then: "the next one signs from now on, whatever consumers run with: those that were not restarted since it was " +
				"made have certificates that end soon, and in the end all would have",
			Holds: (*situation).outOfTime, Decide: does(Promote)},
		{Name: "cannot-renew", When: "the authority cannot sign, there is a next one, and a certificate has expired or is " +
			"not valid yet",
			Then:   "the next one signs from now on, whatever consumers run with: connections fail already",
			Holds:  func(s *situation) bool { return !s.signs() && s.nextSigns() && s.leafInvalid() },
			Decide: does(Promote)},
		{Name: "old-expired", When: "an old authority has expired",
			Then:  "it is no longer trusted, whatever consumers run with: Java would go on trusting it",
			Holds: oldExpired, Decide: does(ForgetExpired)},
		{Name: "publish", When: "beside a certificate is another bundle than the authorities that are to be trusted",
			Then:  "the bundle is published, before anything is signed",
			Holds: func(s *situation) bool { return len(publish(s.Facts)) > 0 }, Decide: does(Publish)},
		leafRow("missing", "there is none, or none that can be read",
			func(_ *situation, h Held) bool { return h.Leaf == nil }),
		leafRow("expired", "it has expired",
			func(s *situation, h Held) bool { return s.Now.After(h.Leaf.Certificate.NotAfter) }),
		leafRow("early", "it is not valid yet, as one that was made by a clock that was ahead",
			func(s *situation, h Held) bool { return s.early(h.Leaf.Certificate) }),
		leafRow("another", "it is for another name or another side of the connection, or its key is not its own",
			func(_ *situation, h Held) bool { return !h.Leaf.Is(h.Profile) }),
		leafRow("old-authority", "another authority has signed it than the one that signs now",
			func(s *situation, h Held) bool { return !h.Leaf.SignedBy(s.Succession.Current.Certificate) }),
		leafRow("due", "two thirds of its life are over, 60 days, and it ends before the authority does",
			func(s *situation, h Held) bool {
				// One that ends with the authority would be made anew over and over, for half as long each time.
				return !s.Now.Before(h.Leaf.RenewAt()) &&
					h.Leaf.Certificate.NotAfter.Before(s.Succession.Current.Certificate.NotAfter)
			}),
		{Name: "authority-due", When: "four fifths of the authority's life are over, four years, there is no next one " +
			"that could sign, and none is brought",
			Then:  "the next one is made: phase 1, in which all come to trust it",
			Holds: func(s *situation) bool { return s.makes() && s.due() }, Decide: does(MakeNext)},
		{Name: "trusted", When: "there is a next authority, which all consumers trust, whatever certificate each has",
			Then:  "it signs from now on: phase 2, in which all get certificates of it",
			Holds: func(s *situation) bool { return s.nextSigns() && s.all(s.trusts) }, Decide: does(Promote)},
		{Name: "unused", When: "there is an old authority, and all consumers are known to have certificates of the one " +
			"that signs, the latest ones or not",
			Then: "old ones are no longer trusted: phase 3",
			Holds: func(s *situation) bool {
				return len(s.Succession.Old) > 0 && s.signs() && s.all(s.hasCurrent)
			}, Decide: does(Forget)},
		{Name: "unknown", When: "of a consumer it is not known what it runs with",
			Then: "it waits", Holds: someUnknown, Decide: does(Wait)},
		{Name: "restart", When: "a consumer runs with another certificate or bundle than the one that is published",
			Then:   "it waits: the consumer is restarted in its turn",
			Holds:  func(s *situation) bool { return len(s.behind) > 0 },
			Decide: does(Wait)},
		{Name: "rest", When: "else", Then: "nothing is done", Decide: does(Rest)},
	},
}

// Markdown is the page about the rotation of certificates, made from the table.
func Markdown() string {
	return decisiontable.Page("Certificates and authorities", "pkg/certificates/rotation",
		"Each reconcile decides anew, from what the Secrets hold and from what each consumer is known to run with. A "+
			"consumer reads its files once, so that one that was not restarted since they were written runs with the old "+
			"ones. One that starts at whatever moment gets a bundle that all certificates in use are signed by, and a "+
			"certificate that all bundles in use vouch for.", table.Markdown())
}

func does(step Step) func(*situation) { return func(s *situation) { s.step = step } }

// leafRow signs the first leaf of which something holds, if the authority can sign.
func leafRow(name, when string, holds func(*situation, Held) bool) row {
	find := func(s *situation) int {
		if !s.signs() {
			return -1
		}
		return slices.IndexFunc(s.Held, func(h Held) bool { return holds(s, h) })
	}
	return row{
		Name: "leaf-" + name, When: "the authority can sign, and of a certificate that there shall be: " + when,
		Then:   "it is signed, with a new key",
		Holds:  func(s *situation) bool { return find(s) >= 0 },
		Decide: func(s *situation) { s.step, s.leaf = Sign, s.Held[find(s)].Profile.Name },
	}
}

func hasKey(a *certificates.Authority) bool { return a != nil && a.Key.Fits(a.Certificate) }

// signs reports whether the authority can sign now.
func (s *situation) signs() bool { return s.Succession.Current.CanSign(s.Now) }

// nextSigns reports whether there is a next authority that could sign, and need not be replaced itself. Of one that is
// brought there is no better one.
func (s *situation) nextSigns() bool {
	n := s.Succession.Next
	return n.CanSign(s.Now) && (s.Brings || s.Now.Before(n.RenewAt()))
}

// withdrawn reports whether the next authority is not to sign any more. It has signed nothing: one that Adopt made the
// next one is there only while none signs.
func (s *situation) withdrawn() bool {
	n := s.Succession.Next
	switch {
	case n == nil || !s.signs():
		return false
	case s.Now.After(n.Certificate.NotAfter):
		return true
	case s.Brings:
		return s.Brought != nil && is(s.Succession.Current, s.Brought)
	default:
		return !s.made(n.Certificate)
	}
}

// makes reports whether the operator makes the next authority where one is needed, and there is none.
func (s *situation) makes() bool { return !s.Brings && !s.nextSigns() }

// is reports whether both are the same authority with the same key.
func is(a, b *certificates.Authority) bool {
	return a != nil && a.Certificate.Equal(b.Certificate) && a.Key.Equal(b.Key)
}

// ending reports whether a certificate that the authority signed now would not live for its full time.
func (s *situation) ending() bool {
	c := s.Succession.Current
	return c != nil && s.Now.After(c.LastFullLeaf())
}

func (s *situation) due() bool {
	c := s.Succession.Current
	return c != nil && !s.Now.Before(c.RenewAt())
}

func (s *situation) outOfTime() bool {
	c, n := s.Succession.Current, s.Succession.Next
	if c == nil || !s.nextSigns() {
		return false
	}
	end := c.Certificate.NotAfter
	if s.Brings {
		return s.Now.After(end.Add(-Overlap))
	}
	return s.Now.After(end) || s.Now.After(end.Add(-LastChance)) && !s.Now.Before(overlapped(n))
}

// overlapped is when an authority has been published for long enough.
func overlapped(a *certificates.Authority) time.Time {
	return a.Certificate.NotBefore.Add(certificates.Backdate + Overlap)
}

func (s *situation) leafInvalid() bool {
	return slices.ContainsFunc(s.Held, func(h Held) bool {
		return h.Leaf != nil && (s.Now.After(h.Leaf.Certificate.NotAfter) || s.early(h.Leaf.Certificate))
	})
}

func (s *situation) early(c *x509.Certificate) bool { return s.Now.Before(c.NotBefore) }

func (s *situation) clocksDiffer() bool { return s.Now.Sub(s.OtherClock).Abs() > MaxClockSkew }

// all reports whether something is known to hold for each consumer.
func (s *situation) all(holds func(Consumer) bool) bool {
	return !slices.ContainsFunc(s.Consumers, func(c Consumer) bool { return !c.Known || !holds(c) })
}

func (s *situation) trusts(c Consumer) bool { return c.RunsTrust == s.trust.Hash() }

// hasCurrent reports whether a consumer runs with a certificate of the authority that signs, or needs none.
func (s *situation) hasCurrent(c Consumer) bool {
	return c.Leaf == "" || s.Succession.Current.Signed(c.RunsLeaf)
}

func oldExpired(s *situation) bool {
	return slices.ContainsFunc(s.Succession.Old, func(c *x509.Certificate) bool { return s.Now.After(c.NotAfter) })
}

func someUnknown(s *situation) bool {
	return slices.ContainsFunc(s.Consumers, func(c Consumer) bool { return !c.Known })
}

// lagging are the consumers that are not known to run with what is published.
func (s *situation) lagging() (names []string) {
	for _, c := range s.Consumers {
		if !c.Known || !s.trusts(c) || c.RunsLeaf != s.leafOf(c) {
			names = append(names, c.Name)
		}
	}
	return names
}

// leafOf is the hash of the leaf that a consumer is to run with; "" if it needs none, or there is none.
func (s *situation) leafOf(c Consumer) string {
	for _, h := range s.Held {
		if h.Profile.Name == c.Leaf && h.Leaf != nil {
			return h.Leaf.Hash()
		}
	}
	return ""
}

// again is the first moment after now at which time alone makes another row hold.
func (s *situation) again() (first time.Time) {
	at := func(t time.Time) {
		if t.After(s.Now) && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	for _, a := range []*certificates.Authority{s.Succession.Current, s.Succession.Next} {
		if a != nil {
			at(a.Certificate.NotBefore)
			at(a.RenewAt())
			at(a.LastFullLeaf().Add(time.Second))
			at(a.Certificate.NotAfter.Add(time.Second - LastChance))
			at(a.Certificate.NotAfter.Add(time.Second - Overlap))
			at(a.Certificate.NotAfter.Add(time.Second))
		}
	}
	if n := s.Succession.Next; n != nil {
		at(overlapped(n))
	}
	for _, c := range s.Succession.Old {
		at(c.NotAfter.Add(time.Second))
	}
	for _, h := range s.Held {
		if h.Leaf != nil {
			at(h.Leaf.Certificate.NotBefore)
			at(h.Leaf.RenewAt())
			at(h.Leaf.Certificate.NotAfter.Add(time.Second))
		}
	}
	return first
}
