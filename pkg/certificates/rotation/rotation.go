// Package rotation decides what becomes of the certificates of one kind of connection: when they are renewed, and how
// one authority follows another without a moment in which two parts of LINSTOR do not trust each other.
//
// LINSTOR reads its stores once: those between controller and satellites when it starts, that of the REST API when the
// first client connects over TLS. Files that are exchanged under it later change nothing, and its clients in Go read
// authorities at their start, too (run with linstor-server 1.34.0-rc.1 and golinstor 0.61.0). So what counts is not
// what a Secret holds, but what each consumer is known to run with. An authority is replaced in three phases: the next
// one is trusted by all, then it signs, then the old one is no longer trusted. Each phase ends when all consumers run
// with it.
//
// What a wrong clock would do cannot be taken back: an authority that seems to have expired loses its key, and its
// successor is not valid for years. So nothing is done unless two clocks agree.
package rotation

import (
	"crypto/x509"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/linstor-dev/storagecluster-operator/pkg/certificates"
)

// The margins of time.
const (
	// MaxClockSkew is by how much the operator's clock and the other one may differ. It is less than
	// certificates.Backdate, so that what is signed is valid by either clock.
	MaxClockSkew = certificates.Backdate / 2
	// LastChance is how long before an authority ends the next one signs, whoever trusts it: a third of a certificate's
	// life, as for the renewal of a certificate, so that all can still be restarted before the old ones end.
	LastChance = certificates.LeafLifetime / 3
	// Overlap is how long the next authority is published at least before it signs, if the authority has not ended yet.
	// One that is brought may have any life, and may be made long before it is brought: there it is all that is left of
	// the life of the one before when the next one signs, whoever trusts it.
	Overlap = 24 * time.Hour
)

// Held is a Leaf that there shall be, and what its Secret has now.
type Held struct {
	Profile certificates.Profile
	// Leaf is nil if there is none yet, or none that can be read.
	Leaf *certificates.Leaf
	// Trust is the bundle beside it; nil if there is none, or none that can be read.
	Trust certificates.Bundle
}

// Consumer is a process that uses certificates: LINSTOR's controller, one satellite, a client.
type Consumer struct {
	// Name is for people, such as "satellite on node n1".
	Name string
	// Leaf names the profile of the one that it uses; "" if it only trusts.
	Leaf string
	// Known is false if it could not be found out what it runs with: then it counts as one that runs with something else.
	Known bool
	// RunsLeaf and RunsTrust are the hashes of what it has read when it started; "" for nothing.
	RunsLeaf, RunsTrust string
}

// Facts are all that a decision rests on. Whoever could not read one of the Secrets has no facts, and does not decide.
type Facts struct {
	// Now is by the operator's clock, OtherClock the same moment by that of another machine, such as the API server's;
	// zero if no other clock was seen.
	Now, OtherClock time.Time
	// Authority names the kind of connection in the names of its authorities, such as "linstor-internal".
	Authority  string
	Succession certificates.Succession
	// Brings is true where authorities are brought: somebody else makes them, and the operator makes none. Brought is the
	// one that is there now; nil if none is that could sign. It has another key than those that are trusted already: by
	// its key is known what an authority has signed.
	Brings  bool
	Brought *certificates.Authority
	// Held are in an order that stays the same.
	Held []Held
	// Consumers are all processes that there are, those on nodes that do not answer included.
	Consumers []Consumer
}

// Step is what is to be done next. Each is one write, or one kind of write that can be repeated.
type Step string

// The steps.
const (
	// Rest does nothing.
	Rest Step = "Rest"
	// Wait does nothing until something else changes: a consumer is restarted, or a clock is set right.
	Wait Step = "Wait"
	// MakeFirst makes the first authority, or takes the one that is brought. It signs at once.
	MakeFirst Step = "MakeFirst"
	// Adopt trusts authorities that are in use and were not known, and has the one that signs wait until all trust it.
	Adopt Step = "Adopt"
	// MakeNext makes another authority, or takes the one that is brought. It is trusted and does not sign yet.
	MakeNext Step = "MakeNext"
	// Withdraw ends the trust in the next authority.
	Withdraw Step = "Withdraw"
	// Promote lets the next authority sign. The key of the one before is removed.
	Promote Step = "Promote"
	// ForgetExpired ends the trust in old authorities that have expired, and Forget that in all old ones.
	ForgetExpired Step = "ForgetExpired"
	Forget        Step = "Forget"
	// Publish puts the bundle beside every Leaf.
	Publish Step = "Publish"
	// Sign makes one Leaf anew, with a new key.
	Sign Step = "Sign"
)

// Decision is the next step, and why.
type Decision struct {
	// Row is the name of the row of the table that decided.
	Row  string
	Step Step
	// Leaf names the profile of the one to be signed.
	Leaf string
	// WaitsFor are the consumers that are not known to run with what is published, for any step; none while the clocks
	// differ, since nothing is decided about restarts then.
	WaitsFor []string
	// Again is when time alone changes the decision, at the latest; zero if it never does.
	Again time.Time
}

// Decide finds the next step. It is a pure function of the facts.
func Decide(f Facts) Decision {
	s := &situation{Facts: f, trust: f.Succession.Trust()}
	s.behind = s.lagging()
	row := table.Decide(s)
	d := Decision{Row: row, Step: s.step, Leaf: s.leaf}
	if !s.clocksDiffer() {
		d.WaitsFor, d.Again = s.behind, s.again()
	}
	return d
}

// Change is what is to be written: the Secret of the succession, if Succession is not nil, and those of these leaves.
type Change struct {
	Succession *certificates.Succession
	Held       []Held
}

// Do makes what the decision asks for, from the facts that it was made on. It writes nothing itself. The error is that
// of making a key or a certificate.
func Do(f Facts, d Decision) (Change, error) {
	s := f.Succession
	switch d.Step {
	case MakeFirst, MakeNext:
		a := f.Brought
		if !f.Brings {
			var err error
			if a, err = certificates.NewAuthority(f.Authority, f.Now); err != nil {
				return Change{}, err
			}
		}
		if s = s.Announce(a); d.Step == MakeFirst {
			s = s.Promote()
		}
	case Adopt:
		s = s.Adopt(unknown(f))
	case Withdraw:
		s = s.Withdraw()
	case Promote:
		s = s.Promote()
	case ForgetExpired:
		s = s.ForgetExpired(f.Now)
	case Forget:
		s = s.Forget()
	case Publish:
		return Change{Held: publish(f)}, nil
	case Sign:
		return signed(f, d.Leaf)
	case Rest, Wait:
		return Change{}, nil
	default:
		return Change{}, fmt.Errorf("unknown step %q", d.Step)
	}
	return Change{Succession: &s}, nil
}

// unknown are the operator's own authorities beside the leaves that the succession does not have, as far as they may
// be in use: they have signed a leaf that is published or that a consumer runs with, or of a consumer it is not known.
// Where none signs, as after the authorities' Secret was lost, whatever has signed a leaf that is published is one as
// well: it may have been brought. The others are not adopted, so that one that a human added by mistake is not trusted
// everywhere. Expired ones are no loss.
func unknown(f Facts) certificates.Bundle {
	known := f.Succession.Trust()
	var found []*x509.Certificate
	for _, h := range f.Held {
		for _, c := range h.Trust {
			own := f.made(c) && inUse(f, c)
			if !known.Has(c) && !f.Now.After(c.NotAfter) && (own || f.Succession.Current == nil && published(f, c)) {
				found = append(found, c)
			}
		}
	}
	return certificates.NewBundle(found...)
}

// made reports whether the operator has made an authority of this kind, by its name.
func (f *Facts) made(c *x509.Certificate) bool { return Made(f.Authority, c) }

// Made reports whether the operator has made an authority of a kind of connection. None that is brought has such a
// name.
func Made(kind string, c *x509.Certificate) bool {
	return strings.HasPrefix(c.Subject.CommonName, kind+" ")
}

// published reports whether the authority has signed a leaf that is published.
func published(f Facts, authority *x509.Certificate) bool {
	return slices.ContainsFunc(f.Held, func(h Held) bool { return h.Leaf != nil && h.Leaf.SignedBy(authority) })
}

func inUse(f Facts, authority *x509.Certificate) bool {
	runs := func(c Consumer) bool { return !c.Known || certificates.Signed(authority, c.RunsLeaf) }
	return published(f, authority) || slices.ContainsFunc(f.Consumers, runs)
}

func publish(f Facts) (out []Held) {
	trust := f.Succession.Trust()
	for _, h := range f.Held {
		if h.Leaf != nil && h.Trust.Hash() != trust.Hash() {
			h.Trust = trust
			out = append(out, h)
		}
	}
	return out
}

func signed(f Facts, name string) (Change, error) {
	for _, h := range f.Held {
		if h.Profile.Name != name {
			continue
		}
		l, err := f.Succession.Current.Sign(h.Profile, f.Now)
		if err != nil {
			return Change{}, err
		}
		h.Leaf, h.Trust = l, f.Succession.Trust()
		return Change{Held: []Held{h}}, nil
	}
	return Change{}, fmt.Errorf("no certificate %q to sign", name)
}
