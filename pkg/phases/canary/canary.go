// Package canary is the link that tries volumes before a cluster is called Ready. A pod of the operator's writes to a
// volume and reads it back: a claim that is Bound proves nothing, since LINSTOR keeps a volume that it could make no
// device for, and the driver takes it for complete (linstor-csi 1.12, CreateVolume of a name that exists).
//
// A try goes through Provision, Attach, Mount, WriteAndRead, Snapshot and CleanUp. It is noted in status.canary before
// its claim and pod are made, Snapshot before the snapshot is, and CleanUp before they go. So an operator that is
// killed at any point goes on from the status and from what is there. A try that failed leaves claim and pod for a
// look; where the pod succeeds after all, the try goes on.
//
// A snapshot is taken where that is possible. One that fails is told by the condition SnapshotsReady, and keeps nobody
// from using volumes: the try passes all the same.
package canary

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/volumespec"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	objects "github.com/linstor-dev/storagecluster-operator/pkg/resources/canary"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/platform"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

// mostClasses is how many StorageClasses are tried: each try costs a volume, and most clusters have no more.
const mostClasses = 3

// try is how far the try of a StorageClass is.
type try struct {
	class *cluster.StorageClass
	// target is a fingerprint of what is to be tried; last is what the status says of the StorageClass, nil if nothing.
	target string
	last   *volumespec.CanaryClass
	// result is "" for a try that is to begin.
	result  volumespec.CanaryResult
	step    volumespec.CanaryStep
	message string
	// volume is the PersistentVolume of the try; "" before there is one.
	volume string
	claim  *corev1.PersistentVolumeClaim
	pod    *corev1.Pod
	// snapshot is what is there of one, and taken what came of it; nil while that is open, or if none was to be taken.
	snapshot *snapshotv1.VolumeSnapshot
	taken    *volumespec.CanarySnapshotResult
}

// notWanted says why no volume is tried; "" if the accepted spec asks for it.
func notWanted(f *cluster.Facts) string {
	switch v := &f.Target.Spec.Volumes; {
	case v.Driver.Mode != volumespec.DriverManaged:
		return "spec.volumes.driver.mode is None: the operator does not run a CSI driver"
	case v.Canary == volumespec.CanaryNone:
		return "spec.volumes.canary is None"
	default:
		return ""
	}
}

// tries are those of the StorageClasses that are tried.
func tries(s *cluster.Snapshot) []*try {
	var out []*try
	for _, c := range s.Classes {
		if c.Want == nil || c.Want.ReclaimPolicy != nil && *c.Want.ReclaimPolicy != corev1.PersistentVolumeReclaimDelete {
			continue // the operator may not delete a PersistentVolume, so that each try would leave one behind
		}
		name := objects.Name(c.Name)
		t := &try{class: c, target: target(s, c.Want), last: lastOf(&s.Cluster.Status, c.Name),
			claim: s.Kube.Canary.Claims[name], pod: s.Kube.Canary.Pods[name], snapshot: s.Kube.Canary.Snapshots[name]}
		begun := t.last != nil && t.last.Target == t.target
		if begun || c.Reason == "" && c.Do == cluster.ClassLeave {
			out = append(out, t)
		}
	}
	rank := func(t *try) int {
		if t.class.Want.Annotations[resources.AnnotationDefaultClass] == "true" {
			return 0
		}
		return 1
	}
	slices.SortFunc(out, func(a, b *try) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.class.Name, b.class.Name))
	})
	out = out[:min(len(out), mostClasses)]
	for _, t := range out {
		t.judge(s)
	}
	return out
}

// lastOf is what the status says of a StorageClass; nil if nothing.
func lastOf(st *v1alpha1.StorageClusterStatus, class string) *volumespec.CanaryClass {
	if st.Canary == nil {
		return nil
	}
	for i := range st.Canary.Classes {
		if c := &st.Canary.Classes[i]; c.Name == class {
			return c
		}
	}
	return nil
}

// request is a fingerprint of what was asked for last with the annotation. It stays when the annotation is taken away.
func request(f *cluster.Facts) string {
	if asked := f.Cluster.Annotations[v1alpha1.AnnotationCanary]; asked != "" {
		return text.Digest(asked)
	}
	if c := f.Cluster.Status.Canary; c != nil {
		return c.Request
	}
	return ""
}

// target is a fingerprint of all that a volume of the StorageClass depends on, and of the request.
func target(s *cluster.Snapshot, c *storagev1.StorageClass) string {
	p := s.SatelliteParams()
	return text.Digest([]any{c.Parameters, c.MountOptions, c.VolumeBindingMode, p.Release.Version,
		p.Release.Driver.Driver, request(&s.Facts)})
}

// judge finds out how far the try is. A try of something else, such as an older version, is none.
func (t *try) judge(s *cluster.Snapshot) {
	if t.last == nil || t.last.Target != t.target || t.snapshotDue(s) {
		t.step, t.message = volumespec.CanaryProvision, "the test is about to start"
		if t.there() {
			t.message = "waiting for objects from an earlier test to be removed: " + t.left(s)
		}
		return
	}
	t.result, t.step, t.message, t.volume = t.last.Result, t.last.Step, t.last.Message, t.last.Volume
	t.taken = t.last.Snapshot
	if t.result == volumespec.CanaryPassed || t.result == volumespec.CanarySkipped {
		return
	}
	if t.claim != nil {
		t.volume = cmp.Or(t.claim.Spec.VolumeName, t.volume)
	}
	t.step, t.message = t.place(s)
	switch {
	case t.step == "":
		t.result = volumespec.CanaryPassed
	case exited(t.pod):
		t.result = volumespec.CanaryFailed
	case t.step == volumespec.CanarySnapshot, t.step == volumespec.CanaryCleanUp && t.last.Step != t.step:
		t.result = volumespec.CanaryRunning
	case hindrance(s) != "": // its time does not count, and what was said of it stays
	case t.late(s):
		t.result = volumespec.CanaryFailed
	case s.Phase() != v1alpha1.PhaseHumanIntervention:
		t.result = volumespec.CanaryRunning
	}
}

// there reports whether a claim, a pod or a snapshot is there.
func (t *try) there() bool { return t.claim != nil || t.pod != nil || t.snapshot != nil }

// age is how long the try has gone on, or the step Snapshot or CleanUp, which have a time of their own. Time in which
// the cluster was suspended before does not count.
func age(f *cluster.Facts, c *volumespec.CanaryClass) time.Duration {
	begin := c.Since.Time
	if c := meta.FindStatusCondition(f.Cluster.Status.Conditions, conditions.Suspended); c != nil &&
		c.LastTransitionTime.After(begin) {
		begin = c.LastTransitionTime.Time
	}
	return f.Now.Sub(begin)
}

// late reports whether the step is not done in time, by the time of the phase as well, which began a moment before.
func (t *try) late(s *cluster.Snapshot) bool {
	deadline := s.Timing.Deadlines[fsm.Canary]
	return age(&s.Facts, t.last) > deadline || s.Phase() == v1alpha1.PhaseCanary && s.PhaseAge() > deadline
}

// goesOn reports whether claim and pod of the try are to be there.
func (t *try) goesOn() bool {
	return (t.result == volumespec.CanaryRunning || t.result == volumespec.CanaryFailed) &&
		t.last.Step != volumespec.CanaryCleanUp
}

// exited reports whether the pod's own program has failed.
func exited(p *corev1.Pod) bool {
	return p != nil && p.Status.Phase == corev1.PodFailed && !spoiled(p)
}

// spoiled reports whether the pod failed for a reason that says nothing of its volume, such as an eviction: kubelets
// and Kubernetes' controllers give such a pod a reason of its own.
func spoiled(p *corev1.Pod) bool {
	return p != nil && p.Status.Phase == corev1.PodFailed && p.Status.Reason != ""
}

// putOff says why no try begins now; "" if nothing hinders.
func putOff(s *cluster.Snapshot) string {
	switch s.Phase() {
	case v1alpha1.PhaseAssessing, v1alpha1.PhaseCanary, v1alpha1.PhaseReady, v1alpha1.PhaseDegraded:
		return hindrance(s)
	default:
		return "the cluster is in phase " + string(s.Phase())
	}
}

// hindrance is the same, whatever the phase. The time of a try that goes on does not count meanwhile.
func hindrance(s *cluster.Snapshot) string {
	driver := s.Evidence[fsm.VolumeDriver]
	switch {
	case s.Cluster.Spec.Suspend:
		return "spec.suspend is set"
	case s.Cluster.DeletionTimestamp != nil:
		return "the cluster is being deleted"
	case s.Upgrade != nil:
		return "LINSTOR is being upgraded"
	case s.Frozen():
		return "many nodes failed at once"
	case !s.Linstor.Known():
		return "LINSTOR does not respond"
	case s.Connecting(): // whether there are nodes enough is not known
		return "LINSTOR is connecting to its satellites"
	case !driver.OK():
		return "the CSI driver is not ready: " + driver.Message
	case driverRolls(&s.Facts):
		return "the CSI driver's pods are being replaced"
	case poolsFull(&s.Facts):
		return poolsAreFull
	default:
		return ""
	}
}

const poolsAreFull = "a storage pool is nearly full"

// poolsFull reports whether a pool was nearly full when the status was written.
func poolsFull(f *cluster.Facts) bool {
	return meta.IsStatusConditionTrue(f.Cluster.Status.Conditions, conditions.PoolsNearlyFull)
}

// driverRolls reports whether some pods of the driver are not of its present version: they prove nothing of it.
func driverRolls(f *cluster.Facts) bool {
	if d := f.Kube.Deployments[resources.DriverControllerName]; d == nil || d.Status.ObservedGeneration < d.Generation ||
		d.Spec.Replicas != nil && d.Status.UpdatedReplicas < *d.Spec.Replicas {
		return true
	}
	for _, q := range platform.Profiles() {
		ds := f.Kube.DaemonSets[q.DriverName()]
		if ds != nil && (ds.Status.ObservedGeneration < ds.Generation ||
			ds.Status.UpdatedNumberScheduled < ds.Status.DesiredNumberScheduled) {
			return true
		}
	}
	return false
}

// Slow are the names of claims and pods of tries that take long, so that it is worth knowing what Kubernetes warns of.
func Slow(f *cluster.Facts) []string {
	var out []string
	if c := f.Cluster.Status.Canary; c != nil {
		for i := range c.Classes {
			name := objects.Name(c.Classes[i].Name)
			there := f.Kube.Canary.Claims[name] != nil || f.Kube.Canary.Pods[name] != nil
			if there && age(f, &c.Classes[i]) > f.Timing.HealthLost {
				out = append(out, name)
			}
		}
	}
	return out
}

// Running reports whether a try went on when the status was written.
func Running(st *v1alpha1.StorageClusterStatus) bool {
	return st.Canary != nil && slices.ContainsFunc(st.Canary.Classes, func(c volumespec.CanaryClass) bool {
		return c.Result == volumespec.CanaryRunning
	})
}

// Leaving are the volumes of tries that LINSTOR is to have no longer.
func Leaving(f *cluster.Facts) []string {
	var out []string
	if c := f.Cluster.Status.Canary; c != nil {
		for i := range c.Classes {
			if e := &c.Classes[i]; e.Step == volumespec.CanaryCleanUp && e.Volume != "" {
				out = append(out, e.Volume)
			}
		}
	}
	return out
}

// String is the try in one sentence.
func (t *try) String() string {
	out := "StorageClass " + t.class.Name
	if t.step != "" {
		out += ": " + string(t.step)
	}
	if t.message != "" {
		out = fmt.Sprintf("%s: %s", out, t.message)
	}
	return out
}
