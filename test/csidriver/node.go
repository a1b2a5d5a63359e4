package csidriver

import (
	"context"
	"errors"
	"fmt"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// mostVolumes is how many volumes a node can have.
const mostVolumes = 1 << 20

// NodeGetInfo implements csi.NodeServer: G nodes. A node that LINSTOR does not know is an error, which is why the pods
// of the driver wait for their satellite.
func (d node) NodeGetInfo(ctx context.Context, _ *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	if d.opts.Node == "" {
		return nil, status.Error(codes.FailedPrecondition, "the driver was started without a node")
	}
	n, err := d.linstor.Nodes.Get(ctx, d.opts.Node)
	if notFound(err) {
		return nil, status.Errorf(codes.NotFound, "LINSTOR has no node %s", d.opts.Node)
	}
	if err != nil {
		return nil, fmt.Errorf("look for the node: %w", err)
	}
	return &csi.NodeGetInfoResponse{NodeId: n.Name, MaxVolumesPerNode: mostVolumes,
		AccessibleTopology: &csi.Topology{Segments: d.segments(n)}}, nil
}

// NodeGetCapabilities implements csi.NodeServer.
func (d node) NodeGetCapabilities(context.Context, *csi.NodeGetCapabilitiesRequest) (
	*csi.NodeGetCapabilitiesResponse, error) {
	var out csi.NodeGetCapabilitiesResponse
	for _, c := range []csi.NodeServiceCapability_RPC_Type{
		csi.NodeServiceCapability_RPC_GET_VOLUME_STATS,
		csi.NodeServiceCapability_RPC_EXPAND_VOLUME,
	} {
		out.Capabilities = append(out.Capabilities, &csi.NodeServiceCapability{
			Type: &csi.NodeServiceCapability_Rpc{Rpc: &csi.NodeServiceCapability_RPC{Type: c}}})
	}
	return &out, nil
}

// NodePublishVolume implements csi.NodeServer. The device's path is the controller's, or LINSTOR's where a driver
// without controller attachments is asked.
func (d node) NodePublishVolume(ctx context.Context, req *csi.NodePublishVolumeRequest) (
	*csi.NodePublishVolumeResponse, error) {
	if err := required("volume id", req.GetVolumeId(), "target path", req.GetTargetPath()); err != nil {
		return nil, err
	}
	if req.GetVolumeCapability() == nil {
		return nil, invalid("the request lacks the volume's capability")
	}
	wanted, err := checkCapabilities([]*csi.VolumeCapability{req.GetVolumeCapability()})
	if err != nil {
		return nil, err
	}
	m := Mount{Volume: req.GetVolumeId(), Target: req.GetTargetPath(), ReadOnly: req.GetReadonly(),
		Device: req.GetPublishContext()[devicePath]}
	if wanted != block {
		m.FSType = req.GetPublishContext()[fsTypeKey]
		if m.FSType == "" {
			m.FSType = "ext4"
		}
	}
	if m.Device == "" {
		on, err := d.copyOn(ctx, m.Volume, d.opts.Node)
		if err != nil {
			return nil, err
		}
		if on == nil || len(on.Volumes) == 0 {
			return nil, status.Errorf(codes.NotFound, "there is no volume %s on node %s", m.Volume, d.opts.Node)
		}
		m.Device = on.Volumes[0].DevicePath
	}
	if err := d.opts.Host.Mount(m); err != nil {
		return nil, fmt.Errorf("mount the volume: %w", err)
	}
	return &csi.NodePublishVolumeResponse{}, nil
}

// NodeUnpublishVolume implements csi.NodeServer.
func (d node) NodeUnpublishVolume(_ context.Context, req *csi.NodeUnpublishVolumeRequest) (
	*csi.NodeUnpublishVolumeResponse, error) {
	if err := required("volume id", req.GetVolumeId(), "target path", req.GetTargetPath()); err != nil {
		return nil, err
	}
	if err := d.opts.Host.Unmount(req.GetTargetPath()); err != nil {
		return nil, fmt.Errorf("unmount the volume: %w", err)
	}
	return &csi.NodeUnpublishVolumeResponse{}, nil
}

// mountOf is what a request about a mounted volume is about.
func (d node) mountOf(volume, path string) (Mount, error) {
	if err := required("volume id", volume, "volume path", path); err != nil {
		return Mount{}, err
	}
	m, ok := d.opts.Host.At(path)
	if !ok || m.Volume != volume {
		return Mount{}, status.Errorf(codes.NotFound, "volume %s is not mounted at %s", volume, path)
	}
	return m, nil
}

// NodeGetVolumeStats implements csi.NodeServer.
func (d node) NodeGetVolumeStats(_ context.Context, req *csi.NodeGetVolumeStatsRequest) (
	*csi.NodeGetVolumeStatsResponse, error) {
	m, err := d.mountOf(req.GetVolumeId(), req.GetVolumePath())
	if err != nil {
		return nil, err
	}
	size, gone := d.opts.Host.DeviceKiB(m.Device)
	if gone != nil {
		condition := &csi.VolumeCondition{Abnormal: true, Message: gone.Error()}
		//nolint:nilerr // a device that is gone is an answer, not a failure
		return &csi.NodeGetVolumeStatsResponse{VolumeCondition: condition}, nil
	}
	return &csi.NodeGetVolumeStatsResponse{
		Usage:           []*csi.VolumeUsage{{Unit: csi.VolumeUsage_BYTES, Total: size * kib, Available: size * kib}},
		VolumeCondition: &csi.VolumeCondition{Message: "the device is there"},
	}, nil
}

// NodeExpandVolume implements csi.NodeServer. A block device has grown by itself.
func (d node) NodeExpandVolume(_ context.Context, req *csi.NodeExpandVolumeRequest) (
	*csi.NodeExpandVolumeResponse, error) {
	m, err := d.mountOf(req.GetVolumeId(), req.GetVolumePath())
	if err != nil {
		return nil, err
	}
	var size int64
	if m.FSType == "" {
		size, err = d.opts.Host.DeviceKiB(m.Device)
	} else {
		size, err = d.opts.Host.Grow(m.Target)
	}
	if errors.Is(err, errNotMounted) {
		return nil, status.Error(codes.NotFound, err.Error())
	}
	if err != nil {
		return nil, fmt.Errorf("grow the file system: %w", err)
	}
	if size*kib < req.GetCapacityRange().GetRequiredBytes() {
		return nil, status.Errorf(codes.Unavailable, "the device has %d KiB only", size)
	}
	return &csi.NodeExpandVolumeResponse{CapacityBytes: size * kib}, nil
}
