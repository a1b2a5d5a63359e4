package e2e

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/tlsspec"
	"github.com/linstor-dev/storagecluster-operator/pkg/certificates"
	"github.com/linstor-dev/storagecluster-operator/pkg/certificates/javastore"
	inroom "github.com/linstor-dev/storagecluster-operator/pkg/phases/certificates"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/apitls"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/netcomtls"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/tlssecret"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
	"github.com/linstor-dev/storagecluster-operator/test/machine"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster"
)

func setTLS(mode tlsspec.Mode) func(*v1alpha1.StorageCluster) {
	return func(c *v1alpha1.StorageCluster) { c.Spec.TLS.Mode = mode }
}

// apiSecret is one of the Secrets that lock the API.
func (e *env) apiSecret(name string) *corev1.Secret {
	e.T.Helper()
	s := &corev1.Secret{}
	if err := e.Client().Get(e.Ctx, client.ObjectKey{Namespace: v1alpha1.WorkloadNamespace, Name: name}, s); err != nil {
		e.T.Fatal(err)
	}
	return s
}

// asks is LINSTOR's answer over TLS to who shows that certificate; nil for none.
func (e *env) asks(trust certificates.Bundle, own *certificates.Leaf, path string) (int, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: trust.Pool()}
	if own != nil {
		cert := own.TLS()
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &cert, nil }
	}
	transport := &http.Transport{TLSClientConfig: config}
	defer transport.CloseIdleConnections()
	_, locked := simcluster.LinstorPorts(e.Sim)
	resp, err := (&http.Client{Transport: transport, Timeout: machine.Slow(10 * time.Second)}).Get(locked + path)
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}

// TestLockedFromTheBeginning: one manifest leads to Ready, and LINSTOR lets in those alone who have a certificate.
func TestLockedFromTheBeginning(t *testing.T) {
	e := start(t, harness.Nodes(2))
	e.Run()
	e.Apply(harness.Manifest("  tls: {mode: Managed}\n" + driven))
	e.says(conditions.CertificatesValid, "True/"+conditions.ReasonAsExpected, "all certificates are valid")
	e.says(conditions.VolumeDriverReady, "True/DriverRunning", "2 of 2 nodes")
	operators := e.apiSecret(apitls.Kind.Secret(apitls.Operator))
	trust, err := certificates.ReadTrust(operators.Name, operators.Data)
	if err != nil {
		t.Fatal(err)
	}
	own, err := certificates.ReadLeaf(operators.Name, operators.Data)
	if err != nil {
		t.Fatal(err)
	}
	other, err := certificates.NewAuthority("somebody else's", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := other.Sign(certificates.Profile{Name: "linstor-operator", Uses: certificates.Client}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/v1/controller/version", "/v1/nodes", "/health", "/metrics"} {
		for name, leaf := range map[string]*certificates.Leaf{"no certificate": nil, "another authority's": foreign} {
			if status, err := e.asks(trust, leaf, path); err == nil {
				t.Errorf("%s gets %d from %s", name, status, path)
			}
		}
	}
	if status, err := e.asks(trust, own, "/v1/controller/version"); err != nil || status != http.StatusOK {
		t.Errorf("the operator's own certificate gets %d, %v", status, err)
	}
	plain, _ := simcluster.LinstorPorts(e.Sim)
	if resp, err := http.Get(plain + "/health"); err == nil {
		_ = resp.Body.Close()
		t.Errorf("plain HTTP answers %s from outside of the pod", resp.Status)
	}
	if err := harness.Encrypted(&e.Administrator, true, 2); err != nil {
		t.Error(err)
	}
	if n := len(e.Get().Status.Certificates); n < 8 {
		t.Errorf("the status lists %d certificates", n)
	}
	e.Remove()
	e.WaitGone()
	if left := e.Owned(); len(left) > 2 {
		t.Errorf("left after the deletion: %v", left)
	}
}

// TestLockedOnAndOff: a cluster that runs is locked, and opened again, and nothing of the certificates is left then.
func TestLockedOnAndOff(t *testing.T) {
	e := start(t, harness.Nodes(2))
	e.Run()
	e.Apply(harness.Manifest(driven))
	e.says(conditions.CertificatesValid, "True/"+inroom.ReasonNotWanted, "is Disabled")
	e.Update(setTLS(tlsspec.Managed))
	e.says(conditions.CertificatesValid, "True/"+conditions.ReasonAsExpected, "all certificates are valid")
	e.says(conditions.VolumeDriverReady, "True/DriverRunning", "2 of 2 nodes")
	e.Eventually("satellites are locked", func() error { return harness.Encrypted(&e.Administrator, true, 2) })
	e.Update(setTLS(tlsspec.Disabled))
	e.says(conditions.CertificatesValid, "True/"+inroom.ReasonNotWanted, "is Disabled")
	e.Eventually("no Secret is left", func() error {
		var list corev1.SecretList
		if err := e.Client().List(e.Ctx, &list, client.InNamespace(v1alpha1.WorkloadNamespace),
			client.MatchingLabels{v1alpha1.LabelComponent: tlssecret.Component}); err != nil || len(list.Items) > 0 {
			return fmt.Errorf("%d are left, %w", len(list.Items), err)
		}
		return nil
	})
	e.Eventually("satellites are open", func() error { return harness.Encrypted(&e.Administrator, false, 2) })
}

// TestLockedClaims: a pod's volume stays in use while the API is locked and opened again, and claims that are made
// meanwhile are bound by Kubernetes' own sidecars.
func TestLockedClaims(t *testing.T) {
	e := withDriver(t, 2)
	e.class("one", storagev1.VolumeBindingImmediate, map[string]string{"placementCount": "1"})
	first := e.claim("first", "one", "64Mi")
	e.bound(first)
	user := e.pod("user", first.Name, "", "write /data/greeting hello", "hold")
	e.phase(user, corev1.PodRunning)
	for _, step := range []struct {
		mode   tlsspec.Mode
		reason string
	}{{tlsspec.Managed, conditions.ReasonAsExpected}, {tlsspec.Disabled, inroom.ReasonNotWanted}} {
		e.Update(setTLS(step.mode))
		c := e.claim(strings.ToLower(string(step.mode)), "one", "64Mi")
		e.bound(c)
		e.says(conditions.CertificatesValid, "True/"+step.reason, "")
		e.says(conditions.VolumeDriverReady, "True/DriverRunning", "2 of 2 nodes")
		e.phase(user, corev1.PodRunning)
		remove(e.env, c)
		gone(e.env, c)
	}
	remove(e.env, user)
	gone(e.env, user)
	reader := e.pod("reader", first.Name, "", "read /data/greeting")
	e.phase(reader, corev1.PodSucceeded)
	if got := said(reader); got != "hello" {
		t.Errorf("the volume has %q", got)
	}
}

// TestLockedRenewal: an authority that is due is followed by another one, and a certificate that is due is made anew,
// while the cluster runs.
func TestLockedRenewal(t *testing.T) {
	e := start(t, harness.Nodes(1))
	due := []*certificates.Authority{harness.DueAuthority(&e.Administrator, &apitls.Kind),
		harness.DueAuthority(&e.Administrator, &netcomtls.Kind)}
	e.Run()
	e.Apply(harness.Manifest("  tls: {mode: Managed}\n" + driven))
	e.WaitStatus("the authorities that were due are gone", func(s *v1alpha1.StorageClusterStatus) bool {
		known := func(c tlsspec.CertificateStatus) bool {
			return slices.ContainsFunc(due,
				func(a *certificates.Authority) bool { return c.Name == a.Certificate.Subject.CommonName })
		}
		return s.FirstReady != nil && len(s.Certificates) > 0 && !slices.ContainsFunc(s.Certificates, known)
	})
	e.says(conditions.CertificatesValid, "True/"+conditions.ReasonAsExpected, "all certificates are valid")
	e.says(conditions.VolumeDriverReady, "True/DriverRunning", "1 of 1 nodes")
	e.Eventually("the satellite is connected", func() error { return harness.Encrypted(&e.Administrator, true, 1) })

	authorities := e.apiSecret(apitls.Kind.AuthoritySecret())
	succession, err := certificates.ReadSuccession(authorities.Name, authorities.Data)
	if err != nil {
		t.Fatal(err)
	}
	if len(succession.Trust()) != 1 {
		t.Errorf("%d authorities are trusted in the end", len(succession.Trust()))
	}
	// Authorities begin an hour before they were made, and sign for whoever asks them.
	another, err := succession.Current.Sign(certificates.Profile{Name: string(apitls.DriverNode),
		Uses: certificates.Client}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	secret := e.apiSecret(apitls.Kind.Secret(apitls.DriverNode))
	before := secret.DeepCopy()
	if secret.Data, err = another.Data(succession.Trust()); err != nil {
		t.Fatal(err)
	}
	if err := e.Client().Update(e.Ctx, secret); err != nil {
		t.Fatal(err)
	}
	e.Eventually("the driver's pod has the other certificate", func() error {
		var pods corev1.PodList
		if err := e.Client().List(e.Ctx, &pods, client.MatchingLabels{
			v1alpha1.LabelComponent: v1alpha1.ComponentDriverNode}); err != nil {
			return err
		}
		for i := range pods.Items {
			leaf, _, _ := apitls.Kind.Of(pods.Items[i].Annotations)
			if pods.Items[i].DeletionTimestamp == nil && leaf == another.Hash() {
				return nil
			}
		}
		return fmt.Errorf("none of %d pods has; it had %s", len(pods.Items), before.ResourceVersion)
	})
	e.says(conditions.CertificatesValid, "True/"+conditions.ReasonAsExpected, "all certificates are valid")
}

// TestLockedUpgrade: LINSTOR is locked and upgraded by one change of the spec, and opened by another one.
func TestLockedUpgrade(t *testing.T) {
	e := oldCluster(t, 3)
	e.Update(func(c *v1alpha1.StorageCluster) {
		setTLS(tlsspec.Managed)(c)
		setVersion(newVersion)(c)
	})
	e.upgraded(3)
	e.says(conditions.CertificatesValid, "True/"+conditions.ReasonAsExpected, "all certificates are valid")
	e.Eventually("satellites are locked", func() error { return harness.Encrypted(&e.Administrator, true, 3) })
	e.Update(setTLS(tlsspec.Disabled))
	e.says(conditions.CertificatesValid, "True/"+inroom.ReasonNotWanted, "is Disabled")
	e.Eventually("satellites are open", func() error { return harness.Encrypted(&e.Administrator, false, 3) })
	e.WaitPhase(v1alpha1.PhaseReady)
}

// expire puts in place of all certificates of a kind ones that have expired, as if nobody had run the operator since.
func expire(e *env, kind *tlssecret.Kind, authority *certificates.Authority) {
	e.T.Helper()
	for _, part := range kind.Parts {
		s := &corev1.Secret{}
		key := client.ObjectKey{Namespace: v1alpha1.WorkloadNamespace, Name: kind.Secret(part)}
		if err := e.Client().Get(e.Ctx, key, s); apierrors.IsNotFound(err) {
			continue
		} else if err != nil {
			e.T.Fatal(err)
		}
		// A third use than it needs does no harm: it is refused for its time.
		l, err := authority.Sign(certificates.Profile{Name: string(part), Uses: certificates.Both},
			time.Now().Add(-200*24*time.Hour))
		if err != nil {
			e.T.Fatal(err)
		}
		trust := certificates.NewBundle(authority.Certificate)
		data, err := javastore.Data(l, trust)
		if err != nil {
			e.T.Fatal(err)
		}
		for entry, content := range data {
			if _, has := s.Data[entry]; has {
				s.Data[entry] = content
			}
		}
		if err := e.Client().Update(e.Ctx, s); err != nil {
			e.T.Fatal(err)
		}
	}
}

// TestLockedAway: after a year without operator, in which all certificates have expired and all programs were started
// anew, so that nobody speaks to anybody, an operator that comes back makes new ones, and brings them to all.
func TestLockedAway(t *testing.T) {
	e := start(t, harness.Nodes(3))
	e.Timing.Straggler = machine.Slow(time.Second) // how long satellites are not reached before they are restarted
	year := 365 * 24 * time.Hour
	authorities := map[*tlssecret.Kind]*certificates.Authority{}
	for _, kind := range []*tlssecret.Kind{&apitls.Kind, &netcomtls.Kind} {
		authorities[kind] = harness.OldAuthority(&e.Administrator, kind, year)
	}
	e.Run()
	e.Apply(harness.Manifest("  tls: {mode: Managed}\n" + driven))
	e.says(conditions.CertificatesValid, "True/"+conditions.ReasonAsExpected, "all certificates are valid")
	e.WaitPhase(v1alpha1.PhaseReady)
	e.StopOperator()
	for kind, authority := range authorities {
		expire(e, kind, authority)
	}
	before := uidsOf(e)
	if err := e.Client().DeleteAllOf(e.Ctx, &corev1.Pod{}, client.InNamespace(v1alpha1.WorkloadNamespace)); err != nil {
		t.Fatal(err)
	}
	e.Eventually("all was started anew, and LINSTOR reaches nobody", func() error {
		for uid := range uidsOf(e) {
			if before[uid] {
				return fmt.Errorf("pod %s is still there", uid)
			}
		}
		return harness.Encrypted(&e.Administrator, true, 0)
	})
	e.Run()
	e.says(conditions.CertificatesValid, "True/"+conditions.ReasonAsExpected, "all certificates are valid")
	e.Eventually("LINSTOR reaches all satellites", func() error { return harness.Encrypted(&e.Administrator, true, 3) })
	e.WaitPhase(v1alpha1.PhaseReady)
	e.says(conditions.VolumeDriverReady, "True/DriverRunning", "3 of 3 nodes")
}

// uidsOf are those of the pods that run for LINSTOR.
func uidsOf(e *env) map[types.UID]bool {
	e.T.Helper()
	var pods corev1.PodList
	if err := e.Client().List(e.Ctx, &pods, client.InNamespace(v1alpha1.WorkloadNamespace)); err != nil {
		e.T.Fatal(err)
	}
	out := map[types.UID]bool{}
	for i := range pods.Items {
		out[pods.Items[i].UID] = true
	}
	return out
}
