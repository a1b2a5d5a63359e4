package harness

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/certificates"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/apitls"
)

// DueAuthority makes the Secret of an authority that is due: a cluster whose API is locked begins with it, and another
// one follows.
func DueAuthority(a *Administrator) *certificates.Authority {
	a.T.Helper()
	old, err := certificates.NewAuthority("linstor-api", time.Now().Add(-(4*365+10)*24*time.Hour))
	if err != nil {
		a.T.Fatal(err)
	}
	data, err := certificates.Succession{Current: old}.Data()
	if err != nil {
		a.T.Fatal(err)
	}
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.WorkloadNamespace,
		Name: apitls.AuthoritySecret, Labels: resources.Labels(v1alpha1.ClusterName, apitls.Component)}, Data: data}
	if err := a.Client().Create(a.Ctx, s); err != nil {
		a.T.Fatal(err)
	}
	return old
}
