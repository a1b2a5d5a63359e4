package csidriver

import (
	"context"
	"fmt"
	"slices"
	"strings"

	linstor "github.com/LINBIT/golinstor"
	"github.com/LINBIT/golinstor/client"
	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	// block stands for the file system of a volume without one.
	block = "block"

	// createdFor marks the volume of a resource that was made for an attachment.
	createdFor, forAttachment = "Aux/csi-created-for", "temporary-diskless-attach"

	// devicePath and fsTypeKey are what the controller tells the node.
	devicePath = parameterPrefix + "device-path"
	fsTypeKey  = parameterPrefix + "fs-type"
)

// checkCapabilities is the file system that all capabilities want, block for none; "" leaves it to the class.
func checkCapabilities(all []*csi.VolumeCapability) (string, error) {
	if len(all) == 0 {
		return "", invalid("the request lacks the volume's capabilities")
	}
	fsType := ""
	for _, c := range all {
		mode := c.GetAccessMode().GetMode()
		several := slices.Contains([]csi.VolumeCapability_AccessMode_Mode{
			csi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER,
			csi.VolumeCapability_AccessMode_MULTI_NODE_SINGLE_WRITER,
			csi.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY}, mode)
		switch {
		case mode == csi.VolumeCapability_AccessMode_UNKNOWN:
			return "", invalid("a capability lacks its access mode")
		case several:
			return "", invalid("the access mode %s is not supported", mode)
		case c.GetBlock() != nil:
			fsType = block
		case c.GetMount() == nil:
			return "", invalid("a capability lacks its access type")
		case c.GetMount().GetFsType() != "":
			fsType = c.GetMount().GetFsType()
		}
	}
	return fsType, nil
}

// ControllerGetCapabilities implements csi.ControllerServer.
func (d controller) ControllerGetCapabilities(context.Context, *csi.ControllerGetCapabilitiesRequest) (
	*csi.ControllerGetCapabilitiesResponse, error) {
	var out csi.ControllerGetCapabilitiesResponse
	for _, c := range []csi.ControllerServiceCapability_RPC_Type{
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME,
		csi.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME,
		csi.ControllerServiceCapability_RPC_LIST_VOLUMES,
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT,
		csi.ControllerServiceCapability_RPC_LIST_SNAPSHOTS,
		csi.ControllerServiceCapability_RPC_CLONE_VOLUME,
		csi.ControllerServiceCapability_RPC_GET_CAPACITY,
		csi.ControllerServiceCapability_RPC_EXPAND_VOLUME,
		csi.ControllerServiceCapability_RPC_GET_VOLUME,
		csi.ControllerServiceCapability_RPC_VOLUME_CONDITION,
		csi.ControllerServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER,
	} {
		out.Capabilities = append(out.Capabilities, &csi.ControllerServiceCapability{
			Type: &csi.ControllerServiceCapability_Rpc{Rpc: &csi.ControllerServiceCapability_RPC{Type: c}}})
	}
	return &out, nil
}

// volume is a definition with the size of its volume: G rd, G volume-definitions.
func (d *Driver) volume(ctx context.Context, name string) (client.ResourceDefinition, uint64, error) {
	found, err := d.linstor.ResourceDefinitions.Get(ctx, name)
	if notFound(err) {
		return found, 0, status.Errorf(codes.NotFound, "there is no volume %s", name)
	}
	if err != nil {
		return found, 0, fmt.Errorf("look for the volume: %w", err)
	}
	volumes, err := d.linstor.ResourceDefinitions.GetVolumeDefinitions(ctx, name)
	if err != nil {
		return found, 0, fmt.Errorf("look for the volume: %w", err)
	}
	if len(volumes) == 0 {
		return found, 0, status.Errorf(codes.NotFound, "volume %s is being removed", name)
	}
	return found, volumes[0].SizeKib, nil
}

// ControllerPublishVolume implements csi.ControllerServer: G rd, G vds, G nodes, and where the node has no copy POST
// make-available, G view/resources, PUT the mark that tells that it was made for this. Without DRBD that makes a new,
// empty copy: only the PersistentVolume's node affinity stands in between.
func (d controller) ControllerPublishVolume(ctx context.Context, req *csi.ControllerPublishVolumeRequest) (
	*csi.ControllerPublishVolumeResponse, error) {
	name, node := req.GetVolumeId(), req.GetNodeId()
	if err := required("volume id", name, "node id", node); err != nil {
		return nil, err
	}
	if req.GetVolumeCapability() == nil {
		return nil, invalid("the request lacks the volume's capability")
	}
	if _, err := checkCapabilities([]*csi.VolumeCapability{req.GetVolumeCapability()}); err != nil {
		return nil, err
	}
	found, _, err := d.volume(ctx, name)
	if err != nil {
		return nil, err
	}
	on, err := d.linstor.Nodes.Get(ctx, node)
	if notFound(err) {
		return nil, status.Errorf(codes.NotFound, "there is no node %s", node)
	}
	if err != nil {
		return nil, fmt.Errorf("look for the node: %w", err)
	}
	if on.ConnectionStatus != "ONLINE" {
		return nil, status.Errorf(codes.NotFound, "volume %s cannot be used on node %s: node %s", name, node,
			on.ConnectionStatus)
	}
	device, err := d.available(ctx, name, node)
	if err != nil {
		return nil, err
	}
	return &csi.ControllerPublishVolumeResponse{PublishContext: map[string]string{
		devicePath: device, fsTypeKey: found.Props["FileSystem/Type"]}}, nil
}

// available makes a volume usable on a node and returns its device.
func (d *Driver) available(ctx context.Context, name, node string) (string, error) {
	r, err := d.copyOn(ctx, name, node)
	if err != nil {
		return "", err
	}
	if r == nil || slices.Contains(r.Flags, linstor.FlagTieBreaker) || slices.Contains(r.Flags, linstor.FlagDelete) {
		err := d.linstor.Resources.MakeAvailable(ctx, name, node, client.ResourceMakeAvailable{})
		if err != nil {
			return "", fmt.Errorf("make the volume available on node %s: %w", node, err)
		}
		if r, err = d.copyOn(ctx, name, node); err != nil {
			return "", err
		}
		if r != nil {
			err = d.linstor.Resources.ModifyVolume(ctx, name, node, 0, client.GenericPropsModify{
				OverrideProps: client.OverrideProps{createdFor: forAttachment}})
			if err != nil {
				return "", fmt.Errorf("mark the copy on node %s: %w", node, err)
			}
		}
	}
	if r == nil || len(r.Volumes) == 0 || r.Volumes[0].DevicePath == "" {
		return "", fmt.Errorf("volume %s has no device on node %s", name, node)
	}
	return r.Volumes[0].DevicePath, nil
}

// copyOn is the resource on a node; nil if there is none.
func (d *Driver) copyOn(ctx context.Context, name, node string) (*client.ResourceWithVolumes, error) {
	copies, err := d.copies(ctx, name)
	if err != nil {
		return nil, err
	}
	for i := range copies {
		if copies[i].NodeName == node {
			return &copies[i], nil
		}
	}
	return nil, nil
}

// ControllerUnpublishVolume implements csi.ControllerServer: G view/resources, and DELETE resource if it is diskless
// and was made for an attachment. A copy with a disk stays.
func (d controller) ControllerUnpublishVolume(ctx context.Context, req *csi.ControllerUnpublishVolumeRequest) (
	*csi.ControllerUnpublishVolumeResponse, error) {
	name, node := req.GetVolumeId(), req.GetNodeId()
	if err := required("volume id", name); err != nil {
		return nil, err
	}
	copies, err := d.copies(ctx, name)
	if err != nil {
		return nil, err
	}
	for _, r := range copies {
		temporary := len(r.Volumes) > 0 && r.Volumes[0].Props[createdFor] == forAttachment
		if node != "" && r.NodeName != node || !temporary || !slices.Contains(r.Flags, linstor.FlagDiskless) {
			continue
		}
		err := d.linstor.Resources.Delete(ctx, name, r.NodeName)
		// In use: another pod of the node has it. The next detachment takes it away.
		if err != nil && !notFound(err) && !client.IsApiCallError(err, linstor.FailInUse) {
			return nil, fmt.Errorf("remove the diskless client on node %s: %w", r.NodeName, err)
		}
	}
	return &csi.ControllerUnpublishVolumeResponse{}, nil
}

// ControllerExpandVolume implements csi.ControllerServer: G rd, G vds, PUT vd. LINSTOR does not look whether there is
// room.
func (d controller) ControllerExpandVolume(ctx context.Context, req *csi.ControllerExpandVolumeRequest) (
	*csi.ControllerExpandVolumeResponse, error) {
	if err := required("volume id", req.GetVolumeId()); err != nil {
		return nil, err
	}
	if req.GetCapacityRange() == nil {
		return nil, invalid("the request lacks the capacity range")
	}
	found, have, err := d.volume(ctx, req.GetVolumeId())
	if err != nil {
		return nil, err
	}
	wanted := max(have, uint64(req.GetCapacityRange().GetRequiredBytes()+kib-1)/kib)
	if limit := req.GetCapacityRange().GetLimitBytes(); limit > 0 && int64(wanted)*kib > limit {
		return nil, status.Errorf(codes.OutOfRange, "the volume would have %d KiB, more than %d bytes", wanted, limit)
	}
	if wanted > have {
		err := d.linstor.ResourceDefinitions.ModifyVolumeDefinition(ctx, req.GetVolumeId(), 0,
			client.VolumeDefinitionModify{SizeKib: wanted})
		if err != nil {
			return nil, fmt.Errorf("grow the volume: %w", err)
		}
	}
	return &csi.ControllerExpandVolumeResponse{CapacityBytes: int64(wanted) * kib,
		NodeExpansionRequired: found.Props["FileSystem/Type"] != "" && req.GetVolumeCapability().GetBlock() == nil}, nil
}

// GetCapacity implements csi.ControllerServer.
func (d controller) GetCapacity(ctx context.Context, req *csi.GetCapacityRequest) (*csi.GetCapacityResponse, error) {
	c, err := parseClass(req.GetParameters(), d.opts.PropertyNamespace)
	if err != nil {
		return nil, err
	}
	free, err := d.freeSpace(ctx, c, req.GetAccessibleTopology())
	if err != nil {
		return nil, err
	}
	return &csi.GetCapacityResponse{AvailableCapacity: free}, nil
}

// ValidateVolumeCapabilities implements csi.ControllerServer.
func (d controller) ValidateVolumeCapabilities(ctx context.Context, req *csi.ValidateVolumeCapabilitiesRequest) (
	*csi.ValidateVolumeCapabilitiesResponse, error) {
	if err := required("volume id", req.GetVolumeId()); err != nil {
		return nil, err
	}
	if len(req.GetVolumeCapabilities()) == 0 {
		return nil, invalid("the request lacks the volume's capabilities")
	}
	if _, _, err := d.volume(ctx, req.GetVolumeId()); err != nil {
		return nil, err
	}
	if _, refused := checkCapabilities(req.GetVolumeCapabilities()); refused != nil {
		//nolint:nilerr // capabilities that are not supported are an answer, not a failure
		return &csi.ValidateVolumeCapabilitiesResponse{Message: refused.Error()}, nil
	}
	return &csi.ValidateVolumeCapabilitiesResponse{Confirmed: &csi.ValidateVolumeCapabilitiesResponse_Confirmed{
		VolumeContext: req.GetVolumeContext(), VolumeCapabilities: req.GetVolumeCapabilities(),
		Parameters: req.GetParameters()}}, nil
}

// ControllerGetVolume implements csi.ControllerServer: G rd, G vds, G view/resources.
func (d controller) ControllerGetVolume(ctx context.Context, req *csi.ControllerGetVolumeRequest) (
	*csi.ControllerGetVolumeResponse, error) {
	if err := required("volume id", req.GetVolumeId()); err != nil {
		return nil, err
	}
	_, size, err := d.volume(ctx, req.GetVolumeId())
	if err != nil {
		return nil, err
	}
	copies, err := d.copies(ctx, req.GetVolumeId())
	if err != nil {
		return nil, err
	}
	return &csi.ControllerGetVolumeResponse{
		Volume: &csi.Volume{VolumeId: req.GetVolumeId(), CapacityBytes: int64(size) * kib},
		Status: &csi.ControllerGetVolumeResponse_VolumeStatus{VolumeCondition: condition(copies)},
	}, nil
}

// condition says whether all copies are well: LINSTOR tells a state of each, and DRBD of none that it cannot be used.
func condition(copies []client.ResourceWithVolumes) *csi.VolumeCondition {
	var bad []string
	for _, r := range copies {
		drbd := r.LayerObject != nil && r.LayerObject.Drbd != nil
		if r.State == nil || drbd && r.LayerObject.Drbd.PromotionScore == 0 {
			bad = append(bad, r.NodeName)
		}
	}
	if len(bad) > 0 {
		return &csi.VolumeCondition{Abnormal: true, Message: "the copies on these nodes have trouble: " +
			strings.Join(bad, ", ")}
	}
	return &csi.VolumeCondition{Message: "all copies are well"}
}

// ListVolumes implements csi.ControllerServer: G rd with volume definitions, G view/resources.
func (d controller) ListVolumes(ctx context.Context, req *csi.ListVolumesRequest) (*csi.ListVolumesResponse, error) {
	all, err := d.linstor.ResourceDefinitions.GetAll(ctx, client.RDGetAllRequest{WithVolumeDefinitions: true})
	if err != nil {
		return nil, fmt.Errorf("read the resource definitions: %w", err)
	}
	var entries []*csi.ListVolumesResponse_Entry
	for i := range all {
		if len(all[i].VolumeDefinitions) == 0 {
			continue
		}
		copies, err := d.copies(ctx, all[i].Name)
		if err != nil {
			return nil, err
		}
		entries = append(entries, &csi.ListVolumesResponse_Entry{
			Volume: &csi.Volume{VolumeId: all[i].Name, CapacityBytes: int64(all[i].VolumeDefinitions[0].SizeKib) * kib},
			Status: &csi.ListVolumesResponse_VolumeStatus{VolumeCondition: condition(copies)},
		})
	}
	slices.SortFunc(entries, func(a, b *csi.ListVolumesResponse_Entry) int {
		return strings.Compare(a.Volume.VolumeId, b.Volume.VolumeId)
	})
	page, next, err := pageOf(entries, req.GetStartingToken(), req.GetMaxEntries())
	if err != nil {
		return nil, err
	}
	return &csi.ListVolumesResponse{Entries: page, NextToken: next}, nil
}
