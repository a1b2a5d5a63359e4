package migrating

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/epoch"
	"github.com/linstor-dev/storagecluster-operator/pkg/database/connection"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
)

// found is what is in the database that the data goes to.
type found int

const (
	// nothing that anybody needs: LINSTOR has never made its tables there; or it has an identity of its own and no nodes,
	// and an import was begun there, which ended before the first row.
	nothing found = iota
	// anothers: another LINSTOR's data, with or without nodes.
	anothers
	// ours: data of this LINSTOR, by its identity.
	ours
	// half: nodes without an identity, which an import has left that ended early. Kubernetes knows all of them, some, or
	// none.
	half
)

// verdict is what a move does with what is in the database that the data goes to. Where it neither compares nor
// refuses, the data is imported over it.
type verdict struct {
	// compares reports whether both databases are only compared. That is safe whatever is there: it may be the same
	// server under another address, or have a copy. That an earlier try has left it there cannot be told from that: the
	// name may have been given to another server since.
	compares bool
	// refused says why it is not used; "" if it is. newer reports whether that is because it has the newest data.
	refused string
	newer   bool
}

// judge judges what is in the database that the data goes to.
func judge(s *cluster.Snapshot) verdict {
	d := &s.Database
	sameKind := connection.SameKind(s.Move.From, s.Move.To)
	switch whose(s) {
	case nothing:
		return verdict{}
	case anothers:
		return verdict{refused: fmt.Sprintf("it contains data of another LINSTOR cluster (%s): use another database, or "+
			"empty this one if its data is no longer needed", d)}
	case ours:
		if sameKind {
			return verdict{compares: true} // LINSTOR itself may have nodes that Kubernetes does not know
		}
		if !tried(s) {
			return verdict{refused: fmt.Sprintf("it already contains data of this LINSTOR cluster (%s): use another database, "+
				"or empty this one if you are sure that its data is older", d)}
		}
		return overOurs(s)
	default: // half
		strangers := unknown(s)
		switch {
		case sameKind && len(strangers) < len(d.Nodes):
			return verdict{compares: true}
		case tried(s) && len(strangers) == 0:
			return verdict{}
		case tried(s):
			d = &cluster.Database{Contents: connection.Contents{Nodes: strangers}}
		}
		return verdict{refused: fmt.Sprintf("it already contains LINSTOR's %s: use another database, or empty this one "+
			"if its data is no longer needed", d)}
	}
}

// tried reports whether an import into the database may have been begun.
func tried(s *cluster.Snapshot) bool { return s.Move.Mark != "" && !s.Move.Same }

// whose says what is in the database that the data goes to.
func whose(s *cluster.Snapshot) found {
	claim, _ := s.Claim()
	d := &s.Database
	switch {
	case d.LocalID == claim.LocalID && d.LocalID != "":
		return ours
	case len(d.Nodes) == 0 && (d.LocalID == "" || tried(s)):
		return nothing
	case d.LocalID != "":
		return anothers
	default:
		return half
	}
}

// overOurs judges whether what an earlier try has left there is imported over. It is not if LINSTOR may have run on it
// since: a whole Kubernetes was put back then, with a claim that says that the data is still being moved.
func overOurs(s *cluster.Snapshot) verdict {
	claim, _ := s.Claim()
	d, number := &s.Database, epoch.Parse(claim.Epoch).Number
	switch {
	case epoch.Before(claim.Epoch, d.Epoch):
		return verdict{newer: true, refused: fmt.Sprintf("it contains newer data of this LINSTOR cluster: its %s property "+
			"is %s, but ConfigMap %s/%s contains %d. LINSTOR has probably run against this database, and Kubernetes was then "+
			"restored from an older backup", linstor.PropEpoch, d.Epoch, v1alpha1.WorkloadNamespace, resources.ClaimName,
			number)}
	case number == 0 && d.Epoch != "":
		return verdict{newer: true, refused: fmt.Sprintf("it contains data of this LINSTOR cluster that may be newer: its "+
			"%s property is %s, but ConfigMap %s/%s contains no number to compare it with", linstor.PropEpoch, d.Epoch,
			v1alpha1.WorkloadNamespace, resources.ClaimName)}
	default:
		return verdict{}
	}
}

// unknown are the nodes in the database that the data goes to which Kubernetes does not know.
func unknown(s *cluster.Snapshot) []string {
	return slices.DeleteFunc(slices.Clone(s.Database.Nodes), func(name string) bool {
		return slices.ContainsFunc(s.Kube.Nodes, func(n *corev1.Node) bool { return strings.EqualFold(n.Name, name) })
	})
}

// refuse makes the hold about a database that is not used as it is. Where it has the newest data nobody may give up
// the move: LINSTOR would be started on the older one.
func refuse(c *situation) {
	v := judge(c.s)
	if !v.newer {
		c.hold = notMoved(c.s, v.refused)
		return
	}
	c.hold = cluster.Request(v1alpha1.HoldMigrationFailed, "nothing was moved from %s to %s: %s. Determine which "+
		"database has the newest data before you change either of them, and do not revert spec.database", c.s.Move.From,
		c.s.Move.To, v.refused)
	c.hold.Identities, c.hold.Options = []string{c.s.Move.To}, []string{v1alpha1.OptionRetry}
}
