package clustertest

import (
	"context"
	"maps"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/volumespec"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/platform"
)

// RunDriver makes the accepted spec one with the CSI driver, which runs everywhere as wanted.
func RunDriver(w *World) {
	w.T.Helper()
	w.Cluster.Spec.Volumes.Driver.Mode = volumespec.DriverManaged
	w.Accept()
	p := w.Snapshot().SatelliteParams()
	controller := resources.DriverController(p, true)
	controller.Status.AvailableReplicas = 1
	w.Kube.Deployments[controller.Name] = controller
	nodes := resources.DriverNode(p, platform.ProfileOf(v1alpha1.PlatformGeneric))
	w.Kube.DaemonSets[nodes.Name] = nodes
	w.Kube.Driver = cluster.Driver{Object: resources.CSIDriver(p), Nodes: map[string]cluster.DriverNode{}}
	for _, n := range w.Kube.Nodes {
		w.Kube.Driver.Nodes[n.Name] = cluster.DriverNode{NodeID: n.Name, TopologyKeys: []string{resources.DriverTopology}}
		w.PutPod(v1alpha1.ComponentDriverNode, n.Name, w.ReadyPod(v1alpha1.ComponentDriverNode, n.Name))
	}
}

// Volumes are the PersistentVolumes of the view, and those that came since.
func (f *fakeLive) Volumes(context.Context, string) (map[string]string, error) {
	all := maps.Clone(f.NewVolumes)
	if all == nil {
		all = map[string]string{}
	}
	for _, name := range f.Kube.Driver.VolumeNames {
		all[name] = ""
	}
	return all, nil
}
