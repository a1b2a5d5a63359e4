package volumedriver

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/usage"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/poddiagnosis"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/platform"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

// objects are those of the operator's driver that are there, in the order in which they go: what claims ask for
// volumes with and snapshots are taken with, who makes volumes, who mounts them, and last what tells Kubernetes how to
// take them off a node.
func objects(f *cluster.Facts) [][]client.Object {
	ours := func(o client.Object) bool { return cluster.Ours(f.Cluster.Name, o) }
	var out [][]client.Object
	var classes []client.Object
	for _, name := range slices.Sorted(maps.Keys(f.Kube.Driver.Classes)) {
		if c := f.Kube.Driver.Classes[name]; ours(c) {
			classes = append(classes, c)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(f.Kube.Driver.SnapshotClasses)) {
		if c := f.Kube.Driver.SnapshotClasses[name]; ours(c) {
			classes = append(classes, c)
		}
	}
	if len(classes) > 0 {
		out = append(out, classes)
	}
	if d := f.Kube.Deployments[resources.DriverControllerName]; d != nil && ours(d) {
		out = append(out, []client.Object{d})
	}
	var nodes []client.Object
	for _, q := range platform.Profiles() {
		if ds := f.Kube.DaemonSets[q.DriverName()]; ds != nil && ours(ds) {
			nodes = append(nodes, ds)
		}
	}
	if len(nodes) > 0 {
		out = append(out, nodes)
	}
	if d := f.Kube.Driver.Object; d != nil && ours(d) {
		out = append(out, []client.Object{d})
	}
	return out
}

// First are the objects of the driver that go next; none when nothing of it is left.
func First(f *cluster.Facts) []client.Object {
	if left := objects(f); len(left) > 0 {
		return left[0]
	}
	return nil
}

// Needs says which PersistentVolumes and snapshots need the operator's driver; "" if none does, or if there is no
// driver. Where the cache shows none the API server is asked: without the driver a volume that was made just now could
// neither be mounted nor unmounted nor deleted, and a VolumeSnapshotContent would keep its finalizers for ever.
func Needs(ctx context.Context, in *step.Input) (string, error) {
	f := &in.Snapshot.Facts
	if !There(f) {
		return "", nil
	}
	d := f.Kube.Driver
	if !d.InUse() {
		volumes, err := in.Live.Volumes(ctx, resources.DriverName)
		if err != nil {
			return "", fmt.Errorf("list volumes before removing the CSI driver: %w", err)
		}
		contents, err := in.Live.SnapshotContents(ctx, resources.DriverName)
		if err != nil {
			return "", fmt.Errorf("list snapshots before removing the CSI driver: %w", err)
		}
		d.Volumes, d.Snapshots = usage.Count(volumes), usage.Count(contents)
	}
	if !d.InUse() {
		return "", nil
	}
	return "the CSI driver is still needed because " + users(&d), nil
}

// users says which PersistentVolumes and VolumeSnapshotContents are of the driver.
func users(d *cluster.Driver) string {
	var out []string
	add := func(u usage.Used, one, many string) {
		if u.Count > 0 {
			out = append(out, fmt.Sprintf("%s it (%s)", text.Amount(u.Count, one, many), text.Listed(u.Names, u.Count)))
		}
	}
	add(d.Volumes, "PersistentVolume uses", "PersistentVolumes use")
	add(d.Snapshots, "VolumeSnapshotContent uses", "VolumeSnapshotContents use")
	return strings.Join(out, ", and ")
}

// remove takes away a driver that nobody needs, one kind of object after the other.
func remove(ctx context.Context, in *step.Input) error {
	if needs, err := Needs(ctx, in); needs != "" || err != nil {
		return err // the next look counts them too
	}
	if err := in.Stands(ctx); err != nil {
		return step.IgnoreOutdated(err)
	}
	return in.Delete(ctx, First(&in.Snapshot.Facts))
}

// Registered reports whether the member's kubelet has the driver, under the name that LINSTOR has the node under; true
// where the operator runs none. That its pod is ready proves nothing: with another directory than the kubelet's it
// waits there for ever.
func Registered(f *cluster.Facts, m *cluster.Member) bool {
	if !runs(f) {
		return true
	}
	n, ok := f.Kube.Driver.Nodes[m.Name]
	return ok && n.NodeID == m.Name && n.Located() && lackingKey(f, m, n) == ""
}

// lackingKey is the first key of spec.volumes.topologyKeys that the member has the label of, and under which its
// kubelet does not know it; "" if there is none. Such a volume could not be bound to the node's zone.
func lackingKey(f *cluster.Facts, m *cluster.Member, n cluster.DriverNode) string {
	if !Wanted(f) {
		return ""
	}
	for _, key := range f.Target.Spec.Volumes.TopologyKeys {
		if m.Node.Labels[key] != "" && !slices.Contains(n.TopologyKeys, key) {
			return key
		}
	}
	return ""
}

// Problem is what hinders the driver on a member; nil if nothing is known to.
func Problem(f *cluster.Facts, m *cluster.Member) *cluster.Problem {
	failing := poddiagnosis.Find(f, m.DriverPod)
	if failing == nil {
		return nil
	}
	p := &cluster.Problem{Reason: "DriverFailing", Message: "CSI driver: " + failing.String()}
	if failing.Lasting {
		p.Hold = v1alpha1.HoldVolumeDriverFailed
	}
	return p
}

// NotRegistered explains a driver whose pod is ready on a member and that its kubelet does not have.
func NotRegistered(f *cluster.Facts, m *cluster.Member) *cluster.Problem {
	p := &cluster.Problem{Reason: "DriverNotRegistered"}
	switch n, ok := f.Kube.Driver.Nodes[m.Name]; {
	case ok && n.NodeID != m.Name:
		p.Message = fmt.Sprintf("its kubelet has registered CSI driver %s with node name %s: another installation of the "+
			"driver is running there", resources.DriverName, n.NodeID)
	case ok && n.Located():
		p.Message = text.Sentence(fmt.Sprintf("its kubelet has CSI driver %s without the topology key %s, because the "+
			"label was added after the driver pod started: to register it again, run kubectl -n %s delete pod %s; mounted "+
			"volumes stay mounted",
			resources.DriverName, lackingKey(f, m, n), v1alpha1.WorkloadNamespace, m.DriverPod.Name))
	case ok:
		p.Message = fmt.Sprintf("its kubelet has CSI driver %s without the topology key %s", resources.DriverName,
			resources.DriverTopology)
	default:
		dir := resources.Params{Spec: f.Target.Spec}.KubeletDirectory(m.Profile)
		p.Message = text.Sentence(fmt.Sprintf("the driver pod is running, but the kubelet does not have the CSI driver: "+
			"to register it again, run kubectl -n %s delete pod %s; if %s is not the kubelet's root directory, set "+
			"spec.volumes.driver.kubeletDirectory", v1alpha1.WorkloadNamespace, m.DriverPod.Name, dir))
	}
	return p
}
