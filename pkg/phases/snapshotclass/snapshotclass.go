// Package snapshotclass judges and keeps the VolumeSnapshotClass of spec.volumes.snapshots, and says whether the CSI
// driver takes snapshots at all: their API is no part of Kubernetes, and comes and goes with its definitions.
//
// Nothing here keeps the cluster from being Ready. So the class is written in the background, and a failure is said by
// the condition alone.
package snapshotclass

import (
	"context"
	"fmt"
	"maps"
	"slices"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/volumespec"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/optional"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
	"github.com/linstor-dev/storagecluster-operator/pkg/work"
)

// Reasons why volumes cannot be snapshotted, or not with the class of the spec.
const (
	// ReasonForeign: a VolumeSnapshotClass of the name is not the operator's.
	ReasonForeign = "ForeignVolumeSnapshotClass"
	// ReasonMaking: it is being made.
	ReasonMaking = "MakingVolumeSnapshotClass"
	// ReasonNoAPI: Kubernetes does not serve the API of snapshots.
	ReasonNoAPI = "SnapshotAPIMissing"
	// ReasonStarting: csi-snapshotter does not run yet.
	ReasonStarting = "StartingSnapshotter"
)

// API reports whether Kubernetes serves all kinds of the API of snapshots. csi-snapshotter and the snapshot controller
// need each of them.
func API(f *cluster.Facts) optional.State {
	return f.Kube.Optional.State(optional.Snapshots, "VolumeSnapshot", "VolumeSnapshotClass", "VolumeSnapshotContent")
}

// Wanted reports whether the accepted spec wants volumes to be snapshotted, wherever that is possible.
func Wanted(f *cluster.Facts) bool {
	if f.Target == nil {
		return false
	}
	v := &f.Target.Spec.Volumes
	return v.Driver.Mode == volumespec.DriverManaged && v.Snapshots.Mode != volumespec.SnapshotsNone
}

// Sidecar reports whether the driver's controller is to run csi-snapshotter. It stays as long as there are snapshots:
// nobody else deletes them. While it is not known whether the API is there, the controller stays as it is.
func Sidecar(f *cluster.Facts) bool {
	switch API(f) {
	case optional.Served:
		return Wanted(f) || f.Kube.Driver.Snapshots.Count > 0
	case optional.Absent:
		return false
	default:
		d := f.Kube.Deployments[resources.DriverControllerName]
		return d != nil && hasSidecar(&d.Spec.Template.Spec)
	}
}

func hasSidecar(pod *corev1.PodSpec) bool {
	return slices.ContainsFunc(pod.Containers, func(c corev1.Container) bool {
		return c.Name == resources.DriverSnapshotterContainer
	})
}

// Runs reports whether csi-snapshotter runs: all pods of the driver's controller have it, and are available.
func Runs(f *cluster.Facts) bool {
	d := f.Kube.Deployments[resources.DriverControllerName]
	return d != nil && hasSidecar(&d.Spec.Template.Spec) && step.RolledOut(d)
}

// Judge judges the VolumeSnapshotClass of the accepted spec, and then the operator's that the spec has no more. None
// is judged before the driver is there, or while the API is not.
func Judge(s *cluster.Snapshot) []*cluster.SnapshotClass {
	driver := s.Kube.Deployments[resources.DriverControllerName]
	if API(&s.Facts) != optional.Served || driver == nil || !cluster.Ours(s.Cluster.Name, driver) {
		return nil
	}
	var out []*cluster.SnapshotClass
	live, wanted := s.Kube.Driver.SnapshotClasses, ""
	if Wanted(&s.Facts) {
		c := judgeWanted(s)
		out, wanted = append(out, c), c.Name
	}
	for _, name := range slices.Sorted(maps.Keys(live)) {
		if c := live[name]; name != wanted && cluster.Ours(s.Cluster.Name, c) {
			out = append(out, leftOver(s, c))
		}
	}
	return out
}

// judgeWanted compares the class with the spec. Unlike a StorageClass it can be changed in all it says, and snapshots
// keep what they were taken with (external-snapshotter 8.6: no rule of the definition is against it).
func judgeWanted(s *cluster.Snapshot) *cluster.SnapshotClass {
	p, all := s.SatelliteParams(), s.Kube.Driver.SnapshotClasses
	name := resources.SnapshotClass(p, false).Name
	c := &cluster.SnapshotClass{Name: name, Live: all[name]}
	asDefault := p.Spec.Volumes.Snapshots.Default == nil || *p.Spec.Volumes.Snapshots.Default
	other := otherDefault(all, name)
	c.Want = resources.SnapshotClass(p, asDefault && (marked(c.Live) || other == ""))
	switch {
	case c.Live != nil && !cluster.Ours(s.Cluster.Name, c.Live):
		c.Reason, c.Message = ReasonForeign, fmt.Sprintf("VolumeSnapshotClass %s was not created by the operator: set "+
			"spec.volumes.snapshots.className to another name, delete the VolumeSnapshotClass, or label it %s=%s to hand it "+
			"over to the operator", name, v1alpha1.LabelCluster, s.Cluster.Name)
		return c
	case !step.Matches(c.Live, c.Want):
		c.Do, c.Reason = cluster.ClassApply, ReasonMaking
		c.Message = "VolumeSnapshotClass " + name + " is being created or updated"
		if err := s.TaskStates[taskKey(name)].Err; err != nil {
			c.Message = "VolumeSnapshotClass " + name + " cannot be created or updated: " + text.OneLine(err.Error())
		}
	}
	switch {
	case !asDefault || other == "":
	case marked(c.Live):
		c.Note = fmt.Sprintf("VolumeSnapshotClass %s is also marked as the driver's default, so VolumeSnapshots "+
			"without a class fail: remove its annotation %s", other, resources.AnnotationDefaultSnapshotClass)
	default:
		c.Note = fmt.Sprintf("VolumeSnapshotClass %s is already the driver's default: remove its annotation %s to make %s "+
			"the default", other, resources.AnnotationDefaultSnapshotClass, name)
	}
	return c
}

// leftOver is a class that the spec has no more. A snapshot can be deleted without its class, but nobody could see any
// more how it was taken.
func leftOver(s *cluster.Snapshot, live *snapshotv1.VolumeSnapshotClass) *cluster.SnapshotClass {
	c := &cluster.SnapshotClass{Name: live.Name, Live: live, Do: cluster.ClassRemove}
	if n := s.Kube.Driver.Snapshots.ByClass[live.Name]; n > 0 {
		c.Do = cluster.ClassLeave
		c.Note = fmt.Sprintf("VolumeSnapshotClass %s is no longer in the spec, but is kept because %s it", live.Name,
			text.Amount(n, "VolumeSnapshotContent uses", "VolumeSnapshotContents use"))
	}
	return c
}

func marked(c *snapshotv1.VolumeSnapshotClass) bool {
	return c != nil && c.Annotations[resources.AnnotationDefaultSnapshotClass] == "true"
}

// otherDefault is the name of another class of the driver that is marked as its default; "" if there is none.
func otherDefault(all map[string]*snapshotv1.VolumeSnapshotClass, than string) string {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if c := all[name]; name != than && c.Driver == resources.DriverName && marked(c) {
			return name
		}
	}
	return ""
}

func taskKey(class string) string { return "snapshot-class/" + class }

// Ensure makes and removes VolumeSnapshotClasses in the background. Nothing is made for a cluster that is being
// deleted: that takes the class away with the driver.
func Ensure(in *step.Input) {
	if in.Snapshot.Cluster.DeletionTimestamp != nil {
		return
	}
	for _, c := range in.Snapshot.SnapshotClasses {
		switch c.Do {
		case cluster.ClassApply:
			in.Ensure(work.Task{Key: taskKey(c.Name), Input: c.Want.Annotations[resources.AnnotationSpecHash],
				Do: func(ctx context.Context) error { return in.Writer.Apply(ctx, c.Want) }})
		case cluster.ClassRemove:
			in.Ensure(work.Task{Key: taskKey(c.Name), Input: "remove " + string(c.Live.UID),
				Do: func(ctx context.Context) error { return remove(ctx, in, c) }})
		case cluster.ClassLeave, cluster.ClassReplace:
		}
	}
}

// remove takes away a class that no snapshot is of. One that was taken just now is not in the cache yet, so that the
// API server itself is looked at.
func remove(ctx context.Context, in *step.Input, c *cluster.SnapshotClass) error {
	contents, err := in.Live.SnapshotContents(ctx, resources.DriverName)
	if err != nil {
		return fmt.Errorf("list snapshots of VolumeSnapshotClass %s: %w", c.Name, err)
	}
	for _, class := range contents {
		if class == c.Name {
			return nil // the next look counts it
		}
	}
	if err := in.Stands(ctx); err != nil {
		return err
	}
	return in.Delete(ctx, []client.Object{c.Live})
}
