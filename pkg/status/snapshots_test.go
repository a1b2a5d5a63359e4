package status

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/volumespec"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/optional"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/usage"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/canary"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/snapshotclass"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
)

func TestSnapshotsReady(t *testing.T) {
	said := func(status metav1.ConditionStatus) func(*cluster.Snapshot) {
		return func(s *cluster.Snapshot) {
			s.Kube.Optional = nil
			meta.SetStatusCondition(&s.Cluster.Status.Conditions, metav1.Condition{Type: conditions.SnapshotsReady,
				Status: status, Reason: "Before", Message: "as before"})
		}
	}
	off := func(s *cluster.Snapshot) {
		s.Target.Spec.Volumes.Snapshots.Mode, s.SnapshotClasses = volumespec.SnapshotsNone, nil
	}
	for _, tc := range []struct {
		name   string
		change func(*cluster.Snapshot)
		status metav1.ConditionStatus
		reason string
		words  string
	}{
		{"all is there", func(*cluster.Snapshot) {}, metav1.ConditionTrue, conditions.ReasonAsExpected,
			"VolumeSnapshotClass nightly exists, and the CSI driver can take snapshots"},
		{"none could be taken", func(s *cluster.Snapshot) {
			s.Cluster.Status.Canary = &volumespec.CanaryStatus{Classes: []volumespec.CanaryClass{{Name: "fast",
				Snapshot: &volumespec.CanarySnapshotResult{Result: volumespec.CanaryFailed, Message: "timed out"}}}}
		}, metav1.ConditionFalse, canary.ReasonSnapshotFailed,
			"of StorageClass fast failed: timed out; after fixing the cause"},
		{"a note", func(s *cluster.Snapshot) { s.SnapshotClasses[0].Note = "old is the default" }, metav1.ConditionTrue,
			conditions.ReasonAsExpected, "can take snapshots; old is the default"},
		{"no spec", func(s *cluster.Snapshot) { s.Target = nil }, metav1.ConditionUnknown, conditions.ReasonNotChecked,
			"not been accepted"},
		{"no driver", func(s *cluster.Snapshot) { s.Target.Spec.Volumes.Driver.Mode = volumespec.DriverNone },
			metav1.ConditionTrue, "NotWanted", "the operator does not run a CSI driver"},
		{"off", off, metav1.ConditionTrue, "NotWanted", "mode is None"},
		{"off, and there are some", func(s *cluster.Snapshot) {
			off(s)
			s.Kube.Driver.Snapshots = usage.Used{Count: 4, Names: []string{"a", "b", "c"}}
		}, metav1.ConditionTrue, "NotWanted", "csi-snapshotter is kept for the existing snapshots: a, b, c and 1 more"},
		{"no API", func(s *cluster.Snapshot) { s.Kube.Optional = optional.APIs{optional.Snapshots: nil} },
			metav1.ConditionFalse, snapshotclass.ReasonNoAPI, "install the CRDs"},
		{"nobody knows", func(s *cluster.Snapshot) { s.Kube.Optional = nil }, metav1.ConditionUnknown,
			conditions.ReasonUnknown, "it is unknown whether"},
		{"nobody knows any more", said(metav1.ConditionTrue), metav1.ConditionTrue, "Before", "as before"},
		{"nobody knows yet", said(metav1.ConditionUnknown), metav1.ConditionUnknown, conditions.ReasonUnknown,
			"it is unknown whether"},
		{"somebody else's class", func(s *cluster.Snapshot) {
			s.SnapshotClasses[0].Reason, s.SnapshotClasses[0].Message = snapshotclass.ReasonForeign, "it is theirs"
		}, metav1.ConditionFalse, snapshotclass.ReasonForeign, "it is theirs"},
		{"the pods are on their way", func(s *cluster.Snapshot) {
			s.Kube.Deployments[resources.DriverControllerName].Status.AvailableReplicas = 0
		}, metav1.ConditionFalse, snapshotclass.ReasonStarting, "csi-snapshotter is not yet running"},
		{"the driver is somebody else's", func(s *cluster.Snapshot) { s.SnapshotClasses = nil }, metav1.ConditionFalse,
			snapshotclass.ReasonStarting, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := judged(t, v1alpha1.PhaseReady, 2)
			s.Target.Spec.Volumes.Driver.Mode = volumespec.DriverManaged
			s.Kube.Optional = optional.APIs{
				optional.Snapshots: {"VolumeSnapshot", "VolumeSnapshotClass", "VolumeSnapshotContent"}}
			d := resources.DriverController(s.SatelliteParams(), true, true)
			d.Status = appsv1.DeploymentStatus{Replicas: 1, UpdatedReplicas: 1, AvailableReplicas: 1}
			s.Kube.Deployments = map[string]*appsv1.Deployment{d.Name: d}
			s.SnapshotClasses = []*cluster.SnapshotClass{{Name: "nightly"}}
			tc.change(s)
			v := snapshotsReady(&s.Cluster.Status, s)
			if v.status != tc.status || v.reason != tc.reason || !strings.Contains(v.message, tc.words) {
				t.Errorf("%+v", v)
			}
		})
	}
}
