package volumespec

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// CanaryMode sets whether the operator tests volumes.
// +kubebuilder:validation:Enum=Auto;None
type CanaryMode string

// Modes of the canary.
const (
	// CanaryAuto: before the cluster is Ready for the first time, after a change that affects volumes, and on request.
	CanaryAuto CanaryMode = "Auto"
	// CanaryNone: never.
	CanaryNone CanaryMode = "None"
)

// CanaryResult is the result of a test.
type CanaryResult string

// Results of a test.
const (
	// CanaryRunning: the test is in progress.
	CanaryRunning CanaryResult = "Running"
	// CanaryPassed: a pod wrote data to a volume and read it back, and the pod and the volume have been deleted.
	CanaryPassed CanaryResult = "Passed"
	// CanaryFailed: a step failed or timed out. The claim and the pod are kept for diagnosis.
	CanaryFailed CanaryResult = "Failed"
	// CanarySkipped: the hold was resumed with skip.
	CanarySkipped CanaryResult = "Skipped"
)

// CanaryStep is a step of a test.
type CanaryStep string

// Steps of a test, in order.
const (
	// CanaryProvision: the volume is provisioned for a claim.
	CanaryProvision CanaryStep = "Provision"
	// CanaryAttach: the volume is attached to the pod's node.
	CanaryAttach CanaryStep = "Attach"
	// CanaryMount: the node mounts the volume.
	CanaryMount CanaryStep = "Mount"
	// CanaryWriteAndRead: the pod writes data to the volume and reads it back.
	CanaryWriteAndRead CanaryStep = "WriteAndRead"
	// CanarySnapshot: a snapshot of the volume is taken, if snapshots are supported.
	CanarySnapshot CanaryStep = "Snapshot"
	// CanaryCleanUp: the snapshot, pod, claim, PersistentVolume and LINSTOR volume are deleted.
	CanaryCleanUp CanaryStep = "CleanUp"
)

// CanaryStatus is the result of the volume tests.
type CanaryStatus struct {
	// request is a fingerprint of the latest storage.linstor.dev/canary annotation value that has been acted on.
	// +optional
	Request string `json:"request,omitempty"`
	// classes lists the tested StorageClasses: the default one first, then others by name. At most three.
	// +optional
	// +listType=map
	// +listMapKey=name
	Classes []CanaryClass `json:"classes,omitempty"`
}

// CanaryClass is the latest test of a StorageClass.
type CanaryClass struct {
	// name is the name of the StorageClass.
	Name string `json:"name"`
	// result is the result of the test: Running, Passed, Failed or Skipped.
	Result CanaryResult `json:"result"`
	// step is the current or failed step: Provision, Attach, Mount, WriteAndRead, Snapshot or CleanUp. Empty if the test
	// passed.
	// +optional
	Step CanaryStep `json:"step,omitempty"`
	// since is when the test started.
	Since metav1.Time `json:"since"`
	// passed is when a test of the StorageClass last passed.
	// +optional
	Passed *metav1.Time `json:"passed,omitempty"`
	// message is what the step is waiting for, or why it failed.
	// +optional
	Message string `json:"message,omitempty"`
	// volume is the name of the test's PersistentVolume and LINSTOR resource.
	// +optional
	Volume string `json:"volume,omitempty"`
	// snapshot is the result of taking a snapshot of the volume. Absent if no snapshot is taken, because the snapshot API
	// is not served, the spec requests no VolumeSnapshotClass or one with deletionPolicy Retain, or a pool does not
	// support snapshots.
	// +optional
	Snapshot *CanarySnapshotResult `json:"snapshot,omitempty"`
	// target is a fingerprint of the StorageClass and of the versions of LINSTOR and the CSI driver. If it changes, the
	// StorageClass is tested again.
	Target string `json:"target"`
}

// CanarySnapshotResult is the result of taking a snapshot. It does not affect whether the cluster is Ready.
type CanarySnapshotResult struct {
	// result is Passed if the snapshot was ready to use within a fifth of the test's time limit, and Failed otherwise.
	Result CanaryResult `json:"result"`
	// message is why the snapshot failed.
	// +optional
	Message string `json:"message,omitempty"`
}
