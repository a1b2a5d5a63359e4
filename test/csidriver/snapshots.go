package csidriver

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/LINBIT/golinstor/client"
	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// backupMapping is the key-value store in which the driver keeps where backups of snapshots are.
const backupMapping = "csi-backup-mapping"

// CreateSnapshot implements csi.ControllerServer: G view/snapshots, G key-value-store (404), G remotes, POST
// actions/snapshot/multi, G view/snapshots.
func (d controller) CreateSnapshot(ctx context.Context, req *csi.CreateSnapshotRequest) (*csi.CreateSnapshotResponse,
	error) {
	if err := required("name", req.GetName(), "source volume id", req.GetSourceVolumeId()); err != nil {
		return nil, err
	}
	for key, value := range req.GetParameters() {
		own, is := strings.CutPrefix(key, "snap."+Name+"/")
		if is && (own != "type" || value != "InCluster") {
			return nil, invalid("%q is no parameter of this driver's snapshots, which are in the cluster", key)
		}
	}
	name := nameFor(req.GetName())
	found, err := d.snapshot(ctx, "", name)
	if err != nil {
		return nil, err
	}
	if found == nil {
		if found, err = d.takeSnapshot(ctx, req.GetSourceVolumeId(), name); err != nil {
			return nil, err
		}
	}
	if found.ResourceName != req.GetSourceVolumeId() {
		return nil, status.Errorf(codes.AlreadyExists, "the snapshot %s exists, of volume %s", name, found.ResourceName)
	}
	shown, err := showSnapshot(found)
	if err != nil {
		return nil, err
	}
	return &csi.CreateSnapshotResponse{Snapshot: shown}, nil
}

func (d *Driver) takeSnapshot(ctx context.Context, volume, name string) (*client.Snapshot, error) {
	if _, err := d.linstor.KeyValueStore.Get(ctx, backupMapping); err != nil && !notFound(err) {
		return nil, fmt.Errorf("read where backups are: %w", err)
	}
	if _, err := d.linstor.Remote.GetAll(ctx); err != nil {
		return nil, fmt.Errorf("read the remotes: %w", err)
	}
	err := d.linstor.Resources.CreateSnapshots(ctx, client.Snapshot{Name: name, ResourceName: volume})
	if notFound(err) {
		return nil, status.Errorf(codes.NotFound, "there is no volume %s", volume)
	}
	if err != nil {
		return nil, fmt.Errorf("take the snapshot: %w", err)
	}
	found, err := d.snapshot(ctx, volume, name)
	if err == nil && found == nil {
		err = fmt.Errorf("LINSTOR does not show the snapshot %s that it took", name)
	}
	return found, err
}

func showSnapshot(s *client.Snapshot) (*csi.Snapshot, error) {
	if len(s.VolumeDefinitions) == 0 || len(s.Snapshots) == 0 || s.Snapshots[0].CreateTimestamp == nil {
		return nil, fmt.Errorf("LINSTOR shows the snapshot %s without volume definitions or times", s.Name)
	}
	return &csi.Snapshot{SnapshotId: snapshotID(s), SourceVolumeId: s.ResourceName, ReadyToUse: taken(s),
		SizeBytes:    int64(s.VolumeDefinitions[0].SizeKib) * kib,
		CreationTime: timestamppb.New(s.Snapshots[0].CreateTimestamp.Time)}, nil
}

// DeleteSnapshot implements csi.ControllerServer: DELETE snapshot, and if that was the last that kept the definition
// of a removed volume, the definition: G view/snapshots, G rd, DELETE rd, DELETE rg.
func (d controller) DeleteSnapshot(ctx context.Context, req *csi.DeleteSnapshotRequest) (*csi.DeleteSnapshotResponse,
	error) {
	if err := required("snapshot id", req.GetSnapshotId()); err != nil {
		return nil, err
	}
	definition, name, ok := splitSnapshotID(req.GetSnapshotId())
	if !ok {
		return &csi.DeleteSnapshotResponse{}, nil // none of ours
	}
	if err := d.linstor.Resources.DeleteSnapshot(ctx, definition, name); err != nil && !notFound(err) {
		return nil, fmt.Errorf("remove the snapshot: %w", err)
	}
	copies, err := d.copies(ctx, definition)
	if err != nil {
		return nil, err
	}
	if len(copies) == 0 {
		if err := d.removeDefinition(ctx, definition); err != nil {
			return nil, err
		}
	}
	return &csi.DeleteSnapshotResponse{}, nil
}

// ListSnapshots implements csi.ControllerServer: G remotes, G view/snapshots.
func (d controller) ListSnapshots(ctx context.Context, req *csi.ListSnapshotsRequest) (*csi.ListSnapshotsResponse,
	error) {
	if _, err := d.linstor.Remote.GetAll(ctx); err != nil {
		return nil, fmt.Errorf("read the remotes: %w", err)
	}
	all, err := d.linstor.Resources.GetSnapshotView(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the snapshots: %w", err)
	}
	var entries []*csi.ListSnapshotsResponse_Entry
	for i := range all {
		s := &all[i]
		if id := req.GetSnapshotId(); id != "" && id != snapshotID(s) {
			continue
		}
		if volume := req.GetSourceVolumeId(); volume != "" && volume != s.ResourceName {
			continue
		}
		shown, err := showSnapshot(s)
		if err != nil {
			return nil, err
		}
		entries = append(entries, &csi.ListSnapshotsResponse_Entry{Snapshot: shown})
	}
	slices.SortFunc(entries, func(a, b *csi.ListSnapshotsResponse_Entry) int {
		return strings.Compare(a.Snapshot.SnapshotId, b.Snapshot.SnapshotId)
	})
	page, next, err := pageOf(entries, req.GetStartingToken(), req.GetMaxEntries())
	if err != nil {
		return nil, err
	}
	return &csi.ListSnapshotsResponse{Entries: page, NextToken: next}, nil
}

// pageOf is a part of a list. The token is where it begins.
func pageOf[E any](all []E, token string, most int32) (page []E, next string, err error) {
	begin := 0
	if token != "" {
		begin, err = strconv.Atoi(token)
		if err != nil || begin < 0 || begin > len(all) {
			return nil, "", status.Errorf(codes.Aborted, "%q is no token of this list", token)
		}
	}
	if most < 0 {
		return nil, "", invalid("a list of %d entries is asked for", most)
	}
	end := len(all)
	if most > 0 && begin+int(most) < end {
		end = begin + int(most)
		next = strconv.Itoa(end)
	}
	return all[begin:end], next, nil
}
