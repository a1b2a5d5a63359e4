package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/backupspec"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/etcdspec"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/modulespec"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/tlsspec"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/volumespec"
)

// StorageClusterStatus is the observed state of a LINSTOR cluster. It contains counts and examples, but never an entry
// for every node, and stays under 64 KiB in clusters of any size.
type StorageClusterStatus struct {
	// phase is what the operator is doing. It is intended for people; programs should read the conditions.
	// +optional
	Phase Phase `json:"phase,omitempty"`
	// phaseSince is when the phase started.
	// +optional
	PhaseSince *metav1.Time `json:"phaseSince,omitempty"`
	// progressSince is when the phase last made progress, that is, when one more node completed its step.
	// +optional
	ProgressSince *metav1.Time `json:"progressSince,omitempty"`
	// progress is the number of nodes that had completed the step of the phase at progressSince.
	// +optional
	Progress int32 `json:"progress,omitempty"`
	// deadline is when a hold opens unless the phase makes progress. Phases without a time limit have no deadline.
	// +optional
	Deadline *metav1.Time `json:"deadline,omitempty"`
	// firstReady is when the cluster completed all steps for the first time (phase Ready or Degraded).
	// +optional
	FirstReady *metav1.Time `json:"firstReady,omitempty"`
	// attention is the most urgent issue: a hold; nodes that are held, leaving or under maintenance; a problem; a
	// rollout; or a suspended cluster. Empty if there is none.
	// +optional
	Attention string `json:"attention,omitempty"`
	// message is a one-line summary of what the operator is doing or waiting for.
	// +optional
	Message string `json:"message,omitempty"`
	// observedGeneration is the generation of the spec that the operator last read.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// acceptedGeneration is the generation of the spec that target was created from.
	// +optional
	AcceptedGeneration int64 `json:"acceptedGeneration,omitempty"`
	// target is the ControllerRevision in linstor-storage with the accepted spec, which the operator applies.
	// +optional
	Target string `json:"target,omitempty"`
	// version is the LINSTOR version of the accepted spec.
	// +optional
	Version string `json:"version,omitempty"`
	// database is the kind of database that LINSTOR uses.
	// +optional
	Database DatabaseKind `json:"database,omitempty"`
	// etcd is the observed state of the etcd cluster that the operator runs, if spec.database.managedEtcd is set.
	// +optional
	Etcd *etcdspec.EtcdStatus `json:"etcd,omitempty"`
	// hold explains why the phase is HumanIntervention or why the deletion has stopped, and how to resume.
	// +optional
	Hold *Hold `json:"hold,omitempty"`
	// nodeHolds are holds of individual nodes. They do not stop the rest of the cluster.
	// +optional
	// +listType=atomic
	NodeHolds []Hold `json:"nodeHolds,omitempty"`
	// upgrade is the LINSTOR version change that is in progress.
	// +optional
	Upgrade *UpgradeStatus `json:"upgrade,omitempty"`
	// kernelModule shows which DRBD versions are loaded.
	// +optional
	KernelModule *modulespec.KernelModuleStatus `json:"kernelModule,omitempty"`
	// nodes contains node counts.
	// +optional
	Nodes NodesStatus `json:"nodes,omitempty"`
	// pools contains storage pool counts.
	// +optional
	Pools PoolsStatus `json:"pools,omitempty"`
	// volumes is the number of LINSTOR volumes (resource definitions) by health. Absent before the first check.
	// +optional
	Volumes *volumespec.VolumesStatus `json:"volumes,omitempty"`
	// canary is the result of the volume tests, if spec.volumes.canary enables them.
	// +optional
	Canary *volumespec.CanaryStatus `json:"canary,omitempty"`
	// backup is the state of the backups of LINSTOR's database, if spec.backup is set.
	// +optional
	Backup *backupspec.BackupStatus `json:"backup,omitempty"`
	// certificates lists the certificates that secure LINSTOR's connections. At most 24.
	// +optional
	// +listType=atomic
	Certificates []tlsspec.CertificateStatus `json:"certificates,omitempty"`
	// conditions are intended for programs. All conditions are present from the first status update on.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// history lists the last five phase changes, newest first. Earlier ones are recorded as Events.
	// +optional
	// +listType=atomic
	History []Transition `json:"history,omitempty"`
}

// Transition is a phase change.
type Transition struct {
	// time is when the phase changed.
	Time metav1.Time `json:"time"`
	// from is the previous phase.
	From Phase `json:"from"`
	// event is the event that caused the change.
	Event string `json:"event"`
	// to is the new phase.
	To Phase `json:"to"`
	// message explains the change. Empty if a phase completed: see the corresponding condition instead.
	// +optional
	Message string `json:"message,omitempty"`
}

// Hold is a stop that requires an administrator's attention.
type Hold struct {
	// id identifies this hold. IDs are never reused.
	ID string `json:"id"`
	// reason is a single word for the cause of the hold; docs/runbooks has a page for each reason.
	Reason HoldReason `json:"reason"`
	// message describes the cause in detail.
	Message string `json:"message"`
	// since is when the hold opened.
	Since metav1.Time `json:"since"`
	// options lists the options that the resume annotation may contain, the safest first; for DeviceApproval, the
	// requested one first.
	// +optional
	// +listType=map
	// +listMapKey=answer
	Options []HoldOption `json:"options,omitempty"`
	// resume is the command that ends the hold with the first option.
	// +optional
	Resume string `json:"resume,omitempty"`
	// runbook is the URL of the page that explains the reason.
	// +optional
	Runbook string `json:"runbook,omitempty"`
	// pool is the spec.storagePools entry to which the hold applies.
	// +optional
	Pool string `json:"pool,omitempty"`
	// nodes lists the held nodes. At most 50.
	// +optional
	// +listType=atomic
	Nodes []string `json:"nodes,omitempty"`
	// count is the number of held nodes.
	// +optional
	Count int32 `json:"count,omitempty"`
	// devices lists the empty disks that require approval. At most 50. Disks that are not listed are not approved.
	// +optional
	// +listType=atomic
	Devices []HoldDevice `json:"devices,omitempty"`
	// resources lists the names of the affected volumes. At most ten.
	// +optional
	// +listType=atomic
	Resources []string `json:"resources,omitempty"`
	// identities lists exactly what you approve, if names are not enough: machines (node=systemUUID); snapshots that
	// exist only on one node (node=3 snapshots <digest>); a database, by LINSTOR's LocalID or a digest of its nodes; or
	// problems that block an upgrade (node/<name>, leaving/<name>, mass-failure, copies-not-up-to-date, backup, and
	// others). An approval applies only to these.
	// +optional
	// +listType=atomic
	Identities []string `json:"identities,omitempty"`
}

// HoldOption is an option for resuming a hold.
type HoldOption struct {
	// answer is the option to append to the hold's id in the resume annotation.
	Answer string `json:"answer"`
	// does is what the operator does if you choose this option.
	// +optional
	Does string `json:"does,omitempty"`
}

// HoldDevice is an empty disk that requires approval.
type HoldDevice struct {
	// node is the node that has the disk.
	Node string `json:"node"`
	// path is the current device path of the disk; it may change on reboot.
	Path string `json:"path"`
	// serial is the serial number of the disk.
	// +optional
	Serial string `json:"serial,omitempty"`
	// wwn is the World Wide Name of the disk.
	// +optional
	WWN string `json:"wwn,omitempty"`
	// model is the model of the disk.
	// +optional
	Model string `json:"model,omitempty"`
	// size is the size of the disk.
	Size resource.Quantity `json:"size"`
}

// UpgradeStep is a step of a LINSTOR version change.
type UpgradeStep string

// Steps of an upgrade, in order.
const (
	// UpgradePrechecks: waits until nothing blocks the upgrade. Nothing has been changed yet.
	UpgradePrechecks UpgradeStep = "Prechecks"
	// UpgradeController: replaces the controller, which migrates the database. From this step on, the only way to roll
	// back is a restore.
	UpgradeController UpgradeStep = "Controller"
	// UpgradeSatellites: restarts the satellites in batches.
	UpgradeSatellites UpgradeStep = "Satellites"
	// UpgradeVerify: checks that all members are ONLINE and running the new version.
	UpgradeVerify UpgradeStep = "Verify"
)

// UpgradeStatus is the state of a LINSTOR version change.
type UpgradeStatus struct {
	// from is the last version that used the database before the change.
	From string `json:"from"`
	// to is the requested version.
	To string `json:"to"`
	// step is the current step.
	Step UpgradeStep `json:"step"`
	// since is when the step started.
	Since metav1.Time `json:"since"`
	// nodesDone is the number of members whose satellite is running the requested version.
	// +optional
	// +default=0
	NodesDone int32 `json:"nodesDone"`
	// nodesTotal is the number of members.
	// +optional
	// +default=0
	NodesTotal int32 `json:"nodesTotal"`
	// message is what the step is waiting for.
	// +optional
	Message string `json:"message,omitempty"`
	// skippedChecks is true if the upgrade was resumed with skip-checks.
	// +optional
	SkippedChecks bool `json:"skippedChecks,omitempty"`
}

// PoolsStatus contains storage pool counts.
type PoolsStatus struct {
	// summary is ready/wanted across all nodes. Example: 6/6.
	// +optional
	Summary string `json:"summary,omitempty"`
	// wanted is the number of pools that the members should have in total.
	// +optional
	// +default=0
	Wanted int32 `json:"wanted"`
	// ready is the number of these pools that exist in LINSTOR and have no problems.
	// +optional
	// +default=0
	Ready int32 `json:"ready"`
	// capacity is the total size of the ready pools, updated in steps of one percent.
	// +optional
	Capacity *resource.Quantity `json:"capacity,omitempty"`
	// free is the free space in the ready pools, updated in steps of one percent of the capacity.
	// +optional
	Free *resource.Quantity `json:"free,omitempty"`
	// updated is when capacity and free were last updated.
	// +optional
	Updated *metav1.Time `json:"updated,omitempty"`
	// byPool contains the same counts for each pool in the spec.
	// +optional
	// +listType=map
	// +listMapKey=name
	ByPool []PoolStatus `json:"byPool,omitempty"`
}

// PoolStatus is the state of a spec.storagePools entry on all nodes.
type PoolStatus struct {
	// name is the name of the entry.
	Name string `json:"name"`
	// provider is LINSTOR's provider kind.
	Provider string `json:"provider"`
	// wanted is the number of members that should have the pool.
	Wanted int32 `json:"wanted"`
	// ready is the number of members on which the pool exists and has no problems.
	Ready int32 `json:"ready"`
	// capacity is the total size on all nodes.
	// +optional
	Capacity *resource.Quantity `json:"capacity,omitempty"`
	// free is the free space on all nodes.
	// +optional
	Free *resource.Quantity `json:"free,omitempty"`
	// skipped is the number of members that lack the pool because a hold was resumed with skip.
	// +optional
	Skipped int32 `json:"skipped,omitempty"`
	// skippedNodes lists some of these members.
	// +optional
	// +listType=atomic
	SkippedNodes []string `json:"skippedNodes,omitempty"`
	// devices is the number of disks from which the operator created the pool, on all nodes.
	// +optional
	Devices int32 `json:"devices,omitempty"`
	// recentDevices lists the most recently used of these disks, newest first.
	// +optional
	// +listType=atomic
	RecentDevices []PoolDevice `json:"recentDevices,omitempty"`
}

// PoolDevice is a disk from which the operator created a pool.
type PoolDevice struct {
	// node is the node that has the disk.
	Node string `json:"node"`
	// path is the device path of the disk when it was used. It may have changed since then.
	Path string `json:"path"`
	// serial is the serial number of the disk.
	// +optional
	Serial string `json:"serial,omitempty"`
	// wwn is the World Wide Name of the disk, if it has no serial number.
	// +optional
	WWN string `json:"wwn,omitempty"`
	// size is the size of the disk.
	Size resource.Quantity `json:"size"`
	// since is when the pool was created from the disk.
	Since metav1.Time `json:"since"`
}
