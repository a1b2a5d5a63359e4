package clustertest

import (
	"context"
	"maps"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/volumespec"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/nodevolumes"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/optional"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/usage"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/platform"
)

// RunDriver makes the accepted spec one with the CSI driver, which runs everywhere as wanted.
func RunDriver(w *World) {
	w.T.Helper()
	w.Cluster.Spec.Volumes.Driver.Mode = volumespec.DriverManaged
	w.Accept()
	p := w.Snapshot().SatelliteParams()
	controller := resources.DriverController(p, true, false)
	controller.Status.AvailableReplicas, controller.Status.UpdatedReplicas = 1, 1
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
	return withSeen(f.NewVolumes, f.Kube.Driver.Volumes), nil
}

// DiskVolumes are those of the view, and those that came since.
func (f *fakeLive) DiskVolumes(context.Context, []*corev1.Node) (map[string][]nodevolumes.Volume, error) {
	all := map[string][]nodevolumes.Volume{}
	nodevolumes.Join(all, f.Kube.DiskVolumes)
	nodevolumes.Join(all, f.NewDisks)
	return all, f.DisksErr
}

func withSeen(fresh map[string]string, seen usage.Used) map[string]string {
	all := map[string]string{}
	maps.Copy(all, fresh)
	for _, name := range seen.Names {
		all[name] = ""
	}
	return all
}

// ServeSnapshots lets Kubernetes serve the API of snapshots.
func ServeSnapshots(w *World) {
	kinds := []string{"VolumeSnapshot", "VolumeSnapshotClass", "VolumeSnapshotContent"}
	w.Kube.Optional = optional.APIs{optional.Snapshots: kinds}
	w.Kube.Driver.SnapshotClasses = map[string]*snapshotv1.VolumeSnapshotClass{}
}

// RunSnapshotter is RunDriver where the API of snapshots is served, and all that the spec wants of it is there.
func RunSnapshotter(w *World) {
	w.T.Helper()
	RunDriver(w)
	AddSnapshotter(w)
}

// AddSnapshotter makes a driver that runs one that takes snapshots, of volumes in any pool.
func AddSnapshotter(w *World) {
	w.T.Helper()
	ServeSnapshots(w)
	for _, n := range w.Linstor.View.Nodes {
		for _, p := range n.Pools {
			p.SupportsSnapshots = true
		}
	}
	p := w.Snapshot().SatelliteParams()
	controller := resources.DriverController(p, true, true)
	controller.Status.Replicas, controller.Status.UpdatedReplicas, controller.Status.AvailableReplicas = 1, 1, 1
	w.Kube.Deployments[controller.Name] = controller
	class := resources.SnapshotClass(p, true)
	w.Kube.Driver.SnapshotClasses[class.Name] = class
}

// SnapshotContents are the VolumeSnapshotContents of the view, and those that came since.
func (f *fakeLive) SnapshotContents(context.Context, string) (map[string]string, error) {
	return withSeen(f.NewContents, f.Kube.Driver.Snapshots), nil
}
