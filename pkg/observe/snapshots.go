package observe

import (
	"context"
	"fmt"
	"maps"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/optional"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/usage"
	"github.com/linstor-dev/storagecluster-operator/pkg/kube"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/snapshotclass"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/volumedriver"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
)

// Watches are what the cache watches.
type Watches interface {
	// RemoveInformer ends the watch of a kind, if there is one.
	RemoveInformer(ctx context.Context, kind client.Object) error
}

// snapshots reads the VolumeSnapshotClasses, and the VolumeSnapshotContents of the CSI driver where the operator runs
// it, or has run it.
func (o *Observer) snapshots(ctx context.Context, f *cluster.Facts) error {
	var classes snapshotv1.VolumeSnapshotClassList
	if ok, err := o.listSnapshots(ctx, f, &classes); !ok || err != nil {
		return err
	}
	nameOf := func(c *snapshotv1.VolumeSnapshotClass) string { return c.Name }
	f.Kube.Driver.SnapshotClasses = byName(classes.Items, nameOf)
	if !volumedriver.Wanted(f) && !volumedriver.There(f) {
		return nil
	}
	var contents snapshotv1.VolumeSnapshotContentList
	if ok, err := o.listSnapshots(ctx, f, &contents); !ok || err != nil {
		return err
	}
	used := map[string]string{}
	for i := range contents.Items {
		if c := &contents.Items[i]; c.Spec.Driver == resources.DriverName {
			used[c.Name] = ptr.Deref(c.Spec.VolumeSnapshotClassName, "")
		}
	}
	f.Kube.Driver.Snapshots = usage.Count(used)
	return nil
}

// listSnapshots reads a list of the API of snapshots; ok is false if that is not served, or cannot be read now. In the
// second case it is unknown, so that nothing is concluded from an empty list.
//
// The watch of a kind whose definition is gone would be tried for ever, and each try be logged: it is ended.
func (o *Observer) listSnapshots(ctx context.Context, f *cluster.Facts, list client.ObjectList) (ok bool, err error) {
	switch snapshotclass.API(f) {
	case optional.Served:
	case optional.Absent:
		return false, o.forgetSnapshots(ctx)
	default:
		return false, nil
	}
	within, cancel := context.WithTimeout(ctx, discoverWithin)
	defer cancel()
	o.watchesSnapshots = true
	err = o.Reader.List(within, list, client.UnsafeDisableDeepCopy)
	if kube.NotServed(err) || err != nil && within.Err() != nil && ctx.Err() == nil {
		f.Kube.Optional = maps.Clone(f.Kube.Optional) // the memory of the last look has the other one
		delete(f.Kube.Optional, optional.Snapshots)
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("list %T: %w", list, err)
	}
	return true, nil
}

// forgetSnapshots ends the watches, if there are any: to look for one takes a request to the API server, as long as
// the kind is not served.
func (o *Observer) forgetSnapshots(ctx context.Context) error {
	if o.Watches == nil || !o.watchesSnapshots {
		return nil
	}
	for _, kind := range []client.Object{&snapshotv1.VolumeSnapshotClass{}, &snapshotv1.VolumeSnapshotContent{}} {
		if err := o.Watches.RemoveInformer(ctx, kind); err != nil && !kube.NotServed(err) {
			return fmt.Errorf("end the watch of %T: %w", kind, err)
		}
	}
	o.watchesSnapshots = false
	return nil
}
