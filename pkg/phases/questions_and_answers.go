package phases

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/holdkind"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/nodespec"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/database/connection"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/canary"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/controller"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/database"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/deleting"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/disks"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/hold"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/leaving"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/managedetcd"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/massfailure"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/migrating"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/module"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/noderemoval"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/pools"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/specchange"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/upgrade"
	"github.com/linstor-dev/storagecluster-operator/pkg/remembered"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

// question is what the operator does about a reason of holds, beside what holdkind.Kind says of it. The holds that
// links and handlers begin by themselves, with nothing but a new look for an answer, need none.
type question struct {
	Reason v1alpha1.HoldReason
	// Ask is for a question about whole nodes: it finds those that the question is about now; nil if there are none.
	// known is false while that cannot be told: what is open then stays as it is. Such a hold follows the facts: nodes
	// that it is no longer about leave it, and it ends with the last one. The first rows are the most urgent.
	Ask func(s *cluster.Snapshot, among hold.NodeFilter) (r *cluster.HoldRequest, known bool)
	// Anywhere is true if Ask begins a hold in every phase.
	Anywhere bool
	// EndsWithCause ends a hold of the class Answer when Ask finds nobody: any answer would be for nothing.
	EndsWithCause bool
	// Keep stores an answer where it cannot be observed again, in the LINSTOR node's properties or in the claim, and
	// reports whether it is stored. An answer without one makes the operator look again, and stores nothing.
	Keep map[string]keeper
	// Left finds those of the hold's nodes on which the present spec still asks for what a hold about a pool is about.
	Left func(s *cluster.Snapshot, h *v1alpha1.Hold) []string
	// Withdrawn reports whether the present spec takes back what a hold of the class Answer is about. A change of the
	// spec is never consent to touch data, so that it does not end such a hold. But nobody shall be asked about what the
	// spec no longer asks for: an edit that takes the question itself away can only be less consent.
	Withdrawn func(s *cluster.Snapshot, h *v1alpha1.Hold) bool
	// Cause is what is known of the cause of the cluster's hold. Without it, the link's evidence shows it.
	Cause func(in *step.Input, h *v1alpha1.Hold) hold.Cause
	// Patient is true if a running cluster is Degraded first, and stops when LINSTOR was away for Timing.Escalate.
	Patient bool
}

// keeper stores an answer, and reports whether that is done.
type keeper func(ctx context.Context, in *step.Input) (stored bool, err error)

type keepers = map[string]keeper

// questions has a row for each reason about which more is known than its kind. The first rows are the most urgent.
var questions = slices.Concat(nodeQuestions(), clusterQuestions(), etcdQuestions(), poolQuestions())

// questionOf is a reason's row; empty if nothing more is known than its kind.
func questionOf(r v1alpha1.HoldReason) question {
	if i := slices.IndexFunc(questions, func(q question) bool { return q.Reason == r }); i >= 0 {
		return questions[i]
	}
	return question{Reason: r}
}

func nodeQuestions() []question {
	again := keepers{v1alpha1.OptionRetry: background(leaving.Retry)}
	replaced := background(noderemoval.KeepReplaced)
	return []question{
		// The condition MassFailure is where this answer is kept: Acknowledged from the moment at which the hold is let go.
		{Reason: v1alpha1.HoldMassFailure, Ask: massfailure.Hold, Anywhere: true,
			Keep: keepers{v1alpha1.OptionContinue: background(func(*step.Input) bool { return true })}},
		{Reason: v1alpha1.HoldTooManyNodesLeaving, Ask: leaving.Hold(v1alpha1.HoldTooManyNodesLeaving),
			Keep: keepers{v1alpha1.OptionContinue: background(leaving.Keep)}},
		{Reason: v1alpha1.HoldLastReplicaAtRisk, Ask: leaving.Hold(v1alpha1.HoldLastReplicaAtRisk), Keep: again},
		{Reason: v1alpha1.HoldEvacuationStuck, Ask: leaving.Hold(v1alpha1.HoldEvacuationStuck), Keep: again},
		{Reason: v1alpha1.HoldNodeGone, Ask: leaving.Hold(v1alpha1.HoldNodeGone),
			Keep: keepers{v1alpha1.OptionDeclareLost: background(leaving.KeepDeclareLost)}},
		{Reason: v1alpha1.HoldMachineReplaced, Ask: noderemoval.ReplacedHold, Anywhere: true, EndsWithCause: true,
			Keep: keepers{v1alpha1.OptionAdopt: replaced, v1alpha1.OptionReplace: replaced}},
	}
}

func clusterQuestions() []question {
	skipChecks := keepers{v1alpha1.OptionSkipChecks: upgrade.Keep}
	goBack := keepers{v1alpha1.OptionRollBack: upgrade.RollBack}
	restoreEnded := goneIf(migrating.Ended)
	moveEnded := goneIf(migrating.MoveEnded)
	upgradeGoesOn := func(in *step.Input, _ *v1alpha1.Hold) hold.Cause { return hold.CauseGoneIf(upgrade.GoesOn(in)) }
	return []question{
		{Reason: v1alpha1.HoldSigningKeyUnusable, Cause: goneIf(func(s *cluster.Snapshot, _ *v1alpha1.Hold) bool {
			return module.SigningKeyTrouble(s) == ""
		})},
		// Its one answer is to look again, which consents to nothing.
		{Reason: v1alpha1.HoldSecureBootKeyMissing, Withdrawn: func(s *cluster.Snapshot, _ *v1alpha1.Hold) bool {
			return !equality.Semantic.DeepEqual(s.Target.Spec.KernelModule, s.Cluster.Spec.KernelModule)
		}},
		{Reason: v1alpha1.HoldDatabaseUnreachable, Patient: true, Keep: goBack,
			Cause: func(in *step.Input, _ *v1alpha1.Hold) hold.Cause { return unreachable(in.Snapshot) }},
		{Reason: v1alpha1.HoldControllerFailed, Patient: true, Keep: goBack},
		{Reason: v1alpha1.HoldPassphraseUnusable, Keep: goBack,
			Cause: goneIf(func(s *cluster.Snapshot, _ *v1alpha1.Hold) bool {
				return controller.PassphraseHold(&s.Facts) == nil && controller.Trouble(&s.Facts) == nil
			})},
		{Reason: v1alpha1.HoldOperationFailed, Keep: goBack},
		{Reason: v1alpha1.HoldForeignLinstorFound, Keep: keepers{v1alpha1.OptionAdopt: database.Adopt},
			Withdrawn: func(s *cluster.Snapshot, _ *v1alpha1.Hold) bool {
				// One that is refused would end the hold, and the same would be asked again at once, for ever.
				return connection.URL(&s.Target.Spec.Database) != connection.URL(&s.Cluster.Spec.Database) &&
					specchange.Acceptable(s)
			}},
		// It does not end by itself: a LINSTOR that was started again has read what was put back, unseen by anybody.
		{Reason: v1alpha1.HoldKubernetesRestored, Keep: keepers{v1alpha1.OptionContinue: database.Follow}},
		{Reason: v1alpha1.HoldSatellitesFailed, Keep: goBack,
			Cause: func(in *step.Input, _ *v1alpha1.Hold) hold.Cause { return stuckRoll(in.Snapshot) }},
		{Reason: v1alpha1.HoldVolumesUnknown, Keep: keepers{v1alpha1.OptionContinue: keepRemoveUnverified}},
		{Reason: v1alpha1.HoldUpgradeBlocked, Cause: upgradeGoesOn, Keep: skipChecks},
		{Reason: v1alpha1.HoldUpgradeStuck, Cause: upgradeGoesOn, Keep: keepers{
			v1alpha1.OptionSkipChecks: upgrade.Keep, v1alpha1.OptionRollBack: upgrade.RollBack}},
		{Reason: v1alpha1.HoldBackupTooOld, EndsWithCause: true, Cause: goneIf(upgrade.NeedsNoBackup),
			Keep:      keepers{v1alpha1.OptionBackupConfirmed: upgrade.Keep},
			Withdrawn: func(s *cluster.Snapshot, _ *v1alpha1.Hold) bool { return upgrade.TakesUpgradeBack(s) }},
		{Reason: v1alpha1.HoldRestoreRequested, EndsWithCause: true, Cause: restoreEnded, Keep: keepers{
			v1alpha1.OptionAbandon: migrating.Abandon, v1alpha1.OptionRestore: migrating.Confirm,
			v1alpha1.OptionRestoreAnyway: migrating.Confirm}},
		{Reason: v1alpha1.HoldRestoreFailed, EndsWithCause: true, Cause: restoreEnded, Keep: keepers{
			v1alpha1.OptionAbandon: migrating.Abandon, v1alpha1.OptionRetry: migrating.Retry}},
		{Reason: v1alpha1.HoldUnsupportedChange, EndsWithCause: true,
			Keep: keepers{v1alpha1.OptionMigrate: migrating.ConsentToMove}, Cause: goneIf(migrating.IsThere)},
		{Reason: v1alpha1.HoldMigrationFailed, EndsWithCause: true, Cause: moveEnded, Keep: keepers{
			v1alpha1.OptionAbandon: migrating.AbandonMove, v1alpha1.OptionRetry: migrating.Retry}},
		// The status is where its answers are kept: the write that lets the hold go notes them (canary.Status).
		{Reason: v1alpha1.HoldCanaryFailed, Cause: canary.Cause,
			Keep: keepers{v1alpha1.OptionSkip: background(func(*step.Input) bool { return true })}},
		{Reason: v1alpha1.HoldNoMatchingNodes, Cause: goneIf(func(s *cluster.Snapshot, _ *v1alpha1.Hold) bool {
			return s.Staying() > 0
		})},
	}
}

// goneIf is for a cause that is gone when a snapshot says so, and else stays.
func goneIf(gone func(s *cluster.Snapshot, h *v1alpha1.Hold) bool) func(*step.Input, *v1alpha1.Hold) hold.Cause {
	return func(in *step.Input, h *v1alpha1.Hold) hold.Cause { return hold.CauseGoneIf(gone(in.Snapshot, h)) }
}

// unreachable is about a database that did not answer. One that is claimed the link looks into itself.
func unreachable(s *cluster.Snapshot) hold.Cause {
	if _, claimed := s.Claim(); claimed {
		return hold.CauseShownByLink
	}
	starting := database.WaitsForEtcd(s.Evidence[fsm.Database].Reason) // it is looked into after that
	return hold.CauseGoneIf(starting || s.Database.Checked && s.Database.Err == nil)
}

// stuckRoll is about satellites that failed: enough of them may run while those that were restarted are not back.
func stuckRoll(s *cluster.Snapshot) hold.Cause {
	switch {
	case len(s.Roll.Outdated) > 0 && len(s.Roll.Restarting) > 0:
		return hold.CauseStays
	case s.Upgrade != nil:
		return hold.CauseGone
	default:
		return hold.CauseShownByLink
	}
}

// etcdQuestions are about members of the etcd that the operator runs. Each answer is kept beside the notes about them.
func etcdQuestions() []question {
	of := func(reason v1alpha1.HoldReason) question {
		q := question{Reason: reason, EndsWithCause: holdkind.Of(reason).Class == holdkind.Answer,
			Cause: goneIf(managedetcd.Ended), Keep: keepers{}}
		for _, option := range holdkind.Answers(holdkind.Of(reason).Options) {
			q.Keep[option] = managedetcd.KeepAnswer
		}
		return q
	}
	return []question{of(v1alpha1.HoldEtcdStuck), of(v1alpha1.HoldEtcdMemberDown), of(v1alpha1.HoldEtcdUnreachable),
		of(v1alpha1.HoldEtcdNoSpace), of(v1alpha1.HoldEtcdQuorumLost), of(v1alpha1.HoldEtcdMembersChanged),
		of(v1alpha1.HoldEtcdCorruptAlarm), of(v1alpha1.HoldEtcdOtherCluster),
		of(v1alpha1.HoldEtcdNotesLost)}
}

func poolQuestions() []question {
	skip := onNodes(remembered.PoolSkip)
	devices := func(prefix string) keeper {
		return background(func(in *step.Input) bool { return pools.StoreConsent(in, prefix) })
	}
	return []question{
		{Reason: v1alpha1.HoldDeviceMissing, Keep: keepers{v1alpha1.OptionSkip: skip},
			Cause: goneIf(func(s *cluster.Snapshot, h *v1alpha1.Hold) bool {
				lack := s.Count(func(m *cluster.Member) bool { return m.Counts() && lacksDisks(m, h.Pool) })
				return s.Linstor.Known() && s.Counted()-lack >= s.MinReady()
			})},
		{Reason: v1alpha1.HoldDeviceNotEmpty, Left: wantedFromThoseDisks, Withdrawn: poolWithdrawn(wantedFromThoseDisks),
			Keep: keepers{v1alpha1.OptionSkip: skip, v1alpha1.OptionUseExisting: onNodes(remembered.PoolUseExisting)}},
		{Reason: v1alpha1.HoldDeviceApproval, Keep: keepers{v1alpha1.OptionSkip: skip,
			v1alpha1.OptionApprove: devices(remembered.PoolApprove)}},
		{Reason: v1alpha1.HoldPoolBackendLost, Left: stillWanted, Withdrawn: poolWithdrawn(stillWanted), Keep: keepers{
			v1alpha1.OptionRecreate: devices(remembered.PoolRecreate),
			v1alpha1.OptionRetry:    background(func(in *step.Input) bool { return pools.DropConsents(in) && tryAnew(in) }),
		}},
	}
}

// background is a keeper that writes to LINSTOR by tasks, which cannot fail at once.
func background(keep func(in *step.Input) bool) keeper {
	return func(_ context.Context, in *step.Input) (bool, error) { return keep(in), nil }
}

// tryAnew forgets failures, so that back-off does not delay the new try.
func tryAnew(in *step.Input) bool {
	in.Tasks.Forget("")
	return true
}

// onNodes keeps the answer on the LINSTOR nodes that it is for, with what it is about there.
func onNodes(prefix string) keeper {
	return background(func(in *step.Input) bool {
		pool, id := in.Answer.Hold.Pool, in.Answer.Hold.ID
		return in.KeepOnNodes(pool, func(m *cluster.Member) (set map[string]string, del []string) {
			for _, p := range m.Pools {
				if value := pools.Answer(m, p, id); p.Entry.Name == pool && m.Property(prefix+pool) != value {
					return map[string]string{prefix + pool: value}, nil
				}
			}
			return nil, nil
		})
	})
}

// KeepAnswer stores what an answer decides, where it cannot be observed again: in the LINSTOR node's properties or in
// the claim. It returns true once it is stored; only then is the hold let go.
func KeepAnswer(ctx context.Context, in *step.Input) (bool, error) {
	keep := questionOf(in.Answer.Hold.Reason).Keep[in.Answer.Option]
	switch {
	case keep != nil:
		return keep(ctx, in)
	case in.Answer.Option != v1alpha1.OptionRetry: // to look again would drop what a human has decided
		return false, in.Answer.Unknown()
	default:
		return tryAnew(in), nil
	}
}

// answerTrouble is why a given answer has no effect yet, to be added to what is waited for; "" if nothing is wrong.
func answerTrouble(in *step.Input) string {
	if in.Answer == nil {
		return ""
	}
	states := in.Snapshot.TaskStates
	for _, key := range slices.Sorted(maps.Keys(states)) {
		if err := states[key].Err; err != nil && strings.HasPrefix(key, "answer/") {
			return fmt.Sprintf("; option %s cannot be recorded in LINSTOR: %s", in.Answer.Option, text.OneLine(err.Error()))
		}
	}
	return ""
}

// keepRemoveUnverified stores that the workloads may go although volumes may exist.
func keepRemoveUnverified(ctx context.Context, in *step.Input) (bool, error) {
	s := in.Snapshot
	claim, claimed := s.Claim()
	if claim.RemoveUnverified || deleting.Released(s) {
		return true, nil
	}
	if !claimed { // somebody removed it; the answer needs a place
		claim.Backend, claim.Version = connection.URL(&s.Spec().Database), s.AcceptedVersion()
	}
	claim.RemoveUnverified = true
	// Stored is what the cache shows: letting the hold go before would begin it anew.
	return false, in.ApplyClaim(ctx, claim)
}

// poolWithdrawn finds out whether the spec asks for the pool on none of the hold's nodes, or not from those disks.
func poolWithdrawn(left func(*cluster.Snapshot, *v1alpha1.Hold) []string) func(*cluster.Snapshot,
	*v1alpha1.Hold) bool {
	return func(s *cluster.Snapshot, h *v1alpha1.Hold) bool {
		return len(left(s, h)) == 0 && (int(h.Count) == len(h.Nodes) || cluster.PoolEntry(&s.Cluster.Spec, h.Pool) == nil)
	}
}

// stillWanted are those of the hold's nodes on which the present spec asks for what the hold is about.
func stillWanted(s *cluster.Snapshot, h *v1alpha1.Hold) []string {
	is, was := cluster.PoolEntry(&s.Cluster.Spec, h.Pool), cluster.PoolEntry(s.Target.Spec, h.Pool)
	if is == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(h.Nodes), func(name string) bool {
		m := s.MemberByName(name)
		return m != nil && was != nil && !nodespec.Picks(is.NodeSelector, is.NodeAffinity, m.Node.Labels)
	})
}

// wantedFromThoseDisks are those of them on which the present spec asks for disks that the spec before asked for.
func wantedFromThoseDisks(s *cluster.Snapshot, h *v1alpha1.Hold) []string {
	is, was := cluster.PoolEntry(&s.Cluster.Spec, h.Pool), cluster.PoolEntry(s.Target.Spec, h.Pool)
	return slices.DeleteFunc(stillWanted(s, h), func(name string) bool {
		m := s.MemberByName(name)
		return m != nil && was != nil && otherDisks(m, was.Devices, is.Devices)
	})
}

// otherDisks reports whether the member has disks that one spec matches, and the other one matches none of them.
func otherDisks(m *cluster.Member, was, is *v1alpha1.DevicesSpec) bool {
	if was == nil || is == nil {
		return was != nil // the volume group or zpool is there already, says the spec
	}
	matched := slices.DeleteFunc(disks.Listed(m), func(d linstor.Device) bool { return !disks.Matches(was, &d) })
	return len(matched) > 0 && !slices.ContainsFunc(matched, func(d linstor.Device) bool { return disks.Matches(is, &d) })
}
