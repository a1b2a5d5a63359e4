package phases

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/work"
)

// KeepAnswer stores what an answer decides, where it cannot be observed again: in the LINSTOR node's properties or in the
// claim. It returns true once it is stored; only then is the hold let go.
func (in *Input) KeepAnswer(ctx context.Context) (bool, error) {
	if keep, special := keepers()[in.Answer.Hold.Reason]; special && in.Answer.Option != v1alpha1.OptionRetry {
		return keep(in), nil
	}
	if retry, special := retriers()[in.Answer.Hold.Reason]; special && in.Answer.Option == v1alpha1.OptionRetry {
		return retry(in), nil
	}
	switch a := in.Answer; a.Option {
	case v1alpha1.OptionSkip:
		return in.keepOnNodes(auxSkip), nil
	case v1alpha1.OptionUseExisting:
		return in.keepOnNodes(auxUseExisting), nil
	case v1alpha1.OptionApprove:
		return in.keepDevices(auxApprove), nil
	case v1alpha1.OptionRecreate:
		return in.keepDevices(auxRecreate), nil
	case v1alpha1.OptionSkipChecks, v1alpha1.OptionBackupConfirmed:
		return in.keepForUpgrade(ctx)
	case v1alpha1.OptionAdopt:
		return true, in.adoptDatabase(ctx)
	case v1alpha1.OptionContinue:
		claim, claimed, err := in.Claim()
		if err != nil || claim.RemoveUnverified || in.released() {
			return err == nil, err
		}
		if !claimed { // somebody removed it; the answer needs a place
			claim.Backend, claim.Version = resources.DatabaseURL(in.wantedDatabase()), in.acceptedVersion()
		}
		claim.RemoveUnverified = true
		// Stored is what the cache shows: letting the hold go before would begin it anew.
		return false, in.applyClaim(ctx, claim)
	default: // retry: failures are forgotten, so that back-off does not delay the new try
		if a.Hold.Reason == v1alpha1.HoldPoolBackendLost && !in.dropConsents() {
			return false, nil
		}
		in.Tasks.Forget("")
		return true, nil
	}
}

// answerKey is the task that keeps an answer about a node and a subject, such as a pool, in LINSTOR.
func answerKey(node, subject string) string { return "answer/" + node + "/" + subject }

// answerTrouble is why an answer that was given has no effect yet, to be added to what is waited for; "" if nothing is wrong.
func (in *Input) answerTrouble() string {
	if in.Answer == nil {
		return ""
	}
	for _, key := range slices.Sorted(maps.Keys(in.TaskStates)) {
		if err := in.TaskStates[key].Err; err != nil && strings.HasPrefix(key, "answer/") {
			return fmt.Sprintf("; the answer %s cannot be kept in LINSTOR: %s", in.Answer.Option, oneLine(err.Error()))
		}
	}
	return ""
}

// keepers store the answers to holds whose options mean something of their own, apart from retry.
func keepers() map[v1alpha1.HoldReason]func(*Input) bool {
	return map[v1alpha1.HoldReason]func(*Input) bool{
		// The condition MassFailure is where this answer is kept: Acknowledged from the moment at which the hold is let go.
		v1alpha1.HoldMassFailure:         func(*Input) bool { return true },
		v1alpha1.HoldTooManyNodesLeaving: (*Input).keepLeaving,
		v1alpha1.HoldMachineReplaced:     (*Input).keepReplaced,
		v1alpha1.HoldNodeGone:            (*Input).keepDeclareLost,
	}
}

// retriers do what a new try takes beyond a new look.
func retriers() map[v1alpha1.HoldReason]func(*Input) bool {
	return map[v1alpha1.HoldReason]func(*Input) bool{
		v1alpha1.HoldLastReplicaAtRisk: (*Input).retryLeaving,
		v1alpha1.HoldEvacuationStuck:   (*Input).retryLeaving,
	}
}

// keepOnNodes writes the answer to the LINSTOR nodes that it is for.
func (in *Input) keepOnNodes(prefix string) bool {
	a := in.Answer
	key := prefix + a.Hold.Pool
	stored := true
	for _, m := range in.Members {
		if !in.answered(m) || m.Linstor == nil || m.Linstor.Properties[key] == a.Hold.ID {
			continue
		}
		stored = false
		name, id := m.Name, a.Hold.ID
		in.ensure(work.Task{Key: answerKey(name, a.Hold.Pool), Input: prefix + id, Do: func(ctx context.Context) error {
			return in.API.SetNodeProperties(ctx, name, map[string]string{key: id}, nil)
		}})
	}
	return stored && in.Linstor.Known()
}

// answered is whether the answer is for the member.
func (in *Input) answered(m *Member) bool {
	a := in.Answer
	if len(a.Nodes) > 0 {
		return slices.Contains(a.Nodes, m.Name)
	}
	// A hold of a pool is told by the pool, one of whole nodes by its reason.
	same := m.Problem != nil && m.Problem.Pool == a.Hold.Pool && (a.Hold.Pool != "" || m.Problem.Hold == a.Hold.Reason)
	return slices.Contains(a.Hold.Nodes, m.Name) || int(a.Hold.Count) > len(a.Hold.Nodes) && same
}

func (in *Input) adoptDatabase(ctx context.Context) error {
	claim, _, err := in.Claim()
	if err != nil {
		return fmt.Errorf("read the claim: %w", err)
	}
	claim.Backend, claim.Adopted, claim.LocalID = resources.DatabaseURL(&in.Target.Spec.Database), true, ""
	if v := in.Linstor.View; v != nil {
		claim.LocalID = v.LocalID
	}
	if claim.Version == "" {
		claim.Version = in.Target.Release.Version
	}
	return in.applyClaim(ctx, claim)
}
