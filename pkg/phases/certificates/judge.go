package certificates

import (
	"cmp"
	"crypto/x509"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/tlsspec"
	"github.com/linstor-dev/storagecluster-operator/pkg/certificates"
	"github.com/linstor-dev/storagecluster-operator/pkg/certificates/rotation"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/tlsmode"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/tlssecret"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

// Reasons of the condition CertificatesValid, beside the common ones.
const (
	// ReasonNotWanted: spec.tls.mode is Disabled, or not set and the cluster is open as it was before.
	ReasonNotWanted = "NotWanted"
	// ReasonRemoving: the same, and certificates of before are still there.
	ReasonRemoving = "RemovingCertificates"
	// ReasonMaking: certificates are being made.
	ReasonMaking = "MakingCertificates"
	// ReasonRenewing: all are valid, and some program is to be started with newer ones.
	ReasonRenewing = "Renewing"
	// ReasonSwitching: all are valid, and some program does not use one yet, so that it is open.
	ReasonSwitching = "SwitchingOn"
	// ReasonClock: the operator's clock and the API server's differ.
	ReasonClock = "ClocksDiffer"
	// ReasonOverdue: a program was not restarted with a newer certificate, and its own expires soon.
	ReasonOverdue = "RestartOverdue"
	// ReasonAuthority: the authority that is brought is missing, or cannot be used, as one that ends soon.
	ReasonAuthority = "AuthorityNotUsable"
	// ReasonExpired: one has expired.
	ReasonExpired = "Expired"
)

// Judge judges the certificates. It is pure, and for a snapshot with an accepted spec.
func Judge(s *cluster.Snapshot) cluster.Evidence {
	f := &s.Facts
	if name, at := expires(f); !at.IsZero() && f.Now.After(at) && !clocksDiffer(f) {
		return cluster.Missing.Because(ReasonExpired, fmt.Sprintf("the certificate of %s expired at %s", name,
			at.UTC().Format(time.RFC3339)))
	}
	if !f.WantsTLS() {
		return notWanted(f)
	}
	out, says := cluster.Satisfied.Because(conditions.ReasonAsExpected, ""), []string{valid}
	for _, c := range connections() {
		e := c.judge(f)
		switch {
		case !e.OK():
			return e
		case e.Reason == conditions.ReasonAsExpected:
			continue
		// What is open says more than what is renewed, and that more than what is out of sight.
		case len(says) == 1, e.Reason == ReasonSwitching, out.Reason == conditions.ReasonControllerUnreachable:
			out = e
		}
		says = append(says, e.Message)
	}
	out.Message = strings.Join(says, "; ")
	if len(says) == 1 {
		out.Message += nextRenewal(f)
	} else {
		out.Message += suspended(f) + problems(f)
	}
	return out
}

// valid is what all messages about certificates that are in order begin with.
const valid = "all certificates are valid"

func notWanted(f *cluster.Facts) cluster.Evidence {
	why, cure := "spec.tls.mode is Disabled", "; to secure both, set spec.tls.mode to Managed"
	switch tlsmode.Named(&f.Cluster.Spec.TLS) {
	case "":
		why = "spec.tls.mode is not set, so this existing cluster keeps running without TLS"
	case tlsspec.Disabled:
	case tlsspec.Managed:
		why, cure = "spec.tls has not been applied yet, and the cluster runs without TLS until then", ""
	}
	for _, c := range connections() {
		if n := len(c.ours(f, func(string) bool { return true })); n > 0 {
			return cluster.Satisfied.Because(ReasonRemoving, why+": existing certificates are removed once no pod uses them")
		}
	}
	return cluster.Satisfied.Because(ReasonNotWanted, why+": anyone who can reach LINSTOR's REST API can administer "+
		"LINSTOR, and anyone who can reach a satellite's port 3366 has root access to its node"+cure)
}

// clocksDiffer reports whether no certificate can be judged now.
func clocksDiffer(f *cluster.Facts) bool {
	return rotation.Decide(api.facts(f)).Row == rotation.RowClocks
}

// judge judges those of one kind of connection.
func (c *connection) judge(f *cluster.Facts) cluster.Evidence {
	facts := c.facts(f)
	d := rotation.Decide(facts)
	if d.Row == rotation.RowClocks {
		return clocks(f)
	}
	store := c.store(f)
	if why := c.broughtTrouble(f); why != "" {
		return cluster.Missing.Because(ReasonAuthority, why)
	}
	behind, silent := apart(d.WaitsFor, facts.Consumers)
	switch open := withoutAny(facts.Consumers); {
	case d.Step == rotation.Rest:
		return cluster.Satisfied.Because(conditions.ReasonAsExpected, "")
	case len(behind) > 0 && c.overdue(f):
		return cluster.Missing.Because(ReasonOverdue, fmt.Sprintf("certificates for %s were renewed weeks ago; still "+
			"using the previous ones, which expire soon: %s", c.what, text.QuoteList(behind))+suspended(f))
	case d.Step == rotation.Wait && len(open) > 0:
		return cluster.Satisfied.Because(ReasonSwitching, fmt.Sprintf("not secured by TLS yet; still running without a "+
			"certificate for %s: %s", c.what, text.QuoteList(open)))
	case d.Step == rotation.Wait && len(behind) > 0:
		return cluster.Satisfied.Because(ReasonRenewing, fmt.Sprintf("waiting for a restart with the latest certificate "+
			"for %s: %s", c.what, text.QuoteList(behind)))
	case d.Step == rotation.Wait: // which says nothing of a restart
		return cluster.Satisfied.Because(conditions.ReasonControllerUnreachable, fmt.Sprintf("no response from %s, so the "+
			"certificate in use for %s is unknown", text.QuoteList(silent), c.what))
	case store.Missing(c.needed(f)...) == "" && store.Problem == nil:
		return cluster.Satisfied.Because(ReasonRenewing, fmt.Sprintf("a certificate for %s is about to be renewed", c.what))
	default:
		return cluster.Missing.Because(ReasonMaking, fmt.Sprintf("certificates for %s are being issued", c.what)+
			suspended(f)+problems(f))
	}
}

// apart separates those that run with something else from those that do not show what they run with, by their names.
func apart(waitsFor []string, consumers []rotation.Consumer) (behind, silent []string) {
	waits := sets.New(waitsFor...)
	for i := range consumers {
		switch c := &consumers[i]; {
		case !waits.Has(c.Name):
		case c.Known:
			behind = append(behind, c.Name)
		default:
			silent = append(silent, c.Name)
		}
	}
	return behind, silent
}

// broughtTrouble says what a human has to do about the authority that is brought; "" if nothing.
func (c *connection) broughtTrouble(f *cluster.Facts) string {
	store := c.store(f)
	problem := store.Brought.Problem
	if problem == nil {
		return ""
	}
	if current := store.Succession.Current; current.CanSign(f.Now) {
		return fmt.Sprintf("%s; until then the operator signs with its current authority, which expires at %s",
			text.OneLine(problem.Error()), current.Certificate.NotAfter.UTC().Format(time.RFC3339))
	}
	return text.OneLine(problem.Error()) + "; until then, certificates cannot be signed"
}

// withoutAny are the programs that run without a certificate, by their names.
func withoutAny(consumers []rotation.Consumer) (out []string) {
	for _, c := range consumers {
		if c.Known && c.RunsLeaf == "" {
			out = append(out, c.Name)
		}
	}
	return out
}

// overdue reports whether a certificate was renewed so long ago that the one of before, with which a program may still
// run, expires within ten days: it had a third of its life left.
func (c *connection) overdue(f *cluster.Facts) bool {
	const last = 10 * 24 * time.Hour
	left := certificates.LeafLifetime/3 - last
	return slices.ContainsFunc(c.needed(f), func(part tlssecret.Part) bool {
		l := c.store(f).Held[part].Leaf
		return l != nil && f.Now.Sub(l.Certificate.NotBefore.Add(certificates.Backdate)) > left
	})
}

// suspended says that nothing is done, as a part of a message.
func suspended(f *cluster.Facts) string {
	if f.Cluster.Spec.Suspend {
		return "; spec.suspend is set, so the operator does nothing"
	}
	return ""
}

// clocks says which clocks differ. How much they do is left out: it would be another message each time.
func clocks(f *cluster.Facts) cluster.Evidence {
	if f.Certificates.APIClock.IsZero() {
		return cluster.Unknown.Because(ReasonClock,
			"the Kubernetes API server's time is not known yet, and certificates cannot be validated without it")
	}
	which := "ahead of"
	if f.Now.Before(f.Certificates.APIClock) {
		which = "behind"
	}
	return cluster.Missing.Because(ReasonClock, fmt.Sprintf("the operator's clock is more than %d minutes %s that of "+
		"the Kubernetes API server: certificates are not issued or renewed until the clocks agree; correct the clock of "+
		"the operator's node or of the control plane", int(rotation.MaxClockSkew.Minutes()), which))
}

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
	return "; the next renewal takes place after " + first.UTC().Format(time.RFC3339)
}

// problems are what of the Secrets cannot be used, as the end of a message.
func problems(f *cluster.Facts) string {
	out := ""
	add := func(err error) {
		if err != nil {
			out += "; " + text.OneLine(err.Error())
		}
	}
	for _, c := range connections() {
		add(c.store(f).Problem)
		for _, part := range c.kind.Parts {
			add(c.store(f).Held[part].Problem)
		}
	}
	return out
}

// Status lists the certificates, authorities first. Those that nobody wants any more are in it until they are removed.
func Status(f *cluster.Facts) []tlsspec.CertificateStatus {
	if f.Target == nil {
		return nil
	}
	var out, leaves []tlsspec.CertificateStatus
	for _, c := range connections() {
		out = append(out, c.authorities(f)...)
		for _, part := range c.needed(f) {
			if l := c.store(f).Held[part].Leaf; l != nil {
				renew := metav1.NewTime(l.RenewAt().UTC())
				leaves = append(leaves, entry(c.kind.Secret(part), l, &renew))
			}
		}
	}
	out = append(out, leaves...)
	return slices.Clip(out[:min(len(out), tlsspec.MostCertificates)])
}

func (c *connection) authorities(f *cluster.Facts) (out []tlsspec.CertificateStatus) {
	s, secret := c.store(f).Succession, c.kind.AuthoritySecret()
	for _, a := range []*certificates.Authority{s.Current, s.Next} {
		if a != nil {
			renew := metav1.NewTime(a.RenewAt().UTC())
			out = append(out, entry(secret, &certificates.Leaf{Certificate: a.Certificate}, &renew))
		}
	}
	for _, old := range s.Old {
		out = append(out, entry(secret, &certificates.Leaf{Certificate: old}, nil))
	}
	slices.SortFunc(out, func(a, b tlsspec.CertificateStatus) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

func entry(secret string, l *certificates.Leaf, renew *metav1.Time) tlsspec.CertificateStatus {
	c := l.Certificate
	return tlsspec.CertificateStatus{Name: name(c), Secret: secret, Serial: c.SerialNumber.Text(16),
		NotAfter: metav1.NewTime(c.NotAfter.UTC()), RenewAfter: renew}
}

// name is what the status calls a certificate. An authority that is brought may have any name, or none but a country.
func name(c *x509.Certificate) string {
	words := []rune(strings.ToValidUTF8(cmp.Or(c.Subject.CommonName, c.Subject.String()), "?"))
	return string(words[:min(len(words), tlsspec.LongestName)])
}
