// Package volumedriver is the link that runs LINSTOR's CSI driver: its controller, and its part on each member. What a
// volume needs stays as long as there is a volume.
package volumedriver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/volumespec"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/nodelabels"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/poddiagnosis"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/snapshotclass"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/storageclass"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/apitls"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/platform"
)

// Link is the link that runs the CSI driver where the spec wants that.
func Link() step.Link {
	return step.Link{State: fsm.VolumeDriver, Missing: fsm.DriverMissing, Condition: conditions.VolumeDriverReady,
		Hold:     v1alpha1.HoldVolumeDriverFailed,
		ClearsOn: []v1alpha1.HoldReason{v1alpha1.HoldVolumeDriverFailed, v1alpha1.HoldForeignDriverFound},
		Judge:    judgeDriver, Work: workDriver, Through: driverThrough}
}

func driverThrough(m *cluster.Member) bool { return m.DriverOK }

// Reasons of the link's evidence.
const (
	ReasonNotWanted = "NotWanted"
	// ReasonControllerDown: no pod of the driver's controller is available.
	ReasonControllerDown = "DriverControllerDown"
)

// Wanted reports whether the accepted spec wants the operator to run the driver.
func Wanted(f *cluster.Facts) bool {
	return f.Target != nil && f.Target.Spec.Volumes.Driver.Mode == volumespec.DriverManaged
}

// There reports whether anything of the operator's driver is there.
func There(f *cluster.Facts) bool { return len(objects(f)) > 0 }

// kept reports whether the driver runs only because volumes or snapshots need it. It is asked of each member: without
// any, as where there never was a driver, it does not look for the objects.
func kept(f *cluster.Facts) bool {
	return !Wanted(f) && f.Kube.Driver.InUse() && There(f)
}

// runs reports whether the driver is to be there.
func runs(f *cluster.Facts) bool { return Wanted(f) || kept(f) }

func judgeDriver(s *cluster.Snapshot) cluster.Evidence {
	f := &s.Facts
	switch {
	case !runs(f) && !There(f):
		return cluster.Satisfied.Because(ReasonNotWanted,
			"spec.volumes.driver.mode is None: the operator does not run a CSI driver")
	case !runs(f):
		return cluster.Evidence{State: cluster.Missing, Reason: "RemovingDriver", Lost: true,
			Message: "PersistentVolumes and snapshots no longer use the CSI driver: it is being removed"}
	case foreign(f):
		return cluster.Asks(foreignMessage(f), *cluster.Request(v1alpha1.HoldForeignDriverFound, "%s", foreignMessage(f)))
	}
	if missing := uncertified(f); missing != "" {
		return cluster.Evidence{State: cluster.Missing, Reason: "CertificatesMissing", Total: s.Counted(), Message: missing}
	}
	want := wanted(s)
	if undone := want.undone(s); undone != "" {
		return cluster.Evidence{State: cluster.Missing, Reason: "DriverMissing", Total: s.Counted(), Lost: true,
			Message: undone}
	}
	e := step.JudgeMembers(s, func(m *cluster.Member) bool { return m.PoolsOK }, driverThrough)
	e = step.Describe(e, "DriverRunning", "StartingDriver", "nodes have the CSI driver")
	if d := f.Kube.Deployments[resources.DriverControllerName]; e.OK() && d.Status.AvailableReplicas == 0 {
		e.State, e.Reason = cluster.Missing, ReasonControllerDown
		e.Message = "no pods of Deployment " + d.Name + " are available: volumes cannot be created, attached or deleted"
		if p := controllerTrouble(f); p != "" {
			e.Message += ": " + p
		}
	}
	if kept(f) {
		e.Message += "; spec.volumes.driver.mode is None, but the driver is kept because " + users(&f.Kube.Driver)
	}
	for _, ds := range want.nodes {
		e.Message += step.ForeignNote("DaemonSet", f.Kube.DaemonSets[ds.Name], ds)
	}
	return e
}

// foreign reports whether somebody else's driver is there: Kubernetes can have one of the name only.
func foreign(f *cluster.Facts) bool {
	d := f.Kube.Driver.Object
	return d != nil && !cluster.Ours(f.Cluster.Name, d)
}

func foreignMessage(f *cluster.Facts) string {
	whose := ""
	if by := f.Kube.Driver.Object.Labels["app.kubernetes.io/managed-by"]; by != "" {
		whose = " (managed by " + by + ")"
	}
	return fmt.Sprintf("CSIDriver %s was not created by the operator%s, so another installation of the driver may be "+
		"running. Set spec.volumes.driver.mode to None to keep that installation, or remove it and then its CSIDriver, or "+
		"label the CSIDriver %s=%s to hand it over to the operator", resources.DriverName, whose, v1alpha1.LabelCluster,
		f.Cluster.Name)
}

func workDriver(ctx context.Context, in *step.Input) error {
	f := &in.Snapshot.Facts
	switch {
	case !runs(f) && !There(f), runs(f) && foreign(f):
		return nil
	case !runs(f):
		return remove(ctx, in)
	case uncertified(f) != "":
		return storageclass.Work(ctx, in)
	}
	want := wanted(in.Snapshot)
	return errors.Join(want.applyNodes(ctx, in),
		step.ApplyIfDiffers(ctx, in, f.Kube.Deployments[want.controller.Name], want.controller),
		storageclass.Work(ctx, in))
}

func (p parts) applyNodes(ctx context.Context, in *step.Input) error {
	errs := []error{step.ApplyIfDiffers(ctx, in, in.Snapshot.Kube.Driver.Object, p.driver)}
	for _, ds := range p.nodes {
		errs = append(errs, in.ApplyDaemonSet(ctx, ds)) // one platform's does not keep the others from theirs
	}
	return errors.Join(errs...)
}

// StartNodes starts the driver's pods on the nodes before the link's turn. They wait until LINSTOR has their node
// ONLINE, and know its zones from then on: a node is registered with them. Where LINSTOR has a node without them, a
// driver that starts now would register without its zones, and not look again (linstor-csi 1.12, NodeGetInfo).
//
// The driver's controller is not started ahead. It keeps LINSTOR's list of nodes for a minute, so that it would not
// know those that are registered after its start; each would have to be closed for volumes until it does.
func StartNodes(ctx context.Context, in *step.Input) error {
	s := in.Snapshot
	if !Wanted(&s.Facts) || foreign(&s.Facts) || uncertified(&s.Facts) != "" ||
		slices.ContainsFunc(s.Members, lacksZone(s)) {
		return nil
	}
	return wanted(s).applyNodes(ctx, in)
}

// lacksZone finds members that LINSTOR has without a zone that their Node has.
func lacksZone(s *cluster.Snapshot) func(*cluster.Member) bool {
	return func(m *cluster.Member) bool {
		return m.Linstor != nil && slices.ContainsFunc(s.Target.Spec.Volumes.TopologyKeys, func(key string) bool {
			return m.Linstor.Properties[linstor.TopologyPrefix+key] != m.Node.Labels[key]
		})
	}
}

// StopOnForeignData stops the driver's controller while LINSTOR runs on another database than this cluster's: it takes
// the deletion of a volume that LINSTOR does not know for done, and the PersistentVolume goes while the data stays
// (linstor-csi 1.11, DeleteVolume). What is mounted is not touched. Once the database is ours again, the link starts
// it.
func StopOnForeignData(ctx context.Context, in *step.Input) error {
	s := in.Snapshot
	if s.Linstor.Foreign == nil || s.Target == nil || s.Cluster.Spec.Suspend {
		return nil
	}
	d := s.Kube.Deployments[resources.DriverControllerName]
	if d == nil || !cluster.Ours(s.Cluster.Name, d) {
		return nil
	}
	return step.ApplyIfDiffers(ctx, in, d, wanted(s).controller)
}

// uncertified says which certificate the driver lacks that it needs to speak to LINSTOR; "" for none.
func uncertified(f *cluster.Facts) string {
	return f.Certificates.Missing(&f.Target.Spec.TLS, apitls.Driver, apitls.DriverNode)
}

// parts are the objects of the driver.
type parts struct {
	driver     *storagev1.CSIDriver
	controller *appsv1.Deployment
	nodes      []*appsv1.DaemonSet
}

func wanted(s *cluster.Snapshot) parts {
	p := s.SatelliteParams() // the driver follows when all satellites run the new version
	out := parts{driver: resources.CSIDriver(p), controller: resources.DriverController(p, s.Linstor.Foreign == nil,
		snapshotclass.Sidecar(&s.Facts))}
	for _, q := range platform.Profiles() {
		if s.Kube.DaemonSets[q.DriverName()] != nil || nodelabels.Uses(s, q) {
			out.nodes = append(out.nodes, resources.DriverNode(p, q))
		}
	}
	return out
}

// undone says which object is not as wanted, the first of them; "" if all are.
func (p parts) undone(s *cluster.Snapshot) string {
	k := &s.Kube
	undone := step.Undone("CSIDriver "+p.driver.Name, k.Driver.Object, p.driver)
	for _, ds := range p.nodes {
		undone = cmp.Or(undone, step.Undone("DaemonSet "+ds.Name, k.DaemonSets[ds.Name], ds))
	}
	undone = cmp.Or(undone, step.Undone("Deployment "+p.controller.Name, k.Deployments[p.controller.Name], p.controller))
	if c := storageclass.Pending(s); undone == "" && c != nil {
		return step.NotYet("StorageClass "+c.Name, c.Live != nil)
	}
	return undone
}

// controllerTrouble says why no pod of the driver's controller is available; "" if that is not known.
func controllerTrouble(f *cluster.Facts) string {
	pods := f.Kube.Pods[v1alpha1.ComponentDriver]
	for _, node := range slices.Sorted(maps.Keys(pods)) {
		if poddiagnosis.Ended(pods[node]) { // an evicted pod stays until it is deleted
			continue
		}
		if t := poddiagnosis.Find(f, pods[node]); t != nil {
			return t.String()
		}
	}
	return ""
}
