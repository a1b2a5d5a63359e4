package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	KernelModule *KernelModuleStatus `json:"kernelModule,omitempty"`

	// nodes counts the nodes that take part.
	// +optional
	Nodes NodesStatus `json:"nodes,omitempty"`
	// pools counts the storage pools.
	// +optional
	Pools PoolsStatus `json:"pools,omitempty"`
	// volumes is the number of LINSTOR resource definitions at the last look.
	// +optional
	Volumes *int32 `json:"volumes,omitempty"`

	// conditions are the contract for programs. All are present from the first write on.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// history lists the last changes of phase, the newest first.
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
	// message says why.
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
	// options are the answers that the resume annotation may give.
	// +optional
	// +listType=atomic
	Options []string `json:"options,omitempty"`
	// resume is the command that ends the hold, for the first option.
	// +optional
	Resume string `json:"resume,omitempty"`
	// runbook is the page that explains the reason.
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
	// UpgradeController replaces the controller, which migrates the database. There is no automatic way back from here.
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

// KernelModuleStatus counts the versions of DRBD that are loaded. A loader never replaces a module that is loaded: another
// version takes effect when the node is rebooted.
type KernelModuleStatus struct {
	// wanted is the version that the module loaders bring.
	// +optional
	Wanted string `json:"wanted,omitempty"`
	// loaded counts the members by the version that is loaded, ten versions at most.
	// +optional
	// +listType=map
	// +listMapKey=version
	Loaded []ModuleVersionCount `json:"loaded,omitempty"`
	// pendingReboot is the number of members that have another version loaded than the wanted one.
	// +optional
	// +default=0
	PendingReboot int32 `json:"pendingReboot"`
	// examples are such members, ten at most.
	// +optional
	// +listType=atomic
	Examples []string `json:"examples,omitempty"`
}

// ModuleVersionCount is a number of members with one version of DRBD.
type ModuleVersionCount struct {
	// version of DRBD, or unknown.
	Version string `json:"version"`
	// count is the number of members.
	Count int32 `json:"count"`
}

// NodesStatus counts the nodes that take part.
type NodesStatus struct {
	// summary is online/members, such as 3/3.
	// +optional
	Summary string `json:"summary,omitempty"`
	// members is the number of nodes that take part, without those that leave.
	// +optional
	// +default=0
	Members int32 `json:"members"`
	// online is the number of members that are registered, ONLINE and have their pools.
	// +optional
	// +default=0
	Online int32 `json:"online"`
	// minReady is how many must be online for the cluster to count as usable, of those that are not under maintenance.
	// +optional
	// +default=0
	MinReady int32 `json:"minReady"`
	// states counts the members by state; states without members are left out.
	// +optional
	// +listType=map
	// +listMapKey=state
	States []NodeStateCount `json:"states,omitempty"`
	// problems group what is wrong with nodes, with examples.
	// +optional
	// +listType=atomic
	Problems []NodeProblem `json:"problems,omitempty"`
	// leaving are nodes that leave, ten at most: members that spec.nodes no longer selects, and nodes of LINSTOR whose Node
	// object is gone.
	// +optional
	// +listType=atomic
	Leaving []LeavingNode `json:"leaving,omitempty"`
	// leavingCount is the number of such nodes.
	// +optional
	LeavingCount int32 `json:"leavingCount,omitempty"`
	// maintenance are members under maintenance, ten at most.
	// +optional
	// +listType=atomic
	Maintenance []string `json:"maintenance,omitempty"`
	// maintenanceCount is the number of such members.
	// +optional
	MaintenanceCount int32 `json:"maintenanceCount,omitempty"`
}

// LeavingNode is a node that leaves.
type LeavingNode struct {
	// name of the node.
	Name string `json:"name"`
	// state is how far it is: Retained, Waiting, Evacuating or Removing.
	State LeavingState `json:"state"`
	// message says what it waits for.
	// +optional
	Message string `json:"message,omitempty"`
}

// LeavingState is how far a leaving node is.
type LeavingState string

// States of leaving nodes.
const (
	// LeavingRetained: the policy keeps the node as it is.
	LeavingRetained LeavingState = "Retained"
	// LeavingWaiting: its turn has not come, or something is in the way.
	LeavingWaiting LeavingState = "Waiting"
	// LeavingEvacuating: its data is being rebuilt elsewhere.
	LeavingEvacuating LeavingState = "Evacuating"
	// LeavingRemoving: it is being taken out of LINSTOR.
	LeavingRemoving LeavingState = "Removing"
)

// NodeStateCount is a number of nodes in one state.
type NodeStateCount struct {
	// state is a place in the chain.
	State NodeState `json:"state"`
	// count is the number of members in that state.
	Count int32 `json:"count"`
}

// NodeProblem groups nodes with the same trouble.
type NodeProblem struct {
	// reason says what is wrong, as one word.
	Reason string `json:"reason"`
	// message says what is wrong, from the first node.
	Message string `json:"message"`
	// count is the number of nodes.
	Count int32 `json:"count"`
	// nodes are examples, ten at most.
	// +optional
	// +listType=atomic
	Nodes []string `json:"nodes,omitempty"`
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
}

// NodeState is a member's place in the chain: the first link that is not satisfied on it.
type NodeState string

// Node states, in the order of the chain.
const (
	NodeLoadingModule     NodeState = "LoadingModule"
	NodeStartingSatellite NodeState = "StartingSatellite"
	NodeRegistering       NodeState = "Registering"
	NodeCreatingPools     NodeState = "CreatingPools"
	NodeOnline            NodeState = "Online"
	NodeUnreachable       NodeState = "Unreachable"
	NodeHeld              NodeState = "Held"
	// NodeMaintenance: down, as the annotation storage.linstor.dev/maintenance announced.
	NodeMaintenance NodeState = "Maintenance"
	// NodeLeaving: the spec no longer picks it; status.nodes.leaving says how far it is.
	NodeLeaving NodeState = "Leaving"
)
