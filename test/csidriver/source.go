package csidriver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	linstor "github.com/LINBIT/golinstor"
	"github.com/LINBIT/golinstor/client"
	"github.com/LINBIT/golinstor/clonestatus"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// cloneRecheck is how often is looked whether a clone is complete.
const cloneRecheck = time.Second

// makeFrom makes a volume with the content of a snapshot or of another volume.
func (d *Driver) makeFrom(ctx context.Context, o order) error {
	switch {
	case o.from.GetSnapshot() != nil:
		return d.restore(ctx, o, o.from.GetSnapshot().GetSnapshotId())
	case o.from.GetVolume() != nil:
		return d.clone(ctx, o, o.from.GetVolume().GetVolumeId())
	}
	return invalid("the source of the volume is of an unknown kind")
}

// restore: G view/snapshots, the definition, G vds, POST snapshot-restore-volume-definition, G view/resources, POST
// snapshot-restore-resource on one node that has the snapshot, G vd, PUT vd if more is wanted, and the rest as of a
// new volume. LINSTOR gives the definition the properties of the snapshot's, completedBy among them.
func (d *Driver) restore(ctx context.Context, o order, id string) error {
	source, name, ok := splitSnapshotID(id)
	if !ok {
		return status.Errorf(codes.NotFound, "%q is no id of a snapshot of this driver", id)
	}
	from, err := d.snapshot(ctx, source, name)
	if err != nil {
		return err
	}
	if from == nil {
		return status.Errorf(codes.NotFound, "there is no snapshot %s", id)
	}
	if len(from.VolumeDefinitions) == 0 {
		return fmt.Errorf("the snapshot %s has no volume definitions", id)
	}
	if from.VolumeDefinitions[0].SizeKib > o.sizeKiB {
		return status.Errorf(codes.OutOfRange, "the snapshot has %d KiB, more than %d KiB",
			from.VolumeDefinitions[0].SizeKib, o.sizeKiB)
	}
	if err := d.makeDefinition(ctx, o); err != nil {
		return err
	}
	volumes, err := d.linstor.ResourceDefinitions.GetVolumeDefinitions(ctx, o.name)
	if err != nil {
		return fmt.Errorf("read the volume definitions: %w", err)
	}
	to := client.SnapshotRestore{ToResource: o.name}
	if len(volumes) == 0 {
		if err := d.linstor.Resources.RestoreVolumeDefinitionSnapshot(ctx, source, name, to); err != nil {
			return fmt.Errorf("restore the volume definition: %w", err)
		}
	}
	have, err := d.diskful(ctx, o.name)
	if err != nil {
		return err
	}
	if have == 0 {
		if to.Nodes, err = d.restoreNode(ctx, o, from); err != nil {
			return err
		}
		if err := d.linstor.Resources.RestoreSnapshot(ctx, source, name, to); err != nil {
			return fmt.Errorf("restore the snapshot: %w", err)
		}
	}
	if err := d.growDefinition(ctx, o); err != nil {
		return err
	}
	return d.placeAndFinish(ctx, o)
}

// growDefinition: G vd, and PUT vd if more is wanted.
func (d *Driver) growDefinition(ctx context.Context, o order) error {
	volume, err := d.linstor.ResourceDefinitions.GetVolumeDefinition(ctx, o.name, 0)
	if err != nil {
		return fmt.Errorf("read the volume definition: %w", err)
	}
	if volume.SizeKib >= o.sizeKiB {
		return nil
	}
	err = d.linstor.ResourceDefinitions.ModifyVolumeDefinition(ctx, o.name, 0,
		client.VolumeDefinitionModify{SizeKib: o.sizeKiB})
	if err != nil {
		return fmt.Errorf("grow the volume: %w", err)
	}
	return nil
}

// restoreNode is the best preferred node that has the snapshot, else a requisite one, else any.
func (d *Driver) restoreNode(ctx context.Context, o order, from *client.Snapshot) ([]string, error) {
	to, err := d.reachOf(ctx, o.where)
	if err != nil {
		return nil, err
	}
	nodes, err := d.linstor.Nodes.GetAll(ctx)
	if err != nil {
		return nil, fmt.Errorf("read LINSTOR's nodes: %w", err)
	}
	online := func(name string) bool {
		return slices.ContainsFunc(nodes, func(n client.Node) bool {
			return n.Name == name && n.ConnectionStatus == "ONLINE"
		})
	}
	for _, candidates := range append(slices.Clone(to.preferred), to.requisite) {
		for _, name := range candidates {
			if slices.Contains(from.Nodes, name) && online(name) {
				return []string{name}, nil
			}
		}
	}
	if o.class.remote {
		for _, name := range from.Nodes {
			if online(name) {
				return []string{name}, nil
			}
		}
	}
	return nil, status.Errorf(codes.ResourceExhausted, "no node that the volume may be on has the snapshot %s", from.Name)
}

// clone: G source rd, G source vds, the resource group, G clone 404, POST clone, G clone until it is complete, G vd,
// PUT vd if more is wanted, and the rest as of a new volume. Of a provider that cannot clone, such as FILE_THIN,
// LINSTOR's answer to the POST is an object where its client reads a list.
func (d *Driver) clone(ctx context.Context, o order, source string) error {
	definitions := d.linstor.ResourceDefinitions
	if _, err := definitions.Get(ctx, source); notFound(err) {
		return status.Errorf(codes.NotFound, "there is no volume %s to clone", source)
	} else if err != nil {
		return fmt.Errorf("look for the volume to clone: %w", err)
	}
	volumes, err := definitions.GetVolumeDefinitions(ctx, source)
	if err != nil {
		return fmt.Errorf("look for the volume to clone: %w", err)
	}
	if len(volumes) == 0 || volumes[0].SizeKib > o.sizeKiB {
		return status.Errorf(codes.OutOfRange, "the volume to clone has more than %d KiB", o.sizeKiB)
	}
	if err := d.reconcileGroup(ctx, o.class); err != nil {
		return err
	}
	if _, err := definitions.CloneStatus(ctx, source, o.name); notFound(err) {
		request := client.ResourceDefinitionCloneRequest{Name: o.name, LayerList: o.class.layers,
			ResourceGroup: o.class.group}
		request.DeleteProps = client.DeleteProps{completedBy}
		if _, err := definitions.Clone(ctx, source, request); err != nil {
			return fmt.Errorf("clone the volume: %w", err)
		}
	} else if err != nil {
		return fmt.Errorf("look for the clone: %w", err)
	}
	if err := d.cloned(ctx, source, o.name); err != nil {
		return err
	}
	if err := d.growDefinition(ctx, o); err != nil {
		return err
	}
	return d.placeAndFinish(ctx, o)
}

// cloned waits until a clone is complete.
func (d *Driver) cloned(ctx context.Context, source, name string) error {
	for {
		s, err := d.linstor.ResourceDefinitions.CloneStatus(ctx, source, name)
		switch {
		case err != nil:
			return fmt.Errorf("look for the clone: %w", err)
		case s.Status == clonestatus.Complete:
			return nil
		case s.Status == clonestatus.Failed:
			return errors.New("LINSTOR could not clone the volume")
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for the clone: %w", ctx.Err())
		case <-time.After(cloneRecheck):
		}
	}
}

// snapshotScheme begins the id of a snapshot that is kept where the volume is: InCluster:///definition/snapshot.
const snapshotScheme = "InCluster:///"

func snapshotID(s *client.Snapshot) string { return snapshotScheme + s.ResourceName + "/" + s.Name }

func splitSnapshotID(id string) (definition, name string, ok bool) {
	rest, ok := strings.CutPrefix(id, snapshotScheme)
	if !ok {
		return "", "", false
	}
	definition, name, ok = strings.Cut(rest, "/")
	return definition, name, ok && definition != "" && name != "" && !strings.Contains(name, "/")
}

// snapshot is one of a volume; nil if there is none. With an empty definition it is one of any volume.
func (d *Driver) snapshot(ctx context.Context, definition, name string) (*client.Snapshot, error) {
	all, err := d.linstor.Resources.GetSnapshotView(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the snapshots: %w", err)
	}
	for i := range all {
		if all[i].Name == name && (definition == "" || all[i].ResourceName == definition) {
			return &all[i], nil
		}
	}
	return nil, nil
}

// taken reports whether the snapshot is complete.
func taken(s *client.Snapshot) bool { return slices.Contains(s.Flags, linstor.FlagSuccessful) }
