package csidriver

import (
	"context"
	"fmt"
	"slices"
	"time"

	linstor "github.com/LINBIT/golinstor"
	"github.com/LINBIT/golinstor/client"
	"github.com/container-storage-interface/spec/lib/go/csi"
)

const (
	// balance is the property that keeps LINSTOR from placing copies anew while they are being removed.
	balance = "BalanceResourcesEnabled"
	// inUseRecheck is how often is looked whether a volume is still in use.
	inUseRecheck = time.Second
)

// DeleteVolume implements csi.ControllerServer: PUT rd BalanceResourcesEnabled=False (404: done), view/resources,
// DELETE each resource, diskless ones first, G vds, DELETE vd, PUT rd without that property, view/snapshots, and
// unless there is a snapshot G rd, DELETE rd, DELETE rg. A volume that is in use is waited for as long as the caller
// does.
func (d controller) DeleteVolume(ctx context.Context, req *csi.DeleteVolumeRequest) (*csi.DeleteVolumeResponse,
	error) {
	if err := required("volume id", req.GetVolumeId()); err != nil {
		return nil, err
	}
	if err := d.remove(ctx, req.GetVolumeId()); err != nil {
		return nil, err
	}
	return &csi.DeleteVolumeResponse{}, nil
}

func (d *Driver) remove(ctx context.Context, name string) error {
	definitions := d.linstor.ResourceDefinitions
	err := definitions.Modify(ctx, name, client.GenericPropsModify{OverrideProps: client.OverrideProps{balance: "False"}})
	if notFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("begin to remove the volume: %w", err)
	}
	copies, err := d.unused(ctx, name)
	if err != nil {
		return err
	}
	for _, c := range copies {
		if err := d.linstor.Resources.Delete(ctx, name, c.NodeName); err != nil && !notFound(err) {
			return fmt.Errorf("remove the copy on %s: %w", c.NodeName, err)
		}
	}
	volumes, err := definitions.GetVolumeDefinitions(ctx, name)
	if err != nil && !notFound(err) {
		return fmt.Errorf("read the volume definitions: %w", err)
	}
	for i := range volumes {
		err := definitions.DeleteVolumeDefinition(ctx, name, int(*volumes[i].VolumeNumber))
		if err != nil && !notFound(err) {
			return fmt.Errorf("remove the volume definition: %w", err)
		}
	}
	err = definitions.Modify(ctx, name, client.GenericPropsModify{DeleteProps: client.DeleteProps{balance}})
	if err != nil && !notFound(err) {
		return fmt.Errorf("end to remove the volume: %w", err)
	}
	return d.removeDefinition(ctx, name)
}

// unused are the copies, diskless ones first, as soon as nobody uses one.
func (d *Driver) unused(ctx context.Context, name string) ([]client.ResourceWithVolumes, error) {
	for {
		copies, err := d.copies(ctx, name)
		if err != nil {
			return nil, err
		}
		i := slices.IndexFunc(copies, func(r client.ResourceWithVolumes) bool {
			return r.State != nil && r.State.InUse != nil && *r.State.InUse
		})
		if i < 0 {
			slices.SortStableFunc(copies, func(a, b client.ResourceWithVolumes) int { return disks(a) - disks(b) })
			return copies, nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("the volume is in use on %s: %w", copies[i].NodeName, ctx.Err())
		case <-time.After(inUseRecheck):
		}
	}
}

func disks(r client.ResourceWithVolumes) int {
	if slices.Contains(r.Flags, linstor.FlagDiskless) {
		return 0
	}
	return 1
}

// removeDefinition removes a definition of which nothing is left, with its group if it was the last. One with
// snapshots stays for them.
func (d *Driver) removeDefinition(ctx context.Context, name string) error {
	copies, err := d.copies(ctx, name)
	if err != nil {
		return err
	}
	snapshots, err := d.linstor.Resources.GetSnapshotView(ctx)
	if err != nil {
		return fmt.Errorf("read the snapshots: %w", err)
	}
	left := slices.ContainsFunc(snapshots, func(s client.Snapshot) bool { return s.ResourceName == name })
	gone := !slices.ContainsFunc(copies, func(r client.ResourceWithVolumes) bool {
		return !slices.Contains(r.Flags, linstor.FlagDelete)
	})
	if left || !gone {
		return nil
	}
	found, err := d.linstor.ResourceDefinitions.Get(ctx, name)
	if notFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look for the resource definition: %w", err)
	}
	if err := d.linstor.ResourceDefinitions.Delete(ctx, name); err != nil && !notFound(err) {
		return fmt.Errorf("remove the resource definition: %w", err)
	}
	if found.ResourceGroupName == "DfltRscGrp" {
		return nil
	}
	err = d.linstor.ResourceGroups.Delete(ctx, found.ResourceGroupName)
	if err != nil && !notFound(err) && !client.IsApiCallError(err, linstor.FailExistsRscDfn) { // others are in it
		return fmt.Errorf("remove the resource group: %w", err)
	}
	return nil
}
