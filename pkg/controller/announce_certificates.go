package controller

import (
	"fmt"
	"slices"
	"time"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/tlsspec"
)

// reasonCertificateRenewed is the reason of an Event about a certificate that was replaced, or an authority that came
// after others. Those that are made when there was none have no Event: a cluster has many at its start. Nor has an
// authority that signs nothing any more.
const reasonCertificateRenewed = "CertificateRenewed"

// announceCertificates tells of each certificate that took the place of another one.
func (r *Reconciler) announceCertificates(before, after *v1alpha1.StorageCluster) {
	was := before.Status.Certificates
	for _, c := range after.Status.Certificates {
		same := func(o tlsspec.CertificateStatus) bool { return o.Serial == c.Serial }
		beside := func(o tlsspec.CertificateStatus) bool { return o.Secret == c.Secret }
		if c.RenewAfter == nil || slices.ContainsFunc(was, same) || !slices.ContainsFunc(was, beside) {
			continue
		}
		r.event(after, normal, reasonCertificateRenewed, c.Name+" "+c.Serial,
			fmt.Sprintf("certificate %s was renewed in Secret %s/%s; it is valid until %s", c.Name,
				v1alpha1.WorkloadNamespace, c.Secret, c.NotAfter.UTC().Format(time.RFC3339)))
	}
}

// measureCertificates sets the metric about certificates. Of several in a Secret the one counts that ends first,
// but for authorities that sign nothing any more: they are to end.
func (r *Reconciler) measureCertificates(c *v1alpha1.StorageCluster) {
	ends := map[string]float64{}
	for _, o := range c.Status.Certificates {
		if o.RenewAfter == nil {
			continue
		}
		at := float64(o.NotAfter.Unix())
		if old, ok := ends[o.Secret]; !ok || at < old {
			ends[o.Secret] = at
		}
	}
	r.Metrics.CertificateExpiry.Replace(ends)
}
