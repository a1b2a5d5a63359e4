package controller

import (
	"cmp"
	"context"
	"fmt"

	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/rollback"
	"github.com/linstor-dev/storagecluster-operator/pkg/database/connection"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
)

// applyMissing applies the objects that are not as they shall be, in their order.
func applyMissing(ctx context.Context, in *step.Input, list []managedObject) (changed bool, err error) {
	for _, o := range list {
		if o.undone == "" {
			continue
		}
		if !changed {
			if err := mayStart(ctx, in); err != nil {
				return false, err
			}
		}
		if err := in.Writer.Apply(ctx, o.want); err != nil {
			return changed, fmt.Errorf("apply %s: %w", o.name, err)
		}
		changed = true
	}
	return changed, nil
}

// Configure applies LINSTOR's configuration alone, which names the database: its programs need it while no controller
// runs, and a password may have been changed since one did.
func Configure(ctx context.Context, in *step.Input) error {
	list, err := objects(in.Snapshot)
	if err != nil {
		return err
	}
	o := list[0]
	if o.undone == "" {
		return nil
	}
	if _, err := claimItself(ctx, in); err != nil {
		return err
	}
	return in.Writer.Apply(ctx, o.want)
}

// mayStart is an error unless the claim itself says that a controller may run on the accepted spec's database. The
// configuration is not written either: a controller that runs elsewhere would read it when it is started again.
func mayStart(ctx context.Context, in *step.Input) error {
	claim, err := claimItself(ctx, in)
	if err == nil && (claim.Restoring != "" || claim.Moving != "") {
		return fmt.Errorf("%w: according to the claim, a backup is being imported or the data is being moved",
			step.ErrOutdated)
	}
	if err == nil && !ofVersion(in.Snapshot, claim) {
		return fmt.Errorf("%w: according to the claim, the database belongs to a different LINSTOR version",
			step.ErrOutdated)
	}
	return err
}

// ofVersion reports whether the claim names the LINSTOR that is to be started. A newer one would migrate a database
// that was restored for the one before, or is about to be, and an older one write to a database that is migrated.
func ofVersion(s *cluster.Snapshot, claim resources.ClaimData) bool {
	if claim.ReleasedBy != "" || cluster.NeverStarted(claim) {
		return true
	}
	if rollback.UnderWay(claim) && s.Cluster.DeletionTimestamp == nil {
		return false
	}
	return cmp.Or(claim.UpgradeTo, claim.Version) == s.ControllerRelease().Version
}

// claimItself is the claim past the cache, which may lag behind for minutes, or go back in time when the operator
// starts; empty if there is none, to which the database's link sees. It is an error if the data is in another database
// than the accepted spec's.
func claimItself(ctx context.Context, in *step.Input) (claim resources.ClaimData, err error) {
	live, err := in.Live.ConfigMap(ctx, resources.ClaimName)
	if err != nil {
		return claim, fmt.Errorf("%w: %w", step.ErrUnconfirmed, err)
	}
	if _, claimed := in.Snapshot.Claim(); live == nil && claimed {
		return claim, fmt.Errorf("%w: the claim no longer exists", step.ErrOutdated)
	} else if live == nil {
		return claim, nil
	}
	if claim, err = resources.ClaimFrom(live); err != nil {
		return claim, fmt.Errorf("%w: %w", step.ErrOutdated, err)
	}
	if _, claimed := in.Snapshot.Claim(); claimed && claim.ReleasedBy != "" {
		return claim, fmt.Errorf("%w: the claim has been released", step.ErrOutdated)
	}
	if claim.ReleasedBy == "" && !connection.Same(claim.Backend, in.Snapshot.AcceptedDatabase()) {
		return claim, fmt.Errorf("%w: according to the claim, the data is in %s", step.ErrOutdated, claim.Backend)
	}
	return claim, nil
}
