// Package migrating replaces LINSTOR's database by a backup: it stops LINSTOR, has the backup compared with what lies
// on the nodes, asks a human, imports it, and compares it with what the database holds then. And it moves LINSTOR's
// data into another database, which needs no comparison with the nodes: nothing was done to them since.
//
// All of it follows from the claim and from what is there, so that a killed operator goes on where it was. Until the
// claim says that a backup is being imported, all can be taken back by removing the annotation; from then on no
// controller is started before the database holds a whole backup, that one or another. Whether an import was whole is
// judged by comparison, never by what LINSTOR's program or a controller says of it: a controller starts on half of a
// backup at times without a word (seen with linstor-server 1.34).
package migrating

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/restore"
	"github.com/linstor-dev/storagecluster-operator/pkg/decisiontable"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/specchange"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
)

// ReasonRestored is that of the Event about a backup that was restored, and ReasonTakenBack that of the one about an
// upgrade that was taken back with it.
const (
	ReasonRestored  = "BackupRestored"
	ReasonTakenBack = "UpgradeTakenBack"
)

// Run does what the first row that holds says.
func Run(ctx context.Context, in *step.Input) step.Outcome {
	c := situationOf(in)
	if c.s.Move != nil {
		moveTable.Decide(c)
	} else {
		table.Decide(c)
	}
	if c.next != nil {
		if err := c.next(ctx); err != nil {
			return step.Fail(err)
		}
	}
	switch {
	case c.event != "":
		return step.Move(c.event, c.reason, c.message)
	case c.hold != nil:
		return step.NeedsHuman(*c.hold)
	case c.s.Restore != nil:
		c.message = fmt.Sprintf("restore of backup %s: %s", c.s.Restore.ID, c.message)
		if to := c.s.Restore.BackTo; to != "" {
			c.message = fmt.Sprintf("rollback to LINSTOR %s: %s", to, c.message)
		}
	case c.s.Move != nil:
		c.message = fmt.Sprintf("move of LINSTOR's database to %s: %s", c.s.Move.To, c.message)
	}
	return step.Wait(c.reason, c.message, c.s.Timing.PollWorking)
}

// Pending is the outcome of a phase that makes room for a restore.
func Pending(s *cluster.Snapshot) (o step.Outcome, hits bool) {
	if s.Restore == nil || s.Target == nil {
		return step.Outcome{}, false
	}
	if h := s.Cluster.Status.Hold; s.Phase() == v1alpha1.PhaseHumanIntervention && h != nil &&
		(asksAboutRestore(h) || answered(s, h)) {
		return step.Outcome{}, false // it has the way out
	}
	return toRestore(s, fsm.RestoreRequested), true
}

// First is the outcome of Assessing where a restore or a move comes first. A change of the spec that can be taken up
// comes before a restore, since it may put right what that needs; what is refused waits, and nobody is asked about it
// meanwhile.
func First(s *cluster.Snapshot) (o step.Outcome, is bool) {
	switch {
	case s.Move != nil:
		return toMove(s), true
	case s.Target == nil || s.Restore == nil || specchange.Acceptable(s):
		return step.Outcome{}, false
	}
	return toRestore(s, fsm.RestorePending), true
}

func toRestore(s *cluster.Snapshot, e fsm.Event) step.Outcome {
	message := fmt.Sprintf("restore of backup %s requested", s.Restore.ID)
	if to := s.Restore.BackTo; to != "" {
		message = fmt.Sprintf("rolling back to LINSTOR %s: %s", to, message)
	}
	return step.Move(e, ReasonRequested, message)
}

// ReasonRequested is that of the change of phase when a restore is asked for.
const ReasonRequested = "RestoreRequested"

// answered reports whether the hold is ended by the answer that asks for the restore: nothing else takes its
// annotation away.
func answered(s *cluster.Snapshot, h *v1alpha1.Hold) bool {
	given, _, _ := strings.Cut(strings.TrimSpace(s.Cluster.Annotations[v1alpha1.AnnotationResume]), "@")
	return s.Restore.BackTo != "" && given == h.ID+":"+v1alpha1.OptionRollBack
}

func asksAboutRestore(h *v1alpha1.Hold) bool {
	return h.Reason == v1alpha1.HoldRestoreRequested || h.Reason == v1alpha1.HoldRestoreFailed
}

// Late is the hold of a restore or a move that makes no progress; nil for an import, which takes its time and shows
// none.
func Late(s *cluster.Snapshot, h *cluster.HoldRequest) *cluster.HoldRequest {
	p, fails := podOf(s), failed
	switch {
	case s.Move != nil:
		fails = notMoved
	case s.Restore == nil:
		return h
	}
	if p != nil && works(p) && podFailed(s, p) == "" {
		return nil
	}
	return fails(s, h.Message)
}

// works reports whether one of the pod's containers runs. A pod is Pending as long as those do that come first.
func works(p *corev1.Pod) bool {
	return p.DeletionTimestamp == nil && slices.ContainsFunc(
		slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses),
		func(c corev1.ContainerStatus) bool { return c.State.Running != nil })
}

// failed is the hold of a restore that cannot go on. Nothing is taken back once rows have been touched.
func failed(s *cluster.Snapshot, why string) *cluster.HoldRequest {
	h := cluster.Request(v1alpha1.HoldRestoreFailed, "LINSTOR is stopped, and backup %s has not been restored: %s",
		s.Restore.ID, why)
	h.Identities = []string{string(s.Restore.ID)}
	if s.Restore.Importing.ID != "" {
		h.Message += "; LINSTOR's database may now contain only part of a backup, so LINSTOR is not started until this " +
			"backup, or another one named in the " + v1alpha1.AnnotationRestore + " annotation, has been completely restored"
		h.Options = []string{v1alpha1.OptionRetry}
	}
	return h
}

// Ended reports whether a hold about a restore is about none that is wanted: the annotation is gone, or names another
// backup. One that asks ends as well once LINSTOR has been started by somebody else.
func Ended(s *cluster.Snapshot, h *v1alpha1.Hold) bool {
	if s.Restore == nil {
		_, claimed := s.Claim()
		return claimed // without a claim nobody knows whether half of a backup is in the database
	}
	if h.Reason == v1alpha1.HoldRestoreRequested && !s.Restore.Stopped {
		return true // LINSTOR runs once more, so that the comparison does not count
	}
	named := ""
	if len(h.Identities) > 0 {
		named = h.Identities[0]
	}
	about, _ := restore.ParseConsent(named)
	return named != string(s.Restore.ID) && about.ID != s.Restore.ID
}

// Markdown is the page about a restore, made from its table.
func Markdown() string {
	return decisiontable.Page("A restore of LINSTOR's database", "pkg/phases/migrating",
		"Each reconcile decides from scratch, based on the observed state and the records in the claim. The first row "+
			"that applies decides.", table.Markdown(), moveTable.Markdown())
}
