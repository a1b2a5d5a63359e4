package harness

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
