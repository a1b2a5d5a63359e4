// Package certificates makes and renews the certificates that lock LINSTOR's REST API, and the connections between its
// controller and its satellites, where the accepted spec wants that. It is no link of the chain: a part that needs a
// certificate waits for it by itself. What fails here is in the condition CertificatesValid.
//
// What is decided is the table of package rotation; here are the facts for it, and the writes.
package certificates

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/certificates"
	"github.com/linstor-dev/storagecluster-operator/pkg/certificates/rotation"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/apicerts"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/poddiagnosis"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/tlssecret"
)

// connection is a kind of connection with certificates of its own.
type connection struct {
	kind *tlssecret.Kind
	// what names the connections in messages.
	what string
	// store is what its Secrets hold.
	store func(*cluster.Facts) *apicerts.Store
	// needs reports whether a part is there, or wanted.
	needs func(*cluster.Facts, tlssecret.Part) bool
	// profile is what the certificate of a part is to be.
	profile func(tlssecret.Part) certificates.Profile
	// java reports whether a part reads Java's stores.
	java func(tlssecret.Part) bool
	// consumers are the programs that use certificates, with what each runs with.
	consumers func(*cluster.Facts) []rotation.Consumer
	// extra are further entries of a part's Secret.
	extra func(tlssecret.Part) map[string][]byte
}

// connections are all of them.
func connections() []*connection { return []*connection{&api, &netcom} }

// needed are the parts that are there, or wanted.
func (c *connection) needed(f *cluster.Facts) []tlssecret.Part {
	return slices.DeleteFunc(slices.Clone(c.kind.Parts), func(p tlssecret.Part) bool { return !c.needs(f, p) })
}

// facts are those of rotation.
func (c *connection) facts(f *cluster.Facts) rotation.Facts {
	store := c.store(f)
	out := rotation.Facts{Now: f.Now, OtherClock: f.Certificates.APIClock, Authority: c.kind.Authority,
		Succession: store.Succession, Consumers: c.consumers(f), Brings: store.Brought.Secret != "" || c.givenUp(f),
		Brought: store.Brought.Authority}
	for _, part := range c.needed(f) {
		h := store.Held[part]
		out.Held = append(out.Held, rotation.Held{Profile: c.profile(part), Leaf: h.Leaf, Trust: h.Trust})
	}
	return out
}

// givenUp reports whether nothing is to be locked any more by an authority that was brought. None follows it: that
// would restart once more what is about to lose its certificates.
func (c *connection) givenUp(f *cluster.Facts) bool {
	current := c.store(f).Succession.Current
	return !f.WantsTLS() && current != nil && !rotation.Made(c.kind.Authority, current.Certificate)
}

// pods are the consumers that the pods of a component are, by the certificate of a part.
func pods(f *cluster.Facts, kind *tlssecret.Kind, component string, part tlssecret.Part) []rotation.Consumer {
	return consumersOf(poddiagnosis.All(&f.Kube, component), kind, part, func(p *corev1.Pod) string {
		return fmt.Sprintf("pod %s on node %s", p.Name, p.Spec.NodeName)
	})
}

// consumersOf are those of these pods that have not ended. Each runs with what its pod was made with.
func consumersOf(pods []*corev1.Pod, kind *tlssecret.Kind, part tlssecret.Part,
	name func(*corev1.Pod) string) (out []rotation.Consumer) {
	for _, p := range pods {
		if poddiagnosis.Ended(p) {
			continue
		}
		leaf, trust, _ := kind.Of(p.Annotations)
		out = append(out, rotation.Consumer{Name: name(p), Leaf: string(part), Known: true, RunsLeaf: leaf,
			RunsTrust: trust})
	}
	return out
}

// sorted puts consumers in an order that stays the same.
func sorted(c []rotation.Consumer) []rotation.Consumer {
	slices.SortFunc(c, func(a, b rotation.Consumer) int { return cmp.Compare(a.Name, b.Name) })
	return c
}

// expires is the certificate in use that expires first.
func expires(f *cluster.Facts) (name string, at time.Time) {
	for _, c := range Status(f) {
		if at.IsZero() || c.NotAfter.Time.Before(at) {
			name, at = c.Name, c.NotAfter.Time
		}
	}
	return name, at
}
