package canary

import (
	"slices"
	"strings"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/utils/ptr"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/volumespec"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/snapshotclass"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

// snapshotShare is the part of a try's time that a snapshot may take: a fifth. A cluster whose snapshots do not work
// is Ready all the same, a little later; the rest of the time is left for the removal.
const snapshotShare = 5

// snapshotClass is the VolumeSnapshotClass that a snapshot of the volume is taken of; "" if none can be taken, or one
// would be left behind.
func (t *try) snapshotClass(s *cluster.Snapshot) string {
	if !snapshotclass.Runs(&s.Facts) || !snapshotclass.Wanted(&s.Facts) || len(s.SnapshotClasses) == 0 {
		return ""
	}
	c := s.SnapshotClasses[0]
	if c.Want == nil || c.Reason != "" || c.Want.DeletionPolicy != snapshotv1.VolumeSnapshotContentDelete ||
		!canSnapshot(s, t.class.Want) {
		return ""
	}
	return c.Name
}

// canSnapshot reports whether all pools that a volume of the StorageClass may lie in have snapshots. LINSTOR takes one
// of all copies at once, so that one pool without them is enough to make it fail.
func canSnapshot(s *cluster.Snapshot, class *storagev1.StorageClass) bool {
	if !s.Linstor.Known() {
		return false
	}
	named, some := strings.Fields(class.Parameters[resources.ParameterPools]), false
	for _, n := range s.Linstor.View.Nodes {
		for _, p := range n.Pools {
			same := func(name string) bool { return strings.EqualFold(name, p.Name) }
			if len(named) > 0 && !slices.ContainsFunc(named, same) {
				continue
			}
			if !p.SupportsSnapshots {
				return false
			}
			some = true
		}
	}
	return some
}

// snapshotDue reports whether a try passed at a time when no snapshot could be taken, and one can now.
func (t *try) snapshotDue(s *cluster.Snapshot) bool {
	return t.last.Result == volumespec.CanaryPassed && t.last.Snapshot == nil && t.snapshotClass(s) != ""
}

// judgeSnapshot finds out what came of the snapshot of a volume that was written to, and what it waits for; "" if for
// nothing more.
func (t *try) judgeSnapshot(s *cluster.Snapshot) (waits string) {
	if t.taken != nil {
		return ""
	}
	begun, hindered := t.last.Step == volumespec.CanarySnapshot, hindrance(s) != ""
	switch {
	case t.snapshotClass(s) == "" && (!begun || !hindered):
		return ""
	case !begun:
		return "a snapshot is about to be taken"
	case t.snapshotUsable():
		t.taken = &volumespec.CanarySnapshotResult{Result: volumespec.CanaryPassed}
		return ""
	}
	waits = snapshotLacks(t.snapshot)
	if !hindered && t.snapshotLate(s) {
		t.taken = &volumespec.CanarySnapshotResult{Result: volumespec.CanaryFailed, Message: waits}
		return ""
	}
	return waits
}

// snapshotUsable reports whether there is a snapshot of the try's own claim that can be used.
func (t *try) snapshotUsable() bool {
	return t.snapshot != nil && !t.outlived() && t.snapshot.Status != nil &&
		ptr.Deref(t.snapshot.Status.ReadyToUse, false)
}

// snapshotLate reports whether the snapshot has had its time, and the phase only as much left as the removal may need.
func (t *try) snapshotLate(s *cluster.Snapshot) bool {
	deadline := s.Timing.Deadlines[fsm.Canary]
	return age(&s.Facts, t.last) > deadline/snapshotShare ||
		s.Phase() == v1alpha1.PhaseCanary && s.PhaseAge() > deadline-deadline/snapshotShare
}

// snapshotLacks is the best that is known of why a snapshot cannot be used.
func snapshotLacks(v *snapshotv1.VolumeSnapshot) string {
	switch {
	case v == nil:
		return "the VolumeSnapshot has not been created yet"
	case v.Status != nil && v.Status.Error != nil && v.Status.Error.Message != nil:
		return text.OneLine(*v.Status.Error.Message)
	case v.Status == nil || v.Status.BoundVolumeSnapshotContentName == nil:
		return "no VolumeSnapshotContent has been created for the VolumeSnapshot: check that the snapshot controller from " +
			"github.com/kubernetes-csi/external-snapshotter is running"
	default:
		return "csi-snapshotter has not taken the snapshot yet"
	}
}

// outlived reports whether the snapshot is of an earlier claim of that name. It proves nothing, and goes.
func (t *try) outlived() bool {
	return t.snapshot != nil && (t.claim == nil || t.snapshot.CreationTimestamp.Before(&t.claim.CreationTimestamp))
}

// SnapshotTrouble says of which StorageClass's volume no snapshot could be taken, why, and what to do; "" if of none.
func SnapshotTrouble(st *v1alpha1.StorageClusterStatus) string {
	if st.Canary == nil {
		return ""
	}
	for i := range st.Canary.Classes {
		if why := SnapshotFailure(&st.Canary.Classes[i]); why != "" {
			return why + "; after fixing the cause, set the " + v1alpha1.AnnotationCanary + " annotation to repeat the test"
		}
	}
	return ""
}

// SnapshotFailure says why no snapshot of a volume of the StorageClass could be taken; "" if one could, or none was to
// be taken.
func SnapshotFailure(c *volumespec.CanaryClass) string {
	if c.Snapshot == nil || c.Snapshot.Result != volumespec.CanaryFailed {
		return ""
	}
	return "the test snapshot of StorageClass " + c.Name + " failed: " + c.Snapshot.Message
}
