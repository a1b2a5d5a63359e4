package chaos

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/certificates"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
)

// TestSecretsOfAuthorities locks LINSTOR with authorities that are brought, of which one cannot be used at first, and
// one is spoiled later in a way that shows its key. No key is anywhere but in Secrets.
func TestSecretsOfAuthorities(t *testing.T) {
	a := newAviary(t, harness.Nodes(1))
	names := []string{"our-api", "our-nodes"}
	for _, name := range names {
		harness.BringAuthority(&a.Administrator, name)
		a.privateKey("the key of "+name, a.held(name)[certificates.EntryKey])
	}
	good := a.held("our-api")
	spoil := func(certificate, key []byte) {
		a.secret("our-api", "kubernetes.io/tls", map[string]string{certificates.EntryCertificate: string(certificate),
			certificates.EntryKey: string(key), certificates.EntryTrust: string(good[certificates.EntryTrust])})
	}
	says := func(want string) {
		t.Helper()
		a.Eventually("CertificatesValid says "+want, func() error {
			c := meta.FindStatusCondition(a.Get().Status.Conditions, conditions.CertificatesValid)
			if c == nil || !strings.Contains(c.Reason+": "+c.Message, want) {
				return fmt.Errorf("it is %+v", c)
			}
			return nil
		})
	}
	injected("secrets: unusable key")
	spoil(good[certificates.EntryCertificate], a.held("our-nodes")[certificates.EntryKey])
	a.Run()
	a.Apply(harness.Manifest("  tls: {mode: Managed, authorities: {apiSecret: our-api, satellitesSecret: our-nodes}}" +
		harness.ThinPool))
	says("tls.key of Secret our-api does not match the certificate in tls.crt")
	spoil(good[certificates.EntryCertificate], good[certificates.EntryKey])
	says(conditions.ReasonAsExpected)
	injected("secrets: Secret given or changed")
	spoil(append(good[certificates.EntryCertificate], good[certificates.EntryKey]...), good[certificates.EntryKey])
	says("tls.crt of Secret our-api contains a private key")
}
