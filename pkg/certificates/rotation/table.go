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

type row = decisiontable.Row[*situation]

// table decides about one kind of connection. The first row that holds decides.
var table = decisiontable.Table[*situation]{
	Title: "The next step",
	Intro: "One table for each kind of connection: REST, controller and satellites, managed etcd. A consumer is a " +
		"process that uses certificates. One of which nobody knows what it runs with is never taken as one that runs with " +
		"what is published.",
	Rows: []row{
		{Name: "clock-behind", When: "an authority or a certificate is not valid yet, although all begin an hour before " +
			"they are made",
			Then:  "it waits: the operator's clock is behind, or was ahead, and nothing is signed by such a clock",
			Holds: clockBehind, Decide: does(Wait)},
		{Name: "in-use", When: "authorities are published that are not known, as after their Secret was lost or put back " +
			"from a backup, and there is no other, or one of them has signed a certificate that is published",
			Then: "they are trusted further as old ones; one that signs becomes the next one, since consumers need not " +
				"trust it yet",
			Holds: func(s *situation) bool { return len(unknown(s.Facts)) > 0 }, Decide: does(Adopt)},
		{Name: "first", When: "there is no authority",
			Then:  "the first one is made, and signs at once",
			Holds: func(s *situation) bool { return len(s.trust) == 0 }, Decide: does(MakeFirst)},
		{Name: "lost", When: "there is no authority that signs, or its key is missing or is not its own, and there is no " +
			"next one that could sign",
			Then: "the next one is made",
			Holds: func(s *situation) bool {
				return !hasKey(s.Succession.Current) && !s.nextSigns()
			}, Decide: does(MakeNext)},
		{Name: "ending", When: "the authority has expired or lives for less than the 90 days of a certificate, and there " +
			"is no next one that could sign",
			Then:  "the next one is made",
			Holds: func(s *situation) bool { return s.ending() && !s.nextSigns() }, Decide: does(MakeNext)},
		{Name: "out-of-time", When: "the authority has expired or lives for less than 90 days, and there is a next one",
			Then: "the next one signs from now on, whoever runs with it: who was not restarted since it was made has a " +
				"certificate that has expired, or soon will, and nobody would have another one in the end",
			Holds: (*situation).ending, Decide: does(Promote)},
		{Name: "cannot-renew", When: "the authority cannot sign, there is a next one, and a certificate has expired",
			Then:   "the next one signs from now on, whoever runs with it: connections fail already",
			Holds:  func(s *situation) bool { return !s.signs() && s.nextSigns() && s.leafExpired() },
			Decide: does(Promote)},
		{Name: "old-expired", When: "an old authority has expired",
			Then:  "it is no longer trusted, whoever runs with what it has signed: Java would go on trusting it",
			Holds: oldExpired, Decide: does(ForgetExpired)},
		{Name: "publish", When: "beside a certificate is another bundle than the authorities that are to be trusted",
			Then:  "the bundle is published, before anything is signed",
			Holds: func(s *situation) bool { return len(publish(s.Facts)) > 0 }, Decide: does(Publish)},
		leafRow("missing", "there is none, or none that can be read",
			func(_ *situation, h Held) bool { return h.Leaf == nil }),
		leafRow("expired", "it has expired",
			func(s *situation, h Held) bool { return s.Now.After(h.Leaf.Certificate.NotAfter) }),
		leafRow("another", "it is for another name or another side of the connection, or its key is not its own",
			func(_ *situation, h Held) bool { return !h.Leaf.Is(h.Profile) }),
		leafRow("old-authority", "another authority has signed it than the one that signs now",
			func(s *situation, h Held) bool { return !h.Leaf.SignedBy(s.Succession.Current.Certificate) }),
		leafRow("due", "two thirds of its life are over, 60 days",
			func(s *situation, h Held) bool { return !s.Now.Before(h.Leaf.RenewAt()) }),
		{Name: "authority-due", When: "four fifths of the authority's life are over, four years, and there is no next one " +
			"that could sign",
			Then:  "the next one is made: phase 1, in which all come to trust it",
			Holds: func(s *situation) bool { return s.due() && !s.nextSigns() }, Decide: does(MakeNext)},
		{Name: "unknown", When: "of a consumer nobody knows what it runs with",
			Then: "it waits", Holds: someUnknown, Decide: does(Wait)},
		{Name: "restart", When: "a consumer runs with another certificate or bundle than the one that is published",
			Then:   "it waits: the consumer is restarted in its turn",
			Holds:  func(s *situation) bool { return len(s.behind) > 0 },
			Decide: does(Wait)},
		{Name: "trusted", When: "there is a next authority, which all consumers trust",
			Then:  "it signs from now on: phase 2, in which all get certificates of it",
			Holds: (*situation).nextSigns, Decide: does(Promote)},
		{Name: "unused", When: "there is an old authority, of which no consumer has a certificate any more",
			Then:  "it is no longer trusted: phase 3",
			Holds: func(s *situation) bool { return len(s.Succession.Old) > 0 }, Decide: does(Forget)},
		{Name: "rest", When: "else", Then: "nothing is done", Decide: does(Rest)},
	},
}

// Markdown is the page about the rotation of certificates, made from the table.
func Markdown() string {
	return decisiontable.Page("Certificates and authorities", "pkg/certificates/rotation",
		"Each reconcile decides anew, from what the Secrets hold and from what each consumer is known to run with. A "+
			"consumer reads its files when it starts, so that one that was not restarted since they were written runs with "+
			"the old ones. Whoever starts at whatever moment gets a bundle that all certificates in use are signed by, and a "+
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

// nextSigns reports whether there is a next authority that could sign, and need not be replaced itself.
func (s *situation) nextSigns() bool {
	n := s.Succession.Next
	return n.CanSign(s.Now) && s.Now.Before(n.RenewAt())
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

func (s *situation) leafExpired() bool {
	return slices.ContainsFunc(s.Held, func(h Held) bool {
		return h.Leaf != nil && s.Now.After(h.Leaf.Certificate.NotAfter)
	})
}

func clockBehind(s *situation) bool {
	early := func(c *x509.Certificate) bool { return s.Now.Before(c.NotBefore) }
	return slices.ContainsFunc(s.trust, early) ||
		slices.ContainsFunc(s.Held, func(h Held) bool { return h.Leaf != nil && early(h.Leaf.Certificate) })
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
		if !c.Known || c.RunsTrust != s.trust.Hash() || c.RunsLeaf != s.leafOf(c) {
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
		}
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
