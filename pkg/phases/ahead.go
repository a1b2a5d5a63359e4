package phases

import (
	"context"
	"errors"
	"slices"

	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/controller"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/database"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/pools"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/registration"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/satellites"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/volumedriver"
)

// ahead begins the work of later links while the last of these is waited for, so that the pods of all of them start at
// once and nodes are registered as they come. The links are judged in their order all the same.
//
// What may be begun early is what cannot do harm before its turn:
//   - The database is looked into and claimed. Nothing else is done before the claim: a controller would migrate what
//     another LINSTOR has there, and a satellite clears DRBD's resource files from its node when it starts.
//   - The controller and the satellites are started. Satellites wait for the kernel module by themselves. None is
//     restarted. Where LINSTOR knows nodes already, satellites wait until it answers: it may have a node's address
//     for another one.
//   - The CSI driver's pods are started on the nodes. Each waits until LINSTOR has its node ONLINE, and that takes no
//     longer then than it has to: the driver's images are there.
//   - New nodes are registered one by one when they have module and satellite, once the controller has its properties.
//   - New pools are made on each node as soon as it is registered: LINSTOR takes one write after the other, and would
//     have nothing to do while the last nodes are waited for. Pools that LINSTOR has already are left as they are.
//
// Nothing is begun while an upgrade is pending: its steps have their own order.
func ahead(ctx context.Context, in *step.Input, links []step.Link) error {
	if in.Snapshot.Upgrade != nil {
		return nil
	}
	later := func(s fsm.State) bool {
		return !slices.ContainsFunc(links, func(l step.Link) bool { return l.State == s })
	}
	if later(fsm.Database) {
		if err := database.Link().Work(ctx, in); err != nil {
			return err
		}
	}
	if e := in.Snapshot.Evidence[fsm.Database]; !e.OK() {
		return nil
	}
	// From here on one object that is refused keeps no other back.
	var errs []error
	if later(fsm.Controller) {
		errs = append(errs, controller.Link().Work(ctx, in))
	}
	errs = append(errs, startOnNodes(ctx, in, later))
	if !in.Snapshot.Evidence[fsm.Controller].OK() {
		return errors.Join(errs...)
	}
	if later(fsm.NodeRegistration) {
		registration.RegisterNew(in)
	}
	if later(fsm.StoragePools) {
		pools.MakeNew(in)
	}
	return errors.Join(errs...)
}

// startOnNodes starts the pods of later links that run on each node.
func startOnNodes(ctx context.Context, in *step.Input, later func(fsm.State) bool) error {
	if !in.Snapshot.NeverUsed() {
		return nil
	}
	var errs []error
	if later(fsm.Satellites) {
		_, err := satellites.Apply(ctx, in)
		errs = append(errs, err)
	}
	if later(fsm.VolumeDriver) {
		errs = append(errs, volumedriver.StartNodes(ctx, in))
	}
	return errors.Join(errs...)
}
