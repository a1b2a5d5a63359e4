package phases

import (
	"context"
	"slices"

	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
)

// ahead begins the work of later links while the handler's own is waited for, so that the pods of all of them start at once
// and nodes are registered as they come. The links are judged in their order all the same.
//
// What may be begun early is what cannot do harm before its turn:
//   - The database is looked into and claimed. Nothing else is done before the claim: a controller would migrate what another
//     LINSTOR has there, and a satellite clears DRBD's resource files from its node when it starts.
//   - The controller and the satellites are started. Satellites wait for the kernel module by themselves. None is restarted.
//   - New nodes are registered one by one when they have module and satellite, once the controller has its properties.
//
// Pools are never made early, and nothing is while an upgrade is pending: its steps have their own order.
func (h chainHandler) ahead(ctx context.Context, in *Input) error {
	if in.upgrade != nil {
		return nil
	}
	later := func(s fsm.State) bool {
		return !slices.ContainsFunc(h.links, func(l Link) bool { return l.State() == s })
	}
	if later(fsm.Database) {
		if err := (databaseLink{}).Work(ctx, in); err != nil {
			return err
		}
	}
	if e := (databaseLink{}).Evidence(in.Snapshot); !e.OK() {
		return nil
	}
	if later(fsm.Controller) {
		if err := (controllerLink{}).Work(ctx, in); err != nil {
			return err
		}
	}
	if later(fsm.Satellites) {
		if _, err := in.applySatellites(ctx); err != nil {
			return err
		}
	}
	if later(fsm.NodeRegistration) && (controllerLink{}).Evidence(in.Snapshot).OK() {
		in.registerNew()
	}
	return nil
}
