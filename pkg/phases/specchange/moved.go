package specchange

import (
	"context"
	"fmt"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/database/connection"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/revision"
)

// KeepMoved keeps the accepted spec as it is, but with the database that LINSTOR's data was moved into, and returns
// the name of the ControllerRevision. Moved accepts it once the claim names it.
func KeepMoved(ctx context.Context, in *step.Input, to *v1alpha1.DatabaseSpec) (name string, err error) {
	s := in.Snapshot
	accepted, err := revision.Spec(s.Kube.Revisions[s.Target.Name])
	if err != nil {
		return "", err
	}
	accepted.Database = *to
	rev := revision.Of(s.Cluster.Name, nextRevision(s), accepted)
	if err := in.Writer.Apply(ctx, rev); err != nil {
		return "", fmt.Errorf("keep the accepted spec with the database that the data was moved into: %w", err)
	}
	return rev.Name, nil
}

// Moved accepts what KeepMoved has kept; nil unless the claim itself, past the cache, says that the data is there and
// names it: a cache that lags behind, or a claim that was put back from a backup, would lead to the database of
// before. Without it no LINSTOR would run as long as the spec is refused for something else: the database of the
// accepted spec lacks the data.
func Moved(ctx context.Context, in *step.Input) (*step.Acceptance, error) {
	s := in.Snapshot
	claim, claimed := s.Claim()
	if !claimed || s.Target == nil || claim.MovedSpec == "" || connection.Same(claim.Backend, s.AcceptedDatabase()) {
		return nil, nil
	}
	rev := s.Kube.Revisions[claim.MovedSpec]
	if rev == nil {
		return nil, nil
	}
	kept, err := revision.Spec(rev)
	if err != nil || !connection.Same(claim.Backend, connection.URL(&kept.Database)) {
		return nil, err
	}
	live, err := in.Live.ConfigMap(ctx, resources.ClaimName)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", step.ErrUnconfirmed, err)
	}
	if live == nil {
		return nil, nil
	}
	if now, err := resources.ClaimFrom(live); err != nil || now.Backend != claim.Backend ||
		now.MovedSpec != claim.MovedSpec {
		return nil, err
	}
	// The rest of the spec is judged next.
	return &step.Acceptance{Revision: rev.Name, Generation: s.Cluster.Generation - 1, Version: s.Cluster.Status.Version,
		Database: connection.Kind(&kept.Database)}, nil
}
