package observe

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/poolspec"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/usage"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/volumedriver"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
)

// volumes reads the PersistentVolumes, once for all that are to know of them: local ones if any pool is to be made
// from devices, the CSI driver's where the operator runs it, or has run it.
func (o *Observer) volumes(ctx context.Context, f *cluster.Facts) error {
	local := poolspec.WantsDevices(&f.Cluster.Spec) || f.Target != nil && poolspec.WantsDevices(f.Target.Spec)
	driver := volumedriver.Wanted(f) || volumedriver.There(f)
	if !local && !driver {
		return nil
	}
	var list corev1.PersistentVolumeList
	if err := o.Reader.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list PersistentVolumes: %w", err)
	}
	if local {
		localVolumes(f, list.Items)
	}
	if driver {
		driverVolumes(&f.Kube, list.Items)
	}
	return nil
}

// localVolumes keeps the local ones, by node.
func localVolumes(f *cluster.Facts, all []corev1.PersistentVolume) {
	f.Kube.LocalVolumes = map[string][]cluster.LocalVolume{}
	for i := range all {
		pv := &all[i]
		local := pv.Spec.Local
		if local == nil {
			continue
		}
		// An fsType is given for what is to be formatted (k8s.io/api/core/v1, LocalVolumeSource): the path is a device, or a
		// link to one.
		raw := pv.Spec.VolumeMode != nil && *pv.Spec.VolumeMode == corev1.PersistentVolumeBlock || local.FSType != nil ||
			strings.HasPrefix(local.Path, "/dev/")
		for _, node := range volumeNodes(pv, f.Kube.Nodes) {
			f.Kube.LocalVolumes[node] = append(f.Kube.LocalVolumes[node],
				cluster.LocalVolume{Name: pv.Name, Path: local.Path, Raw: raw})
		}
	}
}

// volumeNodes are the nodes that a local volume is on; all of them if its affinity does not say so by host name.
func volumeNodes(pv *corev1.PersistentVolume, nodes []*corev1.Node) []string {
	var hosts []string
	if a := pv.Spec.NodeAffinity; a != nil && a.Required != nil {
		for _, term := range a.Required.NodeSelectorTerms {
			for _, e := range term.MatchExpressions {
				if e.Key == corev1.LabelHostname && e.Operator == corev1.NodeSelectorOpIn {
					hosts = append(hosts, e.Values...)
				}
			}
		}
	}
	var out []string
	for _, n := range nodes {
		if len(hosts) == 0 || slices.Contains(hosts, n.Labels[corev1.LabelHostname]) || slices.Contains(hosts, n.Name) {
			out = append(out, n.Name)
		}
	}
	return out
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
