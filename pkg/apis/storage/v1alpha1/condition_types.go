package v1alpha1

// Types of conditions.
const (
	// ConditionReady is True in phase Ready, and in Degraded while minReady nodes are online.
	ConditionReady = "Ready"
	// ConditionReconciling is True while the operator works towards the spec (kstatus).
	ConditionReconciling = "Reconciling"
	// ConditionStalled is True when it cannot go on by itself (kstatus).
	ConditionStalled = "Stalled"
	// ConditionAvailable is True while LINSTOR's API answers.
	ConditionAvailable = "Available"
	// ConditionDegraded is True while nodes, pools, controller or database are missing that were there.
	ConditionDegraded = "Degraded"
	// ConditionHumanInterventionRequired is True while any hold waits for a human.
	ConditionHumanInterventionRequired = "HumanInterventionRequired"
	// ConditionSuspended is True while spec.suspend is set.
	ConditionSuspended = "Suspended"

	// ConditionMassFailure is True while so many nodes failed at once that no destructive step is taken.
	ConditionMassFailure = "MassFailure"
	// ConditionPoolsNearlyFull is True while a pool on a node is fuller than its warnUsedPercent.
	ConditionPoolsNearlyFull = "PoolsNearlyFull"

	// One condition for each link of the chain.

	ConditionKernelModuleLoaded = "KernelModuleLoaded"
	ConditionDatabaseReady      = "DatabaseReady"
	ConditionControllerReady    = "ControllerReady"
	ConditionSatellitesReady    = "SatellitesReady"
	ConditionNodesRegistered    = "NodesRegistered"
	ConditionStoragePoolsReady  = "StoragePoolsReady"
)

// ConditionTypes lists all types of conditions, in the order in which they are shown.
func ConditionTypes() []string {
	return []string{
		ConditionReady, ConditionReconciling, ConditionStalled, ConditionAvailable, ConditionDegraded,
		ConditionHumanInterventionRequired, ConditionSuspended, ConditionMassFailure, ConditionPoolsNearlyFull,
		ConditionKernelModuleLoaded, ConditionDatabaseReady, ConditionControllerReady, ConditionSatellitesReady,
		ConditionNodesRegistered, ConditionStoragePoolsReady,
	}
}

// Reasons of conditions that are not the name of a phase, a hold or a link's own.
const (
	ReasonNoMatchingNodes = "NoMatchingNodes"
	ReasonAsExpected      = "AsExpected"
	ReasonNotChecked      = "NotChecked"
	ReasonUnknown         = "Unknown"
	ReasonSuspended       = "Suspended"
	ReasonNotSuspended    = "NotSuspended"
	ReasonNoHold          = "NoHold"
	ReasonVolumesExist    = "VolumesExist"
	ReasonNodesFailed     = "NodesFailed"
	ReasonAcknowledged    = "Acknowledged"
	// ReasonRollingSatellites: satellites are restarted, a few at a time, because what their pods are made from changed.
	ReasonRollingSatellites = "RollingSatellites"
)
