package clustertest

import (
	"context"
	"slices"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/platform"
)

// RunDriver makes the accepted spec one with the CSI driver, which runs everywhere as wanted.
func RunDriver(w *World) {
	w.T.Helper()
	w.Cluster.Spec.Volumes.Driver.Mode = v1alpha1.DriverManaged
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
func (f *fakeLive) Volumes(context.Context, string) ([]string, error) {
	return slices.Concat(f.Kube.Driver.VolumeNames, f.NewVolumes), nil
}
