package v1alpha1

// NodesStatus counts the nodes that take part.
type NodesStatus struct {
	// summary is online/total, such as 3/3.
	// +optional
	Summary string `json:"summary,omitempty"`
	// members is the number of nodes that take part, without those that leave.
	// +optional
	// +default=0
	Members int32 `json:"members"`
	// total is the number of nodes that LINSTOR knows or shall know: members, nodes that leave, and those whose Node object is gone.
	// +optional
	// +default=0
	Total int32 `json:"total"`
	// online is the number of those that LINSTOR calls ONLINE, whatever they lack otherwise.
	// +optional
	// +default=0
	Online int32 `json:"online"`
	// minReady is how many must be online for the cluster to count as usable, of those that are neither under
	// maintenance nor joining.
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

// NodeState is a member's place in the chain: the first link that is not satisfied on it.
type NodeState string

// Node states, in the order of the chain.
const (
	// NodeLoadingModule: DRBD is not loaded yet.
	NodeLoadingModule NodeState = "LoadingModule"
	// NodeStartingSatellite: the satellite is not ready yet.
	NodeStartingSatellite NodeState = "StartingSatellite"
	// NodeRegistering: LINSTOR does not know the node yet, or is connecting to it.
	NodeRegistering NodeState = "Registering"
	// NodeCreatingPools: some pools are not there yet.
	NodeCreatingPools NodeState = "CreatingPools"
	// NodeStartingDriver: the kubelet does not have the CSI driver yet.
	NodeStartingDriver NodeState = "StartingDriver"
	// NodeOnline: registered, ONLINE, with all its pools, and with the CSI driver if the operator runs it.
	NodeOnline NodeState = "Online"
	// NodeUnreachable: LINSTOR does not reach it, or its Node is not ready.
	NodeUnreachable NodeState = "Unreachable"
	// NodeHeld: a hold waits for a human.
	NodeHeld NodeState = "Held"
	// NodeMaintenance: down, as the annotation storage.linstor.dev/maintenance announced.
	NodeMaintenance NodeState = "Maintenance"
	// NodeLeaving: the spec no longer picks it; status.nodes.leaving says how far it is.
	NodeLeaving NodeState = "Leaving"
)
