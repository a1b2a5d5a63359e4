// Package apicerts is what the Secrets hold with which LINSTOR's REST API is locked, and the connections between its
// controller and its satellites, and what was seen of the certificates that LINSTOR uses.
package apicerts

import (
	"bytes"
	"crypto/x509"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/tlsspec"
	"github.com/linstor-dev/storagecluster-operator/pkg/certificates"
	"github.com/linstor-dev/storagecluster-operator/pkg/certificates/rotation"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/apitls"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/netcomtls"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/tlssecret"
)

// Held is what the Secret of a part holds; Leaf and Trust are nil where there is nothing that can be used.
type Held struct {
	Leaf  *certificates.Leaf
	Trust certificates.Bundle
	// Problem says what of the Secret cannot be used; nil if all can, or there is no Secret.
	Problem error
}

// Store is what the Secrets of one kind of connection hold.
type Store struct {
	Kind       *tlssecret.Kind
	Succession certificates.Succession
	// Problem says what of the authorities' Secret cannot be used; nil if all can, or there is no Secret.
	Problem error
	Held    map[tlssecret.Part]Held
	Brought Brought
}

// Brought is the authority that a human keeps in a Secret. The zero value is none: the operator makes its own.
type Brought struct {
	// Secret is its name; "" where authorities are not brought.
	Secret string
	// Authority is nil if it cannot sign, for the reason in Problem.
	Authority *certificates.Authority
	Problem   error
}

// Kept is what all Secrets hold.
type Kept struct {
	// API is for LINSTOR's REST API, Netcom for the connections between its controller and its satellites.
	API, Netcom Store
	Seen        Seen
	// APIClock is what the API server's clock showed; zero if that is not known.
	APIClock time.Time
}

// Seen is what LINSTOR's controller was seen to use when the operator connected to it last.
type Seen struct {
	// Leaf is the hash of its certificate; "" if nothing was seen.
	Leaf string
	// Authorities are the names of those whose certificates it takes, as they are in certificates; none if it does not
	// announce them.
	Authorities [][]byte
}

// Read reads the Secrets, by their names. Which authorities are brought is by the accepted spec; nil if none is.
func Read(secrets map[string]*corev1.Secret, spec *tlsspec.TLSSpec, now time.Time) Kept {
	if spec == nil {
		spec = &tlsspec.TLSSpec{}
	}
	k := Kept{API: read(&apitls.Kind, secrets, spec.API(), now),
		Netcom: read(&netcomtls.Kind, secrets, spec.Satellites(), now)}
	if k.API.Brought.Authority != nil || k.Netcom.Brought.Authority != nil {
		api, netcom := k.API.authorities(), k.Netcom.authorities() // as they are before either is refused
		k.API.checkKey(netcom)
		k.Netcom.checkKey(api)
	}
	return k
}

// authorities are all of one kind of connection.
func (k *Store) authorities() certificates.Bundle {
	all := slices.Clone(k.Succession.Trust())
	if a := k.Brought.Authority; a != nil {
		all = append(all, a.Certificate)
	}
	return all
}

// checkKey refuses an authority that is brought and has the key of another one: of one before it, or of one of the
// other kind of connection, whose certificates would open this one as well.
func (k *Store) checkKey(other certificates.Bundle) {
	b := &k.Brought
	if b.Authority == nil {
		return
	}
	c, before := b.Authority.Certificate, k.Succession.Trust()
	shares := func(o *x509.Certificate) bool { return certificates.SameKey(c, o) }
	var what, cure string
	switch {
	case slices.ContainsFunc(other, shares):
		what, cure = "has the same key as the authority for LINSTOR's other connections",
			"use an authority with its own key, because otherwise certificates for one kind of connection are also "+
				"valid for the other"
	case before.Has(c):
		return
	case slices.ContainsFunc(before, shares):
		what, cure = "has the same key as an earlier authority",
			"create it with a new key; for cert-manager, set privateKey.rotationPolicy to Always"
	case rotation.Made(apitls.Kind.Authority, c) || rotation.Made(netcomtls.Kind.Authority, c):
		what, cure = "has a common name reserved for authorities created by the operator", "use a different common name"
	default:
		return
	}
	b.Authority = nil
	b.Problem = &certificates.Problem{Secret: b.Secret, Entry: certificates.EntryCertificate, What: what, Cure: cure}
}

func read(kind *tlssecret.Kind, secrets map[string]*corev1.Secret, brought string, now time.Time) Store {
	k := Store{Kind: kind, Held: map[tlssecret.Part]Held{}, Brought: readBrought(secrets, brought, now)}
	if s := secrets[kind.AuthoritySecret()]; s != nil {
		k.Succession, k.Problem = certificates.ReadSuccession(s.Name, s.Data)
	}
	for _, part := range kind.Parts {
		s := secrets[kind.Secret(part)]
		if s == nil {
			continue
		}
		var h Held
		var err error
		h.Leaf, h.Problem = certificates.ReadLeaf(s.Name, s.Data)
		if h.Trust, err = certificates.ReadTrust(s.Name, s.Data); h.Problem == nil {
			h.Problem = err
		}
		k.Held[part] = h
	}
	return k
}

func readBrought(secrets map[string]*corev1.Secret, name string, now time.Time) Brought {
	b := Brought{Secret: name}
	switch s := secrets[name]; {
	case name == "":
	case s == nil:
		b.Problem = fmt.Errorf("the Secret %s does not exist in namespace %s; create it with a CA certificate in tls.crt "+
			"and the CA's private key in tls.key", name, v1alpha1.WorkloadNamespace)
	default:
		b.Authority, b.Problem = certificates.ReadBrought(name, s.Data, now)
	}
	return b
}

// Ref is what a part is given. Without hashes where it lacks something: whoever builds something for it asks for
// Missing first.
func (k *Store) Ref(part tlssecret.Part) tlssecret.Ref {
	r := tlssecret.Ref{Secret: k.Kind.Secret(part)}
	if h := k.Held[part]; h.Leaf != nil && len(h.Trust) > 0 {
		r.Leaf, r.Trust = h.Leaf.Hash(), h.Trust.Hash()
	}
	return r
}

// Missing says which of these parts has no certificate yet that it can use; "" if all have. Nobody builds a pod then:
// it would be one without a lock, or one that is made anew a moment later.
func (k *Store) Missing(parts ...tlssecret.Part) string {
	for _, part := range parts {
		if r := k.Ref(part); r.Leaf == "" || r.Trust == "" {
			return fmt.Sprintf("the certificate for %s has not been created yet (Secret %s)", part, r.Secret)
		}
	}
	return ""
}

// Access is what each part is given of the API by an accepted spec; nil if that locks nothing.
func (k *Kept) Access(spec *tlsspec.TLSSpec) map[apitls.Part]apitls.Access {
	if spec.Mode != tlsspec.Managed {
		return nil
	}
	out := map[apitls.Part]apitls.Access{}
	for _, part := range apitls.Kind.Parts {
		out[part] = apitls.Access{Ref: k.API.Ref(part)}
	}
	return out
}

// Missing says which of these parts of the API has no certificate yet; "" if all have, or the spec locks nothing.
func (k *Kept) Missing(spec *tlsspec.TLSSpec, parts ...apitls.Part) string {
	if spec.Mode != tlsspec.Managed {
		return ""
	}
	return k.API.Missing(parts...)
}

// Trusts is the hash of the bundle that LINSTOR's controller takes certificates of; "" if it does not announce whom,
// and something that is no hash if it announces somebody that is not known. Authorities that are brought may follow
// each other under one name, as cert-manager's do: then what it announces tells nothing of which it has.
func (k *Kept) Trusts() string {
	known := certificates.NewBundle(slices.Concat(k.API.Succession.Trust(), k.API.Held[apitls.Controller].Trust)...)
	var found []*x509.Certificate
	unclear := false
	for _, name := range k.Seen.Authorities {
		named := slices.DeleteFunc(slices.Clone(known),
			func(c *x509.Certificate) bool { return !bytes.Equal(c.RawSubject, name) })
		if len(named) == 0 {
			return "others"
		}
		unclear = unclear || len(named) > 1
		found = append(found, named...)
	}
	if unclear {
		return ""
	}
	return certificates.NewBundle(found...).Hash()
}
