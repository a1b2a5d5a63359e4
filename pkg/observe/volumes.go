package observe

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/poolspec"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/nodevolumes"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/usage"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/volumedriver"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
)

// volumes reads the PersistentVolumes, once for all that are to know of them: those that may be disks if any pool is
// to be made from devices, the CSI driver's where the operator runs it, or has run it.
func (o *Observer) volumes(ctx context.Context, f *cluster.Facts) error {
	disks := poolspec.WantsDevices(&f.Cluster.Spec) || f.Target != nil && poolspec.WantsDevices(f.Target.Spec)
	driver := volumedriver.Wanted(f) || volumedriver.There(f)
	if !disks && !driver {
		return nil
	}
	var list corev1.PersistentVolumeList
	if err := o.Reader.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list PersistentVolumes: %w", err)
	}
	if disks {
		var drivers storagev1.CSIDriverList
		if err := o.Reader.List(ctx, &drivers, client.UnsafeDisableDeepCopy); err != nil {
			return fmt.Errorf("list CSIDrivers: %w", err)
		}
		f.Kube.DiskVolumes = nodevolumes.Of(f.Kube.Nodes, list.Items, drivers.Items)
	}
	if driver {
		driverVolumes(&f.Kube, list.Items)
	}
	return nil
}

// attachments finds out, past the cache, which raw disks of other drivers are attached to which node, for a view that
// shows empty disks. No cache holds VolumeAttachments: there may be many, and they are read only while a pool is to be
// made from disks. What cannot be read makes the disks unknown.
func (o *Observer) attachments(ctx context.Context, v *linstor.View) {
	o.attached = nil
	nodes := slices.Collect(maps.Values(v.Nodes))
	if !slices.ContainsFunc(nodes, func(n *linstor.Node) bool { return len(n.Devices) > 0 }) {
		return
	}
	var attachments storagev1.VolumeAttachmentList
	var volumes corev1.PersistentVolumeList
	err := o.Live.List(ctx, &attachments)
	if err == nil {
		err = o.Reader.List(ctx, &volumes, client.UnsafeDisableDeepCopy)
	}
	if err != nil {
		v.DevicesErr = fmt.Errorf("cannot determine which disks other CSI drivers have attached: %w", err)
		for _, n := range nodes {
			n.Devices, n.DevicesKnown = nil, false
		}
		return
	}
	o.attached = nodevolumes.Attached(attachments.Items, volumes.Items)
}

// driverVolumes counts the CSI driver's, and names the first and those that the operator tries.
func driverVolumes(k *cluster.Kube, all []corev1.PersistentVolume) {
	classes := map[string]string{}
	for i := range all {
		if csi := all[i].Spec.CSI; csi != nil && csi.Driver == resources.DriverName {
			classes[all[i].Name] = all[i].Spec.StorageClassName
			triedVolume(&k.Canary, &all[i])
		}
	}
	k.Driver.Volumes = usage.Count(classes)
}

// driver reads whose the CSIDriver is and what StorageClasses there are, and which kubelets have the driver where the
// operator runs it, or has run it.
func (o *Observer) driver(ctx context.Context, f *cluster.Facts) error {
	d := &f.Kube.Driver
	var classes storagev1.StorageClassList
	if err := o.Reader.List(ctx, &classes, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list StorageClasses: %w", err)
	}
	d.Classes = byName(classes.Items, func(c *storagev1.StorageClass) string { return c.Name })
	var drivers storagev1.CSIDriverList
	if err := o.Reader.List(ctx, &drivers, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list CSIDrivers: %w", err)
	}
	for i := range drivers.Items {
		if drivers.Items[i].Name == resources.DriverName {
			d.Object = &drivers.Items[i]
		}
	}
	if !volumedriver.Wanted(f) && !volumedriver.There(f) {
		return nil
	}
	var nodes storagev1.CSINodeList
	if err := o.Reader.List(ctx, &nodes, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list CSINodes: %w", err)
	}
	d.Nodes = map[string]cluster.DriverNode{}
	for i := range nodes.Items {
		for _, entry := range nodes.Items[i].Spec.Drivers {
			if entry.Name == resources.DriverName {
				d.Nodes[nodes.Items[i].Name] = cluster.DriverNode{NodeID: entry.NodeID, TopologyKeys: entry.TopologyKeys}
			}
		}
	}
	return nil
}
