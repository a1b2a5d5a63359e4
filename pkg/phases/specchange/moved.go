package specchange

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/database/connection"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/revision"
)

// KeepMoved keeps the accepted spec as it is, but with the database that LINSTOR's data was moved into. Moved accepts
// it once the claim says so.
func KeepMoved(ctx context.Context, in *step.Input, to *v1alpha1.DatabaseSpec) error {
	rev, err := moved(in.Snapshot, to)
	if err != nil {
		return err
	}
	if in.Snapshot.Kube.Revisions[rev.Name] != nil {
		return nil
	}
	if err := in.Writer.Apply(ctx, rev); err != nil {
		return fmt.Errorf("keep the accepted spec with the database that the data was moved into: %w", err)
	}
	return nil
}

func moved(s *cluster.Snapshot, to *v1alpha1.DatabaseSpec) (*appsv1.ControllerRevision, error) {
	accepted, err := revision.Spec(s.Kube.Revisions[s.Target.Name])
	if err != nil {
		return nil, err
	}
	accepted.Database = *to
	return revision.Of(s.Cluster.Name, nextRevision(s), accepted), nil
}

// Moved accepts what KeepMoved has kept; nil unless the claim itself, past the cache, says that the data is there: a
// cache that lags behind would lead back to the database of before. Without it no LINSTOR would run as long as the
// spec is refused for something else: the database of the accepted spec lacks the data.
func Moved(ctx context.Context, in *step.Input) (*step.Acceptance, error) {
	s := in.Snapshot
	claim, claimed := s.Claim()
	if !claimed || s.Target == nil || connection.Same(claim.Backend, s.AcceptedDatabase()) {
		return nil, nil
	}
	name, kept := keptFor(s, claim.Backend)
	if kept == nil {
		return nil, nil
	}
	live, err := in.Live.ConfigMap(ctx, resources.ClaimName)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", step.ErrUnconfirmed, err)
	}
	if live == nil || live.Data["backend"] != claim.Backend {
		return nil, nil
	}
	return &step.Acceptance{Revision: name, Generation: s.Cluster.Generation - 1, // the rest of the spec is judged next
		Version: s.Cluster.Status.Version, Database: connection.Kind(&kept.Database)}, nil
}

// keptFor is the accepted spec with that database; nil if there is none. One that differs in something else was
// accepted long ago. Of several, which differ in how the database is reached, it is the one that reaches it as the
// spec does, or the newest.
func keptFor(s *cluster.Snapshot, database string) (name string, kept *v1alpha1.StorageClusterSpec) {
	for _, r := range s.Kube.Revisions {
		spec, err := revision.Spec(r)
		if err != nil || !connection.Same(database, connection.URL(&spec.Database)) {
			continue
		}
		if rev, err := moved(s, &spec.Database); err != nil || rev.Name != r.Name {
			continue
		}
		if equality.Semantic.DeepEqual(spec.Database, s.Cluster.Spec.Database) {
			return r.Name, spec
		}
		if kept == nil || r.Revision > s.Kube.Revisions[name].Revision {
			name, kept = r.Name, spec
		}
	}
	return name, kept
}
