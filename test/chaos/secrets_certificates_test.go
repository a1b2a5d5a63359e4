package chaos

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/certificates"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/apitls"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/netcomtls"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
)

// privateKey has a key in PEM watched for, line by line and as Kubernetes encodes it once more.
func (a *aviary) privateKey(name string, text []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for line := range strings.SplitSeq(string(text), "\n") {
		if len(line) < 24 || strings.HasPrefix(line, "-----") {
			continue
		}
		a.forms[line] = name
		for skip := range 3 {
			shifted := base64.RawStdEncoding.EncodeToString([]byte(strings.Repeat("x", skip) + line))
			a.forms[shifted[4:len(shifted)-4]] = name + " in base64"
		}
	}
}

// TestSecretsOfCertificates locks LINSTOR's API with an authority that is due, so that all is made anew once. No key
// is anywhere but in its own Secret.
func TestSecretsOfCertificates(t *testing.T) {
	a := newAviary(t, harness.Nodes(1))
	old := harness.DueAuthority(&a.Administrator, &apitls.Kind)
	a.privateKey("the key of the first authority", a.held(apitls.Kind.AuthoritySecret())[certificates.EntryAuthorityKey])
	injected("secrets: an authority that is due")
	a.Run()
	a.Apply(harness.Manifest("  tls: {mode: Managed}\n  volumes: {driver: {mode: Managed}, canary: None}" +
		harness.ThinPool))
	a.Eventually("the authority has changed", func() error {
		var list corev1.SecretList
		if err := a.Client().List(a.Ctx, &list); err != nil {
			return err
		}
		for _, s := range list.Items {
			for _, entry := range []string{certificates.EntryKey, certificates.EntryAuthorityKey, certificates.EntryNextKey} {
				if slices.Contains(locks(), s.Name) {
					a.privateKey(entry+" of "+s.Name, s.Data[entry])
				}
			}
		}
		c := a.Get()
		if got := harness.Condition(c, conditions.CertificatesValid); got != "True/"+conditions.ReasonAsExpected {
			return fmt.Errorf("CertificatesValid is %s", got)
		}
		for _, st := range c.Status.Certificates {
			if st.Name == old.Certificate.Subject.CommonName {
				return fmt.Errorf("%s is still trusted", st.Name)
			}
		}
		return nil
	})
	a.WaitPhase(v1alpha1.PhaseReady)
	leaf, err := certificates.ReadLeaf("operator", a.held(apitls.Kind.Secret(apitls.Operator)))
	if err != nil {
		t.Fatal(err)
	}
	text, err := leaf.Key.PEM()
	if err != nil {
		t.Fatal(err)
	}
	injected("secrets: repeated by a program that fails")
	line := strings.Split(string(text), "\n")[1]
	a.Sim.Faults().SetCrash(resources.ControllerContainer, "", "cannot use the key "+line)
	a.Eventually("the controller's failure is told", func() error { return a.says("cannot use the key") })
}

// locks are the Secrets with keys of certificates.
func locks() []string { return slices.Concat(apitls.Kind.Secrets(), netcomtls.Kind.Secrets()) }

// held is what a Secret of the workloads' namespace has.
func (a *aviary) held(name string) map[string][]byte {
	a.T.Helper()
	var list corev1.SecretList
	if err := a.Client().List(a.Ctx, &list); err != nil {
		a.T.Fatal(err)
	}
	i := slices.IndexFunc(list.Items, func(s corev1.Secret) bool {
		return s.Namespace == v1alpha1.WorkloadNamespace && s.Name == name
	})
	if i < 0 {
		a.T.Fatalf("there is no Secret %s", name)
	}
	return list.Items[i].Data
}
