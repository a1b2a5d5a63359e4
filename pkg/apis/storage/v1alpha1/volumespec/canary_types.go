package volumespec

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// CanaryMode says whether the operator tries volumes.
// +kubebuilder:validation:Enum=Auto;None
type CanaryMode string

// Modes of the canary.
const (
	// CanaryAuto: before the cluster is Ready for the first time, after a change that volumes depend on, and on request.
	CanaryAuto CanaryMode = "Auto"
	// CanaryNone: never.
	CanaryNone CanaryMode = "None"
)

// CanaryResult is what came of a try.
type CanaryResult string

// Results of a try.
const (
	// CanaryRunning: it goes on.
	CanaryRunning CanaryResult = "Running"
	// CanaryPassed: a pod wrote to a volume and read it back, and nothing is left of the two.
	CanaryPassed CanaryResult = "Passed"
	// CanaryFailed: a step failed, or was not done in time. Its claim and pod stay for a look.
	CanaryFailed CanaryResult = "Failed"
	// CanarySkipped: a human went on without it.
	CanarySkipped CanaryResult = "Skipped"
)

// CanaryStep is a step of a try.
type CanaryStep string

// Steps of a try, in their order.
const (
	// CanaryProvision: a claim gets its volume.
	CanaryProvision CanaryStep = "Provision"
	// CanaryAttach: the volume is attached to the node of the pod.
	CanaryAttach CanaryStep = "Attach"
	// CanaryMount: the node mounts it.
	CanaryMount CanaryStep = "Mount"
	// CanaryWriteAndRead: the pod writes to it and reads that back.
	CanaryWriteAndRead CanaryStep = "WriteAndRead"
	// CanarySnapshot: a snapshot of the volume is taken, where that is possible.
	CanarySnapshot CanaryStep = "Snapshot"
	// CanaryCleanUp: snapshot, pod, claim, PersistentVolume and LINSTOR's volume go.
	CanaryCleanUp CanaryStep = "CleanUp"
)

// CanaryStatus is what came of trying volumes.
type CanaryStatus struct {
	// request is a fingerprint of the annotation storage.linstor.dev/canary that was followed last.
	// +optional
	Request string `json:"request,omitempty"`
	// classes are the StorageClasses that were tried, three at most: the default one, and then by name.
	// +optional
	// +listType=map
	// +listMapKey=name
	Classes []CanaryClass `json:"classes,omitempty"`
}

// CanaryClass is the last try of a StorageClass.
type CanaryClass struct {
	// name is the StorageClass's.
	Name string `json:"name"`
	// result is what came of the try: Running, Passed, Failed or Skipped.
	Result CanaryResult `json:"result"`
	// step is what is being done, or what failed: Provision, Attach, Mount, WriteAndRead, Snapshot or CleanUp. A try that
	// passed has none.
	// +optional
	Step CanaryStep `json:"step,omitempty"`
	// since is when the try began.
	Since metav1.Time `json:"since"`
	// passed is when a try of the StorageClass passed last.
	// +optional
	Passed *metav1.Time `json:"passed,omitempty"`
	// message says what the step waits for, or why it failed.
	// +optional
	Message string `json:"message,omitempty"`
	// volume is the PersistentVolume of the try, which has the same name in LINSTOR.
	// +optional
	Volume string `json:"volume,omitempty"`
	// snapshot is what came of taking a snapshot of the volume. It is absent where none can be taken: the API of snapshots is
	// not served, the spec wants no VolumeSnapshotClass or one that keeps snapshots, or a pool has no snapshots.
	// +optional
	Snapshot *CanarySnapshotResult `json:"snapshot,omitempty"`
	// target is a fingerprint of what was tried: the StorageClass, and the versions of LINSTOR and its driver. With another one the
	// StorageClass is tried again.
	Target string `json:"target"`
}

// CanarySnapshotResult is what came of taking a snapshot. It does not keep a cluster from being Ready.
type CanarySnapshotResult struct {
	// result is Passed: the snapshot could be used; or Failed: it could not within a fifth of the time that a try has.
	Result CanaryResult `json:"result"`
	// message says why it failed.
	// +optional
	Message string `json:"message,omitempty"`
}
