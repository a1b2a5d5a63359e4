package edit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/access"
)

// Question is what the operator is asked about the StorageCluster as it is stored, or as an edit of it would be.
type Question struct {
	// File is the edit's manifest, - for the standard input; "" for the object as it is stored.
	File string
	// Edit says how the manifest would be applied; its Cluster is the one that is asked.
	Edit DryRun
	// Of is what a cluster's operator is asked: Plan or Disks.
	Of func(*access.Cluster) Ask
}

// Ask has the operator judge a StorageCluster as the API server would store it, nil for the stored one.
type Ask func(ctx context.Context, manifest []byte) ([]byte, error)

// Put asks the API server whether it would take the edit, and then the operator. refused is not nil where the API
// server would not, and the operator is not asked then.
func (q Question) Put(ctx context.Context, env *access.Env) (said []byte, refused *Judgement, err error) {
	manifest, err := Manifest(env.In, q.File)
	if err != nil {
		return nil, nil, err
	}
	cluster, err := env.Connect()
	if err != nil {
		return nil, nil, err
	}
	if manifest == nil {
		if _, err := cluster.StorageCluster(ctx); err != nil {
			return nil, nil, err
		}
		said, err = q.Of(cluster)(ctx, nil)
		return said, nil, err
	}
	q.Edit.Cluster = cluster
	judged, err := q.Edit.Apply(ctx, manifest)
	switch {
	case err != nil:
		return nil, nil, err
	case judged.Refusal != nil:
		return nil, judged, nil
	}
	said, err = q.Of(cluster)(ctx, judged.Stored)
	return said, nil, err
}

// Read reads what the operator has said. An operator of another version may say something else: whole reports whether
// it is what was asked for, and what names that.
func Read[T any](said []byte, what string, whole func(*T) bool) (*T, error) {
	out := new(T)
	err := json.Unmarshal(said, out)
	if err != nil || !whole(out) {
		return nil, fmt.Errorf("read the operator's output: %w", errors.Join(err, fmt.Errorf(
			"not a %s; check that the plugin and the operator have the same version (kubectl linstor version)", what)))
	}
	return out, nil
}
