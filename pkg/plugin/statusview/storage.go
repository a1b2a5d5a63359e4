package statusview

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/backupspec"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/tlsspec"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/tree"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

// pools has a line for each pool, unless there is only one.
func (b *builder) pools() tree.Item {
	p := &b.status.Pools
	out := tree.Item{Name: "Pools", State: tree.Well, Text: p.Summary + " ready"}
	if p.Summary == "" || len(p.ByPool) == 0 {
		return tree.Item{Name: "Pools", State: tree.Note, Text: "none"}
	}
	for i := range p.ByPool {
		out.Items = append(out.Items, b.pool(&p.ByPool[i]))
		out.State = tree.Worst(out.State, out.Items[i].State)
	}
	full := b.condition(conditions.PoolsNearlyFull)
	state := tree.Warn
	if b.unknown(&full) {
		state = tree.Unknown
	}
	if state == tree.Unknown || full.Status == metav1.ConditionTrue {
		out.State = tree.Worst(out.State, state)
		out.Items = append(out.Items, tree.Item{Name: "nearly full", State: state, Text: full.Message})
	}
	if len(out.Items) == 1 && out.State == tree.Well {
		only := out.Items[0]
		return tree.Item{Name: "Pools", State: tree.Well, Text: only.Name + ": " + only.Text}
	}
	return out
}

func (b *builder) pool(p *v1alpha1.PoolStatus) tree.Item {
	out := tree.Item{Name: p.Name, State: tree.Well,
		Text: fmt.Sprintf("%s, %d/%d nodes", p.Provider, p.Ready, p.Wanted)}
	if p.Ready < p.Wanted {
		out.State = tree.Warn
		if b.installing() {
			out.State = tree.Busy
		}
	}
	if space := Space(p.Capacity, p.Free); space != "" {
		out.Text += ", " + space
	}
	if p.Skipped > 0 {
		out.Text += fmt.Sprintf("; skipped on %s (%s)", text.NodesOf(int(p.Skipped)),
			text.Listed(p.SkippedNodes, int(p.Skipped)))
	}
	return out
}

// Space is a capacity and what is free of it; "" if it is not known.
func Space(capacity, free *resource.Quantity) string {
	switch {
	case capacity == nil || capacity.IsZero():
		return ""
	case free == nil:
		return capacity.String()
	default:
		return fmt.Sprintf("%s, %s free (%.0f %%)", capacity, free,
			100*free.AsApproximateFloat64()/capacity.AsApproximateFloat64())
	}
}

// volumes counts the volumes that lack copies.
func (b *builder) volumes() tree.Item {
	v, healthy := b.status.Volumes, b.condition(conditions.VolumesHealthy)
	if b.unknown(&healthy) { // the counts are those of before
		return tree.Item{Name: "Volumes", State: tree.Unknown, Text: told(&healthy)}
	}
	if v == nil {
		return tree.Item{Name: "Volumes", State: tree.Note, Text: "not checked yet"}
	}
	if v.Total == 0 {
		return tree.Item{Name: "Volumes", State: tree.Well, Text: "none"}
	}
	out := tree.Item{Name: "Volumes", State: tree.Well, Text: fmt.Sprintf("%d, no replicas missing", v.Total)}
	var short []string
	for _, c := range []struct {
		n     int32
		what  string
		state tree.State
	}{{v.Unavailable, "unavailable", tree.Bad}, {v.Degraded, "degraded", tree.Warn},
		{v.Resyncing, "resyncing", tree.Busy}} {
		if c.n > 0 {
			out.State = tree.Worst(out.State, c.state)
			short = append(short, fmt.Sprintf("%d %s", c.n, c.what))
		}
	}
	if len(short) > 0 {
		out.Text = fmt.Sprintf("%s of %d", strings.Join(short, ", "), v.Total)
		if healthy.Status == metav1.ConditionFalse {
			out.Text += orNothing(": ", healthy.Message)
		}
	}
	return out
}

// certificates is one line while all is well, and lists them otherwise.
func (b *builder) certificates() tree.Item {
	valid := b.condition(conditions.CertificatesValid)
	out := tree.Item{Name: "Certificates", State: linkState(&valid), Text: told(&valid)}
	certs := slices.Clone(b.status.Certificates)
	slices.SortStableFunc(certs, func(x, y tlsspec.CertificateStatus) int {
		return x.NotAfter.Compare(y.NotAfter.Time)
	})
	switch {
	case valid.Reason == reasonNotWanted && len(certs) == 0:
		out.Text = "none: LINSTOR runs without TLS; to enable TLS, set spec.tls.mode: Managed"
		return out
	case out.State == tree.Unknown && b.installing():
		out.State = tree.Note
		return out
	}
	for i := range certs {
		item := b.certificate(&certs[i])
		out.State = tree.Worst(out.State, item.State)
		out.Items = append(out.Items, item)
	}
	if valid.Status == metav1.ConditionTrue && out.State.WorseThan(tree.Busy) {
		out.Text = "not all certificates are valid" // the operator has not noticed it
	}
	if out.State == tree.Well && len(certs) > 0 {
		out.Text = fmt.Sprintf("%d valid; %s expires first, in %s", len(certs), certs[0].Name,
			Ago(certs[0].NotAfter.Sub(b.Now)))
		out.Items = nil
	}
	return out
}

// overdue is how long after its time a certificate may be renewed before that is noteworthy.
const overdue = time.Hour

func (b *builder) certificate(c *tlsspec.CertificateStatus) tree.Item {
	out := tree.Item{Name: c.Name, State: tree.Well, Text: "expires in " + Ago(c.NotAfter.Sub(b.Now))}
	switch {
	case !c.NotAfter.After(b.Now):
		out.State, out.Text = tree.Bad, "expired "+Ago(b.Now.Sub(c.NotAfter.Time))+" ago"
	case c.RenewAfter != nil && b.Now.Sub(c.RenewAfter.Time) > overdue:
		out.State = tree.Warn
		out.Text += ", but should have been renewed " + Ago(b.Now.Sub(c.RenewAfter.Time)) + " ago"
	}
	return out
}

// backups is the last one, the next one, and what keeps one from being taken.
func (b *builder) backups() tree.Item {
	ready := b.condition(conditions.BackupReady)
	out := tree.Item{Name: "Backups", State: linkState(&ready)}
	if b.Cluster.Spec.Backup == nil && b.status.Backup == nil {
		return tree.Item{Name: "Backups", State: tree.Note, Text: "none: spec.backup is not set"}
	}
	switch {
	case out.State == tree.Bad:
		out.State = tree.Warn // Ready does not depend on it
	case out.State == tree.Unknown && b.installing():
		out.State = tree.Note
	}
	s := b.status.Backup
	if s == nil {
		out.Text = told(&ready)
		return out
	}
	parts := []string{"none yet"}
	if s.Last != nil {
		parts = []string{"last " + b.lastBackup(s.Last)}
	}
	if s.Next != nil {
		parts = append(parts, "next in "+Ago(s.Next.Sub(b.Now)))
	}
	out.Text = strings.Join(parts, "; ")
	if out.State != tree.Well {
		out.Items = append(out.Items, tree.Item{Name: cmp.Or(ready.Reason, conditions.BackupReady), State: out.State,
			Text: ready.Message})
	}
	if s.Last != nil && s.Last.Problem != "" {
		out.Items = append(out.Items, tree.Item{Name: s.Last.ID, State: tree.Warn, Text: s.Last.Problem})
		out.State = tree.Worst(out.State, tree.Warn)
	}
	return out
}

// lastBackup is a backup that was taken, in words.
func (b *builder) lastBackup(l *backupspec.Backup) string {
	return fmt.Sprintf("%s ago (%s)", Ago(b.Now.Sub(l.Taken.Time)), l.ID)
}
