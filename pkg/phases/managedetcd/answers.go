package managedetcd

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/etcd"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/seats"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/etcdmember"
)

// Ended reports whether the cause of a hold about etcd is gone, as far as that can be seen now.
func Ended(s *cluster.Snapshot, h *v1alpha1.Hold) bool {
	if s.Target != nil && s.Target.Spec.Database.ManagedEtcd == nil {
		return true
	}
	return s.Etcd != nil && s.Etcd.Err == nil && !asks(s.Etcd, h.Reason)
}

// Asked reports whether a link's question is the one about members, and is the one that is open.
func Asked(s *cluster.Snapshot, e *cluster.Evidence) bool {
	h := s.Cluster.Status.Hold
	return h != nil && e.Hold != nil && e.Hold.Reason == h.Reason && asks(s.Etcd, h.Reason)
}

// Displaces reports whether the question about members takes the place of one about what LINSTOR lacks for want of
// them, which cannot be answered before; or of one about a changed spec or a move, behind which nobody would see it.
func Displaces(s *cluster.Snapshot, h *v1alpha1.Hold) bool {
	switch h.Reason {
	case v1alpha1.HoldDatabaseUnreachable, v1alpha1.HoldControllerFailed, v1alpha1.HoldOperationFailed:
		return s.Etcd.Recovers() && s.Etcd.Decision.Hold != nil
	case v1alpha1.HoldUnsupportedChange, v1alpha1.HoldMigrationFailed:
		return Urgent(s) != nil
	default:
		return false
	}
}

// Urgent is the question about members without a quorum; nil if there is none. It comes before a changed spec is
// refused and before LINSTOR's data is moved, which cannot be read then. A restore may be the answer to it.
func Urgent(s *cluster.Snapshot) *cluster.HoldRequest {
	e := s.Evidence[fsm.Database]
	if s.Restore != nil || !s.Etcd.Recovers() || e.State != cluster.Failed || e.Hold == nil ||
		!asks(s.Etcd, e.Hold.Reason) {
		return nil
	}
	return e.Hold
}

func asks(k *etcd.Known, reason v1alpha1.HoldReason) bool {
	return k != nil && k.Err == nil && k.Decision.Hold != nil && string(k.Decision.Hold.Reason) == string(reason)
}

// KeepAnswer stores an answer beside the notes, once. It reports whether the next step was decided on it: letting the
// hold go before would begin it anew.
func KeepAnswer(ctx context.Context, in *step.Input) (stored bool, err error) {
	k, id := in.Snapshot.Etcd, in.Answer.Hold.ID
	switch {
	case k == nil || k.Err != nil:
		return false, fmt.Errorf("etcd cannot be inspected, so option %s is still pending", in.Answer.Option)
	case k.Answers.Last == id:
		return k.Heard == id, nil
	}
	answers, notes, err := answered(in)
	if err != nil {
		return false, err
	}
	return false, step.IgnoreOutdated(hands{in: in}.keep(ctx, k.Facts.NotesVersion,
		map[string]any{etcdmember.KeyNotes: notes, etcdmember.KeyAnswers: answers}))
}

// answered are the answers and the notes with the present answer.
func answered(in *step.Input) (etcd.Answers, seats.Notes, error) {
	k, a := in.Snapshot.Etcd, in.Answer
	answers, notes := k.Answers, k.Facts.Notes
	answers.Last = a.Hold.ID
	switch a.Option {
	case v1alpha1.OptionAdopt:
		answers.Adopt, answers.AdoptOf = a.Hold.ID, k.Facts.KnownClusters()
	case v1alpha1.OptionForce, v1alpha1.OptionForsake:
		// Holds about the whole cluster list all nodes. To give up all members is never meant, and would end the
		// membership of each one that misses a look.
		members := named(in)
		if len(members) != 1 {
			return answers, notes, fmt.Errorf("%[2]s must name the node of exactly one member, as in "+
				"%[1]s:%[2]s@<node>; this value applies to %[3]d members (%[4]s)", a.Hold.ID, a.Option, len(members),
				strings.Join(members, ", "))
		}
		if a.Option == v1alpha1.OptionForsake {
			if asked := (etcd.Known{Facts: k.Facts, Answers: etcd.Answers{Forsaken: members}}); spent(&asked) {
				return answers, notes, fmt.Errorf("member %s is working, but forsake is only for members that are not: to "+
					"remove it anyway, run etcdctl member remove first", members[0])
			}
			answers.Forsaken = append(slices.Clone(answers.Forsaken), members...)
			break
		}
		answers.Force, answers.ForceID = members[0], a.Hold.ID
	default:
		notes = notes.Retried()
	}
	return answers, notes, nil
}

// named are the members on the nodes that the answer is for.
func named(in *step.Input) (names []string) {
	for _, s := range in.Snapshot.Etcd.Facts.Notes.Seats {
		if in.Answered(s.Node) {
			names = append(names, s.Name)
		}
	}
	return names
}

// consents are the members that are still given up. One that takes part, or that has no seat any more, is not:
// the consent was for what was wrong then. It would have the member removed months later, as soon as it misses one
// look.
func consents(k *etcd.Known) []string {
	list := k.Facts.Look.Members()
	return slices.DeleteFunc(slices.Clone(k.Answers.Forsaken), func(name string) bool {
		i := slices.IndexFunc(k.Facts.Notes.Seats, func(s seats.Seat) bool { return s.Name == name })
		if i < 0 {
			return true
		}
		seat := k.Facts.Notes.Seats[i]
		return slices.ContainsFunc(list, seat.Is) && k.Facts.Look.Fit(seat.URL(k.Facts.Sites[seat.Node]), seat.ID)
	})
}

// spent reports whether a human has given up a member that need not be given up any more.
func spent(k *etcd.Known) bool { return len(consents(k)) < len(k.Answers.Forsaken) }

// dropSpent stores the answers without what is spent.
func (h hands) dropSpent(ctx context.Context) error {
	k := h.in.Snapshot.Etcd
	answers := k.Answers
	answers.Forsaken = consents(k)
	return h.keep(ctx, k.Facts.NotesVersion, map[string]any{etcdmember.KeyAnswers: answers})
}
