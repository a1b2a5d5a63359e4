package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/volumespec"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/snapshotclass"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/volumedriver"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster"
)

// snapshotsMeasured waits until the metric of the condition SnapshotsReady has a value.
func snapshotsMeasured(e *env, want float64) {
	e.T.Helper()
	e.Eventually(fmt.Sprintf("storagecluster_condition of SnapshotsReady is %v", want), func() error {
		families, err := e.Metrics.Gather()
		if err != nil {
			return err
		}
		for _, f := range families {
			for _, m := range f.GetMetric() {
				if f.GetName() == "storagecluster_condition" && m.GetLabel()[0].GetValue() == conditions.SnapshotsReady {
					if got := m.GetGauge().GetValue(); got != want {
						return fmt.Errorf("it is %v", got)
					}
					return nil
				}
			}
		}
		return fmt.Errorf("there is none")
	})
}

// snapshotter waits until the driver's controller has csi-snapshotter, or has it no more.
func snapshotter(e *env, want bool) {
	e.T.Helper()
	e.Eventually(fmt.Sprintf("csi-snapshotter in the driver's controller: %t", want), func() error {
		var d appsv1.Deployment
		key := client.ObjectKey{Namespace: v1alpha1.WorkloadNamespace, Name: resources.DriverControllerName}
		if err := e.Client().Get(e.Ctx, key, &d); err != nil {
			return err
		}
		var names []string
		has := false
		for _, c := range d.Spec.Template.Spec.Containers {
			names = append(names, c.Name)
			has = has || c.Name == resources.DriverSnapshotterContainer
		}
		if has != want {
			return fmt.Errorf("it has %v", names)
		}
		return nil
	})
}

// snapshotClassWith waits until a VolumeSnapshotClass is there and as wanted.
func snapshotClassWith(e *env, name, isDefault string, policy snapshotv1.DeletionPolicy) {
	e.T.Helper()
	e.Eventually("VolumeSnapshotClass "+name+" is there", func() error {
		c := &snapshotv1.VolumeSnapshotClass{}
		err := e.Client().Get(e.Ctx, client.ObjectKey{Name: name}, c)
		if err == nil && (c.Annotations[resources.AnnotationDefaultSnapshotClass] != isDefault ||
			c.DeletionPolicy != policy || c.Driver != resources.DriverName) {
			err = fmt.Errorf("it is %+v", c)
		}
		return err
	})
}

func noSnapshotClass(e *env, name string) {
	e.T.Helper()
	gone(e, &snapshotv1.VolumeSnapshotClass{ObjectMeta: metav1.ObjectMeta{Name: name}})
}

func setSnapshots(change func(*volumespec.VolumeSnapshotsSpec)) func(*v1alpha1.StorageCluster) {
	return func(c *v1alpha1.StorageCluster) { change(&c.Spec.Volumes.Snapshots) }
}

// documented applies the manifest of a kind that docs/how-to/snapshots.md has: what is copied from there must work.
func documented(e *env, kind string) {
	e.T.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "how-to", "snapshots.md"))
	if err != nil {
		e.T.Fatal(err)
	}
	for _, block := range strings.Split(string(page), "```yaml\n")[1:] {
		if text, _, _ := strings.Cut(block, "```"); strings.Contains(text, "\nkind: "+kind+"\n") {
			e.Apply(text)
			return
		}
	}
	e.T.Fatalf("the page has no %s", kind)
}

// taken waits until a snapshot can be used.
func (e claimEnv) taken(name string) *snapshotv1.VolumeSnapshot {
	e.T.Helper()
	s := &snapshotv1.VolumeSnapshot{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	e.Eventually("the snapshot can be used", func() error {
		if err := e.Client().Get(e.Ctx, client.ObjectKeyFromObject(s), s); err != nil {
			return err
		}
		if s.Status == nil || !ptr.Deref(s.Status.ReadyToUse, false) {
			return fmt.Errorf("it is %+v; %s", s.Status, e.eventsOf(s.Name))
		}
		return nil
	})
	return s
}

// reads is what a pod reads from a file in a claim's volume.
func (e claimEnv) reads(pod, claim, file string) string {
	e.T.Helper()
	p := e.pod(pod, claim, "", "read "+file)
	e.phase(p, corev1.PodSucceeded)
	got := said(p)
	remove(e.env, p)
	gone(e.env, p)
	return got
}

// writes lets a pod write to a claim's volume.
func (e claimEnv) writes(pod, claim, text string) {
	e.T.Helper()
	p := e.pod(pod, claim, "", "write /data/greeting "+text)
	e.phase(p, corev1.PodSucceeded)
	remove(e.env, p)
	gone(e.env, p)
}

// TestSnapshot goes through the life of a snapshot with Kubernetes' own programs: the API comes while the cluster
// runs, a snapshot is taken and restored, and the driver stays until it is gone.
func TestSnapshot(t *testing.T) {
	e := withDriver(t, 3)
	e.says(conditions.SnapshotsReady, snapshotclass.ReasonNoAPI,
		"install the CRDs and the snapshot controller")
	snapshotter(e.env, false)
	snapshotsMeasured(e.env, 0)
	harness.InstallSnapshotAPI(e.Env)
	harness.RunSnapshotController(e.Env)
	e.says(conditions.SnapshotsReady, conditions.ReasonAsExpected, "VolumeSnapshotClass linstor-snapshots exists")
	snapshotsMeasured(e.env, 1)
	snapshotClassWith(e.env, volumespec.DefaultSnapshotClass, "true", snapshotv1.VolumeSnapshotContentDelete)

	e.class("replicated", storagev1.VolumeBindingImmediate, map[string]string{"placementCount": "2"})
	c := e.claim("data", "replicated", "1Gi")
	pv := e.bound(c)
	e.writes("writer", c.Name, "hello")
	documented(e.env, "VolumeSnapshot")
	s := e.taken("data-before-upgrade")
	if got := ptr.Deref(s.Spec.VolumeSnapshotClassName, ""); got != volumespec.DefaultSnapshotClass {
		t.Errorf("the snapshot is of the class %q", got)
	}
	e.writes("overwriter", c.Name, "changed")
	documented(e.env, "PersistentVolumeClaim")
	again := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "data-restored"}}
	copied := e.bound(again)
	if got := e.reads("reader", again.Name, "/data/greeting"); got != "hello" {
		t.Errorf("the pod read %q from the restored volume", got)
	}
	if got := e.reads("reader", c.Name, "/data/greeting"); got != "changed" {
		t.Errorf("the pod read %q from the volume", got)
	}

	content := ptr.Deref(s.Status.BoundVolumeSnapshotContentName, "none")
	e.Update(setSnapshots(func(v *volumespec.VolumeSnapshotsSpec) { v.Mode = volumespec.SnapshotsNone }))
	e.says(conditions.SnapshotsReady, "NotWanted", "mode is None",
		"VolumeSnapshotClass linstor-snapshots is no longer in the spec, but is kept",
		"csi-snapshotter is kept for the existing snapshots: "+content)
	snapshotter(e.env, true)
	for _, claim := range []*corev1.PersistentVolumeClaim{c, again} {
		remove(e.env, claim)
	}
	gone(e.env, pv)
	gone(e.env, copied)
	e.Update(setDriver(volumespec.DriverNone))
	e.says(conditions.VolumeDriverReady, "True/DriverRunning", "because 1 VolumeSnapshotContent uses it ("+content+")")
	remove(e.env, s)
	gone(e.env, &snapshotv1.VolumeSnapshotContent{ObjectMeta: metav1.ObjectMeta{Name: content}})
	e.nothingLeft(pv.Spec.CSI.VolumeHandle, "replicated")
	e.nothingLeft(copied.Spec.CSI.VolumeHandle, "replicated")
	e.says(conditions.VolumeDriverReady, "True/"+volumedriver.ReasonNotWanted, "mode is None")
	if got := e.driverObjects(); len(got) > 0 {
		t.Errorf("left of a driver that nobody needs: %v", got)
	}
	noSnapshotClass(e.env, volumespec.DefaultSnapshotClass)
}

// snapshotClassOf is a VolumeSnapshotClass that somebody else made.
func snapshotClassOf(name, isDefault string) *snapshotv1.VolumeSnapshotClass {
	return &snapshotv1.VolumeSnapshotClass{ObjectMeta: metav1.ObjectMeta{Name: name,
		Annotations: map[string]string{resources.AnnotationDefaultSnapshotClass: isDefault}},
		Driver: resources.DriverName, DeletionPolicy: snapshotv1.VolumeSnapshotContentRetain}
}

// TestSnapshotClass: classes of others are left alone, what the spec says is made and kept, and all of it goes with
// the mode, and with the API.
func TestSnapshotClass(t *testing.T) {
	e := start(t, harness.Nodes(2))
	harness.InstallSnapshotAPI(e.Env)
	theirs := snapshotClassOf("nightly", "true")
	create(e, theirs)
	e.Run()
	e.Apply(harness.Manifest("  volumes: {driver: {mode: Managed}, snapshots: {className: nightly}}" + harness.ThinPool))
	e.says(conditions.SnapshotsReady, snapshotclass.ReasonForeign, "set spec.volumes.snapshots.className to another name")
	snapshotsMeasured(e, 0)
	snapshotClassWith(e, "nightly", "true", snapshotv1.VolumeSnapshotContentRetain)

	e.Update(setSnapshots(func(v *volumespec.VolumeSnapshotsSpec) { v.ClassName = "hourly" }))
	e.says(conditions.SnapshotsReady, conditions.ReasonAsExpected,
		"VolumeSnapshotClass nightly is already the driver's default")
	snapshotClassWith(e, "hourly", "", snapshotv1.VolumeSnapshotContentDelete)
	remove(e, theirs)
	snapshotClassWith(e, "hourly", "true", snapshotv1.VolumeSnapshotContentDelete)
	e.Update(setSnapshots(func(v *volumespec.VolumeSnapshotsSpec) {
		v.Default, v.DeletionPolicy = ptr.To(false), volumespec.SnapshotsRetain
	}))
	snapshotClassWith(e, "hourly", "", snapshotv1.VolumeSnapshotContentRetain)
	remove(e, snapshotClassOf("hourly", ""))
	snapshotClassWith(e, "hourly", "", snapshotv1.VolumeSnapshotContentRetain)

	e.Update(setSnapshots(func(v *volumespec.VolumeSnapshotsSpec) { v.Mode = volumespec.SnapshotsNone }))
	e.says(conditions.SnapshotsReady, "NotWanted", "mode is None")
	noSnapshotClass(e, "hourly")
	snapshotter(e, false)
	e.Update(setSnapshots(func(v *volumespec.VolumeSnapshotsSpec) { v.Mode = volumespec.SnapshotsAuto }))
	e.says(conditions.SnapshotsReady, conditions.ReasonAsExpected)
	snapshotter(e, true)
	for _, name := range simcluster.SnapshotDefinitions() {
		remove(e, &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	e.says(conditions.SnapshotsReady, snapshotclass.ReasonNoAPI)
	snapshotter(e, false)
	e.says(conditions.VolumeDriverReady, "True/DriverRunning", "2 of 2 nodes")
}

// TestADeletionWaitsForSnapshots: the driver alone can take leave of a VolumeSnapshotContent, also of one whose volume
// LINSTOR has no more.
func TestADeletionWaitsForSnapshots(t *testing.T) {
	e := start(t, harness.Nodes(2))
	harness.InstallSnapshotAPI(e.Env)
	e.Run()
	e.Apply(harness.Manifest(driven))
	e.says(conditions.SnapshotsReady, conditions.ReasonAsExpected)
	content := &snapshotv1.VolumeSnapshotContent{ObjectMeta: metav1.ObjectMeta{Name: "kept"},
		Spec: snapshotv1.VolumeSnapshotContentSpec{Driver: resources.DriverName,
			DeletionPolicy:    snapshotv1.VolumeSnapshotContentRetain,
			Source:            snapshotv1.VolumeSnapshotContentSource{SnapshotHandle: ptr.To("pvc-1/snapshot-1")},
			VolumeSnapshotRef: corev1.ObjectReference{Namespace: "default", Name: "before"}}}
	create(e, content)
	e.Remove()
	e.WaitStatus("the deletion waits", func(s *v1alpha1.StorageClusterStatus) bool {
		return s.Phase == v1alpha1.PhaseDeleting && strings.Contains(s.Message, "1 VolumeSnapshotContent uses it (kept)")
	})
	if got := e.driverObjects(); len(got) != 3 {
		t.Errorf("left of a driver that a snapshot needs: %v", got)
	}
	remove(e, content)
	e.WaitGone()
	if got := e.driverObjects(); len(got) > 0 {
		t.Errorf("the deletion left %v", got)
	}
	noSnapshotClass(e, volumespec.DefaultSnapshotClass)
}
