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
	Intro: "The table applies separately to LINSTOR's REST API and to the connections between controller and " +
		"satellites. A consumer is a process that uses certificates. If it is unknown which certificates a consumer is " +
		"using, the operator never assumes that they are the published ones.",
	Rows: []row{
		{Name: RowClocks, When: "the operator's clock differs by more than half an hour from the clock of the Kubernetes " +
			"API server, or the API server's time is unknown",
			Then: "the operator waits: if its clock were years ahead, it would treat the authority as expired, remove its " +
				"key, and create a successor that becomes valid only years later",
			Holds: (*situation).clocksDiffer, Decide: does(Wait)},
		{Name: "in-use", When: "published trust bundles contain unrecorded authorities with the operator's names, for " +
			"example because the Secret of the authorities was lost or restored from a backup; these authorities signed a " +
			"certificate that is published or in use, or it is unknown which certificates a consumer is using",
			Then: "they remain trusted as old authorities; the current authority becomes the next one, because consumers may " +
				"not trust it yet",
			Holds: func(s *situation) bool { return len(unknown(s.Facts)) > 0 }, Decide: does(Adopt)},
		{Name: RowNotBrought, When: "the spec names a Secret that provides an authority, but no usable one has been " +
			"provided, and neither the current nor the next authority can sign",
			Then: "the operator waits until an authority is provided",
			Holds: func(s *situation) bool {
				return s.Brings && s.Brought == nil && !s.nextSigns() && !hasKey(s.Succession.Current)
			}, Decide: does(Wait)},
		{Name: "first", When: "no authority exists",
			Then:  "the operator creates the first authority, or uses the provided one, and it signs immediately",
			Holds: func(s *situation) bool { return len(s.trust) == 0 }, Decide: does(MakeFirst)},
		{Name: "brought", When: "a provided authority is neither the current nor the next one",
			Then: "it becomes the next authority (phase 1: every consumer starts to trust it)",
			Holds: func(s *situation) bool {
				return s.Brought != nil && !is(s.Succession.Current, s.Brought) && !is(s.Succession.Next, s.Brought)
			}, Decide: does(MakeNext)},
		{Name: "withdrawn", When: "the current authority can sign, and either the next one has expired, the current one " +
			"is provided again, or the next one was provided but authorities are no longer provided",
			Then:  "the next authority is dropped, because it has not signed anything",
			Holds: (*situation).withdrawn, Decide: does(Withdraw)},
		{Name: "not-brought-any-more", When: "authorities are no longer provided, but the current one was provided",
			Then: "the operator creates its own authority as the next one",
			Holds: func(s *situation) bool {
				c := s.Succession.Current
				return !s.Brings && c != nil && !s.made(c.Certificate) && !s.nextSigns()
			}, Decide: does(MakeNext)},
		{Name: "lost", When: "the current authority is missing, its key is missing or does not match, or it is not valid " +
			"yet, for example because it was created while the clock was ahead; no next authority can sign, and " +
			"authorities are not provided",
			Then: "the operator creates the next authority",
			Holds: func(s *situation) bool {
				c := s.Succession.Current
				return s.makes() && (!hasKey(c) || s.early(c.Certificate))
			}, Decide: does(MakeNext)},
		{Name: "ending", When: "the authority has expired or expires within 90 days, the lifetime of a certificate; no " +
			"next authority can sign, and authorities are not provided",
			Then:  "the operator creates the next authority",
			Holds: func(s *situation) bool { return s.makes() && s.ending() }, Decide: does(MakeNext)},
		{Name: "out-of-time", When: "a next authority can sign, and the current one has expired, or expires within 30 " +
			"days while the next one is at least a day old; if authorities are provided, the current one has expired or " +
			"expires within a day",
			Then: "the next authority signs from now on, regardless of the certificates that consumers use: otherwise, " +
				"all certificates would eventually expire, starting with those of consumers that have not been restarted since " +
				"it was created",
			Holds: (*situation).outOfTime, Decide: does(Promote)},
		{Name: "cannot-renew", When: "the current authority cannot sign, a next one can, and a certificate has expired or " +
			"is not valid yet",
			Then: "the next authority signs from now on, regardless of the certificates that consumers use: connections " +
				"are already failing",
			Holds:  func(s *situation) bool { return !s.signs() && s.nextSigns() && s.leafInvalid() },
			Decide: does(Promote)},
		{Name: "old-expired", When: "an old authority has expired",
			Then: "it is removed from the trust bundles, regardless of the certificates that consumers use: Java would " +
				"continue to trust it",
			Holds: oldExpired, Decide: does(ForgetExpired)},
		{Name: "publish", When: "the trust bundle stored with a certificate differs from the authorities that should " +
			"be trusted",
			Then:  "the bundle is published before anything is signed",
			Holds: func(s *situation) bool { return len(publish(s.Facts)) > 0 }, Decide: does(Publish)},
		leafRow("missing", "is missing or cannot be read",
			func(_ *situation, h Held) bool { return h.Leaf == nil }),
		leafRow("expired", "has expired",
			func(s *situation, h Held) bool { return s.Now.After(h.Leaf.Certificate.NotAfter) }),
		leafRow("early", "is not valid yet, for example because it was created while the clock was ahead",
			func(s *situation, h Held) bool { return s.early(h.Leaf.Certificate) }),
		leafRow("another", "lacks the required names or key usage (server or client), or its key does not match",
			func(_ *situation, h Held) bool { return !h.Leaf.Is(h.Profile) }),
		leafRow("old-authority", "was not signed by the current authority",
			func(s *situation, h Held) bool { return !h.Leaf.SignedBy(s.Succession.Current.Certificate) }),
		leafRow("due", "has reached two thirds of its lifetime (60 days) and expires before the authority",
			func(s *situation, h Held) bool {
				// One that ends with the authority would be made anew over and over, for half as long each time.
				return !s.Now.Before(h.Leaf.RenewAt()) &&
					h.Leaf.Certificate.NotAfter.Before(s.Succession.Current.Certificate.NotAfter)
			}),
		{Name: "authority-due", When: "the authority has reached four fifths of its lifetime (four years), no next " +
			"authority can sign, and authorities are not provided",
			Then:  "the operator creates the next authority (phase 1: every consumer starts to trust it)",
			Holds: func(s *situation) bool { return s.makes() && s.due() }, Decide: does(MakeNext)},
		{Name: "trusted", When: "a next authority can sign, and all consumers trust it, regardless of the certificates " +
			"that they use",
			Then:  "it signs from now on (phase 2: every consumer gets a certificate signed by it)",
			Holds: func(s *situation) bool { return s.nextSigns() && s.all(s.trusts) }, Decide: does(Promote)},
		{Name: "unused", When: "an old authority exists, and all consumers are known to use certificates signed by the " +
			"current one, even if not the latest ones",
			Then: "old authorities are no longer trusted (phase 3)",
			Holds: func(s *situation) bool {
				return len(s.Succession.Old) > 0 && s.signs() && s.all(s.hasCurrent)
			}, Decide: does(Forget)},
		{Name: "unknown", When: "it is unknown which certificates a consumer is using",
			Then: "the operator waits", Holds: someUnknown, Decide: does(Wait)},
		{Name: "restart", When: "a consumer is using a certificate or trust bundle that differs from the published one",
			Then:   "the operator waits until the consumer is restarted",
			Holds:  func(s *situation) bool { return len(s.behind) > 0 },
			Decide: does(Wait)},
		{Name: "rest", When: "otherwise", Then: "the operator does nothing", Decide: does(Rest)},
	},
}

// Markdown is the page about the rotation of certificates, made from the table.
func Markdown() string {
	return decisiontable.Page("Certificates and authorities", "pkg/certificates/rotation",
		"Each reconciliation is based on the current contents of the Secrets and on the certificates that each consumer "+
			"is known to use. A consumer reads its files only when it starts, so one that has not been restarted since "+
			"they were written still uses the old ones. Whenever a consumer starts, its trust bundle covers all "+
			"certificates in use, and its certificate is covered by all trust bundles in use.", table.Markdown())
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
		Name: "leaf-" + name, When: "the authority can sign, and a required certificate " + when,
		Then:   "a new certificate is signed, with a new key",
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
