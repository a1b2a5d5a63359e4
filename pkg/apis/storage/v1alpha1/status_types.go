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

// StorageClusterStatus is what the operator saw and does. It holds counts and examples, never an entry per node, and stays
// under 64 KiB however large the cluster is.
type StorageClusterStatus struct {
	// phase is what the operator is doing. It is for people; programs read the conditions.
	// +optional
	Phase Phase `json:"phase,omitempty"`
	// phaseSince is when the phase began.
	// +optional
	PhaseSince *metav1.Time `json:"phaseSince,omitempty"`
	// progressSince is when the phase last made progress: a node more went through.
	// +optional
	ProgressSince *metav1.Time `json:"progressSince,omitempty"`
	// progress is the number of nodes that were through the phase's step at progressSince.
	// +optional
	Progress int32 `json:"progress,omitempty"`
	// deadline is when a human is asked if the phase makes no progress until then. Phases that may last have none.
	// +optional
	Deadline *metav1.Time `json:"deadline,omitempty"`
	// firstReady is when the cluster was through all steps for the first time: Ready or Degraded.
	// +optional
	FirstReady *metav1.Time `json:"firstReady,omitempty"`
	// attention is empty when all is well, and names the most urgent thing otherwise: a hold, nodes that are held, leave or are under
	// maintenance, trouble, a rollout, or that the cluster is suspended.
	// +optional
	Attention string `json:"attention,omitempty"`
	// message says in one line what the operator does or waits for.
	// +optional
	Message string `json:"message,omitempty"`
	// observedGeneration is the generation of the spec that the operator last looked at.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// acceptedGeneration is the generation of the spec that target was made from.
	// +optional
	AcceptedGeneration int64 `json:"acceptedGeneration,omitempty"`
	// target is the ControllerRevision in linstor-storage that holds the accepted spec, which is what the operator works on.
	// +optional
	Target string `json:"target,omitempty"`
	// version is the LINSTOR version of the accepted spec.
	// +optional
	Version string `json:"version,omitempty"`
	// database is the kind of LINSTOR's database.
	// +optional
	Database DatabaseKind `json:"database,omitempty"`
	// etcd is what was seen of the etcd that the operator runs, if spec.database.managedEtcd asks for one.
	// +optional
	Etcd *etcdspec.EtcdStatus `json:"etcd,omitempty"`
	// hold says why the phase is HumanIntervention, or why Deleting does not go on, and how to resume.
	// +optional
	Hold *Hold `json:"hold,omitempty"`
	// nodeHolds are stops of single nodes; the rest of the cluster goes on.
	// +optional
	// +listType=atomic
	NodeHolds []Hold `json:"nodeHolds,omitempty"`
	// upgrade is the change of LINSTOR's version that is going on.
	// +optional
	Upgrade *UpgradeStatus `json:"upgrade,omitempty"`
	// kernelModule counts the versions of DRBD that are loaded.
	// +optional
	KernelModule *modulespec.KernelModuleStatus `json:"kernelModule,omitempty"`
	// nodes counts the nodes that take part.
	// +optional
	Nodes NodesStatus `json:"nodes,omitempty"`
	// pools counts the storage pools.
	// +optional
	Pools PoolsStatus `json:"pools,omitempty"`
	// volumes counts LINSTOR's volumes (resource definitions) by how well they are; absent before the first look.
	// +optional
	Volumes *volumespec.VolumesStatus `json:"volumes,omitempty"`
	// canary is what came of trying volumes, if spec.volumes asks for that.
	// +optional
	Canary *volumespec.CanaryStatus `json:"canary,omitempty"`
	// backup is what came of backups of LINSTOR's database, if spec.backup asks for them.
	// +optional
	Backup *backupspec.BackupStatus `json:"backup,omitempty"`
	// certificates are those that lock LINSTOR's connections, up to 16.
	// +optional
	// +listType=atomic
	Certificates []tlsspec.CertificateStatus `json:"certificates,omitempty"`
	// conditions are the contract for programs. All are present from the first write on.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// history lists the last five changes of phase, the newest first. Events tell of earlier ones.
	// +optional
	// +listType=atomic
	History []Transition `json:"history,omitempty"`
}

// Transition is one change of phase.
type Transition struct {
	// time of the change.
	Time metav1.Time `json:"time"`
	// from is the phase before.
	From Phase `json:"from"`
	// event is the transition table's event.
	Event string `json:"event"`
	// to is the phase after.
	To Phase `json:"to"`
	// message says why. It is empty where a phase ended well: the condition of what it brought about has the words.
	// +optional
	Message string `json:"message,omitempty"`
}

// Hold is a stop that waits for a human.
type Hold struct {
	// id names this hold; no other hold has or had it.
	ID string `json:"id"`
	// reason says why, as one word; docs/runbooks has a page for each.
	Reason HoldReason `json:"reason"`
	// message says why, in full.
	Message string `json:"message"`
	// since is when the hold began.
	Since metav1.Time `json:"since"`
	// options are the answers that the resume annotation may give, the safest first; of DeviceApproval, the one that is asked for.
	// +optional
	// +listType=map
	// +listMapKey=answer
	Options []HoldOption `json:"options,omitempty"`
	// resume is the command that ends the hold, with the first option.
	// +optional
	Resume string `json:"resume,omitempty"`
	// runbook is the address of the page that explains the reason.
	// +optional
	Runbook string `json:"runbook,omitempty"`
	// pool is the entry of spec.storagePools that the hold is about.
	// +optional
	Pool string `json:"pool,omitempty"`
	// nodes are the nodes that are held, fifty at most.
	// +optional
	// +listType=atomic
	Nodes []string `json:"nodes,omitempty"`
	// count is the number of nodes that are held.
	// +optional
	Count int32 `json:"count,omitempty"`
	// devices are the empty disks that wait for approval, fifty at most. What is not listed is not approved either.
	// +optional
	// +listType=atomic
	Devices []HoldDevice `json:"devices,omitempty"`
	// resources are names of the volumes that the hold is about, ten at most.
	// +optional
	// +listType=atomic
	Resources []string `json:"resources,omitempty"`
	// identities are what the hold asks about where a name is not enough: machines as node=systemUUID, snapshots that only a
	// node has (node=3 snapshots <digest>), a database by LINSTOR's LocalID or a digest of its nodes, or what speaks against an
	// upgrade (node/<name>, leaving/<name>, mass-failure, copies-not-up-to-date, backup, and others). An answer is for these.
	// +optional
	// +listType=atomic
	Identities []string `json:"identities,omitempty"`
}

// HoldOption is an answer that a hold takes.
type HoldOption struct {
	// answer is the word that the resume annotation gives after the hold's id.
	Answer string `json:"answer"`
	// does says what the operator does then.
	// +optional
	Does string `json:"does,omitempty"`
}

// HoldDevice is an empty disk that waits for approval.
type HoldDevice struct {
	// node is the node that has the disk.
	Node string `json:"node"`
	// path is the disk's kernel name now; it may change at reboot.
	Path string `json:"path"`
	// serial is the disk's serial number.
	// +optional
	Serial string `json:"serial,omitempty"`
	// wwn is the disk's World Wide Name.
	// +optional
	WWN string `json:"wwn,omitempty"`
	// model is the disk's model.
	// +optional
	Model string `json:"model,omitempty"`
	// size is the disk's size.
	Size resource.Quantity `json:"size"`
}

// UpgradeStep is a step of a change of LINSTOR's version.
type UpgradeStep string

// Steps of an upgrade, in their order.
const (
	// UpgradePrechecks waits for the cluster to be fit for the change. Nothing is changed yet.
	UpgradePrechecks UpgradeStep = "Prechecks"
	// UpgradeController replaces the controller, which migrates the database. From here only a restore leads back.
	UpgradeController UpgradeStep = "Controller"
	// UpgradeSatellites restarts the satellites in batches.
	UpgradeSatellites UpgradeStep = "Satellites"
	// UpgradeVerify looks whether all members are ONLINE with the new version.
	UpgradeVerify UpgradeStep = "Verify"
)

// UpgradeStatus is a change of LINSTOR's version that is going on.
type UpgradeStatus struct {
	// from is the version that the database was last used with before the change.
	From string `json:"from"`
	// to is the wanted version.
	To string `json:"to"`
	// step is what is being done.
	Step UpgradeStep `json:"step"`
	// since is when the step began.
	Since metav1.Time `json:"since"`
	// nodesDone is the number of members whose satellite runs the wanted version.
	// +optional
	// +default=0
	NodesDone int32 `json:"nodesDone"`
	// nodesTotal is the number of members.
	// +optional
	// +default=0
	NodesTotal int32 `json:"nodesTotal"`
	// message says what the step waits for.
	// +optional
	Message string `json:"message,omitempty"`
	// skippedChecks says that a human let the upgrade go on in spite of failed checks.
	// +optional
	SkippedChecks bool `json:"skippedChecks,omitempty"`
}

// PoolsStatus counts the storage pools.
type PoolsStatus struct {
	// summary is ready/wanted over all nodes, such as 6/6.
	// +optional
	Summary string `json:"summary,omitempty"`
	// wanted is the number of pools that the members shall have, over all nodes.
	// +optional
	// +default=0
	Wanted int32 `json:"wanted"`
	// ready is the number of those that LINSTOR has without trouble.
	// +optional
	// +default=0
	Ready int32 `json:"ready"`
	// capacity is the total size of the ready pools, in steps of one per cent.
	// +optional
	Capacity *resource.Quantity `json:"capacity,omitempty"`
	// free is the free space in the ready pools, in steps of one per cent of the capacity.
	// +optional
	Free *resource.Quantity `json:"free,omitempty"`
	// updated is when capacity and free were last written.
	// +optional
	Updated *metav1.Time `json:"updated,omitempty"`
	// byPool says the same for each pool of the spec.
	// +optional
	// +listType=map
	// +listMapKey=name
	ByPool []PoolStatus `json:"byPool,omitempty"`
}

// PoolStatus is the state of one entry of spec.storagePools over all nodes.
type PoolStatus struct {
	// name is the entry's name.
	Name string `json:"name"`
	// provider is LINSTOR's provider kind.
	Provider string `json:"provider"`
	// wanted is the number of members that shall have the pool.
	Wanted int32 `json:"wanted"`
	// ready is the number of members that have it without trouble.
	Ready int32 `json:"ready"`
	// capacity is the total size over all nodes.
	// +optional
	Capacity *resource.Quantity `json:"capacity,omitempty"`
	// free is the free space over all nodes.
	// +optional
	Free *resource.Quantity `json:"free,omitempty"`
	// skipped is the number of members that do without the pool because a human answered skip.
	// +optional
	Skipped int32 `json:"skipped,omitempty"`
	// skippedNodes names some of them.
	// +optional
	// +listType=atomic
	SkippedNodes []string `json:"skippedNodes,omitempty"`
	// devices is the number of disks that the operator has made the pool from, over all nodes.
	// +optional
	Devices int32 `json:"devices,omitempty"`
	// recentDevices are the last of those disks, the newest first.
	// +optional
	// +listType=atomic
	RecentDevices []PoolDevice `json:"recentDevices,omitempty"`
}

// PoolDevice is a disk that the operator has made a pool from.
type PoolDevice struct {
	// node is the disk's node.
	Node string `json:"node"`
	// path is the kernel name that it had when it was used. It may have another one since.
	Path string `json:"path"`
	// serial is the disk's serial number.
	// +optional
	Serial string `json:"serial,omitempty"`
	// wwn is the disk's World Wide Name, if it has no serial number.
	// +optional
	WWN string `json:"wwn,omitempty"`
	// size is the disk's size.
	Size resource.Quantity `json:"size"`
	// since is when the pool was made from it.
	Since metav1.Time `json:"since"`
}
