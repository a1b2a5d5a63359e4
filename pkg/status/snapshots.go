package status

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/volumespec"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/optional"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/canary"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/snapshotclass"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

const noSnapshotAPI = "Kubernetes does not serve snapshot.storage.k8s.io/v1: install the CRDs and the snapshot " +
	"controller from github.com/kubernetes-csi/external-snapshotter, or set spec.volumes.snapshots.mode to None; the " +
	"operator detects the change automatically"

// snapshotsReady is the condition SnapshotsReady. It stays while it is not known whether Kubernetes serves snapshots.
func snapshotsReady(st *v1alpha1.StorageClusterStatus, s *cluster.Snapshot) verdict {
	if s.Target == nil {
		return unknown(conditions.ReasonNotChecked, "the spec has not been accepted yet")
	}
	bad, why, notes := sumUpSnapshotClasses(s.SnapshotClasses)
	api, wanted := snapshotclass.API(&s.Facts), snapshotclass.Wanted(&s.Facts)
	with := func(words string) string {
		return strings.Join(append([]string{words}, first(notes, mostClasses)...), "; ")
	}
	trouble := canary.SnapshotTrouble(st)
	switch before := written(s, conditions.SnapshotsReady); {
	case !wanted && s.Target.Spec.Volumes.Driver.Mode != volumespec.DriverManaged:
		return yes("NotWanted", with("the operator does not run a CSI driver"))
	case !wanted:
		if n := s.Kube.Driver.Snapshots.Count; n > 0 {
			notes = append(notes, "csi-snapshotter is kept for the existing snapshots: "+
				text.Listed(s.Kube.Driver.Snapshots.Names, n))
		}
		return yes("NotWanted", with("spec.volumes.snapshots.mode is None"))
	case api == optional.Absent:
		return no(snapshotclass.ReasonNoAPI, noSnapshotAPI)
	case api == optional.Unknown && before.status != "" && before.status != metav1.ConditionUnknown:
		return before
	case api == optional.Unknown:
		return unknown(conditions.ReasonUnknown, "it is unknown whether the API server serves snapshot.storage.k8s.io/v1")
	case bad != "":
		return no(bad, with(why))
	case len(s.SnapshotClasses) == 0, !snapshotclass.Runs(&s.Facts):
		return no(snapshotclass.ReasonStarting, with("csi-snapshotter is not yet running in all CSI driver controller pods"))
	case trouble != "":
		return no(canary.ReasonSnapshotFailed, with(trouble))
	default:
		return yes(conditions.ReasonAsExpected, with("VolumeSnapshotClass "+s.SnapshotClasses[0].Name+" exists, and the "+
			"CSI driver can take snapshots"))
	}
}

// sumUpSnapshotClasses says what is wrong with the class that is wanted, "" if nothing is, and lists further notes.
func sumUpSnapshotClasses(all []*cluster.SnapshotClass) (reason, message string, notes []string) {
	for _, c := range all {
		if c.Reason != "" {
			reason, message = c.Reason, c.Message
		}
		if c.Note != "" {
			notes = append(notes, c.Note)
		}
	}
	return reason, message, notes
}
