package csidriver

import (
	"context"
	"fmt"
	"slices"

	linstor "github.com/LINBIT/golinstor"
	"github.com/LINBIT/golinstor/client"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// place brings the volume to as many copies as the class asks for. The first goes to the best preferred node that can
// take it; each of them is asked for twice. The rest goes to the requisite nodes, and what they are too few for
// anywhere, where pods can reach it from anywhere.
func (d *Driver) place(ctx context.Context, o order) error {
	have, err := d.diskful(ctx, o.name)
	if err != nil {
		return err
	}
	to, err := d.reachOf(ctx, o.where)
	if err != nil {
		return err
	}
	if have == 0 {
		if have, err = d.placeFirst(ctx, o, to.preferred); err != nil {
			return err
		}
	}
	if have >= int(o.class.placeCount) {
		return nil
	}
	filter := client.AutoSelectFilter{NodeNameList: to.requisite}
	few := int(o.class.placeCount) > len(to.requisite)
	if few {
		filter.PlaceCount = int32(len(to.requisite))
	}
	if have < len(to.requisite) || !few {
		if err := d.autoplace(ctx, o.name, filter); err != nil {
			return status.Errorf(codes.ResourceExhausted,
				"the requisite nodes (%v) cannot take %d copies of the volume: %v", to.requisite, o.class.placeCount, err)
		}
	}
	if few {
		if err := d.autoplace(ctx, o.name, client.AutoSelectFilter{}); err != nil {
			return status.Errorf(codes.Internal, "%d copies of the volume cannot be placed anywhere: %v", o.class.placeCount,
				err)
		}
	}
	_, err = d.diskful(ctx, o.name)
	return err
}

// placeFirst tries the preferred nodes one after the other, and returns how many copies there are then.
func (d *Driver) placeFirst(ctx context.Context, o order, preferred [][]string) (int, error) {
	for _, nodes := range preferred {
		filter := client.AutoSelectFilter{PlaceCount: 1, AdditionalPlaceCount: 1, NodeNameList: nodes}
		for range 2 {
			err := d.autoplace(ctx, o.name, filter)
			if err == nil {
				return d.diskful(ctx, o.name)
			}
			if ctx.Err() != nil {
				return 0, fmt.Errorf("place the volume: %w", err)
			}
		}
	}
	return 0, nil
}

func (d *Driver) autoplace(ctx context.Context, name string, f client.AutoSelectFilter) error {
	return d.linstor.Resources.Autoplace(ctx, name, client.AutoPlaceRequest{SelectFilter: f})
}

// diskful counts the copies with a disk.
func (d *Driver) diskful(ctx context.Context, name string) (int, error) {
	copies, err := d.copies(ctx, name)
	if err != nil {
		return 0, err
	}
	return len(slices.DeleteFunc(copies, func(r client.ResourceWithVolumes) bool {
		return slices.Contains(r.Flags, linstor.FlagDiskless) || slices.Contains(r.Flags, linstor.FlagDelete)
	})), nil
}
