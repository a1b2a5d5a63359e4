package e2e

import (
	"crypto/x509"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/certificates"
	inroom "github.com/linstor-dev/storagecluster-operator/pkg/phases/certificates"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/apitls"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/netcomtls"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
)

// signedBy waits until that Secret has a certificate of the authority, and trusts nobody else.
func signedBy(e *env, secret string, authority *x509.Certificate) {
	e.T.Helper()
	e.Eventually("Secret "+secret+" to be of the authority alone", func() error {
		s := e.apiSecret(secret)
		leaf, err := certificates.ReadLeaf(secret, s.Data)
		if err != nil {
			return err
		}
		trust, err := certificates.ReadTrust(secret, s.Data)
		if err != nil {
			return err
		}
		if !leaf.SignedBy(authority) || len(trust) != 1 || !trust.Has(authority) {
			return fmt.Errorf("signed by it: %t, trusted are %d", leaf.SignedBy(authority), len(trust))
		}
		return nil
	})
}

// TestLockedByBroughtAuthorities: a cluster is locked by authorities that a human keeps. One of them is renewed under
// its old name, as cert-manager does, one is lost, and in the end the operator makes its own.
func TestLockedByBroughtAuthorities(t *testing.T) {
	e := start(t, harness.Nodes(2))
	e.Run()
	api := harness.BringAuthority(&e.Administrator, "our-api")
	e.Apply(harness.Manifest("  tls: {mode: Managed, authorities: {apiSecret: our-api, satellitesSecret: our-nodes}}\n" +
		driven))
	e.WaitStatus("an authority is missed", func(s *v1alpha1.StorageClusterStatus) bool {
		c := meta.FindStatusCondition(s.Conditions, conditions.CertificatesValid)
		return c != nil && c.Reason == inroom.ReasonAuthority &&
			strings.HasPrefix(c.Message, "the Secret our-nodes does not exist in namespace linstor-storage; create it")
	})
	nodes := harness.BringAuthority(&e.Administrator, "our-nodes")
	e.says(conditions.CertificatesValid, "True/"+conditions.ReasonAsExpected, "all certificates are valid")
	e.says(conditions.VolumeDriverReady, "True/DriverRunning", "2 of 2 nodes")
	encrypted := func() {
		t.Helper()
		e.Eventually("satellites are locked", func() error { return harness.Encrypted(&e.Administrator, true, 2) })
	}
	encrypted()
	signedBy(e, apitls.Kind.Secret(apitls.Operator), api)
	signedBy(e, netcomtls.Kind.Secret(netcomtls.Satellite), nodes)

	renewed := harness.BringAuthority(&e.Administrator, "our-api")
	signedBy(e, apitls.Kind.Secret(apitls.Operator), renewed)
	signedBy(e, apitls.Kind.Secret(apitls.Controller), renewed)
	e.says(conditions.CertificatesValid, "True/"+conditions.ReasonAsExpected, "all certificates are valid")
	e.says(conditions.VolumeDriverReady, "True/DriverRunning", "2 of 2 nodes")

	if err := e.Client().Delete(e.Ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "our-nodes",
		Namespace: v1alpha1.WorkloadNamespace}}); err != nil {
		t.Fatal(err)
	}
	e.says(conditions.CertificatesValid, "False/"+inroom.ReasonAuthority,
		"until then the operator signs with its current authority")
	encrypted()

	e.Update(func(c *v1alpha1.StorageCluster) { c.Spec.TLS.Authorities = nil })
	e.says(conditions.CertificatesValid, "True/"+conditions.ReasonAsExpected, "all certificates are valid")
	e.Eventually("the operator's own authorities", func() error {
		for _, secret := range []string{apitls.Kind.Secret(apitls.Driver), netcomtls.Kind.Secret(netcomtls.Satellite)} {
			trust, err := certificates.ReadTrust(secret, e.apiSecret(secret).Data)
			if err != nil {
				return err
			}
			if len(trust) != 1 || trust.Has(renewed) || trust.Has(nodes) {
				return fmt.Errorf("%s trusts %d, a brought one among them", secret, len(trust))
			}
		}
		return nil
	})
	encrypted()
}
