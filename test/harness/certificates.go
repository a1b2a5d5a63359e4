package harness

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/certificates"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/tlssecret"
	"github.com/linstor-dev/storagecluster-operator/test/sim"
)

// Encrypted says what of LINSTOR's connections to its satellites is not as wanted; nil if all of that many are. It
// looks at the connections themselves, not at what LINSTOR's API says.
func Encrypted(a *Administrator, want bool, satellites int) error {
	connections := sim.ConnectionsOf(a.Sim.World()).Encrypted()
	for node, encrypted := range connections {
		if encrypted != want {
			return fmt.Errorf("the connection to the satellite on %s is encrypted: %t", node, encrypted)
		}
	}
	if len(connections) != satellites {
		return fmt.Errorf("LINSTOR is connected to %d satellites, not %d", len(connections), satellites)
	}
	return nil
}

// DueAuthority makes the Secret of an authority that is due: a cluster that is locked begins with it, and another one
// follows.
func DueAuthority(a *Administrator, kind *tlssecret.Kind) *certificates.Authority {
	a.T.Helper()
	return OldAuthority(a, kind, (4*365+10)*24*time.Hour)
}

// OldAuthority makes the Secret of an authority that was made that long ago.
func OldAuthority(a *Administrator, kind *tlssecret.Kind, age time.Duration) *certificates.Authority {
	a.T.Helper()
	old, err := certificates.NewAuthority(kind.Authority, time.Now().Add(-age))
	if err != nil {
		a.T.Fatal(err)
	}
	data, err := certificates.Succession{Current: old}.Data()
	if err != nil {
		a.T.Fatal(err)
	}
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.WorkloadNamespace,
		Name: kind.AuthoritySecret(), Labels: resources.Labels(v1alpha1.ClusterName, tlssecret.Component)}, Data: data}
	if err := a.Client().Create(a.Ctx, s); err != nil {
		a.T.Fatal(err)
	}
	return old
}

// AuthorityName is the common name of authorities that BringAuthority makes.
const AuthorityName = "LINSTOR of these tests"

// BringAuthority puts an authority into a Secret as cert-manager does, in the place of the one that is there: each has
// the same name, and another key.
func BringAuthority(a *Administrator, secret string) *x509.Certificate {
	a.T.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.T.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()),
		Subject: pkix.Name{CommonName: AuthorityName}, NotBefore: time.Now().Add(-time.Minute),
		NotAfter: time.Now().AddDate(2, 0, 0), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		a.T.Fatal(err)
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		a.T.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.T.Fatal(err)
	}
	crt := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.WorkloadNamespace, Name: secret}}
	if _, err := controllerutil.CreateOrUpdate(a.Ctx, a.Client(), s, func() error {
		s.Type = corev1.SecretTypeTLS
		s.Data = map[string][]byte{"tls.crt": crt, "ca.crt": crt,
			"tls.key": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})}
		return nil
	}); err != nil {
		a.T.Fatal(err)
	}
	return c
}
