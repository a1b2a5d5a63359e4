package specchange

import (
	"context"
	"fmt"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/rollback"
	"github.com/linstor-dev/storagecluster-operator/pkg/database/connection"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/revision"
)

// KeepMoved keeps the accepted spec as it is, but with the database that LINSTOR's data was moved into, and returns
// the name of the ControllerRevision. Follow accepts it once the claim names it.
func KeepMoved(ctx context.Context, in *step.Input, to *v1alpha1.DatabaseSpec) (name string, err error) {
	s := in.Snapshot
	accepted, err := revision.Spec(s.Kube.Revisions[s.Target.Name])
	if err != nil {
		return "", err
	}
	accepted.Database = *to
	rev := revision.Of(s.Cluster.Name, nextRevision(s), accepted)
	if err := in.Writer.Apply(ctx, rev); err != nil {
		return "", fmt.Errorf("store the accepted spec with the new database: %w", err)
	}
	return rev.Name, nil
}

// Follow accepts the spec that fits LINSTOR's data, whatever the object's spec says by then: one that was moved into
// another database, or restored for the LINSTOR of before an upgrade. Without it no LINSTOR would run as long as the
// spec is refused for something else. It is nil where the accepted spec fits. The claim itself, past the cache, has to
// say so: a cache that lags behind, or a claim that was put back from a backup, would lead to the database of before,
// or to a LINSTOR that the database is too new for.
func Follow(ctx context.Context, in *step.Input) (*step.Acceptance, error) {
	s := in.Snapshot
	claim, claimed := s.Claim()
	if !claimed || s.Target == nil {
		return nil, nil
	}
	follow := moved
	if rollback.Done(claim, s.Target.Release.Version) {
		follow = takenBack
	} else if claim.MovedSpec == "" || connection.Same(claim.Backend, s.AcceptedDatabase()) {
		return nil, nil
	}
	live, err := in.Live.ConfigMap(ctx, resources.ClaimName)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", step.ErrUnconfirmed, err)
	}
	if live == nil {
		return nil, nil
	}
	if now, err := resources.ClaimFrom(live); err != nil || now.Backend != claim.Backend ||
		now.MovedSpec != claim.MovedSpec || !sameUpgrade(now, claim) {
		return nil, err
	}
	return follow(ctx, in, claim)
}

func sameUpgrade(a, b resources.ClaimData) bool {
	return a.Version == b.Version && a.UpgradeTo == b.UpgradeTo && a.RolledBack == b.RolledBack
}

// moved is what KeepMoved has kept; nil unless it is of the database that the data is in. The rest of the spec is
// judged next.
func moved(_ context.Context, in *step.Input, claim resources.ClaimData) (*step.Acceptance, error) {
	s := in.Snapshot
	rev := s.Kube.Revisions[claim.MovedSpec]
	if rev == nil {
		return nil, nil
	}
	kept, err := revision.Spec(rev)
	if err != nil || !connection.Same(claim.Backend, connection.URL(&kept.Database)) {
		return nil, err
	}
	return &step.Acceptance{Revision: rev.Name, Generation: s.Cluster.Generation - 1, Version: s.Cluster.Status.Version,
		Database: connection.Kind(&kept.Database)}, nil
}

// takenBack keeps the accepted spec as it is, but with the LINSTOR of before the upgrade. It is the one of the same
// generation: what has changed in the spec since is as pending as it was.
func takenBack(ctx context.Context, in *step.Input, claim resources.ClaimData) (*step.Acceptance, error) {
	s := in.Snapshot
	accepted, err := revision.Spec(s.Kube.Revisions[s.Target.Name])
	if err != nil {
		return nil, err
	}
	accepted.Version = claim.Version
	rev := revision.Of(s.Cluster.Name, nextRevision(s), accepted)
	if s.Kube.Revisions[rev.Name] == nil {
		if err := in.Writer.Apply(ctx, rev); err != nil {
			return nil, fmt.Errorf("store the accepted spec with the pre-upgrade version: %w", err)
		}
	}
	return &step.Acceptance{Revision: rev.Name, Generation: s.Cluster.Status.AcceptedGeneration, Version: claim.Version,
		Database: connection.Kind(&accepted.Database)}, nil
}
