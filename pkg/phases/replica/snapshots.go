package replica

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

// OnlySnapshots names the snapshots that might be gone if a node went, as "volume/snapshot", sorted, as far as the
// view knows.
func OnlySnapshots(s *cluster.Snapshot, node string) []string {
	if v := s.Linstor.View; v != nil {
		return onlySnapshots(s, v, v.Snapshots, node)
	}
	return nil
}

// onlySnapshots finds those of the list. Nothing reports whether a snapshot can still be read, so that another copy of
// one counts only on a node that is ONLINE and stays, on its first machine, and all of whose pools work: LINSTOR goes
// on listing what was on a disk that is gone. What somebody has deleted already is not missed.
func onlySnapshots(s *cluster.Snapshot, v *linstor.View, list []linstor.Snapshot, node string) []string {
	var out []string
	for i := range list {
		snap := &list[i]
		elsewhere := func(other string) bool {
			m := s.MemberByName(other)
			return !strings.EqualFold(other, node) && !snap.DeletedOn(other) && stays(s, v, other) &&
				(m == nil || !m.Replaced) && !slices.ContainsFunc(slices.Collect(maps.Values(v.Node(other).Pools)), broken)
		}
		if snap.On(node) && !snap.DeletedOn(node) && !slices.ContainsFunc(snap.Nodes, elsewhere) {
			out = append(out, snap.Name)
		}
	}
	slices.Sort(out)
	return out
}

// broken reports whether it is not known that a pool's storage is there.
func broken(p *linstor.Pool) bool { return len(p.Errors) > 0 || p.TotalKiB == nil }

// SnapshotSum stands for a set of snapshots in holds and in the consent to lose them; "" for none.
func SnapshotSum(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return text.Amount(len(names), "snapshot", "snapshots") + " " + text.Digest(names)
}

// Covers reports whether those who agreed to lose the snapshots of a sum knew of all of these.
func Covers(agreed string, snapshots []string) bool {
	return len(snapshots) == 0 || SnapshotSum(snapshots) == agreed
}

// OnlyCopyOf names the snapshots in a message.
func OnlyCopyOf(names []string) string {
	return fmt.Sprintf("the only copy of %s (%s)", text.Amount(len(names), "snapshot", "snapshots"),
		text.QuoteList(names))
}

// CheckSnapshots checks in LINSTOR itself, past every cache, whether the only copy of a snapshot would go with the
// node, and none but those that a human was told of, whose sum is agreed. To be called in the task that is about to
// give the node up.
func CheckSnapshots(ctx context.Context, in *step.Input, node, agreed string) error {
	list, err := in.API.Snapshots(ctx, node)
	if err != nil || len(list) == 0 {
		return err
	}
	v, err := in.LookNow(ctx)
	if err != nil {
		return err
	}
	if names := onlySnapshots(in.Snapshot, v, list, node); !Covers(agreed, names) {
		return fmt.Errorf("node %s is not declared lost: it has %s, which is not listed in an approval", node,
			OnlyCopyOf(names))
	}
	return nil
}
