package satellites

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/replica"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
)

// restart restarts the next satellites by deleting their pods, which their DaemonSet makes anew.
func restart(ctx context.Context, in *step.Input) error {
	s := in.Snapshot
	if s.Cluster.DeletionTimestamp != nil {
		return nil
	}
	plan := s.Roll
	if len(plan.Next) > 0 {
		if err := in.Stands(ctx); err != nil {
			return step.IgnoreOutdated(err)
		}
	}
	var errs []error
	for i, m := range plan.Next {
		// A DaemonSet whose change was not seen yet would make the pod as it was.
		ds := s.Kube.SatelliteSet(m.SatellitePod)
		if ds == nil || ds.Status.ObservedGeneration < ds.Generation || writing(in, m) {
			continue
		}
		if !m.SatellitePod.Spec.HostNetwork {
			if why, err := replica.LookAtCopies(ctx, in, m, plan.Next[:i]); err != nil || why != "" {
				return errors.Join(append(errs, err)...)
			}
		}
		if err := in.Writer.DeletePod(ctx, m.SatellitePod); err != nil {
			err = fmt.Errorf("restart the satellite on %s: %w", m.Name, err)
			errs = append(errs, in.FailedOn(m.Name, step.ReasonNotRestarted, err))
		}
	}
	return errors.Join(errs...)
}

// writing reports whether a write to LINSTOR about the member is under way. A satellite that stops while it makes a
// volume group would leave it half made.
func writing(in *step.Input, m *cluster.Member) bool {
	keys := []string{step.NodeKey(m)}
	for _, p := range m.Pools {
		keys = append(keys, step.PoolKey(m, p))
	}
	return slices.ContainsFunc(keys, func(k string) bool {
		st := in.Tasks.State(k)
		return st.Running || st.Queued
	})
}

// restartHungController restarts the controller if it may hang, and notes that first.
func restartHungController(ctx context.Context, in *step.Input) error {
	s := in.Snapshot
	pod, before := HungController(s), restartsSoFar(s)
	noted := pod != nil && before.number > 0 && before.ended == pod.UID
	switch {
	case s.Cluster.DeletionTimestamp != nil:
		return nil
	case pod == nil && before.number > 0 && helped(s):
		return in.Writer.Apply(ctx, controllerRestarts{}.note(s))
	case pod == nil, !noted && !before.due(s, pod):
		return nil
	}
	if err := in.Stands(ctx); err != nil {
		return step.IgnoreOutdated(err)
	}
	if !noted {
		if err := in.Writer.Apply(ctx, controllerRestarts{before.number + 1, pod.UID}.note(s)); err != nil {
			return fmt.Errorf("record the restart of the LINSTOR controller: %w", err)
		}
	}
	if err := in.Writer.DeletePod(ctx, pod); err != nil {
		return fmt.Errorf("restart the LINSTOR controller, which cannot reach any satellites over TLS: %w", err)
	}
	return nil
}
