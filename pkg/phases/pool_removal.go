package phases

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/work"
)

// reasonPoolInUse is the reason of a note about a pool that the spec no longer wants and that volumes or snapshots use.
const reasonPoolInUse = "PoolInUse"

// poolInUseError says that a pool cannot go yet.
type poolInUseError struct{ by string }

func (e *poolInUseError) Error() string { return "it is still used by " + e.by }

// findOldPools finds the pools that the operator made on a member and that the spec does not want there any more. What
// somebody else registered in LINSTOR carries no mark and is left alone.
func (s *Snapshot) findOldPools(m *Member) {
	for _, have := range m.Linstor.Pools {
		wanted := slices.ContainsFunc(m.Pools, func(p *MemberPool) bool { return strings.EqualFold(p.Name, have.Name) })
		if have.Properties[auxEntry] != "" && !wanted {
			m.oldPools = append(m.oldPools, have)
		}
	}
	slices.SortFunc(m.oldPools, func(a, b *linstor.Pool) int { return strings.Compare(a.Name, b.Name) })
	for _, have := range m.oldPools {
		err := s.TaskStates[oldPoolKey(m, have)].Err
		var inUse *poolInUseError
		switch {
		case err == nil:
		case errors.As(err, &inUse):
			m.Notes = append(m.Notes, &Problem{Reason: reasonPoolInUse, Pool: have.Name,
				Message: fmt.Sprintf("pool %s is not in the spec any more and waits for its volumes to go: %s", have.Name, inUse)})
		default:
			m.Notes = append(m.Notes, &Problem{Reason: "PoolNotRemoved", Pool: have.Name, Message: oneLine(err.Error())})
		}
	}
}

func oldPoolKey(m *Member, have *linstor.Pool) string { return "oldpool/" + m.Name + "/" + have.Name }

// removeOldPools deregisters the pools that the spec no longer wants on a member. Only a healthy member is touched: while it
// leaves, is under maintenance or many nodes fail, its pools may be all that tells where data is.
func (in *Input) removeOldPools(m *Member) {
	if in.Phase() == v1alpha1.PhaseHumanIntervention || in.frozen() || inMaintenance(m.Node) ||
		m.Linstor.HasFlag(linstor.FlagEvacuate) || m.Linstor.HasFlag(linstor.FlagDelete) {
		return
	}
	for _, have := range m.oldPools {
		in.ensure(work.Task{Key: oldPoolKey(m, have), Input: digest([]any{have.Backing, have.Properties[auxEntry]}), Do: func(ctx context.Context) error {
			return in.removeOldPool(ctx, m, have)
		}})
	}
}

// removeOldPool deregisters one pool that nothing uses. The volume group, thin pool or zpool and its disks stay as they are. What
// is in use is told by a fresh look, and LINSTOR itself refuses to delete a pool that a volume or snapshot uses.
func (in *Input) removeOldPool(ctx context.Context, m *Member, have *linstor.Pool) error {
	now, err := in.API.Pool(ctx, m.Name, have.Name)
	if linstor.IsNotFound(err) || err == nil && now.Properties[auxEntry] == "" {
		return nil // gone, or somebody has taken it over
	}
	if err != nil {
		return err
	}
	if err := in.poolUnused(ctx, m.Name, have.Name); err != nil {
		return err
	}
	if err := in.stands(ctx, m.Name); err != nil {
		return err
	}
	// A consent to use disks ends with the pool that it was for: were the entry added again, wiped disks would be used unasked.
	if old := m.consents(now.Properties[auxEntry]); len(old) > 0 {
		if err := in.API.SetNodeProperties(ctx, m.Name, nil, old); err != nil {
			return err
		}
	}
	err = in.API.DeletePool(ctx, m.Name, have.Name)
	switch {
	case linstor.Code(err) == linstor.CodeInUse:
		return &poolInUseError{by: "volumes or snapshots"}
	case err == nil:
		in.announce(Notice{Reason: "PoolRemoved", Action: poolOn(have.Name, m.Name), Note: fmt.Sprintf(
			"pool %s is not in the spec any more and was removed from LINSTOR on node %s; %s %s stays as it is",
			have.Name, m.Name, have.Provider, have.Backing)})
	}
	return err
}

// poolUnused is nil if no copy of a volume is in the pool now.
func (in *Input) poolUnused(ctx context.Context, node, pool string) error {
	resources, err := in.API.Resources(ctx, linstor.ResourceQuery{Nodes: []string{node}})
	if err != nil {
		return err
	}
	var names []string
	for i := range resources {
		r := &resources[i]
		here := strings.EqualFold(r.Node, node) && slices.ContainsFunc(r.Pools, func(p string) bool { return strings.EqualFold(p, pool) })
		if here && !slices.Contains(names, r.Name) {
			names = append(names, r.Name)
		}
	}
	if len(names) > 0 {
		slices.Sort(names)
		return &poolInUseError{by: quoteList(names)}
	}
	return nil
}
