// Package apicerts is what the Secrets hold with which LINSTOR's REST API is locked, and what was seen of the
// certificates that LINSTOR uses.
package apicerts

import (
	"bytes"
	"crypto/x509"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/tlsspec"
	"github.com/linstor-dev/storagecluster-operator/pkg/certificates"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/apitls"
)

// Held is what the Secret of a part holds; Leaf and Trust are nil where there is nothing that can be used.
type Held struct {
	Leaf  *certificates.Leaf
	Trust certificates.Bundle
	// Problem says what of the Secret cannot be used; nil if all can, or there is no Secret.
	Problem error
}

// Kept is what all Secrets hold.
type Kept struct {
	Succession certificates.Succession
	// Problem says what of the authorities' Secret cannot be used; nil if all can, or there is no Secret.
	Problem error
	Held    map[apitls.Part]Held
	Seen    Seen
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

// Read reads the Secrets, by their names.
func Read(secrets map[string]*corev1.Secret) Kept {
	k := Kept{Held: map[apitls.Part]Held{}}
	if s := secrets[apitls.AuthoritySecret]; s != nil {
		k.Succession, k.Problem = certificates.ReadSuccession(s.Name, s.Data)
	}
	for _, part := range apitls.Parts() {
		s := secrets[part.Secret()]
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

// Access is what each part is given by an accepted spec; nil if that locks nothing. A part that lacks something is
// given a Secret without hashes: whoever builds something for it asks for Missing first.
func (k *Kept) Access(spec *tlsspec.TLSSpec) map[apitls.Part]apitls.Access {
	if spec.Mode != tlsspec.Managed {
		return nil
	}
	out := map[apitls.Part]apitls.Access{}
	for _, part := range apitls.Parts() {
		a := apitls.Access{Secret: part.Secret()}
		if h := k.Held[part]; h.Leaf != nil && len(h.Trust) > 0 {
			a.Leaf, a.Trust = h.Leaf.Hash(), h.Trust.Hash()
		}
		out[part] = a
	}
	return out
}

// Missing says which of these parts has no certificate yet that it can use; "" if all have, or the spec locks nothing.
// Nobody builds a pod then: it would be one without a lock, or one that is made anew a moment later.
func (k *Kept) Missing(spec *tlsspec.TLSSpec, parts ...apitls.Part) string {
	access := k.Access(spec)
	for _, part := range parts {
		if a := access[part]; a.Locked() && (a.Leaf == "" || a.Trust == "") {
			return fmt.Sprintf("the certificate of %s is not there yet (Secret %s)", part, a.Secret)
		}
	}
	return ""
}

// Trusts is the hash of the bundle that LINSTOR's controller takes certificates of; "" if it does not announce whom,
// and something that is no hash if it announces somebody that is not known.
func (k *Kept) Trusts() string {
	known := slices.Concat(k.Succession.Trust(), k.Held[apitls.Controller].Trust)
	var found []*x509.Certificate
	for _, name := range k.Seen.Authorities {
		i := slices.IndexFunc(known, func(c *x509.Certificate) bool { return bytes.Equal(c.RawSubject, name) })
		if i < 0 {
			return "others"
		}
		found = append(found, known[i])
	}
	return certificates.NewBundle(found...).Hash()
}
