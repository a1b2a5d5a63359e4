package csidriver

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"strings"

	linstor "github.com/LINBIT/golinstor"
	"github.com/LINBIT/golinstor/client"
	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	kib = 1024
	// smallestKiB and smallestXFSKiB are what file systems need; a block volume needs a page.
	smallestKiB, smallestXFSKiB, smallestBlockKiB = 2 << 10, 300 << 10, 4

	// completedBy is the property that a definition gets when all of its volume is made. Of a volume of the driver its
	// value begins with completer.
	completedBy = "Aux/csi-provisioning-completed-by"
	completer   = "linstor-csi"
	claimPrefix = "Aux/" + metadataPrefix + "pvc/"
)

// order is a volume that is to be made.
type order struct {
	name    string // of the resource definition
	class   class
	fsType  string // "" for a block device
	sizeKiB uint64
	from    *csi.VolumeContentSource
	where   *csi.TopologyRequirement
	claim   map[string]string // properties that name the claim
}

// CreateVolume implements csi.ControllerServer. For a first volume of a class: G rd 404, G rg 404, POST rg, POST
// volume-groups, G rg, PUT rg, G rg, G rd 404, POST rd, G rd, G vd 404, POST vd, G vd, G view/resources, POST
// autoplace for each preferred node until one succeeds and then for the rest, PUT rd with completedBy. What is made
// already is taken up; a volume that bears completedBy is only compared. If the copies cannot be placed, all of it is
// removed again.
func (d controller) CreateVolume(ctx context.Context, req *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse,
	error) {
	o, err := d.order(req)
	if err != nil {
		return nil, err
	}
	found, err := d.linstor.ResourceDefinitions.Get(ctx, o.name)
	switch {
	case err == nil && strings.HasPrefix(found.Props[completedBy], completer):
		if err := d.sameVolume(ctx, o, found); err != nil {
			return nil, err
		}
	case err == nil || notFound(err):
		if err := d.make(ctx, o); err != nil {
			return nil, err
		}
	default:
		return nil, fmt.Errorf("look for the volume: %w", err)
	}
	topology, err := d.accessible(ctx, o.name, o.class.remote)
	if err != nil {
		return nil, err
	}
	return &csi.CreateVolumeResponse{Volume: &csi.Volume{
		VolumeId: o.name, CapacityBytes: int64(o.sizeKiB) * kib, ContentSource: o.from, AccessibleTopology: topology,
		VolumeContext: map[string]string{remoteAccess: fmt.Sprint(o.class.remote)},
	}}, nil
}

func (d *Driver) order(req *csi.CreateVolumeRequest) (order, error) {
	if err := required("name", req.GetName()); err != nil {
		return order{}, err
	}
	fsType, err := checkCapabilities(req.GetVolumeCapabilities())
	if err != nil {
		return order{}, err
	}
	c, err := parseClass(req.GetParameters(), d.opts.PropertyNamespace)
	if err != nil {
		return order{}, err
	}
	o := order{name: nameFor(req.GetName()), class: c, from: req.GetVolumeContentSource(),
		where: req.GetAccessibilityRequirements(), claim: map[string]string{}}
	if fsType != block {
		o.fsType = cmp.Or(fsType, c.fsType, "ext4")
	}
	if o.sizeKiB, err = sizeOf(req.GetCapacityRange(), o.fsType); err != nil {
		return order{}, err
	}
	for _, key := range []string{"name", "namespace"} {
		if value := req.GetParameters()[metadataPrefix+"pvc/"+key]; value != "" {
			o.claim[claimPrefix+key] = value
		}
	}
	return o, nil
}

// sizeOf is the smallest size in a range that a file system can have; "" stands for none.
func sizeOf(r *csi.CapacityRange, fsType string) (uint64, error) {
	smallest := uint64(smallestKiB)
	switch fsType {
	case "":
		smallest = smallestBlockKiB
	case "xfs":
		smallest = smallestXFSKiB
	}
	wanted, limit := r.GetRequiredBytes(), r.GetLimitBytes()
	if wanted < 0 || limit < 0 || limit > 0 && wanted > limit {
		return 0, status.Errorf(codes.OutOfRange, "from %d to %d bytes is no range", wanted, limit)
	}
	size := max(smallest, uint64(wanted+kib-1)/kib)
	if limit > 0 && int64(size)*kib > limit {
		return 0, status.Errorf(codes.OutOfRange, "the smallest volume has %d KiB, more than %d bytes", size, limit)
	}
	return size, nil
}

// sameVolume compares a finished volume with an order: G volume-definitions.
func (d *Driver) sameVolume(ctx context.Context, o order, found client.ResourceDefinition) error {
	volumes, err := d.linstor.ResourceDefinitions.GetVolumeDefinitions(ctx, o.name)
	if err != nil {
		return fmt.Errorf("look for the volume: %w", err)
	}
	if len(volumes) == 0 || volumes[0].SizeKib != o.sizeKiB {
		return status.Errorf(codes.AlreadyExists, "volume %s exists with another size than %d KiB", o.name, o.sizeKiB)
	}
	if found.ResourceGroupName != o.class.group {
		return status.Errorf(codes.AlreadyExists, "volume %s exists in the resource group %s, not %s", o.name,
			found.ResourceGroupName, o.class.group)
	}
	return nil
}

// make makes the volume, or what is missing of it.
func (d *Driver) make(ctx context.Context, o order) error {
	if o.from != nil {
		return d.makeFrom(ctx, o)
	}
	if err := d.makeDefinition(ctx, o); err != nil {
		return err
	}
	_, err := d.linstor.ResourceDefinitions.GetVolumeDefinition(ctx, o.name, 0)
	if notFound(err) {
		err = d.linstor.ResourceDefinitions.CreateVolumeDefinition(ctx, o.name, client.VolumeDefinitionCreate{
			VolumeDefinition: client.VolumeDefinition{VolumeNumber: new(int32), SizeKib: o.sizeKiB}})
		if err == nil {
			_, err = d.linstor.ResourceDefinitions.GetVolumeDefinition(ctx, o.name, 0)
		}
	}
	if err != nil {
		return fmt.Errorf("make the volume definition: %w", err)
	}
	return d.placeAndFinish(ctx, o)
}

// placeAndFinish places the copies, or what is missing of them, and writes that the volume is complete. If that fails
// the volume is removed again.
func (d *Driver) placeAndFinish(ctx context.Context, o order) error {
	err := d.place(ctx, o)
	if err == nil {
		err = d.finish(ctx, o)
	}
	if err == nil {
		return nil
	}
	if undo := d.remove(ctx, o.name); undo != nil {
		fmt.Fprintf(d.opts.Log, "csi driver: remove what was made of %s: %v\n", o.name, undo)
	}
	return err
}

func (d *Driver) finish(ctx context.Context, o order) error {
	props := client.OverrideProps{completedBy: completer + "/" + Version}
	maps.Copy(props, o.claim)
	err := d.linstor.ResourceDefinitions.Modify(ctx, o.name, client.GenericPropsModify{OverrideProps: props})
	if err != nil {
		return fmt.Errorf("mark the volume as complete: %w", err)
	}
	return nil
}

// makeDefinition sees to the resource group and makes the definition.
func (d *Driver) makeDefinition(ctx context.Context, o order) error {
	if err := d.reconcileGroup(ctx, o.class); err != nil {
		return err
	}
	_, err := d.linstor.ResourceDefinitions.Get(ctx, o.name)
	if err == nil {
		return nil
	}
	if !notFound(err) {
		return fmt.Errorf("look for the resource definition: %w", err)
	}
	made := client.ResourceDefinition{Name: o.name, ResourceGroupName: o.class.group}
	if o.fsType != "" {
		made.Props = map[string]string{"FileSystem/Type": o.fsType, "FileSystem/MkfsParams": ""}
	}
	err = d.linstor.ResourceDefinitions.Create(ctx, client.ResourceDefinitionCreate{ResourceDefinition: made})
	if err == nil || client.IsApiCallError(err, linstor.FailExistsRscDfn) {
		_, err = d.linstor.ResourceDefinitions.Get(ctx, o.name)
	}
	if err != nil {
		return fmt.Errorf("make the resource definition: %w", err)
	}
	return nil
}
