package certificates_test

import (
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/tlsspec"
	certs "github.com/linstor-dev/storagecluster-operator/pkg/certificates"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/apicerts"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/certificates"
)

// bring puts an authority into a Secret, as a human or cert-manager does.
func bring(t *testing.T, w *clustertest.World, name string, age time.Duration, called ...string) *certs.Authority {
	t.Helper()
	a, err := certs.NewAuthority(append(called, "theirs")[0], w.Now.Add(-age))
	if err != nil {
		t.Fatal(err)
	}
	data, err := (&certs.Leaf{Certificate: a.Certificate, Key: a.Key}).Data(nil)
	if err != nil {
		t.Fatal(err)
	}
	w.Kube.Secrets[name] = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: data}
	return a
}

// signs looks whether all certificates of one kind of connection are signed by an authority, or none.
func signs(t *testing.T, a *certs.Authority, s *apicerts.Store, want bool) {
	t.Helper()
	if len(s.Held) == 0 {
		t.Error("there are no certificates")
	}
	for part, h := range s.Held {
		if h.Leaf.SignedBy(a.Certificate) != want || len(h.Trust) != 1 {
			t.Errorf("%s is signed by it: %t, and trusts %d", part, !want, len(h.Trust))
		}
	}
}

// TestBrought: all certificates of one kind of connection are signed by the authority that is brought, its key is in
// no Secret but that of the authorities, and the Secret that it came in is left alone.
func TestBrought(t *testing.T) {
	w := made(t)
	w.Cluster.Spec.TLS.Authorities = &tlsspec.AuthoritiesSpec{SatellitesSecret: "mine"}
	w.Accept()
	const missing = "the Secret mine does not exist in namespace linstor-storage; create it with a CA certificate in " +
		"tls.crt and the CA's private key in tls.key; until then the operator signs with its current authority, which " +
		"expires at "
	if e := certificates.Judge(w.Snapshot()); e.Reason != certificates.ReasonAuthority || e.OK() ||
		!strings.HasPrefix(e.Message, missing) || work(t, w) != nil {
		t.Fatalf("%+v", e)
	}
	theirs := bring(t, w, "mine", 0)
	for range 4 {
		work(t, w)
		restart(w)
	}
	if calls := work(t, w); calls != nil || reason(w) != conditions.ReasonAsExpected {
		t.Fatalf("%v, %s", calls, reason(w))
	}
	k := kept(w)
	signs(t, theirs, &k.Netcom, true)
	signs(t, theirs, &k.API, false)
	entries(t, w)
	w.Now = w.Now.Add(5*365*day - 29*day)
	if e := certificates.Judge(w.Snapshot()); e.Reason != certificates.ReasonExpired {
		t.Errorf("%+v", e)
	}
	work(t, w)
	restart(w)
	if e := certificates.Judge(w.Snapshot()); e.Reason != certificates.ReasonAuthority ||
		!strings.Contains(e.Message, "tls.crt of Secret mine expires at 20") {
		t.Errorf("%+v", e)
	}
}

// TestBroughtFirst: a new cluster waits for the authority that is to be brought, and says so.
func TestBroughtFirst(t *testing.T) {
	w := world(t)
	w.Cluster.Spec.TLS.Authorities = &tlsspec.AuthoritiesSpec{APISecret: "mine"}
	w.Accept()
	calls := work(t, w)
	if e := certificates.Judge(w.Snapshot()); e.Reason != certificates.ReasonAuthority ||
		!strings.Contains(e.Message, "until then, certificates cannot be signed") || slices.ContainsFunc(calls,
		func(c string) bool { return strings.Contains(c, "-api-") }) {
		t.Fatalf("%v, %+v", calls, e)
	}
	w.Kube.Secrets["mine"] = &corev1.Secret{Data: map[string][]byte{"tls.crt": []byte("x")}}
	e := certificates.Judge(w.Snapshot())
	if !strings.Contains(e.Message, "tls.crt of Secret mine is not a certificate") {
		t.Errorf("%+v", e)
	}
	bring(t, w, "mine", 0)
	work(t, w)
	restart(w)
	if calls := work(t, w); calls != nil || reason(w) != conditions.ReasonAsExpected {
		t.Errorf("%v, %s", calls, reason(w))
	}
	if got := certificates.Status(&w.Snapshot().Facts)[0]; !strings.HasPrefix(got.Name, "theirs ") {
		t.Errorf("the status calls it %q", got.Name)
	}
}

// TestBroughtUnderOneName: authorities that cert-manager renews have one name, so that what LINSTOR announces does not
// tell which of them it takes.
func TestBroughtUnderOneName(t *testing.T) {
	w := world(t)
	w.Cluster.Spec.TLS.Authorities = &tlsspec.AuthoritiesSpec{APISecret: "mine"}
	w.Accept()
	first := bring(t, w, "mine", 0)
	work(t, w)
	restart(w)
	work(t, w)
	next := bring(t, w, "mine", 0)
	next.Certificate.RawSubject, next.Certificate.Subject = first.Certificate.RawSubject, first.Certificate.Subject
	k := apicerts.Kept{API: apicerts.Store{Succession: certs.Succession{Current: first, Next: next}},
		Seen: apicerts.Seen{Authorities: [][]byte{first.Certificate.RawSubject}}}
	if got := k.Trusts(); got != "" {
		t.Errorf("it is known whom LINSTOR takes: %s", got)
	}
	k.API.Succession.Next = nil
	if got := k.Trusts(); got != certs.NewBundle(first.Certificate).Hash() {
		t.Errorf("one alone is not known: %q", got)
	}
	k.Seen.Authorities = append(k.Seen.Authorities, []byte("somebody"))
	if got := k.Trusts(); got != "others" {
		t.Errorf("one that nobody knows is taken for %q", got)
	}
}

// TestBroughtKeys: what an authority has signed is known by its key, so that no two have one key.
func TestBroughtKeys(t *testing.T) {
	for name, tc := range map[string]struct {
		do   func(w *clustertest.World, first *corev1.Secret)
		says string
	}{
		"one for both": {func(w *clustertest.World, first *corev1.Secret) { w.Kube.Secrets["nodes"] = first },
			"has the same key as the authority for LINSTOR's other connections"},
		"the operator's own of the other kind": {func(w *clustertest.World, _ *corev1.Secret) {
			own := w.Kube.Secrets["linstor-netcom-authority"].Data
			w.Kube.Secrets["mine"] = &corev1.Secret{Data: map[string][]byte{"tls.crt": own["ca.crt"],
				"tls.key": own["ca.key"]}}
		}, "has the same key as the authority for LINSTOR's other connections"},
		"renewed without a new key": {func(w *clustertest.World, first *corev1.Secret) {
			w.Kube.Secrets["mine"] = renewed(t, first, w.Now)
		}, "has the same key as an earlier authority; create it with a new key"},
		"named as the operator's": {func(w *clustertest.World, _ *corev1.Secret) {
			bring(t, w, "mine", 0, "linstor-api")
		}, "has a common name reserved for authorities created by the operator; use a different common name"},
	} {
		t.Run(name, func(t *testing.T) {
			w := world(t)
			w.Cluster.Spec.TLS.Authorities = &tlsspec.AuthoritiesSpec{APISecret: "mine"}
			w.Accept()
			bring(t, w, "mine", 0)
			work(t, w)
			restart(w)
			if calls := work(t, w); calls != nil || reason(w) != conditions.ReasonAsExpected {
				t.Fatalf("%v, %s", calls, reason(w))
			}
			if name == "one for both" {
				w.Cluster.Spec.TLS.Authorities.SatellitesSecret = "nodes"
				w.Accept()
			}
			tc.do(w, w.Kube.Secrets["mine"])
			if e := certificates.Judge(w.Snapshot()); e.Reason != certificates.ReasonAuthority ||
				!strings.Contains(e.Message, tc.says) || work(t, w) != nil {
				t.Errorf("%+v", e)
			}
		})
	}
}

// renewed is an authority with the key of another one, and another name.
func renewed(t *testing.T, s *corev1.Secret, now time.Time) *corev1.Secret {
	t.Helper()
	a, err := certs.ReadBrought("mine", s.Data, now)
	if err != nil {
		t.Fatal(err)
	}
	template := *a.Certificate
	template.Subject.CommonName, template.SerialNumber = "renamed", big.NewInt(9)
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, a.Key.Signer().Public(), a.Key.Signer())
	if err != nil {
		t.Fatal(err)
	}
	return &corev1.Secret{Data: map[string][]byte{"tls.key": s.Data["tls.key"],
		"tls.crt": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}}
}

// TestBroughtAndDisabled: where nothing is to be locked any more, no authority follows the one that was brought.
func TestBroughtAndDisabled(t *testing.T) {
	w := world(t)
	w.Cluster.Spec.TLS.Authorities = &tlsspec.AuthoritiesSpec{APISecret: "mine"}
	w.Accept()
	bring(t, w, "mine", 0)
	work(t, w)
	restart(w)
	work(t, w)
	w.Cluster.Spec.TLS = tlsspec.TLSSpec{Mode: tlsspec.Disabled}
	w.Accept()
	if calls := work(t, w); calls != nil || reason(w) != certificates.ReasonRemoving {
		t.Errorf("%v, %s", calls, reason(w))
	}
}
