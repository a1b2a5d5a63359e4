package v1alpha1

// NodesStatus contains the cluster's node counts.
type NodesStatus struct {
	// summary is online/total. Example: 3/3.
	// +optional
	Summary string `json:"summary,omitempty"`
	// members is the number of cluster nodes, excluding nodes that are leaving.
	// +optional
	// +default=0
	Members int32 `json:"members"`
	// total is the number of nodes that LINSTOR has or should have: members, leaving nodes, and nodes whose Node object
	// was deleted.
	// +optional
	// +default=0
	Total int32 `json:"total"`
	// online is the number of these nodes that are ONLINE in LINSTOR, even if they lack something else.
	// +optional
	// +default=0
	Online int32 `json:"online"`
	// minReady is the number of nodes that must be online for the cluster to be usable, excluding nodes that are under
	// maintenance or joining.
	// +optional
	// +default=0
	MinReady int32 `json:"minReady"`
	// states is the number of members in each state. States without members are omitted.
	// +optional
	// +listType=map
	// +listMapKey=state
	States []NodeStateCount `json:"states,omitempty"`
	// problems lists node problems, with examples.
	// +optional
	// +listType=atomic
	Problems []NodeProblem `json:"problems,omitempty"`
	// leaving lists the nodes that are leaving: members that spec.nodes no longer selects, and LINSTOR nodes whose Node
	// object was deleted. At most ten.
	// +optional
	// +listType=atomic
	Leaving []LeavingNode `json:"leaving,omitempty"`
	// leavingCount is the number of nodes that are leaving.
	// +optional
	LeavingCount int32 `json:"leavingCount,omitempty"`
	// maintenance lists the members under maintenance. At most ten.
	// +optional
	// +listType=atomic
	Maintenance []string `json:"maintenance,omitempty"`
	// maintenanceCount is the number of members under maintenance.
	// +optional
	MaintenanceCount int32 `json:"maintenanceCount,omitempty"`
}

// LeavingNode is a node that is leaving.
type LeavingNode struct {
	// name is the name of the node.
	Name string `json:"name"`
	// state is the state of the removal: Retained, Waiting, Evacuating or Removing.
	State LeavingState `json:"state"`
	// message is what the removal is waiting for.
	// +optional
	Message string `json:"message,omitempty"`
}

// LeavingState is the state of a node's removal.
type LeavingState string

// States of leaving nodes.
const (
	// LeavingRetained: the policy keeps the node as it is.
	LeavingRetained LeavingState = "Retained"
	// LeavingWaiting: the node is waiting for other nodes, or its removal is blocked.
	LeavingWaiting LeavingState = "Waiting"
	// LeavingEvacuating: its data is being rebuilt on other nodes.
	LeavingEvacuating LeavingState = "Evacuating"
	// LeavingRemoving: it is being removed from LINSTOR.
	LeavingRemoving LeavingState = "Removing"
)

// NodeStateCount is the number of members in the same state.
type NodeStateCount struct {
	// state is the state of these members.
	State NodeState `json:"state"`
	// count is the number of members in that state.
	Count int32 `json:"count"`
}

// NodeProblem groups nodes with the same problem.
type NodeProblem struct {
	// reason is a single word for the problem.
	Reason string `json:"reason"`
	// message describes the problem on the first of these nodes.
	Message string `json:"message"`
	// count is the number of these nodes.
	Count int32 `json:"count"`
	// nodes lists some of these nodes. At most ten.
	// +optional
	// +listType=atomic
	Nodes []string `json:"nodes,omitempty"`
}

// NodeState is the state of a member: its first incomplete step.
type NodeState string

// Node states, in the order of the steps.
const (
	// NodeLoadingModule: DRBD has not been loaded yet.
	NodeLoadingModule NodeState = "LoadingModule"
	// NodeStartingSatellite: the satellite is not ready yet.
	NodeStartingSatellite NodeState = "StartingSatellite"
	// NodeRegistering: the node has not been registered in LINSTOR yet, or LINSTOR is connecting to it.
	NodeRegistering NodeState = "Registering"
	// NodeCreatingPools: some pools do not exist yet.
	NodeCreatingPools NodeState = "CreatingPools"
	// NodeStartingDriver: the CSI driver has not been registered with the kubelet yet.
	NodeStartingDriver NodeState = "StartingDriver"
	// NodeOnline: registered, ONLINE, with all its pools, and with the CSI driver if the operator runs it.
	NodeOnline NodeState = "Online"
	// NodeUnreachable: LINSTOR cannot reach the node, or its Node object is not Ready.
	NodeUnreachable NodeState = "Unreachable"
	// NodeHeld: a hold requires an administrator.
	NodeHeld NodeState = "Held"
	// NodeMaintenance: down for maintenance, as announced by the storage.linstor.dev/maintenance annotation.
	NodeMaintenance NodeState = "Maintenance"
	// NodeLeaving: the spec no longer selects the node; status.nodes.leaving shows the progress of its removal.
	NodeLeaving NodeState = "Leaving"
)
