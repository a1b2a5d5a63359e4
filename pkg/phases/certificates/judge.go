package certificates

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/tlsspec"
	"github.com/linstor-dev/storagecluster-operator/pkg/certificates"
	"github.com/linstor-dev/storagecluster-operator/pkg/certificates/rotation"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/apitls"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

// Reasons of the condition CertificatesValid, beside the common ones.
const (
	// ReasonNotWanted: spec.tls.mode is Disabled.
	ReasonNotWanted = "NotWanted"
	// ReasonRemoving: it is Disabled, and certificates of before are still there.
	ReasonRemoving = "RemovingCertificates"
	// ReasonMaking: certificates are being made.
	ReasonMaking = "MakingCertificates"
	// ReasonRenewing: all are valid, and some program is to be started with newer ones.
	ReasonRenewing = "Renewing"
	// ReasonClock: the operator's clock and the API server's differ.
	ReasonClock = "ClocksDiffer"
	// ReasonOverdue: a program was not restarted with a newer certificate, and its own expires soon.
	ReasonOverdue = "RestartOverdue"
	// ReasonExpired: one has expired.
	ReasonExpired = "Expired"
)

// Judge judges the certificates. It is pure, and for a snapshot with an accepted spec.
func Judge(s *cluster.Snapshot) cluster.Evidence {
	f := &s.Facts
	if !Wanted(f) {
		if n := len(ours(f, func(string) bool { return true })); n > 0 {
			return cluster.Satisfied.Because(ReasonRemoving, "spec.tls.mode is Disabled: the certificates of before are "+
				"removed once no pod uses them")
		}
		return cluster.Satisfied.Because(ReasonNotWanted,
			"spec.tls.mode is Disabled: whoever reaches LINSTOR's REST API administers LINSTOR")
	}
	d := rotation.Decide(facts(f))
	if d.Row == rotation.RowClocks {
		return clocks(f)
	}
	if name, at := expires(f); !at.IsZero() && f.Now.After(at) {
		return cluster.Missing.Because(ReasonExpired, fmt.Sprintf("the certificate of %s has expired at %s", name,
			at.UTC().Format(time.RFC3339)))
	}
	waits := text.Listed(d.WaitsFor[:min(len(d.WaitsFor), mostNamed)], len(d.WaitsFor))
	switch {
	case d.Step == rotation.Rest:
		return cluster.Satisfied.Because(conditions.ReasonAsExpected, "all certificates are valid"+nextRenewal(f))
	case len(d.WaitsFor) > 0 && overdue(f):
		return cluster.Missing.Because(ReasonOverdue, "certificates were renewed weeks ago, and those of before expire "+
			"soon; not yet restarted with the newest: "+waits+suspended(f))
	case d.Step == rotation.Wait:
		return cluster.Satisfied.Because(ReasonRenewing, "all certificates are valid; not yet restarted with the newest: "+
			waits+suspended(f))
	case f.Certificates.Missing(&f.Target.Spec.TLS, needed(f)...) == "" && f.Certificates.Problem == nil:
		return cluster.Satisfied.Because(ReasonRenewing, "all certificates are valid, and one is about to be renewed"+
			suspended(f)+problems(f))
	default:
		return cluster.Missing.Because(ReasonMaking, "certificates are being made"+suspended(f)+problems(f))
	}
}

// overdue reports whether a certificate was renewed so long ago that the one of before, with which a program may still
// run, expires within ten days: it had a third of its life left.
func overdue(f *cluster.Facts) bool {
	const last = 10 * 24 * time.Hour
	left := certificates.LeafLifetime/3 - last
	return slices.ContainsFunc(needed(f), func(part apitls.Part) bool {
		l := f.Certificates.Held[part].Leaf
		return l != nil && f.Now.Sub(l.Certificate.NotBefore.Add(certificates.Backdate)) > left
	})
}

// suspended says that nothing is done, as a part of a message.
func suspended(f *cluster.Facts) string {
	if f.Cluster.Spec.Suspend {
		return "; spec.suspend is set, so that nothing is done"
	}
	return ""
}

// clocks says which clocks differ. How much they do is left out: it would be another message each time.
func clocks(f *cluster.Facts) cluster.Evidence {
	if f.Certificates.APIClock.IsZero() {
		return cluster.Unknown.Because(ReasonClock,
			"the clock of Kubernetes' API server is not known yet, and without it no certificate is judged")
	}
	which := "ahead of"
	if f.Now.Before(f.Certificates.APIClock) {
		which = "behind"
	}
	return cluster.Missing.Because(ReasonClock, fmt.Sprintf("the operator's clock is more than %d minutes %s that of "+
		"Kubernetes' API server: certificates are neither made nor renewed until both agree; set the clock right of the "+
		"node on which the operator runs, or of the control plane", int(rotation.MaxClockSkew.Minutes()), which))
}

// mostNamed bounds the list of programs in a message.
const mostNamed = 3

// nextRenewal is when the next certificate is made, as the end of a message.
func nextRenewal(f *cluster.Facts) string {
	var first *metav1.Time
	for _, c := range Status(f) {
		if c.RenewAfter != nil && (first == nil || c.RenewAfter.Before(first)) {
			first = c.RenewAfter
		}
	}
	if first == nil {
		return ""
	}
	return "; the next one is made anew after " + first.UTC().Format(time.RFC3339)
}

// problems are what of the Secrets cannot be used, as the end of a message.
func problems(f *cluster.Facts) string {
	out := ""
	add := func(err error) {
		if err != nil {
			out += "; " + text.OneLine(err.Error())
		}
	}
	add(f.Certificates.Problem)
	for _, part := range apitls.Parts() {
		add(f.Certificates.Held[part].Problem)
	}
	return out
}

// Status lists the certificates, authorities first.
func Status(f *cluster.Facts) []tlsspec.CertificateStatus {
	if !Wanted(f) {
		return nil
	}
	var out []tlsspec.CertificateStatus
	s := f.Certificates.Succession
	for _, a := range []*certificates.Authority{s.Current, s.Next} {
		if a != nil {
			renew := metav1.NewTime(a.RenewAt().UTC())
			out = append(out, entry(apitls.AuthoritySecret, &certificates.Leaf{Certificate: a.Certificate}, &renew))
		}
	}
	for _, c := range s.Old {
		out = append(out, entry(apitls.AuthoritySecret, &certificates.Leaf{Certificate: c}, nil))
	}
	slices.SortFunc(out, func(a, b tlsspec.CertificateStatus) int { return cmp.Compare(a.Name, b.Name) })
	for _, part := range needed(f) {
		if l := f.Certificates.Held[part].Leaf; l != nil {
			renew := metav1.NewTime(l.RenewAt().UTC())
			out = append(out, entry(part.Secret(), l, &renew))
		}
	}
	return slices.Clip(out[:min(len(out), tlsspec.MostCertificates)])
}

func entry(secret string, l *certificates.Leaf, renew *metav1.Time) tlsspec.CertificateStatus {
	c := l.Certificate
	return tlsspec.CertificateStatus{Name: c.Subject.CommonName, Secret: secret, Serial: c.SerialNumber.Text(16),
		NotAfter: metav1.NewTime(c.NotAfter.UTC()), RenewAfter: renew}
}
