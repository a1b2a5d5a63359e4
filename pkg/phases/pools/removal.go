package pools

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/remembered"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
	"github.com/linstor-dev/storagecluster-operator/pkg/work"
)

// poolInUseError says that a pool cannot go yet.
type poolInUseError struct{ By string }

func (e *poolInUseError) Error() string { return "it is still in use by " + e.By }

// findOldPools finds the pools that the operator made on a member and that the spec does not want there any more. What
// somebody else registered in LINSTOR carries no mark and is left alone.
func findOldPools(s *cluster.Facts, m *cluster.Member) {
	for _, have := range m.Linstor.Pools {
		wanted := func(p *cluster.MemberPool) bool { return strings.EqualFold(p.Name, have.Name) }
		if have.Properties[remembered.Entry] != "" && !slices.ContainsFunc(m.Pools, wanted) {
			m.OldPools = append(m.OldPools, have)
		}
	}
	slices.SortFunc(m.OldPools, func(a, b *linstor.Pool) int { return strings.Compare(a.Name, b.Name) })
	for _, have := range m.OldPools {
		err := s.TaskStates[oldPoolKey(m, have)].Err
		switch inUse, ok := errors.AsType[*poolInUseError](err); {
		case err == nil:
		case ok:
			m.Notes = append(m.Notes, &cluster.Problem{Reason: "PoolInUse", Pool: have.Name,
				Message: fmt.Sprintf("pool %s is no longer in the spec and will be removed once it is empty: %s", have.Name,
					inUse)})
		default:
			m.Notes = append(m.Notes, &cluster.Problem{Reason: "PoolNotRemoved", Pool: have.Name,
				Message: text.OneLine(err.Error())})
		}
	}
}

func oldPoolKey(m *cluster.Member, have *linstor.Pool) string {
	return "oldpool/" + m.Name + "/" + have.Name
}

// removeOldPools deregisters the pools that the spec no longer has on a member, and forgets the answers about them.
// Only a healthy member is touched: while it leaves, is under maintenance or many nodes fail, its pools may be the
// only record of where data is.
func removeOldPools(in *step.Input, m *cluster.Member) {
	s := in.Snapshot
	if s.Phase() == v1alpha1.PhaseHumanIntervention || s.Frozen() || m.Maintenance ||
		m.Linstor.HasFlag(linstor.FlagEvacuate) || m.Linstor.HasFlag(linstor.FlagDelete) {
		return
	}
	forgetAnswers(in, m)
	for _, have := range m.OldPools {
		input := text.Digest([]any{have.Backing, have.Properties[remembered.Entry]})
		in.Ensure(work.Task{Key: oldPoolKey(m, have), Input: input, Do: func(ctx context.Context) error {
			return removeOldPool(ctx, in, m, have)
		}})
	}
}

// removeOldPool deregisters one pool that nothing uses. The volume group, thin pool or zpool and its disks stay as
// they are. A fresh look shows what is in use, and LINSTOR itself refuses to delete a pool that a volume or
// snapshot uses.
func removeOldPool(ctx context.Context, in *step.Input, m *cluster.Member, have *linstor.Pool) error {
	now, err := in.API.Pool(ctx, m.Name, have.Name)
	if linstor.IsNotFound(err) || err == nil && now.Properties[remembered.Entry] == "" {
		return nil // gone, or somebody has taken it over
	}
	if err != nil {
		return err
	}
	if err := poolUnused(ctx, in, m.Name, have.Name); err != nil {
		return err
	}
	if err := in.Stands(ctx, m.Name); err != nil {
		return err
	}
	if err := forgetMaking(ctx, in, m, now.Properties[remembered.Entry]); err != nil {
		return err
	}
	err = in.API.DeletePool(ctx, m.Name, have.Name)
	switch {
	case linstor.Code(err) == linstor.CodeInUse:
		return &poolInUseError{By: "volumes or snapshots"}
	case err == nil:
		in.Notify(step.Notice{Reason: "PoolRemoved", Action: step.PoolOn(have.Name, m.Name), Note: fmt.Sprintf(
			"pool %s is no longer in the spec and was removed from LINSTOR on node %s; %s was not changed",
			have.Name, m.Name, space(have.Provider, have.Backing))})
	}
	return err
}

// forgetMaking sees to it that an entry which is added again makes no pool unasked. A consent to use disks ends with
// the pool that it was for. The intent stays, with a mark: while its disks carry the volume group or zpool, that is
// used again. Once they are empty, they were wiped, or somebody has moved the group to other disks and would get a
// second one of its name.
func forgetMaking(ctx context.Context, in *step.Input, m *cluster.Member, entry string) error {
	var set map[string]string
	props := m.Linstor.Properties
	if intent := props[remembered.PoolIntent+entry]; intent != props[remembered.PoolRemoved+entry] {
		set = map[string]string{remembered.PoolRemoved + entry: intent}
	}
	old := consents(m, entry)
	if len(set)+len(old) == 0 {
		return nil
	}
	return in.API.SetNodeProperties(ctx, m.Name, set, old)
}

// poolUnused is nil if no copy of a volume is in the pool now.
func poolUnused(ctx context.Context, in *step.Input, node, pool string) error {
	resources, err := in.API.Resources(ctx, linstor.ResourceQuery{Nodes: []string{node}})
	if err != nil {
		return err
	}
	var names []string
	for i := range resources {
		r := &resources[i]
		here := func(p string) bool { return strings.EqualFold(p, pool) && strings.EqualFold(r.Node, node) }
		if slices.ContainsFunc(r.Pools, here) && !slices.Contains(names, r.Name) {
			names = append(names, r.Name)
		}
	}
	if len(names) > 0 {
		slices.Sort(names)
		return &poolInUseError{By: text.QuoteList(names)}
	}
	return nil
}
